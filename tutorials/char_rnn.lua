--- char_rnn.lua - a network that reads Shakespeare by letters, and writes.
--
-- An LSTM sees one character after the other and tells the next. Batches go on
-- where the last one ended, so its state is carried from step to step: fed in,
-- fetched out. At the end it writes by itself, each letter drawn from what it
-- expects.
--
--   tide tutorials/char_rnn.lua --minutes 3 --write 400
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{
  units = 192, depth = 48, batch = 50, length = 50, epochs = 8, minutes = 0.0,
  lr = 2e-3, write = 400, temperature = 0.7, seed = 1, data = "",
  smoke = false,
}
local limit = flags.smoke and 2 or math.huge
if flags.smoke then
  flags.units, flags.batch, flags.length, flags.write = 16, 4, 10, 20
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

local sess <close> = td.session()
sess:init()
local fed = {inputs, targets, first.c, first.h}
local learn = sess:callable({loss, last.c, last.h, train}, fed)
local check = sess:callable({loss, last.c, last.h}, fed)

-- A step over every batch of a text, which `...` walks, a bar too, that ends
-- with the loop; the mean loss in nats a character.
local function go_over(part, step, ...)
  local zeros = td.value.zeros{flags.batch, flags.units}
  local c, h, sum, n = zeros, zeros, 0.0, 0
  for batch in ... do
    if batch.first then c, h = zeros, zeros end
    local l
    l, c, h = step(batch.inputs, batch.targets, c, h)
    sum, n = sum + l, n + 1
    if part(n, batch.epoch, l) then break end
  end
  return sum / n
end

local ends = flags.minutes > 0 and os.time() + 60 * flags.minutes or math.huge
local batches = text.train:sequences(flags.batch, flags.length,
                                     {epochs = flags.epochs})
local begun = os.time()
go_over(function(n, epoch, l)
  if n % 200 == 0 then
    print(("step %d, epoch %d: %.3f nats a character"):format(n, epoch, l))
  end
  -- The rate falls to nothing as the steps, or the minutes, run out.
  local share = math.max(n / #batches, (os.time() - begun) / (ends - begun))
  if n % 50 == 0 then lr:load(flags.lr * (1 - 0.95 * math.min(share, 1))) end
  return n >= limit or os.time() >= ends
end, learn, td.progress(batches))

local unseen = go_over(function(n) return n >= limit end, check,
                       text.test:sequences(flags.batch, flags.length))
print(("loss on the last tenth: %.4f nats a character"):format(unseen))

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
