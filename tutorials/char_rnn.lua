--- char_rnn.lua - a network that reads Shakespeare by letters, and writes.
--
-- An LSTM sees one character after the other and tells the next. Batches go on
-- where the last one ended, so its state is carried from step to step: fed in,
-- fetched out. At the end it writes by itself, each letter drawn from what it
-- expects. With --checkpoint DIR it can be killed and started again: the place
-- in the text and the state there are kept beside the variables. (To the same
-- bits, but for --minutes, by which the rate follows the clock.)
--
--   tide tutorials/char_rnn.lua --minutes 3 --write 400
--   tide tutorials/char_rnn.lua --checkpoint /tmp/char_rnn
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{
  units = 192, depth = 48, batch = 50, length = 50, epochs = 8, minutes = 0.0,
  lr = 2e-3, write = 400, temperature = 0.7, seed = 1, threads = 0, data = "",
  checkpoint = "", save_steps = 500, smoke = false,
}
if flags.smoke then
  flags.units, flags.batch, flags.length, flags.write = 16, 20, 100, 20
  flags.epochs, flags.save_steps = 1, 4
end
td.seed(flags.seed)

local text = flags.smoke and td.data.text{name = "sentences"}
  or td.data.text{dir = flags.data}
local letters = #text.vocab

local inputs = td.placeholder("int32", {-1, -1}, "inputs")
local targets = td.placeholder("int32", {-1, -1}, "targets")
local cell = td.nn.lstm_cell(flags.units)
local first = cell:zero_state(inputs:dim(0))
local read = td.layers.embedding(letters, flags.depth, {
  embeddings_initializer = td.initializers.random_normal{stddev = 0.5}})
local guess = td.layers.dense(letters, {name = "guess"})
local seen, last = td.nn.dynamic_rnn(cell, read(inputs),
                                     {initial_state = first})
local logits = guess(seen)
local loss = td.nn.sparse_softmax_cross_entropy(logits, targets):mean()
local lr = td.variable(flags.lr, {name = "lr", trainable = false})
local train = td.train.adam(lr):minimize(loss, {clip_norm = 5.0})

-- Where the training is: the last state of the text's streams.
local batches = text.train:sequences(flags.batch, flags.length,
                                     {epochs = flags.epochs})
local at = {}
local threads = {threads = flags.threads > 0 and flags.threads or nil}
local sv <close> = flags.checkpoint ~= "" and td.train.supervisor{
  logdir = flags.checkpoint, save_steps = flags.save_steps, flags = flags,
  keep = {batches = batches, at = at}} or nil
local sess = sv and sv:session(threads) or td.session(threads)
if not sv then sess:init() end

local fed = {inputs, targets, first.c, first.h}
local learn = sess:callable({loss, last.c, last.h, train}, fed)
local check = sess:callable({loss, last.c, last.h}, fed)

-- The step on a batch, whose first state is that of `from`: its loss. The state
-- after it goes there.
local zeros = td.value.zeros{flags.batch, flags.units}
local function go_on(step, batch, from)
  if batch.first then from.c, from.h = zeros, zeros end
  local l
  l, from.c, from.h = step(batch.inputs, batch.targets, from.c, from.h)
  return l
end

local begun, ends = os.time(), math.huge
if flags.minutes > 0 then ends = begun + 60 * flags.minutes end
local steps = flags.epochs * #text.train:sequences(flags.batch, flags.length)
for batch in td.progress(batches) do
  if sv and sv:should_stop() then return end
  local n, l = batch.step, go_on(learn, batch, at)
  if n % 200 == 0 then
    print(("step %d, epoch %d: %.3f nats a character"):format(n, batch.epoch,
                                                              l))
  end
  -- The rate falls to nothing as the steps, or the minutes, run out.
  local share = math.max(n / steps, (os.time() - begun) / (ends - begun))
  if n % 50 == 0 then lr:load(flags.lr * (1 - 0.95 * math.min(share, 1))) end
  if os.time() >= ends then break end
end
if sv then sv:close() end -- saves the last step

local sum, n, last_state = 0.0, 0, {}
for batch in text.test:sequences(flags.batch, flags.length) do
  sum, n = sum + go_on(check, batch, last_state), n + 1
end
print(("loss on the last tenth: %.4f nats a character"):format(sum / n))

-- Writing: one letter in, a draw from the next one's odds out.
local odds = guess(seen)[{0, 0}] / flags.temperature
local drawn = td.multinomial(odds:expand_dims(0), 1)[{0, 0}]
local write = sess:callable({drawn, last.c, last.h}, {inputs, first.c, first.h})
local c = td.value.zeros{1, flags.units}
local h, out = c, {text.vocab:id "\n" or 0}
for i = 1, flags.write do
  out[i + 1], c, h = write({{out[i]}}, c, h)
end
print(text.vocab:decode(out))
