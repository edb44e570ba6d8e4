--- variables/regularizers.lua - what large weights cost:
-- td.regularizers.NAME(...).
--
-- Each gives a function of a variable for get_variable, variable_scope and
-- layers. What it gives joins the collection "regularization_losses", whose sum
-- is td.losses.get_regularization_loss().
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local ops = require("tide.ops").ops

local regularizers = {}

local function scale_of(scale, what)
  if type(scale) ~= "number" or scale < 0 or scale ~= scale then
    core.error("invalid_argument", ("%s takes a scale of at least 0, not %s; "
      .. "as in td.regularizers.%s(0.01)"):format(what, type(scale) == "number"
      and scale or args.what(scale), what))
  end
  return scale
end

--- scale sum(|w|)
-- @usage td.regularizers.l1(0.5)({1.0, -3.0})  --> 2
function regularizers.l1(scale)
  scale_of(scale, "l1")
  return function(w) return ops.sum(ops.abs(w)) * scale end
end

--- scale sum(w^2) / 2
-- @usage td.regularizers.l2(0.5)({1.0, -3.0})  --> 2.5
function regularizers.l2(scale)
  scale_of(scale, "l2")
  return function(w) return ops.l2_loss(w) * scale end
end

--- Both: a sum(|w|) + b sum(w^2) / 2
-- @usage td.regularizers.l1_l2(0.5, 0.5)({1.0, -3.0})  --> 4.5
function regularizers.l1_l2(a, b)
  return regularizers.sum{regularizers.l1(a), regularizers.l2(b)}
end

--- The sum of a list of regularizers.
function regularizers.sum(list)
  args.check_list(list, "regularizers.sum")
  if #list == 0 then
    core.error("invalid_argument", "regularizers.sum: the list is empty")
  end
  return function(w)
    local parts = {}
    for i, f in ipairs(list) do parts[i] = f(w) end
    return ops.add_n(parts)
  end
end

return regularizers
