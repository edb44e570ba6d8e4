--- dream.lua - the picture that a network wants to see.
--
-- After training, the weights stand still and the picture moves: up the
-- gradient of one class, from grey. What appears is what the network looks for.
-- The picture is a variable like any other; octaves and a little smoothing keep
-- it from being noise.
--
--   tide tutorials/dream.lua --class 3
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{class = 3, epochs = 2, steps = 200, batch = 100,
                       lr = 1e-3, seed = 1, data = "", smoke = false}
if flags.smoke then flags.epochs, flags.steps = 1, 5 end
td.seed(flags.seed)

local relu = {padding = "same", activation = td.relu}
local net = td.layers.sequential({
  td.layers.conv2d(16, 5, relu),
  td.layers.max_pooling2d(2, 2),
  td.layers.conv2d(32, 5, relu),
  td.layers.max_pooling2d(2, 2),
  td.layers.flatten(),
  td.layers.dense(10),
}, {name = "net"})

local images = td.placeholder("float32", {-1, 784}, "images")
local labels = td.placeholder("int64", {-1}, "labels")
local logits = net(images:reshape{-1, 28, 28, 1})
local loss = td.nn.sparse_softmax_cross_entropy(logits, labels):mean()
local accuracy = logits:argmax(1):equal(labels):cast "float32"
local train = td.train.adam(flags.lr):minimize(loss)

-- The dream: a picture, the same net on it, and the way up.
local picture = td.variable(td.fill({1, 28, 28, 1}, 0.0),
                            {name = "picture", trainable = false})
local seen = td.sigmoid(picture)
local neighbours = td.avg_pool(seen, 3, 1, "SAME")
local wanted = net(seen)[{0, flags.class}]
local excitement = wanted - 20 * (seen - neighbours):square():mean()
  - 4 * seen:mean()
local uphill = td.gradients(excitement, picture)
local dream = picture:assign_add(uphill / (uphill:square():mean():sqrt() + 1e-8)
                                 * 0.1)

local digits = flags.smoke and td.data.digits{train = 200, test = 50}
  or td.data.mnist{dir = flags.data}
local sess <close> = td.session()
td.train.fit{loss = loss, train = train, data = digits.train,
             validation = digits.test, metrics = {accuracy = accuracy},
             epochs = flags.epochs, batch = flags.batch, seed = flags.seed}

local step = sess:callable({wanted, dream.op})
for i = 1, flags.steps do
  local score = step()
  if i % 50 == 0 then print(("step %d: excited by %.2f"):format(i, score)) end
end

print(td.draw(sess:run(seen:reshape{28, 28})))
local p = sess:run(td.softmax(net(seen))[{0, flags.class}])
print(("the network is sure by %.3f that this is a %d"):format(p, flags.class))
