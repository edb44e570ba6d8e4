--- ops/create.lua - tensors out of nothing: constants, shapes filled, random.
--
-- These always add nodes; td.value.NAME computes them now. A shape is a list of
-- sizes (graph scalars among them are packed), a vector, or one size.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local namespace = require "tide.ops"

local ops = namespace.ops

namespace.not_methods{
  "zeros", "ones", "fill", "eye", "range", "linspace", "random_uniform",
  "random_normal", "truncated_normal", "constant", "placeholder",
}

-- Options that may also be a dtype alone.
local function options(o, what)
  if dtypes.is_name(o) then return {dtype = o} end
  return args.options(o, what)
end

-- A shape argument: an integer tensor, or a list that holds graph tensors.
local function as_dims(shape, what)
  if math.type(shape) == "integer" then shape = {shape} end
  if args.is_tensor(shape) then return shape end
  if type(shape) ~= "table" then
    core.error("invalid_argument", ("%s: a shape is a list of sizes such as "
      .. "{2, 3}, not %s"):format(what, core.kind(shape) or type(shape)))
  end
  for _, size in ipairs(shape) do
    if args.is_tensor(size) then return shape end
    if math.type(size) == "integer" and size < 0 then
      core.error("invalid_argument", ("%s: the sizes must be known, given %d")
        :format(what, size))
    end
  end
  return core.tensor(shape, "int32")
end

-- `f(shape, o)` that may also be given one table with both.
local function creator(what, known, make)
  table.insert(known, "dtype")
  table.insert(known, "name")
  ops[what] = function(shape, o)
    if o == nil and args.has_names(shape) then
      shape, o = args.split(shape)
    end
    o = args.check(options(o, what), known, what)
    return make(as_dims(shape, what), o, o.dtype or "float32")
  end
end

local function zero_of(t)
  if t == "bool" then return false end
  if t == "string" then return "" end
  return 0
end

--- Zeros of that shape; zeros{2, 3, dtype = "int64"} too. Option dtype
-- (float32).
-- @function ops.zeros(shape, o)
-- @usage td.value.zeros{2}  --> 0 0
creator("zeros", {}, function(dims, o, t)
  return core.add("Fill", {dims, zero_of(t)}, {T = t}, o.name or "zeros")
end)

--- Ones of that shape. Option dtype (float32).
-- @function ops.ones(shape, o)
-- @usage td.value.ones{2}  --> 1 1
creator("ones", {}, function(dims, o, t)
  local one = t == "bool" or 1
  return core.add("Fill", {dims, one}, {T = t}, o.name or "ones")
end)

--- A tensor of that shape, every element `value`.
-- @usage td.value.fill({2}, 7)  --> 7 7
function ops.fill(shape, value, o)
  o = args.check(options(o, "fill"), {"dtype", "name"}, "fill")
  return core.add("Fill", {as_dims(shape, "fill"), value}, {T = o.dtype},
                  o.name)
end

--- The n by m identity matrix (m = n); eye(n, {dtype = "float32"}).
-- @usage td.value.eye(2)  --> {2, 2} 1 0 0 1
function ops.eye(n, m, o)
  if type(n) == "table" and args.plain(n) then
    local list, named = args.split(n)
    n, m, o = list[1], list[2], named
  end
  if type(m) == "string" or args.plain(m) then m, o = nil, m end
  o = args.check(options(o, "eye"), {"dtype", "name"}, "eye")
  local rows = ops.expand_dims(ops.range(n), 1)
  return ops.cast(ops.equal(rows, ops.range(m or n)), o.dtype or "float32",
                  o.name)
end

-- Options at the end of a variable number of tensors.
local function trailing(list)
  local last = list[list.n]
  local is_options = type(last) == "string" or args.plain(last)
  return is_options and table.remove(list, list.n) or nil
end

