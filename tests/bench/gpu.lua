-- gpu.lua - Tide's side of the benchmarks on a card: gpu.lua ROW [--small].
--
-- It answers as ours.lua does: "ready", then for each line the seconds that one
-- unit took. A step's losses are fetched: it is over when it says so. Small
-- is for a machine without a card; figures of it mean nothing.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"

local row, small = arg[1], arg[2] == "--small"
local DEVICE = os.getenv "TIDE_BENCH_DEVICE" or "/gpu:0"
local rows = {}

local function size(large, little) return small and little or large end

-- A step that trains `loss`, fed once and for all: what is fed is on the card.
local function training(loss, extra)
  local sess = td.session()
  local all = td.get_collection "update_ops"
  all[#all + 1] = td.train.sgd(0.001):minimize(loss)
  for _, op in ipairs(extra or {}) do all[#all + 1] = op end
  sess:init()
  local step = sess:callable({loss, td.group(all)}, {})
  return function() step() end, 1
end

-- What does not change lies in a variable, as in the other systems.
local function kept(value, name)
  return td.variable(value, {name = name, trainable = false})
end

local function images(n, pixels)
  return kept(td.value.random_uniform{n, pixels, pixels, 3}, "images"):read(),
    kept(td.value.random_uniform({n}, {maxval = 10, dtype = "int64"}), "labels")
      :read()
end

-- Nets: batch as in gpu.py; pixels, and the fewest there can be.
local nets = {alexnet = {128, 224, 64}, overfeat = {128, 231, 71},
  vgg_a = {64, 224, 32}, googlenet = {128, 224, 32},
  inception_v3 = {64, 299, 75}, resnet50 = {128, 224, 32}}
for name, net in pairs(nets) do
  rows[name] = function()
    local x, y = images(size(net[1], 2), size(net[2], net[3]))
    local build = dofile("tutorials/models/" .. name .. ".lua")
    local logits = build(x, {width = size(1, 1 / 32),
                             classes = size(1000, 10), training = not small})
    return training(td.nn.sparse_softmax_cross_entropy(logits, y):mean())
  end
end

local function ids(shape, most)
  return kept(td.value.random_uniform(shape, {maxval = most, dtype = "int32"}),
              "ids"):read()
end

-- The language models of Zaremba and others: two layers, 35 steps, batch 20.
for _, width in ipairs{650, 1500} do
  rows["lstm_" .. width] = function()
    local n, steps, words = size(20, 2), size(35, 4), size(10000, 50)
    local units = size(width, 8)
    local x = ids({n, steps + 1}, words)
    local table = td.get_variable("table", {words, units})
    local y = td.nn.embedding_lookup(table, x[":, :-1"])
    local cells = td.nn.multi_cell{td.nn.lstm_cell(units, {name = "first"}),
                                   td.nn.lstm_cell(units, {name = "second"})}
    y = td.nn.dynamic_rnn(cells, y)
    local logits = td.layers.dense(y:reshape{-1, units}, words)
    return training(td.nn.sparse_softmax_cross_entropy(logits,
      x[":, 1:"]:reshape{-1}):mean())
  end
end

-- A block of a transformer: 12 heads of 64, 512 positions.
function rows.transformer()
  local n, steps, heads, each = size(16, 2), size(512, 6), size(12, 2),
    size(64, 4)
  local width = heads * each
  local x = kept(td.value.random_normal{n, steps, width}, "x"):read()
  local function split(name)
    local y = td.layers.dense(x, width, {name = name})
    return y:reshape{n, steps, heads, each}:transpose{0, 2, 1, 3}
  end
  local q, k, v = split "q", split "k", split "v"
  local scores = td.batch_matmul(q, k, {adj_y = true}) * each ^ -0.5
  local y = td.batch_matmul(td.softmax(scores), v)
  y = td.layers.dense(y:transpose{0, 2, 1, 3}:reshape{n, steps, width}, width)
  y = td.layers.layer_normalization(x + y)
  y = y + td.layers.dense(td.layers.dense(y, 4 * width,
    {activation = td.relu}), width)
  return training(td.layers.layer_normalization(y):square():mean())
end

-- The result stays on the card; one number of it is fetched.
local function computed(y, units)
  local sess = td.session{passes_off = {"cse", "fold"}}
  sess:init()
  local step = sess:callable({y:reshape{-1}[0]:cast "float32"}, {})
  return function() step() end, units or 1
end

function rows.matmul_bf16()
  local n = size(8192, 33)
  local a = kept(td.value.random_normal{n, n}:cast "bfloat16", "a"):read()
  local b = kept(td.value.random_normal{n, n}:cast "bfloat16", "b"):read()
  return computed(a:matmul(b))
end

function rows.tiny_kernels()
  local n = size(1000, 50)
  local y = kept(td.value.random_normal{256}, "x"):read()
  for _ = 1, n do y = y + 1.0 end
  return computed(y, n)
end

-- Five ops of 4 GB of float32.
function rows.elementwise()
  local x = kept(td.device("/cpu:0", function()
    return td.ones{size(1 << 28, 1 << 10), 4}
  end), "x"):read()
  return computed(td.tanh(x * 0.5 + 1.0) * x - 0.25)
end

-- A thousand rows of a table that has many.
function rows.sparse()
  local words, width = size(1000000, 100), size(64, 4)
  local at = ids({size(1000, 10)}, words)
  local table = td.get_variable("table", {words, width})
  return training(td.gather(table, at):square():sum())
end

-- ---- answers --------------------------------------------------------------

local library = os.getenv "TIDE_LIBRARY"
if library then td.load_library(library) end

if row == "--list" then
  local names = {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  print(table.concat(names, " "))
  os.exit(0)
end

local work, units = td.device(DEVICE, assert(rows[row], "no such row"))
for _ = 1, size(5, 1) do work() end
print "ready"
io.stdout:flush()
for _ in io.lines() do
  local times, took = 1
  repeat -- at least 50 ms
    local start = core.clock()
    for _ = 1, times do work() end
    took = core.clock() - start
    local enough = small or took >= 0.05
    if not enough then times = times * math.max(2, math.ceil(0.06 / took)) end
  until enough
  print(("%.9g"):format(took / times / units))
  io.stdout:flush()
end
