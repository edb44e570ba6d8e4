--- functions.lua - derivatives of Lua functions of values.
--
-- The function is traced into a graph of its own, once for each combination of
-- dtypes and shapes; after that a call is one step.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local gradients = require "tide.gradients"
local ops = require("tide.ops").ops

local functions = {}

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
  return function(...) return s:core_run(fetches, xs, {...}) end
end

local function differentiate(what, f)
  args.expect(f, "function", what)
  local steps = {}
  return function(...)
    local values = as_values(what, ...)
    local key = signature(values)
    steps[key] = steps[key] or trace(what, f, values)
    return steps[key](table.unpack(values))
  end
end

--- A function that gives the derivatives of the sum of f(x...), one for each
-- argument: td.grad(function(x) return x * x end)(3.0) is 6.0.
function functions.grad(f)
  local step = differentiate("grad", f)
  return function(...) return table.unpack(step(...), 2) end
end

--- The same with f(x...) in front.
function functions.value_and_grad(f)
  local step = differentiate("value_and_grad", f)
  return function(...) return table.unpack(step(...)) end
end

return functions