--- range(limit), range(start, limit), range(start, limit, delta).
-- @usage td.value.range(1, 7, 2)  --> 1 3 5
function ops.range(...)
  local list = table.pack(...)
  local o = args.check(options(trailing(list), "range"), {"dtype", "name"},
                       "range")
  if #list == 1 then table.insert(list, 1, 0) end
  return core.add("Range", {list[1], list[2], list[3] or 1}, {Tidx = o.dtype},
                  o.name)
end

--- `num` numbers from start to stop, both included.
-- @usage td.value.linspace(0.0, 1.0, 3)  --> 0 0.5 1
function ops.linspace(start, stop, num, o)
  o = args.check(options(o, "linspace"), {"dtype", "name"}, "linspace")
  return core.add("LinSpace", {start, stop, num}, {T = o.dtype or "float32"},
                  o.name)
end

-- sample * scale + offset, without what changes nothing.
local function affine(x, scale, offset, name)
  if scale ~= 1 then
    x = core.add("Mul", {x, scale}, nil, offset == 0 and name or nil)
  end
  if offset ~= 0 then x = core.add("AddV2", {x, offset}, nil, name) end
  return x
end

--- Uniform over [minval, maxval) = [0, 1); integers need maxval. Options dtype,
-- seed.
-- @function ops.random_uniform(shape, o)
-- @usage td.random_uniform{784, 100, minval = -1}.shape  --> {784, 100}
creator("random_uniform", {"minval", "maxval", "seed"}, function(dims, o, t)
  local low, high = o.minval or 0, o.maxval
  if dtypes.is_integer(t) then
    if high == nil then
      core.error("invalid_argument", "random_uniform of integers needs maxval")
    end
    return core.add("RandomUniformInt", {dims, low, high},
                    {Tout = t, seed = o.seed}, o.name or "random_uniform")
  end
  high = high == nil and 1 or high
  local plain = low == 0 and high == 1
  local x = core.add("RandomUniform", {dims}, {dtype = t, seed = o.seed},
                     plain and o.name or "random_uniform")
  return affine(x, high - low, low, o.name)
end)

local function normal(what, op)
  creator(what, {"mean", "stddev", "seed"}, function(dims, o, t)
    local mean, stddev = o.mean or 0, o.stddev or 1
    local plain = mean == 0 and stddev == 1
    local x = core.add(op, {dims}, {dtype = t, seed = o.seed},
                       plain and o.name or what)
    return affine(x, stddev, mean, o.name)
  end)
end

--- Normal with `mean` = 0 and `stddev` = 1. Options dtype, seed.
-- @function ops.random_normal(shape, o)
-- @usage td.random_normal{2, 3}.shape  --> {2, 3}
normal("random_normal", "RandomStandardNormal")
--- The same, drawn again beyond two standard deviations.
-- @function ops.truncated_normal(shape, o)
-- @usage td.truncated_normal{2, stddev = 0.1}.dtype  --> float32
normal("truncated_normal", "TruncatedNormal")

--- A constant: constant(value, {dtype =, shape =}).
-- @usage td.constant({1, 2}, {dtype = "float64"}).dtype  --> float64
function ops.constant(value, o)
  o = args.check(options(o, "constant"), {"dtype", "shape", "name"}, "constant")
  local t = core.tensor(value, o.dtype)
  if o.shape then
    t = t.size == 1 and core.op "Fill"(core.tensor(o.shape, "int32"), t:item(),
                                       {T = t.dtype})
        or core.tensor(t, nil, o.shape)
  end
  return core.add("Const", {}, {value = t, dtype = t.dtype}, o.name)
end

--- A tensor that is fed: placeholder(dtype, shape, name). -1 is an unknown
-- size, no shape an unknown rank.
-- @usage td.placeholder("float32", {-1, 784}, "x").shape  --> {-1, 784}
function ops.placeholder(dtype, shape, o)
  if type(shape) == "string" then shape, o = nil, shape end
  o = args.read(o, {"name"}, "placeholder")
  return core.add("Placeholder", {}, {dtype = dtype, shape = shape or false},
                  o.name)
end

return {as_dims = as_dims, options = options}
