-- cells.lua - one step of recurrent cells: TensorFlow's numbers, names, errors.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local learning = require "shared.learning"

local raises, gives = helper.raises, helper.gives
local tests = {}

-- ---- against TensorFlow ---------------------------------------------------

-- out and the parts of an LSTM's state.
local function step(cell, x, state)
  local out, s = cell(x, state)
  if type(s) ~= "table" then return out end
  return out, s.c, s.h
end

local function lstm_state(given, n, h)
  return {c = given{2, n}, h = given{2, h or n}}
end

local rows = {
  basic_rnn_cell = function(given)
    return step(td.nn.basic_rnn_cell(3), given{2, 4}, given{2, 3})
  end,
  lstm_cell = function(given)
    return step(td.nn.lstm_cell(3), given{2, 4}, lstm_state(given, 3))
  end,
  basic_lstm_cell = function(given)
    local cell = td.nn.lstm_cell(3, {name = "basic_lstm_cell",
                                     forget_bias = 0.5})
    return step(cell, given{2, 4}, lstm_state(given, 3))
  end,
  lstm_cell_with_everything = function(given)
    local cell = td.nn.lstm_cell(3, {use_peepholes = true, cell_clip = 0.2,
      num_proj = 2, proj_clip = 0.1, forget_bias = 0.0})
    return step(cell, given{2, 4}, lstm_state(given, 3, 2))
  end,
  gru_cell = function(given)
    return step(td.nn.gru_cell(3), given{2, 4}, given{2, 3})
  end,
  multi_cell = function(given)
    local cell = td.nn.multi_cell{td.nn.lstm_cell(3), td.nn.gru_cell(2)}
    local out, s = cell(given{2, 4}, {lstm_state(given, 3), given{2, 2}})
    return out, s[1].c, s[1].h, s[2]
  end,
  residual_wrapper = function(given)
    return td.nn.residual_wrapper(td.nn.gru_cell(3))(given{2, 3}, given{2, 3})
  end,
}

for name, build in pairs(rows) do
  tests["tensorflow_" .. name] = learning.test(name, build)
end

-- ---- variables ------------------------------------------------------------

