-- api.lua - the rules of the Lua surface, one after the other.
--
-- What a user may rely on: names, arguments, values and nodes, literals,
-- slices, truth, results, scopes, errors, graphs and sessions. Other files test
-- the parts at length; here every rule is stated once.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function is_value(x) return tostring(x):find("^Tensor") == nil end

-- ---- names ----------------------------------------------------------------

function tests.names_are_tensorflows()
  for _, name in ipairs{"matmul", "argmax", "stack", "relu", "concat",
                        "reduce_sum", "expand_dims"} do
    lu.assertEquals(type(td[name]), "function", name)
  end
  lu.assertTrue(td.nn.relu == td.relu and td.math.exp == td.exp)
  lu.assertTrue(td.random.uniform == td.random_uniform)
  lu.assertTrue(td.image.relu == td.relu)
  raises("td.nn has no \"rellu\"; did you mean \"relu\"?",
         function() return td.nn.rellu end)
end

function tests.newest_version_under_the_name()
  lu.assertEquals(td.constant{1}:add(2).op.type, "AddV2")
  lu.assertEquals(td.gather(td.constant{1, 2}, {0}).op.type, "GatherV2")
end

function tests.raw_is_the_op_as_it_is()
  gives({4}, td.raw.Add(td.tensor{1}, 3))
  gives({1, 2}, td.raw.ConcatV2({{1}, {2}}, 0)) -- N*T is one list
  local a, b = td.raw.TopKV2({1.0, 3.0, 2.0}, 2) -- several results
  gives({3, 2}, a)
  gives({1, 2}, b)
  local parts = td.raw.Split(0, {1, 2}, {num_split = 2})
  gives({2}, parts[2])
  lu.assertEquals(td.raw.Cast({1.5}, {DstT = "int32"}).dtype, "int32")
  raises("there is no op \"MatMull\"; did you mean \"MatMul\"?",
         function() return td.raw.MatMull end)
end

function tests.methods_and_fields()
  local x = td.tensor{{1.0, -2.0}}
  gives({{1, 0}}, x:relu())
  lu.assertEquals(x:sum():item(), -1.0)
  lu.assertEquals({x.size, x.rank, x.shape == {1, 2}}, {2, 2, true})
  gives({1, 2}, td.shape(x))
  raises("it is a function, td.concat", function() return x:concat() end)
end

