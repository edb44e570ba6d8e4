--- train.lua - td.train: optimizers as ops over variables.
--
-- An optimizer is a few lines: the slots it keeps for a variable, the op that
-- applies a dense gradient, and what it does with a sparse one. Everything else
-- is shared.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local graph = require "tide.graph"
local gradients = require "tide.gradients"
local scope = require "tide.scope"
local slices = require "tide.indexed_slices"
local variables = require "tide.variables"
local ops = require("tide.ops").ops

local train = {}

local function fail(fmt, ...)
  core.error("invalid_argument", fmt:format(...))
end

-- ---- gradients together ---------------------------------------------------

local function values_of(g)
  return slices.is(g) and g.values or g
end

--- sqrt of the sum of squares of all gradients in the list; false ones are
-- skipped.
function train.global_norm(list, o)
  local squares = {}
  for _, g in ipairs(list) do
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

--- The variable that counts training steps (int64), made on first use.
function train.global_step()
  local state = graph.state()
  if not state.global_step then
    state.global_step = variables.make(core.tensor(0, "int64"), "global_step",
                                       {trainable = false})
  end
  return state.global_step
end

-- ---- optimizers -----------------------------------------------------------

local optimizer = {}
optimizer.__index = optimizer

--- The gradients of loss: a list of {gradient =, variable =}; gradient is false
-- where loss does not depend on the variable.
function optimizer:compute_gradients(loss, o)
  o = args.read(o, {"variables", "grad_loss"}, "compute_gradients")
  local list = o.variables or variables.trainable_variables()
  if #list == 0 then fail("%s: there is no variable to train", self.name) end
  local found = gradients.gradients({loss}, list,
                                    {grad_ys = o.grad_loss and {o.grad_loss}})
  local out = {}
  for i, v in ipairs(list) do out[i] = {gradient = found[i], variable = v} end
  return out
end

local function check_gradient(self, row)
  local v, g = row.variable, row.gradient
  if not variables.is_variable(v) then
    fail("%s: apply_gradients takes a list of {gradient =, variable =}",
         self.name)
  end
  if g and g.dtype ~= v.dtype then
    fail("%s: the gradient of \"%s\" is %s, the variable %s", self.name, v.name,
         g.dtype, v.dtype)
  end
end

