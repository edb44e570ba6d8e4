--- grad/norm.lua - gradients of normalisations.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local gradients = require "tide.autodiff.gradients"
local ops = require("tide.ops").ops

local grad = {}

-- ---- batch normalisation --------------------------------------------------

local function attrs(op)
  local a = op.attr
  return {epsilon = a.epsilon, data_format = a.data_format,
          is_training = a.is_training}
end

-- Outside training the moments are operands, and so their gradients: those of
-- y = (x - mean) / sqrt(variance + epsilon) scale + offset.
local function fused(gradient_op)
  return function(op, dy)
    local x, scale, _, mean, variance = table.unpack(op.inputs)
    if op.attr.is_training then
      mean, variance = op.outputs[4], op.outputs[5]
    end
    if not dy then return false, false, false, false, false end
    local given = {dy, x, scale, mean, variance, op.outputs[6]}
    given[#given + 1] = attrs(op)
    local dx, dscale, doffset = core.op(gradient_op)(table.unpack(given))
    return dx, dscale, doffset, false, false
  end
end
grad.FusedBatchNorm = fused "FusedBatchNormGrad"
grad.FusedBatchNormV2 = fused "FusedBatchNormGradV2"
grad.FusedBatchNormV3 = fused "FusedBatchNormGradV3"

-- The axes that moments are over, and a vector seen along the channels.
local function layout(op, x)
  local first = op.attr.data_format:sub(2, 2) == "C"
  local rank = x.rank or #op.attr.data_format
  local axes, seen = {}, {}
  for i = 0, rank - 1 do
    local channel = i == (first and 1 or rank - 1)
    if not channel then axes[#axes + 1] = i end
    seen[i + 1] = channel and -1 or 1
  end
  return axes, function(v) return ops.reshape(v, seen) end
end

-- The gradient written out in ops that have gradients of their own.
local function written_out(op)
  local dy, x, scale, mean, variance = table.unpack(op.inputs)
  local axes, along = layout(op, x)
  dy, x = ops.cast(dy, "float32"), ops.cast(x, "float32")
  if op.attr.is_training then
    mean = ops.mean(x, axes)
    variance = ops.mean(ops.square(x - along(mean)), axes)
  end
  local r = ops.rsqrt(variance + op.attr.epsilon)
  local centred = (x - along(mean)) * along(r)
  local dscale, doffset = ops.sum(dy * centred, axes), ops.sum(dy, axes)
  local dx = dy
  if op.attr.is_training then
    dx = dx - along(ops.mean(dy, axes))
         - centred * along(ops.mean(dy * centred, axes))
  end
  return ops.cast(dx * along(scale * r), op.inputs[2].dtype), dscale, doffset
end

local function second(op, ...)
  local ys, given = {written_out(op)}, {...}
  local kept, dys = {}, {}
  for i, y in ipairs(ys) do
    if given[i] then
      kept[#kept + 1], dys[#dys + 1] = y, given[i]
    end
  end
  local d = gradients.gradients(kept, {op.inputs[1], op.inputs[2],
                                       op.inputs[3]}, {grad_ys = dys})
  local list = {}
  for i = 1, #op.inputs do list[i] = i <= 3 and d[i] or false end
  return table.unpack(list)
end
grad.FusedBatchNormGrad = second
grad.FusedBatchNormGradV2 = second
grad.FusedBatchNormGradV3 = second

function grad.BatchNormWithGlobalNormalization(op, dy)
  local t, m, v, _, gamma = table.unpack(op.inputs)
  local a = op.attr
  local dx, dm, dv, db, dg = core.op "BatchNormWithGlobalNormalizationGrad"(t,
    m, v, gamma, dy, {variance_epsilon = a.variance_epsilon,
    scale_after_normalization = a.scale_after_normalization})
  return dx, dm, dv, db, dg
end

-- ---- neighbouring channels ------------------------------------------------

function grad.LRN(op, dy)
  local a = op.attr
  return core.op "LRNGrad"(dy, op.inputs[1], op.outputs[1],
    {depth_radius = a.depth_radius, bias = a.bias, alpha = a.alpha,
     beta = a.beta})
end

return grad
