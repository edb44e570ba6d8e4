--- grad/math.lua - gradients of element-wise ops, reductions and products.
--
-- grad.Op(op, dy) gives the gradients of op.inputs from dy, that of its output;
-- x, y below are inputs, z the output. In one line each, as in the textbook.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dtypes = require "tide.tensor.dtype"
local shape = require "tide.autodiff.rule_shape"
local ops = require("tide.ops").ops
local rules = require "tide.autodiff.rules"

local conj, unbroadcast = shape.conj, shape.unbroadcast
local grad = {}

-- ---- one operand ----------------------------------------------------------

-- f(x, dy, z) with x, z conjugated, as derivatives of holomorphic functions.
local function unary(name, f)
  grad[name] = function(op, dy)
    return f(conj(op.inputs[1]), dy, op)
  end
end

local function of_output(name, f)
  grad[name] = function(op, dy) return f(op.outputs[1], dy) end
end

unary("Neg", function(_, dy) return -dy end)
unary("Abs", function(x, dy) return dy * ops.sign(x) end)
unary("Square", function(x, dy) return dy * (x * 2) end)
unary("Log", function(x, dy) return dy / x end)
unary("Log1p", function(x, dy) return dy / (x + 1) end)
unary("Expm1", function(x, dy) return dy * ops.exp(x) end)
unary("Sin", function(x, dy) return dy * ops.cos(x) end)
unary("Cos", function(x, dy) return -dy * ops.sin(x) end)
unary("Tan", function(x, dy) return dy / ops.square(ops.cos(x)) end)
unary("Asin", function(x, dy) return dy / ops.sqrt(1 - x * x) end)
unary("Acos", function(x, dy) return -dy / ops.sqrt(1 - x * x) end)
unary("Atan", function(x, dy) return dy / (x * x + 1) end)
unary("Sinh", function(x, dy) return dy * ops.cosh(x) end)
unary("Cosh", function(x, dy) return dy * ops.sinh(x) end)
unary("Asinh", function(x, dy) return dy / ops.sqrt(x * x + 1) end)
unary("Acosh", function(x, dy) return dy / ops.sqrt(x * x - 1) end)
unary("Atanh", function(x, dy) return dy / (1 - x * x) end)
unary("Erf", function(x, dy)
  return dy * (2 / math.sqrt(math.pi)) * ops.exp(-(x * x))
end)
unary("Erfc", function(x, dy)
  return dy * (-2 / math.sqrt(math.pi)) * ops.exp(-(x * x))
end)
unary("Lgamma", function(x, dy) return dy * ops.digamma(x) end)
unary("Digamma", function(x, dy)
  return dy * ops.polygamma(ops.ones_like(x), x)
end)
unary("BesselI0e", function(x, dy, op)
  return dy * (ops.bessel_i1e(x) - ops.sign(x) * op.outputs[1])
end)
-- At 0 the derivative is 1/2.
unary("BesselI1e", function(x, dy, op)
  local zero = ops.equal(x, 0)
  local safe = ops.where(zero, ops.ones_like(x), x)
  local slope = ops.bessel_i0e(safe)
    - op.outputs[1] * (ops.sign(safe) + 1 / safe)
  return dy * ops.where(zero, ops.ones_like(x) * 0.5, slope)
end)

of_output("Erfinv", function(z, dy)
  return dy * (math.sqrt(math.pi) / 2) * ops.exp(z * z)
end)
of_output("Ndtri", function(z, dy)
  return dy * math.sqrt(2 * math.pi) * ops.exp(z * z * 0.5)
end)
of_output("Exp", function(z, dy) return dy * conj(z) end)
of_output("Tanh", function(z, dy) return core.op "TanhGrad"(conj(z), dy) end)
of_output("Sigmoid", function(z, dy)
  return core.op "SigmoidGrad"(conj(z), dy)
end)
of_output("Sqrt", function(z, dy) return core.op "SqrtGrad"(z, dy) end)
of_output("Rsqrt", function(z, dy) return core.op "RsqrtGrad"(z, dy) end)
of_output("Reciprocal", function(z, dy)
  return core.op "ReciprocalGrad"(z, dy)
end)
grad.Inv = grad.Reciprocal

-- Second derivatives: these ops are gradients themselves, of (z, dy).
function grad.TanhGrad(op, g)
  local z, dy = table.unpack(op.inputs)
  return g * dy * (z * -2), core.op "TanhGrad"(z, g)
end

function grad.SigmoidGrad(op, g)
  local z, dy = table.unpack(op.inputs)
  return g * dy * (1 - z * 2), core.op "SigmoidGrad"(z, g)
end

