--- grad/nn.lua - gradients of activations, softmax and losses.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local ops = require("tide.ops").ops

local grad = {}

-- ---- activations ----------------------------------------------------------

-- A gradient op of the form dx = f(dy, y), linear in dy.
local function by_op(name, from)
  local op_name = name .. "Grad"
  grad[name] = function(op, dy)
    local y = from == "output" and op.outputs[1] or op.inputs[1]
    return core.op(op_name)(dy, y)
  end
end

by_op("Relu", "output")
by_op("Relu6", "output")
by_op("Elu", "output")
by_op("Selu", "output")
by_op("Softplus", "input")
by_op("Softsign", "input")

function grad.LeakyRelu(op, dy)
  return core.op "LeakyReluGrad"(dy, op.inputs[1], {alpha = op.attr.alpha})
end

-- These are steps of y: constant almost everywhere.
function grad.ReluGrad(op, g)
  return core.op "ReluGrad"(g, op.inputs[2]), false
end

function grad.Relu6Grad(op, g)
  return core.op "Relu6Grad"(g, op.inputs[2]), false
end

function grad.LeakyReluGrad(op, g)
  return core.op "LeakyReluGrad"(g, op.inputs[2], {alpha = op.attr.alpha}),
         false
end

-- dx = dy (y + 1.7581) where y < 0.
function grad.SeluGrad(op, g)
  local dy, y = table.unpack(op.inputs)
  local slope = ops.cast(ops.less(y, 0), y.dtype)
  return core.op "SeluGrad"(g, y), g * dy * slope
end

-- dx = dy (y + 1) where y < 0.
function grad.EluGrad(op, g)
  local dy, y = table.unpack(op.inputs)
  local slope = ops.cast(ops.less(y, 0), y.dtype)
  return core.op "EluGrad"(g, y), g * dy * slope
end

-- dx = dy / (1 + exp(-x)); the second derivative is s (1 - s).
function grad.SoftplusGrad(op, g)
  local dy, x = table.unpack(op.inputs)
  local s = ops.sigmoid(x)
  return core.op "SoftplusGrad"(g, x), g * dy * s * (1 - s)
end

-- dx = dy / (1 + |x|)^2
function grad.SoftsignGrad(op, g)
  local dy, x = table.unpack(op.inputs)
  local base = 1 + ops.abs(x)
  return core.op "SoftsignGrad"(g, x),
         g * dy * ops.sign(x) * -2 / (base * base * base)
end

-- ---- softmax --------------------------------------------------------------

function grad.Softmax(op, dy)
  local y = op.outputs[1]
  return (dy - (dy * y):sum(-1, {keep_dims = true})) * y
end

function grad.LogSoftmax(op, dy)
  local y = ops.exp(op.outputs[1])
  return dy - dy:sum(-1, {keep_dims = true}) * y
end

-- ---- losses ---------------------------------------------------------------

-- g for each row of a matrix.
local function rows(g) return ops.expand_dims(g, -1) end

-- The second output is the derivative of the loss itself; its own derivative is
-- that of softmax.
function grad.SoftmaxCrossEntropyWithLogits(op, dloss, dbackprop)
  local logits, backprop = op.inputs[1], op.outputs[2]
  local dx = dloss and rows(dloss) * backprop
  if dbackprop then
    local p = ops.softmax(logits)
    local second = (dbackprop - (dbackprop * p):sum(-1, {keep_dims = true})) * p
    dx = dx and dx + second or second
  end
  local dlabels = dloss and -rows(dloss) * ops.log_softmax(logits) or false
  if dbackprop then
    dlabels = dlabels and dlabels - dbackprop or -dbackprop
  end
  return dx, dlabels
end

-- The derivative of the loss, differentiable once more.
function grad.SparseSoftmaxCrossEntropyWithLogits(op, dloss, dbackprop)
  local logits, backprop = op.inputs[1], op.outputs[2]
  local dx = dloss and rows(dloss) * backprop
  if dbackprop then
    local p = ops.softmax(logits)
    local second = (dbackprop - (dbackprop * p):sum(-1, {keep_dims = true})) * p
    dx = dx and dx + second or second
  end
  return dx, false
end

-- ---- biases and norms -----------------------------------------------------

function grad.BiasAdd(op, dy)
  return dy, core.op "BiasAddGrad"(dy, {data_format = op.attr.data_format})
end

grad.BiasAddV1 = grad.BiasAdd

-- Each element of the bias is seen by all positions.
function grad.BiasAddGrad(op, g)
  local dy = op.inputs[1]
  if op.attr.data_format == "NCHW" then
    local inner = ops.ones_like(ops.shape(dy)["2:"])
    g = ops.reshape(g, ops.concat({core.tensor{1, -1}, inner}, 0))
  end
  return ops.broadcast_to(g, ops.shape(dy))
end

-- x^2 / 2
function grad.L2Loss(op, dy) return op.inputs[1] * dy end

return grad
