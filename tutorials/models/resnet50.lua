--- resnet50.lua - a residual net of 50 layers, version 1.
--
-- He, Zhang, Ren and Sun: Deep residual learning for image recognition, CVPR
-- 2016, table 1 and figure 5: 25.6 million parameters. A block adds what it
-- computes to its input; where sizes change the input is projected (option B).
--
--   local logits = dofile "tutorials/models/resnet50.lua"(images)
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local layers = td.layers

-- Stages: blocks, and the channels inside their bottlenecks; 4 times as many
-- leave them.
local stages = {{3, 64}, {4, 128}, {6, 256}, {3, 512}}

--- Logits {n, classes} of images {n, 224, 224, 3}; others need 32 pixels.
-- Options: classes (1000); width (1), a factor on all channels; training
-- (false; a boolean or graph scalar): is batch normalization by the batch,
-- whose updates are in the collection "update_ops".
return function(x, o)
  o = td.options(o, {classes = 1000, width = 1, training = false}, "resnet50")
  local function wide(n) return math.max(1, math.floor(n * o.width)) end

  local function conv(y, name, filters, size, strides)
    return td.variable_scope(name, function()
      y = layers.conv2d(y, wide(filters), size, {name = "conv",
        strides = strides, padding = "same", use_bias = false})
      return layers.batch_normalization(y, {name = "normalization",
        momentum = 0.9, epsilon = 1e-5, training = o.training})
    end)
  end

  local function block(name, filters, strides, project)
    return td.variable_scope(name, function()
      local y = td.relu(conv(x, "reduce", filters, 1, strides))
      y = td.relu(conv(y, "3x3", filters, 3))
      y = conv(y, "expand", 4 * filters, 1)
      local shortcut = x
      if project then
        shortcut = conv(x, "project", 4 * filters, 1, strides)
      end
      return td.relu(y + shortcut)
    end)
  end

  local he = td.initializers.he_normal()
  return td.variable_scope("resnet50", {initializer = he}, function()
    x = td.relu(conv(x, "conv1", 64, 7, 2))
    x = layers.max_pooling2d(x, 3, 2, {padding = "same"})
    for i, stage in ipairs(stages) do
      for j = 1, stage[1] do
        x = block(("conv%d_%d"):format(i + 1, j), stage[2],
                  i > 1 and j == 1 and 2 or 1, j == 1)
      end
    end
    return layers.dense(x:mean{1, 2}, o.classes, {name = "fc1000"})
  end)
end
