--- ptb_lstm.lua - the next word of the Wall Street Journal, by an LSTM.
--
-- The model of Zaremba et al. 2014, small: words as vectors, LSTM layers with
-- dropout between them, unrolled over some steps whose last state is where the
-- next batch begins. Beside it, what a bigram model that mixes in single words
-- reaches on the same text. With --checkpoint DIR it can be killed and started
-- again: what is kept beside the variables is the place in the text, the state
-- that the next batch begins with, and the sums of the epoch.
--
--   tide tutorials/ptb_lstm.lua --epochs 12
--   tide tutorials/ptb_lstm.lua --checkpoint /tmp/ptb
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{
  units = 200, layers = 1, batch = 20, length = 20, epochs = 14, keep = 0.4,
  lr = 2e-3, seed = 1, threads = 0, data = "", checkpoint = "",
  save_steps = 200, smoke = false,
}
if flags.smoke then
  flags.units, flags.length, flags.epochs, flags.save_steps = 16, 5, 1, 16
end
td.seed(flags.seed)

local text = flags.smoke and td.data.text{name = "sentences", by = "word"}
  or td.data.text{name = "ptb", dir = flags.data}
local words = #text.vocab

local inputs = td.placeholder("int32", {flags.batch, flags.length}, "inputs")
local targets = td.placeholder("int32", {flags.batch, flags.length}, "targets")
local training = td.placeholder("bool", {}, "training")
local function drop(x)
  return td.layers.dropout(x, 1 - flags.keep, {training = training})
end

local E = td.get_variable("embedding", {words, flags.units},
  {initializer = td.initializers.random_uniform{minval = -0.1, maxval = 0.1}})
local x = td.unstack(drop(td.nn.embedding_lookup(E, inputs)), 1)
local first, last = {}, {}
for layer = 1, flags.layers do
  local cell = td.nn.lstm_cell(flags.units, {name = "layer_" .. layer,
                                             forget_bias = 0.0})
  first[layer] = cell:zero_state(flags.batch)
  x, last[layer] = td.nn.static_rnn(cell, x, {initial_state = first[layer]})
  for t, h in ipairs(x) do x[t] = drop(h) end
end

-- The output's weights are the words' vectors again (Press and Wolf 2017).
local outputs = td.stack(x, 1):reshape{-1, flags.units}
local bias = td.get_variable("bias", {words},
                             {initializer = td.initializers.zeros()})
local logits = td.matmul(outputs, E, {transpose_b = true}) + bias
local loss = td.nn.sparse_softmax_cross_entropy(logits,
                                                targets:reshape{-1}):mean()
local lr = td.variable(flags.lr, {name = "lr", trainable = false})
local train = td.train.adam(lr):minimize(loss, {clip_norm = 5.0})

-- Where the training is: the last state of the text's streams, the sum of the
-- losses of an epoch and their number.
local batches = text.train:sequences(flags.batch, flags.length,
                                     {epochs = flags.epochs})
local at = {state = {}, sum = 0.0, n = 0}
local threads = {threads = flags.threads > 0 and flags.threads or nil}
local sv <close> = flags.checkpoint ~= "" and td.train.supervisor{
  logdir = flags.checkpoint, save_steps = flags.save_steps, flags = flags,
  keep = {batches = batches, at = at}} or nil
local sess = sv and sv:session(threads) or td.session(threads)
if not sv then sess:init() end

-- One step: the state goes in and comes out beside the loss.
local fed, kept = {inputs, targets, training}, {loss}
for layer = 1, flags.layers do
  for _, part in ipairs{"c", "h"} do
    fed[#fed + 1] = first[layer][part]
    kept[#kept + 1] = last[layer][part]
  end
end
local check = sess:callable(kept, fed)
kept[#kept + 1] = train
local learn = sess:callable(kept, fed)

local function zeros()
  local list = {}
  for i = 1, 2 * flags.layers do
    list[i] = td.value.zeros{flags.batch, flags.units}
  end
  return list
end

-- The step on a batch: its loss, and the state after it.
local function go_on(step, batch, learning, state)
  local got = table.pack(step(batch.inputs, batch.targets, learning,
                              table.unpack(batch.first and zeros() or state)))
  return got[1], table.move(got, 2, 1 + 2 * flags.layers, 1, {})
end

-- Perplexity on the words of the test text.
local function unseen()
  local sum, n, state = 0.0, 0, nil
  for batch in text.test:sequences(flags.batch, flags.length) do
    local l
    l, state = go_on(check, batch, false, state)
    sum, n = sum + l, n + 1
  end
  return math.exp(sum / n)
end

local per_epoch = #text.train:sequences(flags.batch, flags.length)
for batch in td.progress(batches) do
  if sv and sv:should_stop() then return end
  if batch.first then
    at.sum, at.n = 0.0, 0
    lr:load(flags.lr * math.min(1, 2 * (1 - (batch.epoch - 1) / flags.epochs)))
  end
  local l
  l, at.state = go_on(learn, batch, true, at.state)
  at.sum, at.n = at.sum + l, at.n + 1
  if at.n == per_epoch then
    print(("epoch %d: perplexity %.1f, on test words %.1f"):format(batch.epoch,
      math.exp(at.sum / at.n), unseen()))
  end
end
if sv then sv:close() end -- saves the last step

-- How often a word follows another, mixed with how often it occurs: weights by
-- how many different words have followed (Witten and Bell 1991).
local function bigram(train_ids, test_ids)
  local follows, kinds, times, all = {}, {}, {}, #train_ids
  for i, word in ipairs(train_ids) do
    times[word] = (times[word] or 0) + 1
    local before = train_ids[i - 1]
    if before then
      follows[before] = follows[before] or {}
      local n = follows[before][word] or 0
      if n == 0 then kinds[before] = (kinds[before] or 0) + 1 end
      follows[before][word] = n + 1
    end
  end
  local sum = 0.0
  for i = 2, #test_ids do
    local before, word = test_ids[i - 1], test_ids[i]
    local alone = ((times[word] or 0) + 1) / (all + words)
    local t, c = kinds[before] or 1, times[before] or 0
    local pair = follows[before] and follows[before][word] or 0
    sum = sum - math.log((pair + t * alone) / (c + t))
  end
  return math.exp(sum / (#test_ids - 1))
end
print(("test_perplexity: %.1f"):format(unseen()))
print(("a bigram model's: %.1f"):format(bigram(text.train.ids:table(),
                                               text.test.ids:table())))
