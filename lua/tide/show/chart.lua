--- show/chart.lua - charts that grow while a program runs.
--
--   local c = td.chart{title = "training"}
--   for i = 1, 1000 do c:log{loss = train(i)} end
--
-- In a notebook the chart appears with the first log and follows; on a terminal
-- it is a line of small bars. As a value it displays whole: Vega-Lite and SVG,
-- or text.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local html = require "tide.show.html"
local kinds = require "tide.show.chart_kinds"
local live = require "tide.show.live"
local number = require "tide.show.number"
local spark = require "tide.show.spark"
local style = require "tide.show.style"

local chart = {}
local methods = {}
local meta = {__name = "chart", __index = methods}

local known = {"x", "title", "kind", "data", "log_x", "log_y", "bins", "names",
               "rows", "columns", "name"}
local types = {x = "string", title = "string", kind = "string",
               log_x = "boolean", log_y = "boolean", bins = "integer",
               names = "table", rows = "table", columns = "table"}

local fail = errors.invalid

-- One line for the terminal while a loop runs.
local function line(c)
  if c.kind ~= "line" then
    return ("%s, logged %d times"):format(c.title or c.kind .. " chart", c.logs)
  end
  local parts = {c.title and c.title .. ":" or nil}
  local n = math.min(#c.series, 3)
  local room = style.terminal_width() - #(c.title or "") - 4
  for i = 1, n do
    local s = c.series[i]
    local _, ys = s:thinned(400)
    local text = ("%s %s "):format(s.name, number.text(s.last))
    parts[#parts + 1] = text .. spark.line(ys,
      math.max(4, room // n - style.columns(text) - 2), c.log_y)
  end
  return table.concat(parts, "  ")
end

local function empty(c)
  return #c.series == 0 and not (c.values or c.histograms or c.matrix or c.grid)
end

--- Takes data in, and shows the chart as it is then.
-- line: {loss = 0.5, accuracy = 0.9}, a point of each; scatter: a point, {x =
-- 1, y = 2}, or lists of them; bar: {a = 1, b = 2} or a list; histogram: values
-- by name; heatmap: a matrix; confusion: {labels =, predictions =}, which add
-- up; image_grid: images.
function methods.log(c, t)
  if getmetatable(c) ~= meta then
    fail("chart: log is called with a colon, c:log{loss = l}")
  end
  if type(t) ~= "table" and core.kind(t) ~= "tensor" then
    fail("chart: log takes a table such as {loss = l}, not %s", args.what(t))
  end
  kinds[c.kind].log(c, t)
  c.logs = c.logs + 1
  c.live:change()
  return c
end

--- Shows what has not been shown yet; a cell does it when it ends.
function methods.finish(c)
  c.live:finish()
end

local function text(c)
  local title = c.title and html.cut(c.title, 100)
    or ("%s chart"):format(c.kind)
  if empty(c) then return title .. ": no data yet" end
  local lines = kinds[c.kind].text(c)
  if c.thinned then
    lines[#lines + 1] = "(every n-th row and column)"
  end
  return title .. "\n" .. table.concat(lines, "\n")
end

meta.__tostring = text
meta.__repr_pretty = text

function meta.__repr_mimebundle(c)
  local data, kind = {["text/plain"] = text(c)}, kinds[c.kind]
  if empty(c) then return data end
  if kind.png then
    data["image/png"] = core.base64(kind.png(c))
    return data
  end
  data["application/vnd.vegalite.v5+json"] = kind.vega(c)
  data["image/svg+xml"] = kind.svg(c):done()
  return data
end

--- The chart as the text of an SVG file.
function methods.svg(c)
  if empty(c) or not kinds[c.kind].svg then
    fail("chart: there is nothing to draw as SVG")
  end
  return kinds[c.kind].svg(c):done()
end

local function kind_of(name)
  if kinds[name] then return name end
  local list = args.sorted_keys(kinds)
  fail("chart: no kind \"%s\"%s; there are %s", name,
       errors.did_you_mean(name, list), table.concat(list, ", "))
end

--- A chart.
-- @param[opt] o kind: "line" (the default), "scatter", "bar", "histogram",
-- "heatmap", "confusion", "image_grid"; title; x: "step" (counted, or given
-- with what is logged), "time" (seconds since the first log), "wall" (time of
-- day), or the name of what is logged; log_x = true, log_y = true; data: what
-- to log at once, for lines also lists, {loss = {3, 2, 1}}; bins (30) of a
-- histogram; names of classes or of bars; rows and columns, names of a heat map
-- @return the chart: :log{...} adds to it, :svg() gives a file's text
-- @usage local c = td.chart{kind = "bar", title = "n", data = {a = 1, b = 2}}
-- c:svg():match "^<svg"  --> <svg
function chart.chart(o)
  o = args.expect_all(args.read(o, known, "chart"), types)
  local kind = kind_of(o.kind or "line")
  local c = setmetatable({kind = kind, title = o.title or o.name,
    x = o.x or (kind == "scatter" and "x" or "step"), log_x = o.log_x,
    log_y = o.log_y, bins = o.bins, rows = o.rows, columns = o.columns,
    names = kind ~= "bar" and o.names or nil, labels = o.names,
    series = {}, by_name = {}, count = 0, logs = 0}, meta)
  if o.bins and (o.bins < 1 or o.bins > 1000) then
    fail("chart: bins are 1 to 1000, not %d", o.bins)
  end
  c.live = live.new(c, line)
  if o.data ~= nil and type(o.data) ~= "table" and core.kind(o.data) ~= "tensor"
  then
    fail("chart: data is a table such as {loss = {3, 2, 1}}, not %s",
         args.what(o.data))
  end
  if o.data ~= nil then (kinds[kind].data or kinds[kind].log)(c, o.data) end
  return c
end

return chart
