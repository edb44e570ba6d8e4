-- series.lua - trains the digit classifier and prints every loss with all its
-- bits: series.lua THREADS DEVICES SCATTER STEPS SEED
-- SCATTER > 0 puts each op on a device drawn from it.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local threads, devices, scatter, steps, seed =
  tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4]),
  tonumber(arg[5] or "1")

td.seed(seed)

local state = scatter
local function draw()
  state = (state * 1664525 + 1013904223) % 4294967296
  return state // 65536
end

local function model()
  local x = td.placeholder("float32", {-1, 784}, "x")
  local y = td.placeholder("int64", {-1}, "y")
  local W1 = td.variable(td.truncated_normal{784, 128, stddev = 0.05}, "W1")
  local b1 = td.variable(td.zeros{128}, "b1")
  local W2 = td.variable(td.truncated_normal{128, 10, stddev = 0.05}, "W2")
  local b2 = td.variable(td.zeros{10}, "b2")
  local logits = td.relu(x:matmul(W1) + b1):matmul(W2) + b2
  local loss = td.nn.sparse_softmax_cross_entropy(logits, y):mean()
  return x, y, loss, td.train.adam(1e-3):minimize(loss)
end

local function place()
  return "/device:CPU:" .. draw() % devices
end

local x, y, loss, train
if scatter > 0 then
  td.device(place, function() x, y, loss, train = model() end)
else
  x, y, loss, train = model()
end

local data = td.data.mnist()
local sess <close> = td.session{threads = threads, cpu_devices = devices}
sess:init()
local step = sess:callable({loss, train}, {x, y})
local n = 0
local order = {epochs = 100, shuffle = true, seed = seed}
for batch in data.train:batches(100, order) do
  print(("%a"):format(step(batch.images, batch.labels)))
  n = n + 1
  if n == steps then break end
end
