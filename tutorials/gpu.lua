--- gpu.lua - where a step runs: on a card if there is one, and who decides.
--
-- Nothing changes in a program: nodes go to the first card that has kernels for
-- them, others stay on the processor, and what must cross is copied. Without
-- a card the same program runs on the processor; `tide doctor` says why.
--
--   tide tutorials/gpu.lua --size 4096
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{size = 256, steps = 20, seed = 1, smoke = false}
if flags.smoke then flags.size, flags.steps = 16, 2 end
td.seed(flags.seed)

-- What there is. A card is named CUDA:0, and /gpu:0 means the first one.
local card
for _, name in ipairs(td.devices()) do
  print(name)
  if name:find "device:CUDA:0" then card = true end
end
if not card then print "no card is used here: the processor takes its place" end

-- A function of nodes is put on a device; "/gpu:0" of a machine without a card
-- is the processor, as long as placement is soft (it is, unless
-- td.session{soft_placement = false}).
local function times_transposed(device)
  return td.device(device, function()
    local x = td.random_normal({flags.size, flags.size}, {seed = 2})
    return td.matmul(x, x, {transpose_b = true}):mean()
  end)
end
local here, there = times_transposed "/cpu:0", times_transposed "/gpu:0"

-- The same random numbers are drawn anywhere; sums may round in other orders.
local sess <close> = td.session()
local a, b = table.unpack(sess:run{here, there})
print(("mean %.5f on the processor, %.5f by /gpu:0"):format(a, b))

-- A training step: what is asked of a variable goes to where it is.
local w = td.device("/gpu:0", function()
  return td.variable(td.zeros{flags.size, 1}, "w")
end)
local x = td.placeholder("float32", {-1, flags.size}, "x")
local loss = (x:matmul(w) - 1.0):square():mean()
local train = td.train.sgd(0.01):minimize(loss)
sess:init()
local step = sess:callable({loss, train}, {x})
local some = td.value.random_normal({32, flags.size}, {seed = 3})
local first = step(some)
local last = first
for _ = 2, flags.steps do last = step(some) end
print(("loss %.4f, then %.4f: %s"):format(first, last,
  last < first and "it learns" or "it does not learn"))

-- Where each node went, and why.
for line in sess:explain_placement{loss}:gmatch "[^\n]+" do
  if line:find "MatMul" or line:find "VarHandleOp" then print(line) end
end
