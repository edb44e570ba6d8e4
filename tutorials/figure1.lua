--- figure1.lua - the program of figure 1 of the white paper "TensorFlow:
-- large-scale machine learning on heterogeneous distributed systems" (2015),
-- with the derivatives of its cost. Line for line; the paper leaves out init.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local b = td.variable(td.zeros{100}, "b")           -- 100-d vector of zeros
local W = td.variable(td.random_uniform{784, 100, minval = -1, maxval = 1}, "W")
local x = td.placeholder("float32", {-1, 784}, "x") -- input
local relu = td.relu(x:matmul(W) + b)               -- relu(xW + b)
local C = relu:square():mean()                      -- cost
local gradients = td.gradients(C, {b, W, x})        -- [db, dW, dx]
local s = td.session()
s:init()
for step = 1, 10 do
  local input = td.value.random_uniform{1, 784}     -- an array, made now
  print(step, s:run({C, gradients}, {[x] = input})[1])
end
