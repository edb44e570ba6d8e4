--- gan.lua - two networks that learn from each other: one draws digits, the
-- other tells drawn ones from real ones. Source: Goodfellow et al. 2014.
--
-- Both are trained in turn, each on its own variables: that is what the option
-- `variables` of minimize is for. At the end the generator draws.
--
--   tide tutorials/gan.lua --epochs 20
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{noise = 64, units = 128, epochs = 20, batch = 100,
                       lr = 2e-4, seed = 1, data = "", smoke = false}
if flags.smoke then flags.units, flags.epochs = 16, 1 end
td.seed(flags.seed)

local leaky = {activation = td.leaky_relu}
local generator = td.layers.sequential({
  td.layers.dense(flags.units, leaky),
  td.layers.dense(2 * flags.units, leaky),
  td.layers.dense(784, {activation = td.tanh}),
}, {name = "generator"})
local discriminator = td.layers.sequential({
  td.layers.dense(2 * flags.units, leaky),
  td.layers.dense(flags.units, leaky),
  td.layers.dense(1),
}, {name = "discriminator"})

local images = td.placeholder("float32", {-1, 784}, "images")
local noise = td.placeholder("float32", {-1, flags.noise}, "noise")
local drawn = generator(noise)
local real, fake = discriminator(images * 2 - 1), discriminator(drawn)

-- Who tells apart wants 1 for real digits and 0 for drawn ones; who draws wants
-- 1 for what it drew.
local function wants(label, logits)
  local labels = td.ones_like(logits) * label
  return td.nn.sigmoid_cross_entropy(logits, labels):mean()
end
local loss = wants(0.9, real) + wants(0, fake)
local loss_of_generator = wants(1, fake)
local function trained(what, of)
  local adam = td.train.adam(flags.lr, {beta1 = 0.5})
  return adam:minimize(what, {variables = of.variables})
end
local train = trained(loss, discriminator)
local train_generator = trained(loss_of_generator, generator)

local digits = flags.smoke and td.data.digits{train = 400, test = 50}
  or td.data.mnist{dir = flags.data}
local sess <close> = td.session()
sess:init()
local tell = sess:callable({loss, train}, {images, noise})
local draw = sess:callable({loss_of_generator, train_generator}, {noise})
local function some(n)
  return td.value.random_normal{n, flags.noise}
end

local epoch, sums, steps = 1, {0.0, 0.0}, 0
for batch in td.progress(digits.train:batches(flags.batch,
    {epochs = flags.epochs, shuffle = true, seed = flags.seed})) do
  sums[1] = sums[1] + tell(batch.images, some(batch.images.shape[1]))
  sums[2] = sums[2] + draw(some(flags.batch))
  steps = steps + 1
  if batch.epoch > epoch then
    print(("epoch %d: discriminator %.3f, generator %.3f"):format(epoch,
      sums[1] / steps, sums[2] / steps))
    epoch, sums, steps = batch.epoch, {0.0, 0.0}, 0
  end
end

local pictures = drawn:reshape{-1, 28, 28}:eval{[noise] = some(5)}
print(td.draw(pictures, {low = -1, high = 1}))
