--- ops/random.lua - distributions with parameters, and numbers that are a
-- function of a seed; td.random has their short names.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local create = require "tide.ops.create"
local namespace = require "tide.ops"

local ops = namespace.ops
local as_dims, options = create.as_dims, create.options

namespace.not_methods{
  "random_gamma", "random_poisson", "parameterized_truncated_normal",
  "stateless_random_uniform", "stateless_random_normal",
  "stateless_truncated_normal",
}

--- Gamma numbers of `shape` for each `alpha`. Options beta (1, the rate),
-- dtype, seed. Alphas have gradients.
function ops.random_gamma(shape, alpha, o)
  o = args.check(options(o, "random_gamma"), {"beta", "dtype", "seed", "name"},
                 "random_gamma")
  local x = core.add("RandomGamma", {as_dims(shape, "random_gamma"), alpha},
                     {T = o.dtype, seed = o.seed}, o.name)
  return o.beta and x / o.beta or x
end

--- Poisson numbers (float32) of `shape` for each `rate`. Options dtype, seed.
function ops.random_poisson(rate, shape, o)
  o = args.check(options(o, "random_poisson"), {"dtype", "seed", "name"},
                 "random_poisson")
  return core.add("RandomPoissonV2", {as_dims(shape, "random_poisson"), rate},
                  {dtype = o.dtype or "float32", seed = o.seed}, o.name)
end

--- Normal numbers between bounds. Options means (0), stdevs (1), minvals (-2),
-- maxvals (2): scalars or one for each batch of the first axis; dtype, seed.
function ops.parameterized_truncated_normal(shape, o)
  local what = "parameterized_truncated_normal"
  o = args.check(options(o, what), {"means", "stdevs", "minvals", "maxvals",
                                    "dtype", "seed", "name"}, what)
  return core.add("ParameterizedTruncatedNormal",
    {as_dims(shape, what), o.means or 0.0, o.stdevs or 1.0, o.minvals or -2.0,
     o.maxvals or 2.0}, {dtype = o.dtype or "float32", seed = o.seed}, o.name)
end

-- A seed of two numbers; of one, with 0.
local function seeds(seed, what)
  if math.type(seed) == "integer" then seed = {seed, 0} end
  if seed == nil then
    core.error("invalid_argument", what .. " takes a shape and a seed {a, b}")
  end
  return args.is_tensor(seed) and seed or core.tensor(seed, "int64")
end

-- x * scale + offset, without what changes nothing.
local function affine(x, scale, offset, name)
  if scale ~= 1 then x = core.op "Mul"(x, scale) end
  if offset ~= 0 then x = core.op "AddV2"(x, offset) end
  return name and ops.identity(x, name) or x
end

--- Uniform over [minval, maxval) = [0, 1), a function of `seed` {a, b};
-- integers need maxval. Option dtype.
function ops.stateless_random_uniform(shape, seed, o)
  local what = "stateless_random_uniform"
  o = args.check(options(o, what), {"minval", "maxval", "dtype", "name"}, what)
  local t, low, high = o.dtype or "float32", o.minval or 0, o.maxval
  local dims = as_dims(shape, what)
  if dtypes.is_integer(t) then
    if high == nil then
      core.error("invalid_argument", what .. " of integers needs maxval")
    end
    return core.op "StatelessRandomUniformInt"(dims, seeds(seed, what), low,
                                               high, {dtype = t, name = o.name})
  end
  local x = core.op "StatelessRandomUniform"(dims, seeds(seed, what),
                                             {dtype = t})
  return affine(x, (high or 1) - low, low, o.name)
end

--- The rows of x in an order that is a function of `seed` {a, b}.
-- @usage td.stateless_shuffle({1, 2, 3}, {1, 2}).shape  --> {3}
function ops.stateless_shuffle(x, seed, o)
  o = args.read(o, {"name"}, "stateless_shuffle")
  local key, counter, alg = core.op "StatelessRandomGetKeyCounterAlg"(
    seeds(seed, "stateless_shuffle"))
  return core.op "StatelessShuffle"(x, key, counter, alg, {name = o.name})
end

local function normal(what, op)
  return function(shape, seed, o)
    o = args.check(options(o, what), {"mean", "stddev", "dtype", "name"}, what)
    local x = core.op(op)(as_dims(shape, what), seeds(seed, what),
                          {dtype = o.dtype or "float32"})
    return affine(x, o.stddev or 1, o.mean or 0, o.name)
  end
end

--- Normal with `mean` = 0 and `stddev` = 1, a function of `seed` {a, b}.
-- @function ops.stateless_random_normal(shape, seed, o)
-- @usage td.stateless_random_normal({2, 3}, {1, 2}).shape  --> {2, 3}
ops.stateless_random_normal =
  normal("stateless_random_normal", "StatelessRandomNormal")
--- The same, drawn again beyond two standard deviations.
-- @function ops.stateless_truncated_normal(shape, seed, o)
-- @usage td.stateless_truncated_normal({2}, {1, 2}).shape  --> {2}
ops.stateless_truncated_normal =
  normal("stateless_truncated_normal", "StatelessTruncatedNormal")
