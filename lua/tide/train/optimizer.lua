--- train/optimizer.lua - what all optimizers share.
--
-- An optimizer is a few lines: the slots it keeps for a variable, the op that
-- applies a dense gradient, and what it does with a sparse one. Gradients,
-- clipping, slots and counting are here.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local clip = require "tide.train.clip"
local gradients = require "tide.autodiff.gradients"
local scope = require "tide.graph.scope"
local slices = require "tide.tensor.indexed_slices"
local variables = require "tide.variables.variables"
local ops = require("tide.ops").ops

-- What a class may leave out.
local optimizer = {slot_names = {}, slot_starts = {}, attrs = {}}

local fail = errors.invalid

-- Raises unless all of a list are variables.
local function check_variables(self, list)
  if not args.plain(list) then
    fail("%s: variables is a list such as {w, b}, not %s", self.name,
      variables.is_variable(list) and "one variable: put it in braces"
      or args.what(list))
  end
  for i, v in ipairs(args.check_list(list, self.name .. ": variables")) do
    if not variables.is_variable(v) then
      fail("%s: %d of the variables is %s; give what td.variable made",
           self.name, i, args.what(v))
    end
  end
  return list
end

-- Called as optimizer.minimize(loss), `self` is no optimizer.
local function check_self(self, what)
  local meta = type(self) == "table" and getmetatable(self)
  if not meta or not meta.is_optimizer then
    fail("%s is called with a colon, as in td.train.sgd(0.1):%s(...); its "
      .. "first argument is %s", what, what, args.what(self))
  end
end

