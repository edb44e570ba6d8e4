--- train/optimizers.lua - td.train.sgd, momentum, adagrad, adam, ...
--
-- Each is a formula, an op that computes it and the names of its slots, which
-- are TensorFlow's.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local optimizer = require "tide.train.optimizer"
local variables = require "tide.variables.variables"
local ops = require("tide.ops").ops

local train = {}

local base, class = optimizer.base, optimizer.class
local class_by_op, as_dtype = optimizer.class_by_op, optimizer.as_dtype

local fail = errors.invalid

--- The variable that counts training steps (int64), made on first use.
function train.global_step()
  local state = graph.state()
  if not state.global_step then
    state.global_step = variables.make(core.tensor(0, "int64"), "global_step",
                                       {trainable = false})
  end
  return state.global_step
end

local function rate(lr, what)
  if type(lr) ~= "number" and not args.is_tensor(lr) then
    fail("%s takes a learning rate: a number or a graph scalar, as in "
      .. "td.train.%s(0.01); given %s", what, what, args.what(lr))
  end
  return args.expect_number(lr, what .. ": the learning rate")
end

-- Options that are numbers: {name, what it is when absent, least, most} each.
local function numbers(o, what, rows)
  local out = {}
  for _, row in ipairs(rows) do
    local x = o[row[1]]
    if x == nil then x = row[2] end
    out[row[1]] = args.expect_number(x, what .. ": " .. row[1], row[3], row[4])
  end
  return out
end

-- ---- gradient descent -----------------------------------------------------

local new_sgd = class_by_op("GradientDescent", "GradientDescent", "lr grad", {
  sparse = function(_, v, g, s)
    return core.add("ResourceScatterSub", {v.handle, g.indices,
      g.values * s.lr}, {dtype = v.dtype})
  end,
})

--- v <- v - lr g
-- @usage local v = td.variable(4.0, "v")
-- local step = td.train.sgd(0.25):minimize(v * v)
-- local sess = td.session()
-- sess:init()
-- sess:run(step)
-- sess:run(v)  --> 2.0
function train.sgd(lr, o)
  if type(o) == "number" then
    fail("sgd takes a learning rate only; td.train.momentum(%s, %s) has a "
      .. "momentum", tostring(lr), tostring(o))
  end
  args.read(o, {}, "sgd")
  return new_sgd{lr = rate(lr, "sgd")}
end

local new_proximal_sgd = class_by_op("ProximalGradientDescent",
  "ProximalGradientDescent", "lr l1 l2 grad", {})

--- v <- v - lr g, then towards 0 by lr l1 and shorter by 1 / (1 + lr l2).
-- Options l1 (0), l2 (0). Source: Duchi, Singer 2009.
function train.proximal_sgd(lr, o)
  o = args.read(o, {"l1", "l2"}, "proximal_sgd")
  local settings = numbers(o, "proximal_sgd", {{"l1", 0.0, 0}, {"l2", 0.0, 0}})
  settings.lr = rate(lr, "proximal_sgd")
  return new_proximal_sgd(settings)
end

-- ---- momentum -------------------------------------------------------------

local new_momentum = class_by_op("Momentum", "Momentum", "lr grad momentum",
                                 {slot_names = {"Momentum"}})

--- a <- m a + g; v <- v - lr a; m is 0.9 when not given. Option nesterov.
-- Source: Sutskever et al. 2013.
function train.momentum(lr, m, o)
  if args.plain(m) then m, o = nil, m end
  o = args.read(o, {"nesterov"}, "momentum")
  local self = new_momentum{lr = rate(lr, "momentum"),
    momentum = args.expect_number(m or 0.9, "momentum: the momentum", 0)}
  self.attrs = {use_nesterov = o.nesterov or false}
  return self
end

-- ---- adagrad and what grew from it ----------------------------------------

local new_adagrad = class_by_op("Adagrad", "Adagrad", "lr grad",
                                {slot_names = {"Adagrad"}})

--- a <- a + g^2; v <- v - lr g / sqrt(a). Option initial (0.1), what a begins
-- with. Source: Duchi et al. 2011.
function train.adagrad(lr, o)
  o = args.read(o, {"initial"}, "adagrad")
  local self = new_adagrad{lr = rate(lr, "adagrad")}
  self.slot_starts = {Adagrad = numbers(o, "adagrad",
                                        {{"initial", 0.1, 0}}).initial}
  return self
end

local new_proximal_adagrad = class_by_op("ProximalAdagrad", "ProximalAdagrad",
  "lr l1 l2 grad", {slot_names = {"ProximalAdagrad"}})

--- adagrad with the rate's l1 and l2 pulls of proximal_sgd. Options l1 (0), l2
-- (0), initial (0.1). Source: Duchi, Singer 2009.
function train.proximal_adagrad(lr, o)
  o = args.read(o, {"l1", "l2", "initial"}, "proximal_adagrad")
  local settings = numbers(o, "proximal_adagrad",
    {{"l1", 0.0, 0}, {"l2", 0.0, 0}, {"initial", 0.1, 0}})
  local initial = settings.initial
  settings.initial, settings.lr = nil, rate(lr, "proximal_adagrad")
  local self = new_proximal_adagrad(settings)
  self.slot_starts = {ProximalAdagrad = initial}
  return self
