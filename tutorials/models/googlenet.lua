--- googlenet.lua - GoogLeNet, the first Inception.
--
-- Szegedy, Liu, Jia, Sermanet, Reed, Anguelov, Erhan, Vanhoucke and Rabinovich:
-- Going deeper with convolutions, CVPR 2015, table 1 and figure 3: 7.0 million
-- parameters, 13.4 with the auxiliary classifiers.
--
--   local logits = dofile "tutorials/models/googlenet.lua"(images)
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local layers = td.layers

-- Channels of the modules: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool proj.
local modules = {
  {"inception_3a", 64, 96, 128, 16, 32, 32},
  {"inception_3b", 128, 128, 192, 32, 96, 64, pool = true},
  {"inception_4a", 192, 96, 208, 16, 48, 64, auxiliary = "auxiliary_1"},
  {"inception_4b", 160, 112, 224, 24, 64, 64},
  {"inception_4c", 128, 128, 256, 24, 64, 64},
  {"inception_4d", 112, 144, 288, 32, 64, 64, auxiliary = "auxiliary_2"},
  {"inception_4e", 256, 160, 320, 32, 128, 128, pool = true},
  {"inception_5a", 256, 160, 320, 32, 128, 128},
  {"inception_5b", 384, 192, 384, 48, 128, 128},
}

local function normalize(x)
  return td.lrn(x, {depth_radius = 2, bias = 2.0, alpha = 1e-4, beta = 0.75})
end

local function pool(x, strides)
  return layers.max_pooling2d(x, 3, strides, {padding = "same"})
end

--- Logits {n, classes} of images {n, 224, 224, 3}; others need 32 pixels, 65
-- with auxiliary. Options: classes (1000); width (1), a factor on all channels;
-- training (false; a boolean or graph scalar): is there dropout; auxiliary
-- (false): gives the logits of the two auxiliary classifiers, too, whose losses
-- are added with weight 0.3 in training.
return function(x, o)
  o = td.options(o, {classes = 1000, width = 1, training = false,
                     auxiliary = false}, "googlenet")
  local training, classes = o.training, o.classes
  local function wide(n) return math.max(1, math.floor(n * o.width)) end

  local function conv(y, name, filters, size, strides)
    return layers.conv2d(y, wide(filters), size, {name = name,
      strides = strides, padding = "same", activation = td.relu})
  end

  local function inception(c)
    return td.variable_scope(c[1], function()
      return td.concat({
        conv(x, "1x1", c[2], 1),
        conv(conv(x, "3x3_reduce", c[3], 1), "3x3", c[4], 3),
        conv(conv(x, "5x5_reduce", c[5], 1), "5x5", c[6], 5),
        conv(pool(x, 1), "pool_proj", c[7], 1)}, 3)
    end)
  end

  local function classifier(name)
    return td.variable_scope(name, function()
      local y = layers.average_pooling2d(x, 5, 3)
      y = layers.flatten(conv(y, "conv", 128, 1))
      y = layers.dense(y, wide(1024), {name = "fc", activation = td.relu})
      y = layers.dropout(y, 0.7, {training = training})
      return layers.dense(y, classes, {name = "classifier"})
    end)
  end

  return td.variable_scope("googlenet", function()
    local others = {}
    x = normalize(pool(conv(x, "conv1", 64, 7, 2), 2))
    x = conv(conv(x, "conv2_reduce", 64, 1), "conv2", 192, 3)
    x = pool(normalize(x), 2)
    for _, c in ipairs(modules) do
      x = inception(c)
      if c.pool then x = pool(x, 2) end
      if c.auxiliary and o.auxiliary then
        others[#others + 1] = classifier(c.auxiliary)
      end
    end
    x = layers.dropout(x:mean{1, 2}, 0.4, {training = training})
    return layers.dense(x, classes, {name = "classifier"}),
      table.unpack(others)
  end)
end
