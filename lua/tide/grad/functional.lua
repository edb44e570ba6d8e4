--- grad/functional.lua - gradients of If, Case and While, whose branches and
-- bodies are functions of a file.
--
-- What TensorFlow would keep of the way forward is not there, so the gradient
-- runs it once more: the op is built again from calls of its functions inside
-- td.cond and td.while_loop, which have gradients. That must not change
-- anything a second time: functions that draw, update or take from a queue are
-- refused.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local backprop = require "tide.autodiff.backprop"
local control = require "tide.control.control"
local func = require "tide.graph.func"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local rules = {}

-- ---- calls ----------------------------------------------------------------

local function refuse(op, name, inner)
  errors.raise("unimplemented", "the gradient of %s \"%s\" runs function "
    .. "\"%s\" again, whose \"%s\" (%s) has an effect or draws; take the "
    .. "gradient in TensorFlow, before the graph is saved, or take that node "
    .. "out of the function", op.type, op.name, name, inner.name, inner.type)
end

-- Calls function `name`, which gives tensors of those dtypes.
local function call(op, name, inputs, types)
  local out = core.add("PartitionedCall", {inputs}, {Tout = types, f = name},
                       "again")
  local made = out[1].op
  core.function_infer(made)
  local inner = func.acting(made)
  if inner then refuse(op, name, inner) end
  return out
end

local function types_of(op)
  local types = {}
  for i, y in ipairs(op.outputs) do types[i] = y.dtype end
  return types
end

-- ---- building again -------------------------------------------------------

-- As many conds as there are branches but one: the last is for all other
-- numbers.
local function choose(op, names, is, inputs, types)
  local function from(k)
    if k == #names then return call(op, names[k], inputs, types) end
    return table.pack(control.cond(is(k), function()
      return table.unpack(call(op, names[k], inputs, types))
    end, function() return table.unpack(from(k + 1)) end))
  end
  return from(1)
end

local again = {}

function again.If(op, all)
  local inputs = table.move(all, 2, #all, 1, {})
  local yes = core.op "ToBool"(all[1])
  return choose(op, {op.attr.then_branch, op.attr.else_branch},
                function() return yes end, inputs, types_of(op))
end

function again.Case(op, all)
  local inputs = table.move(all, 2, #all, 1, {})
  return choose(op, op.attr.branches, function(k)
    return all[1]:equal(k - 1)
  end, inputs, types_of(op))
end

-- By input: does the body hand it on as it came?
local function handed_on(op, all)
  local out = call(op, op.attr.body, all, types_of(op))
  local _, xs, ys = core.function_body(out[1].op)
  local same = {}
  for i, y in ipairs(ys) do
    while y.op.type == "Identity" do y = y.op.inputs[1] end
    same[i] = y == xs[i]
  end
  return same
end

function again.While(op, all)
  local same = handed_on(op, all)
  local types, vars, invariants = types_of(op), {}, {}
  for i, x in ipairs(all) do
    if not same[i] then
      vars[#vars + 1] = x
      local said = op.outputs[i].shape
      invariants[#vars] = said and shapes.allows(said, x.shape) and said
                          or false
    end
  end
  if #vars == 0 then return all end
  -- The variables among all that the functions take.
  local function with(given)
    local list, k = {}, 0
    for i, x in ipairs(all) do
      if not same[i] then k = k + 1 end
      list[i] = same[i] and x or given[k]
    end
    return list
  end
  local out = table.pack(control.while_loop(function(...)
    local more = call(op, op.attr.cond, with{...}, {"bool"})[1]
    return more:set_shape{}
  end, function(...)
    local results = {}
    for i, y in ipairs(call(op, op.attr.body, with{...}, types)) do
      if not same[i] then results[#results + 1] = y end
    end
    return table.unpack(results)
  end, vars, {shape_invariants = invariants,
              parallel_iterations = op.attr.parallel_iterations}))
  return with(out)
end

-- ---- rules ----------------------------------------------------------------

local function differentiate(op, build, ...)
  local all, xs = {}, {}
  for i, x in ipairs(op.inputs) do
    all[i] = ops.identity(x) -- one may come twice
  end
  local within, at = {}, {}
  for i, x in ipairs(all) do
    if dtypes.differentiable(x.dtype) then
      xs[#xs + 1], at[i], within[x] = x, #xs + 1, true
    end
  end
  local ys, dys = {}, {}
  for i, y in ipairs(build(op, all)) do
    local dy = select(i, ...)
    if dy then ys[#ys + 1], dys[#dys + 1] = y, dy end
  end
  local found = backprop.walk(ys, dys, xs, {stop = {}, within = within})
  local list = {}
  for i = 1, #all do list[i] = at[i] and found[at[i]] or false end
  return table.unpack(list, 1, #all)
end

for name, build in pairs(again) do
  local function rule(op, ...) return differentiate(op, build, ...) end
  rules[name], rules["Stateless" .. name] = rule, rule
end

return rules
