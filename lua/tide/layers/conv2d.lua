--- layers/conv2d.lua - one small weight for every place of an image.
-- SPDX-License-Identifier: Apache-2.0

local affine = require "tide.nn.affine"
local layer = require "tide.nn.layer"
local window = require "tide.nn.window"
local ops = require("tide.ops").ops

local conv2d = {
  kind = "conv2d", positions = {"filters", "kernel_size"}, ranks = {4, 4},
  options = {"strides", "padding", "data_format", "dilation_rate",
             "activation", "use_bias", "kernel_initializer",
             "bias_initializer", "kernel_regularizer", "bias_regularizer"},
  booleans = affine.booleans, optional = affine.optional,
}

function conv2d:check()
  layer.count(self, "filters")
  affine.check(self)
  window.pair(self, "kernel_size")
  window.pair(self, "dilation_rate", 1)
  window.check(self, 1)
end

function conv2d:rows(x)
  local depth = layer.size(self, x, window.channels(self))
  local rows, cols = table.unpack(self.kernel_size)
  return {{"kernel", {rows, cols, depth, self.filters},
           initializer = self.kernel_initializer,
           regularizer = self.kernel_regularizer},
          affine.bias(self, self.filters)}
end

function conv2d:apply(x, w)
  local y = ops.conv2d(x, w.kernel, {padding = self.padding,
    strides = window.four(self, self.strides), data_format = self.format,
    dilations = window.four(self, self.dilation_rate)})
  return window.finish(self, y, w)
end

--- Cross-correlation of images with `filters` kernels of kernel_size (a number
-- or {rows, columns}). Variables kernel {rows, columns, depth, filters}, bias.
-- Options: strides (1), padding ("valid" or "same"), dilation_rate (1),
-- data_format ("channels_last"), activation, use_bias (true), and as dense's
-- kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer.
-- @function layers.conv2d(x, filters, kernel_size, o)
-- @usage td.layers.conv2d(td.ones{2, 8, 8, 3}, 4, 5).shape  --> {2, 4, 4, 4}
return layer.define(conv2d)
