-- show.lua - how values look: text and HTML of Lua's values, tensors, handles,
-- objects with displays of their own.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local bundle = require "tide.show.bundle"
local markup = require "shared.markup"
local tensor_text = require("tide.show.tensor").text
local value_text = require("tide.show.value").text
local helper = require "helper"

local contains, raises = helper.contains, helper.raises
local tests = {}

local function plain(x) return bundle(x).data["text/plain"] end
local function html(x) return bundle(x).data["text/html"] end

-- Rows {value, text, width}.
local function texts(f, rows)
  for i, row in ipairs(rows) do
    lu.assertEquals(f(row[1], row[3] or 79), row[2], "row " .. i)
  end
end

-- ---- values of Lua ---------------------------------------------------------

local nan, inf = 0 / 0, math.huge

function tests.lua_values()
  local ring = {1}
  ring.self = {ring}
  texts(value_text, {
    {1, "1"}, {1.0, "1.0"}, {true, "true"}, {inf, "inf"},
    {"a", '"a"'}, {"", '""'},
    {'say "x"\\\n\t\0\27', [["say \"x\"\\\n\t\0\27"]]},
    {"caf\u{e9}", '"caf\u{e9}"'}, {"a\xff\xc3", [["a\xff\xc3"]]},
    {{}, "{}"}, {{1, 2, 3}, "{1, 2, 3}"}, {{"a", {}}, '{"a", {}}'},
    {{b = 1, a = 2, 3}, "{3, a = 2, b = 1}"},
    {{["end"] = 1, ["a b"] = 2, [2.5] = 3, [true] = 4, [-1] = 5},
     '{[true] = 4, [-1] = 5, [2.5] = 3, ["a b"] = 2, ["end"] = 1}'},
    {ring, "{1, self = {<ring>}}"},
    {{{{{{{1}}}}}}, "{{{{{{…}}}}}}"},
    {{10, 20, 30, 40}, "{\n  10, 20, 30,\n  40\n}", 15},
    {{name = "x", list = {1, 2}}, '{\n  list = {1, 2},\n  name = "x"\n}', 20},
    {setmetatable({1}, {__name = "point"}), "point {1}"},
    {setmetatable({}, {__tostring = function() return "me" end}), "me"},
    {{td.tensor{1, 2}}, "{int32 {2} 1 2}"},
    {"a\n\tb", "[[\na\n\tb]]"}, {"a[[\n]]b", "[=[\na[[\n]]b]=]"},
    {"a\n", '"a\\n"'}, {"a\n\0", '"a\\n\\0"'}, {{"a\nb"}, '{"a\\nb"}'},
  })
  lu.assertEquals(value_text(nil), "nil")
end

function tests.lua_objects()
  contains(value_text(function(a, b, ...) return a, b, ... end),
           "function (a, b, ...)", "show.lua:")
  contains(value_text(coroutine.wrap(print)), "function (...)", "C")
  lu.assertEquals(value_text(rawlen), "function rawlen(v)")
  lu.assertEquals(value_text(math.atan), "function math.atan(y, x)")
  lu.assertEquals(value_text(td.matmul), "function td.matmul(a, b, o)")
  lu.assertEquals(value_text(td.train.sgd), "function td.train.sgd(lr, o)")
  contains(value_text(td.linalg), "td.linalg: ", "inv, lstsq")
  contains(value_text(td.raw), "ops by their types")
  contains(value_text(coroutine.create(print)), "coroutine, suspended")
  contains(value_text(io.stdout), "file (")
  contains(value_text(setmetatable({}, {__tostring = function()
    error "boom"
  end})), "<error in __tostring:", "boom")
  contains(value_text(setmetatable({}, {__tostring = function() end})),
           "<error in __tostring:")
end

