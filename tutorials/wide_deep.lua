--- wide_deep.lua - will an advertisement be clicked? Memory and generalisation
-- together. Source: Cheng et al. 2016.
--
-- The wide part has a weight for each pair of features that it has seen; the
-- deep part has vectors for users, items and sites and what layers make of
-- them. Both are sparse: a step touches the rows of its batch only. The log is
-- generated, so the best possible loss is known.
--
--   tide tutorials/wide_deep.lua --epochs 6
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{epochs = 6, batch = 100, depth = 8, units = 32, seed = 1,
                       smoke = false}
if flags.smoke then flags.epochs, flags.units = 1, 8 end
td.seed(flags.seed)

local log = td.data.click_log{seed = flags.seed,
                              train = flags.smoke and 300 or 40000}
local dense = td.placeholder("float32", {-1, 4}, "dense")
local sparse = td.placeholder("int64", {-1, #log.sizes}, "sparse")
local labels = td.placeholder("int64", {-1}, "labels")
local ids = td.unstack(sparse, 1)

-- Wide: a weight for each segment of users with each category of items.
local crossed = ids[5] * log.sizes[6] + ids[6]
local wide = td.layers.embedding(crossed, log.sizes[5] * log.sizes[6], 1,
  {name = "wide", embeddings_initializer = td.initializers.zeros()})

-- Deep: vectors of each feature, side by side, through two layers.
local parts = {dense}
for i, name in ipairs(log.names) do
  parts[i + 1] = td.layers.embedding(ids[i], log.sizes[i], flags.depth,
                                     {name = name})
end
local hidden = td.concat(parts, 1)
for _ = 1, 2 do
  hidden = td.layers.dense(hidden, flags.units, {activation = td.relu})
end
local logits = (td.layers.dense(hidden, 1) + wide)[":, 0"]

local truth = labels:cast "float32"
local loss = td.nn.sigmoid_cross_entropy(logits, truth):mean()
local right = logits:greater(0):equal(truth:greater(0.5)):cast "float32"

-- As in the paper: FTRL for the wide part, AdaGrad for the deep one.
local wide_weights = td.trainable_variables "wide/"
local deep_weights = {}
for _, v in ipairs(td.trainable_variables()) do
  if not v.name:find "^wide/" then deep_weights[#deep_weights + 1] = v end
end
local train = td.group{
  td.train.ftrl(0.1):minimize(loss, {variables = wide_weights}),
  td.train.adagrad(0.05):minimize(loss, {variables = deep_weights}),
}

local _ <close> = td.session()
local history = td.train.fit{
  loss = loss, train = train, data = log.train, validation = log.test,
  metrics = {loss = loss, accuracy = right}, epochs = flags.epochs,
  batch = flags.batch, seed = flags.seed,
}

-- What nobody can beat: the log loss of the odds the labels were drawn with.
local sum, chances = 0.0, log.test.chances:table()
local drawn = log.test.labels:table()
for i, p in ipairs(chances) do
  sum = sum - math.log(drawn[i] == 1 and p or 1 - p)
end
print(("test_loss: %.4f; with the odds known: %.4f"):format(
  history[#history].validation.loss, sum / #chances))
