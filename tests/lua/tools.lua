-- tools.lua - flags, progress, errors, help, comparison, JSON.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local defaults = {lr = 1e-3, epochs = 5, data = "", shuffle = true,
                  batch_size = 10}

function tests.flags()
  local rows = {
    {{}, "epochs", 5}, {{"--epochs", "7"}, "epochs", 7},
    {{"--epochs=7"}, "epochs", 7}, {{"--lr", "1"}, "lr", 1.0},
    {{"--lr=1e-5"}, "lr", 1e-5}, {{"--data", "x y"}, "data", "x y"},
    {{"--data="}, "data", ""}, {{"--shuffle"}, "shuffle", true},
    {{"--no-shuffle"}, "shuffle", false}, {{"--shuffle=no"}, "shuffle", false},
    {{"--batch-size", "3"}, "batch_size", 3}, {{"a", "b"}, 2, "b"},
    {{"--data", "--lr"}, "data", "--lr"},
  }
  for i, row in ipairs(rows) do
    local got = td.flags(defaults, row[1])[row[2]]
    lu.assertEquals(got, row[3], "row " .. i)
    lu.assertEquals(math.type(got), math.type(row[3]), "row " .. i)
  end
end

function tests.flags_refused()
  local rows = {
    {{"--epoch", "3"}, "did you mean --epochs?"},
    {{"--epochs", "x"}, "is an integer, given \"x\""},
    {{"--epochs", "1.5"}, "is an integer"}, {{"--lr", "fast"}, "is a float"},
    {{"--epochs"}, "needs a value"}, {{"--shuffle=maybe"}, "is a boolean"},
    {{"--no-lr"}, "no flag --no_lr"},
  }
  for _, row in ipairs(rows) do raises(row[2], td.flags, defaults, row[1]) end
  raises("default", td.flags, {x = {}}, {})
end

-- --resume belongs to the script's own words, not to a list that is given.
function tests.flags_resume()
  local flags = require "tide.script.flags"
  local was = arg
  local function words(list) rawset(_G, "arg", list) end
  local _ <close> = setmetatable({}, {__close = function() words(was) end})
  raises("no flag --resume", td.flags, defaults, {"--resume"})
  lu.assertEquals(td.flags({resume = 3}, {"--resume", "4"}).resume, 4)
  words{}
  td.flags(defaults)
  lu.assertFalse(flags.resume())
  words{"--resum"}
  raises("did you mean --resume?", td.flags, defaults)
  words{"--resume", "--lr", "2", "word"}
  local values = td.flags(defaults)
  lu.assertEquals({values.lr, values[1], values.resume}, {2.0, "word"})
  lu.assertTrue(flags.resume())
  lu.assertTrue(flags.last() == values)
end

function tests.flags_compared()
  local flags = require "tide.script.flags"
  local function said(was, is)
    local list = {}
    for i, d in ipairs(flags.differences(was, is)) do list[i] = d.text end
    return table.concat(list, "; ")
  end
  local rows = {
    {{lr = 0.001}, {lr = 0.01}, "--lr was 0.001, is 0.01"},
    {{lr = 1}, {lr = 1.0}, ""}, {{lr = 0 / 0}, {lr = 0 / 0}, ""},
    {{b = 1, a = "x"}, {b = 2, a = "y"},
     '--a was "x", is "y"; --b was 1, is 2'},
    {{a = true}, {}, "--a was true, is not there"},
    {{}, {a = false}, "--a was not there, is false"},
    {{resume = true, "word"}, {"other"}, ""},
    {{}, {["\27[1m"] = "\27\n"}, '--?[1m was not there, is "\\27\\n"'},
  }
  for i, row in ipairs(rows) do
    lu.assertEquals(said(row[1], row[2]), row[3], "row " .. i)
  end
  lu.assertEquals(flags.list{b = 1, a = "x", "word", resume = true},
                  {{name = "a", value = "x"}, {name = "b", value = 1}})
end

