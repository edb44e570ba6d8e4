--- overfeat.lua - OverFeat, the fast model.
--
-- Sermanet, Eigen, Zhang, Mathieu, Fergus and LeCun: OverFeat: integrated
-- recognition, localization and detection using convolutional networks, ICLR
-- 2014, table 1: 145.9 million parameters.
--
--   local logits = dofile "tutorials/models/overfeat.lua"(images)
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local layers = td.layers

--- Logits {n, classes} of images {n, 231, 231, 3}; others need 71 pixels.
-- Options: classes (1000); width (1), a factor on all channels; training
-- (false; a boolean or graph scalar): is there dropout.
return function(x, o)
  o = td.options(o, {classes = 1000, width = 1, training = false}, "overfeat")
  local function wide(n) return math.max(1, math.floor(n * o.width)) end

  local function conv(name, filters, size, strides, padding)
    x = layers.conv2d(x, wide(filters), size, {name = name, strides = strides,
      padding = padding, activation = td.relu})
  end

  local function pool() x = layers.max_pooling2d(x, 2) end

  local function full(name, units)
    x = layers.dense(x, wide(units), {name = name, activation = td.relu})
    x = layers.dropout(x, 0.5, {training = o.training})
  end

  return td.variable_scope("overfeat", function()
    conv("conv1", 96, 11, 4)
    pool()
    conv("conv2", 256, 5)
    pool()
    conv("conv3", 512, 3, 1, "same")
    conv("conv4", 1024, 3, 1, "same")
    conv("conv5", 1024, 3, 1, "same")
    pool()
    x = layers.flatten(x)
    full("fc6", 3072)
    full("fc7", 4096)
    return layers.dense(x, o.classes, {name = "fc8"})
  end)
end
