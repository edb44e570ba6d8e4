--- show/chart_svg.lua - line charts, scatter plots and bars as drawings.
--
-- SPDX-License-Identifier: Apache-2.0

local axis = require "tide.show.axis"
local colour = require "tide.show.colour"
local html = require "tide.show.html"
local svg = require "tide.show.svg"

local charts = {}

local WIDTH, HEIGHT = 560, 320
local LEFT, RIGHT, TOP, BOTTOM = 56, 24, 28, 44
local GRID, INK = "#e6e6e6", "#444444"

--- A drawing with a title and an area for the chart: {d =, left =, right =, top
-- =, bottom =}.
function charts.frame(c, o)
  o = o or {}
  local w, h = o.width or WIDTH, o.height or HEIGHT
  local d = svg.drawing(w, h)
  local area = {d = d, left = o.left or LEFT, right = w - (o.right or RIGHT),
                top = o.top or TOP, bottom = h - (o.bottom or BOTTOM)}
  if c.title then
    d:text((area.left + area.right) / 2, 17, html.cut(c.title, 80),
      {["text-anchor"] = "middle", ["font-size"] = 13,
       ["font-weight"] = "bold"})
  end
  return area
end

local function name_axes(area, x, y)
  local d = area.d
  if x then
    d:text((area.left + area.right) / 2, area.bottom + 34, html.cut(x, 60),
           {["text-anchor"] = "middle", fill = INK})
  end
  if y then
    local at = (area.top + area.bottom) / 2
    d:text(12, at, html.cut(y, 40), {["text-anchor"] = "middle", fill = INK,
      transform = ("rotate(-90 12 %s)"):format(svg.number(at))})
  end
end

local function draw_y(area, y)
  local d = area.d
  for _, tick in ipairs(y.ticks) do
    local at = y.place(tick[1])
    d:line(area.left, at, area.right, at, {stroke = GRID})
    d:text(area.left - 5, at + 4, tick[2], {["text-anchor"] = "end",
                                            fill = INK})
  end
end

local function draw_x(area, x, text_of)
  local d = area.d
  local free = -math.huge -- where the last text ends
  for _, tick in ipairs(x.ticks) do
    local at = x.place(tick[1])
    local text = text_of and text_of(tick[1]) or tick[2]
    d:line(at, area.top, at, area.bottom, {stroke = GRID})
    if at - 3.5 * #text > free then
      d:text(at, area.bottom + 16, text, {["text-anchor"] = "middle",
                                          fill = INK})
      free = at + 3.5 * #text
    end
  end
end

local function border(area)
  area.d:path({"M", area.left, area.top, "V", area.bottom, "H", area.right},
              {fill = "none", stroke = "#888888"})
end

