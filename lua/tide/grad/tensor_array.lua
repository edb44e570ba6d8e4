--- grad/tensor_array.lua - gradients of tensor arrays.
--
-- Every array has a twin that holds the gradients of its elements: what was
-- read is written to the twin, where several gradients of one element add up;
-- what was written is read from it. The gradient of a flow is the flow of the
-- twin, so that the twin is read after all is written. Each call of
-- td.gradients has twins of its own, named by `source`.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local places = require "tide.control.context"
local rules = require "tide.autodiff.rules"

local grad = {}

local passes_on = {Enter = true, Switch = true, Identity = true}

-- Whose gradient it is. Two walks go through what a branch made when gradients
-- of it have gradients, the branch's own and that of its gradient: their sums
-- meet outside, so each has twins of its own.
local function source_of(handle)
  local op = handle.op
  while passes_on[op.type] do op = op.inputs[1].op end
  local again = places.again(op)
  return again and rules.source .. again.index or rules.source
end

-- The twin, and its flow behind `flow`.
local function twin(handle, flow)
  return core.add("TensorArrayGradV3", {handle, flow},
                  {source = source_of(handle)})
end

local function like(x, source)
  if source.shape then core.set_shape(x, source.shape) end
  return x
end

-- The twin of a twin: second derivatives.
function grad.TensorArrayGradV3(_, _, dflow)
  return false, dflow
end

function grad.TensorArrayReadV3(op, dy)
  local handle, index, flow = table.unpack(op.inputs)
  local array, from = twin(handle, flow)
  return false, false,
    core.add("TensorArrayWriteV3", {array, index, dy, from})
end

function grad.TensorArrayWriteV3(op, dflow)
  local handle, index, x = table.unpack(op.inputs)
  local array, from = twin(handle, dflow)
  local dx = core.add("TensorArrayReadV3", {array, index, from},
                      {dtype = x.dtype})
  return false, false, like(dx, x), dflow
end

function grad.TensorArrayGatherV3(op, dy)
  local handle, indices, flow = table.unpack(op.inputs)
  local array, from = twin(handle, flow)
  return false, false,
    core.add("TensorArrayScatterV3", {array, indices, dy, from})
end

function grad.TensorArrayScatterV3(op, dflow)
  local handle, indices, x = table.unpack(op.inputs)
  local array, from = twin(handle, dflow)
  local dx = core.add("TensorArrayGatherV3", {array, indices, from},
                      {dtype = x.dtype, element_shape = false})
  return false, false, like(dx, x), dflow
end

function grad.TensorArrayConcatV3(op, dy)
  if not dy then return false end
  local handle, flow = table.unpack(op.inputs)
  local array, from = twin(handle, flow)
  return false,
    core.add("TensorArraySplitV3", {array, dy, op.outputs[2], from})
end

function grad.TensorArraySplitV3(op, dflow)
  local handle, x = table.unpack(op.inputs)
  local array, from = twin(handle, dflow)
  local dx = core.add("TensorArrayConcatV3", {array, from},
    {dtype = x.dtype, element_shape_except0 = false})
  return false, like(dx, x), false, dflow
end

return grad
