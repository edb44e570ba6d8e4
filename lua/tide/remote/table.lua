--- remote/table.lua - workers as a table: who is there, and how each is.
--
-- Rows are plain tables, {task =, state =, heartbeat =, steps =, step_rate =,
-- memory =, bytes_in =, bytes_out =, devices =, error =, last_error =}, of
-- which any may be missing; the list of them displays itself. What is wrong is
-- seen first: of many workers those in trouble are always shown, and an error
-- has lines of its own below its worker, so that a long one widens no column.
-- Signs, and no colours, tell states apart.
-- SPDX-License-Identifier: Apache-2.0

local html = require "tide.show.html"
local json = require "tide.base.json"
local style = require "tide.show.style"
local tables = require "tide.show.tables"

local workers = {}
local meta = {__name = "workers"}

local MOST_ROWS = 40    -- that are shown
local MOST_ERROR = 90   -- characters of an error before the rest is folded
local ERROR_LINES = 3   -- of an error in text
local MOST_TEXT = 4000  -- characters of an error at all
local MOST_WORD = 32    -- characters of a task, a state, devices

-- ---- cells -----------------------------------------------------------------

-- Any text on one line, at most `most` characters of it.
local function clean(x, most)
  local text = json.utf8(tostring(x)):gsub("%s+", " ")
  text = text:gsub("[%c\127]", "\u{FFFD}"):gsub("^ ", ""):gsub(" $", "")
  return html.cut(text, most or MOST_WORD)
end

local function is_number(x)
  return type(x) == "number" and x == x and math.abs(x) ~= math.huge
end

-- What f makes of a number that can be shown; "" of anything else, and of what
-- is no integer of Lua any more.
local function of_number(f)
  return function(x)
    return is_number(x) and math.abs(x) < 2^62 and f(x) or ""
  end
end