local function legend(area, names)
  if #names < 2 then return end
  local widest = 0
  for _, name in ipairs(names) do
    widest = math.max(widest, utf8.len(html.cut(name, 24)))
  end
  local w = widest * 6.3 + 26
  local x, y = area.right - w - 4, area.top + 4
  area.d:rect(x, y, w, 15 * math.min(#names, 12) + 6,
    {fill = "#ffffff", ["fill-opacity"] = 0.85, stroke = "#dddddd"})
  for i, name in ipairs(names) do
    if i > 12 then break end
    local at = y + 15 * i - 4
    area.d:rect(x + 5, at - 6, 10, 4, {fill = charts.ink(i)})
    area.d:text(x + 20, at, html.cut(name, 24))
  end
end

--- The colour of series i.
function charts.ink(i)
  return colour.series[(i - 1) % #colour.series + 1]
end

-- ---- lines and points ------------------------------------------------------

-- A line, broken where a point has no place; a point alone is a dot.
local function draw_line(d, xs, ys, x, y, ink)
  local path, run = {}, 0
  local last_x, last_y
  local function dot()
    if run == 1 then d:circle(last_x, last_y, 2, {fill = ink}) end
    run = 0
  end
  for i = 1, #xs do
    local px, py = x.place(xs[i]), y.place(ys[i])
    if px and py then
      path[#path + 1] = run == 0 and "M" or "L"
      path[#path + 1], path[#path + 2] = px, py
      run, last_x, last_y = run + 1, px, py
    else
      dot()
    end
  end
  dot()
  if #path > 0 then
    d:path(path, {fill = "none", stroke = ink, ["stroke-width"] = 1.6,
                  ["stroke-linejoin"] = "round"})
  end
end

local function draw_points(d, xs, ys, x, y, ink)
  for i = 1, #xs do
    local px, py = x.place(xs[i]), y.place(ys[i])
    if px and py then
      d:circle(px, py, 2.5, {fill = ink, ["fill-opacity"] = 0.6})
    end
  end
end

local function series_names(c)
  local names = {}
  for i, s in ipairs(c.series) do names[i] = s.name end
  return names
end

--- Lines or points of series; `lists` are {xs, ys} of each, thinned.
function charts.series(c, lists)
  local area = charts.frame(c)
  local all_x, all_y = {}, {}
  for i, l in ipairs(lists) do all_x[i], all_y[i] = l[1], l[2] end
  local low_x, high_x = axis.range(all_x, c.log_x)
  local low_y, high_y = axis.range(all_y, c.log_y)
  local x = axis.new(low_x, high_x, area.left, area.right, c.log_x)
  local y = axis.new(low_y, high_y, area.bottom, area.top, c.log_y)
  draw_y(area, y)
  draw_x(area, x, c.x_text)
  local draw = c.kind == "scatter" and draw_points or draw_line
  for i, l in ipairs(lists) do
    draw(area.d, l[1], l[2], x, y, charts.ink(i))
  end
  border(area)
  legend(area, series_names(c))
  name_axes(area, c.x_name, #c.series == 1 and c.series[1].name or c.y_name)
  return area.d
end

-- ---- bars ------------------------------------------------------------------

--- Bars of names and values.
function charts.bars(c, names, values)
  local area = charts.frame(c, {bottom = 60})
  local low, high = axis.range({values, {0}})
  local y = axis.new(low, high, area.bottom, area.top)
  draw_y(area, y)
  local step, zero = (area.right - area.left) / math.max(#names, 1), y.place(0)
  local turned = #names > 12
  for i, v in ipairs(values) do
    local at, top = area.left + (i - 1) * step, y.place(v)
    if top then
      area.d:rect(at + step * 0.1, math.min(top, zero), step * 0.8,
                  math.abs(top - zero), {fill = charts.ink(1)})
    end
    local mid = at + step / 2
    area.d:text(mid, area.bottom + 15, html.cut(names[i], turned and 8 or 14),
      {["text-anchor"] = turned and "end" or "middle", fill = INK,
       transform = turned and ("rotate(-45 %s %s)"):format(svg.number(mid),
         svg.number(area.bottom + 15)) or nil})
  end
  area.d:line(area.left, zero, area.right, zero, {stroke = "#888888"})
  return area.d
end

--- Histograms: {name =, counts =, low =, high =} with the same bins.
function charts.histogram(c, list)
  local area = charts.frame(c)
  local counts = {{0}}
  for i, h in ipairs(list) do counts[i + 1] = h.counts end
  local first = list[1]
  local _, most = axis.range(counts)
  local y = axis.new(0, most, area.bottom, area.top)
  local x = axis.new(first.low, first.high, area.left, area.right)
  draw_y(area, y)
  draw_x(area, x)
  for i, h in ipairs(list) do
    local step = (area.right - area.left) / #h.counts
    for k, n in ipairs(h.counts) do
      area.d:rect(area.left + (k - 1) * step + 0.5, y.place(n), step - 1,
                  area.bottom - y.place(n), {fill = charts.ink(i),
                    ["fill-opacity"] = #list > 1 and 0.5 or 1})
    end
  end
  border(area)
  local names = {}
  for i, h in ipairs(list) do names[i] = h.name end
  legend(area, names)
  name_axes(area, #list == 1 and list[1].name or nil, "count")
  return area.d
end

-- ---- heat maps -------------------------------------------------------------

local function cell_text(d, text, x, y, ink, side)
  local size = math.min(11, 1.6 * side / #text)
  if size < 6 then return end
  d:text(x, y + size / 3, text, {["text-anchor"] = "middle", fill = ink,
                                 ["font-size"] = svg.number(size)})
end

--- A matrix: {rows =, columns = names or nil, values = {{...}, ...}, text =
-- function of a value or nil}.
function charts.heat(c, m)
  local rows, columns = #m.values, #(m.values[1] or {})
  local side = math.max(4, math.min(44, 420 // math.max(rows, columns, 1)))
  local left = m.rows and 90 or 30
  local area = charts.frame(c, {width = left + columns * side + 20,
    height = 30 + rows * side + 60, left = left, right = 20, bottom = 60,
    top = 30})
  local d = area.d
  local low, high = axis.range(m.values)
  local scale = colour.scale(math.min(low, m.zero and 0 or low), high)
  for i, row in ipairs(m.values) do
    for k, v in ipairs(row) do
      local ground = scale(v)
      local x, y = area.left + (k - 1) * side, area.top + (i - 1) * side
      d:rect(x, y, side, side, {fill = colour.hex(ground)})
      if m.text and side >= 20 then
        cell_text(d, m.text(v, 2), x + side / 2, y + side / 2,
                  colour.ink(ground), side)
      end
    end
  end
  local size = side >= 10 and math.min(11, side - 1)
  for i, name in ipairs(size and m.rows or {}) do
    d:text(area.left - 5, area.top + (i - 0.5) * side + 4, html.cut(name, 12),
           {["text-anchor"] = "end", fill = INK, ["font-size"] = size})
  end
  for k, name in ipairs(size and m.columns or {}) do
    local x, y = area.left + (k - 0.5) * side, area.bottom + 12
    local long = utf8.len(html.cut(name, 12)) * 6 > side
    d:text(x, y, html.cut(name, 12), {fill = INK, ["font-size"] = size,
      ["text-anchor"] = long and "end" or "middle",
      transform = long and ("rotate(-45 %s %s)"):format(svg.number(x),
                                                        svg.number(y)) or nil})
  end
  name_axes({d = d, left = area.left, right = area.right, top = area.top,
             bottom = area.bottom + 4}, m.x_name, m.y_name)
  return d
end

return charts
