--- autoencoder.lua - a picture through a narrow passage and back.
--
-- The encoder writes 784 pixels as a few numbers, the decoder reads them back;
-- what is learnt without any label is what digits have in common. At the end
-- digits it never saw are drawn beside what came back.
--
--   tide tutorials/autoencoder.lua --code 32 --epochs 5
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{code = 32, units = 256, epochs = 5, batch = 100,
                       lr = 1e-3, seed = 1, data = "", smoke = false}
if flags.smoke then flags.units, flags.epochs = 32, 1 end
td.seed(flags.seed)

local images = td.placeholder("float32", {-1, 784}, "images")
local relu = {activation = td.relu}
local hidden = td.layers.dense(images, flags.units, relu)
local code = td.layers.dense(hidden, flags.code, {name = "code"})
local opened = td.layers.dense(code, flags.units, relu)
local logits = td.layers.dense(opened, 784)
local copy = td.sigmoid(logits)

-- How many nats it takes to tell the pixels, given the copy.
local loss = td.nn.sigmoid_cross_entropy(logits, images):sum(1):mean()
local apart = (copy - images):square():mean()
local train = td.train.adam(flags.lr):minimize(loss)

local digits = flags.smoke and td.data.digits{train = 400, test = 50}
  or td.data.mnist{dir = flags.data}
local _ <close> = td.session()
td.train.fit{loss = loss, train = train, data = digits.train,
             validation = digits.test, metrics = {square_error = apart},
             epochs = flags.epochs, batch = flags.batch, seed = flags.seed}

-- What it was given, and below what came back.
local seen = digits.test.images["0:5"]
local function pictures(x) return td.reshape(x, {-1, 28, 28}) end
print(td.draw(pictures(seen)))
print(td.draw(pictures(copy:eval{[images] = seen})))
