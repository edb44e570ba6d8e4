-- insight.lua - looking at graphs and steps: summary, diff, estimate, compare,
-- check_numerics.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function contains(text, ...)
  for _, part in ipairs{...} do lu.assertStrContains(tostring(text), part) end
end

-- ---- summary --------------------------------------------------------------

function tests.summary_counts_by_scope()
  td.name_scope("net/", function()
    td.variable(td.value.zeros{784, 128}, "W")
    td.variable(td.value.zeros{128}, "b")
  end)
  td.variable(td.value.zeros({3}, "float64"), "last")
  local text = td.get_default_graph():summary():gsub(" +", " ")
  contains(text, "net/ 100480 parameters 401920 bytes",
           "W 100352 float32 {784, 128}", "last 3 float64 {3}",
           "3 variables 100483 parameters 401944 bytes")
end

-- Moving averages, slots and counts are no parameters that are trained.
function tests.summary_tells_what_is_trained()
  local x = td.placeholder("float32", {-1, 4}, "x")
  local y = td.layers.batch_normalization(td.layers.dense(x, 3))
  local train = td.train.momentum(0.1)
  train:minimize(y:mean(), {global_step = td.train.global_step()})
  local text = td.get_default_graph():summary():gsub(" +", " ")
  contains(text, "dense/ 30 parameters 120 bytes 15 not trained",
           "batch_normalization/ 18 parameters 72 bytes 12 not trained",
           "moving_mean 3 float32 {3} not trained\n", "gamma 3 float32 {3}\n",
           "11 variables 49 parameters 200 bytes\n trained 21 parameters 84 "
           .. "bytes\n not trained 28 parameters 116 bytes\n")
end

-- Collections are not in the file: nothing is said of what it does not know.
function tests.summary_of_an_imported_graph()
  td.variable(td.value.zeros{3}, "w")
  local path = os.tmpname()
  td.get_default_graph():save(path)
  td.reset()
  td.import_graph(path)
  os.remove(path)
  local text = td.get_default_graph():summary():gsub(" +", " ")
  lu.assertNotStrContains(text, "trained")
  contains(text, "1 variables 3 parameters 12 bytes")
end

-- The famous one: labels {n} beside predictions {n, 1}.
function tests.summary_tells_broadcasts()
  local y, t = td.placeholder("float32", {8, 1}), td.placeholder("float32", {8})
  local d = y - t
  local bias = y + td.ones{1, 1}
  local text = td.get_default_graph():summary()
  contains(text, "Sub (Sub) {8, 1} with {8} gives {8, 8}", d.op.origin,
           "<- both grow", "implicit broadcasts")
  contains(text, "(AddV2) {8, 1} with {1, 1} gives {8, 1}  " .. bias.op.origin)
  td.reset()
  local x = td.placeholder("float32", {8})
  td.add(x * 2, x)
  lu.assertNotStrContains(td.get_default_graph():summary(), "broadcasts")
end

function tests.summary_lists_nodes()
  for _ = 1, 5 do td.constant(1) end
  local text = td.get_default_graph():summary{nodes = 2}
  contains(text, "  Const  Const() -> int32 {}", "... 3 more", "5 nodes")
  raises("did you mean \"nodes\"", td.get_default_graph().summary,
         td.get_default_graph(), {node = 2})
end

-- ---- diff -----------------------------------------------------------------

local function build(g, f) return g:as_default(f) end

function tests.diff()
  local g, h = td.graph(), td.graph()
  build(g, function()
    local x = td.placeholder("float32", {2}, "x")
    td.tanh(x, "y")
    td.constant(1.0, "c")
    td.constant(1.0, "only")
  end)
  build(h, function()
    local x = td.placeholder("float32", {3}, "x")
    td.relu(x, "y")
    td.constant(2.0, "c")
    td.square(x, "more")
  end)
  local d = g:diff(h)
  lu.assertFalse(d.same)
  lu.assertEquals(d.removed[1].name, "only")
  lu.assertEquals(d.added[1].name, "more")
  contains(d, "- only  Const", "+ more  Square", "~ y  op: Tanh -> Relu",
           "~ c  attribute value: float32 {} 1 -> float32 {} 2",
           "~ x  attribute shape: {2} -> {3}", "insight.lua:")
  lu.assertTrue(g:diff(g).same)
  lu.assertEquals(tostring(g:diff(g)), "no difference")
  raises("the other graph is a graph, not number", g.diff, g, 1)
