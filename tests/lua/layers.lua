-- layers.lua - td.layers: TensorFlow's numbers, names, sharing, errors.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"
local learning = require "shared.learning"

local raises, gives = helper.raises, helper.gives
local layers = td.layers
local tests = {}

-- ---- against TensorFlow ---------------------------------------------------

local rows = {
  dense = function(given)
    local y = layers.dense(given{2, 3}, 4, {activation = td.relu})
    return layers.dense(y, 2, {use_bias = false})
  end,
  dense_of_rank_3 = function(given)
    return layers.dense(given{2, 3, 2}, 2, {activation = td.tanh, name = "fc"})
  end,
  dense_shared = function(given)
    local layer = layers.dense(3)
    return td.variable_scope("net", function()
      return layer(layer(given{2, 3}))
    end)
  end,
  dense_reused = function(given)
    local x = given{2, 3}
    local function net() return layers.dense(layers.dense(x, 3), 3) end
    return td.variable_scope("net", net),
           td.variable_scope("net", {reuse = true}, net)
  end,
  conv2d = function(given)
    local y = layers.conv2d(given{2, 6, 5, 2}, 3, {3, 2}, {strides = {2, 1},
      padding = "same", activation = td.relu})
    return layers.conv2d(y, 2, 2, {dilation_rate = 2, use_bias = false})
  end,
  conv2d_transpose = function(given)
    local y = layers.conv2d_transpose(given{2, 2, 3, 2}, 3, {3, 2},
                                      {strides = 2})
    return layers.conv2d_transpose(y, 1, 3, {strides = {2, 1},
                                             padding = "same"})
  end,
  separable_conv2d = function(given)
    local y = layers.separable_conv2d(given{2, 6, 5, 2}, 3, {3, 2},
      {strides = 2, padding = "same", depth_multiplier = 2,
       activation = td.tanh})
    return y, layers.separable_conv2d(y, 2, 2, {use_bias = false})
  end,
  max_pooling2d = function(given)
    local y = layers.max_pooling2d(given{2, 7, 6, 2}, {3, 2}, {2, 1})
    return y, layers.max_pooling2d(y, 2, 2, {padding = "same"})
  end,
  average_pooling2d = function(given)
    local y = layers.average_pooling2d(given{2, 7, 6, 2}, {3, 2}, {2, 1})
    return y, layers.average_pooling2d(y, 2, {padding = "same"})
  end,
  batch_normalization = function(given)
    return layers.batch_normalization(given{4, 3}, {training = true})
  end,
  batch_normalization_in_use = function(given)
    return layers.batch_normalization(given{4, 3}, {momentum = 0.5})
  end,
  batch_normalization_of_an_axis = function(given)
    return layers.batch_normalization(given{2, 3, 2}, {axis = 1,
      training = true, center = false, epsilon = 0.1})
  end,
  batch_normalization_of_images = function(given)
    return layers.batch_normalization(given({2, 3, 2, 3}, "float32"),
      {training = true, momentum = 0.9})
  end,
  batch_normalization_of_images_in_use = function(given)
    return layers.batch_normalization(given({2, 3, 2, 3}, "float32"),
                                      {center = false, scale = false})
  end,
  layer_normalization = function(given)
    return layers.layer_normalization(given{2, 2, 3})
  end,
}

for name, build in pairs(rows) do
  tests["tensorflow_" .. name] = learning.test(name, build)
end

-- ---- making, calling, sharing ---------------------------------------------

