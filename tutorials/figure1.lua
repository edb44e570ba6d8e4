-- figure1.lua - the example of the white paper "TensorFlow: large-scale machine
-- learning on heterogeneous distributed systems" (2015), figure 1: one layer,
-- and the derivatives of its cost.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

td.seed(1)
local b = td.variable(td.zeros{100}, "b")                -- 100-d vector
local W = td.variable(td.random_uniform{784, 100, minval = -1, maxval = 1}, "W")
local x = td.placeholder("float32", {-1, 784}, "x")      -- input
local relu = td.relu(x:matmul(W) + b)                    -- relu(xW + b)
local C = relu:square():mean()                           -- cost
local db, dW, dx = table.unpack(td.gradients(C, {b, W, x}))

local sess <close> = td.session()
sess:init()
for step = 1, 10 do
  local input = td.value.random_uniform{1, 784}          -- an array, made now
  local cost, gb = table.unpack(sess:run({C, db}, {[x] = input}))
  print(("step %d: cost %.3f, db of shape %s"):format(step, cost, gb.shape))
end

print(dW, dx)
print(("%d nodes in the graph"):format(#C.graph:ops()))
