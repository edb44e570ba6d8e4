--- ops/math.lua - reductions, products, and what operators mean.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtype = require "tide.tensor.dtype"
local namespace = require "tide.ops"

local ops = namespace.ops
local options = args.options

namespace.not_methods{"add_n"}

-- ---- reductions -----------------------------------------------------------

-- All axes of x: a list, or a graph tensor while its rank is unknown.
local function all_axes(x)
  local rank = 0
  if args.is_tensor(x) then rank = x.rank
  elseif type(x) == "table" then rank = core.tensor(x).rank end
  if not rank then return core.op "Range"(0, ops.rank(x), 1) end
  local axes = {}
  for i = 1, rank do axes[i] = i - 1 end
  return axes
end

-- `x:sum(axes, o)`, `x:sum{0, 1, keep_dims = true}`, `x:sum{keep_dims = true}`.
local function read_axes(x, axes, o, what)
  if type(axes) == "string" and o == nil then axes, o = nil, axes end
  if args.has_names(axes) and o == nil then
    axes, o = args.split(axes)
    if #axes == 0 then axes = nil end
  end
  if axes == nil then axes = all_axes(x) end
  if type(axes) == "table" and #axes == 0 then
    axes = core.tensor(axes, "int32")
  end
  return axes, options(o, what)
end

local function reduction(op, what)
  return function(x, axes, o)
    axes, o = read_axes(x, axes, o, what)
    return core.op(op)(x, axes, o)
  end
end

--- The sum over `axes` (all without it; negative ones count from the end);
-- option keep_dims leaves them with size 1. prod, max, min, all, any alike.
-- @function ops.sum(x, axes, o)
-- @function ops.reduce_sum(x, axes, o)
-- @usage td.sum({{1, 2}, {3, 4}}, {1})  --> 3 7

--- The product over `axes`, as sum.
-- @function ops.prod(x, axes, o)
-- @function ops.reduce_prod(x, axes, o)
-- @usage td.prod{2, 3, 4}  --> 24

--- The largest element over `axes`, as sum.
-- @function ops.max(x, axes, o)
-- @function ops.reduce_max(x, axes, o)
-- @usage td.max({{1, 5}, {3, 4}}, 1)  --> 5 4

--- The smallest element over `axes`, as sum.
-- @function ops.min(x, axes, o)
-- @function ops.reduce_min(x, axes, o)
-- @usage td.min({{1, 5}, {3, 4}}, 1)  --> 1 3

--- The logical and over `axes`, as sum.
-- @function ops.all(x, axes, o)
-- @function ops.reduce_all(x, axes, o)
-- @usage td.all{true, false}  --> false

--- The logical or over `axes`, as sum.
-- @function ops.any(x, axes, o)
-- @function ops.reduce_any(x, axes, o)
-- @usage td.any{true, false}  --> true

-- Reductions share their way to read `axes`.
for name, op in pairs{sum = "Sum", prod = "Prod", max = "Max", min = "Min",
                      all = "All", any = "Any"} do
  ops[name] = reduction(op, name)
  ops["reduce_" .. name] = ops[name]
end

--- The mean; of integers a true quotient.
-- @function ops.mean(x, axes, o)
-- @function ops.reduce_mean(x, axes, o)
-- @usage td.mean{1, 2}  --> 1.5
function ops.mean(x, axes, o)
  axes, o = read_axes(x, axes, o, "mean")
  x = args.tensor(x)
  local to = dtype.quotient[args.dtype(x)]
  return core.op "Mean"(to and ops.cast(x, to) or x, axes, o)
end
ops.reduce_mean = ops.mean

--- log(sum(exp(x))), without overflow.
-- @function ops.logsumexp(x, axes, o)
-- @function ops.reduce_logsumexp(x, axes, o)
-- @usage td.logsumexp{1000.0, 1000.0}  --> 1000.6931
function ops.logsumexp(x, axes, o)
  axes, o = read_axes(x, axes, o, "logsumexp")
  args.check(o, {"keep_dims", "name"}, "logsumexp")
  local top = ops.stop_gradient(ops.max(x, axes, {keep_dims = true}))
  local sum = ops.log(ops.sum(ops.exp(x - top), axes, {keep_dims = true}))
  local y = sum + top
  if o.keep_dims then return ops.identity(y, o.name) end
  return ops.sum(y, axes, o.name)
end
ops.reduce_logsumexp = ops.logsumexp