function tests.a_layer_is_a_function_with_variables()
  local layer = layers.dense(4, {name = "fc"})
  lu.assertEquals(#layer.variables, 0)
  local y = layer(td.ones{2, 3})
  lu.assertEquals({y.shape, y.name}, {{2, 4}, "fc/BiasAdd:0"})
  lu.assertEquals(layer.kernel.name, "fc/kernel")
  lu.assertEquals(layer.bias.shape, {4})
  lu.assertEquals(tostring(layer),
                  "dense \"fc\": fc/kernel {3, 4}, fc/bias {4}")
  layer(td.ones{5, 3})
  lu.assertEquals(#td.global_variables(), 2)
end

function tests.names_count_within_a_scope()
  local function names(prefix)
    local list = {}
    for i, v in ipairs(td.global_variables(prefix)) do list[i] = v.name end
    return list
  end
  local x = td.ones{1, 2}
  local bare = {use_bias = false}
  layers.dense(layers.dense(x, 2, bare), 2, bare)
  td.variable_scope("a", function()
    layers.dense(layers.dense(x, 2, bare), 2, bare)
  end)
  lu.assertEquals(names(), {"dense/kernel", "dense_1/kernel", "a/dense/kernel",
                            "a/dense_1/kernel"})
end

function tests.layers_without_variables()
  local net = layers.sequential{layers.flatten(), layers.dropout(0.25)}
  local x = td.placeholder("float32", {-1, 2, 3})
  local y = net(x)
  lu.assertEquals({y.shape, #net.variables}, {{-1, 6}, 0})
  local ones = td.value.ones{1, 2, 3}
  gives({{1, 1, 1, 1, 1, 1}}, td.session():run(y, {[x] = ones}))
end

function tests.dropout_while_training()
  td.seed(2)
  local training = td.placeholder("bool", {})
  local layer = layers.dropout(0.25)
  local y = layer(td.ones{1000}, {training = training})
  local sess = td.session()
  gives(1, sess:run(y, {[training] = false}):min())
  local dropped = sess:run(y, {[training] = true})
  lu.assertAlmostEquals(dropped:equal(0):cast "float32":mean():item(), 0.25,
                        0.05)
  lu.assertAlmostEquals(dropped:max():item(), 4 / 3, 1e-6)
end

function tests.sequential()
  local net = layers.sequential{name = "net", layers.dense(4), td.relu,
    layers.batch_normalization(), layers.dropout(0.5), layers.dense(2)}
  local y = net(td.ones{3, 5}, {training = true})
  lu.assertEquals(y.shape, {3, 2})
  lu.assertEquals(#net.variables, 8)
  lu.assertEquals(net.variables[1].name, "net/dense/kernel")
  lu.assertEquals(#td.get_collection "update_ops", 2)
  net(td.ones{3, 5})
  lu.assertEquals(#td.global_variables(), 8)
  lu.assertEquals(#td.get_collection "update_ops", 2)
end

function tests.batch_normalization_by_a_graph_scalar()
  local training = td.placeholder("bool", {})
  local layer = layers.batch_normalization{momentum = 0.75}
  local x = td.constant{{0.0, 2.0}, {4.0, 2.0}}
  local y = layer(x, {training = training})
  local update = td.group(td.get_collection "update_ops")
  local sess = td.session()
  sess:init()
  local by = math.sqrt(1.001)
  gives({{0, 2 / by}, {4 / by, 2 / by}},
        sess:run({y, update}, {[training] = false})[1])
  gives({0, 0}, sess:run(layer.moving_mean))
  gives({{-0.99987504, 0}, {0.99987504, 0}},
        sess:run({y, update}, {[training] = true})[1])
  gives({0.5, 0.5}, sess:run(layer.moving_mean))
  gives({1.75, 0.75}, sess:run(layer.moving_variance))
end

-- The op and the formula, channels last and first: the same.
function tests.batch_normalization_by_all_ways()
  td.seed(1)
  local x = td.constant(td.value.random_normal{3, 4, 5, 2})
  local first = x:transpose{0, 3, 1, 2}
  local list, ds = {}, {}
  for i, o in ipairs{{}, {fused = false}, {axis = 1}, {axis = 1, fused = false}}
  do
    o.training = true
    local y = layers.batch_normalization(o.axis and first or x, o)
    list[i] = o.axis and y:transpose{0, 2, 3, 1} or y
    ds[i] = td.gradients((list[i] * list[i] * x):sum(), x)
  end
  local sess = td.session()
  sess:init()
  local ys, dxs = table.unpack(sess:run{list, ds})
  for i = 2, #ys do
    td.test.close(ys[i], ys[1], {atol = 1e-5})
    td.test.close(dxs[i], dxs[1], {atol = 1e-4})
  end
end

-- Half precision keeps its statistics in single.
function tests.batch_normalization_of_half_precision()
  for _, shape in ipairs{{4, 3}, {2, 2, 2, 3}} do
    td.reset()
    local layer = layers.batch_normalization()
    local x = td.constant(td.value.random_normal(shape)):cast "float16"
    lu.assertEquals(layer(x, {training = true}).dtype, "float16")
    lu.assertEquals(layer.moving_mean.dtype, "float32")
  end
end

-- Gradients of rows stay rows all the way to the optimizer.
function tests.embedding_trains_rows_only()
  local layer = layers.embedding(1000, 2,
    {embeddings_initializer = td.initializers.ones()})
  local y = layer(td.constant({{3, 1}, {3, 7}}, {dtype = "int64"}))
  lu.assertEquals(y.shape, {2, 2, 2})
  local d = td.gradients(y:sum(), layer.embeddings)
  lu.assertStrContains(tostring(d), "IndexedSlices")
  local train = td.train.sgd(0.5):minimize(y:sum())
  local sess = td.session()
  sess:init()
  sess:run(train)
  local table_ = sess:run(layer.embeddings)
  gives({{1, 1}, {0.5, 0.5}, {1, 1}, {0, 0}}, table_["0:4"])
  gives({0.5, 0.5}, table_[7])
  for _, op in ipairs(y.graph:ops()) do
    lu.assertTrue(op.type ~= "UnsortedSegmentSum" or op.inputs[3] ~= 1000)
  end
end

function tests.not_trained()
  layers.dense(td.ones{1, 2}, 3, {trainable = false})
  lu.assertEquals({#td.global_variables(), #td.trainable_variables()}, {2, 0})
end

function tests.a_layer_in_a_loop()
  local layer = layers.dense(2, {
    kernel_initializer = td.initializers.identity(),
    bias_initializer = td.initializers.ones()})
  local _, y = td.while_loop(function(i) return i:less(3) end,
    function(i, y) return i + 1, layer(y) end, {0, td.zeros{1, 2}})
  local sess = td.session()
  sess:init()
  gives({{3, 3}}, sess:run(y))
  local d = td.gradients(y:sum(), layer.bias)
  gives({3, 3}, sess:run(d))
end

-- ---- errors ---------------------------------------------------------------

function tests.wrong_sizes_name_the_layer()
  local layer = layers.dense(4)
  td.variable_scope("net", function() layer(td.ones{2, 3}) end)
  local e = raises("dense \"net/dense\": its kernel (made at ", layer,
                   td.ones{2, 5})
  lu.assertStrContains(e.message, "has shape {3, 4}, but an input of shape "
    .. "{2, 5} needs {5, 4}")
  raises("dense \"net/dense\": its input has rank 2 or more, given shape {3}",
         layer, td.ones{3})
  raises("dense \"net/dense\": its variables (made at", layer,
         td.ones({2, 3}, "float64"))
  raises("dense \"net/dense\": axis -1 of its input must be known, given shape "
         .. "{2, -1}", layer, td.placeholder("float32", {2, -1}))
end

function tests.wrong_arguments()
  raises("dense: units is a whole number of at least 1, not nil", layers.dense,
         td.ones{1, 2})
  raises("dense: units is a whole number of at least 1, not 0", layers.dense, 0)
  raises("dense \"fc\": units is a whole number of at least 1, not 2.5",
         layers.dense, 2.5, {name = "fc"})
  raises("dense has no option \"activaton\"; did you mean \"activation\"?",
         layers.dense, 3, {activaton = td.relu})
  raises("dense: activation must be a function such as td.relu, not string",
         layers.dense, 3, {activation = "relu"})
  raises("batch_normalization: momentum must be a number, not string",
         layers.batch_normalization, {momentum = "0.9"})
  raises("batch_normalization: axis must be an integer, not 0.5",
         layers.batch_normalization, {axis = 0.5})
  raises("dropout \"dropout\": training is a boolean or a graph scalar, not a "
         .. "string", layers.dropout(0.5), td.ones{1}, {training = "yes"})
  raises("batch_normalization \"bn\": its input has no axis 5, given "
         .. "shape {2, 3}", layers.batch_normalization{axis = 5, name = "bn"},
         td.ones{2, 3})
  raises("dense takes a tensor, units and options at most, given 3 arguments",
         layers.dense, 3, 4, {})
  raises("conv2d \"c\": kernel_size is a size of at least 1, or {rows, "
         .. "columns}", layers.conv2d, 3, {1, 2, 3}, {name = "c"})
  raises("conv2d: strides is a size", layers.conv2d, 3, 2, {strides = 0})
  raises("conv2d: padding is \"valid\" or \"same\", not full", layers.conv2d, 3,
         2, {padding = "full"})
  raises("data_format is \"channels_last\" or \"channels_first\", not CHW",
         layers.conv2d, 3, 2, {data_format = "CHW"})
  raises("conv2d \"conv2d\": its input has rank 4, given shape {2, 3}",
         layers.conv2d, td.ones{2, 3}, 4, 5)
  raises("flatten takes a tensor and options at most", layers.flatten, 3, {})
  raises("dropout: the rate is in [0, 1), given 1", layers.dropout, 1)
  raises("embedding \"embedding\": its input is int32 or int64, not float32",
         layers.embedding, td.ones{2}, 3, 4)
  raises("sequential: item 2 is no layer and no function, but a number",
         layers.sequential, {td.relu, 3})
  raises("sequential \"sequential\": item 1 gives no tensor, but a nil",
         layers.sequential{function() end}, td.ones{1})
  raises("td.layers has no \"dens\"; did you mean \"dense\"?",
         function() return layers.dens end)
  raises("a call takes a tensor, given nil", layers.dense(2))
end

function tests.wrong_channels_name_the_layer()
  local layer = layers.conv2d(4, 3)
  layer(td.ones{1, 5, 5, 3})
  raises("conv2d \"conv2d\": its kernel (made at ", layer, td.ones{1, 5, 5, 2})
  raises("conv2d \"conv2d\"", layer, td.ones{1, 5, 5})
end

function tests.sizes_not_known_yet()
  local x = td.placeholder("float32", {-1, -1, -1, 2})
  local y = layers.conv2d_transpose(x, 3, 2, {strides = 2})
  local z = layers.conv2d(y, 1, 2, {strides = 2})
  local sess = td.session()
  sess:init()
  lu.assertEquals(sess:run(y, {[x] = td.value.ones{2, 3, 4, 2}}).shape,
                  {2, 6, 8, 3})
  lu.assertEquals(sess:run(z, {[x] = td.value.ones{2, 3, 4, 2}}).shape,
                  {2, 3, 4, 1})
end

-- ---- the files ------------------------------------------------------------

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- A reader who knows one knows all.
function tests.every_layer_is_a_short_file_of_one_shape()
  for _, name in ipairs(getmetatable(layers).__complete) do
    local text = read("lua/tide/layers/" .. name .. ".lua")
    local _, lines = text:gsub("\n", "")
    lu.assertTrue(lines <= 60, name .. " has " .. lines .. " lines")
    for _, part in ipairs{"^%-%-%- layers/" .. name .. "%.lua %- ",
                          "\n  kind = \"" .. name .. "\"",
                          "\nfunction [%w_]+[.:]apply%(",
                          "\n%-%- @function layers%." .. name,
                          "layer%.define%("} do
      lu.assertTrue(text:gsub("{kind", "\n  kind"):find(part) ~= nil,
                    name .. ": " .. part)
    end
    lu.assertEquals(type(layers[name]), "function")
    lu.assertStrContains(
      require("tide.help.help").text("layers." .. name) or "",
      "td.layers." .. name, core.kind(name))
  end
end

return tests
