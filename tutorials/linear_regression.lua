--- linear_regression.lua - a line through noisy points, found twice.
--
-- First by gradient descent on batches, as one would for a model without a
-- formula; then by the normal equations, to see that it found the right one.
--
--   tide tutorials/linear_regression.lua --points 1000 --noise 0.5
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{points = 500, noise = 0.1, lr = 0.1, epochs = 20,
                       batch = 50, seed = 1, smoke = false}
if flags.smoke then flags.epochs = 2 end
td.seed(flags.seed)

-- What nobody knows but us: y = 3 a - 2 b + 1.
local inputs = td.value.random_uniform{flags.points, 2, minval = -1, maxval = 1}
local noise = td.value.random_normal{flags.points, 1, stddev = flags.noise}
local outputs = inputs:matmul{{3.0}, {-2.0}} + 1.0 + noise

local x = td.placeholder("float32", {-1, 2}, "x")
local y = td.placeholder("float32", {-1, 1}, "y")
local W = td.variable(td.zeros{2, 1}, "W")
local b = td.variable(td.zeros{1}, "b")
local loss = (x:matmul(W) + b - y):square():mean()
local train = td.train.sgd(flags.lr):minimize(loss)

local sess <close> = td.session()
sess:init()
local step = sess:callable({loss, train}, {x, y})
local points = td.data.of{x = inputs, y = outputs}
local last
for batch in points:batches(flags.batch, {epochs = flags.epochs, shuffle = true,
                                          seed = flags.seed}) do
  last = step(batch.x, batch.y)
end
local slopes, offset = table.unpack(sess:run{W, b})
print(("loss %.5f"):format(last))
print("descent:  " .. slopes:flatten() .. " and " .. offset)

-- The normal equations (X'X) w = X'y with a column of ones for the offset.
local X = td.concat({inputs, td.value.ones{flags.points, 1}}, 1)
local w = td.linalg.solve(X:matmul(X, {transpose_a = true}),
                          X:matmul(outputs, {transpose_a = true}))
print("formula:  " .. w:flatten())
