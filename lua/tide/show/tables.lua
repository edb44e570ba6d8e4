--- show/tables.lua - tables: rows in columns.
--
-- Numbers stand to the right, others to the left. Of many rows the first and
-- the last ones are shown; columns that do not fit are left out, and counted.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local html = require "tide.show.html"
local number = require "tide.show.number"
local style = require "tide.show.style"
local value = require "tide.show.value"

local tables = {}

local MOST_ROWS = 60
local MOST_CELL = 40
local MOST_COLUMNS = 100

-- ---- cells -----------------------------------------------------------------

local function cell_text(v)
  if v == nil then return "" end
  if type(v) == "number" then return number.text(v, 6) end
  local text = type(v) == "string" and v or value.text(v, MOST_CELL)
  if text:find "%c" or not utf8.len(text) then
    text = value.quote(text):sub(2, -2)
  end
  return html.cut(text, MOST_CELL)
end

--- Rows of texts in columns with their names, as lines; `right` tells which
-- columns stand to the right (all but the first without it).
function tables.layout(rows, names, width, right)
  local widths, used, shown = {}, 0, 0
  for k = 1, #names do
    local w = style.columns(names[k])
    for _, row in ipairs(rows) do
      w = math.max(w, style.columns(row[k] or ""))
    end
    if k > 1 and used + w > width then break end
    widths[k], used, shown = w, used + w + 2, k
  end
  local function line(row, fill)
    local cells = {}
    for k = 1, shown do
      local left = right and not right[k] or not right and k == 1
      cells[k] = fill and fill:rep(widths[k])
        or style.pad(row[k] or "", widths[k], not left)
    end
    return (table.concat(cells, "  "):gsub(" +$", ""))
  end
  local lines = {line(names), line(names, "─")}
  for _, row in ipairs(rows) do lines[#lines + 1] = line(row) end
  if shown < #names then
    lines[#lines + 1] = ("(%d column%s more)"):format(#names - shown,
      #names - shown == 1 and "" or "s")
  end
  return table.concat(lines, "\n")
end

-- ---- reading ---------------------------------------------------------------

-- The names of the columns: those given, else all keys, sorted.
local function columns_of(rows, columns)
  if columns then
    local names = {}
    for k, name in ipairs(columns) do names[k] = tostring(name) end
    return columns, names
  end
  local seen, keys, widest = {}, {}, 0
  for _, row in ipairs(rows) do
    widest = math.max(widest, #row)
    for key in pairs(row) do
      if type(key) == "string" and not seen[key] then
        seen[key] = true
        keys[#keys + 1] = key
      end
    end
  end
  table.sort(keys)
  for k = widest, 1, -1 do table.insert(keys, 1, k) end
  local names = {}
  for k, key in ipairs(keys) do names[k] = tostring(key) end
  return keys, names
end

-- Which rows are shown; false stands for those left out.
local function shown(n)
  local list = {}
  for i = 1, n do
    if n <= MOST_ROWS or i <= MOST_ROWS // 2 or i > n - MOST_ROWS // 2 then
      list[#list + 1] = i
    elseif list[#list] then
      list[#list + 1] = false
    end
  end
  return list
end

local meta = {__name = "table"}

-- Texts of the rows that are shown, and which columns hold numbers.
local function texts_of(t)
  local lines, right = {}, {}
  local by_name = t.by_name
  for k = 1, #t.keys do right[k] = true end
  for n, i in ipairs(shown(#t.rows)) do
    local line = {}
    for k, key in ipairs(t.keys) do
      local v = i and t.rows[i][key]
      if i and v == nil and not by_name then v = t.rows[i][k] end
      if v ~= nil and i and type(v) ~= "number" then right[k] = false end
      line[k] = i and cell_text(v) or "…"
    end
    lines[n] = line
  end
  return lines, right
end

function meta.__tostring(t)
  if #t.rows == 0 then return "Table without rows" end
  local lines, right = texts_of(t)
  local text = tables.layout(lines, t.names, style.width(), right)
  if t.title then text = t.title .. "\n" .. text end
  if #t.rows <= MOST_ROWS then return text end
  return ("%s\n%s rows"):format(text, style.count(#t.rows))
end

function meta.__repr_html(t)
  local lines, right = texts_of(t)
  local function row(cells, tag)
    local out = {}
    for k, text in ipairs(cells) do
      out[k] = ("<%s style=\"text-align: %s\">%s</%s>"):format(tag,
        right[k] and #lines > 0 and "right" or "left", html.escape(text), tag)
    end
    return "<tr>" .. table.concat(out) .. "</tr>"
  end
  local parts = {}
  for i, cells in ipairs(lines) do parts[i] = row(cells, "td") end
  return ("<div>%s<table><thead>%s</thead><tbody>%s</tbody></table>%s</div>")
    :format(t.title and "<b>" .. html.escape(t.title) .. "</b>" or "",
      row(t.names, "th"), table.concat(parts), #t.rows > MOST_ROWS
      and style.count(#t.rows) .. " rows" or "")
end

--- Rows as a table.
-- @param rows a list of rows, each a list or {name = value}
-- @param[opt] o columns: which, and in what order; title
function tables.table(rows, o)
  o = args.read(o, {"columns", "title"}, "table")
  args.expect(rows, "table", "table: the rows")
  args.expect_all(o, {columns = "table", title = "string"})
  if o.columns then args.check_list(o.columns, "table: columns") end
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      core.error("invalid_argument", ("table: row %d must be a table, not %s")
        :format(i, args.what(row)))
    end
  end
  local keys, names = columns_of(rows, o.columns)
  if #keys > MOST_COLUMNS then
    core.error("invalid_argument", ("table: %d columns; at most %d are shown, "
      .. "name them in columns ="):format(#keys, MOST_COLUMNS))
  end
  return setmetatable({rows = rows, keys = keys, names = names,
                       title = o.title}, meta)
end

return tables
