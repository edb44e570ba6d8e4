-- mistakes.lua - what users of other libraries get wrong when they teach a
-- network: each message names the function, what was given, and what to do.
--
-- A row is what the error must say, and the call.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local each = helper.each
local tests = {}

local function floats(...) return td.placeholder("float32", {...}) end

-- ---- layers ---------------------------------------------------------------

local layers, nn = td.layers, td.nn

local function ints(...) return td.placeholder("int32", {...}) end

-- dense(x {-1, 3}, 10) with one option.
local function dense_with(key, value)
  return function() layers.dense(floats(-1, 3), 10, {[key] = value}) end
end

tests.first_hour = each{
  {"there is no dtype \"flaot32\"; did you mean \"float32\"?", function()
    td.placeholder("flaot32", {2})
  end},
  {"there is no dtype \"int\"; did you mean \"int32\"?", function()
    td.cast(td.ones{2}, "int")
  end},
  {"there is no dtype \"integer\"; did you mean \"int32\"?", function()
    td.ones{2}:cast "integer"
  end},
  {"there is no dtype \"qqqq\"; one is \"float32\"", function()
    td.zeros{2}:cast "qqqq"
  end},
  {"a dtype is a string such as \"float32\", not number", function()
    td.cast(td.ones{2}, 3)
  end},
  {"variable \"w\": a shape is a list of sizes such as {2, 3}, not string",
   function() td.get_variable("w", "2") end},
  {"variable \"w\": a shape is a list of sizes such as {2, 3}, not edge",
   function() td.get_variable("w", td.constant{2, 3}) end},
  {"variable \"w\": size 2 of the shape must be a whole number, given a",
   function() td.get_variable("w", {2, "a"}) end},
  {"variable \"w\": size 1 of the shape must be a whole number, given 2.5",
   function() td.get_variable("w", {2.5}) end},
  {"no node \"q:0\" in the graph", function()
    local p = floats(2)
    td.session():run(p, {["q:0"] = {1, 2}})
  end},
  {"no field or method \"run\" on a tensor; write x:eval() or sess:run(x)",
   function() td.zeros{2}:run() end},
  {"stack takes one list of tensors, stack({a, b}, axis)", function()
    td.stack(td.ones{2}, td.ones{2})
  end},
  {"this callable takes 1 value, 0 given", function()
    local x = floats()
    td.session():callable({x * 2}, {x})()
  end},
  {"session: graph is one such as td.graph() gives, not number", function()
    td.session{graph = 3}
  end},
  {"chart: data is a table such as {loss = {3, 2, 1}}, not number", function()
    td.chart{data = 3}
  end},
  {"progress takes a number or an iterator such as d:batches(100), not table",
   function() td.progress{1, 2} end},
  {"td has no \"plot\"; write td.chart{data = {y = list}}", function()
    td.plot{1, 2, 3}
  end},
  {"td.train has no \"Saver\"; write td.train.saver()", function()
    td.train.Saver()
  end},
  {"td has no \"summary\"; write td.get_default_graph():summary()", function()
    td.summary()
  end},
  {"chart: loss has 3 values, others 2", function()
    td.chart{data = {acc = {1, 2}, loss = {1, 2, 3}}}
  end},
}

function tests.one_size_is_a_shape()
  lu.assertEquals(td.get_variable("w", 3).shape, {3})
  lu.assertEquals(td.get_variable("v", td.ones{2, 4}.shape).shape, {2, 4})
end

-- A device of this process is called by its short name.
function tests.devices_in_messages()
  local v = td.variable(1.0, "v")
  local _, e = pcall(v.eval, v)
  local here = "^/job:localhost/replica:0/task:0/device:"
  local short = e.device:match(here .. "(%u+:%d)$")
  lu.assertStrContains(tostring(e), "node \"v/Read\", " .. short .. ", ")
end

