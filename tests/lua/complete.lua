-- complete.lua - what completion offers, where, and that it harms nothing.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local json = require "tide.base.json"
local complete = require "tide.services.complete"
local console = require "tide.console"
local asking = require "shared.asking"

local tests = {}

local function ask(text) return asking.at(complete, text) end

-- "name type" of each match, by name.
local function types_of(reply)
  local types = {}
  for i, row in ipairs(reply.metadata._jupyter_types_experimental) do
    lu.assertEquals(row.text, reply.matches[i])
    lu.assertEquals({row.start, row["end"]},
                    {reply.cursor_start, reply.cursor_end})
    types[row.text] = row.type
  end
  return types
end

-- A row: the text; what must be among the matches, as "name type" or "name",
-- or "no name" for what must not, or "only" for a list that is all.
local function check(row)
  local reply, before = ask(row[1])
  local text = row[1]:sub(-200)
  local types, wanted = types_of(reply), 0
  for i = 2, #row do
    local name, kind = row[i]:match "^(.-)  (%l+)$"
    name = name or row[i]
    if name:find "^no " then
      lu.assertNil(types[name:sub(4)], text .. " offers " .. name:sub(4))
    elseif name ~= "only" then
      wanted = wanted + 1
      lu.assertNotNil(types[name], ("%s does not offer %s but %s"):format(text,
        name, table.concat(reply.matches, " "):sub(1, 300)))
      if kind then lu.assertEquals(types[name], kind, text .. ": " .. name) end
    end
  end
  if row[2] == "only" then lu.assertEquals(#reply.matches, wanted, text) end
  local fragment = row.fragment or before:match "[%w_]*$"
  lu.assertEquals(reply.cursor_end, utf8.len(before), text)
  lu.assertEquals(reply.cursor_start, reply.cursor_end - utf8.len(fragment),
                  text)
end

-- What the rows speak of.
local function prepare()
  local env = asking.names()
  env.layer = td.layers.dense(4)
  env.config = {rate = 0.1, name = "net", nested = {deep = {deeper = true}},
                list = {{key = "s"}, {other = 2}},
                update = function(a, b) return a, b end}
  local class = {greet = function(self) return self end, size = 3}
  class.__index = class
  env.object = setmetatable({own = 1}, class)
  env.derived = setmetatable({}, {__index = setmetatable({mid = 1},
    {__index = {far = function() end}})})
  env.caller = setmetatable({}, {__call = function() end})
  env.alpha_one, env.alpha_two, env.Alpha = 1, "two", true
  env._hidden = 1
  return env
end

local function table_of(rows) return asking.rows(prepare, rows, check) end

-- ---- names ----------------------------------------------------------------

tests.names = table_of{
  {"pri|", "only", "print  function"},
  {"tostr|", "only", "tostring  function"},
  {"alpha|", "alpha_one  instance", "alpha_two  instance", "Alpha  instance"},
  {"Alp|", "Alpha  instance", "alpha_one"},
  {"|", "x  tensor", "W  variable", "v  tensor", "td  module", "no _hidden_x"},
  {"_hid|", "only", "_hidden  instance"},
  {"whil|", "only", "while  keyword"},
  {"retur|", "return  keyword"},
  {"strin|", "only", "string  module"},
  {"x = alpha_o|", "only", "alpha_one"},
  {"f(alpha_o|)", "only", "alpha_one"},
  {"alpha_o|ne", "only", "alpha_one"},
  {"y = 1 + alpha_t|", "only", "alpha_two"},
  {"nothing_of_that_name|", "only"},
  {"-- alpha|", "only", fragment = ""},
  {"x = 1 -- alpha|", "only", fragment = ""},
  {"--[[ alpha|", "only", fragment = ""},
  {"--[[ a ]] alph|", "alpha_one"},
  {"x = 12|", "only", fragment = ""},
  {"x = 0x1f|", "only", fragment = ""},
  {"function alph|", "only", fragment = ""},
  {"caller|", "caller  class"},
}

tests.locals = table_of{
  {"local mine, mind = 1, 2\nmi|", "mine  instance", "mind"},
  {"local mine = mi|", "no mine"},
  {"local function minor(a) end minor|", "minor  function"},
  {"local function minor(argument) return argu|", "only", "argument"},
  {"function f(...) local inner = 1 end inne|", "only"},
  {"do local inner = 1 end inne|", "only"},
  {"for index, row in pairs(t) do ind|", "only", "index"},
  {"for index = 1, 10 do print(ind|", "only", "index"},
  {"for index = 1, 10 do end ind|", "only"},
  {"if a then local inner = 1 else inne|", "only"},
  {"if a then local inner = 1 elseif inne|", "only"},
  {"repeat local inner = 1 until inne|", "only", "inner"},
  {"while true do local inner = 1 inne|", "only", "inner"},
  {"local a <const>, inner <close> = 1, 2\ninne|", "only", "inner"},
  {"function m:f() sel|", "select  function", "self"},
  {"fresh_global = 3\nfresh|", "only", "fresh_global  instance"},
  {"function fresh_f(a) end\nfresh|", "only", "fresh_f  function"},
  {"local t = td.placeholder('float32', {})\nlocal u = 1\nt|", "t  tensor"},
  {"local f = function() local inner = 1 ; return inne|", "only", "inner"},
  {"local s = [[\nlocal inner = 1\n]]\ninne|", "only"},
  {"local long_name = 1 -- local other = 2\nlong_n|", "only", "long_name"},
}

-- ---- fields and methods ---------------------------------------------------

tests.fields = table_of{
  {"config.|", "only", "rate  property", "name  property", "nested  property",
   "list  property", "update  function"},
  {"config.na|", "only", "name  property"},
  {"config:|", "only", "update  function"},
  {"config.nested.deep.|", "only", "deeper  property"},
  {"config.nested['deep'].|", "only", "deeper"},
  {'config["nested"].deep.|', "only", "deeper"},
  {"config.list[1].|", "only", "key"},
  {"config.list[2].|", "only", "other"},
  {"config . nested . |", "only", "deep", fragment = ""},
  {"config.list[1].key:|", "rep  function", "format  function"},
  {"config.list[1].key.le|", "only", "len"},
  {"config.nothing.|", "only"},
  {"nothing.|", "only"},
  {"object.|", "own  property", "greet  function", "size  property"},
  {"object:|", "only", "greet  function"},
  {"derived.|", "only", "mid  property", "far  function"},
  {"derived:|", "only", "far"},
  {"('text'):|", "upper  function", "no own"},
  {"('text'):up|", "only", "upper"},
  {"alpha_two:|", "upper  function"},
  {"alpha_one.|", "only"},
  {"string.|", "format  function", "rep  function"},
  {"math.p|", "pi  property"},
  {"io.stdout:|", "write  function", "close  function"},
  {"a..x.sh|", "shape"},
  {"print(config.na|)", "only", "name"},
  {"f(1, config.list[1].|)", "only", "key"},
  {"t[config.na|]", "only", "name"},
  {"return config.na|", "only", "name"},
  {"if config.na|", "only", "name"},
  {"not config.na|", "only", "name"},
  {"#config.na|", "only", "name"},
  {"(config).na|", "only", "name"},
  {"_G.pri|", "only", "print  function"},
  {"local c = config\nc.na|", "only", "name"},
  {"local n = config.nested\nlocal d = n.deep\nd.|", "only", "deeper"},
  {"local t = {one = 1, two = config}\nt.|", "only", "one  property", "two"},
  {"local t = {one = 1, two = config}\nt.two.na|", "only", "name"},
  {"local t = {{inner = 1}}\nt[1].|", "only", "inner"},
  {"local s = 'a' .. 'b'\ns:up|", "only", "upper"},
  {"local M = {}\nfunction M.new(a) end\nfunction M:go() end\nM.size = 3\nM.|",
   "only", "new  function", "go  function", "size  property"},
  {"local M = {}\nfunction M.new(a) end\nM.size = 3\nM:|", "only", "new"},
  {"M2 = {one = 1}\nM2.two = config\nM2.two.na|", "only", "name"},
}

tests.things_of_tide = table_of{
  {"td.|", "matmul  function", "train  module", "layers  module",
   "float32  instance", "session  function", "nn  module"},
  {"td.matm|", "only", "matmul  function"},
  {"td.train.|", "adam  function", "sgd  function"},
  {"td.train.ad|", "only", "adam", "adagrad", "adadelta", "add_queue_runner"},
  {"local q = td.fifo_queue(8, 'int32', {})\nq:deq|", "only", "dequeue",
   "dequeue_up_to"},
  {"td.random_shuffle_queue(8, 'int32', {}, {min|", "only",
   "min_after_dequeue = "},
  {"td.nn.rel|", "relu  function", "relu6"},
  {"td.linalg.inv|", "inv  function"},
  {"td.layers.den|", "only", "dense  function"},
  {"td.raw.MatMu|", "MatMul  function"},
  {"td.value.zer|", "zeros  function"},
  {"td.losses.hub|", "only", "huber_loss  function"},
  {"td:|", "no nn"},
  {"x:matm|", "only", "matmul  function"},
  {"x.|", "shape  property", "dtype  property", "op  op", "sum  function"},
  {"x:|", "sum  function", "eval  function", "no shape", "no item"},
  {"v:|", "item  function", "rows  function", "no eval"},
  {"v.|", "shape  property", "no op"},
  {"x.op.|", "type  property", "inputs  property", "run  function"},
  {"y.op.inputs[1].sha|", "shape"},
  {"W:ass|", "assign  function", "assign_add  function"},
  {"W.|", "initializer  op", "name  property", "trainable  property"},
  {"W['0:2']:ass|", "assign  function"},
  {"sess:|", "run  function", "init  function", "no core_run"},
  {"g:|", "ops  function", "save  function"},
  {"opt:|", "minimize  function", "compute_gradients  function"},
  {"layer.|", "variables  property"},
  {"td.session():|", "run  function", "close  function"},
  {"td.placeholder('float32', {}):red|", "reduce_sum  function"},
  {"td.placeholder('float32', {}).op.|", "inputs  property"},
  {"(x * 2):matm|", "matmul"},
  {"(2 * x + 1):matm|", "matmul"},
  {"(-x):matm|", "matmul"},
  {"x['0:2']:matm|", "matmul"},
  {"x[0]:matm|", "matmul"},
  {"td.matmul(x, y):sum().sha|", "shape"},
  {"td.gradients(y, {W})[1]:matm|", "matmul"},
  {"td.train.sgd(0.1):|", "minimize  function"},
  {"local s = td.session()\ns:ru|", "run  function"},
  {"local s <close> = td.session()\ns:ru|", "run"},
  {"s2 = td.session{threads = 1}\ns2:ru|", "run"},
  {"local a = td.matmul(x, y)\nlocal b = a + 1\nb:re|", "reshape", "relu"},
  {"local o = td.train.adam(1)\no:mini|", "minimize"},
  {"local h = td.session():start(y)\nh:|", "only", "wait", "done", "cancel",
   "steps", "log"},
  {"require('tide').matm|", "matmul"},
  {"local td2 = require 'tide'\ntd2.matm|", "matmul"},
  {"td.get_default_graph():|", "ops", "save"},
  {"g['input/x:0']:matm|", "matmul"},
}

-- ---- inside calls ---------------------------------------------------------

tests.options = table_of{
  {"td.conv2d(x, f, {|", "padding =   property", "strides =   property",
   "name =   property", "data_format =   property"},
  {"td.conv2d(x, f, {pad|", "only", "padding =   property"},
  {"td.conv2d(x, f, {strides = 2, pad|", "padding = "},
  {"td.conv2d(x, f, {pad| = 'SAME'})", "only", "padding  property"},
  {"td.matmul(x, y, {trans|", "transpose_a = ", "transpose_b = "},
  {"x:matmul(y, {trans|", "transpose_a = "},
  {"x:sum{0, keep|", "only", "keep_dims = "},
  {"x:mean({0}, {keep|", "only", "keep_dims = "},
  {"td.concat({pad|", "no padding = "},
  {"td.session{thr|", "only", "threads = "},
  {"td.session({thr|", "only", "threads = "},
  {"opt:minimize(loss, {glob|", "global_step = "},
  {"td.raw.Conv2D(x, f, {dil|", "dilations = "},
  {"sess:run(y, {nam|", "no name = "},
  {"sess:run(y, {}, {time|", "only", "timeout = "},
  {"td.layers.dense(x, 10, {act|", "activation = "},
  {"td.losses.huber_loss(a, b, {de|", "delta = "},
  {"td.metrics.accuracy(a, b, {wei|", "weights = "},
  {"td.random_uniform{2, 3, min|", "minval = "},
  {"td.zeros({2}, {dty|", "only", "dtype = "},
  {"td.nn.lstm_cell(10, {for|", "forget_bias = "},
  {"td.initializers.random_normal{std|", "stddev = "},
  {"td.get_variable('v', {2}, {init|", "initializer = "},
  {"td.while_loop(c, b, {0}, {par|", "parallel_iterations = "},
  {"td.conv2d(x, f, {padding = alph|", "alpha_one", "no padding = "},
}

-- What takes no name that could be offered.
local without = {["g:summary"] = 1, ["train.sgd"] = 1, ["g:display"] = 1,
                 ["g:estimate"] = 1, ["g:picture"] = 1}

function tests.every_function_has_its_options()
  local known = require "tide.assist.options"
  local missing = {}
  for name, row in pairs(require "tide.help.reference".rows()) do
    if row.call:find "%f[%w]o%)$" and not row.module:find "^ops%."
       and not without[name] and row.text ~= "" then
      if #known.of(name) == 0 then missing[#missing + 1] = name end
    end
  end
  lu.assertEquals(missing, {}, "without options; see tide.assist.options")
end

tests.strings = table_of{
  {"td.conv2d(x, f, {padding = '|", "only", "SAME", "VALID"},
  {"td.conv2d(x, f, {padding = \"VA|", "only", "VALID"},
  {"td.conv2d(x, f, {data_format = '|", "NHWC", "NCHW"},
  {"td.placeholder('flo|", "float32", "float64", "no int32"},
  {"td.placeholder(\"int|", "int32", "int64", "no uint8", "no string"},
  {"td.cast(x, '|", "float32", "bool"},
  {"x:cast('flo|", "float32"},
  {"x:cast 'flo|", "float32"},
  {"td.tensor({1}, 'int6|", "only", "int64"},
  {"td.argmax(x, 0, {output_type = 'int|", "int32", "int64"},
  {"x.dtype == 'flo|", "float32"},
  {"sess:run('inp|", "only", "input/x  tensor"},
  {"sess:run{'act|", "act/relu"},
  {"sess:run{loss = 'act|", "act/relu"},
  {"sess:run({a = {b = 'act|", "act/relu"},
  {"td.raw.Cast(x, {DstT = 'flo|", "float32"},
  {"sess:run('input/|", "only", "input/x", fragment = "input/"},
  {"sess:run('input/x:|", "only", "input/x:0", fragment = "input/x:"},
  {"sess:run(y, {['|", "only", "input/x  feed"},
  {"sess:run(y, {['inp|", "only", "input/x  feed"},
  {"y:eval{['|", "only", "input/x  feed"},
  {"g['act/|", "only", "act/relu", fragment = "act/"},
  {"g:op 'wei|", "weights", "weights/Assign  op"},
  {"td.device('|", "/cpu:0  device"},
  {"td.device '/cp|", "only", "/cpu:0  device", fragment = "/cp"},
  {"require 'ti|", "tide  module"},
  {"require('strin|", "string  module"},
  {"td.help 'matm|", "matmul"},
  {"td.get_variable('wei|", "only", "weights  variable"},
  {"io.open('tests/lua/compl|", "only", "complete.lua  path"},
  {"io.open 'tests/lu|", "only", "lua/  path"},
  {"local f = 'tests/ru|", "run.py  path"},
  {"td.import_graph('tests/lua/compl|", "complete.lua  path"},
  {"x['0:|", "only", fragment = "0:"},
  {"config.list = [[tests/lua/compl|", "complete.lua"},
  {"f('no/such/folder/|", "only", fragment = ""},
}

tests.no_lua = table_of{
  {"?matm|", "matmul  function", "MatMul  op"},
  {"?td.matm|", "matmul  function"},
  {"?sess:ru|", "run  function"},
  {"?config.na|", "name"},
  {"x = 1\n?matm|", "matmul"},
  {"!ls tests/lua/compl|", "only", "complete.lua  path"},
  {"%ti|", "only", "time  command", "timeit  command"},
  {"%time td.matm|", "only", "matmul  function"},
  {"%time x = config.na|", "only", "name"},
  {"%run tests/lua/compl|", "only", "complete.lua  path"},
  {"%cd tests/lu|", "only", "lua/  path"},
  {"% weird % |"},
  {"!echo don't\nlocal inner = 1\ninne|", "only", "inner"},
  {"%time x\nlocal inner = 1\ninne|", "only", "inner"},
}

-- ---- order, signatures ----------------------------------------------------

function tests.the_best_come_first()
  local _ <close> = asking.provide(prepare())
  local reply = ask "local alpha_local = 1\nalph|"
  lu.assertEquals(reply.matches[1], "alpha_local")
  lu.assertEquals(reply.matches[#reply.matches], "Alpha")
  reply = ask "local wh = 1\nwh|"
  lu.assertEquals(reply.matches, {"wh", "while"})
end

function tests.signatures()
  local _ <close> = asking.provide(prepare())
  for text, want in pairs{
    ["td.matmu|"] = "(a, b, o)", ["config.updat|"] = "(a, b)",
    ["x:cas|"] = "(dtype, o)", ["sess:ru|"] = "(fetches, feeds, o)",
    ["string.forma|"] = "(formatstring, ...)", ["x:dim|"] = "(axis)",
    ["td.conv2d(x, f, {paddin|"] = "string {SAME, VALID, EXPLICIT}",
    ["W|"] = ": float32 {3, 4}", ["local function f(p, q) end\nf|"] = "(p, q)",
  } do
    local rows = ask(text).metadata._jupyter_types_experimental
    lu.assertEquals(rows[1].signature, want, text)
  end
end

-- ---- cursors --------------------------------------------------------------

function tests.cursors_count_code_points()
  local code = "local s = '\u{1F600}e\u{301}' pri"
  local n = utf8.len(code)
  local reply = complete({code = code, cursor_pos = n}, {})
  lu.assertEquals(reply.matches, {"print"})
  lu.assertEquals({reply.cursor_start, reply.cursor_end}, {n - 3, n})
  reply = complete({code = code .. "\u{1F600}", cursor_pos = n}, {})
  lu.assertEquals(reply.matches, {"print"})
  for _, at in ipairs{-5, 10000, math.maxinteger, math.mininteger} do
    reply = complete({code = "pri", cursor_pos = at}, {})
    lu.assertEquals(reply.cursor_end, at < 0 and 0 or 3)
  end
  reply = complete({code = "pri"}, {})
  lu.assertEquals(reply.matches, {"print"})
end

function tests.text_that_is_no_utf8()
  for _, code in ipairs{"\xff\xfe pri", "x = '\x80' pri", "\xed\xa0\x80 pri",
                        "\xf0\x9f pri"} do
    local reply = complete({code = code, cursor_pos = 1000}, {})
    lu.assertEquals(reply.matches, {"print"}, code)
    lu.assertEquals(reply.cursor_end - reply.cursor_start, 3)
  end
end

function tests.requests_that_are_none()
  for _, request in ipairs{{}, {code = 3}, {code = "", cursor_pos = "a"},
                           {code = json.null}, {code = "a.", cursor_pos = 1.5}}
  do
    local reply = complete(request, {})
    lu.assertEquals(reply.status, "ok")
    lu.assertTrue(reply.cursor_start <= reply.cursor_end)
  end
end

function tests.by_the_door()
  local text = console.call("complete",
                            '{"code": "pri", "cursor_pos": 3}')
  local reply = json.decode(text)
  lu.assertEquals(reply.matches, {"print"})
  lu.assertEquals(reply.metadata._jupyter_types_experimental[1].type,
                  "function")
  text = console.call("complete", '{"code": "", "cursor_pos": 0}')
  lu.assertStrContains(text, '"cursor_start": 0')
  lu.assertStrContains(console.call("complete",
    '{"code": "zzzz", "cursor_pos": 4}'), '"matches": []')
end

-- ---- hostile state --------------------------------------------------------

function tests.no_function_of_the_user_is_called()
  local count = {n = 0}
  local called = function() count.n = count.n + 1 end
  local _ <close> = asking.provide{
    trap_x = asking.trap(count), caller_f = called,
    holder = {trap = asking.trap(count), call = called},
  }
  for _, text in ipairs{"trap_|", "trap_x.|", "trap_x:|", "trap_x.field.|",
                        "trap_x[1].|", "trap_x().|", "caller_f().|",
                        "caller_f():|", "caller_f{|", "caller_f('|",
                        "holder.|", "holder:|", "holder.trap.|",
                        "trap_x + 1|", "(trap_x + 1).|", "trap_x.missing.|",
                        "local q = caller_f()\nq.|", "for k in trap_x do k.|",
                        "require(caller_f()).|", "caller_f('|", "trap_x['|"} do
    ask(text)
  end
  lu.assertEquals(count.n, 0)
end

function tests.rings_and_deep_chains()
  local ring = {here = 1}
  ring.me = ring
  setmetatable(ring, {__index = ring})
  local a, b = {in_a = 1}, {in_b = 2}
  setmetatable(a, {__index = b})
  setmetatable(b, {__index = a})
  local deep = {}
  for _ = 1, 1000 do deep = setmetatable({}, {__index = deep}) end
  local weird = setmetatable({}, {__metatable = "locked",
                                  __index = {under = 1}})
  local _ <close> = asking.provide{ring = ring, two = a, deep = deep,
                                   weird = weird}
  check{"ring.|", "here", "me"}
  check{"ring.me.me.me.|", "here"}
  check{"two.|", "only", "in_a", "in_b"}
  check{"deep.|", "only"}
  check{"weird.|", "only", "under"}
  check{"local q = q.q\nq.|", "only"}
  check{"q = r\nr = q\nq.|", "only"}
  check{("local a = b + b local b = a + a "):rep(50) .. "a.|", "no x"}
end

function tests.large_tables_are_cut()
  local large = {}
  for i = 1, 200000 do large["key" .. i] = i end
  local _ <close> = asking.provide{large = large}
  local reply = ask "large.|"
  lu.assertEquals(#reply.matches, 1000)
  reply = ask "large.key1|"
  lu.assertTrue(#reply.matches <= 1000)
end

function tests.types_may_offer_names()
  local _ <close> = asking.provide{
    list = setmetatable({}, {__complete = {"one", "two"}}),
    made = setmetatable({}, {__complete = function() return {"three"} end}),
    raising = setmetatable({}, {__complete = function() error "no" end}),
    endless = setmetatable({}, {__complete = function()
      while true do pcall(error) end
    end}),
    wrong = setmetatable({}, {__complete = function() return 7, {} end}),
    yielding = setmetatable({}, {__complete = coroutine.yield}),
  }
  check{"list.|", "only", "one", "two"}
  check{"made.|", "only", "three"}
  for _, name in ipairs{"raising", "endless", "wrong", "yielding"} do
    check{name .. ".|", "only"}
  end
end

-- ---- anything -------------------------------------------------------------

local pieces = {"local ", "x", " = ", "td", ".", ":", "(", ")", "{", "}", "[",
  "]", "'", '"', "[[", "]]", "--", "--[[", "\n", " ", "function ", "end ",
  "do ", "then ", "if ", "else ", "for ", "in ", "while ", "repeat ", "until ",
  "return ", "matmul", "sess", "run", "conv2d", "placeholder", ",", ";", "..",
  "...", "12", "0x", "1e", "\\", "%", "!", "?", "%time ", "\u{1F600}", "\xff",
  "e\u{301}", "<", ">", "::", "goto ", "#", "-", "~", "not ", "require", "g",
  "padding", "W", "self", "elseif ", "a.b.c", "local function f(a, b) "}

-- Nothing raises, and the cursor is where it was.
local function try(code, at)
  local reply = complete({code = code, cursor_pos = at}, {})
  local size = #code
  code = code:sub(-200)
  lu.assertNil(reply.metadata.tide_problem, code)
  lu.assertTrue(reply.cursor_start <= reply.cursor_end, code)
  lu.assertTrue(reply.cursor_start >= 0, code)
  lu.assertTrue(reply.cursor_end <= size)
  lu.assertTrue(#reply.matches <= 1000)
  lu.assertEquals(#reply.metadata._jupyter_types_experimental, #reply.matches)
end

function tests.random_text()
  local _ <close> = asking.provide(prepare())
  local rng = require("tide.base.rng").new(6)
  local function draw(n) return rng:integer(0, n - 1) end
  local n = os.getenv "TIDE_SOAK" and 100000 or 5000
  for _ = 1, n do
    local parts = {}
    for k = 1, draw(25) do parts[k] = pieces[1 + draw(#pieces)] end
    local code = table.concat(parts)
    try(code, draw(#code + 3) - 1)
  end
end

function tests.every_cursor_in_the_tutorials()
  local pipe <close> = assert(io.popen "ls tutorials/*.lua 2>/dev/null")
  for path in pipe:lines() do
    local file <close> = assert(io.open(path))
    local code = file:read "a"
    for at = 0, #code, 97 do try(code, at) end
  end
end

function tests.long_texts()
  local line = "local v = td.matmul(x, {a = 1, 'b', [3] = function() end})\n"
  local text = line:rep(2000)
  check{text .. "local mine = 1\nmin|", "mine"}
  check{"first_name = 1\n" .. text .. "first_n|", "first_name"}
  try(('"" '):rep(50000) .. "x.", 1 << 30)
  try(("f{"):rep(5000) .. "x.", 1 << 30)
  try(("("):rep(100000), 1 << 30)
  try(("x."):rep(50000), 1 << 30)
  try(("x()"):rep(30000) .. ".", 1 << 30)
  try(("local function f() "):rep(5000), 1 << 30)
  try(("-"):rep(100001), 1 << 30)
end

return tests
