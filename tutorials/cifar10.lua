--- cifar10.lua - small photographs of ten kinds of things, distorted while
-- learning. After TensorFlow's tutorial and Krizhevsky 2012.
--
-- Ten thousand pictures are few: each time one is seen it is moved, mirrored,
-- and lit otherwise, by nodes of the graph, so that the network never sees the
-- same picture twice.
--
--   tide tutorials/cifar10.lua --epochs 20
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{epochs = 20, batch = 100, lr = 2e-3, width = 32,
                       seed = 1, data = "", smoke = false}
if flags.smoke then flags.epochs, flags.width = 1, 4 end
td.seed(flags.seed)

local photos = flags.smoke and td.data.shapes{train = 100, test = 50}
  or td.data.cifar10{dir = flags.data}

local images = td.placeholder("float32", {-1, 32, 32, 3}, "images")
local labels = td.placeholder("int64", {-1}, "labels")
local training = td.placeholder("bool", {}, "training")

-- One picture for learning: a part of it, perhaps mirrored, in other light.
local function distort(image)
  image = td.random_crop(image, {28, 28, 3})
  image = td.image.random_flip_left_right(image)
  image = td.image.random_brightness(image, 0.2)
  return td.image.random_contrast(image, 0.8, 1.2)
end
-- Its middle, for looking.
local function middle(pictures)
  return pictures[":, 2:30, 2:30, :"]
end
local seen = td.cond(training, function() return td.map_fn(distort, images) end,
                     function() return middle(images) end)
seen = td.identity(seen, "seen")
seen:set_shape{-1, 28, 28, 3}
local mean, variance = td.moments(seen, {1, 2, 3}, {keep_dims = true})
local x = (seen - mean) / td.sqrt(variance + 1e-3)

-- Twice as many channels after each pooling.
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
local accuracy = logits:argmax(1):equal(labels):cast "float32"

-- The rate falls along half a cosine; the averages of batch normalisation
-- follow in the same step.
local steps = flags.epochs * math.ceil(photos.train.size / flags.batch)
local count = td.train.global_step()
local rate = td.train.cosine_decay(flags.lr, count, steps)
local train = td.control_dependencies(td.get_collection "update_ops",
  function()
    return td.train.adam(rate):minimize(loss, {global_step = count})
  end)

local _ <close> = td.session()
local history = td.train.fit{
  loss = loss, train = train, training = training, data = photos.train,
  validation = photos.test, metrics = {accuracy = accuracy},
  epochs = flags.epochs, batch = flags.batch, seed = flags.seed,
}
print(("test_accuracy: %.4f"):format(history[#history].validation.accuracy))
