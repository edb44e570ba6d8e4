--- show/profile.lua - what a traced step took: totals by op, and lanes of time.
--
--   local r, profile = sess:run(train, feeds, {trace = true})
--
-- A lane is a thread of a device, a box an op from its start to its end. Of
-- many short ones in a lane those that share a pixel are drawn as one.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local axis = require "tide.show.axis"
local colour = require "tide.show.colour"
local html = require "tide.show.html"
local spark = require "tide.show.spark"
local style = require "tide.show.style"
local svg = require "tide.show.svg"
local tables = require "tide.show.tables"

local profile = {}
local methods = {}
local meta = {__name = "profile", __index = methods}

local MOST_OPS = 12    -- rows of totals
local MOST_LANES = 24
local WIDTH, LANE, LEFT = 760, 22, 110

--- A trace of the binding, {events =, totals =, chrome =}, as a profile.
function profile.of(trace)
  return setmetatable(trace, meta)
end

-- ---- totals ----------------------------------------------------------------

-- Rows {op =, calls =, seconds =, bytes =}, longest first, and their sum.
local function totals(p)
  local by_op, list, sum = {}, {}, 0
  for _, e in ipairs(p.events) do
    local row = by_op[e.op]
    if not row then
      row = {op = e.op, calls = 0, seconds = 0, bytes = 0}
      by_op[e.op] = row
      list[#list + 1] = row
    end
    local seconds = (e.stop - e.start) * 1e-9
    row.calls, row.bytes = row.calls + 1, row.bytes + e.bytes
    row.seconds = row.seconds + seconds
    sum = sum + seconds
  end
  table.sort(list, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.op < b.op
  end)
  return list, sum
end

-- First start and last end, in ns.
local function span(p)
  local first, last = math.huge, -math.huge
  for _, e in ipairs(p.events) do
    first, last = math.min(first, e.start), math.max(last, e.stop)
  end
  if last < first then return 0, 1 end
  return first, math.max(last, first + 1)
end

-- Lanes {device =, thread =, events =}, by device, then thread.
local function lanes(p)
  local known, list = {}, {}
  for _, e in ipairs(p.events) do
    local key = ("%s %d"):format(e.device, e.thread)
    if not known[key] then
      known[key] = {device = e.device, thread = e.thread, events = {}}
      list[#list + 1] = known[key]
    end
    table.insert(known[key].events, e)
  end
  table.sort(list, function(a, b)
    if a.device ~= b.device then return a.device < b.device end
    return a.thread < b.thread
  end)
  return list
end

local function short(device)
  return device:match "device:(.*)$" or device
end

local function head(p)
  local first, last = span(p)
  return ("Profile of %s nodes in %s, %d lane%s"):format(
    style.count(#p.events), #p.events > 0
    and style.seconds((last - first) * 1e-9) or "no time", #lanes(p),
    #lanes(p) == 1 and "" or "s")
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
      add(row.op, row)
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
    out[i] = ("%s %s"):format(html.cut(e.node, 40),
                              style.seconds((e.stop - e.start) * 1e-9))
  end
  return table.concat(out, ", ")
end

function meta.__repr_pretty(p)
  local list = rows(p)
  for _, row in ipairs(list) do row[6] = spark.bar(row[6], 16) end
  if #list == 0 then return head(p) end
  local names = table.move(columns, 1, #columns, 1, {})
  names[6] = ""
  return ("%s\n%s\nslowest: %s"):format(head(p), tables.layout(list, names,
    style.width(), {false, true, true, true, true, false}), slowest(p))
end

-- ---- lanes -----------------------------------------------------------------

-- A colour for each of the longest ops, grey for the others.
local function inks(p)
  local ink, list = {}, totals(p)
  for i = 1, math.min(#list, #colour.series - 1) do
    ink[list[i].op] = colour.series[i]
  end
  return ink, list
end

-- The boxes of a lane: events, those within a pixel as one. An op that begins
-- before the one before it has ended stands lower.
local function draw_lane(d, lane, y, x, ink)
  local from, to, fill, busy
  local function flush()
    if from then
      d:rect(from, y + 2, math.max(to - from, 0.4), LANE - 5, {fill = fill})
    end
    from = nil
  end
  for _, e in ipairs(lane.events) do
    local a, b = x.place(e.start + 0.0), x.place(e.stop + 0.0)
    local wide = b - a >= 0.6
    if wide or not from or a - to > 0.6 then flush() end
    if wide then
      local inside = busy and a < busy - 0.6
      d:rect(a, inside and y + 8 or y + 2, b - a, inside and LANE - 11
        or LANE - 5, {fill = ink[e.op] or "#999999", stroke = "#ffffff",
                      ["stroke-width"] = 0.3})
      if b - a > 7 * #e.op then
        d:text(a + 3, y + 14, e.op, {["font-size"] = 9, fill = "#ffffff"})
      end
    elseif from then
      to = math.max(to, b)
    else
      from, to, fill = a, b, ink[e.op] or "#999999"
    end
    busy = math.max(busy or b, b)
  end
  flush()
end

local function draw_axis(d, low, high, bottom)
  local x = axis.new(0, (high - low) * 1e-9, LEFT, WIDTH - 14)
  for _, tick in ipairs(x.ticks) do
    local at = x.place(tick[1])
    d:line(at, 8, at, bottom, {stroke = "#e6e6e6"})
    d:text(at, bottom + 14, style.seconds(tick[1]),
           {["text-anchor"] = "middle", ["font-size"] = 9, fill = "#444444"})
  end
end

local function draw_legend(d, list, ink, y)
  local x = LEFT
  for _, row in ipairs(list) do
    if not ink[row.op] or x > WIDTH - 120 then break end
    d:rect(x, y - 8, 9, 9, {fill = ink[row.op]})
    d:text(x + 13, y, html.cut(row.op, 20), {["font-size"] = 10})
    x = x + 26 + 6.2 * math.min(20, #row.op)
  end
end

local function drawing(p)
  local all, ink, list = lanes(p), inks(p)
  local n = math.min(#all, MOST_LANES)
  local low, high = span(p)
  local bottom = 10 + n * LANE
  local d = svg.drawing(WIDTH, bottom + 44)
  draw_axis(d, low, high, bottom)
  local x = axis.new(low, high, LEFT, WIDTH - 14)
  for k = 1, n do
    local y = 10 + (k - 1) * LANE
    d:text(LEFT - 6, y + 14, ("%s, %d"):format(html.cut(short(all[k].device),
      14), all[k].thread), {["text-anchor"] = "end", ["font-size"] = 10})
    draw_lane(d, all[k], y, x, ink)
    d:line(4, y + LANE - 1, WIDTH - 14, y + LANE - 1, {stroke = "#eeeeee"})
  end
  draw_legend(d, list, ink, bottom + 34)
  return d, #all - n
end

function meta.__repr_html(p)
  if #p.events == 0 then return "<div>" .. html.escape(head(p)) .. "</div>" end
  local d, left = drawing(p)
  local lines = {}
  for i, row in ipairs(rows(p)) do
    local cells = {}
    for k = 1, #columns do
      cells[k] = ("<td style=\"text-align: %s\">%s</td>"):format(
        k == 1 and "left" or "right", html.escape(row[k]))
    end
    lines[i] = "<tr>" .. table.concat(cells) .. "</tr>"
  end
  local head_cells = "<th style=\"text-align: left\">"
    .. table.concat(columns, "</th><th style=\"text-align: right\">") .. "</th>"
  local body = ("<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>")
    :format(head_cells, table.concat(lines))
  return ("<div><b>%s</b><br/>%s%s%s<div>slowest: %s</div></div>"):format(
    html.escape(head(p)), d:image("lanes of time"), left > 0
    and ("<div>%d lanes more</div>"):format(left) or "",
    html.fold("totals by op", body, true), html.escape(slowest(p)))
end

--- The lanes as the text of an SVG file.
function methods.svg(p)
  return (drawing(p):done())
end

--- Writes a file that chrome://tracing and Perfetto open.
function methods.save(p, path)
  args.expect(path, "string", "save: the path")
  core.write_file(path, p.chrome)
end

return profile
