--- deep_lstm_devices.lua - a deep LSTM with one layer on each device: the
-- program of the TensorFlow slides of 2015, and what makes it learn.
--
-- A layer waits for the layer below in the same step and for itself in the step
-- before; so layers on several devices work at the same time, each a step
-- behind the one below. Here it foretells the next height of a wave.
--
--   tide tutorials/deep_lstm_devices.lua --layers 4 --units 64 --steps 200
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{layers = 4, units = 16, length = 20, batch = 16,
                       steps = 100, lr = 0.01, seed = 1, smoke = false}
if flags.smoke then flags.layers, flags.length, flags.steps = 2, 4, 3 end
td.seed(flags.seed)

-- Waves: {batch, length + 1} heights from random phases and speeds.
local speed = td.random_uniform{flags.batch, 1, minval = 0.2, maxval = 0.8}
local phase = td.random_uniform{flags.batch, 1, maxval = 6.28}
local times = td.range(flags.length + 1):cast "float32"
local heights = td.stop_gradient(td.sin(times * speed + phase))

local x = td.unstack(heights[{":", {0, flags.length}, "new"}], 1)
local cells, state = {}, {}
for d = 1, flags.layers do
  cells[d] = td.nn.lstm_cell(flags.units, {name = "layer_" .. d})
  state[d] = cells[d]:zero_state(flags.batch)
end

-- The slides' loops: x[i] goes up through the layers.
for i = 1, flags.length do
  for d, cell in ipairs(cells) do -- d is depth
    td.device("/cpu:" .. d - 1, function()
      x[i], state[d] = cell(x[i], state[d])
    end)
  end
end

-- What comes out at the top, by a last weight, is the next height.
local w = td.get_variable("w", {flags.units, 1})
local top = td.concat(x, 0):matmul(w)
local next = td.concat(td.unstack(heights["..., 1:"], 1), 0)
local loss = (top[":, 0"] - next):square():mean()
local train = td.train.adam(flags.lr):minimize(loss, {clip_norm = 1.0})

local sess <close> = td.session{cpu_devices = flags.layers}
sess:init()
for d, cell in ipairs(cells) do
  print(("layer %d: %s on %s"):format(d, cell.variables[1].shape,
                                      cell.variables[1].device))
end
local step = sess:callable{loss, train}
for i = 1, flags.steps do
  local l = step()
  if i % 20 == 0 or i == 1 then
    print(("step %3d: mean square %.4f"):format(i, l))
  end
end