-- What is large is looked at as far as it is shown.
function tests.lua_values_are_bounded()
  local list = {}
  for i = 1, 1000 do list[i] = i end
  contains(value_text(list), "100, … 900 more")
  local named = {}
  for i = 1, 30000 do named["k" .. i] = i end
  contains(value_text(named), "… more")
  contains(value_text(("x"):rep(30000)), "… 10,000 bytes more")
  local deep = {}
  local at = deep
  for _ = 1, 5000 do at[1] = {}; at = at[1] end
  lu.assertEquals(value_text(deep), "{{{{{{…}}}}}}")
  lu.assertTrue(#value_text{("\u{e9}"):rep(5000)} < 500)
  local wide = {}
  for i = 1, 90 do wide[i] = {("x"):rep(60), {("y"):rep(60), i, i}, {}} end
  local _, lines = value_text{wide, wide, wide}:gsub("\n", "")
  lu.assertTrue(lines <= 401)
end

-- ---- tensors ---------------------------------------------------------------

function tests.tensors_as_text()
  texts(tensor_text, {
    {td.tensor{1, 2, 3}, "Tensor int32 {3} CPU:0\n{1, 2, 3}"},
    {td.tensor(5), "Tensor int32 {} CPU:0: 5"},
    {td.tensor(0.1), "Tensor float32 {} CPU:0: 0.1"},
    {td.tensor(nan), "Tensor float32 {} CPU:0: nan"},
    {td.tensor("a\"b"), 'Tensor string {} CPU:0: "a\\"b"'},
    {td.tensor(true), "Tensor bool {} CPU:0: true"},
    {td.value.zeros{0, 3}, "Tensor float32 {0, 3} CPU:0: no elements"},
    {td.tensor{{1.0, 2.5, 3.0}, {-4.0, 5.0, -100.25}},
     "Tensor float32 {2, 3} CPU:0\n"
     .. "{{ 1.00, 2.50,    3.00},\n {-4.00, 5.00, -100.25}}"},
    {td.tensor{{nan, inf}, {-inf, 2}}, "Tensor float32 {2, 2} CPU:0\n"
     .. "{{ nan, inf},\n {-inf,   2}}\n"
     .. "min 2  mean 2  max 2  std 0  NaN 1  Inf 2"},
    {td.tensor{nan, nan}, "Tensor float32 {2} CPU:0\n{nan, nan}\nNaN 2"},
    {td.tensor{"a", "b\nc", ("x"):rep(100)}, "Tensor string {3} CPU:0\n"
     .. '{"a", "b\\nc", "xxxxxxxxxxxxxxxxxxxxxxxx"…}'},
    {td.tensor{{true, false}}, "Tensor bool {1, 2} CPU:0\n{{true, false}}"},
    {td.complex({1.0, 2.0}, {3.0, -4.5}),
     "Tensor complex64 {2} CPU:0\n{1.0+3.0i, 2.0-4.5i}"},
    {td.bitcast(td.tensor({-1, 5}, "int64"), "uint64"),
     "Tensor uint64 {2} CPU:0\n{18446744073709551615, 5}"},
    {td.tensor{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}},
     "Tensor int32 {2, 2, 2} CPU:0\n"
     .. "{{{1, 2},\n  {3, 4}},\n {{5, 6},\n  {7, 8}}}"},
    {td.tensor{1e-10, 1.0, 1e10},
     "Tensor float32 {3} CPU:0\n{1.0000e-10, 1.0000e+00, 1.0000e+10}"},
    {td.cast(td.value.range(12), "int64"), "Tensor int64 {12} CPU:0\n"
     .. "{0, 1, 2, 3, 4, …, 8, 9, 10, 11}\n"
     .. "min 0  mean 5.5  max 11  std 3.452", 36},
  })
end

function tests.tensors_are_cut_to_the_screen()
  for _, shape in ipairs{{1000, 1000}, {3, 5, 7, 11}, {1, 1, 300},
                         {2, 2, 2, 2, 2, 2, 2, 2}, {100000}, {5000, 1}} do
    local text = tensor_text(td.value.ones(shape), 60)
    for line in text:gmatch "[^\n]+" do
      lu.assertTrue(utf8.len(line) <= 60, line)
    end
    local _, lines = text:gsub("\n", "")
    lu.assertTrue(lines <= 44, text)
    contains(text, "min 1  mean 1  max 1  std 0")
    local open, close = select(2, text:gsub("{", "")),
      select(2, text:gsub("}", ""))
    if not text:find("\n +…,") then lu.assertEquals(open, close, text) end
  end
end

