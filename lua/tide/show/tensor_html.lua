--- show/tensor_html.lua - a value as HTML: a table in the colours of a heat
-- map, a histogram, and pictures where it looks like some.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local colour = require "tide.show.colour"
local html = require "tide.show.html"
local number = require "tide.show.number"
local picture = require "tide.show.picture"
local style = require "tide.show.style"
local svg = require "tide.show.svg"
local tensor = require "tide.show.tensor"
local dtypes = require "tide.tensor.dtype"

local MOST_ROWS, MOST_COLUMNS = 16, 16
local BINS = 40
local SAMPLE = 1 << 18
local BIG = 64 -- elements from which a histogram tells more than they do

-- ---- the table -------------------------------------------------------------

local function cell(text, v, scale)
  local css = "text-align: right"
  if scale and type(v) == "number" then
    local c = scale(v)
    css = ("%s; background-color: %s; color: %s"):format(css, colour.hex(c),
                                                         colour.ink(c))
  end
  return ("<td style=\"%s\">%s</td>"):format(css, html.escape(text))
end

local function index_text(row, rank)
  if rank < 2 then return "" end
  local list = {}
  for axis = 1, rank - 1 do
    list[axis] = row.axis and axis >= row.axis and "…" or row.index[axis]
  end
  return table.concat(list, ", ")
end

local function head(columns)
  local cells = {"<th></th>"}
  for k, c in ipairs(columns) do
    cells[k + 1] = ("<th style=\"text-align: right\">%s</th>"):format(c or "…")
  end
  return "<thead><tr>" .. table.concat(cells) .. "</tr></thead>"
end

local function table_of(t, s)
  local rows, columns = tensor.rows(t, MOST_ROWS, MOST_COLUMNS)
  local seen = s and s.finite > 0
  local scale = s and colour.scale(seen and s.min or 0, seen and s.max or 1)
  local lines = {}
  for i, row in ipairs(rows) do
    local cells = {"<th>" .. html.escape(index_text(row, #t.shape)) .. "</th>"}
    for k in ipairs(columns) do
      local text = row.cells and row.cells[k]
      cells[k + 1] = text and cell(text, row.values[k], scale)
        or "<td>…</td>"
    end
    lines[i] = "<tr>" .. table.concat(cells) .. "</tr>"
  end
  return ("<table>%s<tbody>%s</tbody></table>"):format(
    t.rank > 0 and head(columns) or "", table.concat(lines))
end

-- ---- the histogram ---------------------------------------------------------

--- A histogram as a drawing, of counts between low and high.
local function bars(counts, low, high)
  local w, h, most = 240, 90, 1
  for _, n in ipairs(counts) do most = math.max(most, n) end
  local d = svg.drawing(w, h)
  local step, ground = (w - 16) / #counts, h - 16
  for i, n in ipairs(counts) do
    local high_of = n / most * (ground - 6)
    d:rect(8 + (i - 1) * step, ground - high_of, math.max(step - 1, 0.5),
           high_of, {fill = "#2166ac"})
  end
  d:line(8, ground, w - 8, ground, {stroke = "#666666"})
  d:text(8, h - 4, number.text(low), {["font-size"] = 10})
  d:text(w - 8, h - 4, number.text(high), {["font-size"] = 10,
                                           ["text-anchor"] = "end"})
  return d
end

local function histogram(t, s)
  local width = s.max - s.min -- NaN where nothing is finite
  if t.size < BIG or width ~= width or width == 0 or width == math.huge then
    return ""
  end
  local counts = core.histogram(t, s.min, s.max, BINS, SAMPLE)
  return bars(counts, s.min, s.max):image(("histogram from %s to %s"):format(
    number.text(s.min), number.text(s.max)))
end

-- ---- all of it -------------------------------------------------------------

-- Pictures of what the table cannot show whole.
local function pictures(t, s)
  if picture.looks_like_images(t, s) then
    local png, w, h = picture.images(t)
    return html.image("image/png", png, {alt = "images", width = w,
                                         height = h}) .. "<br/>"
  end
  if t.rank == 2 and t.size > MOST_ROWS * MOST_COLUMNS and s.finite > 0 then
    local png, w, h = picture.heat(t, s.min, s.max)
    return html.image("image/png", png, {alt = "heat map", width = w,
                                         height = h}) .. " "
  end
  return ""
end

local function statistics_html(t, s)
  local text = html.escape(tensor.statistics_text(t, s))
  return (text:gsub("%f[%w]NaN [%d,]+", "<b style=\"color: #c0392b\">%0</b>")
    :gsub("%f[%w]Inf [%d,]+", "<b style=\"color: #c0392b\">%0</b>"))
end

--- A value as HTML.
return function(t)
  local title = ("<b>Tensor</b> <code>%s %s</code> %s, %s"):format(t.dtype,
    html.escape(tostring(t.shape)), html.escape(core.place_of(t)),
    style.bytes(t.size * (dtypes.size(t.dtype) or 8)))
  if t.dtype == "string" then title = title:gsub(", [^,]*$", "") end
  if not tensor.here(t) then return "<div>" .. title .. "</div>" end
  if t.size == 0 then return "<div>" .. title .. ": no elements</div>" end
  local s = tensor.statistics(t)
  local parts = {title, "<br/>"}
  if s then
    local shown = pictures(t, s)
    parts[#parts + 1] = shown .. histogram(t, s)
    if t.size > 1 then
      parts[#parts + 1] = "<div>" .. statistics_html(t, s) .. "</div>"
    end
    local elements = table_of(t, s)
    parts[#parts + 1] = shown == "" and elements
      or html.fold("elements", elements)
  else
    parts[#parts + 1] = table_of(t, s)
  end
  return "<div>" .. table.concat(parts) .. "</div>"
end
