-- inspect.lua - what inspection tells, at both levels, and that it harms
-- nothing.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local json = require "tide.base.json"
local console = require "tide.console"
local inspect = require "tide.services.inspect"
local sources = require "tide.console.sources"
local asking = require "shared.asking"
local helper = require "helper"

local tests = {}

local function ask(text, detail)
  return asking.at(inspect, text, detail)
end

-- The plain text without colours, "" where nothing is found.
local function text_of(text, detail)
  local reply = ask(text, detail)
  lu.assertEquals(reply.found, reply.data["text/plain"] ~= nil)
  lu.assertEquals(reply.found, reply.data["text/html"] ~= nil)
  return helper.bare(reply.data["text/plain"] or "")
end

-- What the rows speak of.
local function prepare()
  local env = asking.names()
  env.config = {rate = 0.1, name = "net", nested = {deep = 1}}
  env.text, env.number, env.flag = "some text", 42, true
  sources.keep("In[7]", "-- Scales a by b.\n-- Twice.\nfunction scaled(a, b)\n"
    .. "  return a * b\nend")
  local chunk = assert(load("\n\nlocal function scaled(a, b)\n  return a * b\n"
    .. "end return scaled", "=In[7]"))
  env.scaled = chunk()
  return env
end

-- Rows of a text and what the answer holds; "no ..." what it does not; no
-- more than the text: nothing is found.
local function table_of(rows, detail)
  return asking.rows(prepare, rows, function(row)
    local got = text_of(row[1], detail)
    if #row == 1 then lu.assertEquals(got, "", row[1]) end
    for i = 2, #row do
      local absent = row[i]:match "^no (.*)$"
      if absent then
        lu.assertNotStrContains(got, absent, false, row[1])
      else
        lu.assertStrContains(got, row[i], false, row[1])
      end
    end
  end)
end

tests.functions = table_of{
  {"td.mat|mul(a, b)", "td.matmul(a, b, o)", "The matrix product", "no op Mat"},
  {"td.matmul|", "td.matmul(a, b, o)"},
  {"|td.matmul", "td, a module"},
  {"td.matmul(|)", "td.matmul(a, b, o)"},
  {"td.matmul(|", "td.matmul(a, b, o)"},
  {"td.matmul(1, |2)", "td.matmul(a, b, o)"},
  {"td.matmul(f(1), {2, |3})", "td.matmul(a, b, o)"},
  {"td.conv2d(x, f, {padding = |", "td.conv2d(x, filter"},
  {"td.conv2d(x, f, {padd|ing = 'SAME'})", "padding: string {SAME, VALID",
   "An option of conv2d"},
  {"td.relu|", "td.relu(features, {name =})", "max(x, 0)"},
  {"td.raw.MatMul|", "td.raw.MatMul(a, b, {transpose_a"},
  {"td.train.adam|", "td.train.adam(lr, o)", "Kingma"},
  {"td.layers.dense(|", "td.layers.dense(x, units, o)"},
  {"td.nn.relu|", "max(x, 0)"},
  {"td.linalg.inv|", "td.matrix_inverse("},
  {"sess:run|", "sess:run(fetches, feeds, o)", "Computes what is fetched",
   "deadline_exceeded"},
  {"sess:run(x, |", "sess:run(fetches, feeds, o)"},
  {"x:reshape(|", "td.reshape"},
  {"W:assign(|", "W:assign(x, o)"},
  {"g:save(|", "g:save(g, path)"},
  {"opt:minimize(|", "optimizer:minimize(loss, o)"},
  {"td.session():run(|", "sess:run(fetches"},
  {"print|", "print(...)", "standard output"},
  {"print(|", "print(...)"},
  {"string.format(|", "string.format(formatstring, ...)"},
  {"('x'):rep(|", "string.rep(s, n, sep)"},
  {"text:upper|", "string.upper(s)"},
  {"scaled(|", "scaled(a, b)", "defined in In[7]:3", "Scales a by b.\nTwice.",
   "no return"},
  {"local function own(p, q) end own(|", "own(p, q)"},
  {"-- far\n\n-- Adds.\n-- Twice.\nlocal function own(p) end\nown|",
   "own(p)", "Adds.\nTwice.", "no far"},
  {"io.open(|", "io.open(filename, mode)"},
  {"print(x, function() return |", "no print(...)"},
}

