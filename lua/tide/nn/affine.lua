--- nn/affine.lua - what layers of weights share: a bias, then an activation.
--
-- dense and the convolutions take options activation, use_bias,
-- bias_initializer and bias_regularizer, and add `affine.booleans` and
-- `affine.optional` to their class.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local initializers = require "tide.variables.initializers"
local layer = require "tide.nn.layer"

local affine = {booleans = {"use_bias"}, optional = {"bias"}}

--- Raises unless the options of a bias and an activation are such.
function affine.check(self)
  if self.activation ~= nil then
    args.expect_callable(self.activation, self.kind .. ": activation")
  end
end

--- The row of a bias of size n; nil where use_bias is false.
function affine.bias(self, n)
  if self.use_bias == false then return nil end
  return {"bias", {n}, regularizer = self.bias_regularizer,
          initializer = self.bias_initializer or initializers.zeros()}
end

--- y through the activation, if there is one.
function affine.activate(self, y)
  if self.activation == nil then return y end
  local out = self.activation(y)
  if args.is_tensor(out) then return out end
  return layer.fail(self, "its activation gives no tensor, but %s",
                    args.what(out))
end

return affine
