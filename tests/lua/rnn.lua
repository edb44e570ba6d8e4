-- rnn.lua - cells over time: the loop, the unrolled graph and TensorFlow agree.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local learning = require "shared.learning"

local raises, gives = helper.raises, helper.gives
local tests = {}

local lengths = {5, 0, 3}

-- ---- against TensorFlow ---------------------------------------------------

local rows = {
  dynamic_rnn = function(given)
    local y, s = td.nn.dynamic_rnn(td.nn.lstm_cell(2), given{3, 5, 2})
    return y, s.c, s.h
  end,
  dynamic_rnn_with_lengths = function(given)
    local y, s = td.nn.dynamic_rnn(td.nn.lstm_cell(2), given{3, 5, 2},
                                   {sequence_length = lengths})
    return y, s.c, s.h
  end,
  dynamic_rnn_shorter_than_time = function(given)
    return td.nn.dynamic_rnn(td.nn.gru_cell(2), given{5, 3, 2},
      {sequence_length = {3, 2, 0}, initial_state = given{3, 2},
       time_major = true})
  end,
  static_rnn_with_lengths = function(given)
    local ys, s = td.nn.static_rnn(td.nn.gru_cell(2),
      td.unstack(given{5, 3, 2}), {sequence_length = lengths})
    ys[#ys + 1] = s
    return table.unpack(ys)
  end,
  bidirectional_dynamic_rnn = function(given)
    local ys, states = td.nn.bidirectional_dynamic_rnn(td.nn.gru_cell(2),
      td.nn.basic_rnn_cell(1), given{3, 5, 2}, {sequence_length = lengths})
    return ys[1], ys[2], states[1], states[2]
  end,
}

for name, build in pairs(rows) do
  tests["tensorflow_" .. name] = learning.test(name, build)
end

-- ---- the loop is the unrolled graph ---------------------------------------

-- Outputs {batch, time, n}, the state as a list, and their gradients by x and
-- the variables.
local function results(over, cell, x, o)
  local y, s = over(cell, x, o)
  local ys = {y, s.c, s.h}
  local xs = {x, table.unpack(cell.variables)}
  local loss = (y * td.cos(y)):sum() + s.c:square():sum() + s.h:sum()
  for _, d in ipairs(td.gradients(loss, xs)) do ys[#ys + 1] = d end
  return ys
end

local function unrolled(cell, x, o)
  local ys, s = td.nn.static_rnn(cell, td.unstack(x, 1), o)
  return td.stack(ys, 1), s
end

for what, given in pairs{whole = false, by_lengths = {2, 6, 0, 5}} do
  tests["loop_is_unrolled_" .. what] = function()
    td.seed(5)
    local cell = td.nn.lstm_cell(3)
    local x = td.constant(td.value.random_normal{4, 6, 2})
    local o = {sequence_length = given or nil}
    local a = results(td.nn.dynamic_rnn, cell, x, o)
    local b = results(unrolled, cell, x, o)
    local sess = td.session()
    sess:init()
    for k, pair in ipairs(sess:run{a, b}[1]) do
      td.test.close(pair, sess:run(b[k]), {rtol = 1e-5, atol = 1e-6})
    end
  end
end

function tests.what_is_beyond_the_length_does_not_matter()
  local cell = td.nn.lstm_cell(3)
  local x = td.placeholder("float32", {-1, -1, 2})
  local n = td.placeholder("int64", {-1})
  local y, s = td.nn.dynamic_rnn(cell, x, {sequence_length = n})
  local dx = td.gradients(y:square():sum() + s.c:sum(), x)
  local sess = td.session()
  sess:init()
  local data = td.value.random_normal{2, 5, 2}
  local short = data[":, 0:3"]
  local long = td.concat({short, td.value.fill({2, 2, 2}, 100.0)}, 1)
  local a = sess:run({y = y, c = s.c, dx = dx}, {[x] = long, [n] = {3, 2}})
  local b = sess:run({y = y, c = s.c, dx = dx}, {[x] = short, [n] = {3, 2}})
  td.test.close(a.y[":, 0:3"], b.y, {rtol = 0, atol = 0})
  td.test.close(a.dx[":, 0:3"], b.dx, {rtol = 0, atol = 0})
  td.test.close(a.c, b.c, {rtol = 0, atol = 0})
  for _, part in ipairs{a.y, a.dx} do
    gives(0, part[":, 3:"]:abs():max())
    gives(0, part["1, 2:"]:abs():max())
  end
  local nothing = sess:run({y, dx}, {[x] = long, [n] = {0, 0}})
  gives(0, nothing[1]:abs():max() + nothing[2]:abs():max())
  lu.assertEquals(nothing[1].shape, {2, 5, 3})
  local beyond = sess:run(y, {[x] = short, [n] = {99, 3}})
  gives(sess:run(y, {[x] = short, [n] = {3, 3}}), beyond)
end

function tests.gradients_by_lengths_are_exact()
  local function f(x, state)
    return (td.nn.dynamic_rnn(td.nn.gru_cell(2), x, {
      sequence_length = {3, 1}, initial_state = state}))
  end
  local x = td.value.random_normal({2, 4, 2}, {dtype = "float64"})
  local state = td.value.random_normal({2, 2}, {dtype = "float64"})
  lu.assertTrue(td.test.gradient(f, {x, state}) < 1e-6)
end

-- dynamic_rnn said with a function that gives each step its input.
local function fed_by_hand(cell, x, lengths_of_rows)
  local time, batch = x.shape[2], x.shape[1]
  local inputs = td.tensor_array("float32", time,
    {element_shape = {batch, x.shape[3]}}):unstack(td.transpose(x, {1, 0, 2}))
  local emitted, state, steps = td.nn.raw_rnn(cell,
    function(t, output, given, count)
      local over = t:greater_equal(lengths_of_rows)
      local nothing = td.zeros{batch, x.shape[3]}
      local input = td.cond(td.reduce_all(over),
        function() return nothing end, function() return inputs:read(t) end)
      if not output then
        return over, input, cell:zero_state(batch), nil, td.constant(0)
      end
      return over, input, given, nil, count + 1
    end)
  return td.transpose(emitted:stack(), {1, 0, 2}), state, steps
end

function tests.raw_rnn_is_dynamic_rnn_by_hand()
  td.seed(7)
  local cell = td.nn.lstm_cell(3)
  local x = td.constant(td.value.random_normal{4, 6, 2})
  local ends = {2, 6, 0, 5}
  local a = results(td.nn.dynamic_rnn, cell, x, {sequence_length = ends})
  local steps
  local b = results(function(...)
    local y, s
    y, s, steps = fed_by_hand(...)
    return y, s
  end, cell, x, td.tensor(ends))
  local sess = td.session()
  sess:init()
  for k = 1, #a do
    local one, two = table.unpack(sess:run{a[k], b[k]})
    td.test.close(one, two, {rtol = 1e-6, atol = 1e-6})
  end
  lu.assertEquals(sess:run(steps), 6)
end

-- What a step says is the next one's input, as in a decoder.
function tests.raw_rnn_feeds_itself()
  local cell = td.nn.gru_cell(2)
  local emitted, state = td.nn.raw_rnn(cell, function(t, output, given)
    if not output then
      return td.fill({3}, false), td.ones{3, 2}, cell:zero_state(3),
             {said = td.zeros{2}, at = td.constant(0)}
    end
    return t:greater_equal({2, 4, 3}), output, given,
           {said = output, at = td.fill({3}, t)}
  end)
  local x, s, want = td.ones{3, 2}, cell:zero_state(3), {}
  for i = 1, 4 do
    x, s = cell(x, s)
    want[i] = x
  end
  local sess = td.session()
  sess:init()
  local got = sess:run{said = emitted.said:stack(), at = emitted.at:stack(),
                       state = state, want = td.stack(want)}
  lu.assertEquals(got.at:table(), {{1, 1, 1}, {2, 2, 2}, {0, 3, 3}, {0, 4, 0}})
  td.test.close(got.said["0:2"], got.want["0:2"])
  td.test.close(got.said["3, 1"], got.want["3, 1"])
  gives(0, got.said["3, 0"]:abs():max())
  td.test.close(got.state[0], got.want[1][0])
end

function tests.raw_rnn_says_what_it_wants()
  local cell = td.nn.gru_cell(2)
  raises("cell such as", td.nn.raw_rnn, 3, print)
  raises("must be a function", td.nn.raw_rnn, cell, 3)
  raises("returns finished {batch}", td.nn.raw_rnn, cell, function() end)
  raises("finished is a bool", td.nn.raw_rnn, cell,
         function() return td.zeros{3} end)
  raises("the first input and the first state", td.nn.raw_rnn, cell,
         function() return td.fill({3}, false) end)
  raises("swap_memory", td.nn.raw_rnn, cell, print, {swap_memry = true})
end

function tests.same_bits_for_any_overlap()
  td.seed(1)
  local cell = td.nn.lstm_cell(4)
  local x = td.constant(td.value.random_normal{3, 7, 4})
  local a = results(td.nn.dynamic_rnn, cell, x, {parallel_iterations = 1})
  local b = results(td.nn.dynamic_rnn, cell, x, {swap_memory = true})
  local sess = td.session()
  sess:init()
  for k = 1, #a do
    local one, two = table.unpack(sess:run{a[k], b[k]})
    lu.assertEquals(one:bytes(), two:bytes())
  end
end

-- A loop whose layers are on devices of their own, and its gradient.
function tests.same_bits_on_several_devices()
  local function bits(apart)
    td.reset()
    td.seed(3)
    local list = {td.nn.lstm_cell(4), td.nn.gru_cell(3), td.nn.lstm_cell(2)}
    for d, cell in ipairs(apart and list or {}) do
      list[d] = td.nn.device_wrapper(cell, "/cpu:" .. d - 1)
    end
    local cell = td.nn.multi_cell(list)
    local y = td.nn.dynamic_rnn(cell, td.constant(
      td.value.random_normal{3, 6, 5}), {sequence_length = {6, 2, 4}})
    local ds = td.gradients(y:square():sum(), cell.variables)
    local sess <close> = td.session{cpu_devices = 3}
    sess:init()
    local out = {}
    for i, x in ipairs(sess:run{y, table.unpack(ds)}) do out[i] = x:bytes() end
    return table.concat(out)
  end
  lu.assertTrue(bits(true) == bits(false))
end

-- The loop reads the weights once, outside.
function tests.weights_are_read_outside_of_the_loop()
  local y = td.nn.dynamic_rnn(td.nn.lstm_cell(2), td.ones{1, 3, 2})
  for _, op in ipairs(y.graph:ops()) do
    if op.type == "ReadVariableOp" then
      lu.assertNil(op.name:find "while", op.name)
    end
  end
end

function tests.scopes()
  td.nn.dynamic_rnn(td.nn.lstm_cell(2), td.ones{1, 3, 2})
  td.nn.dynamic_rnn(td.nn.lstm_cell(2), td.ones{1, 3, 2}, {scope = "encoder"})
  lu.assertEquals(#td.trainable_variables "rnn/lstm_cell/", 2)
  lu.assertEquals(#td.trainable_variables "encoder/lstm_cell/", 2)
end

-- ---- errors ---------------------------------------------------------------

function tests.errors()
  local cell = td.nn.gru_cell(2)
  local function dynamic(x, o)
    return function() return td.nn.dynamic_rnn(cell, x, o) end
  end
  raises("dynamic_rnn takes a cell such as td.nn.lstm_cell(n), not table",
         td.nn.dynamic_rnn, {}, td.ones{1, 2, 3})
  raises("the input is {batch, time, depth}, or {time, batch, depth} with "
         .. "time_major, given shape {2, 3}", dynamic(td.ones{2, 3}))
  raises("the last axis of the input must be known",
         dynamic(td.placeholder("float32", {1, 2, -1})))
  raises("sequence_length has one length for each of the 2 rows, given shape "
         .. "{3}", dynamic(td.ones{2, 3, 4}, {sequence_length = {1, 2, 3}}))
  raises("sequence_length is int32 or int64, not float32",
         dynamic(td.ones{2, 3, 4}, {sequence_length = {1.0, 2.0}}))
  raises("has no option \"sequence_lengths\"; did you mean "
         .. "\"sequence_length\"?",
         dynamic(td.ones{2, 3, 4}, {sequence_lengths = {1, 2}}))
  raises("its state has the sizes 2, given {2, 3}",
         dynamic(td.ones{2, 3, 4}, {initial_state = td.ones{2, 3}}))
  raises("static_rnn: the list has no input", td.nn.static_rnn, cell, {})
end

return tests
