-- show_chart.lua - charts: data in, Vega-Lite, SVG and text out.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local axis = require "tide.show.axis"
local bundle = require "tide.show.bundle"
local json = require "tide.base.json"
local markup = require "shared.markup"
local series = require "tide.show.series"
local spark = require "tide.show.spark"
local helper = require "helper"

local contains, raises = helper.contains, helper.raises
local tests = {}

local VEGA = "application/vnd.vegalite.v5+json"
local nan, inf = 0 / 0, math.huge

-- The forms of a chart, checked: text, drawing, specification as it is sent.
local function forms(c)
  local data = bundle(c).data
  lu.assertNil(data["text/html"]) -- which notebooks would prefer
  local svg = markup.check(data["image/svg+xml"])
  local spec = json.decode(json.encode(data[VEGA]))
  lu.assertEquals(spec["$schema"],
                  "https://vega.github.io/schema/vega-lite/v5.json")
  return data["text/plain"], svg, spec
end

local function line_chart(ys, o)
  local c = td.chart(o)
  for _, y in ipairs(ys) do c:log{y = y} end
  return c
end

-- ---- pieces ----------------------------------------------------------------

-- Lists are as many points.
function tests.lists()
  local a = td.chart{data = {x = {3, 2, 1}, y = {4, 5, 6}}}
  local b = td.chart()
  for i = 1, 3 do b:log{x = 4 - i, y = 3 + i} end
  lu.assertEquals(tostring(a), tostring(b))
  lu.assertEquals(a:svg(), b:svg())
  local c = td.chart{x = "t", data = {t = {10, 20}, y = td.tensor{1.0, 2.0}}}
  local _, _, spec = forms(c)
  lu.assertEquals(spec.data.values[2].x, 20)
  lu.assertEquals(tostring(td.chart{data = {3, 1, 2}}),
                  tostring(td.chart{data = {y = {3, 1, 2}}}))
  lu.assertEquals(tostring(td.chart{data = td.tensor{3.0, 1.0, 2.0}}),
                  tostring(td.chart{data = {y = {3, 1, 2}}}))
  lu.assertEquals(tostring(td.chart{data = {y = {}}}),
                  "line chart: no data yet")
end

function tests.ticks()
  for _, row in ipairs{
    {0, 1, 250, false, "0 0.2 0.4 0.6 0.8 1"},
    {-1, 1, 200, false, "-1 -0.5 0 0.5 1"}, {0, 1e6, 300, false,
     "0 2e+05 4e+05 6e+05 8e+05 1e+06"}, {1, 1000, 200, true, "1 10 100 1000"},
    {0.1, 0.5, 200, true, "0.1 0.2 0.5"}, {1e-9, 1e9, 200, true,
     "1e-09 1e-06 0.001 1 1000 1e+06 1e+09"},
  } do
    local a = axis.new(row[1], row[2], 0, row[3], row[4])
    local list = {}
    for i, tick in ipairs(a.ticks) do list[i] = tick[2] end
    lu.assertEquals(table.concat(list, " "), row[5])
    lu.assertAlmostEquals(a.place(row[1]), 0, 1e-9)
    lu.assertAlmostEquals(a.place(row[2]), row[3], 1e-9)
    lu.assertNil(a.place(nan))
    lu.assertNil(a.place(inf))
  end
  lu.assertNil(axis.new(1, 10, 0, 1, true).place(0))
  lu.assertEquals({axis.range{{nan, inf}}}, {0, 1})
  lu.assertEquals({axis.range{{3, 3}}}, {2.7, 3.3})
  lu.assertEquals({axis.range({{-1, 0, 4}}, true)}, {2, 8})
end

function tests.sparklines()
  lu.assertEquals(spark.line{0, 1, 2, 3, 4, 5, 6, 7}, "▁▂▃▄▅▆▇█")
  lu.assertEquals(spark.line{1, nan, 2}, "▁?█")
  lu.assertEquals(spark.line{}, "")
  lu.assertEquals(spark.line({1, 2, 3, 4}, 2), "▁█")
  lu.assertEquals(spark.line({1, 10, 100}, 3, true), "▁▅█")
  lu.assertEquals(spark.bar(0.5, 3), "█▌")
  lu.assertEquals(spark.bar(2, 3), "███")
end

