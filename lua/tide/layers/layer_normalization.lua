--- layers/layer_normalization.lua - each example by its own mean and variance.
-- SPDX-License-Identifier: Apache-2.0

local layer = require "tide.nn.layer"
local initializers = require "tide.variables.initializers"
local ops = require("tide.ops").ops

local normalization = {
  kind = "layer_normalization", ranks = {2, math.huge},
  options = {"epsilon", "center", "scale", "beta_initializer",
             "gamma_initializer", "beta_regularizer", "gamma_regularizer"},
  booleans = {"center", "scale"}, optional = {"gamma", "beta"},
}

function normalization:check()
  layer.within(self, "epsilon", 1e-3, 0)
end

function normalization:rows(x)
  local rows, n = {}, layer.size(self, x, -1)
  if self.scale ~= false then
    rows[1] = {"gamma", {n}, regularizer = self.gamma_regularizer,
               initializer = self.gamma_initializer or initializers.ones()}
  end
  if self.center ~= false then
    rows[#rows + 1] = {"beta", {n}, regularizer = self.beta_regularizer,
      initializer = self.beta_initializer or initializers.zeros()}
  end
  return rows
end

function normalization:apply(x, w)
  local mean = ops.mean(x, {-1}, {keep_dims = true})
  local variance = ops.mean(ops.squared_difference(x, mean), {-1},
                            {keep_dims = true})
  return ops.batch_normalization(x, mean, variance, w.beta, w.gamma,
                                 self.epsilon)
end

--- (x - mean) / sqrt(variance + epsilon) gamma + beta, along the last axis.
-- Variables gamma, beta. Options: epsilon (1e-3), center = false and scale =
-- false leave out beta and gamma; beta_initializer, gamma_initializer,
-- beta_regularizer, gamma_regularizer. Source: Ba et al. 2016.
-- @function layers.layer_normalization(x, o)
-- @usage td.layers.layer_normalization(td.ones{2, 3}).shape  --> {2, 3}
return layer.define(normalization)