-- dx = dy / (2 z)
function grad.SqrtGrad(op, g)
  local z = op.inputs[1]
  local gz = g / z
  return -gz * op.outputs[1], gz * 0.5
end

-- dx = -dy z^3 / 2
function grad.RsqrtGrad(op, g)
  local z, dy = table.unpack(op.inputs)
  return g * dy * ops.square(z) * -1.5, core.op "RsqrtGrad"(z, g)
end

-- dx = -dy z^2
function grad.ReciprocalGrad(op, g)
  local z, dy = table.unpack(op.inputs)
  return g * dy * z * -2, core.op "ReciprocalGrad"(z, g)
end
grad.InvGrad = grad.ReciprocalGrad

-- ---- complex numbers -------------------------------------------------------

local function complex(real, imag)
  return ops.complex(real or ops.zeros_like(imag),
                     imag or ops.zeros_like(real))
end

function grad.Real(_, dy) return complex(dy) end
function grad.Imag(_, dy) return complex(nil, dy) end
function grad.Conj(_, dy) return ops.conj(dy) end

function grad.ComplexAbs(op, dy)
  return complex(ops.div_no_nan(dy, op.outputs[1])) * op.inputs[1]
end

-- The angle falls by Im(dz / z): what is left of dy is -dy / (Im z + i Re z).
function grad.Angle(op, dy)
  local z = op.inputs[1]
  return -complex(dy) / ops.complex(ops.imag(z), ops.real(z))
end

function grad.Complex(op, dy)
  local x, y = table.unpack(op.inputs)
  return shape.unbroadcast(x, y, ops.real(dy), ops.imag(dy))
end

function grad.Cast(op, dy)
  return ops.cast(dy, op.inputs[1].dtype)
end

-- ---- two operands, broadcasting -------------------------------------------

-- f(x, y, dy, z) gives both gradients in the shape of the result.
local function binary(name, f)
  grad[name] = function(op, dy)
    local x, y = table.unpack(op.inputs)
    return unbroadcast(x, y, f(conj(x), conj(y), dy, op.outputs[1]))
  end
end

binary("Add", function(_, _, dy) return dy, dy end)
grad.AddV2 = grad.Add
binary("Sub", function(_, _, dy) return dy, -dy end)
binary("Mul", function(x, y, dy)
  return rules.wants(1) and dy * y, rules.wants(2) and dy * x
end)
binary("RealDiv", function(x, y, dy)
  local dx = dy / y
  return dx, -(dx * (x / y))
end)
grad.Div = grad.RealDiv
binary("DivNoNan", function(x, y, dy)
  local dx = ops.div_no_nan(dy, y)
  return dx, -(dx * ops.div_no_nan(x, y))
end)
binary("SquaredDifference", function(x, y, dy)
  local dx = dy * ((x - y) * 2)
  return dx, -dx
end)
binary("Xdivy", function(x, y, dy)
  local some = x:not_equal(0):cast(dy.dtype)
  return dy * ops.xdivy(some, y), dy * ops.xdivy(-x, y * y)
end)

binary("Xlogy", function(x, y, dy)
  local some = x:not_equal(0):cast(dy.dtype)
  return dy * ops.xlogy(some, y), dy * ops.xdivy(x, y)
end)
binary("Xlog1py", function(x, y, dy)
  local some = x:not_equal(0):cast(dy.dtype)
  return dy * ops.xlog1py(some, y), dy * ops.xdivy(x, y + 1)
end)
binary("MulNoNan", function(x, y, dy)
  return ops.multiply_no_nan(dy, y), ops.multiply_no_nan(x, dy)
end)
binary("NextAfter", function(_, _, dy) return dy, ops.zeros_like(dy) end)

-- x^(a - 1) exp(-x) / gamma(a)
local function gamma_density(a, x)
  return ops.exp(ops.xlogy(a - 1, x) - x - ops.lgamma(a))
end
binary("Igamma", function(a, x, dy)
  return dy * core.op "IgammaGradA"(a, x), dy * gamma_density(a, x)
end)
binary("Igammac", function(a, x, dy)
  return -dy * core.op "IgammaGradA"(a, x), -dy * gamma_density(a, x)
end)

-- Orders and exponents have no derivative, as in TensorFlow.
local function in_second(name, f)
  grad[name] = function(op, dy)
    local x, y = table.unpack(op.inputs)
    local _, g = unbroadcast(x, y, false, dy * f(x, y))
    return false, g
  end
end
in_second("Zeta", function(x, q) return -x * ops.zeta(x + 1, q) end)
in_second("Polygamma", function(a, x) return ops.polygamma(a + 1, x) end)