--- The index (int64) of the largest element along `axis`; the first of equals.
-- @function ops.argmax(x, axis, o)
-- @usage td.argmax({{1, 3, 2}, {6, 5, 4}}, 1)  --> 1 0

--- The index (int64) of the smallest element along `axis`; the first of equals.
-- @function ops.argmin(x, axis, o)
-- @usage td.argmin({4, 2, 3}, 0)  --> 1

-- The argument of an extreme.
local function arg_reduction(op)
  return function(x, axis, o)
    if type(axis) == "table" then axis, o = nil, axis end
    return core.op(op)(x, axis or 0, options(o, op))
  end
end
ops.argmax = arg_reduction "ArgMax"
ops.argmin = arg_reduction "ArgMin"

--- The sums of all elements so far along `axis` (0). Options exclusive,
-- reverse.
-- @function ops.cumsum(x, axis, o)
-- @usage td.cumsum({1, 2, 3}, 0)  --> 1 3 6

--- The products of all elements so far along `axis` (0). Options as cumsum.
-- @function ops.cumprod(x, axis, o)
-- @usage td.cumprod({1, 2, 3}, 0, {reverse = true})  --> 6 6 3

-- Sums or products so far.
local function cumulative(op)
  return function(x, axis, o)
    if type(axis) == "table" then axis, o = nil, axis end
    return core.op(op)(x, axis or 0, options(o, op))
  end
end
ops.cumsum = cumulative "Cumsum"
ops.cumprod = cumulative "Cumprod"

-- ---- products -------------------------------------------------------------

--- The matrix product; of tensors of rank 3 and up, of each pair of matrices.
-- Options transpose_a, transpose_b.
-- @usage td.matmul({{1, 2}}, {{3}, {4}})  --> 11
function ops.matmul(a, b, o)
  o = options(o, "matmul")
  local ra = args.is_tensor(a) and a.rank or nil
  local rb = args.is_tensor(b) and b.rank or nil
  if (ra or 0) <= 2 and (rb or 0) <= 2 then return core.op "MatMul"(a, b, o) end
  o.adj_x, o.adj_y = o.transpose_a, o.transpose_b
  o.transpose_a, o.transpose_b = nil, nil
  return (core.op "BatchMatMulV2" or core.op "BatchMatMul")(a, b, o)
end

--- The sum of a list of tensors of one shape.
-- @usage td.add_n{{1, 2}, {3, 4}}  --> 4 6
function ops.add_n(list, o)
  args.check_list(list, "add_n: the first argument")
  if #list == 1 then return ops.identity(list[1], o) end
  return core.op "AddN"(list, options(o, "add_n"))
end

--- x with its elements brought into low .. high.
-- @usage td.clip_by_value({-5.0, 0.5, 5.0}, -1, 1)  --> -1 0.5 1
function ops.clip_by_value(x, low, high, o)
  o = args.read(o, {"name"}, "clip_by_value")
  return ops.minimum(ops.maximum(x, low), high, o)
end

--- x scaled so that its length is at most `norm`.
-- @usage td.clip_by_norm({3.0, 4.0}, 1)  --> 0.6 0.8
function ops.clip_by_norm(x, norm, o)
  o = args.read(o, {"name"}, "clip_by_norm")
  local length = ops.sqrt(ops.sum(ops.square(x)))
  return ops.multiply(x, norm / ops.maximum(length, norm), o)
end

-- ---- complex numbers -------------------------------------------------------

local parts = {complex64 = "float32", complex128 = "float64"}
local wholes = {float32 = "complex64", float64 = "complex128"}

--- real + i imag; both float32 or float64.
-- @usage td.abs(td.complex({3.0}, {4.0}))  --> 5
function ops.complex(real, imag, o)
  o = options(o, "complex")
  o.Tout = o.Tout or wholes[args.dtype(real) or args.dtype(imag)]
  return core.op "Complex"(real, imag, o)
end

-- The op on complex numbers, `f` on reals.
local function part(name, op, f)
  ops[name] = function(x, o)
    local to = parts[args.dtype(x)]
    if not to then return f(x, o) end
    o = options(o, name)
    o.Tout = to
    return core.op(op)(x, o)
  end
end

