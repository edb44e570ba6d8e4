--- grad/state.lua - gradients of variables.
--
-- The gradient of a variable is that of its handle: reads pass it on, gathers
-- keep it sparse.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shape = require "tide.autodiff.rule_shape"
local slices = require "tide.tensor.indexed_slices"
local ops = require("tide.ops").ops

local grad = {}

function grad.ReadVariableOp(_, dy) return dy end

function grad.ResourceGather(op, dy)
  if op.attr.batch_dims ~= 0 then
    core.error("unimplemented",
      "the gradient of gather from a variable needs batch_dims to be 0")
  end
  local handle, indices = table.unpack(op.inputs)
  local size = shape.of_variable(handle)
  local rest = {-1}
  if type(size) == "table" then
    for i = 2, #size do rest[i] = size[i] end
  else
    rest = ops.concat({core.tensor{-1}, size["1:"]}, 0)
  end
  return slices.new(ops.reshape(dy, rest), ops.reshape(indices, {-1}), size),
         false
end

function grad.ResourceGatherNd(op, dy)
  local handle, indices = table.unpack(op.inputs)
  local size = shape.of_variable(handle)
  size = type(size) == "table" and {table.unpack(size)}
    or ops.cast(size, indices.dtype)
  return core.op "ScatterNd"(indices, dy, size), false
end

return grad