-- The same of the first two parameters of the beta distribution.
function grad.Betainc(op, dy)
  local a, b, x = table.unpack(op.inputs)
  local beta = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
  local density = ops.exp(ops.xlogy(a - 1, x) + ops.xlog1py(b - 1, -x) - beta)
  local g = unbroadcast(x, op.outputs[1], dy * density, false)
  return false, false, g
end

binary("Atan2", function(x, y, dy)
  local g = dy / (x * x + y * y)
  return g * y, -(g * x)
end)

-- x - floor(x / y) y, and its kin that round toward zero.
binary("FloorMod", function(x, y, dy)
  return dy, -(dy * ops.floordiv(x, y))
end)
binary("Mod", function(x, y, dy)
  return dy, -(dy * ops.truncatediv(x, y))
end)
grad.TruncateMod = grad.Mod

-- Where the operands are equal the first one gets the gradient.
local function choice(first)
  return function(x, y, dy)
    local zero = ops.zeros_like(dy)
    local chosen = ops[first](x, y)
    return ops.where(chosen, dy, zero), ops.where(chosen, zero, dy)
  end
end
binary("Maximum", choice "greater_equal")
binary("Minimum", choice "less_equal")

-- log(x) counts only where x > 0: elsewhere x^y has no derivative in y. Of
-- complex numbers 0 alone has no logarithm.
binary("Pow", function(x, y, dy, z)
  local holomorphic = dtypes.is_complex(x.dtype)
  if holomorphic then z = ops.conj(z) end
  local positive = (holomorphic and ops.not_equal or ops.greater)(x, 0)
  local log = ops.log(ops.where(positive, x, ops.ones_like(x)))
  return dy * y * x ^ (y - 1), dy * z * log
end)

function grad.AddN(op, dy)
  local out = {}
  for i = 1, #op.inputs do out[i] = dy end
  return table.unpack(out)
end

grad.AccumulateNV2 = grad.AddN

-- Where an element was brought to a bound, the bound gets the gradient.
function grad.ClipByValue(op, dy)
  local x, low, high = table.unpack(op.inputs)
  local zero = ops.zeros_like(dy)
  local below, above = ops.less(x, low), ops.greater(x, high)
  local function gather(to, chosen)
    local g = unbroadcast(to, op.outputs[1], ops.where(chosen, dy, zero), false)
    return g
  end
  return ops.where(ops.logical_or(below, above), zero, dy),
         gather(low, below), gather(high, above)
end

-- dy where the condition chose, zero elsewhere.
function grad.Select(op, dy)
  local c = op.inputs[1]
  local zero = ops.zeros_like(dy)
  local select = core.op "Select"
  return false, select(c, dy, zero), select(c, zero, dy)
end

function grad.SelectV2(op, dy)
  local c, x, y = table.unpack(op.inputs)
  local zero, z = ops.zeros_like(dy), op.outputs[1]
  local dx, dz = ops.where(c, dy, zero), ops.where(c, zero, dy)
  return false, (unbroadcast(x, z, dx, false)), (unbroadcast(y, z, dz, false))
end

-- ---- reductions -----------------------------------------------------------

-- The shape of a reduction's result with the reduced axes kept as size 1.
local function kept_shape(op)
  local x, axes = op.inputs[1], op.inputs[2]
  local list = shape.axes(axes, x.rank)
  local s = x.shape
  if list and s then
    local dims, reduced = {}, {}
    for _, a in ipairs(list) do reduced[a + 1] = true end
    for i = 1, #s do dims[i] = reduced[i] and 1 or x:dim(i - 1) end
    return dims
  end
  local size, rank = shape.sizes(x), shape.rank(x)
  local reduced = ops.floormod(ops.cast(axes, "int32") + rank, rank)
  reduced = ops.reshape(reduced, {-1})
  return core.op "DynamicStitch"({ops.range(rank), reduced},
                                 {size, ops.ones_like(reduced)})
end

