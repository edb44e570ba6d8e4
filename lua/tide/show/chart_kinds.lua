--- show/chart_kinds.lua - what the kinds of charts take, keep and look like.
--
-- A kind has log(chart, table), which takes data in; svg(chart), a drawing;
-- vega(chart), a specification, where Vega-Lite has it; text(chart), lines.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local draw = require "tide.show.chart_svg"
local html = require "tide.show.html"
local number = require "tide.show.number"
local picture = require "tide.show.picture"
local series = require "tide.show.series"
local spark = require "tide.show.spark"
local style = require "tide.show.style"
local vega = require "tide.show.vega"
local autoload = require "tide.base.autoload"

local tables = autoload "tide.show.tables"

local kinds = {}

local MOST_POINTS = 2000 -- of a chart, all series together
local MOVING_POINTS = 500 -- while it grows
local MOST_SERIES = 50
local MOST_CELLS = 48    -- rows and columns of a heat map
local MOST_CLASSES = 200
local SAMPLE = 1 << 20

local fail = errors.invalid

-- A number from a number or a value of one element.
local function scalar(v, what)
  if core.kind(v) == "tensor" and v.size == 1 and v.dtype ~= "string" then
    v = v:item()
  end
  if type(v) ~= "number" then
    fail("chart: %s must be a number, not %s", what, args.what(v))
  end
  return v + 0.0
end

-- ---- lines and scatter plots -----------------------------------------------