tests.dense = each{
  {"dense: units is a whole number of at least 1, not 0", function()
    layers.dense(floats(-1, 3), 0)
  end},
  {"dense: units must be a number, not the string \"10\"", function()
    layers.dense(floats(-1, 3), "10")
  end},
  {"not function; give it by name, as in {activation = td.relu}", function()
    layers.dense(floats(-1, 3), 10, td.relu)
  end},
  {"dense \"dense\": its input is of floats, given int32; cast it: x:cast "
   .. "\"float32\"", function() layers.dense(ints(-1, 3), 10) end},
  {"dense \"dense\": its input has rank 2 or more, given shape {3}", function()
    layers.dense(floats(3), 10)
  end},
  {"dense: its input is nil; without an input, td.layers.dense(...) makes the "
   .. "layer", function() layers.dense(nil, 10) end},
  {"dense: activation must be a function such as td.relu, not string",
   dense_with("activation", "relu")},
  {"variable \"dense/kernel\": the initializer is a function or a value, not "
   .. "the string \"he_normal\"; write td.initializers.he_normal()",
   dense_with("kernel_initializer", "he_normal")},
  {"variable \"dense/kernel\": the initializer gives a function; call it: "
   .. "td.initializers.glorot_uniform()",
   dense_with("kernel_initializer", td.initializers.glorot_uniform)},
  {"dense: kernel_regularizer must be a function such as "
   .. "td.regularizers.l2(0.01), not number",
   dense_with("kernel_regularizer", 0.01)},
  {"l2 takes a scale of at least 0, not variable; as in "
   .. "td.regularizers.l2(0.01)",
   dense_with("kernel_regularizer", td.regularizers.l2)},
  {"dense: use_bias must be a boolean, not 0", dense_with("use_bias", 0)},
  {"dense \"dense\": its activation gives no tensor, but nil",
   dense_with("activation", function() end)},
  {"variable \"dense/kernel\": the regularizer gives a tensor of shape {3, "
   .. "10}, not a scalar; take its :sum()",
   dense_with("kernel_regularizer", function(w) return w * w end)},
  {"dense: trainable must be a boolean, not string",
   dense_with("trainable", "no")},
}

tests.one_layer_twice = each{
  {"belong to another graph; make a new layer in this one", function()
    local layer = layers.dense(10)
    layer(floats(-1, 3))
    td.reset()
    layer(floats(-1, 3))
  end},
  {"has shape {3, 10}, but an input of shape {-1, 4} needs {4, 10}", function()
    local layer = layers.dense(10)
    layer(floats(-1, 3))
    layer(floats(-1, 4))
  end},
  {"dense \"dense\": it has no \"weight\"; it has bias, kernel, variables",
   function()
    local layer = layers.dense(10)
    layer(floats(-1, 3))
    return layer.weight
  end},
  {"dense: it has no \"kernel\"; the first call layer(x) makes its variables",
   function() return layers.dense(10).kernel end},
  {"dense: it has no \"call\"", function() layers.dense(10):call() end},
  {"variable \"fc/kernel\" exists already", function()
    layers.dense(floats(-1, 3), 4, "fc")
    layers.dense(floats(-1, 3), 4, "fc")
  end},
  {"td.layers has no \"linear\"; write td.layers.dense(x, units); it has "
   .. "average_pooling2d, ", function() return layers.linear end},
  {"write td.nn.lstm_cell(units)", function() return layers.lstm end},
}

tests.layers_of_images = each{
  {"conv2d: strides is a size of at least 1, or {rows, columns}, not {1, 2, 2, "
   .. "1}", function()
    layers.conv2d(floats(-1, 8, 8, 3), 4, 3, {strides = {1, 2, 2, 1}})
  end},
  {"kernel_size is a size of at least 1, or {rows, columns}, not nil",
   function() layers.conv2d(floats(-1, 8, 8, 3), 4) end},
  {"conv2d has no option \"stride\"; did you mean \"strides\"?", function()
    layers.conv2d(floats(-1, 8, 8, 3), 4, 3, {stride = 2})
  end},
  {"conv2d: padding is \"valid\" or \"same\", not 1", function()
    layers.conv2d(floats(-1, 8, 8, 3), 4, 3, {padding = 1})
  end},
  {"conv2d \"conv2d\": its input is of floats, given uint8", function()
    layers.conv2d(td.placeholder("uint8", {-1, 8, 8, 3}), 4, 3)
  end},
  {"the filter reaches over 5; take a smaller filter or padding \"SAME\" "
   .. "(Conv2D, node \"conv2d/Conv2D\"", function()
    layers.conv2d(floats(-1, 4, 4, 3), 4, 5)
  end},
  {"conv2d \"conv2d\": its input has rank 4, given shape {-1, 784}", function()
    layers.conv2d(floats(-1, 784), 4, 3)
  end},
  {"use padding SAME or a smaller ksize (MaxPool, node \"max_pooling2d/MaxPool",
   function() layers.max_pooling2d(floats(-1, 2, 2, 3), 3) end},
}

-- TensorFlow's word for padding is understood.
function tests.padding_in_capitals()
  local y = layers.conv2d(floats(1, 8, 8, 3), 4, 3, {padding = "SAME"})
  helper.gives({1, 8, 8, 4}, td.tensor{table.unpack(y.shape)})
end

