--- alexnet.lua - AlexNet in one tower.
--
-- Krizhevsky, Sutskever and Hinton: ImageNet classification with deep
-- convolutional neural networks, NIPS 2012. That net lay on two GPUs which
-- shared little; here it is one, with the channels it has in Krizhevsky: One
-- weird trick for parallelizing convolutional neural networks, 2014, where the
-- convolutions see all channels: 61.1 million parameters.
--
--   local logits = dofile "tutorials/models/alexnet.lua"(images)
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local layers = td.layers

--- Logits {n, classes} of images {n, 224, 224, 3}; others need 64 pixels.
-- Options: classes (1000); width (1), a factor on all channels; training
-- (false; a boolean or graph scalar): is there dropout; normalize (true): local
-- response normalization, which later uses of the net leave out.
return function(x, o)
  o = td.options(o, {classes = 1000, width = 1, training = false,
                     normalize = true}, "alexnet")
  local function wide(n) return math.max(1, math.floor(n * o.width)) end

  local function conv(name, filters, size, strides)
    x = layers.conv2d(x, wide(filters), size, {name = name, strides = strides,
      padding = "same", activation = td.relu})
  end

  local function normalize()
    if not o.normalize then return end
    x = td.lrn(x, {depth_radius = 2, bias = 2.0, alpha = 1e-4, beta = 0.75})
  end

  local function pool() x = layers.max_pooling2d(x, 3, 2) end

  local function full(name, units)
    x = layers.dense(x, wide(units), {name = name, activation = td.relu})
    x = layers.dropout(x, 0.5, {training = o.training})
  end

  return td.variable_scope("alexnet", function()
    conv("conv1", 64, 11, 4)
    normalize()
    pool()
    conv("conv2", 192, 5)
    normalize()
    pool()
    conv("conv3", 384, 3)
    conv("conv4", 256, 3)
    conv("conv5", 256, 3)
    pool()
    x = layers.flatten(x)
    full("fc6", 4096)
    full("fc7", 4096)
    return layers.dense(x, o.classes, {name = "fc8"})
  end)
end
