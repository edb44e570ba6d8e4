--- layers/separable_conv2d.lua - each channel by itself, then all of a place.
-- SPDX-License-Identifier: Apache-2.0

local affine = require "tide.nn.affine"
local layer = require "tide.nn.layer"
local window = require "tide.nn.window"
local ops = require("tide.ops").ops

local separable = {
  kind = "separable_conv2d", positions = {"filters", "kernel_size"},
  ranks = {4, 4}, options = {"strides", "padding", "data_format",
    "dilation_rate", "depth_multiplier", "activation", "use_bias",
    "depthwise_initializer", "pointwise_initializer", "bias_initializer",
    "depthwise_regularizer", "pointwise_regularizer", "bias_regularizer"},
  booleans = affine.booleans, optional = affine.optional,
}

function separable:check()
  self.depth_multiplier = self.depth_multiplier or 1
  layer.count(self, "filters")
  affine.check(self)
  layer.count(self, "depth_multiplier")
  window.pair(self, "kernel_size")
  window.pair(self, "dilation_rate", 1)
  window.check(self, 1)
end

function separable:rows(x)
  local depth = layer.size(self, x, window.channels(self))
  local m, rows, cols = self.depth_multiplier, table.unpack(self.kernel_size)
  local list = {
    {"depthwise_kernel", {rows, cols, depth, m},
     initializer = self.depthwise_initializer,
     regularizer = self.depthwise_regularizer},
    {"pointwise_kernel", {1, 1, depth * m, self.filters},
     initializer = self.pointwise_initializer,
     regularizer = self.pointwise_regularizer},
  }
  list[3] = affine.bias(self, self.filters)
  return list
end

function separable:apply(x, w)
  local y = ops.depthwise_conv2d(x, w.depthwise_kernel, {
    strides = window.four(self, self.strides), padding = self.padding,
    data_format = self.format,
    dilations = window.four(self, self.dilation_rate)})
  y = ops.conv2d(y, w.pointwise_kernel, {strides = {1, 1, 1, 1},
    padding = "VALID", data_format = self.format})
  return window.finish(self, y, w)
end

--- depth_multiplier (1) kernels over each channel alone, then a 1 x 1 conv2d to
-- `filters`. Variables depthwise_kernel {rows, columns, depth,
-- depth_multiplier}, pointwise_kernel {1, 1, depth depth_multiplier, filters},
-- bias. Options as conv2d's, with depthwise_ and pointwise_ for kernel_.
-- @function layers.separable_conv2d(x, filters, kernel_size, o)
-- @usage td.layers.separable_conv2d(td.ones{2, 8, 8, 3}, 4, 5).shape
-- --> {2, 4, 4, 4}
return layer.define(separable)
