--- layers/average_pooling2d.lua - the mean of each window.
-- SPDX-License-Identifier: Apache-2.0

local layer = require "tide.nn.layer"
local window = require "tide.nn.window"
local ops = require("tide.ops").ops

local pooling = {
  kind = "average_pooling2d", positions = {"pool_size", "strides"},
  ranks = {4, 4}, options = {"padding", "data_format"},
}

function pooling:check()
  window.pair(self, "pool_size")
  window.check(self, self.pool_size)
end

function pooling:apply(x)
  return ops.avg_pool(x, {ksize = window.four(self, self.pool_size),
    strides = window.four(self, self.strides), padding = self.padding,
    data_format = self.format})
end

--- The mean of each window, channel by channel; padding does not count.
-- pool_size and strides (pool_size) are numbers or {rows, columns}. Options:
-- padding ("valid" or "same"), data_format ("channels_last").
-- @function layers.average_pooling2d(x, pool_size, strides, o)
-- @usage td.layers.average_pooling2d(td.ones{1, 4, 4, 2}, 2).shape
-- --> {1, 2, 2, 2}
return layer.define(pooling)