-- Ten to the eighth: a sample, and no more work than a sample's.
function tests.huge_tensors_are_sampled()
  local x = td.value.zeros({10000, 10000}, "uint8")
  contains(tensor_text(x, 79), "of 1,048,576 elements, evenly spaced")
  local text = html(x)
  lu.assertTrue(#text < 100000)
  contains(text, "evenly spaced", "100 MB")
end

function tests.statistics()
  local s = core.statistics(td.tensor{1.0, 2.0, 0.0, nan, inf, -inf}, 100)
  lu.assertEquals({s.n, s.finite, s.nan, s.inf, s.zeros, s.min, s.max, s.mean},
                  {6, 3, 1, 2, 1, 0.0, 2.0, 1.0})
  lu.assertAlmostEquals(s.std, math.sqrt(2 / 3), 1e-12)
  lu.assertEquals(core.histogram(td.tensor{0.0, 0.4, 1.0, nan, 7.0}, 0, 1, 2,
                                 100), {2, 1})
  raises("has no order", core.statistics, td.tensor "a", 10)
  raises("no such element", core.elements, td.tensor{1}, {1})
  raises("above the lowest", core.histogram, td.tensor{1}, 1, 1, 2, 10)
end

function tests.tensors_as_html()
  for _, x in ipairs{
    td.tensor(5), td.tensor{1, 2}, td.tensor{{nan, inf}, {-inf, 2.0}},
    td.tensor{"<script>alert(1)</script>", "a\xff\0&\"'", "\u{fffe}"},
    td.value.zeros{0, 3}, td.value.random_normal{100, 100},
    td.value.random_uniform{9, 28, 28, 1}, td.value.random_normal{3, 4, 5},
    td.complex({1.0}, {2.0}), td.tensor{true, false},
    td.value.random_uniform{8, 8, 3}, td.cast(td.value.ones{70}, "float16"),
    td.tensor({1e308, -1e308}, "float64"), td.value.ones{1, 1, 1, 1},
  } do
    markup.drawings(html(x))
  end
  contains(html(td.tensor{{nan, inf}}), "NaN 1</b>", "Inf 1</b>", "#e91ec7")
  contains(html(td.tensor{-1.0, 1.0}), "#2166ac", "#c0392b")
  contains(html(td.value.random_uniform{9, 28, 28, 1}), 'alt="images"',
           "<details>")
  contains(html(td.value.random_normal{100, 100}), 'alt="heat map"',
           'alt="histogram')
  lu.assertEquals(#markup.drawings(html(td.value.random_normal{100, 100})), 1)
end

-- ---- handles ---------------------------------------------------------------

function tests.handles()
  local x = td.placeholder("float32", {-1, 4}, "x")
  local w = td.variable(td.zeros{4, 2}, "W")
  local y = td.matmul(x, w, {name = "y"})
  local before = td.get_default_graph():size() + 3 -- a queue is three nodes
  contains(plain(y), 'Tensor "y:0" float32 {-1, 2}', "MatMul(x:0 float32",
           "origin: ")
  contains(plain(y.op), 'Op "y" MatMul', "inputs: x:0", "transpose_a = false")
  contains(plain(td.session()), "Session of a graph", "steps: 0")
  contains(html(w), "float32", "{4, 2}", "32 B")
  local q = td.fifo_queue(32, {"int32", "string"}, nil, {names = {"id", "<b>"}})
  contains(plain(q), '"fifo_queue" fifo of 32: id: int32, <b>: string')
  contains(html(q), "int32, string", "id, &lt;b&gt;", "32")
  for _, h in ipairs{x, w, y, y.op, q, td.session()} do
    markup.check(html(h))
  end
  lu.assertEquals(td.get_default_graph():size(), before)
  local sess = td.session()
  sess:close()
  contains(plain(sess), "Session (closed)")
end

-- ---- objects with displays of their own ------------------------------------

local function object(meta) return setmetatable({}, meta) end

function tests.own_forms()
  local data = bundle(object{__repr_html = function() return "<b>1</b>" end,
    __repr_pretty = function() return "one" end}).data
  lu.assertEquals(data, {["text/plain"] = "one", ["text/html"] = "<b>1</b>"})
  data = bundle(object{__repr_png = function() return "\137PNG" end}).data
  lu.assertEquals(data["image/png"], "iVBORw==")
  data = bundle(object{__repr_svg = function() return "<svg/>" end}).data
  contains(data["text/html"], 'src="data:image/svg+xml;base64,PHN2Zy8+"')
  data = bundle(object{__repr_markdown = function() return "*a*" end,
                       __repr_latex = function() return "$a$" end}).data
  lu.assertEquals({data["text/markdown"], data["text/latex"]}, {"*a*"})
  local all = bundle(object{__repr_mimebundle = function()
    return {["text/x"] = "y"}, {m = 1}
  end})
  lu.assertEquals(all.data, {["text/x"] = "y", ["text/plain"] = "{}"})
  lu.assertEquals(all.metadata.m, 1)
end

-- On a terminal no more is made than what it shows.
function tests.text_only()
  local made = 0
  local x = object{__repr_html = function() made = made + 1 return "<b/>" end,
                   __repr_pretty = function() return "text" end}
  lu.assertEquals(bundle(x, true).data, {["text/plain"] = "text"})
  lu.assertEquals(made, 0)
  x = object{__repr_html = function() made = made + 1 return "<b/>" end}
  lu.assertEquals(bundle(x, true).data, {["text/plain"] = "{}"})
  lu.assertEquals(made, 0)
  x = object{__repr_mimebundle = function() return {["text/plain"] = "m"} end}
  lu.assertEquals(bundle(x, true).data, {["text/plain"] = "m"})
end

-- What goes wrong is told; the text stays.
function tests.errors_inside()
  local function boom() error "boom" end
  for _, meta in ipairs{
    {__repr_html = boom}, {__repr_pretty = boom}, {__repr_mimebundle = boom},
    {__repr_html = function() return 5 end},
    {__repr_mimebundle = function() return 5 end}, {__repr_html = 7},
    {__repr_html = boom, __tostring = function() return "me" end},
  } do
    local data = bundle(object(meta)).data
    contains(data["text/plain"], "(its display failed:",
             meta.__tostring and "me" or "{}")
    lu.assertNil(data["text/html"])
  end
  contains(plain(object{__tostring = boom}), "<error in __tostring:")
  contains(plain(object{__name = 5, __repr_html = boom}), "{}")
end

function tests.register_repr()
  local point = object{__name = "point of show"}
  point.x = 3
  td.register_repr("point of show", "text/html", function(p)
    return ("<i>%d</i>"):format(p.x)
  end)
  lu.assertEquals(html(point), "<i>3</i>")
  td.register_repr(function(x) return x == point end, "text/plain",
                   function() return "the point" end)
  lu.assertEquals(plain(point), "the point")
  td.register_repr(function(x)
    if x == point then error "boom" end
  end, "text/plain", tostring)
  contains(plain(point), "boom", "point of show")
  raises("the form is", td.register_repr, "x", "text/what", tostring)
  raises("must be a function", td.register_repr, "x", "text/html", 5)
end

-- ---- td.display and its like -----------------------------------------------

-- Messages that f publishes in a notebook.
local function published(f)
  local frontend, json = require "tide.frontend", require "tide.base.json"
  local kind, publish, list = frontend.kind, frontend.publish, {}
  frontend.kind = "notebook"
  function frontend.publish(type, content)
    list[#list + 1] = {type = type, content = json.decode(content)}
  end
  local ok, e = pcall(f)
  frontend.kind, frontend.publish = kind, publish
  assert(ok, e)
  return list
end

function tests.display()
  local id
  local list = published(function()
    td.display "a"
    td.display(td.html "<b>x</b>", {id = "mine"})
    td.update_display("mine", 7)
    id = td.display(1, {id = true})
    td.clear_output{wait = true}
  end)
  lu.assertEquals(list[1].type, "display_data")
  lu.assertEquals(list[1].content.data["text/plain"], '"a"')
  lu.assertNil(list[1].content.transient)
  lu.assertEquals(list[2].content.data["text/html"], "<b>x</b>")
  lu.assertEquals(list[2].content.transient.display_id, "mine")
  lu.assertEquals(list[3].type, "update_display_data")
  lu.assertEquals(list[3].content.transient.display_id, "mine")
  lu.assertEquals(list[4].content.transient.display_id, id)
  lu.assertEquals({list[5].type, list[5].content.wait}, {"clear_output", true})
  raises("id must be a string", td.display, 1, {id = 5})
  raises("did you mean \"id\"", td.display, 1, {ide = "x"})
  raises("update_display: id", td.update_display, {}, 1)
end

function tests.wrappers()
  lu.assertEquals(bundle(td.markdown "*a*").data,
                  {["text/plain"] = "*a*", ["text/markdown"] = "*a*"})
  lu.assertEquals(bundle(td.latex "$x$").data,
                  {["text/plain"] = "$x$", ["text/latex"] = "$x$"})
  lu.assertEquals(plain(td.html "<b>7</b> &lt; 9<br/>x"), "7 < 9\nx")
  lu.assertEquals(plain(td.svg "<svg/>"), "<SVG drawing, 6 bytes>")
  lu.assertEquals(bundle(td.png "abc").data["image/png"], "YWJj")
  raises("must be a string", td.html, 5)
end

-- The bar of a loop: shown, changed, and the last state always.
function tests.progress_in_a_notebook()
  local list = published(function()
    for _ in td.progress(50, {title = "<t>"}) do local _ = 1 end
  end)
  lu.assertEquals(list[1].type, "display_data")
  local last = list[#list]
  lu.assertEquals(last.type, "update_display_data")
  contains(last.content.data["text/plain"], "<t> [####", "50/50")
  markup.drawings(last.content.data["text/html"])
  lu.assertTrue(#list <= 4)
end

-- ---- pictures and tables ---------------------------------------------------

function tests.image_grid()
  local rows = {
    {td.value.random_uniform{9, 8, 8, 3}}, {td.value.zeros{2, 2}},
    {td.value.ones{3, 5, 4}}, {td.value.zeros({4, 4, 3}, "uint8")},
    {td.value.random_normal{3, 3, 7, 6}, {filters = true}},
    {td.value.random_normal{5, 5, 3, 100}, {filters = true, columns = 4}},
    {td.tensor{{nan, inf}, {-inf, 1.0}}}, {td.value.zeros{1000, 20, 20, 1}},
    {td.value.zeros{2, 3000, 2000, 3}}, {{{0.0, 1.0}}, {scale = 8}},
  }
  for i, row in ipairs(rows) do
    local grid = td.image_grid(row[1], row[2])
    markup.drawings(html(grid))
    lu.assertEquals(grid:png():sub(2, 4), "PNG", "row " .. i)
    lu.assertTrue(#plain(grid) > 10)
  end
  local png = td.image_grid({{0.0, 1.0}}, {scale = 8}):png()
  local back = core.op "DecodePng"(png, {channels = 1})
  lu.assertTrue(back.shape == {8, 16, 1})
  lu.assertEquals({back:table()[1][1][1], back:table()[8][16][1]}, {0, 255})
  raises("of shape {n, height", td.image_grid, td.tensor{1})
  raises("of shape {n, height", td.image_grid, td.tensor{{"a"}})
  raises("{height, width, in, out}", td.image_grid, td.value.ones{2, 2},
         {filters = true})
  raises("1 or more", td.image_grid, td.value.ones{2, 2}, {scale = 0})
end

function tests.tables()
  local t = td.table({{n = 1, s = "a"}, {n = 22.5, s = "<b>"}})
  lu.assertEquals(tostring(t), "   n  s\n────  ───\n   1  a\n22.5  <b>")
  contains(html(t), "&lt;b&gt;", "<th style=\"text-align: right\">n</th>")
  markup.check(html(t))
  lu.assertEquals(tostring(td.table({{1, "x"}, {2}}, {columns = {"a", "b"},
    title = "T"})), "T\na  b\n─  ─\n1  x\n2")
  lu.assertEquals(tostring(td.table{}), "Table without rows")
  local rows = {}
  for i = 1, 1000 do rows[i] = {i, ("x\n\xff"):rep(i % 50)} end
  local long = td.table(rows)
  contains(tostring(long), "…", "1,000 rows")
  markup.check(html(long))
  raises("row 1 must be a table", td.table, {5})
  raises("did you mean \"columns\"", td.table, {}, {column = {}})
end

function tests.base64()
  for _, row in ipairs{{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"},
                       {"\0\255\254", "AP/+"}} do
    lu.assertEquals(core.base64(row[1]), row[2])
    lu.assertEquals(markup.decode(row[2]), row[1])
  end
end

return tests
