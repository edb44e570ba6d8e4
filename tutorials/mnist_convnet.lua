--- mnist_convnet.lua - digits by convolutions: TensorFlow's "deep MNIST".
--
-- Two convolutions of 5 x 5 with pooling see strokes, then parts of digits; two
-- dense layers tell which digit it is. td.train.fit is the loop.
--
--   tide tutorials/mnist_convnet.lua --epochs 5 --seed 1
-- Without MNIST (--data DIR, $TIDE_DATA) it trains on drawn digits.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{epochs = 5, batch = 100, lr = 1e-3, dropout = 0.4,
                       units = 1024, seed = 1, threads = 0, data = "",
                       smoke = false}
if flags.smoke then flags.epochs, flags.units = 1, 32 end
td.seed(flags.seed)

-- The columns of the data feed the placeholders of their names.
local images = td.placeholder("float32", {-1, 784}, "images")
local labels = td.placeholder("int64", {-1}, "labels")
local training = td.placeholder("bool", {}, "training")

local relu = {padding = "same", activation = td.relu}
local x = images:reshape{-1, 28, 28, 1}
x = td.layers.conv2d(x, 32, 5, relu)
x = td.layers.max_pooling2d(x, 2, 2)
x = td.layers.conv2d(x, 64, 5, relu)
x = td.layers.max_pooling2d(x, 2, 2)
x = td.layers.dense(td.layers.flatten(x), flags.units, {activation = td.relu})
x = td.layers.dropout(x, flags.dropout, {training = training})
local logits = td.layers.dense(x, 10)

local loss = td.nn.sparse_softmax_cross_entropy(logits, labels):mean()
local accuracy = logits:argmax(1):equal(labels):cast "float32"
local train = td.train.adam(flags.lr):minimize(loss)

local digits = flags.smoke and td.data.digits{train = 200, test = 50}
  or td.data.mnist{dir = flags.data}
local _ <close> = td.session{threads = flags.threads > 0 and flags.threads
                                       or nil}
local history = td.train.fit{
  loss = loss, train = train, training = training, data = digits.train,
  validation = digits.test, metrics = {accuracy = accuracy},
  epochs = flags.epochs, batch = flags.batch, seed = flags.seed,
}
print(("test_accuracy: %.4f"):format(history[#history].validation.accuracy))
