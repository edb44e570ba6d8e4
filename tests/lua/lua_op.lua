-- lua_op.lua - td.lua_op: functions of Lua as ops of a graph.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local half = td.lua_op(function(x) return x / 2 end, "float32")

-- Runs f as an op without inputs; its result is a float32.
local session
local function run(f, o)
  return session:run(td.lua_op(f, "float32")(), {}, o)
end

local function fresh()
  td.reset()
  session = td.get_default_session() or td.session()
  return session
end

function tests.results()
  local s = fresh()
  local x = td.placeholder("float32", {-1})
  local y = half(x)
  lu.assertEquals(y.op.type, "LuaOp")
  lu.assertNil(y.shape)
  gives({0.5, 1}, s:run(y, {[x] = {1, 2}}))
  gives({1.5, 2}, s:run(half(x) + 1, {[x] = {1, 2}}))
  local none = td.lua_op(function(v) lu.assertEquals(v.shape, {2}) end, {})
  lu.assertTrue(s:run(none(x), {[x] = {1, 2}}))
end

function tests.several()
  local s = fresh()
  local seen
  local f = td.lua_op(function(a, b, c)
    seen = {a.dtype, b.dtype, c.dtype, core.kind(a)}
    return a + 1, {true, false}, "text", {{1, 2}, {3, 4}}
  end, {"int32", "bool", "string", "float64"}, {shapes = {{}, {2}, {}, {2, 2}},
                                               name = "several"})
  local a, b, c, d = f(td.constant(1), td.constant{1.5}, td.constant "c")
  lu.assertEquals(a.op.name, "several")
  lu.assertEquals({a.shape, b.shape, d.shape}, {{}, {2}, {2, 2}})
  local r = s:run{a, b, c, d}
  lu.assertEquals(seen, {"int32", "float32", "string", "tensor"})
  lu.assertEquals({r[1], r[3]}, {2, "text"})
  lu.assertEquals(r[2]:table(), {true, false})
  gives({{1, 2}, {3, 4}}, r[4])
end

function tests.results_are_checked()
  local s = fresh()
  local function gets(text, f, types, shapes)
    local op = td.lua_op(f, types, {shapes = shapes})
    raises(text, s.run, s, {op()})
  end
  gets("gives 2 values and was to give 1", function() return 1, 2 end, "int32")
  gets("gives 0 values and was to give 1", function() end, "int32")
  gets("gives 1 value and was to give 0", function() return 1 end, {})
  gets("result 1 of the Lua function: expected float32, given a string",
       function() return "x" end, "float32")
  gets("result 2 of the Lua function", function()
    return 1.0, td.tensor({1.0}, "float64")
  end, {"float32", "float32"})
  gets("of shape {2} and was to be of {3}", function() return {1, 2} end,
       "float32", {{3}})
  gets("result 1 of the Lua function", function() return 0.5 end, "int32")
  gets("result 1 of the Lua function",
       function() return td.constant(1.0) end, "float32")
  raises("2 shapes for 1 result",
         td.lua_op(print, "float32", {shapes = {{}, {}}}))
end

function tests.arguments()
  raises("lua_op: the function", td.lua_op, 3, "float32")
  raises("shapes", td.lua_op, print, "float32", {shape = {}})
  raises("keeps state or waits", td.raw.LuaOpStateless, {td.tensor(1.0)},
         {token = "x", Tout = {"float32"}})
end

function tests.errors()
  fresh()
  local e = raises("lua_op.lua:", run, function() error "it is late" end)
  lu.assertStrContains(e.message, "it is late")
  lu.assertEquals({e.code, e.op}, {"unknown", "LuaOp"})
  e = raises("no more", run, function()
    error({code = "out_of_range", message = "no more"})
  end)
  lu.assertEquals(e.code, "out_of_range")
  lu.assertStrContains(e.message, "lua_op.lua:")
  e = raises("must be of rank 2", run,
             function() return td.matmul({1}, {2}) end)
  lu.assertEquals(e.code, "invalid_argument")
  e = raises("nil", run, function() error() end)
  lu.assertEquals(e.code, "unknown")
  raises("yield", run, function() return coroutine.yield(1) end)
  local co = coroutine.wrap(function()
    return run(function() return coroutine.yield(1) end)
  end)
  raises("yield", co)
  gives(1, run(function() -- within a coroutine of its own it may
    return coroutine.wrap(function() coroutine.yield(1.0) end)()
  end))
end

