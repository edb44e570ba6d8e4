--- mnist_mlp.lua - a digit classifier in three steps: build a graph, add what
-- trains it, run it. The program of figure 1 in "TensorFlow: a system for
-- large-scale machine learning" (OSDI 2016).
--
-- tide tutorials/mnist_mlp.lua --units 128 --optimizer adam --epochs 5
-- Without MNIST (--data DIR, $TIDE_DATA) it trains on drawn digits.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{
  units = 128, optimizer = "adam", lr = 1e-3, epochs = 5, batch = 100,
  seed = 1, data = "", smoke = false,
}
td.seed(flags.seed)

-- 1. A graph that stands for the model.
local x = td.placeholder("float32", {-1, 784}, "x") -- -1: any number of images
local y = td.placeholder("int64", {-1}, "y")
local function weights(n, m, name)
  return td.variable(td.truncated_normal{n, m, stddev = 0.05}, name)
end
local W1 = weights(784, flags.units, "W1")
local b1 = td.variable(td.zeros{flags.units}, "b1")
local W2 = weights(flags.units, 10, "W2")
local b2 = td.variable(td.zeros{10}, "b2")
local hidden = td.relu(x:matmul(W1) + b1)
local logits = hidden:matmul(W2) + b2

-- 2. What trains it: a loss, and an op that changes the variables.
local loss = td.nn.sparse_softmax_cross_entropy(logits, y):mean()
local correct = logits:argmax(1):equal(y)
local accuracy = correct:cast("float32"):mean()
local optimizers = {
  sgd = td.train.sgd, adagrad = td.train.adagrad, adam = td.train.adam,
  momentum = function(lr) return td.train.momentum(lr, 0.9) end,
}
local optimizer = optimizers[flags.optimizer]
  or error("--optimizer is sgd, momentum, adagrad or adam")
local train = optimizer(flags.lr):minimize(loss)

-- 3. Run it.
local digits = flags.smoke and td.data.digits{train = 1000, test = 100}
  or td.data.mnist{dir = flags.data}
local sess <close> = td.session()
sess:init()
local step = sess:callable({loss, train}, {x, y})
local batches = digits.train:batches(flags.batch,
  {epochs = flags.epochs, shuffle = true, seed = flags.seed})
local epoch, sum, n = 1, 0.0, 0
local function report()
  print(("epoch %d: loss %.4f"):format(epoch, sum / n))
end
for batch in td.progress(batches, {title = "training"}) do
  if batch.epoch > epoch then
    report()
    epoch, sum, n = batch.epoch, 0.0, 0
  end
  sum, n = sum + step(batch.images, batch.labels), n + 1
end
report()

local test = sess:run(accuracy, {[x] = digits.test.images,
                                 [y] = digits.test.labels})
print(("test_accuracy: %.4f"):format(test))