function tests.progress()
  local seen = 0
  for i in td.progress(3) do seen = seen + i end
  lu.assertEquals(seen, 6)
  local list = {}
  for batch in td.progress(td.data.of{x = {1, 2, 3}}:batches(2),
                           {title = "t"}) do
    list[#list + 1] = batch.x:table()
  end
  lu.assertEquals(list, {{1, 2}, {3}})
  raises("a number or an iterator", td.progress, {})
end

function tests.errors()
  local ok, e = pcall(td.matmul, td.tensor{{1.0}}, td.tensor{{1.0}, {2.0}})
  lu.assertFalse(ok)
  lu.assertEquals({e.code, e.op}, {"invalid_argument", "MatMul"})
  lu.assertStrContains(tostring(e), "MatMul")
  lu.assertStrContains("failed: " .. e, "failed: ")
  local x = td.constant(1.0, "x")
  local _, f = pcall(function() return td.matmul(x, x) end)
  lu.assertStrContains(tostring(f), "tools.lua:")
  lu.assertStrContains(f.where, "tools.lua:")
  local _, g = pcall(function() return td.session():run(td.check_numerics(
    td.log(x * -1), "bad", {name = "check"})) end)
  lu.assertEquals({g.node, g.op}, {"check", "CheckNumerics"})
end

function tests.assert_and_print()
  local x = td.placeholder("float32", {}, "x")
  local sure = td.assert(x:greater(0), {x})
  local y = td.control_dependencies({sure}, function() return x * 2 end)
  local s = td.session()
  lu.assertEquals(s:run(y, {x = 2}), 4.0)
  local e = raises("", s.run, s, y, {x = -2})
  lu.assertEquals(e.code, "invalid_argument")
  lu.assertEquals(s:run(td.print(x, "x is", {first_n = 0}), {x = 3}), 3.0)
end

function tests.close()
  lu.assertTrue(td.test.close({1.0, 2.0}, td.tensor{1.0, 2.0 + 1e-7}))
  lu.assertTrue(td.test.close({0 / 0, 1 / 0}, {0 / 0, 1 / 0}))
  raises("1 of 2 elements differ, the first at 1", td.test.close, {1.0, 2.0},
         {1.0, 2.1})
  raises("shapes differ: {2} and {1}", td.test.close, {1, 2}, {1})
  raises("differ", td.test.close, {0 / 0}, {1.0})
  raises("differ", td.test.close, {1 / 0}, {-1 / 0})
  td.test.close({1.0}, {1.1}, {rtol = 0.2})
end

function tests.gradient_check_finds_mistakes()
  local wrong = td.custom_gradient(function(x) return x * x end,
                                   function(dy, x) return dy * x end)
  lu.assertTrue(td.test.gradient(wrong, {1.0, 2.0}) > 0.1)
  lu.assertTrue(td.test.gradient(td.square, {1.0, 2.0}) < 1e-8)
end

function tests.names()
  lu.assertEquals(type(td.version), "string")
  lu.assertTrue(td.nn.relu == td.relu)
  raises("td has no \"sesion\"; did you mean \"session\"?",
         function() return td.sesion end)
  local names = getmetatable(td).__complete()
  local all = {}
  for _, name in ipairs(names) do all[name] = true end
  for _, name in ipairs{"matmul", "session", "train", "float32", "cond"} do
    lu.assertTrue(all[name], name)
  end
end

-- Every name that td promises leads to something.
function tests.every_name_loads()
  for _, name in ipairs(getmetatable(td).__complete()) do
    lu.assertNotNil(td[name], name)
  end
end

function tests.draw()
  lu.assertEquals(td.draw({{0.0, 0.2, 0.4, 0.6, 0.8, 1.0}, {1.0, 0, 0, 0, 0, 0},
                           {2.0, -1.0, 0 / 0, 1.0, 0.0, 0.0}}),
                  " .:+#@\n@ ?@")
  lu.assertEquals(td.draw(td.tensor{{{1, 3}}, {{3, 2}}}, {low = 1, high = 3}),
                  " @ @+")
  raises("given int32 {2}", td.draw, {1, 2})
  raises("given string", td.draw, {{"a"}})
  raises("{0, 3}", td.draw, td.tensor({}, "float32", {0, 3}))
end

function tests.json()
  local encode = require("tide.base.json").encode
  local rows = {
    {{1, 2.5, true, "a"}, '[1, 2.5, true, "a"]'}, {{}, "[]"},
    {{b = 1, a = {x = {}}}, '{"a": {"x": []}, "b": 1}'},
    {'q"\\\n\1', '"q\\"\\\\\\n\\u0001"'}, {0 / 0, "null"},
  }
  for _, row in ipairs(rows) do lu.assertEquals(encode(row[1]), row[2]) end
end

return tests