tests.values = table_of{
  {"x|", "x: graph tensor \"input/x:0\" float32 {-1, 784}", "made at: ",
   "op: Placeholder \"input/x\"", "tests/lua/shared/asking.lua:"},
  {"y|", "act/relu:0", "inputs: input/x:0", "max(x, 0)"},
  {"y.op|", "op \"act/relu\" Relu", "inputs: input/x:0"},
  {"v|", "v: tensor int32 {3}", "1 2 3", "3 elements"},
  {"W|", "variable \"weights\" float32 {3, 4}", "bytes: 48", "trainable: true",
   "begins as: Fill"},
  {"sess|", "Session of a graph", "steps run: 0"},
  {"g|", "graph of ", "variables: 1"},
  {"config|", "config: table", "\"rate\": float", "\"nested\": table"},
  {"config.nested.deep|", "integer 1"},
  {"config.na|me", "string of 3 bytes", "\"net\""},
  {"number|", "integer 42"},
  {"flag|", "boolean true"},
  {"text|", "\"some text\""},
  {"td|", "td, a module"},
  {"td.train|", "td.train, a module", "optimizers"},
  {"td.nn|", "a module"},
  {"td.float32|", "\"float32\""},
  {"x.shape|", "{-1, 784}"},
  {"local s = td.session()\ns|", "s: session"},
  {"local n = x + 1\nn|", "n: graph tensor"},
  {"math|", "math: table"},
  {"math.pi|", "float 3.14"},
}

tests.words = table_of{
  {"for|", "for i = first, last", "Counts"}, {"loc|al x", "<close>"},
  {"retu|rn 1", "Leaves the function"},
  {"?matmul|", "td.matmul(a, b, o)"}, {"?sess:run|", "Computes what"},
  {"?config|", "\"rate\": float"}, {"%ti|me x", "%time"},
  {"%time td.mat|mul(a, b)", "td.matmul(a, b, o)"},
  {"sess:run('act/re|lu')", "op \"act/relu\" Relu"},
  {"sess:run('ac|t/relu')", "op \"act/relu\" Relu"},
  {"g['input/x:|0']", "Placeholder"}, {"sess:run('nothi|ng')", "sess:run("},
  {"nothing_there|"}, {"1 + 2|"}, {"|"}, {"'a string'|"}, {"-- matmul|"},
  {"config.nothing|"}, {"nothing.there|"}, {"f(|"},
}

tests.details = table_of({
  {"td.matmul|", "op MatMul(a: T, b: T)", "attributes:", "transpose_a: bool",
   "CPU: float32", "gradient: yes", "td.matmul({{1, 2}}"},
  {"td.relu|", "shape: that of the first input"},
  {"td.argmax|", "gradient: none"},
  {"scaled|", "return a * b", "In[7]:3"},
  {"y|", "op Relu(features: T)"},
  {"local function own(p, q) return p end own(|", "return p end"},
  {"print|", "print(...)"},
}, 1)

-- ---- forms ----------------------------------------------------------------

