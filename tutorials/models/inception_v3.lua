--- inception_v3.lua - Inception v3.
--
-- Szegedy, Vanhoucke, Ioffe, Shlens and Wojna: Rethinking the Inception
-- architecture for computer vision, CVPR 2016, table 1 and figures 5 to 7, 10;
-- channels as in the authors' program, which the table does not give: 23.8
-- million parameters, 27.1 with the auxiliary classifier.
--
--   local logits = dofile "tutorials/models/inception_v3.lua"(images)
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local layers = td.layers

-- A branch is a list of steps: {filters, rows, columns} a convolution, max and
-- average a pool, {fork = branches} branches on the same input. A module is
-- {name, branch, ...}. What branches give is put side by side.
local max, average = {"max"}, {"average"}

local function conv(filters, rows, columns)
  return {filters, rows, columns, padding = "same"}
end

-- Without padding the image shrinks.
local function valid(filters, size, strides)
  return {filters, size, size, padding = "valid", strides = strides}
end

-- Figure 5: two 3x3 convolutions see what one 5x5 sees; here both are kept.
local function figure_5(name, n)
  return {name,
    {conv(64, 1, 1)},
    {conv(48, 1, 1), conv(64, 5, 5)},
    {conv(64, 1, 1), conv(96, 3, 3), conv(96, 3, 3)},
    {average, conv(n, 1, 1)}}
end

-- Figure 6: 1x7 and 7x1 in place of 7x7.
local function figure_6(name, n)
  return {name,
    {conv(192, 1, 1)},
    {conv(n, 1, 1), conv(n, 1, 7), conv(192, 7, 1)},
    {conv(n, 1, 1), conv(n, 7, 1), conv(n, 1, 7), conv(n, 7, 1),
     conv(192, 1, 7)},
    {average, conv(192, 1, 1)}}
end

-- Figure 7: more filters side by side on the smallest images.
local function figure_7(name)
  local both = {fork = {{conv(384, 1, 3)}, {conv(384, 3, 1)}}}
  return {name,
    {conv(320, 1, 1)},
    {conv(384, 1, 1), both},
    {conv(448, 1, 1), conv(384, 3, 3), both},
    {average, conv(192, 1, 1)}}
end

local stem = {
  valid(32, 3, 2), valid(32, 3), conv(64, 3, 3), max,
  valid(80, 1), valid(192, 3), max,
}

-- Figure 10: a module that halves the image.
local modules = {
  figure_5("mixed_5b", 32), figure_5("mixed_5c", 64), figure_5("mixed_5d", 64),
  {"mixed_6a",
    {valid(384, 3, 2)},
    {conv(64, 1, 1), conv(96, 3, 3), valid(96, 3, 2)},
    {max}},
  figure_6("mixed_6b", 128), figure_6("mixed_6c", 160),
  figure_6("mixed_6d", 160), figure_6("mixed_6e", 192),
  {"mixed_7a",
    {conv(192, 1, 1), valid(320, 3, 2)},
    {conv(192, 1, 1), conv(192, 1, 7), conv(192, 7, 1), valid(192, 3, 2)},
    {max}},
  figure_7 "mixed_7b", figure_7 "mixed_7c",
}

--- Logits {n, classes} of images {n, 299, 299, 3}; others need 75 pixels, 107
-- with auxiliary. Options: classes (1000); width (1), a factor on all channels;
-- training (false; a boolean or graph scalar): is there dropout, and batch
-- normalization by the batch, whose updates are in the collection
-- "update_ops"; auxiliary (false): gives the logits of the auxiliary
-- classifier, too, whose loss is added with weight 0.4 in training.
return function(x, o)
  o = td.options(o, {classes = 1000, width = 1, training = false,
                     auxiliary = false}, "inception_v3")
  local training, classes = o.training, o.classes
  local function wide(n) return math.max(1, math.floor(n * o.width)) end

  local function convolve(y, c)
    y = layers.conv2d(y, wide(c[1]), {c[2], c[3]}, {name = "conv",
      strides = c.strides, padding = c.padding, use_bias = false})
    return td.relu(layers.batch_normalization(y, {name = "normalization",
      scale = false, training = training}))
  end

  local run

  local function fork(y, branches)
    local parts = {}
    for i, steps in ipairs(branches) do
      parts[i] = td.variable_scope("branch_" .. i, run, y, steps)
    end
    return td.concat(parts, 3)
  end

  function run(y, steps)
    for i, step in ipairs(steps) do
      if step == max then
        y = layers.max_pooling2d(y, 3, 2)
      elseif step == average then
        y = layers.average_pooling2d(y, 3, 1, {padding = "same"})
      elseif step.fork then
        y = fork(y, step.fork)
      else
        y = td.variable_scope("conv_" .. i, convolve, y, step)
      end
    end
    return y
  end

  local function classifier(y)
    y = run(layers.average_pooling2d(y, 5, 3), {conv(128, 1, 1)})
    local all = {768, y:dim(1), y:dim(2), padding = "valid"}
    y = td.variable_scope("conv_2", convolve, y, all)
    return layers.dense(layers.flatten(y), classes, {name = "classifier"})
  end

  return td.variable_scope("inception_v3", function()
    local auxiliary
    x = td.variable_scope("stem", run, x, stem)
    for _, module in ipairs(modules) do
      local name = module[1]
      x = td.variable_scope(name, fork, x, {table.unpack(module, 2)})
      if name == "mixed_6e" and o.auxiliary then
        auxiliary = td.variable_scope("auxiliary", classifier, x)
      end
    end
    x = layers.dropout(x:mean{1, 2}, 0.2, {training = training})
    return layers.dense(x, classes, {name = "classifier"}), auxiliary
  end)
end
