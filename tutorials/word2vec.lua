--- word2vec.lua - words as vectors, learnt from the company they keep: the
-- skip-gram model with sampled softmax. Sources: Mikolov et al. 2013, Jean et
-- al. 2015.
--
-- Each word of the Wall Street Journal has to foretell the words beside it
-- among a few drawn at random instead of all. Words that occur in the same
-- places get vectors that point the same way.
--
--   tide tutorials/word2vec.lua --epochs 8
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local rng = require "tide.base.rng"

local flags = td.flags{depth = 64, window = 4, batch = 256, sampled = 64,
                       epochs = 15, lr = 0.5, keep = 1e-3, seed = 1, data = "",
                       smoke = false}
if flags.smoke then flags.depth, flags.epochs = 8, 1 end
td.seed(flags.seed)

local text = flags.smoke and td.data.text{name = "sentences", by = "word"}
  or td.data.text{name = "ptb", dir = flags.data, words = 4000}
local words, ids = #text.vocab, text.train.ids:table()
if flags.smoke then ids = table.move(ids, 1, 400, 1, {}) end

-- How often words occur: frequent ones are left out of most pairs.
local times = {}
for _, id in ipairs(ids) do times[id] = (times[id] or 0) + 1 end
local random = rng.new(flags.seed)
local function kept(id)
  return random:uniform() < math.sqrt(flags.keep * #ids / times[id])
end

-- Pairs {word, a word beside it} of one epoch, in random order.
local function pairs_of_epoch()
  local line, list = {}, {}
  for _, id in ipairs(ids) do
    if kept(id) then line[#line + 1] = id end
  end
  for i, word in ipairs(line) do
    local reach = random:integer(1, flags.window)
    for j = math.max(1, i - reach), math.min(#line, i + reach) do
      if j ~= i then list[#list + 1] = {word, line[j]} end
    end
  end
  random:shuffle(list)
  return list
end

local centers = td.placeholder("int64", {-1}, "centers")
local contexts = td.placeholder("int64", {-1, 1}, "contexts")
local vectors = td.variable(td.random_uniform({words, flags.depth},
  {minval = -0.5 / flags.depth, maxval = 0.5 / flags.depth}), "vectors")
local weights = td.variable(td.zeros{words, flags.depth}, "weights")
local biases = td.variable(td.zeros{words}, "biases")
local loss = td.nn.sampled_softmax_loss(weights, biases, contexts,
  td.nn.embedding_lookup(vectors, centers), flags.sampled, words):mean()
local train = td.train.adagrad(flags.lr):minimize(loss)

local sess <close> = td.session()
sess:init()
local step = sess:callable({loss, train}, {centers, contexts})
for epoch = 1, flags.epochs do
  local list, sum, n = pairs_of_epoch(), 0.0, 0
  for from = 1, #list - flags.batch + 1, flags.batch do
    local c, x = {}, {}
    for k = 0, flags.batch - 1 do
      local pair = list[from + k]
      c[k + 1], x[k + 1] = pair[1], {pair[2]}
    end
    sum, n = sum + step(td.tensor(c, "int64"), td.tensor(x, "int64")), n + 1
  end
  print(("epoch %d: loss %.4f"):format(epoch, sum / math.max(1, n)))
end

-- ---- what was learnt ------------------------------------------------------

local unit = td.l2_normalize(vectors:eval(), {1})
local function near(word)
  local id = text.vocab:id(word)
  local cosines = (unit * unit[id]):sum(1)
  local _, best = td.top_k(cosines, 6)
  local list = {}
  for i, k in ipairs(best:table()) do
    if i > 1 then list[#list + 1] = text.vocab:token(k) end
  end
  print(("%-10s %s"):format(word, table.concat(list, " ")))
end
for _, word in ipairs{"october", "bank", "he", "million"} do
  if (times[text.vocab:id(word)] or 0) > 5 then near(word) end
end

-- The 100 pairs that say most about each other (mutual information of words
-- beside one another), against pairs drawn at random.
local together = {}
for i = 1, #ids - 1 do
  local a, b = ids[i], ids[i + 1]
  if times[a] > 9 and times[b] > 9 and a ~= b then
    local key = math.min(a, b) << 32 | math.max(a, b)
    together[key] = (together[key] or 0) + 1
  end
end
local ranked = {}
for key, n in pairs(together) do
  local a, b = key >> 32, key & 0xffffffff
  ranked[#ranked + 1] = {a, b, n * math.log(n * #ids / (times[a] * times[b])),
                         key}
end
table.sort(ranked, function(p, q)
  if p[3] ~= q[3] then return p[3] > q[3] end
  return p[4] < q[4]
end)
local function mean_cosine(list)
  local sum = 0.0
  for _, p in ipairs(list) do
    sum = sum + (unit[p[1]] * unit[p[2]]):sum():item()
  end
  return sum / math.max(1, #list)
end
local best = table.move(ranked, 1, math.min(100, #ranked), 1, {})
local common, others = {}, {}
for id, n in pairs(times) do
  if n > 9 then common[#common + 1] = id end
end
table.sort(common)
for i = 1, #common > 1 and 1000 or 0 do
  others[i] = {common[random:integer(1, #common)],
               common[random:integer(1, #common)]}
end
print(("mean cosine: %.3f for the %d pairs of highest mutual information, %.3f "
  .. "for random pairs"):format(mean_cosine(best), #best, mean_cosine(others)))
