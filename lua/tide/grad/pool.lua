--- grad/pool.lua - gradients of pooling and of dilation.
--
-- A maximum passes gradients on to where it was found, and a mean shares them
-- out; the gradient of either is linear in dy, and its own gradient pools.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local ops = require("tide.ops").ops

local grad = {}

-- The attributes of a window, for an op that has the same.
local function window(op)
  local a = op.attr
  return {ksize = a.ksize, strides = a.strides, padding = a.padding,
          data_format = a.data_format}
end

local function explicit(op)
  local o = window(op)
  o.explicit_paddings = op.attr.explicit_paddings
  return o
end

-- ---- maxima ---------------------------------------------------------------

function grad.MaxPool(op, dy)
  return core.op "MaxPoolGrad"(op.inputs[1], op.outputs[1], dy, explicit(op))
end

-- What is taken is where the maximum was; the maximum itself has no say.
function grad.MaxPoolGrad(op, g)
  local x, y = op.inputs[1], op.inputs[2]
  if op.attr.padding == "EXPLICIT" then
    core.error("unimplemented", "MaxPoolGrad: there is no second gradient of "
      .. "max_pool with explicit paddings; pad the input instead")
  end
  return false, false, core.op "MaxPoolGradGrad"(x, y, g, window(op))
end

function grad.MaxPoolGradGrad(op, g)
  local x, y = op.inputs[1], op.inputs[2]
  return false, false, core.op "MaxPoolGrad"(x, y, g, window(op))
end

local function by_input(op)
  return {padding = op.attr.padding, data_format = op.attr.data_format}
end

function grad.MaxPoolV2(op, dy)
  local x, ksize, strides = table.unpack(op.inputs)
  local dx = core.op "MaxPoolGradV2"(x, op.outputs[1], dy, ksize, strides,
                                     by_input(op))
  return dx, false, false
end

function grad.MaxPoolGradV2(op, g)
  local x, y, _, ksize, strides = table.unpack(op.inputs)
  local second = core.op "MaxPoolGradGradV2"(x, y, g, ksize, strides,
                                             by_input(op))
  return false, false, second, false, false
end

function grad.MaxPoolGradGradV2(op, g)
  local x, y, _, ksize, strides = table.unpack(op.inputs)
  local third = core.op "MaxPoolGradV2"(x, y, g, ksize, strides, by_input(op))
  return false, false, third, false, false
end

function grad.MaxPool3D(op, dy)
  return core.op "MaxPool3DGrad"(op.inputs[1], op.outputs[1], dy, window(op))
end

function grad.MaxPool3DGrad(op, g)
  local x, y = op.inputs[1], op.inputs[2]
  return false, false, core.op "MaxPool3DGradGrad"(x, y, g, window(op))
end

function grad.MaxPool3DGradGrad(op, g)
  local x, y = op.inputs[1], op.inputs[2]
  return false, false, core.op "MaxPool3DGrad"(x, y, g, window(op))
end

function grad.MaxPoolWithArgmax(op, dy)
  if not dy then return false end
  local o = window(op)
  o.data_format = nil
  o.include_batch_in_index = op.attr.include_batch_in_index
  return core.op "MaxPoolGradWithArgmax"(op.inputs[1], dy, op.outputs[2], o)
end

-- ---- means ----------------------------------------------------------------

function grad.AvgPool(op, dy)
  return core.op "AvgPoolGrad"(ops.shape(op.inputs[1]), dy, window(op))
end

function grad.AvgPoolGrad(op, g)
  return false, core.op "AvgPool"(g, window(op))
end

function grad.AvgPool3D(op, dy)
  return core.op "AvgPool3DGrad"(ops.shape(op.inputs[1]), dy, window(op))
end

function grad.AvgPool3DGrad(op, g)
  return false, core.op "AvgPool3D"(g, window(op))
end

-- ---- windows drawn at random ----------------------------------------------

function grad.FractionalMaxPool(op, dy)
  if not dy then return false end
  local y, rows, columns = table.unpack(op.outputs)
  return core.op "FractionalMaxPoolGrad"(op.inputs[1], y, dy, rows, columns,
    {overlapping = op.attr.overlapping})
end

function grad.FractionalAvgPool(op, dy)
  if not dy then return false end
  local _, rows, columns = table.unpack(op.outputs)
  return core.op "FractionalAvgPoolGrad"(ops.cast(ops.shape(op.inputs[1]),
    "int64"), dy, rows, columns, {overlapping = op.attr.overlapping})
end

-- ---- dilation ---------------------------------------------------------------

function grad.Dilation2D(op, dy)
  local x, filter = op.inputs[1], op.inputs[2]
  local o = {strides = op.attr.strides, rates = op.attr.rates,
             padding = op.attr.padding}
  return core.op "Dilation2DBackpropInput"(x, filter, dy, o),
    core.op "Dilation2DBackpropFilter"(x, filter, dy, o)
end

return grad