end

local new_adadelta = class_by_op("Adadelta", "Adadelta", "lr rho epsilon grad",
                                 {slot_names = {"Adadelta", "Adadelta_1"}})

--- a <- r a + (1 - r) g^2; u = g sqrt(b + e) / sqrt(a + e); v <- v - lr u;
-- b <- r b + (1 - r) u^2. lr is 0.001 when not given, as TensorFlow's; the
-- paper has 1. Options rho (0.95), epsilon (1e-8). Source: Zeiler 2012.
function train.adadelta(lr, o)
  o = args.read(o, {"rho", "epsilon"}, "adadelta")
  local settings = numbers(o, "adadelta",
                           {{"rho", 0.95, 0, 1}, {"epsilon", 1e-8, 0}})
  settings.lr = rate(lr or 1e-3, "adadelta")
  return new_adadelta(settings)
end

local rmsprop_order = "lr decay momentum epsilon grad"
local new_rmsprop = class_by_op("RMSProp", "RMSProp", rmsprop_order, {
  slot_names = {"RMSProp", "RMSProp_1"}, slot_starts = {RMSProp = 1}})
local new_centered_rmsprop = class_by_op("RMSProp", "CenteredRMSProp",
  rmsprop_order, {slot_names = {"RMSProp_1", "RMSProp", "RMSProp_2"},
                  slot_starts = {RMSProp = 1}})

--- s <- d s + (1 - d) g^2; a <- m a + lr g / sqrt(s + e); v <- v - a; s begins
-- with 1. Options decay (0.9), momentum (0), epsilon (1e-10), centered: s less
-- the square of the mean gradient. Source: Tieleman, Hinton 2012.
function train.rmsprop(lr, o)
  o = args.read(o, {"decay", "momentum", "epsilon", "centered"}, "rmsprop")
  local new = o.centered and new_centered_rmsprop or new_rmsprop
  local settings = numbers(o, "rmsprop", {{"decay", 0.9, 0, 1},
    {"momentum", 0.0, 0}, {"epsilon", 1e-10, 0}})
  settings.lr = rate(lr, "rmsprop")
  return new(settings)
end

-- ---- ftrl -----------------------------------------------------------------

local ftrl_slots = {"Ftrl", "Ftrl_1"}
local new_ftrl = class_by_op("Ftrl", "Ftrl", "grad lr l1 l2 lr_power",
                             {slot_names = ftrl_slots})
local new_ftrl_v2 = class_by_op("Ftrl", "FtrlV2",
  "grad lr l1 l2 l2_shrinkage lr_power", {slot_names = ftrl_slots})

--- Follow the regularised leader: weights that the gradients do not pull by
-- more than l1 stay 0. Options l1, l2, l2_shrinkage (all 0), lr_power (-0.5),
-- initial (0.1), what the sum of squares begins with. Source: McMahan et al.
-- 2013.
function train.ftrl(lr, o)
  o = args.read(o, {"l1", "l2", "l2_shrinkage", "lr_power", "initial"}, "ftrl")
  local settings = numbers(o, "ftrl", {{"l1", 0.0, 0}, {"l2", 0.0, 0},
    {"l2_shrinkage", 0.0, 0}, {"lr_power", -0.5, nil, 0}, {"initial", 0.1, 0}})
  local initial = settings.initial
  settings.initial, settings.lr = nil, rate(lr, "ftrl")
  if o.l2_shrinkage == nil then settings.l2_shrinkage = nil end
  local self = (o.l2_shrinkage and new_ftrl_v2 or new_ftrl)(settings)
  self.slot_starts = {Ftrl = initial}
  return self
end

-- ---- adam -----------------------------------------------------------------

local adam = {slot_names = {"Adam", "Adam_1"}, power1 = false, power2 = false}

-- beta1^t and beta2^t, kept as variables beside the first one trained.
function adam:prepare(list)
  base.prepare(self, list)
  if self.power1 then return end
  for _, row in ipairs(list) do
    if row.gradient then
      local v, s = row.variable, self.settings
      local function start(x)
        if args.is_tensor(x) then return ops.cast(x, v.dtype) end
        return core.tensor(x, v.dtype)
      end
      self.power1 = optimizer.own_variable(start(s.beta1), "beta1_power", v)
      self.power2 = optimizer.own_variable(start(s.beta2), "beta2_power", v)
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
  return core.add("ResourceApplyAdam", {v.handle, m.handle, u.handle, p1, p2,
    s.lr, s.beta1, s.beta2, s.epsilon, g})
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
  local settings = numbers(o, "adam", {{"beta1", 0.9, 0, 1},
    {"beta2", 0.999, 0, 1}, {"epsilon", 1e-8, 0}})
  settings.lr = rate(lr or 1e-3, "adam")
  return new_adam(settings)
end

return train
