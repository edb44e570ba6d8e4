--- show/vega.lua - charts as Vega-Lite 5 specifications, which notebooks draw
-- themselves: with the reader's theme, zoom and values under the pointer.
--
-- NaN and infinities are null, which breaks a line.
-- SPDX-License-Identifier: Apache-2.0

local axis = require "tide.show.axis"
local json = require "tide.base.json"

local vega = {}

local function spec(c, mark, values, encoding, o)
  o = o or {}
  return json.object{
    ["$schema"] = "https://vega.github.io/schema/vega-lite/v5.json",
    title = c.title or json.null, width = o.width or 480,
    height = o.height or 260, data = {values = json.array(values)},
    mark = mark, encoding = encoding, params = o.params,
  }
end

-- With as many digits as a screen shows.
local function finite(v)
  if v ~= v or math.abs(v) == math.huge then
    return json.null
  end
  return tonumber(("%.6g"):format(v))
end

local function positive(v, log)
  v = finite(v)
  return log and v ~= json.null and v <= 0 and json.null or v
end

local zoom = json.array{{name = "zoom", select = "interval", bind = "scales"}}

--- Lines or points; `lists` are {xs, ys} of each series.
function vega.series(c, lists)
  local values = {}
  for i, l in ipairs(lists) do
    for k = 1, #l[1] do
      values[#values + 1] = {x = c.x_iso and c.x_iso(l[1][k])
        or positive(l[1][k], c.log_x), y = positive(l[2][k], c.log_y),
        s = c.series[i].name}
    end
  end
  local function scale(log)
    return json.object{type = log and "log" or "linear", zero = false}
  end
  local encoding = {
    x = {field = "x", type = c.x_iso and "temporal" or "quantitative",
         title = c.x_name or json.null,
         scale = not c.x_iso and scale(c.log_x) or nil},
    y = {field = "y", type = "quantitative", scale = scale(c.log_y),
         title = #c.series == 1 and c.series[1].name or c.y_name or json.null},
    color = {field = "s", type = "nominal", title = json.null,
             legend = #c.series < 2 and json.null or nil},
  }
  local mark = c.kind == "scatter" and {type = "point", tooltip = true,
                                        filled = true}
    or {type = "line", tooltip = true}
  return spec(c, mark, values, encoding,
              {params = not c.x_iso and zoom or nil})
end

--- Bars of names and values.
function vega.bars(c, names, values)
  local rows = {}
  for i, name in ipairs(names) do
    rows[i] = {x = name, y = finite(values[i])}
  end
  return spec(c, {type = "bar", tooltip = true}, rows, {
    x = {field = "x", type = "nominal", sort = json.null, title = json.null},
    y = {field = "y", type = "quantitative", title = json.null}})
end

--- Histograms: {name =, counts =, low =, high =}.
function vega.histogram(c, list)
  local rows = {}
  for _, h in ipairs(list) do
    local step = (h.high - h.low) / #h.counts
    for k, n in ipairs(h.counts) do
      rows[#rows + 1] = {a = h.low + (k - 1) * step, b = h.low + k * step,
                         n = n, s = h.name}
    end
  end
  return spec(c, {type = "bar", tooltip = true,
                  opacity = #list > 1 and 0.5 or 1}, rows, {
    x = {field = "a", type = "quantitative", bin = {binned = true},
         title = #list == 1 and list[1].name or json.null},
    x2 = {field = "b"},
    y = {field = "n", type = "quantitative", stack = json.null,
         title = "count"},
    color = {field = "s", type = "nominal", title = json.null,
             legend = #list < 2 and json.null or nil}})
end

-- Colours, and the numbers on them where there is room.
local function cells(low, high, written)
  local colour = {field = "v", type = "quantitative", title = json.null,
                  scale = {scheme = low < 0 and "redblue" or "blues",
                           reverse = low < 0,
                           domainMid = low < 0 and 0 or nil}}
  local layers = json.array{{mark = {type = "rect", tooltip = true},
                             encoding = {color = colour}}}
  if written then
    local dark = ("datum.v > %.6g"):format(low + 0.6 * (high - low))
    layers[2] = {mark = {type = "text"}, encoding = {
      text = {field = "v", type = "quantitative", format = ".3~g"},
      color = {condition = {test = dark, value = "white"}, value = "black"}}}
  end
  return layers
end

--- A matrix: {rows =, columns =, values =, x_name =, y_name =}.
function vega.heat(c, m)
  local values, columns = {}, 0
  for i, row in ipairs(m.values) do
    columns = math.max(columns, #row)
    for k, v in ipairs(row) do
      values[#values + 1] = {x = m.columns and m.columns[k] or k - 1,
                             y = m.rows and m.rows[i] or i - 1, v = finite(v)}
    end
  end
  local function place(field, title)
    return {field = field, type = "ordinal", sort = json.null,
            title = title or json.null}
  end
  local side = math.max(4, math.min(36, 400 // math.max(columns, 1)))
  local low, high = axis.range(m.values)
  local s = spec(c, nil, values,
    {x = place("x", m.x_name), y = place("y", m.y_name)},
    {width = {step = side}, height = {step = side}})
  s.layer = cells(low, high, side >= 30)
  return s
end

return vega
