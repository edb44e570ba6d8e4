--- train/clip.lua - gradients of one step looked at together.
--
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local slices = require "tide.tensor.indexed_slices"
local ops = require("tide.ops").ops

local train = {}

local fail = errors.invalid

local function values_of(g)
  return slices.is(g) and g.values or g
end

-- Raises unless list holds gradients and false only.
local function check_gradients(list, what)
  args.check_list(list, what .. ": the gradients")
  for i, g in ipairs(list) do
    if g and not args.is_tensor(g) and not slices.is(g) then
      fail("%s takes a list of gradients; %d is %s%s", what, i, args.what(g),
        args.plain(g) and g.variable and ": give row.gradient of each row, or "
        .. "clip_norm to :apply_gradients" or "")
    end
  end
  return list
end

--- sqrt of the sum of squares of all gradients in the list; false ones are
-- skipped.
function train.global_norm(list, o)
  o = args.read(o, {"name"}, "global_norm")
  local squares = {}
  for _, g in ipairs(check_gradients(list, "global_norm")) do
    if g then squares[#squares + 1] = ops.sum(ops.square(values_of(g))) end
  end
  if #squares == 0 then fail("global_norm: the list has no gradient") end
  return ops.sqrt(ops.add_n(squares), o)
end

--- The gradients scaled so that their global norm is at most `norm`: the list,
-- and the norm it had. Source: Pascanu et al. 2013.
-- @usage local g = td.constant{3.0, 4.0}
-- td.train.clip_by_global_norm({g}, 1)[1]  --> 0.6 0.8
function train.clip_by_global_norm(list, norm)
  args.expect_positive(norm, "clip_by_global_norm: the norm")
  check_gradients(list, "clip_by_global_norm")
  local had = train.global_norm(list)
  local scale = norm / ops.maximum(had, norm)
  local out = {}
  for i, g in ipairs(list) do
    if slices.is(g) then
      out[i] = g:map(function(v) return v * scale end)
    else
      out[i] = g and g * scale
    end
  end
  return out, had
end

return train
