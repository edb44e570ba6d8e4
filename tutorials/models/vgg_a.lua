--- vgg_a.lua - VGG of 11 layers.
--
-- Simonyan and Zisserman: Very deep convolutional networks for large-scale
-- image recognition, ICLR 2015, table 1, column A: 132.9 million parameters,
-- most of them in fc6.
--
--   local logits = dofile "tutorials/models/vgg_a.lua"(images)
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local layers = td.layers

-- The channels of the convolutions between one pool and the next.
local stages = {{64}, {128}, {256, 256}, {512, 512}, {512, 512}}

--- Logits {n, classes} of images {n, 224, 224, 3}; others need 32 pixels.
-- Options: classes (1000); width (1), a factor on all channels; training
-- (false; a boolean or graph scalar): is there dropout.
return function(x, o)
  o = td.options(o, {classes = 1000, width = 1, training = false}, "vgg_a")
  local function wide(n) return math.max(1, math.floor(n * o.width)) end

  local function full(name, units)
    x = layers.dense(x, wide(units), {name = name, activation = td.relu})
    x = layers.dropout(x, 0.5, {training = o.training})
  end

  return td.variable_scope("vgg_a", function()
    for i, stage in ipairs(stages) do
      for j, filters in ipairs(stage) do
        x = layers.conv2d(x, wide(filters), 3, {activation = td.relu,
          padding = "same", name = ("conv%d_%d"):format(i, j)})
      end
      x = layers.max_pooling2d(x, 2)
    end
    x = layers.flatten(x)
    full("fc6", 4096)
    full("fc7", 4096)
    return layers.dense(x, o.classes, {name = "fc8"})
  end)
end
