--- nn/batch_norm.lua - the ops of td.layers.batch_normalization.
--
-- Images go to FusedBatchNormV3, all else through means and differences. The
-- fused op gives the unbiased variance, and so the moving variance of images is
-- unbiased, that of others not: as in TensorFlow 1.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local control = require "tide.control.control"
local graph = require "tide.graph.graph"
local scope = require "tide.graph.scope"
local ops = require("tide.ops").ops

local batch_norm = {}

-- yes() where `training` holds, else no().
local function choose(training, yes, no)
  if not args.is_tensor(training) then
    if training then return yes() end
    return no()
  end
  return control.cond(training, yes, no)
end

local function axis_of(self, x)
  return self.axis < 0 and self.axis + x.rank or self.axis
end

-- The layout that the fused op would see; nil where it cannot be used.
local function fused_format(self, x)
  local axis = axis_of(self, x)
  if self.fused == false or x.rank ~= 4 or x.dtype == "float64" then
    return nil
  end
  return axis == 3 and "NHWC" or axis == 1 and "NCHW" or nil
end

local function fused(self, x, w, training, format)
  local one, zero = ops.ones_like(w.moving_mean), ops.zeros_like(w.moving_mean)
  local scale, offset = w.gamma or one, w.beta or zero
  local function run(is_training, mean, variance)
    return ops.fused_batch_norm(x, scale, offset, {mean = mean,
      variance = variance, epsilon = self.epsilon, data_format = format,
      is_training = is_training})
  end
  return choose(training, function() return run(true) end,
    function() return run(false, w.moving_mean, w.moving_variance) end)
end

-- v, one number for each channel, in the shape of x.
local function beside(self, v, x)
  local axis = axis_of(self, x)
  if not v or axis == x.rank - 1 then return v end
  local shape = {}
  for i = 1, x.rank do shape[i] = i == axis + 1 and -1 or 1 end
  return ops.reshape(v, shape)
end

local function plain(self, x, w, training)
  local axis, axes = axis_of(self, x), {}
  for i = 0, x.rank - 1 do
    if i ~= axis then axes[#axes + 1] = i end
  end
  local wide = ops.cast(x, w.moving_mean.dtype)
  local mean, variance = choose(training,
    function() return ops.moments(wide, axes) end,
    function() return w.moving_mean, w.moving_variance end)
  local y = ops.batch_normalization(wide, beside(self, mean, x),
    beside(self, variance, x), beside(self, w.beta, x),
    beside(self, w.gamma, x), self.epsilon)
  return ops.cast(y, x.dtype), mean, variance
end

--- x normalized, and the mean and variance it was normalized by.
function batch_norm.normalize(self, x, w, training)
  local format = fused_format(self, x)
  if format then return fused(self, x, w, training, format) end
  return plain(self, x, w, training)
end

--- Adds the ops that let the moving averages follow mean and variance.
function batch_norm.update(self, training, mean, variance)
  local rate = 1 - self.momentum
  if args.is_tensor(training) then
    rate = ops.cast(training, mean.dtype) * rate
  end
  for _, pair in ipairs{{self.moving_mean, mean},
                        {self.moving_variance, variance}} do
    local v, x = pair[1], pair[2]
    scope.colocate_with(v, function()
      graph.add_to_collection("update_ops", v:assign_sub((v - x) * rate).op)
    end)
  end
end

return batch_norm
