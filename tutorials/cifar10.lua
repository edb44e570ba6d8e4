--- cifar10.lua - small photographs of ten kinds of things, distorted while
-- learning. After TensorFlow's tutorial and Krizhevsky 2012.
--
-- The pictures stay in their files. A pipeline reads their records, changes
-- them on all processors and has batches ready before they are asked for. Ten
-- thousand pictures are few: each time one is seen it is moved, mirrored and
-- lit otherwise, so that the network never sees the same picture twice. After
-- 20 epochs of these it names 68% of those it has never seen.
--
--   tide tutorials/cifar10.lua --data DIR --epochs 20
-- Without CIFAR-10 ($TIDE_DATA, the cache) it learns drawn shapes.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{epochs = 20, batch = 100, lr = 2e-3, width = 32,
                       seed = 1, data = "", smoke = false}
if flags.smoke then flags.epochs, flags.width = 1, 4 end
td.seed(flags.seed)

-- 1. The files. A record is a label, then the red, the green and the blue of 32
-- by 32 pixels, a byte each.
local made <close> = setmetatable({}, {__close = function(paths)
  for _, path in ipairs(paths) do os.remove(path) end
end})
local function write_records(set)
  local path = os.tmpname()
  made[#made + 1] = path
  local file <close> = assert(io.open(path, "wb"))
  for e in set:batches(1) do
    local planes = td.transpose(td.round(e.images[0] * 255), {2, 0, 1})
    file:write(string.char(e.labels[0]:item()), planes:cast "uint8":bytes())
  end
  return {path}
end
local function drawn_files(o)
  local set = td.data.shapes(o)
  local files = {train = write_records(set.train), compression = "",
                 test = write_records(set.test), record = 1 + 3 * 32 * 32}
  print(("%d drawn shapes to learn from are in %s"):format(set.train.size,
                                                           files.train[1]))
  return files
end
local files = flags.smoke and drawn_files{train = 200, test = 50}
  or td.data.cifar10_files{dir = flags.data} or drawn_files()

-- 2. What becomes of a record: graphs, which the pipeline runs.
local function read_record(e)
  local bytes = td.decode_raw(e.record, "uint8")
  local planes = bytes["1:"]:reshape{3, 32, 32}
  return td.transpose(planes, {1, 2, 0}):cast "float32" / 255,
         bytes[0]:cast "int64"
end
-- A part of a picture, perhaps mirrored, in other light.
local function for_learning(e)
  local image, label = read_record(e)
  image = td.random_crop(image, {28, 28, 3})
  image = td.image.random_flip_left_right(image)
  image = td.image.random_brightness(image, 0.2)
  image = td.image.random_contrast(image, 0.8, 1.2)
  return {image = td.image.per_image_standardization(image), label = label}
end
-- Its middle.
local function for_testing(e)
  local image, label = read_record(e)
  image = image["2:30, 2:30"]
  return {image = td.image.per_image_standardization(image), label = label}
end

local function records(paths)
  return td.data.fixed(paths, files.record, {compression = files.compression})
end
local train_set = records(files.train):shuffle(10000):map(for_learning)
local test_set = records(files.test):map(for_testing)
local count = 0
for batch in records(files.train):batches(1000) do
  count = count + batch.key.size
end

-- 3. The network: twice as many channels after each pooling.
local images = td.placeholder("float32", {-1, 28, 28, 3}, "images")
local labels = td.placeholder("int64", {-1}, "labels")
local training = td.placeholder("bool", {}, "training")
local x = images
for block = 0, 2 do
  for _ = 1, 2 do
    x = td.layers.conv2d(x, flags.width << block, 3, {padding = "same",
                                                      use_bias = false})
    x = td.relu(td.layers.batch_normalization(x, {training = training,
                                                  momentum = 0.9}))
  end
  x = td.layers.max_pooling2d(x, 2, 2)
  x = td.layers.dropout(x, 0.2, {training = training})
end
x = td.layers.dense(td.layers.flatten(x), 4 * flags.width,
                    {activation = td.relu})
x = td.layers.dropout(x, 0.4, {training = training})
local logits = td.layers.dense(x, 10)

local loss = td.nn.sparse_softmax_cross_entropy(logits, labels):mean()
local right = logits:argmax(1):equal(labels):cast "float32":sum()

-- The rate falls along half a cosine; the averages of batch normalisation
-- follow in the same step.
local steps = flags.epochs * math.ceil(count / flags.batch)
local global_step = td.train.global_step()
local rate = td.train.cosine_decay(flags.lr, global_step, steps)
local train = td.control_dependencies(td.get_collection "update_ops",
  function()
    return td.train.adam(rate):minimize(loss, {global_step = global_step})
  end)

-- 4. Learning, and a look at pictures never seen after every epoch.
local sess <close> = td.session()
sess:init()
local learn = sess:callable({loss, train}, {images, labels, training})
local check = sess:callable({right}, {images, labels, training})

local function test_accuracy()
  local n, sum = 0, 0.0
  for batch in test_set:batches(500) do
    sum = sum + check(batch.image, batch.label, false)
    n = n + batch.label.size
  end
  return sum / n
end

local batches = train_set:batches(flags.batch, {epochs = flags.epochs})
local epoch, sum, n = 1, 0.0, 0
local function report()
  local accuracy = test_accuracy()
  print(("epoch %d: loss %.4f, accuracy %.4f"):format(epoch, sum / n, accuracy))
  return accuracy
end
for batch in td.progress(batches, {title = "training", total = steps}) do
  if batch.epoch > epoch then
    report()
    epoch, sum, n = batch.epoch, 0.0, 0
  end
  sum, n = sum + learn(batch.image, batch.label, true), n + 1
end
print(("test_accuracy: %.4f"):format(report()))