-- g (of the result's shape) as the reduced axes kept; the caller broadcasts.
local function keep(op, g)
  if op.attr.keep_dims then return g end
  local dims = kept_shape(op)
  return ops.reshape(g, type(dims) == "table" and #dims == 0
                        and core.tensor({}, "int32") or dims)
end

local function spread(op, g)
  return ops.broadcast_to(keep(op, g), shape.of(op.inputs[1]))
end

function grad.Sum(op, dy)
  return spread(op, dy), false
end

-- How many elements went into each one of the result, in dtype.
local function count(op, dtype)
  local x, z = op.inputs[1], op.outputs[1]
  if x.size and z.size and z.size > 0 then return x.size // z.size end
  return ops.cast(shape.size(x) // ops.maximum(shape.size(z), 1), dtype)
end

function grad.Mean(op, dy)
  return spread(op, dy) / count(op, dy.dtype), false
end

function grad.EuclideanNorm(op, dy)
  return op.inputs[1] * keep(op, dy / op.outputs[1]), false
end

-- Equal largest (smallest) elements share the gradient.
function grad.Max(op, dy)
  local x = op.inputs[1]
  local chosen = ops.cast(ops.equal(x, keep(op, op.outputs[1])), dy.dtype)
  local n = ops.sum(chosen, op.inputs[2], {keep_dims = true})
  return chosen / n * keep(op, dy), false
end
grad.Min = grad.Max

-- The product of the others, whether or not zeros are among them.
function grad.Prod(op, dy)
  local x, axes = table.unpack(op.inputs)
  local zero = ops.equal(x, 0)
  local safe = ops.where(zero, ops.ones_like(x), x)
  local product = ops.prod(safe, axes, {keep_dims = true})
  local zeros = ops.sum(ops.cast(zero, x.dtype), axes, {keep_dims = true})
  local none = product / safe * ops.cast(ops.equal(zeros, 0), x.dtype)
  local one = product * ops.cast(ops.equal(zeros, 1), x.dtype)
  local others = ops.where(zero, one + ops.zeros_like(x), none)
  return keep(op, dy) * others, false
end

-- ---- products -------------------------------------------------------------

-- z = a b with either transposed; `t` names the attribute of each.
local function product(op, dy, f, ta, tb)
  local a, b = conj(op.inputs[1]), conj(op.inputs[2])
  local at, bt = op.attr[ta], op.attr[tb]
  local function mul(of, x, y, xt, yt)
    return rules.wants(of) and f(x, y, {[ta] = xt, [tb] = yt})
  end
  if not at and not bt then
    return mul(1, dy, b, false, true), mul(2, a, dy, true, false)
  elseif not at then
    return mul(1, dy, b, false, false), mul(2, dy, a, true, false)
  elseif not bt then
    return mul(1, b, dy, false, true), mul(2, a, dy, false, false)
  end
  return mul(1, b, dy, true, true), mul(2, dy, a, true, true)
end

function grad.MatMul(op, dy)
  return product(op, dy, core.op "MatMul", "transpose_a", "transpose_b")
end

function grad.BatchMatMul(op, dy)
  return product(op, dy, core.op "BatchMatMul", "adj_x", "adj_y")
end

-- The batch axes broadcast; the matrices' own do not.
function grad.BatchMatMulV2(op, dy)
  local x, y = table.unpack(op.inputs)
  return shape.unbatch(x, y, product(op, dy, core.op "BatchMatMulV2", "adj_x",
                                     "adj_y"))
end

-- Where one operand is of integers, the other has no gradient either: its
-- products would be of yet another dtype.
function grad.BatchMatMulV3(op, dy)
  local x, y = table.unpack(op.inputs)
  if x.dtype ~= y.dtype then return false, false end
  return grad.BatchMatMulV2(op, dy)
end

function grad.Cumsum(op, dy)
  local reverse = not op.attr.reverse
  return core.op "Cumsum"(dy, op.inputs[2],
    {exclusive = op.attr.exclusive, reverse = reverse}), false
end

function grad.Cumprod(op, dy)
  local x, axis = table.unpack(op.inputs)
  local exclusive, reverse = op.attr.exclusive, op.attr.reverse
  local sum = core.op "Cumsum"(op.outputs[1] * dy, axis,
    {exclusive = exclusive, reverse = not reverse})
  return sum / x, false
end

-- log(exp(x1) + ..): the gradient of exp(x - z), summed from the other end in
-- logarithms, those of its negative part apart.
function grad.CumulativeLogsumexp(op, dy)
  local x, axis = table.unpack(op.inputs)
  local z, none = op.outputs[1], ops.ones_like(dy) * -math.huge
  local options = {exclusive = op.attr.exclusive, reverse = not op.attr.reverse}
  local function part(g)
    local some = ops.greater(g, 0)
    local log = ops.where(some, ops.log(ops.where(some, g, ops.ones_like(g)))
                          - z, none)
    return ops.exp(core.op "CumulativeLogsumexp"(log, axis, options) + x)
  end
  return part(dy) - part(-dy), false
end

-- How a sample moves with alpha while its chance stays; the axes of the alphas
-- come last.
function grad.RandomGamma(op, dy)
  local size, alpha = table.unpack(op.inputs)
  local slope = core.op "RandomGammaGrad"(alpha, op.outputs[1])
  return false, ops.sum(dy * slope, ops.range(ops.size(size)))
end

-- Flat almost everywhere, or made of no floats: nothing is learnt through them.
for _, name in ipairs{"Sign", "Floor", "Ceil", "Round", "Rint", "FloorDiv",
                      "TruncateDiv", "Range", "LinSpace"} do
  grad[name] = false
end

return grad