function tests.html_is_well_formed()
  local env = prepare()
  env.odd = {["<b>&\"'\0\xff"] = "<script>alert(1)</script>"}
  env.tag = "<script>&amp;\xff\1</script>"
  local _ <close> = asking.provide(env)
  for _, text in ipairs{"odd|", "tag|", "td.less|", "x|", "W|", "scaled|",
                        "td.matmul|", "sess:run|"} do
    for detail = 0, 1 do
      local page = ask(text, detail).data["text/html"]
      lu.assertNil(page:find "<script", text)
      lu.assertNotNil(utf8.len(page), text)
      local open = {}
      for close, name, empty in page:gmatch "<(/?)(%w+)[^>]-(/?)>" do
        if close == "/" then
          lu.assertEquals(table.remove(open), name, text)
        elseif empty == "" then
          open[#open + 1] = name
        end
      end
      lu.assertEquals(#open, 0, text)
    end
  end
end

function tests.by_the_door()
  local reply = json.decode(console.call("inspect",
    '{"code": "print(1)", "cursor_pos": 3, "detail_level": 0}'))
  lu.assertTrue(reply.found)
  lu.assertStrContains(reply.data["text/plain"], "standard output")
  local text = console.call("inspect", '{"code": "", "cursor_pos": 0}')
  lu.assertStrContains(text, '"found": false')
  lu.assertStrContains(text, '"data": {}')
end

function tests.cursors_count_code_points()
  local code = "'\u{1F600}e\u{301}' print"
  for at = utf8.len(code) - 5, utf8.len(code) do
    lu.assertTrue(inspect({code = code, cursor_pos = at}, {}).found)
  end
  for _, request in ipairs{{}, {code = 3}, {code = "x", cursor_pos = -1},
                           {code = "\xff\xfeprint", cursor_pos = 100},
                           {code = "x", detail_level = "a"}} do
    lu.assertEquals(inspect(request, {}).status, "ok")
  end
end

-- ---- hostile state --------------------------------------------------------

function tests.nothing_of_the_user_runs()
  local count = {n = 0}
  local trap = asking.trap(count)
  local _ <close> = asking.provide{trap_x = trap,
                                   holder = {trap = trap, [trap] = 1}}
  for _, text in ipairs{"trap_x|", "trap_x.field|", "trap_x.other|",
                        "trap_x(|", "trap_x:field(|", "holder|",
                        "holder.trap|", "(trap_x + 1)|", "trap_x[1].a|",
                        "local t = trap_x()\nt|"} do
    for detail = 0, 1 do ask(text, detail) end
  end
  lu.assertEquals(count.n, 0)
end

function tests.large_values_are_cut()
  local large, ring = {}, {}
  for i = 1, 100000 do large["key" .. i] = i end
  ring[1], ring.me = ring, ring
  setmetatable(ring, {__index = ring})
  local _ <close> = asking.provide{large = large, ring = ring,
    long = ("\u{E9}x"):rep(1000000), tensor = td.value.zeros{1000, 1000}}
  for _, text in ipairs{"large|", "ring|", "long|", "tensor|", "ring.me.me|"} do
    local page = text_of(text)
    lu.assertTrue(#page > 0 and #page < 3000, text)
    lu.assertNotNil(utf8.len(page))
  end
end

local pieces = {"local ", "x", " = ", "td", ".", ":", "(", ")", "{", "}", "[",
  "]", "'", '"', "[[", "--", "\n", " ", "function ", "end ", "do ", "then ",
  "matmul", "sess", "run", "conv2d", ",", "..", "12", "%", "?", "\u{1F600}",
  "\xff", "W", "padding", "config", "scaled", "print", "string", "nested"}

function tests.random_text()
  local _ <close> = asking.provide(prepare())
  local rng = require("tide.base.rng").new(8)
  local n = os.getenv "TIDE_SOAK" and 100000 or 3000
  for _ = 1, n do
    local parts = {}
    for k = 1, rng:integer(0, 20) do
      parts[k] = pieces[rng:integer(1, #pieces)]
    end
    local code = table.concat(parts)
    local reply = inspect({code = code, detail_level = rng:integer(0, 1),
                           cursor_pos = rng:integer(-1, #code + 1)}, {})
    lu.assertNil(reply.metadata.tide_problem, code)
  end
end

return tests