-- "4.94 M" of many: what counts is whether it grows.
local brief = of_number(function(x)
  if x < 1e6 then return style.count(x // 1 | 0) end
  local unit = x < 1e9 and "M" or x < 1e12 and "G" or "T"
  local size = unit == "M" and 1e6 or unit == "G" and 1e9 or 1e12
  return ("%.3g %s"):format(x / size, unit)
end)

local bytes = of_number(function(x)
  return x >= 0 and style.bytes(x // 1 | 0) or ""
end)

local rate = of_number(function(x)
  return (x < 100 and "%.1f" or "%.0f"):format(x)
end)

-- Seconds since a worker was heard.
local heard = of_number(function(x)
  return x < 60 and ("%.1f s"):format(x) or style.seconds(x)
end)

-- "worker 3" of /job:worker/task:3.
local function task_text(row)
  local task = clean(row.task or "?", 200)
  local job, number = task:match "^/job:([%w_]+)/.*task:(%d+)$"
  return html.cut(job and job .. " " .. number or task, MOST_WORD)
end

local signs = {up = "●", suspect = "◐", joining = "◌", dead = "✕"}

local function state_text(row)
  local state = clean(row.state or "?")
  return (signs[state] or "·") .. " " .. state
end

-- "2 CPU, 1 CUDA" of a list of devices; what is no list as it is.
local function devices_text(row)
  if row.devices == nil then return "" end
  if type(row.devices) ~= "table" then return clean(row.devices) end
  local n, kinds, parts = {}, {}, {}
  for _, name in ipairs(row.devices) do
    local kind = clean(tostring(name):match "([%w_]+):%d+$" or name)
    if not n[kind] then kinds[#kinds + 1] = kind end
    n[kind] = (n[kind] or 0) + 1
  end
  for i, kind in ipairs(kinds) do parts[i] = ("%d %s"):format(n[kind], kind) end
  return html.cut(table.concat(parts, ", "), MOST_WORD)
end

-- Those that do not fit go from the end.
local names = {"task", "state", "heard", "steps/s", "memory", "in", "out",
               "devices", "steps"}
local right = {false, false, true, true, true, true, true, false, true}

local function cells_of(row)
  return {task_text(row), state_text(row), heard(row.heartbeat),
          rate(row.step_rate), bytes(row.memory), bytes(row.bytes_in),
          bytes(row.bytes_out), devices_text(row), brief(row.steps)}
end

-- An error of Tide's is a table with a text of its own.
local function error_of(row)
  local e = row.error
  if type(e) == "table" and not getmetatable(e) then e = e.message end
  local text = e and clean(e, MOST_TEXT) or ""
  return text ~= "" and text or nil
end

-- What stands below a worker: why it is in trouble, or, of one that is well,
-- how a step failed there last.
local function note_of(row)
  local last = row.last_error and clean(row.last_error, MOST_TEXT) or ""
  return error_of(row) or last ~= "" and "last error: " .. last or nil
end

-- ---- which rows ------------------------------------------------------------

-- By job, then task, as numbers.
local function order_of(rows)
  local list = {}
  for i, row in ipairs(rows) do
    local job, task = tostring(row.task):match "^(.*task:)(%d+)$"
    list[i] = {row = row, at = i, job = job or tostring(row.task),
               task = tonumber(task) or 0}
  end
  table.sort(list, function(a, b)
    if a.job ~= b.job then return a.job < b.job end
    if a.task ~= b.task then return a.task < b.task end
    return a.at < b.at
  end)
  return list
end

local function is_well(row)
  return row.state == "up" and not error_of(row)
end

-- Marks `most` of the list as shown, those in trouble before the others.
local function choose(list, most)
  local left = most
  for _, well in ipairs{false, true} do
    for _, entry in ipairs(list) do
      if left > 0 and is_well(entry.row) == well then
        entry.shown, left = true, left - 1
      end
    end
  end
end

-- The rows to be shown, in order, and what to say of the others.
local function shown(rows, most)
  local list, some, rest, trouble = order_of(rows), {}, 0, 0
  choose(list, most)
  for _, entry in ipairs(list) do
    if entry.shown then
      some[#some + 1] = entry.row
    else
      rest = rest + 1
      trouble = trouble + (is_well(entry.row) and 0 or 1)
    end
  end
  if rest == 0 then return some end
  return some, ("%s more, %s"):format(style.count(rest), trouble == 0
    and "all up" or style.count(trouble) .. " of them in trouble")
end

-- "3 workers: 2 up, 1 dead; memory 1.2 GB, in 3 MB, out 4 MB".
local function head(rows)
  local n, states, parts = {}, {}, {}
  local sums = {memory = 0, bytes_in = 0, bytes_out = 0}
  for _, row in ipairs(rows) do
    local state = clean(row.state or "?")
    if not n[state] then states[#states + 1] = state end
    n[state] = (n[state] or 0) + 1
    for key, sum in pairs(sums) do
      if bytes(row[key]) ~= "" then sums[key] = sum + row[key] end
    end
  end
  table.sort(states, function(a, b)
    if n[a] ~= n[b] then return n[a] > n[b] end
    return a < b
  end)
  for i, state in ipairs(states) do
    parts[i] = ("%s %s"):format(style.count(n[state]), state)
  end
  if #rows == 0 then return "No workers" end
  return ("%s worker%s: %s; memory %s, in %s, out %s"):format(
    style.count(#rows), #rows == 1 and "" or "s", table.concat(parts, ", "),
    bytes(sums.memory), bytes(sums.bytes_in), bytes(sums.bytes_out))
end

-- ---- text ------------------------------------------------------------------

-- Words on at most `most` lines of `width` columns, two blanks before each.
local function wrapped(text, width, most)
  local lines, line = {}, " "
  for word in text:gmatch "%S+" do
    local wide = style.columns(line) + 1 + style.columns(word) > width
    if wide and line ~= " " then
      lines[#lines + 1] = line
      line = " "
    end
    line = line .. " " .. word
  end
  lines[#lines + 1] = line
  for i, text_ in ipairs(lines) do lines[i] = style.cut(text_, width) end
  if #lines > most then
    lines[most] = style.cut(lines[most] .. " …", width)
    lines = table.move(lines, 1, most, 1, {})
  end
  return lines
end

-- On two lines where one is too short.
local function head_lines(rows, width)
  local text = head(rows)
  if style.columns(text) > width then text = text:gsub("; ", ";\n  ", 1) end
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    lines[#lines + 1] = style.cut(line, width)
  end
  return lines
end

--- Rows as lines of text.
-- @param rows the list
-- @param[opt] o width in columns (the terminal's); rows: how many lines of
-- workers at most (40)
function workers.text(rows, o)
  local width = o and o.width or style.width()
  local some, rest = shown(rows, o and o.rows or MOST_ROWS)
  local lines, cells = head_lines(rows, width), {}
  if #rows == 0 then return lines[1] end
  for i, row in ipairs(some) do cells[i] = cells_of(row) end
  local at = 0
  for line in (tables.layout(cells, names, width, right) .. "\n")
    :gmatch "([^\n]*)\n" do
    lines[#lines + 1] = line
    local row = some[at - 1] -- two lines are the head
    local text = row and note_of(row)
    if text then
      for _, part in ipairs(wrapped(text, width, ERROR_LINES)) do
        lines[#lines + 1] = style.paint("red", part)
      end
    end
    at = at + 1
  end
  if rest then lines[#lines + 1] = rest end
  return table.concat(lines, "\n")
end

-- ---- HTML ------------------------------------------------------------------

local CELL = "padding: 2px 5px; white-space: nowrap; text-align: "

-- `marked`: the state is what to see first.
local function html_row(cells, tag, marked)
  local out = {}
  for k, text in ipairs(cells) do
    local inner = html.escape(text)
    if marked and k == 2 then inner = html.tag("b", nil, inner) end
    out[k] = html.tag(tag, {style = CELL .. (right[k] and "right" or "left")},
                      inner)
  end
  return "<tr>" .. table.concat(out) .. "</tr>"
end

-- A long one opens.
local function html_error(text)
  local inner = html.escape(text)
  if utf8.len(text) > MOST_ERROR then
    inner = html.fold(html.escape(html.cut(text, MOST_ERROR)), inner)
  end
  local narrow = html.tag("div", {style = "max-width: 38em; "
    .. "overflow-wrap: anywhere"}, inner)
  return html.tag("tr", nil, html.tag("td", {colspan = #names, style =
    "padding: 0 5px 4px 20px; text-align: left; white-space: normal"}, narrow))
end

--- Rows as HTML, for both themes.
function workers.html(rows, o)
  local title = ("<b>%s</b>"):format(html.escape(head(rows)))
  if #rows == 0 then return "<div>" .. title .. "</div>" end
  local some, rest = shown(rows, o and o.rows or MOST_ROWS)
  local lines = {}
  for _, row in ipairs(some) do
    lines[#lines + 1] = html_row(cells_of(row), "td", not is_well(row))
    local text = note_of(row)
    if text then lines[#lines + 1] = html_error(text) end
  end
  return ("<div>%s<div style=\"overflow-x: auto\"><table><thead>%s</thead>"
    .. "<tbody>%s</tbody></table></div>%s</div>"):format(title,
    html_row(names, "th"), table.concat(lines),
    rest and html.escape(rest) or "")
end

-- ---- the list --------------------------------------------------------------

function meta.__tostring(rows) return head(rows) end

function meta.__repr_pretty(rows) return workers.text(rows) end

function meta.__repr_html(rows) return workers.html(rows) end

--- The same list, which shows itself as a table from now on.
function workers.of(rows)
  return setmetatable(rows, meta)
end

return workers