-- What stands out stays, however many points there are.
function tests.thinning_keeps_spikes()
  local s = series.new "y"
  for i = 1, 100000 do
    s:add(i, i == 51234 and 1000 or i == 70001 and -1000 or math.sin(i))
  end
  local xs, ys = s:thinned(500)
  lu.assertTrue(#xs <= 500 and #xs == #ys)
  local high, low
  for i, y in ipairs(ys) do
    if y == 1000 then high = xs[i] end
    if y == -1000 then low = xs[i] end
    lu.assertTrue(i == 1 or xs[i] > xs[i - 1])
  end
  lu.assertEquals({high, low, xs[1], xs[#xs]}, {51234, 70001, 1, 100000})
  lu.assertEquals({s.n, s.low, s.high}, {100000, -1000, 1000})
end

-- ---- kinds -----------------------------------------------------------------

function tests.lines()
  local text, svg, spec = forms(line_chart({3, 2, 1, 0.5}, {title = "<loss>"}))
  lu.assertEquals(text, "<loss>\ny █▅▂▁ 0.5  (0.5 to 3, 4 points)")
  contains(svg, "&lt;loss&gt;", ">step<")
  lu.assertEquals(spec.mark.type, "line")
  lu.assertEquals(spec.data.values[2], {x = 2, y = 2, s = "y"})
  lu.assertEquals(spec.title, "<loss>")
end

function tests.hostile_names()
  local evil = '</text><script>"&\xff\1'
  local c = td.chart{title = evil, x = evil}
  for i = 1, 3 do c:log{[evil] = i, [evil .. "2"] = i, [evil] = i} end
  local text, svg = forms(c)
  lu.assertTrue(utf8.len(text) ~= nil)
  contains(svg, "&lt;script&gt;")
  for _, o in ipairs{
    {kind = "bar", data = {[evil] = 1}}, {kind = "histogram",
     data = {[evil] = {1, 2}}}, {kind = "heatmap", data = {{1}},
     rows = {evil}, columns = {evil}}, {kind = "confusion", names = {evil},
     data = {labels = {0}, predictions = {0}}},
  } do
    lu.assertTrue(utf8.len((forms(td.chart(o)))) ~= nil, o.kind)
  end
end

function tests.not_a_number_is_null()
  local text, svg, spec = forms(line_chart{1, nan, 3, inf, 2})
  contains(text, "?")
  lu.assertNotStrContains(svg, "nan")
  lu.assertNotStrContains(svg, "inf")
  lu.assertTrue(spec.data.values[2].y == json.null)
  lu.assertTrue(spec.data.values[4].y == json.null)
end

function tests.log_axes()
  local c = line_chart({100, 10, 0, 1}, {log_y = true, log_x = true})
  local _, svg, spec = forms(c)
  lu.assertEquals(spec.encoding.y.scale.type, "log")
  lu.assertEquals(spec.encoding.x.scale.type, "log")
  lu.assertTrue(spec.data.values[3].y == json.null)
  contains(svg, ">100<", ">10<")
end

function tests.what_x_is()
  local c = td.chart()
  c:log{y = 1, step = 10}
  c:log{y = 2, step = 20}
  local _, _, spec = forms(c)
  lu.assertEquals(spec.data.values[2].x, 20)
  c = td.chart{x = "epoch"}
  c:log{epoch = 5, y = 1}
  _, _, spec = forms(c)
  lu.assertEquals({spec.data.values[1].x, spec.encoding.x.title}, {5, "epoch"})
  raises("x is \"epoch\"", c.log, c, {y = 1})
  _, _, spec = forms(line_chart({1, 2}, {x = "time"}))
  lu.assertEquals(spec.data.values[1].x, 0)
  lu.assertEquals(spec.encoding.x.title, "seconds")
  _, _, spec = forms(line_chart({1, 2}, {x = "wall"}))
  contains(spec.data.values[1].x, os.date "!%Y-")
  lu.assertEquals(spec.encoding.x.type, "temporal")
end

function tests.at_most_2000_points()
  local c = td.chart()
  for i = 1, 20000 do c:log{a = i, b = -i, c = i % 7} end
  local _, svg, spec = forms(c)
  lu.assertTrue(#spec.data.values <= 2000)
  lu.assertTrue(#spec.data.values > 1500)
  lu.assertTrue(#svg < 60000)
end

function tests.scatter()
  local c = td.chart{kind = "scatter", x = "w", data = {w = {1, 2, nan},
                                                        h = {3, 4, 5}}}
  c:log{w = 9, h = 1}
  local text, svg, spec = forms(c)
  contains(text, "│", "x 1 to 9")
  lu.assertEquals(#spec.data.values, 4)
  lu.assertEquals(select(2, svg:gsub("<circle", "")), 3)
  raises("has 1 points", c.log, c, {w = {1, 2}, h = {1}})
end

function tests.bars()
  local text, svg, spec, _
  text, svg, spec = forms(td.chart{kind = "bar", title = "t",
    data = {a = 1, ["b<"] = -2, c = nan}})
  lu.assertEquals(text:match "^t\na  *█", "t\na  █")
  contains(text, "-2", "nan")
  contains(svg, "b&lt;")
  lu.assertTrue(spec.data.values[3].y == json.null)
  _, _, spec = forms(td.chart{kind = "bar", data = {5, 6}, names = {"x", "y"}})
  lu.assertEquals(spec.data.values[2], {x = "y", y = 6})
  forms(td.chart{kind = "bar", data = td.value.ones{40}:table()})
end

function tests.histograms()
  local text, spec, _
  text, _, spec = forms(td.chart{kind = "histogram", bins = 4,
    data = {w = {0, 1, 2, 3, 4}, v = td.tensor{0.0, nan, 4.0}}})
  contains(text, "w ▁", "0 to 4")
  lu.assertEquals(#spec.data.values, 8)
  forms(td.chart{kind = "histogram", data = {5, 5, 5}})
  forms(td.chart{kind = "histogram", data = td.tensor{nan}})
  raises("are numbers, not string", td.chart,
         {kind = "histogram", data = {w = {"a"}}})
end

function tests.heat_maps()
  local text, svg, spec = forms(td.chart{kind = "heatmap",
    data = {{1, 2}, {3, nan}}, rows = {"r<", "s"}, columns = {"a", "b"}})
  contains(text, "r<", "nan")
  contains(svg, "r&lt;", "#e91ec7")
  lu.assertTrue(spec.data.values[4].v == json.null)
  local big = td.chart{kind = "heatmap", data = td.value.random_normal{900, 70}}
  text, svg = forms(big)
  contains(text, "every n-th")
  lu.assertTrue(#svg < 300000)
  raises("of shape {rows, columns}", td.chart,
         {kind = "heatmap", data = td.value.ones{3}})
end

-- Counts of several batches add up.
function tests.confusion()
  local c = td.chart{kind = "confusion", names = {"cat", "dog", "owl"}}
  c:log{labels = {0, 1, 1}, predictions = {0, 1, 0}}
  c:log{labels = td.tensor{{1}}, predictions = {1}}
  local text, _, spec = forms(c)
  lu.assertEquals(text, "confusion chart\nlabel  cat  dog  owl\n"
    .. "─────  ───  ───  ───\ncat      1    0    0\ndog      1    2    0\n"
    .. "owl      0    0    0")
  lu.assertEquals(spec.data.values[5], {x = "dog", y = "dog", v = 2})
  raises("1 labels and 2", c.log, c, {labels = {1}, predictions = {1, 2}})
  raises("at most 200", c.log, c, {labels = {1000}, predictions = {1}})
  raises("count from 0", c.log, c, {labels = {-1}, predictions = {1}})
  raises("integers from 0", c.log, c, {labels = {1.5}, predictions = {1}})
end

function tests.image_grids()
  local data = bundle(td.chart{kind = "image_grid",
                               data = td.value.random_uniform{4, 8, 8, 1}}).data
  lu.assertEquals(markup.decode(data["image/png"]):sub(2, 4), "PNG")
  contains(data["text/plain"], "Image grid of 4 x {8, 8, 1}")
end

-- ---- mistakes --------------------------------------------------------------

function tests.mistakes()
  local c = td.chart()
  lu.assertEquals(tostring(c), "line chart: no data yet")
  lu.assertEquals(bundle(c).data, {["text/plain"] = "line chart: no data yet"})
  raises("did you mean \"line\"", td.chart, {kind = "lin"})
  raises("did you mean \"title\"", td.chart, {tilte = "x"})
  raises("1 to 1000", td.chart, {bins = 0})
  raises("must be a number, not string", c.log, c, {y = "1"})
  raises("must be a number, not tensor", c.log, c, {y = td.tensor{1, 2}})
  raises("with a colon", c.log, {y = 1})
  raises("takes a table", c.log, c, 5)
  raises("nothing is logged", c.log, c, {})
  raises("nothing to draw", c.svg, c)
  c:log{y = td.tensor(2)}
  contains(c:svg(), "<svg")
  for i = 1, 49 do c:log{["s" .. i] = 1} end
  raises("more than 50 series", c.log, c, {one_more = 1})
end

-- ---- while a cell runs -----------------------------------------------------

-- Shown at once, changed at most four times a second, whole at the end.
function tests.live()
  local frontend, core = require "tide.frontend", require "tide.core"
  local kind, publish, clock = frontend.kind, frontend.publish, core.clock
  local lines = require "tide.frontend.lines"
  local line = lines.current()
  local list, now = {}, 100.0
  lines.finish(line)
  frontend.kind = "notebook"
  function frontend.publish(type, content)
    list[#list + 1] = {type = type, content = json.decode(content)}
  end
  function core.clock() return now end
  local ok, e = pcall(function()
    local c = td.chart{title = "t"}
    for _ = 1, 3000 do
      now = now + 0.001
      c:log{y = now}
    end
    lines.finish(line)
  end)
  frontend.kind, frontend.publish, core.clock = kind, publish, clock
  lu.assertTrue(ok, e)
  lu.assertEquals(list[1].type, "display_data")
  lu.assertTrue(#list >= 12 and #list <= 14, #list)
  local id = list[1].content.transient.display_id
  for i = 2, #list do
    lu.assertEquals(list[i].type, "update_display_data")
    lu.assertEquals(list[i].content.transient.display_id, id)
  end
  lu.assertTrue(#list[#list - 1].content.data[VEGA].data.values <= 500)
  local values = list[#list].content.data[VEGA].data.values
  lu.assertTrue(#values > 1500)
  lu.assertEquals(values[#values].x, 3000)
end

return tests
