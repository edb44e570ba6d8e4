--- train/schedules.lua - learning rates as functions of the step.
--
-- Each gives a float32 graph scalar to hand to an optimizer; `step` is a
-- variable (td.train.global_step()), a graph tensor or a number.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local ops = require("tide.ops").ops

local train = {}

local fail = errors.invalid

-- x as float32, for arithmetic with the step.
local function float(x, what)
  if type(x) ~= "number" and not args.is_tensor(x) then
    fail("%s must be a number or a scalar, given %s", what, args.what(x))
  end
  return ops.cast(core.edge(x), "float32")
end

local function positive(n, what)
  if type(n) == "number" and (n <= 0 or n ~= n) then
    fail("%s must be above 0, given %g", what, n)
  end
  return float(n, what)
end

-- Periods of n steps that are over, whole ones with staircase.
local function periods(step, n, o, what)
  local p = float(step, what .. ": step") / positive(n, what .. ": n")
  return o.staircase and ops.floor(p) or p
end

--- lr rate^(step / n). Option staircase: whole powers only.
-- @usage td.train.exponential_decay(0.5, 4, 2, 0.5):eval()  --> 0.125
function train.exponential_decay(lr, step, n, rate, o)
  o = args.read(o, {"staircase", "name"}, "exponential_decay")
  local p = periods(step, n, o, "exponential_decay")
  return ops.multiply(float(lr, "exponential_decay: lr"),
                      float(rate, "exponential_decay: rate") ^ p, o.name)
end

--- lr exp(-rate step / n). Option staircase.
-- @usage td.train.natural_exp_decay(2.0, 0, 10, 0.5):eval()  --> 2.0
function train.natural_exp_decay(lr, step, n, rate, o)
  o = args.read(o, {"staircase", "name"}, "natural_exp_decay")
  local p = periods(step, n, o, "natural_exp_decay")
  return ops.multiply(float(lr, "natural_exp_decay: lr"),
    ops.exp(-float(rate, "natural_exp_decay: rate") * p), o.name)
end

--- lr / (1 + rate step / n). Option staircase.
-- @usage td.train.inverse_time_decay(1.0, 2, 1, 0.5):eval()  --> 0.5
function train.inverse_time_decay(lr, step, n, rate, o)
  o = args.read(o, {"staircase", "name"}, "inverse_time_decay")
  local p = periods(step, n, o, "inverse_time_decay")
  return ops.truediv(float(lr, "inverse_time_decay: lr"),
    1 + float(rate, "inverse_time_decay: rate") * p, o.name)
end

--- From lr to `last` (1e-4) in n steps: (lr - last) (1 - step / n)^power +
-- last. Options power (1), last, cycle: begin again, over 2 n, 3 n, ... steps.
-- @usage td.train.polynomial_decay(1.0, 5, 10, {last = 0.0}):eval()  --> 0.5
function train.polynomial_decay(lr, step, n, o)
  o = args.read(o, {"power", "last", "cycle", "name"}, "polynomial_decay")
  step = float(step, "polynomial_decay: step")
  n = positive(n, "polynomial_decay: n")
  if o.cycle then
    n = n * ops.maximum(ops.ceil(step / n), 1.0)
  else
    step = ops.minimum(step, n)
  end
  local last = float(o.last or 1e-4, "polynomial_decay: last")
  local span = float(lr, "polynomial_decay: lr") - last
  return ops.add(span * (1 - step / n)
    ^ float(o.power or 1.0, "polynomial_decay: power"), last, o.name)
end

--- values[1] up to step boundaries[1], then values[2] up to boundaries[2], ...;
-- one value more than boundaries.
-- @usage td.train.piecewise_constant(5, {4}, {1.0, 0.5}):eval()  --> 0.5
function train.piecewise_constant(step, boundaries, values, o)
  o = args.read(o, {"name"}, "piecewise_constant")
  args.check_list(boundaries, "piecewise_constant: boundaries")
  args.check_list(values, "piecewise_constant: values")
  if #values ~= #boundaries + 1 then
    fail("piecewise_constant takes one value more than boundaries; given %d "
      .. "values and %d boundaries", #values, #boundaries)
  end
  for i = 2, #boundaries do
    if boundaries[i] <= boundaries[i - 1] then
      fail("piecewise_constant: boundaries must grow, but %g follows %g",
           boundaries[i], boundaries[i - 1])
    end
  end
  step = core.edge(step)
  local lr = float(values[#values], "piecewise_constant: a value")
  for i = #boundaries, 1, -1 do
    local here = ops.less_equal(step, boundaries[i])
    lr = ops.where(here, float(values[i], "piecewise_constant: a value"), lr)
  end
  return ops.identity(lr, o.name)
end

-- Half a cosine from 1 at p = 0 to `last` at p = 1.
local function half_cosine(p, last)
  return (1 - last) * 0.5 * (1 + ops.cos(math.pi * p)) + last
end

--- lr times half a cosine from 1 down to `last` (0) in n steps. Source:
-- Loshchilov, Hutter 2017.
-- @usage td.train.cosine_decay(1.0, 5, 10):eval()  --> 0.5
function train.cosine_decay(lr, step, n, o)
  o = args.read(o, {"last", "name"}, "cosine_decay")
  n = positive(n, "cosine_decay: n")
  local p = ops.minimum(float(step, "cosine_decay: step"), n) / n
  return ops.multiply(float(lr, "cosine_decay: lr"),
                      half_cosine(p, o.last or 0.0), o.name)
end

--- cosine_decay that begins again when it is over, each time over `longer` (2)
-- times as many steps and from `lower` (1) times as high. Option last (0).
-- Source: Loshchilov, Hutter 2017.
-- @usage td.train.cosine_decay_restarts(1.0, 10, 10):eval()  --> 1.0
function train.cosine_decay_restarts(lr, step, n, o)
  o = args.read(o, {"longer", "lower", "last", "name"}, "cosine_decay_restarts")
  local longer, lower = o.longer or 2.0, o.lower or 1.0
  local p = float(step, "cosine_decay_restarts: step")
    / positive(n, "cosine_decay_restarts: n")
  local round
  if longer == 1 then
    round = ops.floor(p)
    p = p - round
  else
    round = ops.floor(ops.log(1 - p * (1 - longer)) / math.log(longer))
    local before = (1 - ops.pow(longer, round)) / (1 - longer)
    p = (p - before) / ops.pow(longer, round)
  end
  local height = ops.pow(lower, round)
  local last = o.last or 0.0
  return ops.multiply(float(lr, "cosine_decay_restarts: lr"),
    height * (1 - last) * 0.5 * (1 + ops.cos(math.pi * p)) + last, o.name)
end

return train