tests.layers_while_training = each{
  {"dropout: the rate is in [0, 1), given 2", function()
    layers.dropout(floats(-1, 3), 2)
  end},
  {"dropout: rate must be a number, not the string \"0.5\"", function()
    layers.dropout(floats(-1, 3), "0.5")
  end},
  {"dropout \"dropout\": training is a bool of shape {}, given int32 {}; "
   .. "td.placeholder(\"bool\", {}) is one", function()
    layers.dropout(floats(-1, 3), 0.5, {training = ints()})
  end},
  {"given bool {2}", function()
    layers.dropout(floats(-1, 3), 0.5,
                   {training = td.placeholder("bool", {2})})
  end},
  {"not boolean; give it by name, as in {training = true}", function()
    layers.dropout(0.5)(floats(-1, 3), true)
  end},
  {"its input has no axis 7, given shape {-1, 3}", function()
    layers.batch_normalization(floats(-1, 3), {axis = 7})
  end},
  {"batch_normalization: momentum must be from 0 to 1, given 2", function()
    layers.batch_normalization(floats(-1, 3), {momentum = 2})
  end},
  {"batch_normalization: epsilon must be 0 or more, given -1", function()
    layers.batch_normalization(floats(-1, 3), {epsilon = -1})
  end},
}

tests.sequential = each{
  {"sequential: it takes one list, sequential{layer, layer}, and gives a layer "
   .. "to call on x", function()
    layers.sequential(layers.dense(4), layers.dense(2))
  end},
  {"sequential: it takes one list", function()
    layers.sequential(floats(-1, 3), {layers.dense(4)})
  end},
  {"sequential: the list has no layer", function() layers.sequential{} end},
  {"item 1 is no layer and no function, but a graph tensor; give the layer "
   .. "without its input", function()
    layers.sequential{layers.dense(floats(-1, 3), 4)}
  end},
}

-- Options stand in the same table or after it.
function tests.a_sequential_has_a_name()
  for _, net in ipairs{
    layers.sequential({layers.dense(2)}, {name = "a"}),
    layers.sequential({layers.dense(2)}, "b"),
    layers.sequential{layers.dense(2), name = "c"},
  } do
    net(floats(-1, 3))
    local name = net.variables[1].name
    lu.assertStrContains("a/dense/kernel b/dense/kernel c/dense/kernel", name)
    lu.assertEquals(name:sub(1, 1), net.name)
  end
end

-- ---- cells ----------------------------------------------------------------

-- What dynamic_rnn says of a batch of 2 x 3 x 4 with these options.
local function dynamic_with(key, value)
  return function()
    nn.dynamic_rnn(nn.lstm_cell(3), floats(2, 3, 4), {[key] = value})
  end
end

tests.cells = each{
  {"its state has the sizes 4, 4, given {2, 4}, {2, 4}; it is a table {c =, "
   .. "h =}", function()
    nn.lstm_cell(4)(floats(2, 3), {td.zeros{2, 4}, td.zeros{2, 4}})
  end},
  {"its state has the sizes 4, given {2, 4}, {2, 4}", function()
    nn.gru_cell(4)(floats(2, 3), nn.lstm_cell(4):zero_state(2))
  end},
  {"gru_cell: x has 2 rows, the state 3; cell:zero_state(2) "
   .. "begins one", function()
    local cell = nn.gru_cell(4)
    cell(floats(2, 3), cell:zero_state(3))
  end},
  {"gru_cell: its input is of floats, given int32; embed or "
   .. "cast it first", function()
    local cell = nn.gru_cell(4)
    cell(ints(2, 3), cell:zero_state(2))
  end},
  {"belong to another graph; make a new cell in this one", function()
    local cell = nn.gru_cell(4)
    cell(floats(2, 3), cell:zero_state(2))
    td.reset()
    cell(floats(2, 3), cell:zero_state(2))
  end},
  {"zero_state(batch) takes a number of rows or a graph scalar such as "
   .. "x:dim(0), not nil", function() nn.gru_cell(4):zero_state() end},
  {"not -1", function() nn.gru_cell(4):zero_state(-1) end},
  {"zero_state (called with a colon) takes a cell", function()
    nn.gru_cell(4).zero_state(3)
  end},
  {"multi_cell takes a list of cells, multi_cell{cell, cell}, not gru_cell",
   function() nn.multi_cell(nn.gru_cell(3)) end},
  {"td.nn has no \"LSTMCell\"; write td.nn.lstm_cell(units)", function()
    return nn.LSTMCell
  end},
}

tests.recurrent_networks = each{
  {"dynamic_rnn takes a cell such as td.nn.lstm_cell(n), not graph tensor",
   function() nn.dynamic_rnn(floats(2, 3, 4), nn.gru_cell(3)) end},
  {"dynamic_rnn takes a cell and x, given no x", function()
    nn.dynamic_rnn(nn.gru_cell(3))
  end},
  {"sequence_length has one length for each of the 2 rows, given shape {3}",
   dynamic_with("sequence_length", {1, 2, 3})},
  {"dynamic_rnn has no option \"sequence_lengths\"; did you mean",
   dynamic_with("sequence_lengths", {1, 2})},
  {"its state has the sizes 3, 3, given {2, 3}",
   dynamic_with("initial_state", td.value.zeros{2, 3})},
  {"dynamic_rnn takes options by name (initial_state, sequence_length",
   dynamic_with(1, {2, 3})},
  {"static_rnn: the inputs are a list of {batch, depth}, given graph tensor; "
   .. "td.unstack(x, 1) makes one", function()
    nn.static_rnn(nn.gru_cell(3), floats(2, 3, 4))
  end},
  {"static_rnn: inputs are a list of {batch, depth}, alike; input 2 has shape "
   .. "{2, 4}, input 1 {2, 3}", function()
    nn.static_rnn(nn.gru_cell(3), {floats(2, 3), floats(2, 4)})
  end},
}