local function add(c, name, x, y)
  local s = c.by_name[name]
  if not s then
    if #c.series >= MOST_SERIES then
      fail("chart: more than %d series", MOST_SERIES)
    end
    s = series.new(name)
    c.by_name[name] = s
    c.series[#c.series + 1] = s
  end
  s:add(x, y)
end

-- Where on the x axis what is logged now belongs.
local function place(c, t)
  c.count = c.count + 1
  local now = core.clock()
  c.start = c.start or now
  if c.x == "time" then return now - c.start end
  if c.x == "wall" then
    c.began = c.began or os.time()
    return c.began + (now - c.start)
  end
  if t[c.x] ~= nil then return scalar(t[c.x], c.x) end
  if c.x == "step" then return c.count end
  return fail("chart: x is \"%s\", which is not among what is logged", c.x)
end

local function log_points(c, t)
  local x, any = place(c, t), false
  for _, name in ipairs(args.sorted_keys(t)) do
    if name ~= c.x then
      add(c, name, x, scalar(t[name], name))
      any = true
    end
  end
  if not any then fail("chart: nothing is logged beside %s", c.x) end
end

-- {loss = {3, 2, 1}, acc = {1, 2, 3}}, as many points as each has; a list of
-- numbers or a vector by itself, which is called y; or a point.
local function log_lists(c, t)
  local lists, n = {}, nil
  if core.kind(t) == "tensor" or t[1] ~= nil then t = {y = t} end
  for _, name in ipairs(args.sorted_keys(t)) do
    local v = t[name]
    if core.kind(v) == "tensor" and v.rank == 1 then v = v:table() end
    if not args.plain(v) then return log_points(c, t) end
    if n and n ~= #v then
      fail("chart: %s has %d values, others %d", name, #v, n)
    end
    lists[name], n = v, #v
  end
  for i = 1, n or 0 do
    local point = {}
    for name, v in pairs(lists) do point[name] = v[i] end
    log_points(c, point)
  end
end

local function lists_of(c)
  local lists = {}
  local most = (c.moving and MOVING_POINTS or MOST_POINTS)
    // math.max(#c.series, 1)
  for i, s in ipairs(c.series) do lists[i] = {s:thinned(most)} end
  return lists
end

local function date(format)
  return function(x)
    return os.date(format, math.floor(x))
  end
end

-- What the axis of x is called, and how its numbers are written.
local function dressed(c)
  c.x_name = c.x == "time" and "seconds" or c.x ~= "wall" and c.x or nil
  if c.x == "wall" then
    c.x_text, c.x_iso = date "%H:%M:%S", date "!%Y-%m-%dT%H:%M:%SZ"
  end
  return c
end

kinds.line = {
  log = log_points, data = log_lists,
  svg = function(c) return draw.series(dressed(c), lists_of(c)) end,
  vega = function(c) return vega.series(dressed(c), lists_of(c)) end,
  text = function(c) return spark.series(c, lists_of(c)) end,
}

-- {x = {...}, y = {...}} at once, or a point a call.
local function log_scatter(c, t)
  local xs = t[c.x]
  if not args.plain(xs) and not (core.kind(xs) == "tensor" and xs.rank == 1)
  then
    return log_points(c, t)
  end
  local function list(v)
    if core.kind(v) == "tensor" then v = v:table() end
    return v
  end
  xs = list(xs)
  for _, name in ipairs(args.sorted_keys(t)) do
    if name ~= c.x then
      local ys = list(t[name])
      if type(ys) ~= "table" or #ys ~= #xs then
        fail("chart: %s has %s points, %s has %d", name,
             type(ys) == "table" and #ys or "no", c.x, #xs)
      end
      for i, x in ipairs(xs) do
        add(c, name, scalar(x, c.x), scalar(ys[i], name))
      end
    end
  end
end

kinds.scatter = {
  log = log_scatter, svg = kinds.line.svg, vega = kinds.line.vega,
  text = function(c) return spark.scatter(c, lists_of(c)) end,
}

-- ---- bars ------------------------------------------------------------------

local function log_bars(c, t)
  local list, named = args.split(t)
  c.names, c.values = {}, {}
  for i, v in ipairs(list) do
    c.names[i] = c.labels and tostring(c.labels[i] or i) or tostring(i)
    c.values[i] = scalar(v, c.names[i])
  end
  for _, name in ipairs(args.sorted_keys(named)) do
    c.names[#c.names + 1] = name
    c.values[#c.values + 1] = scalar(named[name], name)
  end
  if #c.names > MOST_POINTS then fail("chart: %d bars", #c.names) end
end

kinds.bar = {
  log = log_bars,
  svg = function(c) return draw.bars(c, c.names, c.values) end,
  vega = function(c) return vega.bars(c, c.names, c.values) end,
  text = function(c) return spark.bars(c.names, c.values) end,
}

-- ---- histograms ------------------------------------------------------------

local function as_value(x, what)
  if core.kind(x) ~= "tensor" then
    if type(x) ~= "table" then
      fail("chart: %s is a value or a table of numbers, not %s", what,
           args.what(x))
    end
    x = core.tensor(x)
  end
  if x.dtype == "string" or dtypes.is_complex(x.dtype)
     or x.dtype == "resource" or x.dtype == "variant" then
    fail("chart: %s are numbers, not %s", what, x.dtype)
  end
  return x
end

local function log_histogram(c, t)
  local low, high, values = math.huge, -math.huge, {}
  if core.kind(t) == "tensor" or args.plain(t) and #t > 0 then
    t = {values = t}
  end
  for i, name in ipairs(args.sorted_keys(t)) do
    local x = as_value(t[name], name)
    local s = x.size > 0 and core.statistics(x, SAMPLE)
    if s and s.finite > 0 then
      low, high = math.min(low, s.min), math.max(high, s.max)
    end
    values[i] = {name = name, x = x}
  end
  if low == math.huge then low, high = 0, 1 end
  if low == high then low, high = low - 0.5, high + 0.5 end
  c.histograms = {}
  for i, v in ipairs(values) do
    c.histograms[i] = {name = v.name, low = low, high = high,
      counts = core.histogram(v.x, low, high, c.bins or 30, SAMPLE)}
  end
  if #values == 0 then fail("chart: a histogram of nothing") end
end

local function histogram_text(c)
  local lines = {}
  for i, h in ipairs(c.histograms) do
    lines[i] = ("%s %s %s to %s"):format(html.cut(h.name, 20),
      spark.line(h.counts, 60), number.text(h.low), number.text(h.high))
  end
  return lines
end

kinds.histogram = {
  log = log_histogram,
  svg = function(c) return draw.histogram(c, c.histograms) end,
  vega = function(c) return vega.histogram(c, c.histograms) end,
  text = histogram_text,
}

-- ---- matrices --------------------------------------------------------------

local function places(size)
  local list = {}
  local n = math.min(size, MOST_CELLS)
  for i = 1, n do list[i] = (i - 1) * size // n end
  return list
end

local function picked(names, list)
  if not names then return nil end
  local out = {}
  for i, at in ipairs(list) do
    out[i] = html.cut(tostring(names[at + 1] or at), 24)
  end
  return out
end

local function log_heat(c, t)
  local x = as_value(t, "a heat map")
  if x.rank ~= 2 or x.size == 0 then
    fail("chart: a heat map is of numbers of shape {rows, columns}, given %s",
         x.shape)
  end
  local rows, columns = places(x.shape[1]), places(x.shape[2])
  local m = {values = {}, rows = picked(c.rows, rows),
             columns = picked(c.columns, columns), text = number.text}
  for i, r in ipairs(rows) do
    local at = {}
    for k, col in ipairs(columns) do at[k] = r * x.shape[2] + col end
    m.values[i] = core.elements(x, at)
    if x.dtype == "bool" then
      for k, v in ipairs(m.values[i]) do m.values[i][k] = v and 1 or 0 end
    end
  end
  c.matrix = m
  c.thinned = #rows < x.shape[1] or #columns < x.shape[2]
end

local function matrix_text(c)
  local m = c.matrix
  local rows = {}
  for i, row in ipairs(m.values) do
    local line = {m.rows and m.rows[i] or tostring(i - 1)}
    for k, v in ipairs(row) do line[k + 1] = m.text(v) end
    rows[i] = line
  end
  local names = {c.kind == "confusion" and "label" or ""}
  for k = 1, #m.values[1] do
    names[k + 1] = m.columns and m.columns[k] or tostring(k - 1)
  end
  return {tables.layout(rows, names, style.width())}
end

kinds.heatmap = {
  log = log_heat,
  svg = function(c) return draw.heat(c, c.matrix) end,
  vega = function(c) return vega.heat(c, c.matrix) end,
  text = matrix_text,
}

-- ---- confusion matrices ----------------------------------------------------

local function classes_of(x, what)
  local v = as_value(x, what)
  if dtypes.is_float(v.dtype) then
    fail("chart: %s are classes, integers from 0, not %s", what, v.dtype)
  end
  return core.op "Cast"(v, {DstT = "int64"}):reshape({-1}):table()
end

local function grow(c, n)
  if n > MOST_CLASSES then
    fail("chart: class %d; a confusion matrix has at most %d classes", n - 1,
         MOST_CLASSES)
  end
  c.n = math.max(c.n or 1, n)
end

-- Counts pairs, in addition to those counted before.
local function log_confusion(c, t)
  if t.labels == nil or t.predictions == nil then
    fail("chart: a confusion matrix is of {labels =, predictions =}")
  end
  local labels = classes_of(t.labels, "labels")
  local predictions = classes_of(t.predictions, "predictions")
  if #labels ~= #predictions then
    fail("chart: %d labels and %d predictions", #labels, #predictions)
  end
  c.pairs = c.pairs or {}
  for i, label in ipairs(labels) do
    local guess = predictions[i]
    if label < 0 or guess < 0 then fail "chart: classes count from 0" end
    grow(c, math.max(label, guess) + 1)
    local key = label * MOST_CLASSES + guess
    c.pairs[key] = (c.pairs[key] or 0) + 1
  end
  if c.names then grow(c, #c.names) end
  local m = {values = {}, zero = true, x_name = "prediction",
             y_name = "label", text = function(v) return ("%d"):format(v) end}
  m.rows, m.columns = {}, {}
  for i = 1, c.n or 1 do
    m.rows[i] = html.cut(tostring(c.names and c.names[i] or i - 1), 24)
    m.columns[i], m.values[i] = m.rows[i], {}
    for k = 1, c.n or 1 do
      m.values[i][k] = c.pairs[(i - 1) * MOST_CLASSES + k - 1] or 0
    end
  end
  c.matrix = m
end

kinds.confusion = {log = log_confusion, svg = kinds.heatmap.svg,
                   vega = kinds.heatmap.vega, text = matrix_text}

-- ---- images ----------------------------------------------------------------

kinds.image_grid = {
  log = function(c, t) c.grid = picture.image_grid(t) end,
  png = function(c) return c.grid:png() end,
  text = function(c) return {getmetatable(c.grid).__repr_pretty(c.grid)} end,
}

return kinds
