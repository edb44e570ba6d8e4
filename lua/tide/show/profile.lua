--- show/profile.lua - what a traced step took: totals by op, and lanes of time.
--
--   local r, profile = sess:run(train, feeds, {trace = true})
--
-- Of a step over several tasks the times of all are on one axis, moved by how
-- far their clocks are ahead, which is known within an error that is shown.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local html = require "tide.show.html"
local spark = require "tide.show.spark"
local style = require "tide.show.style"
local tables = require "tide.show.tables"
local timeline = require "tide.show.timeline"

local profile = {}
local methods = {}
local meta = {__name = "profile", __index = methods}

local MOST_OPS = 12       -- rows of totals
local MOST_TRANSFERS = 12

--- A trace of the binding, {events =, arrows =, launches =, tasks =, totals =,
-- chrome =}, as a profile.
function profile.of(trace)
  return setmetatable(trace, meta)
end

-- ---- totals ----------------------------------------------------------------

-- An event's op; of what ran on a card's stream with that.
local function name_of(e)
  return e.stream and e.op .. ", " .. e.stream or e.op
end

-- Rows {op =, name =, calls =, seconds =, bytes =}, longest first, and their
-- sum: ops of the host's threads, and those of streams.
local function totals(p)
  local by_op, list, sum = {}, {}, 0
  for _, e in ipairs(p.events) do
    local name = name_of(e)
    local row = by_op[name]
    if not row then
      row = {op = e.op, name = name, calls = 0, seconds = 0, bytes = 0}
      by_op[name] = row
      list[#list + 1] = row
    end
    local seconds = (e.stop - e.start) * 1e-9
    row.calls, row.bytes = row.calls + 1, row.bytes + e.bytes
    row.seconds = row.seconds + seconds
    sum = sum + seconds
  end
  table.sort(list, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.name < b.name
  end)
  return list, sum
end

local function counted(n, what)
  return ("%s %s%s"):format(style.count(n), what, n == 1 and "" or "s")
end

-- Values that went from one device to another: how many, of how many bytes.
local function transfers(p)
  local sum = 0
  for _, a in ipairs(p.arrows or {}) do sum = sum + a.bytes end
  return p.arrows and #p.arrows or 0, sum
end

local function head(p)
  local first, last = timeline.span(p)
  local n, bytes = transfers(p)
  local tasks = timeline.count_tasks(p)
  local work = 0
  for _, e in ipairs(p.events) do work = work + (e.stream and 1 or 0) end
  return ("Profile of %s nodes%s in %s, %s%s%s"):format(
    style.count(#p.events - work), work > 0
    and " and what they enqueued" or "", #p.events > 0
    and style.seconds((last - first) * 1e-9) or "no time",
    counted(#timeline.lanes(p), "lane"),
    tasks > 1 and " of " .. counted(tasks, "task") or "",
    n > 0 and (", %s of %s"):format(counted(n, "transfer"),
                                    style.bytes(bytes)) or "")
end

-- Where it failed, and what is not there: lines.
local function lacks(p)
  local out = {}
  for _, e in ipairs(p.events) do
    if e.failed then
      out[#out + 1] = ("failed: %s (%s) on %s, after %s"):format(e.node, e.op,
        timeline.short(e.device), style.seconds((e.stop - e.start) * 1e-9))
    end
  end
  for _, t in ipairs(p.tasks or {}) do
    if t.trouble then
      out[#out + 1] = ("nothing of %s: %s"):format(t.task, t.trouble)
    elseif t.dropped > 0 then
      out[#out + 1] = ("%s left out %s"):format(t.task,
        counted(t.dropped, "event"))
    end
  end
  return out
end

-- Rows of texts: the ops, and one for the rest.
local function rows(p)
  local list, sum = totals(p)
  local out = {}
  local function add(name, row)
    local share = sum > 0 and row.seconds / sum or 0
    out[#out + 1] = {html.cut(name, 28), style.count(row.calls),
      style.seconds(row.seconds), ("%.1f %%"):format(100 * share),
      style.bytes(row.bytes), share}
  end
  local rest = {calls = 0, seconds = 0, bytes = 0}
  for i, row in ipairs(list) do
    if i <= MOST_OPS then
      add(row.name, row)
    else
      for key, v in pairs(rest) do rest[key] = v + row[key] end
    end
  end
  if #list > MOST_OPS then
    add(("%d ops more"):format(#list - MOST_OPS), rest)
  end
  return out
end

local columns = {"op", "calls", "time", "share", "made"}

function meta.__tostring(p) return head(p) end

-- The nodes that took longest.
local function slowest(p)
  local list = table.move(p.events, 1, #p.events, 1, {})
  table.sort(list, function(a, b)
    local x, y = a.stop - a.start, b.stop - b.start
    if x ~= y then return x > y end
    return a.node < b.node
  end)
  local out = {}
  for i = 1, math.min(3, #list) do
    local e = list[i]
    out[i] = ("%s %s%s"):format(html.cut(e.node, 40),
      e.stream and "(" .. e.stream .. ") " or "",
      style.seconds((e.stop - e.start) * 1e-9))
  end
  return table.concat(out, ", ")
end

-- Rows of texts: what each device did, and each of its streams, when there are
-- several.
local function device_rows(p)
  local known, list, out = {}, {}, {}
  for _, e in ipairs(p.events) do
    local key = e.device .. (e.stream and ", " .. e.stream or "")
    local row = known[key]
    if not row then
      row = {device = key, stream = e.stream, thread = e.stream and e.thread,
             calls = 0, ns = 0, bytes = 0}
      known[key] = row
      list[#list + 1] = row
    end
    row.calls, row.bytes = row.calls + 1, row.bytes + e.bytes
    row.ns = row.ns + (e.stop - e.start)
  end
  timeline.sort(list)
  for i, row in ipairs(list) do
    out[i] = {(row.device:gsub("/replica:0", "")), style.count(row.calls),
              style.seconds(row.ns * 1e-9), style.bytes(row.bytes)}
  end
  return #out > 1 and out or {}
end

local device_columns = {"device", "events", "time", "made"}

-- What is covered by pieces of time {from, to}: a list of those that do not
-- touch, and their length.
local function cover(pieces)
  local out, sum = {}, 0
  table.sort(pieces, function(a, b) return a[1] < b[1] end)
  for _, s in ipairs(pieces) do
    local last = out[#out]
    if last and s[1] <= last[2] then
      last[2] = math.max(last[2], s[2])
    else
      out[#out + 1] = {s[1], s[2]}
    end
  end
  for _, s in ipairs(out) do sum = sum + s[2] - s[1] end
  return out, sum
end

-- The length of what is in both of two such lists.
local function common(a, b)
  local i, k, sum = 1, 1, 0
  while a[i] and b[k] do
    sum = sum + math.max(0, math.min(a[i][2], b[k][2])
                            - math.max(a[i][1], b[k][1]))
    if a[i][2] < b[k][2] then i = i + 1 else k = k + 1 end
  end
  return sum
end

-- The cards: {device =, compute =, copies = pieces, waited = ns of the
-- launches}, by name.
local function cards(p)
  local known, list = {}, {}
  for _, e in ipairs(p.events) do
    if e.stream then
      local card = known[e.device]
      if not card then
        card = {device = e.device, compute = {}, copies = {}, waited = {}}
        known[e.device], list[#list + 1] = card, card
      end
      table.insert(e.stream == "compute" and card.compute or card.copies,
                   {e.start, e.stop})
      card.waited[#card.waited + 1] = e.start - e.ready
    end
  end
  timeline.sort(list)
  return list
end

local function middle(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- How busy each card was: lines.
local function card_lines(p)
  local first, last = timeline.span(p)
  local memory, out = timeline.memory(p), {}
  local function share(ns, of) return ("%.0f %%"):format(100 * ns / of) end
  for _, card in ipairs(cards(p)) do
    local compute, computes = cover(card.compute)
    local copies, copied = cover(card.copies)
    local both, most = common(compute, copies), 0
    for _, v in ipairs(memory[card.device] or {}) do
      most = math.max(most, v[2])
    end
    out[#out + 1] = ("%s: computes %s of the time, copies %s%s; work waited %s "
      .. "to begin (median); at most %s in use"):format(
      timeline.short(card.device), share(computes, last - first),
      share(copied, last - first),
      copied > 0 and (", %s of it meanwhile"):format(share(both, copied)) or "",
      style.seconds(middle(card.waited) * 1e-9), style.bytes(most))
  end
  return out
end

-- Rows of texts: the values that were waited for the longest.
local function transfer_rows(p)
  local list = table.move(p.arrows or {}, 1, transfers(p), 1, {})
  local out = {}
  table.sort(list, function(a, b)
    if a.waited ~= b.waited then return a.waited > b.waited end
    return a.to < b.to
  end)
  for i = 1, math.min(#list, MOST_TRANSFERS) do
    local a = list[i]
    local from, to = p.events[a.from], p.events[a.to]
    local error = a.error > 0 and " ± " .. style.seconds(a.error * 1e-9) or ""
    out[i] = {html.cut(a.value, 28), timeline.short(from.device),
      timeline.short(to.device), style.bytes(a.bytes),
      style.seconds(a.waited * 1e-9),
      style.seconds(math.max(0, to.stop - from.start) * 1e-9) .. error}
  end
  return out
end

local transfer_columns = {"value", "from", "to", "bytes", "waited for",
                          "sent until there"}
local transfer_right = {false, false, false, true, true, true}

function meta.__repr_pretty(p)
  local list = rows(p)
  for _, row in ipairs(list) do row[6] = spark.bar(row[6], 16) end
  local out = {head(p)}
  local function add(rows_of, names, right)
    if #rows_of == 0 then return end
    out[#out + 1] = tables.layout(rows_of, names, style.width(), right)
  end
  local names = table.move(columns, 1, #columns, 1, {})
  names[6] = ""
  add(list, names, {false, true, true, true, true, false})
  add(device_rows(p), device_columns, {false, true, true, true})
  add(transfer_rows(p), transfer_columns, transfer_right)
  table.move(card_lines(p), 1, #card_lines(p), #out + 1, out)
  table.move(lacks(p), 1, #lacks(p), #out + 1, out)
  if #list > 0 then out[#out + 1] = "slowest: " .. slowest(p) end
  return table.concat(out, "\n")
end

-- ---- HTML -------------------------------------------------------------------

-- `right`: which columns are numbers.
local function html_table(list, names, right)
  local function cells(row, tag)
    local out = {}
    for k = 1, #names do
      out[k] = ("<%s style=\"text-align: %s\">%s</%s>"):format(tag,
        right[k] and "right" or "left", html.escape(row[k]), tag)
    end
    return "<tr>" .. table.concat(out) .. "</tr>"
  end
  local lines = {}
  for i, row in ipairs(list) do lines[i] = cells(row, "td") end
  return ("<table><thead>%s</thead><tbody>%s</tbody></table>"):format(
    cells(names, "th"), table.concat(lines))
end

function meta.__repr_html(p)
  if #p.events == 0 then
    return "<div>" .. html.escape(head(p)) .. "</div>"
  end
  local d, left = timeline.drawing(p, totals(p))
  local out = {"<b>", html.escape(head(p)), "</b><br/>",
               d:image "lanes of time"}
  local function add(...)
    table.move({...}, 1, select("#", ...), #out + 1, out)
  end
  local function fold(title, list, names, right, open)
    if #list == 0 then return end
    add(html.fold(title, html_table(list, names, right), open))
  end
  if left > 0 then add(("<div>%d lanes more</div>"):format(left)) end
  for _, line in ipairs(card_lines(p)) do
    add("<div>", html.escape(line), "</div>")
  end
  for _, line in ipairs(lacks(p)) do
    add("<div>", html.escape(line), "</div>")
  end
  fold("totals by op", rows(p), columns, {false, true, true, true, true}, true)
  fold("by device", device_rows(p), device_columns, {false, true, true, true})
  fold("transfers", transfer_rows(p), transfer_columns, transfer_right)
  add("<div>slowest: ", html.escape(slowest(p)), "</div>")
  return "<div>" .. table.concat(out) .. "</div>"
end

--- The lanes as the text of an SVG file.
function methods.svg(p)
  return (timeline.drawing(p, totals(p)):done())
end

--- Writes a file that chrome://tracing and Perfetto open.
function methods.save(p, path)
  args.expect(path, "string", "save: the path")
  core.write_file(path, p.chrome)
end

return profile