-- Where the batch is not known before, the run tells.
function tests.lengths_of_another_batch()
  local x, lengths = floats(-1, 3, 4), ints(-1)
  local y = nn.dynamic_rnn(nn.gru_cell(3), x, {sequence_length = lengths})
  local sess <close> = td.session()
  sess:init()
  local e = helper.raises("dynamic_rnn: sequence_length has one length for "
    .. "each row of the batch; lengths, rows:] [3] [2]", sess.run, sess, y,
    {[x] = td.value.ones{2, 3, 4}, [lengths] = {1, 2, 3}})
  lu.assertEquals(e.code, "invalid_argument")
  sess:run(y, {[x] = td.value.ones{2, 3, 4}, [lengths] = {1, 2}})
end

tests.sampled_losses = each{
  {"nce_loss: x is {batch, 4} as the weights {classes, 4}, given shape {3, 5}",
   function()
    nn.nce_loss(floats(10, 4), floats(10), ints(3, 1), floats(3, 5), 5, 10)
  end},
  {"50 different classes cannot be drawn from 10; num_sampled comes before "
   .. "num_classes", function()
    nn.nce_loss(floats(10, 4), floats(10), ints(3, 1), floats(3, 4), 50, 10)
  end},
}

-- ---- losses, metrics ------------------------------------------------------

tests.losses = each{
  {"softmax_cross_entropy: labels are float32 as the logits, given int32; cast "
   .. "them", function()
    nn.softmax_cross_entropy(floats(3, 5), ints(3, 5))
  end},
  {"labels have the shape {3, 5} of the logits, a probability for each class, "
   .. "given {3}; sparse_softmax_cross_entropy takes class numbers", function()
    nn.softmax_cross_entropy(floats(3, 5), ints(3))
  end},
  {"labels are a class number for each row, of shape {3}, given {3, 5}; of "
   .. "one-hot labels, labels:argmax(-1) are the numbers", function()
    nn.sparse_softmax_cross_entropy(floats(3, 5), ints(3, 5))
  end},
  {"given {3, 1}; labels:squeeze{-1} makes them so", function()
    nn.sparse_softmax_cross_entropy(floats(3, 5), ints(3, 1))
  end},
  {"class numbers, int32 or int64, given float32; cast them: labels:cast "
   .. "\"int64\"", function()
    nn.sparse_softmax_cross_entropy(floats(3, 5), floats(3))
  end},
  {"the logits are floats, given int32; td.nn takes logits first, then labels",
   function() nn.sparse_softmax_cross_entropy(ints(3), floats(3, 5)) end},
  {"predictions, or logits, are floats, given int32; td.losses takes labels "
   .. "first", function()
    td.losses.sparse_softmax_cross_entropy(floats(3, 5), ints(3))
  end},
  {"sigmoid_cross_entropy: labels have the shape {3, 5} of the logits, given "
   .. "{5}", function() nn.sigmoid_cross_entropy(floats(3, 5), floats(5)) end},
  {"given no labels", function()
    nn.softmax_cross_entropy{logits = floats(3, 5)}
  end},
  {"td.losses has no \"mse\"; write td.losses.mean_squared_error(labels, "
   .. "predictions)", function() return td.losses.mse end},
  {"huber_loss: delta must be a number, not string", function()
    td.losses.huber_loss(floats(3), floats(3), {delta = "1"})
  end},
  {"label_smoothing must be from 0 to 1, given 2", function()
    td.losses.softmax_cross_entropy(floats(3, 5), floats(3, 5),
                                    {label_smoothing = 2})
  end},
}

tests.metrics = each{
  {"accuracy: labels have shape {3}, predictions {3, 5}; of logits, "
   .. "logits:argmax(-1) are the predictions", function()
    td.metrics.accuracy(ints(3), floats(3, 5))
  end},
  {"top_k takes labels, predictions and k", function()
    td.metrics.top_k(ints(3), floats(3, 5))
  end},
  {"precision_at_thresholds takes labels, predictions and a list of thresholds",
   function() td.metrics.precision_at_thresholds(ints(3), floats(3)) end},
  {"percentage_below takes values and a threshold", function()
    td.metrics.percentage_below(floats(3))
  end},
}

return tests
