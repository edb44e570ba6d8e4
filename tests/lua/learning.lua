-- learning.lua - what td promises of learning, name by name: each is there, has
-- its documentation, and the forms in which it may be called agree.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local gives = helper.gives
local tests = {}

-- ---- names ----------------------------------------------------------------

local names = {
  layers = [[dense conv2d max_pooling2d average_pooling2d batch_normalization
    layer_normalization dropout embedding flatten sequential]],
  nn = [[softmax_cross_entropy sparse_softmax_cross_entropy
    sigmoid_cross_entropy softmax_cross_entropy_with_logits
    sparse_softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits
    lstm_cell gru_cell multi_cell static_rnn dynamic_rnn embedding_lookup
    sampled_softmax_loss nce_loss in_top_k]],
  initializers = "zeros ones constant random_normal glorot_uniform he_normal",
  regularizers = "l1 l2 l1_l2", metrics = "mean accuracy precision recall auc",
  train = [[sgd momentum adagrad adadelta rmsprop adam ftrl lbfgs
    clip_by_global_norm exponential_decay global_step moving_average fit
    evaluate predict]],
  data = "mnist cifar10 text digits click_log csv images",
  test = "close gradient",
}

function tests.names()
  local help = require "tide.help.help"
  for place, list in pairs(names) do
    for name in list:gmatch "%S+" do
      lu.assertEquals(type(td[place][name]), "function", place .. "." .. name)
      lu.assertStrContains(help.text(place .. "." .. name) or "", name)
    end
  end
  for name in ("load_npy save_npy load_npz save_npz load_csv load_image "
               .. "save_image"):gmatch "%S+" do
    lu.assertEquals(type(td[name]), "function", name)
  end
end

-- ---- layers ---------------------------------------------------------------

