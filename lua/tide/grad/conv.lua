--- grad/conv.lua - gradients of convolutions.
--
-- y = x * w is linear in both, so that each of the three ops (forward, data,
-- filter) has the other two for its gradients, and these again.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local ops = require("tide.ops").ops

local grad = {}

-- The attributes that all three share.
local names = {"strides", "padding", "explicit_paddings", "data_format",
               "dilations", "use_cudnn_on_gpu"}

local function attributes(op)
  local o = {}
  for _, name in ipairs(names) do o[name] = op.attr[name] end
  return o
end

-- Rules for an op and those that compute its gradients.
local function family(forward, data, filter)
  local function y_of(op, x, w)
    return core.op(forward)(x, w, attributes(op))
  end
  local function x_of(op, like, w, y)
    return core.op(data)(ops.shape(like), w, y, attributes(op))
  end
  local function w_of(op, x, like, y)
    return core.op(filter)(x, ops.shape(like), y, attributes(op))
  end

  grad[forward] = function(op, dy)
    local x, w = op.inputs[1], op.inputs[2]
    return x_of(op, x, w, dy), w_of(op, x, w, dy)
  end

  grad[data] = function(op, dx)
    local w, y = op.inputs[2], op.inputs[3]
    return false, w_of(op, dx, w, y), y_of(op, dx, w)
  end

  grad[filter] = function(op, dw)
    local x, y = op.inputs[1], op.inputs[3]
    return x_of(op, x, dw, y), false, y_of(op, x, dw)
  end
end

family("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
family("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
       "DepthwiseConv2dNativeBackpropFilter")
family("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")

return grad