function tests.in_order()
  local s = fresh()
  local seen = {}
  local note = td.lua_op(function(i) seen[#seen + 1] = i:item() end, {})
  local last
  for i = 1, 20 do
    last = td.control_dependencies({last}, function() return note(i) end)
  end
  s:run(last)
  local want = {}
  for i = 1, 20 do want[i] = i end
  lu.assertEquals(seen, want)
end

-- Each time, though nothing changes; what is stateless may be merged.
function tests.state()
  local s = fresh()
  local n = 0
  local function count() n = n + 1; return n end
  local next_one = td.lua_op(count, "int32")
  local sum = next_one() + next_one()
  lu.assertEquals(s:run(sum), 3)
  lu.assertEquals(s:run(sum), 7)
  n = 0
  local same = td.lua_op(count, "int32", {stateful = false})
  lu.assertEquals(same().op.type, "LuaOpStateless")
  s:run{same() + 1, same() + 1}
  lu.assertTrue(n <= 2)
end

function tests.a_thousand_calls_in_a_loop()
  local s = fresh()
  local n = 0
  local add = td.lua_op(function(i) n = n + 1; return i + 1 end, "int32",
                        {shapes = {{}}})
  for _, parallel in ipairs{1, 10} do
    local i = td.while_loop(function(i) return i:less(500) end, add, {0},
                            {parallel_iterations = parallel})
    lu.assertEquals(s:run(i), 500)
  end
  lu.assertEquals(n, 1000)
end

function tests.iterations_at_once()
  local s = fresh()
  local double = td.lua_op(function(x) return x * 2 end, "float32",
                           {shapes = {{}}})
  local y = td.map_fn(double, td.range(0.0, 100.0), {parallel_iterations = 10})
  local want = {}
  for i = 1, 100 do want[i] = 2.0 * (i - 1) end
  gives(want, s:run(y))
end

function tests.in_a_branch()
  local s = fresh()
  local called = 0
  local f = td.lua_op(function(x) called = called + 1; return x end, "float32")
  local p = td.placeholder("bool", {})
  local y = td.cond(p, function() return f(1.0) end,
                    function() return td.constant(2.0) end)
  gives(2, s:run(y, {[p] = false}))
  lu.assertEquals(called, 0)
  gives(1, s:run(y, {[p] = true}))
  lu.assertEquals(called, 1)
end

function tests.in_a_function()
  local s = fresh()
  local f = td.func(function(x) return half(x) + 1 end, "float32")
  gives(3, s:run(f(4.0)))
end

function tests.gradients()
  local s = fresh()
  local x = td.placeholder("float32", {})
  lu.assertFalse(td.gradients(half(x), {x})[1])
  local f = td.custom_gradient(half, function(dy) return dy / 2 end)
  gives(0.5, s:run(td.gradients(f(x), x), {[x] = 3}))
end

-- A step runs others, of this session and of another, and they have functions.
function tests.steps_within_steps()
  local s = fresh()
  local v = td.variable(1.0, "v")
  s:init()
  local inner = half(v)
  local call = s:callable(inner)
  local y = td.lua_op(function(x)
    s:run(v:assign(x))
    return s:run(inner) + call() + s:start(inner):wait()
  end, "float32")(td.constant(8.0))
  gives(12, s:run(y))
  gives(3, run(function(_)
    local g = td.graph()
    return g:as_default(function()
      local other <close> = td.session{graph = g}
      return other:run(half(td.constant(6.0)))
    end)
  end))
  local deep
  local function down(n) return n == 0 and 1 or 1 + deep(n - 1) end
  function deep(n) return run(function() return down(n) end) end
  gives(11, deep(10))
end

function tests.a_function_does_not_close_its_session()
  local s = fresh()
  raises("a session cannot be closed by a function that one of its steps runs",
         run, function() s:close() end)
  raises("cannot be closed", run, function()
    return run(function() s:close() end)
  end)
  gives(1, run(function() return 1.0 end))
end

function tests.every_way_to_wait()
  local s = fresh()
  local x = td.placeholder("float32", {})
  local y = half(x)
  gives(2, y:eval{[x] = 4})
  gives(2, s:callable(y, {x})(4))
  gives(2, s:start(y, {[x] = 4}):wait())
  local more = half(y)
  local p = s:partial_run_setup({y, more}, {x})
  gives(2, p:run(y, {[x] = 4}))
  gives(1, p:run(more))
end

-- A started step stands still until somebody waits.
function tests.a_step_that_is_started()
  local s = fresh()
  local called = false
  local f = td.lua_op(function() called = true; return 1.0 end, "float32")
  local h = s:start(f())
  for _ = 1, 1000 do
    if s:why():find("waits in run, to call function", 1, true) then break end
    s:run(td.lua_op(function() end, {})()) -- time for the pool
  end
  lu.assertStrContains(s:why(), "waits in run, to call function")
  lu.assertFalse(called)
  gives(1, h:wait())
  lu.assertTrue(called)
  h = s:start(f())
  h:cancel()
  raises("cancelled", h.wait, h)
end

function tests.nobody_waits()
  local s = fresh()
  local y = half(td.constant(1.0))
  local h = s:loop(y, {steps = 3})
  local e = raises("nobody waits for the steps of a loop", h.wait, h)
  lu.assertEquals(e.code, "failed_precondition")
  s:start(y) -- its handle is let go
  collectgarbage()
  collectgarbage()
  for _ = 1, 500 do
    if s:why() == "" then break end
    s:run(td.lua_op(function() end, {})())
  end
  s:close() -- waits for what would wait for ever
end

function tests.deadlines()
  local s = fresh()
  local e = raises("did not end within 0.1", run,
                   function() while true do end end, {timeout = 0.1})
  lu.assertEquals(e.code, "deadline_exceeded")
  local empty = td.placeholder("float32", {})
  local never = td.while_loop(function() return true end,
                              function(x) return x + 1 end, {empty})
  e = raises("did not end within 0.1", run, function()
    return s:run(never, {[empty] = 0})
  end, {timeout = 0.1})
  lu.assertEquals(e.code, "deadline_exceeded")
  raises("did not end within 0.1", run, function()
    for _ = 1, 3 do pcall(s.run, s, never, {[empty] = 0}) end
  end, {timeout = 0.1})
  gives(2, run(function() return 2.0 end, {timeout = 10})) -- and nothing stays
end

-- Another node fails while a function runs.
function tests.the_step_fails_meanwhile()
  local s = fresh()
  local x = td.placeholder("float32", {})
  local bad = td.assert(x:less(0), {x})
  local busy = td.lua_op(function() while true do end end, {})
  local ready = td.lua_op(function() end, {})
  local both = {busy(), td.control_dependencies({ready()}, function()
    return bad
  end)}
  local e = raises("assert", s.run, s, both, {[x] = 1, }, {timeout = 20})
  lu.assertEquals(e.code, "invalid_argument")
end

function tests.files()
  local s = fresh()
  half(td.constant(3.0), "unused")
  local path = os.tmpname()
  local y = half(td.constant(3.0))
  local name = y.name
  td.get_default_graph():save(path)
  local g = td.graph()
  g:as_default(td.import_graph, path)
  local other = td.session{graph = g}
  gives(1.5, other:run(name)) -- of this program, and its graph lives
  local f = assert(io.open(path, "rb"))
  local bytes = f:read "a"
  f:close()
  f = assert(io.open(path, "wb"))
  f:write((bytes:gsub(y.op.attr.token, ("0"):rep(16))))
  f:close()
  g = td.graph()
  g:as_default(td.import_graph, path)
  local third = td.session{graph = g}
  local e = raises("there is no Lua function 0000000000000000", third.run,
                   third, name)
  lu.assertEquals(e.code, "not_found")
  os.remove(path)
  s:close()
end

function tests.a_function_goes_with_its_graph()
  local weak = setmetatable({}, {__mode = "k"})
  do
    local g = td.graph()
    local held = {}
    local f = function() return held and 1.0 end
    weak[f] = true
    local s = td.session{graph = g}
    g:as_default(function()
      local y = td.lua_op(f, "float32")()
      f = nil
      collectgarbage()
      gives(1, s:run(y))
    end)
    s:close()
  end
  td.reset()
  for _ = 1, 4 do collectgarbage() end
  lu.assertNil(next(weak))
end

-- Values that a function keeps, and gives again, are not written over.
function tests.values_are_kept()
  local s = fresh()
  local kept
  local x = td.placeholder("float32", {-1})
  local keep = td.lua_op(function(v) kept = kept or v; return kept end,
                         "float32", {shapes = {{-1}}})
  local y = -keep(-x)
  gives({1, 2}, s:run(y, {[x] = {1, 2}}))
  gives({1, 2}, s:run(y, {[x] = {3, 4}}))
  gives({-1, -2}, kept)
end

return tests