function tests.calls_share_the_variables()
  local cell = td.nn.lstm_cell(2)
  local state = cell:zero_state(3)
  local x = td.ones{3, 4}
  local a, next_state = cell(x, state)
  local b = cell(x, next_state)
  lu.assertEquals(#td.global_variables(), 2)
  for i, v in ipairs(td.global_variables()) do
    lu.assertTrue(v == cell.variables[i])
  end
  lu.assertEquals({a.shape, b.shape}, {{3, 2}, {3, 2}})
end

-- The names of the variables after `make` has run twice.
local function names_of_two(make)
  make()
  make()
  local names = {}
  for i, v in ipairs(td.global_variables()) do names[i] = v.name end
  return table.concat(names, " ")
end

-- Cells without a name are cells of their own.
function tests.names()
  local x, xs = td.ones{2, 3}, td.ones{2, 4, 3}
  local function call(cell) cell(x, cell:zero_state(2)) end
  local makers = {
    {function() call(td.nn.lstm_cell(2)) end, "lstm_cell/kernel "
      .. "lstm_cell/bias lstm_cell_1/kernel lstm_cell_1/bias"},
    {function() call(td.nn.basic_rnn_cell(2)) end, "basic_rnn_cell/kernel "
      .. "basic_rnn_cell/bias basic_rnn_cell_1/kernel basic_rnn_cell_1/bias"},
    {function()
      call(td.nn.dropout_wrapper(td.nn.residual_wrapper(
        td.nn.basic_rnn_cell(3))))
    end, "basic_rnn_cell/kernel basic_rnn_cell/bias basic_rnn_cell_1/kernel "
      .. "basic_rnn_cell_1/bias"},
    {function() call(td.nn.multi_cell{td.nn.basic_rnn_cell(2)}) end,
     "multi_rnn_cell/cell_0/basic_rnn_cell/kernel "
      .. "multi_rnn_cell/cell_0/basic_rnn_cell/bias "
      .. "multi_rnn_cell_1/cell_0/basic_rnn_cell/kernel "
      .. "multi_rnn_cell_1/cell_0/basic_rnn_cell/bias"},
    {function() td.nn.dynamic_rnn(td.nn.basic_rnn_cell(2), xs) end,
     "rnn/basic_rnn_cell/kernel rnn/basic_rnn_cell/bias "
      .. "rnn_1/basic_rnn_cell/kernel rnn_1/basic_rnn_cell/bias"},
    {function() td.nn.static_rnn(td.nn.basic_rnn_cell(2), {x, x}) end,
     "rnn/basic_rnn_cell/kernel rnn/basic_rnn_cell/bias "
      .. "rnn_1/basic_rnn_cell/kernel rnn_1/basic_rnn_cell/bias"},
  }
  for _, row in ipairs(makers) do
    td.graph():as_default(function()
      x, xs = td.ones{2, 3}, td.ones{2, 4, 3}
      lu.assertEquals(names_of_two(row[1]), row[2])
    end)
  end
  td.graph():as_default(function()
    lu.assertStrContains(names_of_two(function()
      td.nn.bidirectional_dynamic_rnn(td.nn.gru_cell(1), td.nn.gru_cell(1),
                                      td.ones{2, 4, 3})
    end), "bidirectional_rnn_1/bw/gru_cell/gates/kernel")
  end)
end

-- What is dropped from the input is no guide to what is from the output.
function tests.dropout_of_one_seed_is_drawn_apart()
  local cell = td.nn.dropout_wrapper(td.nn.basic_rnn_cell(40, {
    initializer = td.initializers.constant(0.1)}),
    {input_keep_prob = 0.5, output_keep_prob = 0.5, state_keep_prob = 0.5,
     seed = 3})
  cell(td.ones{1, 40}, cell:zero_state(1))
  local seeds = {}
  for _, op in ipairs(td.get_default_graph():ops()) do
    if op.type == "RandomUniform" then
      seeds[#seeds + 1] = op.attr.seed2
    end
  end
  table.sort(seeds)
  lu.assertEquals(seeds, {3, 4, 5})
end

-- Two stacks over time with one cell have one set of variables.
function tests.one_cell_in_two_loops()
  local cell, x = td.nn.gru_cell(2), td.ones{2, 3, 4}
  local a, b = td.nn.dynamic_rnn(cell, x), td.nn.dynamic_rnn(cell, x)
  lu.assertEquals(#td.global_variables(), 4)
  local s = td.session()
  s:init()
  gives(s:run(a), s:run(b))
end

-- In a scope that is entered again with reuse each finds its own.
function tests.reuse_finds_several()
  local function net(reuse)
    return td.variable_scope("net", {reuse = reuse}, function()
      local one, two = td.nn.basic_rnn_cell(3), td.nn.basic_rnn_cell(3)
      local h = one(td.ones{1, 2}, one:zero_state(1))
      return (two(h, two:zero_state(1)))
    end)
  end
  local a, b, c = net(false), net(true), net("auto")
  lu.assertEquals(#td.global_variables(), 4)
  local s = td.session()
  s:init()
  gives(s:run(a), s:run(b))
  gives(s:run(a), s:run(c))
end

function tests.a_name_that_is_taken()
  local function named()
    local cell = td.nn.gru_cell(2, "mine")
    cell(td.ones{1, 2}, cell:zero_state(1))
  end
  named()
  raises("for one of its own give it, its layer or its variable_scope another "
    .. "name; to share it set reuse = true in variable_scope, or call the same "
    .. "layer or cell again", named)
end

function tests.reuse_finds_the_variables_of_another_cell()
  local function outputs(reuse)
    return td.variable_scope("s", {reuse = reuse}, function()
      local cell = td.nn.gru_cell(2)
      return (cell(td.ones{1, 2}, cell:zero_state(1)))
    end)
  end
  local a = outputs(false)
  local b = outputs(true)
  local sess = td.session()
  sess:init()
  lu.assertEquals(#td.global_variables(), 4)
  gives(sess:run(a), sess:run(b))
  raises("variable \"s/gru_cell/gates/kernel\" exists already", outputs, false)
end

function tests.initial_values()
  local cell = td.nn.gru_cell(2, {initializer = td.initializers.constant(0.5)})
  cell(td.ones{1, 1}, cell:zero_state(1))
  local sess = td.session()
  sess:init()
  local kernel, bias, _, candidate = table.unpack(sess:run(cell.variables))
  gives({{.5, .5, .5, .5}, {.5, .5, .5, .5}, {.5, .5, .5, .5}}, kernel)
  gives({1, 1, 1, 1}, bias)
  gives({0, 0}, candidate)
end

function tests.texts()
  local cell = td.nn.gru_cell(2)
  lu.assertEquals(tostring(cell), "gru_cell \"not named yet\" of 2 units")
  td.nn.dynamic_rnn(cell, td.ones{1, 2, 3})
  lu.assertEquals(tostring(cell), "gru_cell \"rnn/gru_cell\" of 2 units")
end

function tests.zero_state()
  local cell = td.nn.multi_cell{td.nn.lstm_cell(2, {num_proj = 1}),
                                td.nn.basic_rnn_cell(3)}
  local batch = td.placeholder("int32", {})
  local s = td.session():run(cell:zero_state(batch, "float64"), {[batch] = 2})
  gives({{0, 0}, {0, 0}}, s[1].c)
  gives({{0}, {0}}, s[1].h)
  gives({{0, 0, 0}, {0, 0, 0}}, s[2])
  lu.assertEquals(s[2].dtype, "float64")
end

-- ---- wrappers -------------------------------------------------------------

-- The sums of outputs and new states of a wrapped cell that gives ones.
local function dropped(o)
  local cell = td.nn.dropout_wrapper(td.nn.lstm_cell(50, {
    initializer = td.initializers.constant(1.0)}), o)
  local sess = td.session()
  local out, s = cell(td.ones{20, 10}, cell:zero_state(20))
  sess:init()
  return table.unpack(sess:run{out, s.h, s.c})
end

local function share_of_zeros(x)
  return x:equal(0):cast "float32":mean():item()
end

function tests.dropout_of_what_is_asked()
  td.seed(3)
  local out, h, c = dropped{output_keep_prob = 0.25}
  lu.assertAlmostEquals(share_of_zeros(out), 0.75, 0.05)
  lu.assertEquals({share_of_zeros(h), share_of_zeros(c)}, {0, 0})
  td.reset()
  td.seed(3)
  out, h, c = dropped{state_keep_prob = 0.75}
  lu.assertAlmostEquals(share_of_zeros(h), 0.25, 0.05)
  lu.assertEquals({share_of_zeros(out), share_of_zeros(c)}, {0, 0})
end

function tests.dropout_of_all_steps_alike()
  td.seed(3)
  local cell = td.nn.dropout_wrapper(td.nn.basic_rnn_cell(40, {
    initializer = td.initializers.constant(1.0)}),
    {output_keep_prob = 0.5, variational_recurrent = true})
  local y = td.nn.dynamic_rnn(cell, td.ones{3, 4, 2})
  local sess = td.session()
  sess:init()
  local zero = sess:run(y):equal(0)
  lu.assertAlmostEquals(zero:cast "float32":mean():item(), 0.5, 0.2)
  lu.assertTrue(zero:equal(zero["0:1, 0:1"]):all():item())
end

function tests.devices()
  local cell = td.nn.device_wrapper(td.nn.lstm_cell(2), "/cpu:1")
  local out, s = cell(td.ones{1, 2}, cell:zero_state(1))
  lu.assertEquals({out.device, s.c.device, cell.variables[1].device},
                  {"/device:CPU:1", "/device:CPU:1", "/device:CPU:1"})
end

-- ---- errors ---------------------------------------------------------------

function tests.errors()
  local cell = td.nn.lstm_cell(2)
  local state = cell:zero_state(3)
  raises("lstm_cell: its input has rank 2, given shape {3}",
         cell, td.ones{3}, state)
  raises("begin with cell:zero_state(batch)", cell, td.ones{3, 4})
  raises("its state has the sizes 2, 2, given {3, 2}", cell, td.ones{3, 4},
         state.c)
  raises("its state has the sizes 2, 2, given {3, 2}, {3, 5}", cell,
         td.ones{3, 4}, {c = state.c, h = td.ones{3, 5}})
  raises("axis 1 of its input must be known, given shape {3, -1}", cell,
         td.placeholder("float32", {3, -1}), state)
  td.variable_scope("a", function() return cell(td.ones{3, 4}, state) end)
  raises("lstm_cell \"a/lstm_cell\": its variables (made at", cell,
         td.ones{3, 5}, state)
  raises("take float32 inputs of size 4, given float32 of size 5", cell,
         td.ones{3, 5}, state)
end

function tests.errors_of_making()
  raises("lstm_cell: the number of units is at least 1, given 0",
         td.nn.lstm_cell, 0)
  raises("lstm_cell: num_proj is at least 1, given -1", td.nn.lstm_cell, 2,
         {num_proj = -1})
  raises("forget_bias must be a number, not string", td.nn.lstm_cell, 2,
         {forget_bias = "1"})
  raises("gru_cell: activation must be a function such as td.relu, not string",
         td.nn.gru_cell, 2, {activation = "relu"})
  raises("dropout takes floats, not int32; use td.cast", td.nn.dropout,
         td.constant{1, 2}, 0.5)
  raises("gru_cell: the number of units must be an integer, not nil",
         td.nn.gru_cell)
  raises("lstm_cell has no option \"forget_bais\"; did you mean "
         .. "\"forget_bias\"?", td.nn.lstm_cell, 2, {forget_bais = 1})
  raises("multi_cell: the list has no cell", td.nn.multi_cell, {})
  raises("multi_cell takes a cell such as td.nn.lstm_cell(n), not number",
         td.nn.multi_cell, {3})
  raises("device_wrapper: the device must be a string", td.nn.device_wrapper,
         td.nn.gru_cell(2), 1)
  raises("dropout: what is kept is in (0, 1], given 0", td.nn.dropout,
         td.ones{2}, 0)
end

return tests
