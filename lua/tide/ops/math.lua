--- ops/math.lua - reductions, products, and what operators mean.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local dtype = require "tide.dtype"
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
local function read_axes(x, axes, o)
  if type(axes) == "string" and o == nil then axes, o = nil, axes end
  if args.has_names(axes) and o == nil then
    axes, o = args.split(axes)
    if #axes == 0 then axes = nil end
  end
  if axes == nil then axes = all_axes(x) end
  if type(axes) == "table" and #axes == 0 then
    axes = core.tensor(axes, "int32")
  end
  return axes, options(o, "reduction")
end

local function reduction(op)
  return function(x, axes, o)
    axes, o = read_axes(x, axes, o)
    return core.op(op)(x, axes, o)
  end
end

--- Reductions over `axes` (all without it; negative ones count from the end);
-- keep_dims leaves them with size 1.
for name, op in pairs{sum = "Sum", prod = "Prod", max = "Max", min = "Min",
                      all = "All", any = "Any"} do
  ops[name] = reduction(op)
  ops["reduce_" .. name] = ops[name]
end

--- The mean; of integers a true quotient.
function ops.mean(x, axes, o)
  axes, o = read_axes(x, axes, o)
  local to = dtype.quotient[args.dtype(x)]
  return core.op "Mean"(to and ops.cast(x, to) or x, axes, o)
end
ops.reduce_mean = ops.mean

--- log(sum(exp(x))), without overflow.
function ops.logsumexp(x, axes, o)
  axes, o = read_axes(x, axes, o)
  local top = ops.stop_gradient(ops.max(x, axes, {keep_dims = true}))
  local sum = ops.log(ops.sum(ops.exp(x - top), axes, {keep_dims = true}))
  local y = sum + top
  if o.keep_dims then return ops.identity(y, o.name) end
  return ops.sum(y, axes, o.name)
end
ops.reduce_logsumexp = ops.logsumexp

--- The index (int64) of the largest element along `axis`; the first of equals.
local function arg_reduction(op)
  return function(x, axis, o)
    if type(axis) == "table" then axis, o = nil, axis end
    return core.op(op)(x, axis or 0, options(o, op))
  end
end
ops.argmax = arg_reduction "ArgMax"
ops.argmin = arg_reduction "ArgMin"

-- Sums or products of all elements so far along `axis` (0); options exclusive,
-- reverse.
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
function ops.add_n(list, o)
  if #list == 1 then return ops.identity(list[1], o) end
  return core.op "AddN"(list, options(o, "add_n"))
end

--- x with its elements brought into low .. high.
function ops.clip_by_value(x, low, high, o)
  return ops.minimum(ops.maximum(x, low), high, o)
end

--- x scaled so that its length is at most `norm`.
function ops.clip_by_norm(x, norm, o)
  local length = ops.sqrt(ops.sum(ops.square(x)))
  return ops.multiply(x, norm / ops.maximum(length, norm), o)
end

-- ---- complex numbers -------------------------------------------------------

local parts = {complex64 = "float32", complex128 = "float64"}
local wholes = {float32 = "complex64", float64 = "complex128"}

--- real + i imag; both float32 or float64.
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
part("real", "Real", function(x, o) return ops.identity(x, o) end)
--- Imaginary parts; of reals, zeros.
part("imag", "Imag", function(x, o) return ops.zeros_like(x, o) end)
--- Absolute values, of complex numbers too.
part("abs", "ComplexAbs", core.op "Abs")
--- Angles in (-pi, pi]; of reals 0 or pi.
part("angle", "Angle", function(x, o)
  return ops.multiply(ops.cast(ops.less(x, 0), args.dtype(x) or "float32"),
                      math.pi, o)
end)

--- The complex conjugate; of reals, x itself.
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
function ops.truediv(a, b, o)
  local ta, tb = args.dtype(a), args.dtype(b)
  local to = dtype.quotient[ta or tb]
  if to and (ta == tb or not ta or not tb) then
    a, b = to_quotient(a, to), to_quotient(b, to)
  end
  return core.op "RealDiv"(a, b, o)
end
ops.divide = ops.truediv

--- The remainder of floordiv; has the sign of b.
function ops.mod(a, b, o) return ops.floormod(a, b, o) end

--- True where one of a and b is, but not both.
function ops.logical_xor(a, b, o)
  return ops.not_equal(a, b, o)
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
function ops.print(x, message, o)
  o = options(o, "print")
  local data = o.data or {x}
  o.data = nil
  o.message = message or ""
  return core.op "Print"(x, data, o)
end

--- An op that fails with the tensors of `data` unless c is true.
function ops.assert(c, data, o)
  if args.is_tensor(data) or type(data) ~= "table" then data = {data} end
  return core.add("Assert", {c, data}, options(o, "assert"))
end

--- x; the step fails with `message` when it holds NaN or infinity.
function ops.check_numerics(x, message, o)
  o = options(o, "check_numerics")
  o.message = message or o.message or "not a finite number"
  return core.op "CheckNumerics"(x, o)
end
