--- layers/flatten.lua - each example as a vector.
-- SPDX-License-Identifier: Apache-2.0

local layer = require "tide.nn.layer"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local flatten = {kind = "flatten", ranks = {1, math.huge}}

function flatten.apply(_, x)
  local rest = x.shape and shapes.count(shapes.of{table.unpack(x.shape, 2)})
  if rest then return ops.reshape(x, {x:dim(0), rest}) end
  return ops.reshape(x, {x:dim(0), -1})
end

--- x as {batch, all the rest}.
-- @function layers.flatten(x, o)
-- @usage td.layers.flatten(td.ones{2, 3, 4}).shape  --> {2, 12}
return layer.define(flatten)
