--- autodiff/value_and_grad.lua - derivatives of Lua functions of values.
--
-- The function is traced into a graph of its own, once for each combination of
-- dtypes and shapes; after that a call is one step. The combinations used last
-- are kept.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local gradients = require "tide.autodiff.gradients"
local ops = require("tide.ops").ops

local value_and_grad = {}

local KEPT = 32 -- combinations for each function

local function as_values(what, ...)
  local values = {}
  for i, x in ipairs{...} do
    local kind = core.kind(x)
    if kind ~= nil and kind ~= "tensor" then
      core.error("invalid_argument", ("%s: argument %d is a graph %s; it takes "
        .. "values"):format(what, i, kind == "edge" and "tensor" or kind))
    end
    -- A number stands for a point of a function of floats.
    values[i] = kind and x
      or core.tensor(x, math.type(x) == "integer" and "float32" or nil)
  end
  return values
end

local function signature(values)
  local parts = {}
  for i, v in ipairs(values) do parts[i] = v.dtype .. tostring(v.shape) end
  return table.concat(parts, ";")
end

-- A step that gives f(values) and its derivatives with respect to each.
local function trace(what, f, values)
  local g = core.graph_new()
  local _ <close> = core.push{graph = g}
  local xs = {}
  for i, v in ipairs(values) do xs[i] = ops.placeholder(v.dtype, v.shape) end
  local y = f(table.unpack(xs))
  if not args.is_tensor(y) then
    core.error("invalid_argument", what .. ": the function gives no tensor")
  end
  y = core.edge(y)
  local fetches = {y}
  for i, d in ipairs(gradients.gradients({y}, xs)) do
    fetches[i + 1] = d and core.edge(d) or ops.zeros_like(xs[i])
  end
  local s = core.session(g, {})
  s:init()
  return {session = s, fetches = fetches, xs = xs}
end

-- The step for `key`, now the first of the list `steps`; the one that was used
-- longest ago gives way.
local function step_for(steps, key, make)
  local at = 1
  while steps[at] and steps[at].key ~= key do at = at + 1 end
  local step = table.remove(steps, at)
  if not step then
    step = make()
    step.key = key
  end
  table.insert(steps, 1, step)
  if #steps > KEPT then table.remove(steps).session:close() end
  return step
end

local function differentiate(what, f)
  args.expect(f, "function", what)
  local steps = {}
  return function(...)
    local values = as_values(what, ...)
    local step = step_for(steps, signature(values), function()
      return trace(what, f, values)
    end)
    return step.session:core_run(step.fetches, step.xs, values)
  end
end

--- A function that gives the derivatives of the sum of f(x...), one for each
-- argument.
-- @usage td.grad(function(x) return x * x end)(3.0)  --> 6.0
function value_and_grad.grad(f)
  local step = differentiate("grad", f)
  return function(...) return table.unpack(step(...), 2) end
end

--- The same with f(x...) in front.
-- @usage td.value_and_grad(function(x) return x * x end)(3.0)  --> 9.0
function value_and_grad.value_and_grad(f)
  local step = differentiate("value_and_grad", f)
  return function(...) return table.unpack(step(...)) end
end

return value_and_grad
