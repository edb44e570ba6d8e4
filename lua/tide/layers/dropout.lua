--- layers/dropout.lua - elements lost at random, while training.
-- SPDX-License-Identifier: Apache-2.0

local layer = require "tide.nn.layer"
local control = require "tide.control.control"
local ops = require("tide.ops").ops

local dropout = {
  kind = "dropout", positions = {"rate"},
  options = {"noise_shape", "seed", "training"},
}

function dropout:check()
  layer.within(self, "rate", 0.5)
  if type(self.rate) == "number" and not (self.rate >= 0 and self.rate < 1) then
    layer.fail(self, "the rate is in [0, 1), given %s", self.rate)
  end
end

function dropout:apply(x, _, o)
  local function dropped()
    return ops.dropout(x, {rate = self.rate, noise_shape = self.noise_shape,
                           seed = self.seed})
  end
  if o.training == true then return dropped() end
  if not o.training then return ops.identity(x) end
  return control.cond(o.training, dropped, function() return x end)
end

--- While training, each element is 0 with probability `rate` (0.5), else
-- divided by 1 - rate. Options: training (false; a boolean or a graph scalar),
-- noise_shape (1: elements along that axis go together), seed.
-- @function layers.dropout(x, rate, o)
-- @usage td.layers.dropout(td.ones{3}, 0.5)  --> 1 1 1
return layer.define(dropout)