-- With x a layer is made and applied; without, it is a function that shares.
function tests.a_layer_makes_and_applies()
  local x = td.value.ones{2, 3}
  local o = {activation = td.relu, name = "fc",
             kernel_initializer = td.initializers.ones()}
  local y = td.layers.dense(x, 4, o)
  o.name = "shared"
  local layer = td.layers.dense(4, o)
  local a, b = layer(x), layer(td.value.zeros{2, 3})
  lu.assertEquals(#layer.variables, 2)
  local found = {}
  for i, v in ipairs(td.trainable_variables()) do found[i] = v.name end
  lu.assertEquals(found, {"fc/kernel", "fc/bias", "shared/kernel",
                          "shared/bias"})
  td.session():init()
  local three = {{3, 3, 3, 3}, {3, 3, 3, 3}}
  gives(three, y:eval())
  gives(three, a:eval())
  gives({{0, 0, 0, 0}, {0, 0, 0, 0}}, b:eval())
end

function tests.layers_obey_variable_scope()
  local x = td.value.ones{2, 3}
  local function net()
    return td.layers.dense(td.layers.dense(x, 4, "a"), 2, "b")
  end
  td.variable_scope("D", net)
  td.variable_scope("D", {reuse = true}, net)
  lu.assertEquals(#td.trainable_variables "D/", 4)
end

-- All layers of images in a row, and what their shapes are.
function tests.a_net_of_all_layers()
  local training = td.placeholder("bool", {}, "training")
  local x = td.placeholder("float32", {-1, 8, 8, 3}, "x")
  local net = td.layers.sequential{
    td.layers.conv2d(4, 3, {padding = "same"}),
    td.layers.batch_normalization(), td.relu,
    td.layers.max_pooling2d(2, 2), td.layers.average_pooling2d(2, 2),
    td.layers.flatten(), td.layers.layer_normalization(),
    td.layers.dropout(0.5), td.layers.dense(5),
  }
  local y = net(x, {training = training})
  lu.assertEquals(y.shape, {-1, 5})
  lu.assertEquals(#net.variables, 10)
  local sess <close> = td.session()
  sess:init()
  local feeds = {[x] = td.value.ones{2, 8, 8, 3}, [training] = false}
  lu.assertTrue(td.test.close(sess:run(y, feeds), sess:run(y, feeds)) ~= false)
  feeds[training] = true
  sess:run(td.get_collection "update_ops", feeds)
  local e = td.layers.embedding(td.constant{{1, 2}}, 10, 4)
  lu.assertEquals(e.shape, {1, 2, 4})
end

-- ---- td.nn ----------------------------------------------------------------

-- By position, by name, and under TensorFlow's names.
function tests.losses_in_all_forms()
  local logits, dense = td.tensor{{1.0, 3.0}}, td.tensor{{0.0, 1.0}}
  for name, labels in pairs{softmax_cross_entropy = dense,
      sparse_softmax_cross_entropy = td.tensor{1},
      sigmoid_cross_entropy = dense} do
    local want = td.nn[name](logits, labels):table()
    gives(want, td.nn[name]{logits = logits, labels = labels}, name)
    local long = td.nn[name .. "_with_logits"]
    gives(want, long(logits, labels), name)
    gives(want, long{logits = logits, labels = labels}, name)
    gives(want, td[name](logits, labels), name)
  end
end

function tests.cells_and_networks()
  local x = td.placeholder("float32", {2, 3, 4})
  local cell = td.nn.multi_cell{td.nn.lstm_cell(5), td.nn.gru_cell(6)}
  local out, state = cell(x[{":", 0}], cell:zero_state(2))
  lu.assertEquals({out.shape, state[1].c.shape, state[1].h.shape,
                   state[2].shape}, {{2, 6}, {2, 5}, {2, 5}, {2, 6}})
  local y, last = td.nn.dynamic_rnn(td.nn.lstm_cell(5), x,
                                    {sequence_length = {3, 1}})
  lu.assertEquals({y.shape, last.c.shape}, {{2, 3, 5}, {2, 5}})
  local list = td.nn.static_rnn(td.nn.gru_cell(5, "own"), td.unstack(x, 1))
  lu.assertEquals({#list, list[3].shape}, {3, {2, 5}})
end

-- ---- td.train -------------------------------------------------------------

local optimizers = {
  sgd = {0.1}, momentum = {0.1, 0.9}, adagrad = {0.5}, adadelta = {100.0},
  rmsprop = {0.1}, adam = {0.1}, ftrl = {0.5}, lbfgs = {},
}

-- Each takes a loss down in 30 steps, and counts them.
function tests.optimizers_minimize()
  for name, list in pairs(optimizers) do
    td.reset()
    local v = td.variable({3.0, -2.0}, "v")
    local loss = ((v - {1.0, 1.0}) ^ 2):sum()
    local count = td.train.global_step()
    local step = td.train[name](table.unpack(list)):minimize(loss,
      {variables = {v}, global_step = count})
    local sess <close> = td.session()
    sess:init()
    local before = sess:run(loss)
    for _ = 1, 30 do sess:run(step) end
    lu.assertTrue(sess:run(loss) < 0.5 * before, name)
    lu.assertEquals(sess:run(count), 30, name)
  end
end

-- minimize with clip_norm is the same in three steps.
function tests.gradients_in_between()
  local function trained(how)
    td.reset()
    local v = td.variable({3.0, -4.0}, "v")
    local step = how(td.train.sgd(1.0), (v ^ 2):sum(), v)
    local sess <close> = td.session()
    sess:init()
    sess:run(step)
    return sess:run(v)
  end
  local a = trained(function(sgd, loss)
    return sgd:minimize(loss, {clip_norm = 1.0})
  end)
  local b = trained(function(sgd, loss, v)
    local rows = sgd:compute_gradients(loss)
    lu.assertTrue(rows[1].variable == v)
    local list = td.train.clip_by_global_norm({rows[1].gradient}, 1.0)
    return sgd:apply_gradients{{gradient = list[1], variable = v}}
  end)
  gives({2.4, -3.2}, a)
  gives({2.4, -3.2}, b)
end

function tests.a_rate_that_decays_and_an_average()
  local v = td.variable(1.0, "v")
  local count = td.train.global_step()
  local rate = td.train.exponential_decay(0.5, count, 1, 0.5)
  local step = td.train.sgd(rate):minimize(v * 1.0, {global_step = count})
  local averages = td.train.moving_average(0.5)
  local follow = averages:apply{v}
  local sess <close> = td.session()
  sess:init()
  for _ = 1, 2 do
    sess:run(step)
    sess:run(follow)
  end
  gives(1 - 0.5 - 0.25, sess:run(v))
  gives((0.75 + 0.25) / 2, sess:run(averages:average(v)))
end

-- ---- td.data --------------------------------------------------------------

function tests.data_by_its_parts()
  local d = td.data.digits{train = 20, test = 6, validation = 5}
  lu.assertEquals({#d.train, #d.test, #d.validation}, {15, 6, 5})
  lu.assertEquals({d.train.images.dtype, d.train.labels.dtype},
                  {"float32", "int64"})
  local steps = 0
  for batch in d.train:batches(4, {epochs = 3, shuffle = true, seed = 1,
                                   shard = {0, 2}}) do
    steps = steps + 1
    lu.assertEquals({batch.step, batch.images.shape[2]}, {steps, 784})
    lu.assertTrue(batch.epoch >= 1 and batch.epoch <= 3)
    lu.assertEquals(batch.labels.shape[1], batch.images.shape[1])
  end
  lu.assertEquals(steps, 3 * 2)
  local text = td.data.text{name = "sentences"}
  lu.assertEquals(text.train.ids.dtype, "int32")
  lu.assertEquals(text.train.vocab, text.vocab)
  local batch = text.train:sequences(2, 3)()
  lu.assertEquals({batch.inputs.shape, batch.targets.shape}, {{2, 3}, {2, 3}})
end

-- ---- td.test --------------------------------------------------------------

function tests.close_and_gradient()
  td.test.close({1.0, 2.0}, {1.0, 2.0})
  helper.raises("1 of 2 elements differ", td.test.close, {1.0, 2.0},
                {1.0, 2.5})
  lu.assertTrue(td.test.gradient(function(x) return (x ^ 3):sum() end,
                                 {1.0, 2.0}) < 1e-6)
end

return tests
