--- layers/dense.lua - every input with every unit.
-- SPDX-License-Identifier: Apache-2.0

local affine = require "tide.nn.affine"
local layer = require "tide.nn.layer"
local ops = require("tide.ops").ops

local dense = {
  kind = "dense", positions = {"units"}, ranks = {2, math.huge},
  options = {"activation", "use_bias", "kernel_initializer",
             "bias_initializer", "kernel_regularizer", "bias_regularizer"},
  booleans = affine.booleans, optional = affine.optional,
}

function dense:check()
  layer.count(self, "units")
  affine.check(self)
end

function dense:rows(x)
  local rows = {{"kernel", {layer.size(self, x, -1), self.units},
                 initializer = self.kernel_initializer,
                 regularizer = self.kernel_regularizer}}
  rows[2] = affine.bias(self, self.units)
  return rows
end

function dense:apply(x, w)
  local rows = x.rank == 2 and x or ops.reshape(x, {-1, x:dim(-1)})
  local y = ops.matmul(rows, w.kernel)
  if w.bias then y = ops.bias_add(y, w.bias) end
  if x.rank ~= 2 then
    local shape = ops.concat({ops.shape(x)["0:-1"], {self.units}}, 0)
    y = ops.reshape(y, shape)
  end
  return affine.activate(self, y)
end

--- activation(x kernel + bias), along the last axis of x. Variables kernel
-- {depth, units}, bias {units}. Options: activation (none), use_bias (true),
-- kernel_initializer (glorot_uniform), bias_initializer (zeros),
-- kernel_regularizer, bias_regularizer.
-- @function layers.dense(x, units, o)
-- @usage td.layers.dense(td.ones{2, 3}, 4, {activation = td.relu}).shape
-- --> {2, 4}
return layer.define(dense)
