-- func.lua - td.func: calls, what they take from outside, gradients, files.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function f32(list) return td.tensor(list, "float32") end

function tests.calls()
  local f = td.func(function(x, y) return x * y + 1, x - y end,
                    {"float32", "float32"}, {name = "f"})
  local x = td.placeholder("float32", {2}, "x")
  local a, b = f(x, 3.0)
  lu.assertEquals(a.op.type, "PartitionedCall")
  lu.assertEquals(a.shape, {2}) -- from the body
  local s <close> = td.session()
  local r = s:run({a, b}, {[x] = {1, 2}})
  gives({4, 7}, r[1])
  gives({-2, -1}, r[2])
  gives({2, 5}, s:run(f(x, x), {[x] = {1, 2}}))
  lu.assertEquals(td.get_default_graph():op(a.op.name).attr.f, "f")
end

-- What the trace knows of a result, a file with the function does not say.
function tests.shapes_of_results()
  local f = td.func(function(x)
    return td.tensor_array("float32", 1):write(0, x):read(0)
  end, "float32", {shapes = {{2, 3}}})
  lu.assertEquals(f(td.placeholder("float32", {-1, 3})).shape, {2, 3})
end

function tests.nested_calls_and_results_that_are_arguments()
  local double = td.func(function(x) return x, x * 2 end, "float32")
  local f = td.func(function(x)
    local same, twice = double(x)
    return same, double(twice), twice
  end, "float32")
  local a, b, _, d = f(td.constant{1.0, 2.0})
  gives({1, 2}, a)
  gives({2, 4}, b)
  lu.assertNil(d)
end

function tests.wrong_calls()
  local f = td.func(function(x) return x end, "float32", {name = "f"})
  raises('function "f" takes 1 argument, given 2', f, 1.0, 2.0)
  raises("argument 1 is float32, given int32", f, td.constant(1))
  local row = td.func(td.tanh, "float32", {name = "row", shapes = {{2}}})
  raises('"row": argument 1 has shape {2}, given {3}', row,
         td.constant{1.0, 2.0, 3.0})
  raises("result 1 is nil", td.func, function()
    return nil
  end, {})
  raises("give a Lua function that makes it", td.func, function(x)
    return x * td.variable(td.random_normal({2}))
  end, "float32")
  raises("is inside a loop or branch", td.func, function()
    local inside
    td.while_loop(function(i) return i:less(3) end, function(i)
      inside = i * 2
      return i + 1
    end, {0})
    return inside
  end, {})
  raises("did you mean \"name\"", td.func, function() end, {}, {nme = "g"})
  f(1.0)
  local other = td.func(function(x) return x * x end, "float32", {name = "f"})
  raises("another function \"f\" exists already", other, 1.0)
end

function tests.what_is_outside()
  local W = td.variable(f32{{1, 2}, {3, 4}}, "W")
  local x = td.placeholder("float32", {1, 2}, "x")
  local k = td.placeholder("float32", {}, "k")
  local f = td.func(function(v) return v:matmul(W) * k end, "float32")
  local y = f(x)
  local s <close> = td.session()
  s:init()
  gives({{14, 20}}, s:run(y, {[x] = {{1, 2}}, [k] = 2}))
  local dW, dx, dk = table.unpack(td.gradients(y, {W, x, k}))
  local r = s:run({dW, dx, dk}, {[x] = {{1, 2}}, [k] = 2})
  gives({{2, 2}, {4, 4}}, r[1])
  gives({{6, 14}}, r[2])
  gives(17, r[3])
  local other = td.graph()
  raises("belongs to another graph", function()
    other:as_default(function() return f(td.constant{{1.0, 2.0}}) end)
  end)
end