function tests.operators()
  local a, b = td.tensor{7, -7}, td.tensor{2, 2}
  local rows = {
    {a + b, {9, -5}}, {a - b, {5, -9}}, {a * b, {14, -14}}, {a // b, {3, -4}},
    {a % b, {1, 1}}, {b ^ 2, {4, 4}}, {-a, {-7, 7}}, {a & 3, {3, 1}},
    {a | 8, {15, -7}}, {a ~ 1, {6, -8}}, {b << 3, {16, 16}}, {a >> 1, {3, -4}},
    {~b, {-3, -3}}, {1 - b, {-1, -1}},
  }
  for i, row in ipairs(rows) do gives(row[2], row[1], "row " .. i) end
  local t, f = td.tensor{true, false}, td.tensor{false, false}
  lu.assertEquals({(t & f):table(), (t | f):table(), (~t):table()},
                  {{false, false}, {true, false}, {false, true}})
end

function tests.quotients_of_integers_are_true()
  local q = td.tensor{1, 2} / 4
  lu.assertEquals({q.dtype, q:table()}, {"float64", {0.25, 0.5}})
  local m = td.tensor{1, 2}:mean()
  lu.assertEquals({m.dtype, m:item()}, {"float64", 1.5})
end

-- ---- arguments ------------------------------------------------------------

function tests.fixed_positions()
  lu.assertEquals(td.cast({1}, "float64").dtype, "float64")
  gives({97, 98}, td.decode_raw("ab", "uint8"))
  gives({3, 4}, td.split({1, 2, 3, 4}, 2, 0)[2])
  gives({{1, 2}}, td.concat({{{1}}, {{2}}}, 1))
  gives({{1, 2}}, td.stack({{1}, {2}}, 1))
  gives({2, 4}, td.unstack({{1, 2}, {3, 4}}, 1)[2])
  gives({5}, td.squeeze({{5}}, {0}))
  gives({{9, 5, 9}}, td.one_hot({1}, 3, 5, 9))
  gives(1, td.argmax({1, 3, 2}, 0))
  gives({{2, 1}}, td.gather({{1, 2}}, {1, 0}, 1))
  gives({3, 2}, (td.top_k({1, 3, 2}, 2)))
  gives({1, 4}, td.where({true, false}, {1, 2}, {3, 4}))
  gives({3, 7}, td.sum({{1, 2}, {3, 4}}, {1}))
end

function tests.one_table_holds_list_and_names()
  lu.assertEquals(td.random_uniform{784, 100, minval = -1}.shape, {784, 100})
  gives({{2.5}}, td.tensor{{1, 2}, {3, 4}}:mean{0, 1, keep_dims = true})
  lu.assertEquals(td.zeros{2, dtype = "int64", name = "z"}.name, "z:0")
end

function tests.a_string_is_the_name()
  lu.assertEquals(td.relu(td.constant{1.0}, "r").name, "r:0")
  lu.assertEquals(td.cast(td.constant{1}, "float32", "c").name, "c:0")
  lu.assertEquals(td.placeholder("float32", {}, "p").name, "p:0")
end

-- ---- values and nodes -----------------------------------------------------

function tests.values_compute_nodes_are_built()
  local v, n = td.tensor{{1, 2}, {3, 4}}, td.constant{{1, 2}, {3, 4}}
  lu.assertTrue(is_value(v:matmul(v)))
  lu.assertTrue(is_value(td.add({1}, 2)))
  lu.assertFalse(is_value(v + n))
  lu.assertEquals((v + n).op.inputs[1].op.type, "Const")
end

function tests.always_nodes()
  local w = td.variable({1.0}, "w")
  for i, x in ipairs{td.zeros{2}, td.ones{2}, td.fill({2}, 1), td.eye(2),
                     td.range(3), td.linspace(0.0, 1.0, 3), td.constant(1),
                     td.random_uniform{2}, td.random_normal{2}, w + 1,
                     td.cond(true, function() return 1 end,
                             function() return 2 end),
                     td.map_fn(function(x) return x end, td.tensor{1})} do
    lu.assertFalse(is_value(x), "row " .. i)
  end
  lu.assertTrue(is_value(td.value.zeros{2}))
  lu.assertEquals(td.value.random_uniform{2, 3}.shape, {2, 3})
  raises("td.value has no \"zeross\"; did you mean \"zeros\"?",
         function() return td.value.zeross end)
end

function tests.tables_of_graph_tensors_are_packed()
  local n = td.placeholder("int32", {}, "n")
  local s = td.session()
  lu.assertEquals(s:run(td.zeros{n, 3}, {n = 2}).shape, {2, 3})
  gives({{5, 1}, {2, 5}}, s:run(td.identity{{n, 1}, {2, n}}, {n = 5}))
end

-- ---- counting -------------------------------------------------------------

function tests.shapes_are_lists()
  local p = td.placeholder("float32", {-1, 3})
  lu.assertTrue(p.shape == {-1, 3} and td.constant(1).shape == {})
  lu.assertEquals(tostring(p.shape), "{-1, 3}")
  lu.assertStrContains(tostring(p), "{-1, 3}")
  lu.assertNil(td.placeholder("float32").shape)
  for i = 0, 3 do
    raises("read-only", function() p.shape[i] = 1 end)
    raises("read-only", function() td.tensor{{1}}.shape[i] = 1 end)
  end
  local s = p.shape
  lu.assertEquals({#s, s[1], s[2], s[3], {table.unpack(s)}},
                  {2, -1, 3, nil, {-1, 3}})
  for i, n in ipairs(s) do lu.assertEquals(n, i == 1 and -1 or 3) end
  lu.assertEquals({"shape: " .. s, s == p.shape, s ~= {3, -1}},
                  {"shape: {-1, 3}", true, true})
  local two = td.tensor{{1, 2}, {3, 4}}.shape -- a list wherever one goes
  gives({2, 2}, td.tensor(two))
  gives({{2, 2}, {0, 1}}, td.tensor{two, {0, 1}})
  lu.assertEquals({td.zeros(two).shape, td.ones(two, "o").shape,
    td.placeholder("int32", two).shape, td.random_uniform(two).shape,
    td.reshape({1, 2, 3, 4}, two).shape, td.fill(two, 0).shape},
    {two, two, two, two, two, two})
  gives({2, 2, 1}, td.concat({two, {1}}, 0))
  gives({2, 2}, td.constant{{1, 2}, {3, 4}}[{{0, 2}}].shape)
  lu.assertEquals(td.raw.EnsureShape({{1, 2}, {3, 4}}, {shape = two}).shape,
                  {2, 2})
  lu.assertEquals(p:dim(1), 3)
  lu.assertEquals(td.session():run(p:dim(0), {[p] = {{1, 2, 3}}}), 1)
  lu.assertEquals({td.float32, td.int64}, {"float32", "int64"})
end

-- ---- literals -------------------------------------------------------------

function tests.literals()
  local rows = {
    {td.tensor(1), "int32"}, {td.tensor(1.0), "float32"},
    {td.tensor{1, 2.5}, "float32"}, {td.tensor{true}, "bool"},
    {td.tensor{"a"}, "string"}, {td.tensor{}, "float32"},
    {td.tensor({1}, "float16") + 0.1, "float16"},
    {td.tensor({1}, "int8") + 2.0, "int8"},
    {td.tensor({1.0}, "float64") * 3, "float64"},
  }
  for i, row in ipairs(rows) do
    lu.assertEquals(row[1].dtype, row[2], "row " .. i)
  end
  raises("0.5 is not whole", function() return td.tensor{1} + 0.5 end)
  raises("300 does not fit int8",
         function() return td.tensor({1}, "int8") + 300 end)
  raises("does not fit int32", td.tensor, 1 << 40)
end

-- ---- taking ---------------------------------------------------------------

function tests.taking()
  local t = td.tensor{{1, 2, 3}, {4, 5, 6}}
  gives({4, 5, 6}, t[1])
  gives({{6, 5, 4}}, t["1:, ::-1"])
  lu.assertEquals(t["..., new"].shape, {2, 3, 1})
  gives({{1, 2}, {4, 5}}, t[{":", {0, 2}}])
  gives({3, 6}, t[{":", -1}])
  local a = td.placeholder("int32", {}, "a")
  local s = td.session()
  gives({4, 5, 6}, s:run(t[a], {a = 1}))
  gives({{2}, {5}}, s:run(t[{":", {a, a + 1}}], {a = 1}))
  raises("never changes", function() t[0] = 1 end)
end

function tests.identifiers_are_fields_else_slices()
  raises("did you mean \"shape\"?", function() return td.tensor{1}.shap end)
  raises("is no slice", function() return td.tensor{1}["1;2"] end)
end

function tests.back_to_lua()
  local t = td.tensor{{1, 2}, {3, 4}}
  lu.assertEquals({td.tensor(5):item(), t:table()}, {5, {{1, 2}, {3, 4}}})
  lu.assertEquals(#t:bytes(), 16)
  local seen = {}
  for i, row in t:rows() do seen[i] = row:table() end
  lu.assertEquals(seen, {[0] = {1, 2}, [1] = {3, 4}})
  raises("t:rows()", function() for i in ipairs(t) do seen[i] = i end end)
end

-- ---- truth ----------------------------------------------------------------

function tests.truth()
  local a = td.constant{1, 5}
  lu.assertEquals({a:less(3).dtype, a:equal(5).dtype}, {"bool", "bool"})
  lu.assertTrue(a == a.op.outputs[1] and a ~= td.constant{1, 5})
  local w = td.variable(1.0, "w")
  lu.assertTrue(w == td.global_variables()[1])
  raises("a:less(b)", function() return a < 3 end)
  raises("a:less_equal(b)", function() return a <= 3 end)
  lu.assertTrue(td.tensor(1) < 2)
end

function tests.one_handle_for_a_graphs_life()
  local x = td.constant(1, "x")
  local list = {[x] = "seen"}
  x = nil
  collectgarbage()
  lu.assertEquals({list[td.get_default_graph()["x:0"]], x}, {"seen"})
end

-- ---- results --------------------------------------------------------------

function tests.results()
  local s = td.session()
  local x = td.constant(2.5)
  lu.assertEquals(s:run(x), 2.5)
  lu.assertEquals(s:run(x, nil, {as_values = true}).dtype, "float32")
  lu.assertEquals(s:run{td.constant(true), td.constant("s"), td.no_op()},
                  {true, "s", true})
  lu.assertEquals(s:run{a = x, b = {x, c = {x}}},
                  {a = 2.5, b = {2.5, c = {2.5}}})
  lu.assertFalse(td.gradients(x, td.constant(1.0)))
end

-- ---- data or object -------------------------------------------------------

function tests.nothing_depends_on_the_order_of_pairs()
  local function build()
    td.reset()
    local feeds, fetches = {}, {}
    for i = 1, 20 do
      local x = td.placeholder("float32", {}, "x" .. i)
      feeds["x" .. i] = i
      fetches["y" .. i] = x * 2
    end
    local r = td.session():run(fetches, feeds)
    return r, td.get_default_graph():save_bytes()
  end
  local first, bytes = build()
  for _ = 1, 5 do
    local r, same = build()
    lu.assertEquals(r, first)
    lu.assertTrue(same == bytes)
  end
end

function tests.holes_are_found()
  raises("at [2]: the list has a hole", td.tensor, {{1, 2}, {1, nil, 3}})
  raises("at [2]: ragged table", td.tensor, {{1, 2}, {3}})
  raises("at [1][2]: a tensor is made of", td.tensor, {{1, print}})
  raises("hole", td.concat, {td.constant{1}, nil, td.constant{2}}, 0)
end

-- ---- scopes ---------------------------------------------------------------

function tests.scopes_return_or_close()
  local g = td.graph()
  local w = td.constant(1, "w")
  local forms = {
    function(f) return td.name_scope("n", f) end,
    function(f) return td.device("/cpu:0", f) end,
    function(f) return td.device(nil, f) end,
    function(f) return td.control_dependencies({}, f) end,
    function(f) return td.colocate_with(w, f) end,
    function(f) return td.container("c", f) end,
    function(f) return td.variable_scope("v", {reuse = "auto"}, f) end,
    function(f) return g:as_default(f) end,
    function(f) return td.session():as_default(f) end,
  }
  for i, enter in ipairs(forms) do
    lu.assertEquals({enter(function() return 1, nil, 3 end)}, {1, nil, 3})
    local seen = coroutine.wrap(function()
      return enter(function() return coroutine.yield("inside") end)
    end)
    lu.assertEquals({seen(), seen("out")}, {"inside", "out"}, "form " .. i)
    local guard = enter()
    getmetatable(guard).__close(guard)
  end
  lu.assertEquals(td.no_op("here").name, "here")
end

-- ---- errors ---------------------------------------------------------------

function tests.errors_are_tables()
  local x = td.constant({{1.0, 2.0}}, "x")
  local ok, e = pcall(function() return (td.matmul(x, x, "y")) end)
  lu.assertFalse(ok)
  lu.assertEquals({e.code, e.op, e.node}, {"invalid_argument", "MatMul", "y"})
  lu.assertStrContains(e.message, "{1, 2}")
  lu.assertStrContains(e.where, "api.lua:")
  lu.assertStrContains("failed: " .. e .. "!", e.message)
  lu.assertStrContains(tostring(e), "api.lua:")
end

function tests.close_is_close()
  local s
  do
    local inner <close> = td.session()
    s = inner
  end
  raises("the session is closed", s.run, s, td.constant(1))
  lu.assertEquals(tostring(s), "Session (closed)")
  s:close()
end

-- ---- memory ---------------------------------------------------------------

function tests.bytes_held_step_the_collector()
  local core = require "tide.core"
  collectgarbage()
  local most = core.held() + (256 << 20)
  local block = td.tensor(("x"):rep(1 << 20)):decode_raw("float32")
  for _ = 1, 2000 do
    block = block + 1.0 -- 1 MiB that only Lua knows of
    lu.assertTrue(core.held() < most)
  end
end

-- ---- graph, variables, session --------------------------------------------

function tests.variables()
  local W = td.variable(td.random_uniform{784, 100, minval = -1, maxval = 1},
                        "W")
  local b = td.variable({1.0, 2.0, 3.0}, "b")
  local c = td.variable(function() return td.zeros{2} end, "c")
  local w = td.get_variable("w", {3, 3},
    {initializer = td.initializers.glorot_uniform()})
  lu.assertEquals({W.shape, w.shape}, {{784, 100}, {3, 3}})
  local sess = td.session()
  sess:init()
  gives({0, 0}, sess:run(c))
  gives({1, 1, 1}, sess:run(b:assign{1.0, 1.0, 1.0}))
  gives({2, 2, 2}, sess:run(b:assign_add{1.0, 1.0, 1.0}))
  gives({1, 2, 1}, sess:run(b:assign_sub{1.0, 0.0, 1.0}))
  gives({1, 2, 6}, sess:run(b:scatter_add({2}, {5.0})))
  gives({0, 0, 6}, sess:run(b["0:2"]:assign{0.0, 0.0}))
  lu.assertTrue(b:read() ~= b:read())
  lu.assertEquals(b.initializer.type, "AssignVariableOp")
  lu.assertTrue(sess:run(td.global_variables_initializer()))
  gives({1, 2, 3}, sess:run(b))
end

function tests.reuse()
  local function layer(x)
    return x * td.get_variable("k", {}, {initializer = 2.0})
  end
  local a = td.variable_scope("one", function() return layer(1.0) end)
  local b = td.variable_scope("one", {reuse = true},
                              function() return layer(3.0) end)
  lu.assertEquals(#td.global_variables(), 1)
  lu.assertEquals(td.global_variables()[1].name, "one/k")
  local sess = td.session()
  sess:init()
  lu.assertEquals(sess:run{a, b}, {2.0, 6.0})
end

function tests.session_options_and_runs()
  local images = td.placeholder("float32", {-1, 2}, "images")
  local labels = td.placeholder("float32", {-1}, "labels")
  local W = td.variable(td.ones{2}, "W")
  local loss = ((images * W):sum(1) - labels):square():mean()
  local gW = td.gradients(loss, W)
  local train = td.train.sgd(0.1):minimize(loss)
  local sess <close> = td.session{graph = td.get_default_graph(), target = "",
    threads = 2, cpu_devices = 1, soft_placement = true}
  sess:init()
  local feeds = {[images] = {{1.0, 2.0}}, ["labels"] = {3.0}}
  local l, g = table.unpack(sess:run({loss, gW}, feeds, {timeout = 5}))
  lu.assertEquals({l, g:table()}, {0.0, {0.0, 0.0}})
  local r, profile = sess:run({loss = loss, g = {gW}}, feeds, {trace = true})
  lu.assertEquals({r.loss, #r.g}, {0.0, 1})
  lu.assertTrue(#profile.events > 0)
  local step = sess:callable({loss, train}, {images, labels})
  local now, done = step({{1.0, 1.0}}, {1.0})
  lu.assertEquals({now, done}, {1.0, true})
  local h = sess:start(train, feeds)
  h:wait(10)
  lu.assertTrue(h:done())
  sess:loop(W:assign_add{0.0, 0.0}.op, {threads = 2, steps = 3}):wait(10)
  local p = sess:partial_run_setup({loss, images}, {images, labels})
  gives({{1, 2}}, p:run(images, {[images] = {{1.0, 2.0}}}))
  lu.assertEquals(type(p:run(loss, {labels = {3.0}})), "number")
  lu.assertEquals(type(loss:eval(feeds)), "number")
  lu.assertTrue(train:run(feeds))
end

function tests.placement_is_explained()
  local v = td.device("/cpu:1", td.variable, 1.0, "v")
  local sess = td.session{cpu_devices = 2}
  sess:init()
  sess:run(v + 1)
  local text = sess:explain_placement()
  lu.assertStrContains(text, "VarHandleOp (v) -> CPU:1")
  lu.assertStrContains(text, "colocated with v")
  lu.assertEquals(sess:why(), "")
  sess:reset{"container"}
  td.reset()
  lu.assertEquals(td.get_default_graph():size(), 0)
end

function tests.handles_have_fields()
  local x = td.constant({1.0}, "x")
  local y = td.control_dependencies({x}, td.multiply, x, 2, "y")
  lu.assertEquals({y.name, y.dtype, y.shape == {1}, y.device},
                  {"y:0", "float32", true, ""})
  lu.assertTrue(y.graph == td.get_default_graph() and y.op.outputs[1] == y)
  lu.assertStrContains(y.origin, "api.lua:")
  local op = y.op
  lu.assertEquals({op.type, op.name, op.attr.T}, {"Mul", "y", "float32"})
  lu.assertTrue(op.inputs[1] == x and op.control_inputs[1] == x.op)
  local g = td.get_default_graph()
  lu.assertTrue(g["y:0"] == y and g:op "y" == op and #g:ops() == 3)
  lu.assertEquals(tostring(g), "Graph of 3 nodes")
  raises("no node \"z\"", g.op, g, "z")
end

function tests.graphs_tell_about_themselves()
  local x = td.placeholder("float32", {-1, 2}, "x")
  local W = td.variable(td.zeros{2}, "W")
  local y = (x * W):sum()
  local g = td.get_default_graph()
  lu.assertStrContains(g:summary(), "W")
  lu.assertNotNil(g:estimate{[x] = {{1.0, 2.0}}})
  lu.assertNotNil(g:diff(g))
  local sess = td.session()
  sess:init()
  raises("log", sess.run, sess, td.log(y - 1.0, "log"), {x = {{1.0, 2.0}}},
         {check_numerics = true})
end

function tests.collections_and_prefixes()
  local d = td.variable(1.0, "D/w")
  td.variable(1.0, "G/w")
  local found = td.trainable_variables("D/")
  lu.assertTrue(#found == 1 and found[1] == d)
  td.add_to_collection("losses", d * 2)
  lu.assertEquals(#td.get_collection("losses"), 1)
end

function tests.group_tuple_print_assert()
  local v = td.variable(1.0, "v")
  local sess = td.session()
  sess:init()
  lu.assertTrue(sess:run(td.group{v:assign_add(1.0), td.no_op()}))
  local t = td.tuple{v:read(), v:assign_add(1.0)}
  lu.assertEquals(#sess:run(t), 2)
  lu.assertEquals(sess:run(td.print(v, "v is", {first_n = 0})), 3.0)
  raises("assert", sess.run, sess, td.assert(v:read():less(0), {v}))
end

function tests.gradients()
  local b, x = td.variable(2.0, "b"), td.placeholder("float32", {}, "x")
  local z = b * x
  local C = z * z + b
  local db, dx = table.unpack(td.gradients(C, {b, x}, {grad_ys = {2.0},
                                                       stop_gradients = {z}}))
  local sess = td.session()
  sess:init()
  lu.assertEquals({sess:run(db, {x = 3.0}), dx}, {2.0, false})
  lu.assertEquals({td.value_and_grad(function(v) return v * v end)(3.0)},
                  {9.0, 6.0})
  lu.assertEquals(td.grad(function(v) return v * v end)(3.0), 6.0)
end

function tests.control_flow()
  local x = td.placeholder("float32", {}, "x")
  local y = td.cond(x:less(0), function() return -x end,
                    function() return x end)
  local i, s = td.while_loop(function(i) return i:less(10) end,
    function(i, s) return i + 1, s + i end, {0, 0},
    {parallel_iterations = 10, shape_invariants = {{}, {}},
     maximum_iterations = 20, swap_memory = true})
  local sess = td.session()
  lu.assertEquals(sess:run({y, i, s}, {x = -2.0}), {2.0, 10, 45})
  local sign = td.case{{x:less(0), function() return -1 end},
                       {x:greater(0), function() return 1 end},
                       default = function() return 0 end}
  lu.assertEquals(sess:run(sign, {x = -3.0}), -1)
end

function tests.loops_over_slices()
  local sess = td.session()
  local xs = td.constant{1, 2, 3}
  local function minus(a, v) return a - v end
  local rows = {
    {td.map_fn(function(v) return v * 2 end, xs), {2, 4, 6}},
    {td.foldl(minus, xs, 10), 4}, {td.foldr(minus, xs, 10), 4},
    {td.foldl(minus, xs), -4}, {td.foldr(minus, xs), 0},
    {td.scan(function(a, v) return a + v end, xs), {1, 3, 6}},
  }
  for i, row in ipairs(rows) do gives(row[2], sess:run(row[1]), "row " .. i) end
end

function tests.tensor_arrays()
  local sess = td.session()
  local array = td.tensor_array("float32", 2):write(0, 1.0):write(1, 2.0)
  gives({1, 2}, sess:run(array:stack()))
  gives({2, 1}, sess:run(array:gather{1, 0}))
  lu.assertEquals(sess:run(array:read(1)), 2.0)
  local more = td.tensor_array("int32", 3):unstack(td.constant{4, 5, 6})
  lu.assertEquals(sess:run(more:read(2)), 6)
  local some = td.tensor_array("int32", 2):scatter({1, 0}, td.constant{7, 8})
  gives({8, 7}, sess:run(some:stack()))
end

function tests.gradients_of_ones_own()
  local x = td.constant(-2.0)
  local guided = td.gradient_override_map({Relu = "ApiGuidedRelu"}, td.relu, x)
  td.register_gradient("ApiGuidedRelu", function(_, dy) return dy * 7.0 end)
  lu.assertEquals(td.gradients(guided, x):eval(), 7.0)
  raises("registered already", td.register_gradient, "ApiGuidedRelu",
         function() end)
  local f = td.custom_gradient(function(v) return v * v end,
                               function(dy, v) return dy * v end)
  lu.assertEquals(td.gradients(f(x), x):eval(), -2.0)
  lu.assertFalse(td.gradients(td.stop_gradient(x) * 2.0, x))
end

function tests.functions()
  local square = td.func(function(v) return v * v end, {"float32"})
  local x = td.constant(3.0)
  local y = square(x)
  lu.assertEquals({y:eval(), td.gradients(y, x):eval()}, {9.0, 6.0})
end

function tests.graphs_are_files()
  local path = os.tmpname()
  local g = td.graph()
  g:as_default(function()
    td.multiply(td.placeholder("float32", {2}, "x"), 3, "y")
  end)
  g:save(path)
  local y = td.import_graph(path, {prefix = "in", outputs = {"y:0"},
    inputs = {["x:0"] = td.constant{1.0, 2.0}}})
  os.remove(path)
  lu.assertEquals(y.name, "in/y:0")
  gives({3, 6}, y:eval())
end

return tests