--- The gradients of loss: a list of {gradient =, variable =}; gradient is false
-- where loss does not depend on the variable. Options: variables, grad_loss,
-- colocate (as td.gradients').
function optimizer:compute_gradients(loss, o)
  check_self(self, "compute_gradients")
  o = args.read(o, {"variables", "grad_loss", "colocate"},
                "compute_gradients")
  if not args.is_tensor(loss) then
    fail("%s: the loss is a graph tensor, not %s", self.name, args.what(loss))
  end
  local list = check_variables(self, o.variables
                               or variables.trainable_variables())
  if #list == 0 then
    fail("%s: there is no variable to train; td.variable and layers make them",
         self.name)
  end
  local found = gradients.gradients({loss}, list,
                                    {grad_ys = o.grad_loss and {o.grad_loss},
                                     colocate = o.colocate})
  local out = {}
  for i, v in ipairs(list) do out[i] = {gradient = found[i], variable = v} end
  return out
end

local function check_gradient(self, row)
  local v, g = nil, nil
  if args.plain(row) then v, g = row.variable, row.gradient end
  if not variables.is_variable(v) then
    fail("%s: apply_gradients takes a list of {gradient =, variable =}, as "
      .. ":compute_gradients gives", self.name)
  end
  if g and not args.is_tensor(g) and not slices.is(g) then
    fail("%s: the gradient of \"%s\" is a graph tensor or false, not %s",
         self.name, v.name, args.what(g))
  end
  if g and g.dtype ~= v.dtype then
    fail("%s: the gradient of \"%s\" is %s, the variable %s", self.name, v.name,
         g.dtype, v.dtype)
  end
end

local function clipped(list, norm)
  local only, out = {}, {}
  for i, row in ipairs(list) do only[i] = row.gradient end
  only = clip.clip_by_global_norm(only, norm)
  for i, row in ipairs(list) do
    out[i] = {gradient = only[i], variable = row.variable}
  end
  return out
end

-- A setting as a tensor of the variable's dtype; numbers stay.
local function as_dtype(x, dtype)
  return args.is_tensor(x) and ops.cast(x, dtype) or x
end

local function settings_for(self, dtype)
  local out = {}
  for _, name in ipairs(args.sorted_keys(self.settings)) do
    out[name] = as_dtype(self.settings[name], dtype)
  end
  return out
end

-- The ops that update all variables of the list.
local function updates(self, list)
  local done, any = {}, false
  for _, row in ipairs(list) do
    local v, g = row.variable, row.gradient
    if g then
      any = true
      local _ <close> = core.push{prefix = core.scope().prefix .. "update_"
                                  .. v.name .. "/", colocate = v.op}
      local settings = settings_for(self, v.dtype)
      local update = slices.is(g) and self.sparse or self.dense
      if slices.is(g) then g = g:unique() end
      done[#done + 1] = scope.op_of(update(self, v, g, settings), self.name)
    end
  end
  if not any then
    fail("%s: no variable has a gradient; does the loss depend on them?",
         self.name)
  end
  return done
end

--- An op that changes the variables by a list of {gradient =, variable =}.
-- Options: global_step, a variable to count with; clip_norm; name.
function optimizer:apply_gradients(list, o)
  check_self(self, "apply_gradients")
  o = args.read(o, {"global_step", "clip_norm", "name"}, "apply_gradients")
  args.check_list(list, self.name .. ": the gradients")
  for _, row in ipairs(list) do check_gradient(self, row) end
  if o.clip_norm ~= nil then
    args.expect_positive(o.clip_norm, self.name .. ": clip_norm")
  end
  self:prepare(list)
  return scope.name_scope(o.name or self.name, function()
    if o.clip_norm then list = clipped(list, o.clip_norm) end
    local done = updates(self, list)
    for _, op in ipairs(self:finish(done)) do done[#done + 1] = op end
    return self:count(done, o.global_step)
  end)
end

--- The op that runs after a list of ops, and counts with a variable if any.
function optimizer:count(done, step)
  if step == nil then return scope.group(done, "train") end
  if not variables.is_variable(step) or not step.dtype:find "^int" then
    fail("%s: global_step is a variable of int32 or int64 to count with, such "
      .. "as td.train.global_step(), not %s", self.name,
      variables.is_variable(step) and step.dtype or args.what(step))
  end
  return scope.control_dependencies(done, function()
    return core.add("AssignAddVariableOp", {step.handle,
      core.tensor(1, step.dtype)}, nil, "count")
  end)
end

--- An op that takes one step down the gradient of loss. Options: variables
-- (all trainable ones), global_step, clip_norm (above 0: no longer than that
-- are all gradients together), colocate (each gradient is on the device of the
-- op that it is of), name.
function optimizer:minimize(loss, o)
  check_self(self, "minimize")
  o = args.read(o, {"variables", "global_step", "clip_norm", "name",
                    "grad_loss", "colocate"}, "minimize")
  local list = self:compute_gradients(loss, {variables = o.variables,
                                             grad_loss = o.grad_loss,
                                             colocate = o.colocate})
  return self:apply_gradients(list, {global_step = o.global_step,
                                     clip_norm = o.clip_norm, name = o.name})
end

-- ---- slots ----------------------------------------------------------------

--- Slots a subclass names in `slot_names`; made outside the update's scopes, so
-- that they are called <variable>/<name>.
function optimizer:prepare(list)
  for _, row in ipairs(list) do
    for _, slot in ipairs(row.gradient and self.slot_names or {}) do
      self:slot(row.variable, slot)
    end
  end
end

--- What a subclass adds after all updates: a list of ops.
function optimizer.finish(_, _) return {} end

-- A variable of the optimizer's own.
local function own_variable(initial, name, beside)
  local _ <close> = core.push{colocate = beside.op}
  return variables.make(initial, name, {trainable = false})
end

--- The variable that keeps `slot` for v, made on first use.
function optimizer:slot(v, slot)
  self.slots[slot] = self.slots[slot] or setmetatable({}, {__mode = "k"})
  local found = self.slots[slot][v]
  if not found or core.is_gone(found.handle) then
    local start = self.slot_starts[slot] or 0
    found = own_variable(function()
      return ops.fill(v.shape or ops.shape(v.initial_value),
                      core.tensor(start, v.dtype))
    end, v.name .. "/" .. slot, v)
    self.slots[slot][v] = found
  end
  return found
end

-- What neither an object of the class `name` nor the class has.
local function unknown(name, key)
  if type(key) ~= "string" then return nil end
  local methods = {"minimize", "compute_gradients", "apply_gradients"}
  return fail("%s has no \"%s\"%s; it has :%s", name, key,
    errors.did_you_mean(key, methods), table.concat(methods, ", :"))
end

-- A class of optimizers; `fields` are its methods and constants: dense(v, g, s)
-- and sparse(v, g, s) make the op that applies a gradient, s being the settings
-- in v's dtype. Gives what makes an object of settings, and the fields.
local function class(name, fields)
  fields.name, fields.is_optimizer, fields.__name = name, true, "optimizer"
  function fields.__index(_, key)
    local x = fields[key]
    if x == nil then x = optimizer[key] end
    if x == nil then return unknown(name, key) end
    return x
  end
  function fields.__tostring() return "optimizer " .. name end
  return function(settings)
    return setmetatable({settings = settings, slots = {}}, fields)
  end, fields
end

-- A class whose steps are one op each: ResourceApply<op> for a dense gradient
-- and ResourceSparseApply<op> for rows. `order` names what they take after the
-- variable and its slots: settings, and "grad".
local function class_by_op(name, op, order, fields)
  local function update(prefix)
    return function(self, v, g, s)
      local inputs = {v.handle}
      for _, slot in ipairs(self.slot_names) do
        inputs[#inputs + 1] = self:slot(v, slot).handle
      end
      for word in order:gmatch "%S+" do
        if word ~= "grad" then
          inputs[#inputs + 1] = s[word]
        elseif slices.is(g) then
          inputs[#inputs + 1] = g.values
          inputs[#inputs + 1] = g.indices
        else
          inputs[#inputs + 1] = g
        end
      end
      return core.add(prefix .. op, inputs, self.attrs)
    end
  end
  fields.dense = update "ResourceApply"
  fields.sparse = fields.sparse or update "ResourceSparseApply"
  return class(name, fields)
end

return {base = optimizer, class = class, class_by_op = class_by_op,
        own_variable = own_variable, as_dtype = as_dtype}