-- One variable, however often the function is called, and however deep.
function tests.variables_made_inside()
  local outer = td.variable({1.0, 2.0}, "outer")
  local made
  local f = td.variable_scope("layer", td.func, function(x)
    local inner = td.func(function(y)
      made = td.get_variable("w", {2}, {initializer = td.initializers.ones()})
      return y * made + outer
    end, "float32")
    return inner(x) * td.variable(function() return td.fill({2}, 3.0) end, "v")
  end, "float32")
  local x = td.placeholder("float32", {2})
  local y = f(f(x))
  lu.assertEquals(made.name, "layer/w")
  lu.assertTrue(made.graph == td.get_default_graph())
  lu.assertEquals(#td.global_variables(), 3)
  local s <close> = td.session()
  s:init()
  local feeds = {[x] = {1, 1}}
  gives({21, 33}, s:run(y, feeds)) -- 3 (3 (x w + o) w + o)
  gives({27, 36}, s:run(td.gradients(y, made), feeds))
  local w = td.variable_scope("layer", {reuse = true}, td.get_variable, "w",
                              {2})
  lu.assertTrue(rawequal(w, made))
end

function tests.updates_run_with_the_call()
  local v = td.variable(0.0, "v")
  local count = td.func(function(x)
    v:assign_add(1.0)
    return x * 2
  end, "float32")
  local act = td.func(function() v:assign_add(10.0) end, {})
  local y, op = count(td.constant(3.0)), act()
  lu.assertEquals(y.op.type, "StatefulPartitionedCall")
  local s <close> = td.session()
  s:init()
  lu.assertEquals(s:run(y), 6.0)
  lu.assertEquals(s:run(v), 1.0)
  lu.assertEquals(s:run(op), true)
  lu.assertEquals(s:run(v), 11.0)
  local after = td.control_dependencies({op}, function() return v:read() end)
  lu.assertEquals(s:run(after), 21.0)
end

-- ---- gradients ------------------------------------------------------------

local function check(f, ...)
  lu.assertTrue(td.test.gradient(f, {...}) < 1e-6)
end

local S = td.tensor({{0.7, -1.3, 2.1}, {-0.4, 1.6, -2.2}}, "float64")

local function wrap(f, n)
  return function(...)
    local types = {}
    for i = 1, n do types[i] = "float64" end
    return td.func(f, types)(...)
  end
end

function tests.gradients()
  check(wrap(function(x) return td.tanh(x) * x end, 1), S)
  check(wrap(function(x, y) return x * y, x - y end, 2), S, S * 2)
  check(wrap(function(x, _) return x end, 2), S, S) -- the other has none
  check(function(x) -- one of two results, of a call in a call
    local inner = td.func(function(a) return a * a, td.sin(a) end, "float64")
    return wrap(function(a)
      local _, b = inner(a)
      return b * a
    end, 1)(x)
  end, S)
end

function tests.second_order()
  local f = td.func(function(x) return x * x * x end, "float64")
  local x = td.placeholder("float64", {})
  local d = td.gradients(f(x), x)
  local dd = td.gradients(d, x)
  local ddd = td.gradients(dd, x)
  local s <close> = td.session()
  gives({27, 18, 6}, td.tensor(s:run({d, dd, ddd}, {[x] = 3})))
end

function tests.control_flow_inside_and_outside()
  check(wrap(function(x)
    local _, y = td.while_loop(function(i) return i:less(3) end,
      function(i, y) return i + 1, y * x end, {0, x})
    return y
  end, 1), S)
  check(wrap(function(x)
    return td.cond(td.sum(x):greater(0), function() return x * x end,
                   function() return x end)
  end, 1), S)
  local square = td.func(function(x) return x * x + 1 end, "float64")
  check(function(x)
    local _, y = td.while_loop(function(i) return i:less(3) end,
      function(i, y) return i + 1, square(y) / 3 end, {0, x})
    return y
  end, S)
  check(function(x)
    return td.cond(td.sum(x):greater(0), function() return square(x) end,
                   function() return x end)
  end, S)
end

-- Rules of the user's, inside of functions and around them.
function tests.own_rules_inside()
  local x = td.placeholder("float32", {})
  local clip = td.custom_gradient(function(v) return v * v end,
                                  function(dy, v) return dy * v * 10 end)
  local y = td.func(function(v) return clip(v) + td.stop_gradient(v) end,
                    "float32")(x)
  local s <close> = td.session()
  lu.assertEquals(s:run(td.gradients(y, x), {[x] = 3}), 30.0)
  td.register_gradient("FuncTestSeven", function(_, dy) return dy * 7 end)
  local z = td.func(function(v)
    return td.gradient_override_map({Square = "FuncTestSeven"}, td.square, v)
  end, "float32")(x)
  lu.assertEquals(s:run(td.gradients(z, x), {[x] = 3}), 7.0)
  local two = td.custom_gradient(function(v) return v * v end,
                                 function(dy, v) return dy, v end)
  raises("gives 2 results for 1 arguments", td.gradients, two(x), x)
end

-- The branch not taken must not run, though its body has no inputs.
function tests.calls_in_branches()
  local v = td.variable(0.0, "v")
  local act = td.func(function()
    return v:assign_add(1.0)
  end, {})
  local p = td.placeholder("bool", {})
  local y = td.cond(p, function() return act() end,
                    function() return td.constant(-1.0) end)
  local s <close> = td.session()
  s:init()
  lu.assertEquals(s:run(y, {[p] = false}), -1.0)
  lu.assertEquals(s:run(v), 0.0)
  lu.assertEquals(s:run(y, {[p] = true}), 1.0)
end

-- What a body draws is drawn once: its gradient is the very mask.
function tests.gradient_of_what_draws()
  local f = td.func(function(x)
    return (x * td.random_uniform({4})):sum()
  end, "float32")
  local x = td.placeholder("float32", {4})
  local y = f(x)
  local d = td.gradients(y, x)
  local s <close> = td.session()
  for _ = 1, 3 do
    local r = s:run({y, td.sum(d)}, {[x] = {1, 1, 1, 1}})
    lu.assertAlmostEquals(r[1], r[2], 1e-5)
  end
  local inside = td.func(function(v)
    local _, out = td.while_loop(function(i) return i:less(2) end,
      function(i, w) return i + 1, w * td.random_uniform({}) end, {0, v})
    return out
  end, "float32")
  raises("take it outside the function", td.gradients, inside(td.sum(x)), x)
end

-- The forward pass is computed once: the gradient's copy is merged with it.
function tests.nothing_is_computed_twice()
  local f = td.func(function(x) return td.exp(td.tanh(x)) end, "float32")
  local x = td.placeholder("float32", {8})
  local y = f(x)
  local s <close> = td.session()
  local _, trace = s:run({y, td.gradients(y, x)}, {[x] = td.value.ones{8}},
                         {trace = true})
  local n = 0
  for _, row in ipairs(trace.events) do
    if row.op == "Tanh" or row.op == "Exp" then n = n + 1 end
  end
  lu.assertEquals(n, 2)
end

function tests.sparse_gradients_stay_sparse()
  local W = td.variable(td.value.ones{1000, 2}, "W")
  local look = td.func(function(i) return td.gather(W, i) end, "int32")
  local loss = td.sum(look(td.constant{3, 5, 3}))
  local d = td.gradients(loss, W)
  lu.assertTrue(require "tide.tensor.indexed_slices".is(d))
  local train = td.train.sgd(0.5):minimize(loss)
  local rows = 0
  for _, op in ipairs(td.get_default_graph():ops()) do
    if op.type:match "^ResourceScatter" or op.type:match "^ResourceSparse" then
      rows = rows + 1
    end
    lu.assertNotStrContains(op.type, "ResourceApply") -- of the whole
  end
  lu.assertEquals(rows, 1)
  local s <close> = td.session()
  s:init()
  s:run(train)
  gives({{0, 0}, {1, 1}, {0.5, 0.5}}, s:run(td.gather(W, {3, 4, 5})))
end

-- A cell as a function, in a loop, in a scan, and the loop inside of another:
-- the same bits as without.
function tests.a_recurrent_net()
  local W = td.variable(td.value.random_normal({6, 4}, {seed = 3}), "W")
  local b = td.variable(td.value.zeros{4}, "b")
  local xs = td.constant(td.value.random_normal({5, 3, 2}, {seed = 4}))
  local function cell(x, h)
    return td.tanh(td.concat({x, h}, 1):matmul(W) + b)
  end
  local called = td.func(cell, {"float32", "float32"})
  local function loop(c)
    local _, h = td.while_loop(function(i) return i:less(5) end,
      function(i, h) return i + 1, c(xs[i], h) end, {0, td.zeros{3, 4}})
    return td.sum(h * h)
  end
  local function scan(c)
    return td.sum(td.scan(function(h, x) return c(x, h) end, xs,
                          td.zeros{3, 4}))
  end
  local whole = td.func(function() return loop(called) end, {})
  local losses = {loop(cell), loop(called), whole(), scan(cell), scan(called)}
  local fetches = {}
  for i, loss in ipairs(losses) do
    fetches[i] = {loss, td.gradients(loss, {W, b})}
  end
  for _, o in ipairs{{}, {cpu_devices = 2}, {roundtrip = true}} do
    local s <close> = td.session(o)
    s:init()
    local r = s:run(fetches, nil, {as_values = true})
    for i, like in ipairs{1, 1, 1, 4, 4} do
      lu.assertTrue(core.same(r[i][1], r[like][1]))
      for k = 1, 2 do
        lu.assertTrue(core.same(r[i][2][k], r[like][2][k]))
      end
    end
  end
end

-- ---- elsewhere ------------------------------------------------------------

function tests.files()
  local path = os.tmpname()
  local f = td.func(function(x) return td.square(x) + 1 end, "float32",
                    {name = "f"})
  local x = td.placeholder("float32", {2}, "x")
  local y = f(x)
  td.identity(y, "y")
  td.identity(td.gradients(y, x), "d")
  td.get_default_graph():save(path)
  td.reset()
  local a, b, z = td.import_graph(path, {outputs = {"y:0", "d:0", "x:0"}})
  os.remove(path)
  lu.assertEquals(core.functions(td.get_default_graph()), {"f", "f_grad_1"})
  local s <close> = td.session()
  local again = td.gradients(a, z) -- of what came with the file
  local r = s:run({a, b, again}, {x = {1, 2}})
  gives({2, 5}, r[1])
  gives({2, 4}, r[2])
  gives({2, 4}, r[3])
end

function tests.devices_and_passes()
  local v = td.device("/CPU:1", function() return td.variable(2.0, "v") end)
  local w = td.device("/CPU:0", function() return td.variable(3.0, "w") end)
  local f = td.func(function(x) return x * v + w end, "float32")
  local x = td.placeholder("float32", {})
  local y = f(x)
  local d = td.gradients(y, x)
  for _, o in ipairs{{cpu_devices = 2}, {cpu_devices = 2, roundtrip = true},
                     {cpu_devices = 2, verify = true,
                      passes_off = {"fold", "cse", "order_updates"}}} do
    local s <close> = td.session(o)
    s:init()
    lu.assertEquals(s:run({y, d}, {[x] = 5}), {13.0, 2.0})
  end
end

function tests.partial_runs()
  local f = td.func(function(x) return x * 2 end, "float32")
  local x = td.placeholder("float32", {})
  local a = f(x)
  local b = f(a)
  local s <close> = td.session()
  local p = s:partial_run_setup({a, b}, {x})
  lu.assertEquals(p:run(a, {[x] = 1}), 2.0)
  lu.assertEquals(p:run(b), 4.0)
end

return tests
