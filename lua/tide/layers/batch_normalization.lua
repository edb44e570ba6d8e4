--- layers/batch_normalization.lua - each channel by its mean and variance.
-- SPDX-License-Identifier: Apache-2.0

local norm = require "tide.nn.batch_norm"
local layer = require "tide.nn.layer"
local initializers = require "tide.variables.initializers"

local normalization = {
  kind = "batch_normalization", ranks = {2, 5}, options = {
    "axis", "momentum", "epsilon", "center", "scale", "training", "fused",
    "beta_initializer", "gamma_initializer", "moving_mean_initializer",
    "moving_variance_initializer", "beta_regularizer", "gamma_regularizer"},
  booleans = {"center", "scale", "fused"}, optional = {"gamma", "beta"},
}

function normalization:check()
  layer.expect(self, {axis = "integer"})
  self.axis = self.axis or -1
  layer.within(self, "momentum", 0.99, 0, 1)
  layer.within(self, "epsilon", 1e-3, 0)
end

-- Statistics of half precision are kept in single.
function normalization.variables_dtype(_, x)
  return x.dtype == "float64" and x.dtype or "float32"
end

function normalization:rows(x)
  local n = {layer.size(self, x, self.axis)}
  local zeros, ones, rows = initializers.zeros(), initializers.ones(), {}
  if self.scale ~= false then
    rows[1] = {"gamma", n, initializer = self.gamma_initializer or ones,
               regularizer = self.gamma_regularizer}
  end
  if self.center ~= false then
    rows[#rows + 1] = {"beta", n, initializer = self.beta_initializer or zeros,
                       regularizer = self.beta_regularizer}
  end
  rows[#rows + 1] = {"moving_mean", n, trainable = false,
                     initializer = self.moving_mean_initializer or zeros}
  table.insert(rows, {"moving_variance", n, trainable = false,
    initializer = self.moving_variance_initializer or ones})
  return rows
end

function normalization:apply(x, w, o)
  local y, mean, variance = norm.normalize(self, x, w, o.training)
  if o.training then norm.update(self, o.training, mean, variance) end
  return y
end

--- (x - mean) / sqrt(variance + epsilon) gamma + beta, channel by channel.
-- Variables gamma, beta, moving_mean, moving_variance. With training (a boolean
-- or graph scalar) mean and variance are the batch's, and ops that let the
-- moving ones follow join the collection "update_ops": run them in training.
-- Options: axis (-1), momentum (0.99), epsilon (1e-3), training, scale, center,
-- fused, *_initializer, *_regularizer. Source: Ioffe and Szegedy 2015.
-- @function layers.batch_normalization(x, o)
-- @usage td.layers.batch_normalization(td.ones{2, 3}).shape  --> {2, 3}
return layer.define(normalization)
