--- seq2seq.lua - one network reads a sequence, another writes it backwards,
-- looking at what it needs. Sources: Sutskever et al. 2014, Bahdanau et al.
-- 2015, Luong et al. 2015.
--
-- The writer is a graph of its own cell, unrolled twice over the same weights:
-- to learn, fed with the right symbols; to write, fed with its own. Sequences
-- are drawn anew in every step by nodes of the graph.
--
--   tide tutorials/seq2seq.lua --steps 1500
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{symbols = 20, length = 12, units = 64, depth = 32,
                       batch = 64, steps = 2000, lr = 4e-3, seed = 1,
                       smoke = false}
if flags.smoke then flags.length, flags.units, flags.steps = 4, 8, 3 end
td.seed(flags.seed)

-- Symbols 1 .. n in rows of several lengths; 0 where nothing is.
local drawn = td.random_uniform({flags.batch, flags.length},
  {minval = 1, maxval = flags.symbols + 1, dtype = "int32", name = "drawn"})
local lengths = td.random_uniform({flags.batch},
  {minval = 2, maxval = flags.length + 1, dtype = "int32", name = "lengths"})
local there = td.sequence_mask(lengths, flags.length)
local symbols = drawn * there:cast "int32"
local targets = td.reverse_sequence(symbols, lengths,
                                    {seq_dim = 1, batch_dim = 0})

-- The reader: all its outputs are kept as a memory.
local vectors = td.layers.embedding(flags.symbols + 1, flags.depth)
local memory, thought = td.nn.dynamic_rnn(
  td.nn.gru_cell(flags.units, {name = "reader"}), vectors(symbols),
  {sequence_length = lengths})

-- The writer: a step from the symbol before; attention weighs the memory.
local writer = td.nn.gru_cell(flags.units, {name = "writer"})
local blend = td.layers.dense(flags.units, {activation = td.tanh})
local guess = td.layers.dense(flags.symbols + 1)
local nowhere = (1 - there:cast "float32") * -1e9
local function write(before, state, context)
  local x = td.concat({vectors(before), context}, 1)
  local out, next = writer(x, state)
  local score = (memory * out:expand_dims(1)):sum(2) + nowhere
  local weight = td.softmax(score):expand_dims(2)
  local seen = (memory * weight):sum(1)
  local both = blend(td.concat({out, seen}, 1))
  return guess(both), next, both
end

-- The whole sequence; `choose` gives the symbol that step t begins from.
local function unroll(choose)
  local state, context = thought, td.zeros{flags.batch, flags.units}
  local list, logits = {}, nil
  for t = 0, flags.length - 1 do
    logits, state, context = write(choose(t, logits), state, context)
    list[t + 1] = logits
  end
  return td.stack(list, 1)
end
local start = td.zeros({flags.batch}, {dtype = "int32"})
local taught = unroll(function(t)
  return t == 0 and start or targets[{":", t - 1}]
end)
local alone = unroll(function(t, logits)
  return t == 0 and start or logits:argmax(1):cast "int32"
end):argmax(2):cast "int32"

local losses = td.nn.sparse_softmax_cross_entropy(taught, targets)
local weight = there:cast "float32"
local loss = (losses * weight):sum() / weight:sum()
local train = td.train.adam(flags.lr):minimize(loss, {clip_norm = 5.0})
local right = td.logical_or(alone:equal(targets), there:logical_not())
local reversed = right:all(1):cast "float32":mean()

local sess <close> = td.session()
sess:init()
local step = sess:callable{loss, train}
for i in td.progress(flags.steps) do
  local l = step()
  if i % 200 == 0 then
    print(("step %d: loss %.4f, reversed %.2f"):format(i, l,
                                                       sess:run(reversed)))
  end
end

local sum, n = 0.0, flags.smoke and 1 or 20
for _ = 1, n do sum = sum + sess:run(reversed) end
local given, written = table.unpack(sess:run{symbols, alone})
print("given:  ", given[0])
print("written:", written[0])
print(("reversed whole: %.4f of unseen sequences"):format(sum / n))
