--- mnist_convnet.lua - digits by convolutions: TensorFlow's "deep MNIST".
--
-- Two convolutions of 5 x 5 with pooling see strokes, then parts of digits; two
-- dense layers tell which digit it is. td.train.fit is the loop; --own_loop has
-- one written out instead. With --checkpoint DIR either can be killed at any
-- moment: started again with the same words it goes on, and ends with the bits
-- of a run that was never stopped.
--
--   tide tutorials/mnist_convnet.lua --epochs 5 --seed 1
--   tide tutorials/mnist_convnet.lua --checkpoint /tmp/convnet
-- Without MNIST (--data DIR, $TIDE_DATA) it trains on drawn digits.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{epochs = 5, batch = 100, lr = 1e-3, dropout = 0.4,
                       units = 1024, seed = 1, threads = 0, data = "",
                       checkpoint = "", save_steps = 200, own_loop = false,
                       smoke = false}
if flags.smoke then
  flags.epochs, flags.units, flags.batch, flags.save_steps = 2, 32, 20, 3
end
local folder = flags.checkpoint ~= "" and flags.checkpoint or nil
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
local threads = {threads = flags.threads > 0 and flags.threads or nil}
local metrics = {accuracy = accuracy}
local function tell(right) print(("test_accuracy: %.4f"):format(right)) end

-- What fit does, without its table: the place in the data is kept with the
-- variables, and should_stop saves what is due.
local function own_loop()
  local batches = digits.train:batches(flags.batch,
    {epochs = flags.epochs, shuffle = true, seed = flags.seed})
  local sv <close> = td.train.supervisor{logdir = folder, flags = flags,
    save_steps = flags.save_steps, keep = {batches = batches}}
  local sess = sv:session(threads)
  local step = sess:callable(train, {images, labels, training})
  for batch in td.progress(batches) do
    if sv:should_stop() then return end
    step(batch.images, batch.labels, true)
  end
  sv:close()
  tell(td.train.evaluate{data = digits.test, metrics = metrics,
                         training = training}.accuracy)
end
if flags.own_loop then
  if not folder then error("--own_loop goes with --checkpoint DIR", 0) end
  return own_loop()
end

local _ <close> = td.session(threads)
local history = td.train.fit{
  loss = loss, train = train, training = training, data = digits.train,
  validation = digits.test, metrics = metrics, epochs = flags.epochs,
  batch = flags.batch, seed = flags.seed, checkpoint = folder,
  resume = folder and true, save_steps = folder and flags.save_steps,
  flags = folder and flags,
}
-- SIGTERM ends fit, perhaps in the first epoch.
if #history > 0 then tell(history[#history].validation.accuracy) end