end

-- ---- estimate -------------------------------------------------------------

function tests.estimate_convolutions()
  local x = td.placeholder("float32", {2, 8, 8, 4}, "x")
  local w = td.variable(td.value.zeros{3, 3, 4, 6}, "w")
  local y = td.conv2d(x, w:read(), 2)
  local g = td.get_default_graph()
  local each = 2 * (2 * 4 * 4 * 6) * 3 * 3 * 4
  lu.assertEquals(g:estimate(nil, {fetches = y}).flops, each)
  local d = td.gradients(y, {x, w}, {grad_ys = td.value.ones{2, 4, 4, 6}})
  lu.assertEquals(g:estimate(nil, {fetches = d}).flops, 2 * each)
  local z = td.depthwise_conv2d(x, td.value.zeros{3, 3, 4, 2})
  lu.assertEquals(g:estimate(nil, {fetches = z}).flops,
                  2 * (2 * 8 * 8 * 8) * 3 * 3)
end

function tests.estimate_products()
  local x = td.placeholder("float32", {-1, 784}, "x")
  local W = td.variable(td.value.zeros{784, 128}, "W")
  local y = x:matmul(W)
  local g = td.get_default_graph()
  local e = g:estimate({[x] = td.value.zeros{100, 784}}, {fetches = y})
  lu.assertEquals(e.flops, 2 * 100 * 784 * 128)
  lu.assertEquals(e.variables, 784 * 128 * 4)
  lu.assertEquals(e.feeds, 100 * 784 * 4)
  lu.assertEquals(#e.unknown, 0)
  local s = g:estimate(nil, {fetches = y, shapes = {[x] = {100, 784}}})
  lu.assertEquals({s.flops, s.peak}, {e.flops, e.peak})
  lu.assertTrue(#g:estimate(nil, {fetches = y}).unknown > 0)
  contains(e, "20.07 Mflop", "variables 401.4 kB")
end

-- Of one op: on its shapes, on others, and nil where they are not known.
function tests.cost_of_an_op()
  local x = td.placeholder("float32", {-1, 4})
  local y = x:matmul(td.placeholder("float32", {4, 5})).op
  lu.assertEquals({core.op_cost(y)}, {})
  lu.assertEquals({core.op_cost(y, {{3, 4}, {4, 5}}, {{3, 5}})},
                  {2.0 * 3 * 4 * 5, 4.0 * (3 * 4 + 4 * 5 + 3 * 5)})
  raises("there must be 2 shapes, not 1", core.op_cost, y, {{3, 4}})
end

-- What is the same in every step is a constant, what is asked for twice is
-- computed once, and what nobody needs not at all: as the plan has it.
function tests.estimate_of_what_is_planned()
  local x = td.placeholder("float32", {1000})
  local y = td.exp(x) + td.exp(x) * (td.ones{1000} + td.ones{1000})
  td.log(x)
  local e = td.get_default_graph():estimate(nil, {fetches = y})
  lu.assertEquals({e.flops, e.constants, e.feeds}, {3000, 4000, 4000})
end

local function loop_of(n, gradient)
  local w = td.placeholder("float32", {128, 128})
  local _, y = td.while_loop(function(i) return i:less(n) end,
    function(i, h) return i + 1, td.tanh(h:matmul(w)) end, {0, w})
  return td.sum(gradient and td.gradients(y, w) or y), w
end

-- What the allocator saw is within 10 % of what was told before.
function tests.estimate_loops()
  for _, row in ipairs{{150, true}, {300, true}} do
    td.reset()
    collectgarbage() -- what other tests left counts too
    collectgarbage()
    local total, w = loop_of(row[1], row[2])
    local value = td.value.ones{128, 128}
    local e = td.get_default_graph():estimate({[w] = value}, {fetches = total})
    lu.assertEquals(e.stacks, row[1] * 128 * 128 * 4)
    for _, l in ipairs(e.loops) do
      lu.assertEquals({l.iterations, l.exact}, {row[1], true})
    end
    lu.assertTrue(e.flops > row[1] * 3 * 2 * 128^3)
    local s <close> = td.session()
    s:run(total, {[w] = value})
    core.memory()
    s:run(total, {[w] = value})
    local peak = select(2, core.memory())
    lu.assertTrue(math.abs(e.peak / peak - 1) < 0.1,
                  ("%d told, %d seen"):format(e.peak, peak))
  end
end

-- What heavy ops are counted as: {what makes one, the count by hand}.
local function image() return td.placeholder("float32", {2, 8, 8, 4}) end

local heavy = {
  max_pool = {function() return td.max_pool(image(), 2, 2) end,
              2 * 4 * 4 * 4 * 2 * 2},
  avg_pool = {function() return td.avg_pool(image(), 2, 2) end,
              2 * 4 * 4 * 4 * 2 * 2},
  argmax = {function() return (td.max_pool_with_argmax(image(), 2, 2)) end,
            2 * 4 * 4 * 4 * 2 * 2},
  batch_norm = {function()
    local one = td.value.ones{4}
    return (td.raw.FusedBatchNormV3(image(), one, one, one, one,
                                    {is_training = false}))
  end, 2 * 512},
  batch_norm_training = {function()
    local one = td.value.ones{4}
    return (td.raw.FusedBatchNormV3(image(), one, one, one, one))
  end, 6 * 512},
  dilation = {function()
    return td.dilation2d(image(), td.value.zeros{3, 2, 4},
      {strides = {1, 1, 1, 1}, rates = {1, 1, 1, 1}, padding = "SAME"})
  end, 2 * 512 * 3 * 2},
  lrn = {function() return td.lrn(image(), {depth_radius = 2}) end,
         512 * (2 * 5 + 3)},
  bilinear = {function() return td.raw.ResizeBilinear(image(), {16, 16}) end,
              8 * 2 * 16 * 16 * 4},
  bicubic = {function() return td.raw.ResizeBicubic(image(), {16, 16}) end,
             32 * 2 * 16 * 16 * 4},
  nearest = {function()
    return td.raw.ResizeNearestNeighbor(image(), {16, 16})
  end, 0},
  ctc = {function()
    return (td.raw.CTCLoss(td.placeholder("float32", {5, 2, 4}),
      td.value.zeros({2, 2}, "int64"), {1, 2}, {5, 5}))
  end, 9 * 5 * 2 * 4},
}

function tests.estimate_heavy_ops()
  for name, row in pairs(heavy) do
    td.reset()
    local y = row[1]()
    local e = td.get_default_graph():estimate(nil, {fetches = y})
    lu.assertEquals(e.flops, row[2], name)
  end
end

-- What is told of a step is within 10 % of the operations counted by hand.
local function check_operations(what, fetches, feeds, flops)
  local e = td.get_default_graph():estimate(feeds, {fetches = fetches})
  lu.assertTrue(math.abs(e.flops / flops - 1) < 0.1,
    ("%s: %.4g operations told, %.4g by hand"):format(what, e.flops, flops))
end

-- Its memory is within 10 % of what the allocator saw on one thread.
local function check_peak(what, fetches, feeds)
  local e = td.get_default_graph():estimate(feeds, {fetches = fetches})
  local s <close> = td.session{threads = 1}
  s:init()
  for _ = 1, 2 do s:run(fetches, feeds) end
  collectgarbage()
  local before = core.memory()
  s:run(fetches, feeds)
  local peak = select(2, core.memory())
  lu.assertTrue(math.abs(e.peak / peak - 1) < 0.1, ("%s: %d bytes told, %d "
    .. "seen, %d before"):format(what, e.peak, peak, before))
end

function tests.estimate_of_a_convnet()
  local n = 32
  local x = td.placeholder("float32", {-1, 28, 28, 1}, "x")
  local labels = td.placeholder("int64", {-1}, "labels")
  local relu = {padding = "same", activation = td.relu}
  local y = td.layers.max_pooling2d(td.layers.conv2d(x, 8, 5, relu), 2, 2)
  y = td.layers.max_pooling2d(td.layers.conv2d(y, 16, 5, relu), 2, 2)
  y = td.layers.dense(td.layers.flatten(y), 64, {activation = td.relu})
  local loss = td.nn.sparse_softmax_cross_entropy(td.layers.dense(y, 10),
                                                  labels):mean()
  local train = td.train.sgd(0.1):minimize(loss)
  local feeds = {[x] = td.value.ones{n, 28, 28, 1},
                 [labels] = td.value.zeros({n}, "int64")}
  local first = 2 * n * 28 * 28 * 8 * 25 -- its input has no gradient
  local forward = first + 2 * n * (14 * 14 * 16 * 25 * 8 + 784 * 64 + 64 * 10)
  check_operations("convnet", loss, feeds, forward)
  check_operations("convnet's step", {loss, train}, feeds, 3 * forward - first)
  contains(td.get_default_graph():summary(), "conv2d_1/",
           "3216 parameters", "54314 parameters        217256 bytes")
  check_peak("convnet", loss, feeds)
  check_peak("convnet's step", {loss, train}, feeds)
end

-- A loss, its training step, feeds, operations of the loss.
local function lstm(name)
  local n, time, depth, units = 32, 20, 64, 128
  td.reset()
  local x = td.placeholder("float32", {n, time, depth}, "x")
  local cell = td.nn.lstm_cell(units)
  local y = name == "dynamic_rnn" and td.nn.dynamic_rnn(cell, x)
    or td.stack(td.nn.static_rnn(cell, td.unstack(x, 1)), 1)
  local loss = (y * y):mean()
  return loss, td.train.sgd(0.1):minimize(loss),
    {[x] = td.value.ones{n, time, depth}},
    2 * n * time * (depth + units) * 4 * units
end

function tests.estimate_of_an_lstm()
  for _, name in ipairs{"dynamic_rnn", "static_rnn"} do
    local loss, train, feeds, forward = lstm(name)
    check_operations(name, loss, feeds, forward)
    check_operations(name .. "'s step", {loss, train}, feeds, 3 * forward)
    contains(td.get_default_graph():summary(), "98816 parameters")
  end
end

function tests.estimate_of_an_lstm_in_memory()
  for _, name in ipairs{"dynamic_rnn", "static_rnn"} do
    local loss, train, feeds = lstm(name)
    check_peak(name, loss, feeds)
    check_peak(name .. "'s step", {loss, train}, feeds)
  end
end

function tests.estimate_refuses()
  local x = td.placeholder("float32", {-1, 3}, "x")
  local g = td.get_default_graph()
  raises("estimate: \"x:0\" has shape {-1, 3}, given {2, 4}", g.estimate, g,
         {[x] = td.value.ones{2, 4}})
  raises("shapes are lists of sizes such as {100, 784}, not number", g.estimate,
         g, nil, {shapes = {[x] = 3}})
end

function tests.estimate_says_what_it_does_not_know()
  local n = td.placeholder("int32", {})
  local _, y = td.while_loop(function(i) return i:less(n) end,
    function(i, v) return i + 1, v * 2 end, {0, td.ones{4}})
  local e = td.get_default_graph():estimate(nil, {fetches = y})
  lu.assertFalse(e.loops[1].exact)
  contains(e, "iterations unknown, counted as 1")
end

-- ---- check_numerics -------------------------------------------------------

function tests.check_numerics()
  local x = td.placeholder("float32", {3}, "x")
  local y = td.log(x * 2)
  local last = y * 3
  local s <close> = td.session()
  local on = {check_numerics = true}
  local e = raises("output 0 holds 1 NaN and 1 infinite of 3 numbers; input 0 "
    .. "is float32 {3}, -4 to 2, mean -0.666667", s.run, s, last,
    {[x] = {1, -2, 0}}, on)
  lu.assertEquals({e.code, e.op, e.node}, {"invalid_argument", "Log", "Log"})
  if os.getenv "TIDE_TEST" ~= "roundtrip" then -- a file has no lines
    lu.assertEquals(e.where, y.op.origin)
  end
  helper.gives({0, 0, 0}, s:run(last, {[x] = {0.5, 0.5, 0.5}}, on))
  s:run(last, {[x] = {1, -2, 0}}) -- not looked at
  e = raises("holds 1 NaN", s.run, s, last, {[x] = {1, 0 / 0, 1}}, on)
  lu.assertEquals(e.op, "_Arg") -- it was fed
end

function tests.check_numerics_in_a_loop()
  local _, v = td.while_loop(function(i) return i:less(10) end,
    function(i, v) return i + 1, td.sqrt(v - 1) end, {0, td.constant(5.0)})
  for _, devices in ipairs{1, 2} do
    local s <close> = td.session{cpu_devices = devices}
    local e = raises("1 NaN of 1 numbers, in iteration 3 of its loop; input 0 "
      .. "is float32 {}, -1", s.run, s, v, {}, {check_numerics = true})
    lu.assertEquals(e.op, "Sqrt")
  end
end

function tests.check_numerics_of_other_dtypes()
  for _, t in ipairs{"float16", "bfloat16", "float64", "complex64"} do
    td.reset()
    local x = td.placeholder(t, {2})
    local s <close> = td.session()
    raises("holds", s.run, s, x / x, {[x] = td.cast(td.tensor{0, 1}, t)},
           {check_numerics = true})
  end
end

-- ---- compare --------------------------------------------------------------

local function net(scale, wide)
  local x = td.placeholder("float32", {32, 64}, "x")
  local w = td.value.random_normal({64, 16}, {seed = 1})
  local p
  if wide then
    p = td.cast(td.matmul(td.cast(x, "float64"), td.cast(w, "float64")),
                "float32", "product")
  else
    p = td.matmul(x, w, "product")
  end
  local h = td.tanh(p, "h")
  local y = td.multiply(td.sum(h * h, 1), scale, "y")
  td.mean(td.exp(y, "e"), "z")
  return {["x:0"] = td.value.random_normal({32, 64}, {seed = 2})}
end

function tests.compare_sessions_and_a_dump()
  local feeds = net(0.1)
  local path = os.tmpname()
  local a <close> = td.session()
  local b <close> = td.session{cpu_devices = 2, passes_off = {"fold", "cse"}}
  local r = td.compare(a, b, {feeds = feeds, dump = path})
  lu.assertEquals(r.bad, 0)
  lu.assertTrue(#r.rows > 8)
  lu.assertNil(r.first)
  r = td.compare(td.get_default_graph(), path, {feeds = feeds})
  os.remove(path)
  lu.assertEquals(r.bad, 0)
end

-- Another way of computing differs, by no more than rounding.
function tests.compare_graphs()
  local g, h, feeds = td.graph(), td.graph(), nil
  build(g, function() feeds = net(0.1) end)
  build(h, function() net(0.1, true) end)
  local r = td.compare(g, h, {feeds = feeds, map = {["Sum:0"] = "Sum:0"}})
  lu.assertEquals(r.bad, 0, tostring(r))
  local worst = 0
  for _, row in ipairs(r.rows) do worst = math.max(worst, row.error) end
  lu.assertTrue(worst > 0)
end

-- A mistake is found where it is made, not where it shows.
function tests.compare_finds_the_first()
  local g, h, feeds = td.graph(), td.graph(), nil
  build(g, function() feeds = net(0.1) end)
  build(h, function() net(0.1001) end)
  local r = td.compare(g, h, {feeds = feeds})
  lu.assertTrue(r.bad >= 1)
  contains(r, "tensors compared")
  lu.assertStrContains("y:0 Const_2:0", r.first.name) -- the factor
  lu.assertStrContains(r.first.origin, "insight.lua:")
  for _, row in ipairs(r.rows) do
    if row.name == "e:0" or row.name == "z:0" then
      lu.assertFalse(row.bad) -- no more than what came in
    end
  end
end

function tests.compare_refuses()
  raises("must be a graph or a session", td.compare, {a = td.tensor(1)},
         {a = td.tensor(1)})
  raises("not number", td.compare, 1, 2)
  net(0.1)
  raises("have no tensor in common", td.compare, td.get_default_graph(),
         {nothing = td.tensor(1)})
end

return tests
