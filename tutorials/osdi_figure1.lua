--- osdi_figure1.lua - the program of figure 1 of "TensorFlow: a system for
-- large-scale machine learning" (OSDI 2016): an image classifier in three
-- parts. tutorials/mnist_mlp.lua is what one makes of it.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

-- 1. Construct a graph representing the model.
local x = td.placeholder("float32", {-1, 784})
local y = td.placeholder("int64", {-1})
local W1 = td.variable(td.random_uniform{784, 100, minval = -0.1, maxval = 0.1})
local b1 = td.variable(td.zeros{100})
local layer1 = td.relu(x:matmul(W1) + b1)
local W2 = td.variable(td.random_uniform{100, 10, minval = -0.1, maxval = 0.1})
local b2 = td.variable(td.zeros{10})
local layer2 = layer1:matmul(W2) + b2

-- 2. Add nodes that represent the optimization algorithm.
local loss = td.nn.sparse_softmax_cross_entropy(layer2, y):mean()
local train = td.train.adagrad(0.01):minimize(loss)

-- 3. Execute the graph on batches of input data.
local sess <close> = td.session()
sess:init()
for batch in td.data.digits{train = 2000, test = 1}.train:batches(100) do
  print(sess:run({loss, train}, {[x] = batch.images, [y] = batch.labels})[1])
end
