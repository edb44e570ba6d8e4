--- layers/conv2d_transpose.lua - the gradient of conv2d, a layer that enlarges.
-- SPDX-License-Identifier: Apache-2.0

local affine = require "tide.nn.affine"
local layer = require "tide.nn.layer"
local window = require "tide.nn.window"
local ops = require("tide.ops").ops

local transposed = {
  kind = "conv2d_transpose", positions = {"filters", "kernel_size"},
  ranks = {4, 4}, options = {"strides", "padding", "data_format", "activation",
    "use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer",
    "bias_regularizer"},
  booleans = affine.booleans, optional = affine.optional,
}

function transposed:check()
  layer.count(self, "filters")
  affine.check(self)
  window.pair(self, "kernel_size")
  window.check(self, 1)
end

function transposed:rows(x)
  local depth = layer.size(self, x, window.channels(self))
  local rows, cols = table.unpack(self.kernel_size)
  return {{"kernel", {rows, cols, self.filters, depth},
           initializer = self.kernel_initializer,
           regularizer = self.kernel_regularizer},
          affine.bias(self, self.filters)}
end

-- The size of rows (1) or columns (2) that conv2d would turn into x's.
local function grown(self, x, i)
  local axis = window.channels(self) == 3 and i or i + 1
  local more = math.max(self.kernel_size[i] - self.strides[i], 0)
  return x:dim(axis) * self.strides[i] + (self.padding == "VALID" and more or 0)
end

local function image(self, x)
  local rows, columns = grown(self, x, 1), grown(self, x, 2)
  if window.channels(self) == 3 then
    return {x:dim(0), rows, columns, self.filters}
  end
  return {x:dim(0), self.filters, rows, columns}
end

function transposed:apply(x, w)
  local y = ops.conv2d_transpose(x, w.kernel, image(self, x), {
    strides = window.four(self, self.strides), padding = self.padding,
    data_format = self.format})
  return window.finish(self, y, w)
end

--- What conv2d's gradient does to images: with strides it enlarges them.
-- Variables kernel {rows, columns, filters, depth}, bias; conv2d's options.
-- @function layers.conv2d_transpose(x, filters, kernel_size, o)
-- @usage td.layers.conv2d_transpose(td.ones{2, 4, 4, 3}, 2, 3, {strides = 2})
--   .shape  --> {2, 9, 9, 2}
return layer.define(transposed)
