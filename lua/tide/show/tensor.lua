--- show/tensor.lua - a value as text: header, aligned elements, statistics.
--
--   Tensor float32 {2, 3} CPU:0
--   {{ 1.0, 2.5,    3.0},
--    {-4.0, 5.0, -100.2}}
--
-- The elements are written as Lua reads them. Of long axes the first and the
-- last ones are shown, as many as a screen holds; statistics are of at most
-- SAMPLE elements, and say so.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dtypes = require "tide.tensor.dtype"
local number = require "tide.show.number"
local style = require "tide.show.style"
local value = require "tide.show.value"

local tensor = {}

local SAMPLE = 1 << 20
local MOST_LINES = 40  -- rows of elements
local MOST_COLUMNS = 40
local MOST_STRING = 24 -- bytes of a string that are shown
local FEW = 10         -- elements that need no statistics

-- ---- which elements --------------------------------------------------------

-- The indices of an axis that are shown: at most `edge` from both ends; false
-- stands for those between.
local function shown(size, edge)
  local list = {}
  if size <= 2 * edge + 1 then
    for i = 0, size - 1 do list[#list + 1] = i end
    return list
  end
  for i = 0, edge - 1 do list[#list + 1] = i end
  list[#list + 1] = false
  for i = size - edge, size - 1 do list[#list + 1] = i end
  return list
end

local function rows_with(shape, edge)
  local n = 1
  for i = 1, #shape - 1 do n = n * math.min(shape[i], 2 * edge + 1) end
  return n
end

--- The indices to show of each axis but the last, so that at most MOST_LINES
-- rows come of it.
local function outer_axes(shape, most)
  local edge = 10
  while edge > 1 and rows_with(shape, edge) > most do edge = edge - 1 end
  local axes, rows = {}, 1
  for i = #shape - 1, 1, -1 do -- the outermost give way
    axes[i] = shown(shape[i], edge)
    if rows * #axes[i] > most then
      axes[i] = shape[i] > 1 and {0, false} or {0}
    end
    rows = rows * #axes[i]
  end
  return axes
end

--- Calls f(offset, index) for every row that is shown, offset that of its first
-- element, false where rows are left out.
local function each_row(shape, axes, f, axis, offset, index)
  axis, offset, index = axis or 1, offset or 0, index or {}
  if axis >= #shape then return f(offset * (shape[#shape] or 1), index) end
  for _, i in ipairs(axes[axis]) do
    if i then
      index[axis] = i
      each_row(shape, axes, f, axis + 1, offset * shape[axis] + i, index)
    else
      f(false, index, axis)
    end
  end
end

-- ---- elements as text ------------------------------------------------------

local function complex_format(list)
  local parts = {}
  for _, z in ipairs(list) do
    parts[#parts + 1], parts[#parts + 2] = z[1], z[2]
  end
  local format = number.format_of(parts)
  return function(z)
    local imaginary = format(z[2])
    return ("%s%s%si"):format(format(z[1]),
                              imaginary:find "^-" and "" or "+", imaginary)
  end
end

local function string_text(s)
  return value.quote(s, MOST_STRING):gsub("… .*", "…")
end

-- A function from an element to its text, for elements such as those of list.
local function format_for(t, list)
  local dtype = t.dtype
  if dtypes.is_float(dtype) then return number.format_of(list) end
  if dtypes.is_complex(dtype) then return complex_format(list) end
  if dtype == "string" then return string_text end
  if dtype == "uint64" then return number.unsigned end
  if dtype == "resource" or dtype == "variant" then
    return function(type) return "<" .. type .. ">" end
  end
  return tostring
end

local function is_bad(text)
  return text == "nan" or text == "inf" or text == "-inf"
end

--- The elements that are shown of a value: rows {offset =, index =, cells =},
-- cells of texts, with false where columns or rows are left out.
function tensor.rows(t, most_rows, most_columns)
  local shape = t.shape
  local last = shape[#shape] or 1
  local columns = shown(last, most_columns // 2)
  local rows, at = {}, {}
  each_row(shape, outer_axes(shape, most_rows), function(offset, index, axis)
    local row = {index = table.move(index, 1, #shape - 1, 1, {}), axis = axis}
    rows[#rows + 1] = row
    if not offset then return end
    row.offset, row.cells = offset, {}
    for k, c in ipairs(columns) do
      row.cells[k] = c and #at + 1
      if c then at[#at + 1] = offset + c end
    end
  end)
  local list = core.elements(t, at, MOST_STRING + 8)
  local format = format_for(t, list)
  for _, row in ipairs(rows) do
    row.values = {}
    for k, i in ipairs(row.cells or {}) do
      row.values[k] = i and list[i]
      row.cells[k] = i and format(list[i])
    end
  end
  return rows, columns
end

-- ---- layout ----------------------------------------------------------------

local function widths_of(rows, n)
  local widths = {}
  for k = 1, n do
    widths[k] = 1
    for _, row in ipairs(rows) do
      local cell = row.cells and row.cells[k]
      if cell then widths[k] = math.max(widths[k], style.columns(cell)) end
    end
  end
  return widths
end

-- Which columns fit: all, or as many from both ends as there is room for.
local function fitting(widths, columns, room)
  local total = 0
  for _, w in ipairs(widths) do total = total + w + 2 end
  if total <= room then return columns, widths end
  local first, last, used = 0, 0, 3
  local n = #columns
  while first + last < n - 1 do
    local k = first > last and n - last or first + 1
    if not columns[k] or used + widths[k] + 2 > room then break end
    used = used + widths[k] + 2
    if first > last then last = last + 1 else first = first + 1 end
  end
  local keep = {}
  first = math.max(first, 1)
  for k = 1, first do keep[#keep + 1] = k end
  keep[#keep + 1] = false
  for k = n - last + 1, n do keep[#keep + 1] = k end
  return keep
end

local function row_line(row, widths, keep, left)
  local cells = {}
  for i, k in ipairs(keep) do
    local cell = k and row.cells[k]
    if not cell then
      cells[i] = "…"
    else
      local text = style.pad(cell, widths[k], not left)
      cells[i] = is_bad(cell) and style.paint("red", text) or text
    end
  end
  return (table.concat(cells, ", "):gsub(" +$", ""))
end

-- Braces that open before a row, and close behind it: as many as there are
-- axes whose first, or last, index it has.
local function braces(row, shape)
  local function count(at_end)
    local n = 1
    for axis = #shape - 1, 1, -1 do
      local i = row.index[axis]
      if i ~= (at_end and shape[axis] - 1 or 0) then break end
      n = n + 1
    end
    return n
  end
  return count(false), count(true)
end

-- The elements as lines.
local function lines_of(t, width)
  local shape = t.shape
  local rank = math.max(#shape, 1)
  local rows, columns = tensor.rows(t, MOST_LINES, MOST_COLUMNS)
  local widths = widths_of(rows, #columns)
  local positions = {}
  for k, c in ipairs(columns) do positions[k] = c and k end
  local keep = fitting(widths, positions, width - 2 * rank)
  local lines, left = {}, t.dtype == "string"
  for i, row in ipairs(rows) do
    if not row.cells then
      local blank = (" "):rep(row.axis)
      lines[i] = i == #rows and blank .. "…" .. ("}"):rep(row.axis)
        or blank .. "…,"
    else
      local open, close = braces(row, shape)
      lines[i] = (" "):rep(rank - open) .. ("{"):rep(open)
        .. row_line(row, widths, keep, left) .. ("}"):rep(close)
        .. (i < #rows and "," or "")
    end
  end
  return lines
end

-- ---- statistics ------------------------------------------------------------

local ordered = {bool = false, string = false, resource = false,
                 variant = false}

--- Has a dtype numbers with an order?
function tensor.is_ordered(dtype)
  return ordered[dtype] == nil and not dtypes.is_complex(dtype)
end

--- Statistics of a value, nil where it has none; memoized by nobody.
function tensor.statistics(t)
  if t.size == 0 or not tensor.is_ordered(t.dtype) then return nil end
  return core.statistics(t, SAMPLE)
end

local function bad_counts(s, parts)
  if s.nan > 0 then
    parts[#parts + 1] = style.paint("red", "NaN " .. style.count(s.nan))
  end
  if s.inf > 0 then
    parts[#parts + 1] = style.paint("red", "Inf " .. style.count(s.inf))
  end
end

--- One line of statistics: "min 0  mean 1.5  max 3  std 1.118".
function tensor.statistics_text(t, s)
  local whole = not dtypes.is_float(t.dtype)
  local function text(v)
    if not whole or v ~= v or v >= 2^63 then return number.text(v) end
    return ("%d"):format(math.tointeger(v))
  end
  local parts = {}
  if s.finite > 0 then
    parts = {"min " .. text(s.min), "mean " .. number.text(s.mean),
             "max " .. text(s.max), "std " .. number.text(s.std)}
  end
  bad_counts(s, parts)
  local line = table.concat(parts, "  ")
  if s.n == t.size then return line end
  return ("%s  (of %s elements, evenly spaced)"):format(line,
                                                        style.count(s.n))
end

-- ---- all of it -------------------------------------------------------------

--- "Tensor float32 {2, 3} CPU:0"
function tensor.header(t)
  return ("Tensor %s %s %s"):format(t.dtype, t.shape, core.place_of(t))
end

--- Is the value in memory that can be looked at?
function tensor.here(t)
  return core.place_of(t) == "CPU:0"
end

--- A value as text.
function tensor.text(t, width)
  local header = tensor.header(t)
  if not tensor.here(t) then return header end
  if t.size == 0 then return header .. ": no elements" end
  if t.rank == 0 then
    local list = core.elements(t, {0}, 2000)
    local cell = t.dtype == "string" and value.quote(list[1])
      or dtypes.is_float(t.dtype) and number.text(list[1], 7)
      or format_for(t, list)(list[1])
    return header .. ": "
      .. (is_bad(cell) and style.paint("red", cell) or cell)
  end
  local lines = lines_of(t, width or style.width())
  table.insert(lines, 1, header)
  local s = tensor.statistics(t)
  if s and (t.size > FEW or s.finite < s.n) then
    lines[#lines + 1] = tensor.statistics_text(t, s)
  end
  return table.concat(lines, "\n")
end

return tensor
