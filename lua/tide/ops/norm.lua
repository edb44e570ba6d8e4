--- ops/norm.lua - fused batch normalisation, and activations made of others.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local namespace = require "tide.ops"

local ops = namespace.ops

--- Batch normalisation of images or volumes along their channels: y, and the
-- mean and variance for moving averages. In training they are the batch's,
-- mixed by exponential_avg_factor (1) with options mean and variance; else
-- these are what x is normalized by. Options epsilon (1e-3), data_format
-- ("NHWC"),
-- is_training (true). Source: Ioffe and Szegedy 2015.
-- @function ops.fused_batch_norm(x, scale, offset, o)
-- @usage td.fused_batch_norm({{{{1.0}, {3.0}}}}, {1.0}, {0.0},
--   {epsilon = 0.0})  --> -1 1
function ops.fused_batch_norm(x, scale, offset, o)
  o = args.read(o, {"mean", "variance", "epsilon", "data_format", "is_training",
                    "exponential_avg_factor", "name"}, "fused_batch_norm")
  local none = core.tensor({}, "float32")
  local mean, variance = o.mean or none, o.variance or none
  o.mean, o.variance, o.epsilon = nil, nil, o.epsilon or 1e-3
  local y, m, v = core.op "FusedBatchNormV3"(x, scale, offset, mean, variance,
                                             o)
  return y, m, v
end

--- relu of x and of -x beside each other, along `axis` (-1).
-- @usage td.crelu({-1.0, 2.0})  --> 0 2 1 0
function ops.crelu(x, axis, o)
  o = args.read(o, {"name"}, "crelu")
  x = args.tensor(x)
  return ops.concat({ops.relu(x), ops.relu(-x)}, axis or -1, o)
end

--- x sigmoid(beta x). Source: Ramachandran et al. 2017.
-- @function ops.swish(x, beta, o)
-- @function ops.silu(x, beta, o)
-- @usage td.swish({0.0, 100.0})  --> 0 100
function ops.swish(x, beta, o)
  o = args.read(o, {"name"}, "swish")
  x = args.tensor(x)
  local inner = (beta == nil or beta == 1) and x or x * beta
  return ops.multiply(x, ops.sigmoid(inner), o)
end
ops.silu = ops.swish

--- x times the normal distribution's share below x; with option approximate by
-- tanh. Source: Hendrycks and Gimpel 2016.
-- @usage td.gelu({0.0, 100.0})  --> 0 100
function ops.gelu(x, o)
  o = args.read(o, {"approximate", "name"}, "gelu")
  x = args.tensor(x)
  local part
  if o.approximate then
    part = ops.tanh((x + x * x * x * 0.044715) * 0.7978845608028654)
  else
    part = ops.erf(x * 0.7071067811865476)
  end
  return ops.multiply(x * 0.5, 1 + part, o.name)
end
