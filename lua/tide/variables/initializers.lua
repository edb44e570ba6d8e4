--- variables/initializers.lua - how variables begin: td.initializers.NAME(...).
--
-- Each gives a function (shape, dtype) -> graph tensor for get_variable.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local core = require "tide.core"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local initializers = {}

local fail = errors.invalid

--- All zeros.
function initializers.zeros()
  return function(shape, dtype) return ops.zeros(shape, {dtype = dtype}) end
end

--- All ones.
function initializers.ones()
  return function(shape, dtype) return ops.ones(shape, {dtype = dtype}) end
end

--- Every element `value`, or `value` in the variable's shape.
function initializers.constant(value)
  return function(shape, dtype)
    return ops.constant(value, {dtype = dtype, shape = shape})
  end
end

--- The identity matrix; option gain (1) multiplies it.
function initializers.identity(o)
  o = args.read(o, {"gain"}, "identity")
  return function(shape, dtype)
    if #shape ~= 2 then
      fail("identity: a variable of rank 2, not of shape %s",
           shapes.text(shape))
    end
    local eye = ops.eye(shape[1], shape[2], {dtype = dtype})
    return o.gain and eye * o.gain or eye
  end
end

-- All sizes but the last, multiplied.
local function columns_of(shape)
  local n = 1
  for i = 1, #shape - 1 do n = n * shape[i] end
  return n
end

--- A matrix with orthogonal rows or columns, whichever are fewer; of higher
-- rank, seen as {all but the last axis, last axis}. Options gain (1), seed.
-- Source: Saxe et al. 2014.
function initializers.orthogonal(o)
  o = args.read(o, {"gain", "seed"}, "orthogonal")
  return function(shape, dtype)
    if #shape < 2 then
      fail("orthogonal: a variable of rank 2 or more, not of shape %s",
           shapes.text(shape))
    end
    local rows, cols = columns_of(shape), shape[#shape]
    local x = ops.random_normal({math.max(rows, cols), math.min(rows, cols)},
                                {dtype = dtype, seed = o.seed})
    local q, r = core.op "Qr"(x)
    q = q * ops.sign(ops.matrix_diag_part(r))
    if rows < cols then q = ops.transpose(q) end
    return ops.reshape(q, shape) * (o.gain or 1.0)
  end
end

local function random(name, known)
  initializers[name] = function(o)
    o = args.read(o, known, name)
    return function(shape, dtype)
      local given = {dtype = dtype}
      for k, v in pairs(o) do given[k] = v end
      return ops[name](shape, given)
    end
  end
end

--- Uniform over [minval, maxval) = [0, 1); `seed` fixes the draw.
-- @function initializers.random_uniform(o)
random("random_uniform", {"minval", "maxval", "seed"})
--- Normal with `mean` = 0 and `stddev` = 1; `seed` fixes the draw.
-- @function initializers.random_normal(o)
random("random_normal", {"mean", "stddev", "seed"})
--- The same, drawn again beyond two standard deviations.
-- @function initializers.truncated_normal(o)
random("truncated_normal", {"mean", "stddev", "seed"})

-- Inputs and outputs of one unit of a weight; {..., in, out}, as convolutions
-- lay them out.
local function fans(shape)
  local n = #shape
  if n == 0 then return 1, 1 end
  if n == 1 then return shape[1], shape[1] end
  local field = 1
  for i = 1, n - 2 do field = field * shape[i] end
  return field * shape[n - 1], field * shape[n]
end

-- Standard deviation of a normal cut at two of its own, over that before.
local TRUNCATED = 0.87962566103423978

local distributions = {truncated_normal = true, normal = true,
                       untruncated_normal = true, uniform = true}

--- Variance scale / n, where n is "fan_in", "fan_out" or "fan_avg" of the
-- weight. distribution: "truncated_normal" (or "normal"), "untruncated_normal"
-- or "uniform".
function initializers.variance_scaling(o)
  o = args.read(o, {"scale", "mode", "distribution", "seed"},
                "variance_scaling")
  local mode = o.mode or "fan_in"
  local kind = o.distribution or "truncated_normal"
  if not distributions[kind] then
    fail("variance_scaling: distribution is truncated_normal, "
      .. "untruncated_normal or uniform, not %s", kind)
  end
  return function(shape, dtype)
    local fan_in, fan_out = fans(shape)
    local n = ({fan_in = fan_in, fan_out = fan_out,
                fan_avg = (fan_in + fan_out) / 2})[mode]
    if not n then
      fail("variance_scaling: mode is fan_in, fan_out or fan_avg, not %s", mode)
    end
    local variance = (o.scale or 1.0) / math.max(1, n)
    local given = {dtype = dtype, seed = o.seed}
    if kind == "uniform" then
      local limit = math.sqrt(3 * variance)
      given.minval, given.maxval = -limit, limit
      return ops.random_uniform(shape, given)
    end
    given.stddev = math.sqrt(variance)
    if kind == "untruncated_normal" then
      return ops.random_normal(shape, given)
    end
    given.stddev = given.stddev / TRUNCATED
    return ops.truncated_normal(shape, given)
  end
end

--- Uniform within sqrt(3 / n) factor of 0, where n is the product of all sizes
-- but the last. Options factor (1), seed. Source: Sussillo and Abbott 2014.
function initializers.uniform_unit_scaling(o)
  o = args.read(o, {"factor", "seed"}, "uniform_unit_scaling")
  return function(shape, dtype)
    local limit = math.sqrt(3 / math.max(1, columns_of(shape)))
      * (o.factor or 1.0)
    return ops.random_uniform(shape, {minval = -limit, maxval = limit,
                                      dtype = dtype, seed = o.seed})
  end
end

local function scaled(name, scale, mode, distribution)
  initializers[name] = function(o)
    o = args.read(o, {"seed"}, name)
    return initializers.variance_scaling{scale = scale, mode = mode,
      distribution = distribution, seed = o.seed}
  end
end

--- Glorot and Bengio 2010: variance 2 / (in + out).
-- @function initializers.glorot_uniform(o)
-- @function initializers.glorot_normal(o)
scaled("glorot_uniform", 1.0, "fan_avg", "uniform")
scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal")
--- He et al. 2015: variance 2 / in.
-- @function initializers.he_uniform(o)
-- @function initializers.he_normal(o)
scaled("he_uniform", 2.0, "fan_in", "uniform")
scaled("he_normal", 2.0, "fan_in", "truncated_normal")
--- LeCun et al. 1998: variance 1 / in.
-- @function initializers.lecun_uniform(o)
-- @function initializers.lecun_normal(o)
scaled("lecun_uniform", 1.0, "fan_in", "uniform")
scaled("lecun_normal", 1.0, "fan_in", "truncated_normal")

return initializers
