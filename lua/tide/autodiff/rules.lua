--- autodiff/rules.lua - which rule gives the gradient of an op.
--
-- One rule per op type (grad/*.lua, or the user's) turns gradients of its
-- outputs into gradients of its inputs; a note on a node names another.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local modules = require "tide.base.modules"
local scope = require "tide.graph.scope"

local rules = {
  source = "gradients", -- the name of the gradients being built
}

local fail = errors.raise

-- Of the op whose rule runs: is the gradient of input i asked for?
local asked

--- Runs a rule, which can ask of which inputs the gradient is wanted.
-- @param wanted function(tensor) -> boolean
function rules.apply(rule, op, wanted, ...)
  local _ <close> = setmetatable({asked}, {__close = function(o)
    asked = o[1]
  end})
  asked = function(i) return wanted(op.inputs[i]) end
  return table.pack(rule(op, ...))
end

--- For rules: is the gradient of input i asked for? What is not need not be
-- built: in a loop it would save a value in every iteration.
function rules.wants(i)
  return asked == nil or asked(i)
end

local known -- by op type; loaded when the first gradient is asked for
local none = {} -- by op type: is its gradient none, on purpose?

-- All or none, whenever an interrupt comes.
local function load_rules()
  local all = {}
  for _, name in ipairs(modules "grad") do
    for op, rule in pairs(require("tide.grad." .. name)) do all[op] = rule end
  end
  known = all
end

local function has_none(op)
  local type = op.type
  if none[type] == nil then none[type] = core.op_info(op).no_gradient end
  return none[type]
end

--- The rule of an op type: a function, false for none on purpose, or nil.
function rules.get(type)
  if not known then load_rules() end
  return known[type]
end

--- Declares the gradient of an op type, or of a name that
-- gradient_override_map uses.
-- @param type "MyOp"
-- @param rule function(op, dy, ...) -> one gradient for each of op.inputs, or
-- false; dy are the gradients of op.outputs, false where there is none
function rules.register(type, rule)
  args.expect(type, "string", "register_gradient: the op")
  args.expect(rule, "function", "register_gradient: the rule")
  if rules.get(type) then
    fail("already_exists", "the gradient of %s is registered already", type)
  end
  known[type] = rule
end

--- Inside f, ops of type A get the gradient registered as B: {A = "B"}.
function rules.override_map(map, f, ...)
  local notes = {}
  for op, name in pairs(map) do
    if not core.op(op) then
      fail("not_found", "gradient_override_map: there is no op \"%s\"", op)
    end
    notes[op] = {_gradient_op_type = name}
  end
  return scope.enter({notes = notes}, f, ...)
end

--- The rule for an op: a function, or false for none on purpose.
-- @raise not_found when nobody gave one
function rules.of(op)
  local name = op.attr._gradient_op_type
  if name then
    return rules.get(name) or fail("not_found", "no gradient is "
      .. "registered as \"%s\", which gradient_override_map gave to \"%s\"",
      name, op.name)
  end
  local rule = rules.get(op.type)
  if rule ~= nil or has_none(op) then return rule end
  fail("not_found", "no gradient is defined for op %s (node \"%s\", made at "
    .. "%s); give one with td.register_gradient, or stop there with "
    .. "td.stop_gradient", op.type, op.name, op.origin)
end

return rules