--- Real parts; of reals, x itself.
-- @function ops.real(x, o)
-- @usage td.real(td.complex({3.0}, {4.0}))  --> 3
part("real", "Real", function(x, o) return ops.identity(x, o) end)
--- Imaginary parts; of reals, zeros.
-- @function ops.imag(x, o)
-- @usage td.imag(td.complex({3.0}, {4.0}))  --> 4
part("imag", "Imag", function(x, o) return ops.zeros_like(x, o) end)
--- Absolute values, of complex numbers too.
-- @function ops.abs(x, o)
-- @usage td.abs{-1, 2}  --> 1 2
part("abs", "ComplexAbs", core.op "Abs")
--- Angles in (-pi, pi]; of reals 0 or pi.
-- @function ops.angle(x, o)
-- @usage td.angle{-1.0, 1.0}  --> 3.1415927 0
part("angle", "Angle", function(x, o)
  return ops.multiply(ops.cast(ops.less(x, 0), args.dtype(x) or "float32"),
                      math.pi, o)
end)

--- The complex conjugate; of reals, x itself.
-- @usage td.imag(td.conj(td.complex({3.0}, {4.0})))  --> -4
function ops.conj(x, o)
  if not parts[args.dtype(x)] then return ops.identity(x, o) end
  return core.op "Conj"(x, options(o, "conj"))
end

-- ---- quotients and logic --------------------------------------------------

-- Casts integers to the dtype their quotient has.
local function to_quotient(x, t)
  return args.is_tensor(x) and ops.cast(x, t) or x
end

--- The true quotient: integers give floats.
-- @function ops.truediv(a, b, o)
-- @function ops.divide(a, b, o)
-- @usage td.truediv({1, 2}, 4)  --> 0.25 0.5
function ops.truediv(a, b, o)
  if not args.is_tensor(a) and not args.is_tensor(b) then
    a, b = args.tensor(a), args.tensor(b)
  end
  local ta, tb = args.dtype(a), args.dtype(b)
  local to = dtype.quotient[ta or tb]
  if to and (ta == tb or not ta or not tb) then
    a, b = to_quotient(a, to), to_quotient(b, to)
  end
  return core.op "RealDiv"(a, b, o)
end
ops.divide = ops.truediv

--- The remainder of floordiv; has the sign of b.
-- @usage td.mod({7, -7}, 4)  --> 3 1
function ops.mod(a, b, o) return ops.floormod(a, b, o) end

--- True where one of a and b is, but not both.
-- @usage td.logical_xor({true, true}, {true, false})  --> false true
function ops.logical_xor(a, b, o)
  return ops.not_equal(a, b, args.read(o, {"name"}, "logical_xor"))
end

-- The operators of Lua: bits on integers, logic on booleans.
local function bits_or_logic(bits, logic)
  return function(a, b)
    local t = args.dtype(a) or args.dtype(b)
    return ops[t == "bool" and logic or bits](a, b)
  end
end

local operators = {
  __add = core.op "AddV2", __sub = core.op "Sub", __mul = core.op "Mul",
  __idiv = core.op "FloorDiv", __mod = core.op "FloorMod",
  __pow = core.op "Pow", __shl = core.op "LeftShift",
  __shr = core.op "RightShift",
  __band = bits_or_logic("bitwise_and", "logical_and"),
  __bor = bits_or_logic("bitwise_or", "logical_or"),
  __bxor = bits_or_logic("bitwise_xor", "logical_xor"),
}

function operators.__div(a, b) return ops.truediv(a, b) end
function operators.__unm(x) return ops.negative(x) end
function operators.__bnot(x)
  return ops[args.dtype(x) == "bool" and "logical_not" or "invert"](x)
end

--- Gives a metatable the operators of tensors.
function namespace.install_operators(meta)
  for name, f in pairs(operators) do meta[name] = f end
end

-- ---- checks and output ----------------------------------------------------

--- x, printed on stderr after `message` each time it is computed. Options data
-- (a list of tensors to print instead), first_n, summarize.
-- @usage td.print(td.constant(5), "five").op.type  --> Print
function ops.print(x, message, o)
  o = options(o, "print")
  local data = o.data or {x}
  o.data = nil
  o.message = message or ""
  return core.op "Print"(x, data, o)
end

--- An op that fails with the tensors of `data` unless c is true.
-- @usage td.assert(td.constant(true), {5}).type  --> Assert
function ops.assert(c, data, o)
  if args.is_tensor(data) or type(data) ~= "table" then data = {data} end
  return core.add("Assert", {c, data}, options(o, "assert"))
end

--- x; the step fails with `message` when it holds NaN or infinity.
-- @usage td.check_numerics({1.0}, "a bad step")  --> 1
function ops.check_numerics(x, message, o)
  o = options(o, "check_numerics")
  o.message = message or o.message or "not a finite number"
  return core.op "CheckNumerics"(x, o)
end