local function clip(list, norm)
  local only, out = {}, {}
  for i, row in ipairs(list) do only[i] = row.gradient end
  only = train.clip_by_global_norm(only, norm)
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
  o = args.read(o, {"global_step", "clip_norm", "name"}, "apply_gradients")
  for _, row in ipairs(list) do check_gradient(self, row) end
  self:prepare(list)
  return scope.name_scope(o.name or self.name, function()
    if o.clip_norm then list = clip(list, o.clip_norm) end
    local done = updates(self, list)
    for _, op in ipairs(self:finish(done)) do done[#done + 1] = op end
    if not o.global_step then return scope.group(done, "train") end
    return scope.control_dependencies(done, function()
      return core.add("AssignAddVariableOp", {o.global_step.handle,
        core.tensor(1, o.global_step.dtype)}, nil, "count")
    end)
  end)
end

--- An op that takes one step down the gradient of loss. Options: variables
-- (all trainable ones), global_step, clip_norm, name.
function optimizer:minimize(loss, o)
  o = args.read(o, {"variables", "global_step", "clip_norm", "name",
                    "grad_loss"}, "minimize")
  local list = self:compute_gradients(loss, {variables = o.variables,
                                             grad_loss = o.grad_loss})
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
  if not found then
    local start = self.slot_start or 0
    found = own_variable(function()
      return ops.fill(v.shape or ops.shape(v.initial_value),
                      core.tensor(start, v.dtype))
    end, v.name .. "/" .. slot, v)
    self.slots[slot][v] = found
  end
  return found
end

-- A class of optimizers; `fields` are its methods and constants.
local function class(name, fields)
  fields.name = name
  fields.__index = fields
  setmetatable(fields, optimizer)
  return function(settings)
    return setmetatable({settings = settings, slots = {}}, fields)
  end
end

local function rate(lr, what)
  if type(lr) ~= "number" and not args.is_tensor(lr) then
    fail("%s takes a learning rate: a number or a graph scalar", what)
  end
  return lr
end

local function apply(op, inputs, attrs)
  return core.add(op, inputs, attrs)
end

-- ---- gradient descent -----------------------------------------------------

local new_sgd = class("GradientDescent", {
  dense = function(_, v, g, s)
    return apply("ResourceApplyGradientDescent", {v.handle, s.lr, g})
  end,
  sparse = function(_, v, g, s)
    return apply("ResourceScatterSub", {v.handle, g.indices, g.values * s.lr},
                 {dtype = v.dtype})
  end,
})

--- v <- v - lr g
-- @usage local v = td.variable(4.0, "v")
-- local step = td.train.sgd(0.25):minimize(v * v)
-- local sess = td.session()
-- sess:init()
-- sess:run(step)
-- sess:run(v)  --> 2.0
function train.sgd(lr)
  return new_sgd{lr = rate(lr, "sgd")}
end

-- ---- momentum -------------------------------------------------------------

local new_momentum = class("Momentum", {
  slot_names = {"Momentum"},
  dense = function(self, v, g, s)
    local a = self:slot(v, "Momentum")
    return apply("ResourceApplyMomentum", {v.handle, a.handle, s.lr, g,
      s.momentum}, {use_nesterov = self.nesterov})
  end,
  sparse = function(self, v, g, s)
    local a = self:slot(v, "Momentum")
    return apply("ResourceSparseApplyMomentum", {v.handle, a.handle, s.lr,
      g.values, g.indices, s.momentum}, {use_nesterov = self.nesterov})
  end,
})

--- a <- m a + g; v <- v - lr a. Option nesterov. Source: Sutskever et al. 2013.
function train.momentum(lr, m, o)
  o = args.read(o, {"nesterov"}, "momentum")
  local self = new_momentum{lr = rate(lr, "momentum"), momentum = m or 0.9}
  self.nesterov = o.nesterov or false
  return self
end

-- ---- adagrad --------------------------------------------------------------

local new_adagrad = class("Adagrad", {
  slot_names = {"Adagrad"},
  dense = function(self, v, g, s)
    local a = self:slot(v, "Adagrad")
    return apply("ResourceApplyAdagrad", {v.handle, a.handle, s.lr, g})
  end,
  sparse = function(self, v, g, s)
    local a = self:slot(v, "Adagrad")
    return apply("ResourceSparseApplyAdagrad", {v.handle, a.handle, s.lr,
                                                g.values, g.indices})
  end,
})

--- a <- a + g^2; v <- v - lr g / sqrt(a). Option initial (0.1), what a begins
-- with. Source: Duchi et al. 2011.
function train.adagrad(lr, o)
  o = args.read(o, {"initial"}, "adagrad")
  local self = new_adagrad{lr = rate(lr, "adagrad")}
  self.slot_start = o.initial or 0.1
  return self
end

-- ---- adam -----------------------------------------------------------------

local adam = {slot_names = {"Adam", "Adam_1"}}

-- beta1^t and beta2^t, kept as variables beside the first one trained.
function adam:prepare(list)
  optimizer.prepare(self, list)
  if self.power1 then return end
  for _, row in ipairs(list) do
    if row.gradient then
      local v, s = row.variable, self.settings
      local function start(x)
        if args.is_tensor(x) then return ops.cast(x, v.dtype) end
        return core.tensor(x, v.dtype)
      end
      self.power1 = own_variable(start(s.beta1), "beta1_power", v)
      self.power2 = own_variable(start(s.beta2), "beta2_power", v)
      return
    end
  end
end

function adam:powers(dtype)
  return ops.cast(self.power1:read(), dtype),
         ops.cast(self.power2:read(), dtype)
end

function adam:dense(v, g, s)
  local m, u = self:slot(v, "Adam"), self:slot(v, "Adam_1")
  local p1, p2 = self:powers(v.dtype)
  return apply("ResourceApplyAdam", {v.handle, m.handle, u.handle, p1, p2, s.lr,
    s.beta1, s.beta2, s.epsilon, g})
end

-- All rows decay; those with a gradient get it added. As TensorFlow does, so
-- that sparse and dense gradients train alike.
function adam:sparse(v, g, s)
  local p1, p2 = self:powers(v.dtype)
  local lr = s.lr * ops.sqrt(1 - p2) / (1 - p1)
  local function decayed(slot, beta, x)
    local var = self:slot(v, slot)
    local scaled = var:assign(var * beta)
    local _ <close> = core.push{controls = {scaled.op}}
    return var:scatter_add(g.indices, x * (1 - beta))
  end
  local m = decayed("Adam", s.beta1, g.values)
  local u = decayed("Adam_1", s.beta2, ops.square(g.values))
  return v:assign_sub(lr * m / (ops.sqrt(u) + s.epsilon))
end

-- After all variables: the powers of the next step.
function adam:finish(done)
  local out = {}
  local _ <close> = core.push{controls = done}
  for i, pair in ipairs{{self.power1, "beta1"}, {self.power2, "beta2"}} do
    local power = pair[1]
    local beta = as_dtype(self.settings[pair[2]], power.dtype)
    out[i] = power:assign(power * beta).op
  end
  return out
end

local new_adam = class("Adam", adam)

--- m <- b1 m + (1 - b1) g; u <- b2 u + (1 - b2) g^2;
-- v <- v - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(u) + e).
-- Options beta1 (0.9), beta2 (0.999), epsilon (1e-8). Source: Kingma, Ba 2015.
function train.adam(lr, o)
  o = args.read(o, {"beta1", "beta2", "epsilon"}, "adam")
  return new_adam{lr = rate(lr or 1e-3, "adam"), beta1 = o.beta1 or 0.9,
                  beta2 = o.beta2 or 0.999, epsilon = o.epsilon or 1e-8}
end

return train
