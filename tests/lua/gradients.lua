-- gradients.lua - every rule against central differences in float64, and the
-- walk that applies them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local rules = require "tide.autodiff.gradients"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function f64(list) return td.tensor(list, "float64") end

-- Operands: away from kinks; signed, positive, in (-1, 1), matrices.
local S = f64{{0.7, -1.3, 2.1}, {-0.4, 1.6, -2.2}}
local P = f64{{0.7, 1.3, 2.1}, {0.4, 1.6, 2.2}}
local U = f64{{0.7, -0.3, 0.1}, {-0.4, 0.6, -0.2}}
local ROW, COLUMN = f64{0.5, 1.5, -2.5}, f64{{1.25}, {0.75}}
local SQUARE = f64{{0.7, -1.3, 0.2}, {2.1, 1.1, -0.6}, {0.3, 0.9, 1.7}}
local CUBE = td.tensor({0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8, -0.9, 1.0,
                        1.1, -1.2}, "float64", {2, 2, 3})
local STACK = f64{{{0.7, -1.3}, {2.1, 1.1}}, {{0.3, 0.9}, {-1.7, 0.4}}}
local BANDS = f64{{1.5, -2, 0.8}, {0.3, 0.9, 1.7}}
local STACK_3 = td.stack{SQUARE, SQUARE + 1}
local TALL = f64{{0.7, -1.3}, {2.1, 1.1}, {0.3, 0.9}}

local raw = td.raw

local function unary(name, x)
  return {name, function(a) return raw[name](a) end, {x}}
end

-- Second derivatives: the gradient of op `name`, as a function of x and dy.
local function second(name, x)
  return {name .. "Grad", function(a, dy)
    return td.gradients(raw[name](a), a, {grad_ys = dy})
  end, {x, x}}
end

-- Complex numbers as reals.
local function parts(z) return td.real(z), td.imag(z) end

-- op whose rule is meant, function, arguments
local rows = {
  unary("Neg", S), unary("Abs", S), unary("Square", S), unary("Log", P),
  unary("Log1p", P), unary("Exp", S), unary("Expm1", S), unary("Sin", S),
  unary("Cos", S), unary("Tan", U), unary("Asin", U), unary("Acos", U),
  unary("Atan", S), unary("Sinh", S), unary("Cosh", S), unary("Tanh", S),
  unary("Sigmoid", S), unary("Erf", S), unary("Sqrt", P), unary("Rsqrt", P),
  unary("Reciprocal", S), unary("Inv", S), unary("Relu", S), unary("Relu6", S),
  unary("Asinh", S), unary("Acosh", P + 1), unary("Atanh", U), unary("Erfc", S),
  unary("Erfinv", U), unary("Ndtri", P / 3), unary("Lgamma", P),
  unary("Digamma", P), unary("BesselI0e", S), unary("BesselI1e", S),
  unary("Selu", S), unary("LeakyRelu", S),
  unary("Elu", S), unary("Softplus", S), unary("Softsign", S),
  unary("Identity", S), unary("Softmax", S), unary("LogSoftmax", S),
  unary("L2Loss", S), unary("DiagPart", SQUARE), unary("Diag", ROW),
  unary("EnsureShape", S), unary("Squeeze", td.tensor({1.0, 2.0}, "float64",
                                                      {1, 2, 1})),
  second("Tanh", S), second("Sigmoid", S), second("Sqrt", P),
  second("Rsqrt", P), second("Reciprocal", S), second("Relu", S),
  second("Relu6", S), second("Elu", S), second("Softplus", S),
  second("Softsign", S), second("Inv", S), second("Selu", S),
  second("LeakyRelu", S),

  {"AddV2", function(a, b) return a + b end, {S, ROW}},
  {"Add", function(a, b) return raw.Add(a, b) end, {S, COLUMN}},
  {"Sub", function(a, b) return a - b end, {COLUMN, S}},
  {"Mul", function(a, b) return a * b end, {S, ROW}},
  {"RealDiv", function(a, b) return a / b end, {S, ROW}},
  {"Div", function(a, b) return raw.Div(a, b) end, {ROW, P}},
  {"DivNoNan", function(a, b) return td.div_no_nan(a, b) end, {S, ROW}},
  {"Pow", function(a, b) return a ^ b end, {P, ROW}},
  {"SquaredDifference", td.squared_difference, {S, COLUMN}},
  {"Maximum", td.maximum, {S, ROW}},
  {"Minimum", td.minimum, {S, COLUMN}},
  {"Xdivy", function(a, b) return td.xdivy(a, b) end, {S, ROW}},
  {"Xlogy", td.xlogy, {S, P["0"]}},
  {"Xlog1py", td.xlog1py, {S, U}},
  {"MulNoNan", td.multiply_no_nan, {S, ROW}},
  {"NextAfter", td.nextafter, {S, P}},
  {"TruncateMod", td.truncatemod, {S, ROW}},
  {"Igamma", td.igamma, {P, P["0"] + 0.5}},
  {"Igammac", td.igammac, {P, P["0"] + 0.5}},
  {"Zeta", function(q) return td.zeta(f64(2.5), q) end, {P}},
  {"Polygamma", function(x) return td.polygamma(f64{1, 2, 0}, x) end, {P}},
  {"Betainc", function(x) return td.betainc(f64(1.5), P, x) end, {P / 3}},
  {"ClipByValue", raw.ClipByValue, {S, f64(-1.0), P + 0.1}},
  {"AccumulateNV2", function(a, b)
    return raw.AccumulateNV2({a, b, a}, {shape = {2, 3}})
  end, {S, P}},
  {"Complex", function(a, b) return td.real(td.complex(a, b) ^ 2) end,
   {S, ROW}},
  {"Pow", function(a, b)
    return td.real(td.complex(a, b) ^ td.complex(b, a))
  end, {P, P + 0.5}},
  {"Real", function(a, b) return td.real(1 / td.complex(a, b)) end, {S, P}},
  {"Imag", function(a, b) return td.imag(1 / td.complex(a, b)) end, {S, P}},
  {"Conj", function(a, b)
    return td.imag(td.exp(td.conj(td.complex(a, b))))
  end, {S, P}},
  {"ComplexAbs", function(a, b) return td.abs(td.complex(a, b)) end, {S, P}},
  {"Angle", function(a, b) return td.angle(td.complex(a, b)) end, {S, P}},
  {"Atan2", td.atan2, {S, P}},
  {"FloorMod", function(a, b) return a % b end, {S, ROW}},
  {"Mod", function(a, b) return raw.Mod(a, b) end, {S, ROW}},
  {"AddN", function(a, b) return td.add_n{a, b, a} end, {S, P}},
  {"Select", function(a, b) return raw.Select(td.greater(a, 0), a * 2, b) end,
   {S, P}},
  {"SelectV2", function(a, b) return td.where(td.greater(a, 0), a * 2, b) end,
   {S, P}},
  {"Cast", function(a)
    return a:cast("float32"):cast("float64") * 1.5
  end, {S}, 1e-2},
  {"Print", function(a) return td.print(a, "", {first_n = 0}) end, {S}},
  {"CheckNumerics", function(a) return td.check_numerics(a) end, {S}},
  {"Snapshot", function(a) return raw.Snapshot(a) end, {S}},
  {"CheckNumericsV2", function(a)
    return raw.CheckNumericsV2(a, {message = "m"})
  end, {S}},
  {"PlaceholderWithDefault", function(a)
    return td.placeholder_with_default(a, {2, 3})
  end, {S}},
  {"IdentityN", function(a, b) return table.unpack(raw.IdentityN{a, b}) end,
   {S, P}},

  {"Sum", function(a) return a:sum(0) end, {S}},
  {"Sum", function(a) return a:sum{-1, keep_dims = true} end, {CUBE}},
  {"Mean", function(a) return a:mean{0, 2} end, {CUBE}},
  {"Max", function(a) return a:max(1) end, {S}},
  {"Min", function(a) return a:min() end, {S}},
  {"Prod", function(a) return a:prod(0) end, {S}},
  {"Prod", function(a) return a:prod(1) end,
   {f64{{0, 2, 3}, {0, 0, 1}, {1, 2, 3}}}},
  {"Cumsum", function(a) return raw.Cumsum(a, 1, {exclusive = true}) end, {S}},
  {"Cumsum", function(a) return raw.Cumsum(a, 0, {reverse = true}) end, {S}},
  {"Cumprod", function(a) return raw.Cumprod(a, 1) end, {S}},
  {"Cumprod", function(a)
    return raw.Cumprod(a, 1, {exclusive = true, reverse = true})
  end, {S}},
  {"EuclideanNorm", function(a) return td.reduce_euclidean_norm(a, {1}) end,
   {S}},
  {"CumulativeLogsumexp", function(a)
    return raw.CumulativeLogsumexp(a, 1, {exclusive = true})["0:2, 1:"]
  end, {S}},
  {"CumulativeLogsumexp", function(a)
    return raw.CumulativeLogsumexp(a, 0, {reverse = true}) * S
  end, {S}},
  {"SegmentSum", function(a) return td.segment_sum(a, {0, 2, 2}) end,
   {SQUARE}},
  {"SegmentMean", function(a) return td.segment_mean(a, {0, 2, 2}) end,
   {SQUARE}},
  {"SegmentProd", function(a) return td.segment_prod(a, {0, 2, 2}) end,
   {SQUARE}},
  {"SegmentProd", function(a) return td.segment_prod(a, {0, 1, 1, 2, 2, 2}) end,
   {f64{2, 0, 3, 0, 0, 4}}},
  {"SegmentMax", function(a) return td.segment_max(a, {0, 2, 2}) end,
   {SQUARE}},
  {"SegmentMin", function(a) return td.segment_min(a, {0, 2, 2}) end,
   {SQUARE}},
  {"UnsortedSegmentMax", function(a)
    return td.unsorted_segment_max(a, {2, -1, 2}, 4)["2"]
  end, {SQUARE}},
  {"UnsortedSegmentMin", function(a)
    return td.unsorted_segment_min(a, {2, -1, 2}, 4)["2"]
  end, {SQUARE}},
  {"UnsortedSegmentProd", function(a)
    return td.unsorted_segment_prod(a, {2, -1, 2}, 4)
  end, {SQUARE}},
  {"SparseSegmentSum", function(a)
    return td.sparse_segment_sum(a, {2, 0, 2}, {0, 1, 1})
  end, {SQUARE}},
  {"SparseSegmentMean", function(a)
    return td.sparse_segment_mean(a, {2, 0, 2}, {0, 1, 1})
  end, {SQUARE}},
  {"SparseSegmentSqrtN", function(a)
    return td.sparse_segment_sqrt_n(a, {2, 0, 2}, {0, 1, 1})
  end, {SQUARE}},
  {"SparseSegmentSumWithNumSegments", function(a)
    return raw.SparseSegmentSumWithNumSegments(a, {2, 0, 2}, {0, 1, 1}, 4)
  end, {SQUARE}},
  {"SparseSegmentMeanWithNumSegments", function(a)
    return raw.SparseSegmentMeanWithNumSegments(a, {2, 0, 2}, {0, 1, 1}, 4)
  end, {SQUARE}},
  {"SparseSegmentSqrtNWithNumSegments", function(a)
    return raw.SparseSegmentSqrtNWithNumSegments(a, {2, 0, 2}, {0, 1, 1}, 4)
  end, {SQUARE}},
  {"SparseSegmentSumGrad", function(a)
    return raw.SparseSegmentSumGrad(a, {2, 0, 2}, {0, 1, 1}, 4)
  end, {SQUARE}},
  {"SparseSegmentMeanGrad", function(a)
    return raw.SparseSegmentMeanGrad(a, {2, 0, 2}, {0, 1, 1}, 4)
  end, {SQUARE}},
  {"SparseSegmentSqrtNGrad", function(a)
    return raw.SparseSegmentSqrtNGrad(a, {2, 0, 2}, {0, 1, 1}, 4)
  end, {SQUARE}},
  {"UnsortedSegmentSum", function(a)
    return raw.UnsortedSegmentSum(a, {2, -1, 2}, 4)
  end, {SQUARE}},

  {"MatMul", function(a, b) return a:matmul(b) end, {S, SQUARE}},
  {"MatMul", function(a, b) return a:matmul(b, {transpose_a = true}) end,
   {S, S}},
  {"MatMul", function(a, b) return a:matmul(b, {transpose_b = true}) end,
   {S, S}},
  {"MatMul", function(a, b)
    return a:matmul(b, {transpose_a = true, transpose_b = true})
  end, {S, SQUARE["0:3, 0:2"]}},
  {"BatchMatMul", function(a, b)
    return raw.BatchMatMul(a, b, {adj_y = true})
  end, {CUBE, CUBE}},
  {"BatchMatMulV2", function(a, b) return a:matmul(b) end, {CUBE, SQUARE}},
  {"BatchMatMulV2", function(a, b)
    return a:matmul(b, {transpose_a = true})
  end, {CUBE, CUBE}},

  {"BatchMatMulV3", function(a, b)
    return raw.BatchMatMulV3(a, b, {Tout = "float64"})
  end, {STACK, CUBE}},
  unary("MatrixInverse", SQUARE),
  {"MatrixInverse", function(a)
    return raw.MatrixInverse(a, {adjoint = true})
  end, {STACK}},
  unary("MatrixDeterminant", SQUARE), unary("MatrixDeterminant", STACK),
  {"LogMatrixDeterminant", function(a)
    local _, log = raw.LogMatrixDeterminant(a)
    return log
  end, {STACK}},
  {"MatrixSolve", function(a, b) return td.matrix_solve(a, b) end,
   {SQUARE, SQUARE}},
  {"MatrixSolve", function(a, b)
    return td.matrix_solve(a, b, {adjoint = true})
  end, {STACK, CUBE}},
  {"MatrixTriangularSolve", td.matrix_triangular_solve, {SQUARE, SQUARE}},
  {"MatrixTriangularSolve", function(a, b)
    return td.matrix_triangular_solve(a, b, {lower = false, adjoint = true})
  end, {SQUARE, STACK_3}},
  {"BandedTriangularSolve", td.banded_triangular_solve, {BANDS, SQUARE}},
  {"BandedTriangularSolve", function(a, b)
    return td.banded_triangular_solve(a, b, {lower = false, adjoint = true})
  end, {BANDS, STACK_3}},
  {"MatrixSolveLs", function(a, b)
    return raw.MatrixSolveLs(a, b, td.tensor(0.5, "float64"))
  end, {TALL, TALL}},
  {"MatrixSolveLs", function(a, b)
    return raw.MatrixSolveLs(a, b, td.tensor(0.0, "float64"))
  end, {S, f64{{1.0, -2.0}, {0.5, 3.0}}}},
  {"Cholesky", function(a)
    return td.cholesky(td.raw.BatchMatMulV2(a, a, {adj_y = true}))
  end, {STACK}},
  {"Qr", function(a) return raw.Qr(a) end, {SQUARE}},
  {"Qr", function(a) return raw.Qr(a) end, {CUBE}},
  {"Qr", function(a) return raw.Qr(a) end, {TALL}},
  {"Svd", function(a) return raw.Svd(a) end, {SQUARE}},
  {"Svd", function(a) return raw.Svd(a) end, {CUBE}},
  {"Svd", function(a) return raw.Svd(a) end, {TALL}},
  {"Svd", function(a) return (raw.Svd(a, {compute_uv = false})) end, {CUBE}},
  {"SelfAdjointEigV2", function(a) return raw.SelfAdjointEigV2(a) end,
   {SQUARE}},
  {"Eig", function(a)
    local e, v = td.eig(td.raw.BatchMatMulV2(a, a, {adj_y = true}))
    return td.real(e), td.abs(v)
  end, {SQUARE}},
  {"Eig", function(a)
    local e = td.eigvals(a)
    return td.real(e) * td.abs(e)
  end, {STACK}},
  {"SelfAdjointEigV2", function(a)
    return (raw.SelfAdjointEigV2(a, {compute_v = false}))
  end, {STACK}},
  unary("MatrixDiag", S), unary("MatrixDiagPart", CUBE),
  {"MatrixSetDiag", raw.MatrixSetDiag, {S, f64{0.5, 1.5}}},
  {"MatrixDiagV3", function(a) return td.matrix_diag(a, {k = {-1, 0}}) end,
   {S}},
  {"MatrixDiagPartV3", function(a)
    return td.matrix_diag_part(a, {k = {-1, 1}, align = "LEFT_RIGHT"})
  end, {CUBE}},
  {"MatrixSetDiagV3", function(a, d)
    return td.matrix_set_diag(a, d, {k = 1})
  end, {S, f64{0.5, 1.5}}},
  {"MatrixBandPart", function(a) return td.matrix_band_part(a, 0, 1) end,
   {CUBE}},
  {"Cross", td.cross, {S, P}},
  {"Einsum", function(a, b) return td.einsum("ij,kj->ki", a, b) end, {S, P}},
  {"Einsum", function(a, b) return td.einsum("ij,j->", a, b) end, {S, ROW}},
  {"Einsum", function(a) return td.einsum("ii->", a) end, {SQUARE}},
  {"Einsum", function(a) return td.einsum("ij->jji", a) end, {S}},
  {"Einsum", function(a, b) return td.einsum("abc,k->ck", a, b) end,
   {CUBE, ROW}},
  {"Einsum", function(a, b)
    return td.einsum("...ij,jk...->ki...", a, b)
  end, {STACK, f64{{{0.5, 1.5}, {-1, 2}}, {{2, 1}, {0.3, 0.7}}}}},
  {"Einsum", function(a, b) return td.einsum("a...,...b->ab...", a, b) end,
   {COLUMN, CUBE}},
  {"Einsum", function(a, b) return td.einsum("ij,...jk->...ik", a, b) end,
   {S, STACK_3}},

  {"FFT", function(a, b) return parts(raw.FFT(td.complex(a, b))) end, {S, P}},
  {"IFFT", function(a, b) return parts(raw.IFFT(td.complex(a, b))) end, {S, P}},
  {"FFT2D", function(a, b)
    return parts(raw.FFT2D(td.complex(a, b)))
  end, {S, P}},
  {"IFFT2D", function(a, b)
    return parts(raw.IFFT2D(td.complex(a, b)))
  end, {S, P}},
  {"FFT3D", function(a) return parts(raw.FFT3D(td.complex(a, a * 2))) end,
   {CUBE}},
  {"IFFT3D", function(a) return parts(raw.IFFT3D(td.complex(a, a * 2))) end,
   {CUBE}},
  {"RFFT", function(a) return parts(td.rfft(a)) end, {S}},
  {"RFFT", function(a) return parts(td.rfft(a, 2)) end, {S}},
  {"RFFT", function(a) return parts(td.rfft(a, 6)) end, {S}},
  {"IRFFT", function(a, b) return td.irfft(td.complex(a, b)) end, {S, P}},
  {"IRFFT", function(a, b) return td.irfft(td.complex(a, b), 5) end, {S, P}},
  {"IRFFT", function(a, b) return td.irfft(td.complex(a, b), 2) end, {S, P}},
  {"RFFT2D", function(a) return parts(td.rfft2d(a)) end, {S}},
  {"RFFT2D", function(a) return parts(td.rfft2d(a, {1, 2})) end, {CUBE}},
  {"IRFFT2D", function(a, b) return td.irfft2d(td.complex(a, b)) end, {S, P}},
  {"IRFFT2D", function(a) return td.irfft2d(td.complex(a, a), {1, 5}) end,
   {CUBE}},
  {"RFFT3D", function(a) return parts(td.rfft3d(a)) end, {CUBE}},
  {"IRFFT3D", function(a, b)
    return td.irfft3d(td.complex(a, b), {2, 2, 5})
  end, {CUBE, CUBE * 2}},

  {"Reshape", function(a) return a:reshape{3, -1} end, {S}},
  {"ExpandDims", function(a) return a:expand_dims(1) end, {S}},
  {"Transpose", function(a) return a:transpose{2, 0, 1} end, {CUBE}},
  {"ConjugateTranspose", function(a)
    return a:transpose({2, 0, 1}, {conjugate = true})
  end, {CUBE}},
  {"ReverseV2", function(a) return a:reverse{1} end, {S}},
  {"BroadcastTo", function(a) return td.broadcast_to(a, {4, 2, 3}) end,
   {COLUMN}},
  {"Tile", function(a) return td.tile(a, {2, 3}) end, {S}},
  {"ConcatV2", function(a, b) return td.concat({a, b}, -1) end, {S, COLUMN}},
  {"Concat", function(a, b) return raw.Concat(0, {a, b}) end, {S, SQUARE}},
  {"Split", function(a) return (a:split(3, 1))[2] end, {S}},
  {"SplitV", function(a)
    local p = a:split({1, 2}, 1)
    return p[1], p[2]
  end, {S}},
  {"Pack", function(a, b) return td.stack({a, b}, 1) end, {S, P}},
  {"Unpack", function(a) return (a:unstack(1))[3] end, {S}},
  {"Slice", function(a) return td.slice(a, {0, 1}, {-1, 2}) end, {S}},
  {"StridedSlice", function(a) return a["new, ::-1, 0:2"] end, {S}},
  {"StridedSlice", function(a) return a[1] end, {S}},
  {"StridedSliceGrad", function(a, dy)
    return td.gradients(a["1, ::2"], a, {grad_ys = dy})
  end, {S, f64{1.0, 2.0}}},
  {"Pad", function(a) return a:pad{{1, 0}, {0, 2}} end, {S}},
  {"PadV2", function(a, c)
    return a:pad({{1, 0}, {0, 2}}, {constant_values = c})
  end, {S, f64(0.5)}},
  {"Fill", function(a) return td.fill({2, 2}, a) end, {f64(1.5)}},
  {"Gather", function(a) return raw.Gather(a, {{1, 0}, {1, 1}}) end, {S}},
  {"GatherV2", function(a) return a:gather({1, 0, 1}) end, {S}},
  {"GatherV2", function(a) return a:gather({{2, 0}, {2, 1}}, 1) end, {S}},
  {"GatherV2", function(a) return a:gather({1, 1}, 2) end, {CUBE}},
  {"GatherNd", function(a) return td.gather_nd(a, {{0, 1}, {0, 1}, {1, 2}}) end,
   {S}},
  {"ScatterNd", function(a) return td.scatter_nd({{1}, {3}}, a, {4, 3}) end,
   {S}},
  {"MirrorPad", function(a)
    return raw.MirrorPad(a, {{1, 0}, {0, 2}}, {mode = "REFLECT"})
  end, {S}},
  {"MirrorPadGrad", function(a)
    return raw.MirrorPadGrad(a, {{0, 0}, {1, 0}}, {mode = "SYMMETRIC"})
  end, {S}},
  {"ReverseSequence", function(a)
    return raw.ReverseSequence(a, {2, 3}, {seq_dim = 1})
  end, {S}},
  {"Roll", function(a) return td.roll(a, {1, -1}, {0, 1}) end, {S}},
  {"SpaceToDepth", function(a)
    return raw.SpaceToDepth(a, {block_size = 2})
  end, {CUBE:reshape{1, 2, 2, 3}}},
  {"DepthToSpace", function(a)
    return raw.DepthToSpace(a, {block_size = 2})
  end, {CUBE:reshape{1, 1, 3, 4}}},
  {"SpaceToBatchND", function(a)
    return raw.SpaceToBatchND(a, {2, 3}, {{1, 1}, {1, 2}})
  end, {CUBE}},
  {"BatchToSpaceND", function(a)
    return raw.BatchToSpaceND(a, {2}, {{1, 0}})
  end, {CUBE}},
  {"SpaceToBatch", function(a)
    return raw.SpaceToBatch(a, {{0, 0}, {1, 0}}, {block_size = 2})
  end, {CUBE:reshape{1, 2, 3, 2}}},
  {"BatchToSpace", function(a)
    return raw.BatchToSpace(a, {{1, 0}, {0, 1}}, {block_size = 2})
  end, {CUBE:reshape{4, 1, 3, 1}}},
  {"TensorScatterUpdate", function(a, b)
    return td.tensor_scatter_nd_update(a, {{1}, {0}}, b)
  end, {SQUARE, S}},
  {"TensorScatterAdd", function(a, b)
    return td.tensor_scatter_nd_add(a, {{1}, {1}}, b)
  end, {SQUARE, S}},
  {"TensorScatterSub", function(a, b)
    return td.tensor_scatter_nd_sub(a, {{1}, {1}}, b)
  end, {SQUARE, S}},
  {"TensorScatterMax", function(a, b)
    return td.tensor_scatter_nd_max(a, {{1}, {2}}, b)
  end, {SQUARE, S}},
  {"TensorScatterMin", function(a, b)
    return td.tensor_scatter_nd_min(a, {{1}, {2}}, b)
  end, {SQUARE, S}},
  {"ScatterNdNonAliasingAdd", function(a, b)
    return raw.ScatterNdNonAliasingAdd(a, {{1}, {1}}, b)
  end, {SQUARE, S}},
  {"TensorStridedSliceUpdate", function(a, b)
    return raw.TensorStridedSliceUpdate(a, {0, 1}, {2, 3}, {1, 1}, b)
  end, {SQUARE, ROW["0:2"]}},
  {"TopKV2", function(a) return (a:top_k(2)) end, {S}},
  {"TopK", function(a) return (raw.TopK(a, {k = 2})) end, {S}},
  {"DynamicPartition", function(a)
    local p = raw.DynamicPartition(a, {1, 0, 1}, {num_partitions = 2})
    return p[1]:set_shape{1, 3}, p[2]:set_shape{2, 3}
  end, {SQUARE}},
  {"DynamicStitch", function(a, b)
    return raw.DynamicStitch({{0, 2}, {3, 1}}, {a, b})
  end, {S, P}},
  {"ParallelDynamicStitch", function(a, b)
    return raw.ParallelDynamicStitch({{0, 2}, {3, 1}}, {a, b})
  end, {S, P}},
  {"NthElement", function(a) return td.nth_element(a, 1) end, {S}},
  {"SparseToDense", function(a, b)
    return td.sparse_to_dense({1, 4, 6}, {8}, a, b)
  end, {ROW, f64(0.5)}},
  {"SparseReorder", function(a)
    return (select(2, td.sparse_reorder({{4}, {0}, {2}}, a, {5})))
  end, {ROW}},
  {"SparseTensorDenseMatMul", function(a, b)
    return td.sparse_tensor_dense_matmul({{0, 1}, {2, 0}, {2, 1}}, a, {3, 2},
      b)
  end, {ROW, S}},
  {"SparseTensorDenseMatMul", function(a, b)
    return td.sparse_tensor_dense_matmul({{0, 1}, {2, 0}, {2, 1}}, a, {3, 2},
      b, {adjoint_a = true, adjoint_b = true})
  end, {ROW, S}},

  {"SoftmaxCrossEntropyWithLogits", td.nn.softmax_cross_entropy,
   {S, f64{{0.2, 0.3, 0.5}, {0.1, 0.0, 0.9}}}},
  {"SparseSoftmaxCrossEntropyWithLogits", function(a)
    return td.nn.sparse_softmax_cross_entropy(a, {2, 0})
  end, {S}},
  {"SoftmaxCrossEntropyWithLogits", function(a)
    local _, b = raw.SoftmaxCrossEntropyWithLogits(a, P)
    return b
  end, {S}},
  {"SparseSoftmaxCrossEntropyWithLogits", function(a)
    local _, b = raw.SparseSoftmaxCrossEntropyWithLogits(a, {2, 0})
    return b
  end, {S}},
  {"BiasAdd", function(a, b) return td.bias_add(a, b) end, {S, ROW}},
  {"BiasAddV1", function(a, b) return raw.BiasAddV1(a, b) end, {S, ROW}},
  {"BiasAddGrad", function(a, dy)
    local b = td.constant({0, 0, 0}, "float64")
    return td.gradients(td.bias_add(a, b), b, {grad_ys = dy})
  end, {S, P}},
}

-- A float64 tensor of that shape, f(i) at place i.
local function filled(shape, f)
  local list, n = {}, 1
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n do list[i] = f(i) end
  return td.tensor(list, "float64", shape)
end

-- No two neighbours alike; no two of 127 alike.
local function fill(...)
  return filled({...}, function(i) return (i * 7 % 11 - 5) / 4 end)
end
local function distinct(...)
  return filled({...}, function(i) return i * 37 % 127 / 16 end)
end

-- Forward, data and filter, each by the other two.
local function convolutions(forward, data, filter, x, w, y, attrs)
  for _, row in ipairs{
    {forward, function(a, b) return raw[forward](a, b, attrs) end, {x, w}},
    {data, function(b, c) return raw[data](x.shape, b, c, attrs) end, {w, y}},
    {filter, function(a, c) return raw[filter](a, w.shape, c, attrs) end,
     {x, y}},
  } do
    rows[#rows + 1] = row
  end
end

local conv2d = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"}
local conv3d = {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"}
local function conv2(...) convolutions(conv2d[1], conv2d[2], conv2d[3], ...) end
local function conv3(...) convolutions(conv3d[1], conv3d[2], conv3d[3], ...) end

conv2(fill(1, 4, 5, 2), fill(2, 3, 2, 2), fill(1, 2, 5, 2),
      {strides = {1, 2, 1, 1}, padding = "SAME"})
conv2(fill(1, 5, 4, 4), fill(2, 2, 2, 2), fill(1, 3, 3, 2), -- groups, holes
      {strides = {1, 1, 1, 1}, padding = "VALID", dilations = {1, 2, 1, 1}})
conv2(fill(2, 2, 3, 3), fill(2, 2, 2, 1), fill(2, 1, 3, 3),
      {strides = {1, 1, 1, 2}, padding = "EXPLICIT", data_format = "NCHW",
       explicit_paddings = {0, 0, 0, 0, 0, 1, 2, 1}})
convolutions("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
             "DepthwiseConv2dNativeBackpropFilter", fill(1, 4, 3, 3),
             fill(2, 2, 3, 2), fill(1, 2, 3, 6),
             {strides = {1, 2, 1, 1}, padding = "SAME"})
conv3(fill(1, 2, 3, 2, 1), fill(2, 2, 1, 1, 2), fill(1, 1, 3, 2, 2),
      {strides = {1, 2, 1, 1, 1}, padding = "SAME"})

-- ---- pictures --------------------------------------------------------------

-- The results of resizing are float32: steps must be large, and sums linear.
local PICTURE = fill(1, 3, 2, 2)
for _, row in ipairs{
  {"ResizeBilinear", function(a) return raw.ResizeBilinear(a, {4, 3}) end,
   {PICTURE}, 0.25},
  {"ResizeBicubic", function(a)
    return raw.ResizeBicubic(a, {4, 3}, {half_pixel_centers = true})
  end, {PICTURE}, 0.25},
  {"ResizeNearestNeighbor", function(a)
    return raw.ResizeNearestNeighbor(a, {4, 3})
  end, {PICTURE}},
  {"ResizeBilinearGrad", function(a)
    return raw.ResizeBilinearGrad(td.cast(a, "float32"), PICTURE)
  end, {fill(1, 4, 3, 2)}, 0.25},
  {"CropAndResize", function(a)
    return raw.CropAndResize(a, {{0.1, 0.2, 0.8, 0.9}, {1, 0, 0, 1}}, {0, 0},
                             {2, 3})
  end, {PICTURE}, 0.25},
  {"RGBToHSV", raw.RGBToHSV, {f64{{0.2, 0.5, 0.9}, {0.7, 0.1, 0.4},
                                  {0.3, 0.8, 0.6}}}},
  {"ExtractImagePatches", function(a)
    return raw.ExtractImagePatches(a, {ksizes = {1, 2, 2, 1},
      strides = {1, 2, 1, 1}, rates = {1, 1, 1, 1}, padding = "SAME"})
  end, {PICTURE}},
  {"Dilation2D", function(a, b)
    return raw.Dilation2D(a, b, {strides = {1, 1, 1, 1}, rates = {1, 1, 1, 1},
                                 padding = "VALID"})
  end, {f64{{{{1.0}, {5.0}, {2.0}}, {{7.5}, {0.5}, {4.0}}}},
        f64{{{0.3}, {1.1}}}}},
} do
  rows[#rows + 1] = row
end

-- ---- pooling ---------------------------------------------------------------

-- Ops of x, and their gradients, of what is like the result. `delta` is of
-- volumes, which have no float64.
local function pools(x, y, name, attrs, delta)
  local function to(a) return delta and td.cast(a, "float32") or a end
  local function max(of)
    return function(a)
      local seen = raw["Max" .. name](to(x), attrs)
      return raw["Max" .. name .. of](to(x), seen, to(a), attrs)
    end
  end
  for _, row in ipairs{
    {"Max" .. name, function(a) return raw["Max" .. name](to(a), attrs) end, x},
    {"Max" .. name .. "Grad", max "Grad", y},
    {"Max" .. name .. "GradGrad", max "GradGrad", x},
    {"Avg" .. name, function(a) return raw["Avg" .. name](to(a), attrs) end, x},
    {"Avg" .. name .. "Grad", function(a)
      return raw["Avg" .. name .. "Grad"](x.shape, to(a), attrs)
    end, y},
  } do
    rows[#rows + 1] = {row[1], row[2], {row[3]}, delta}
  end
end

pools(distinct(2, 4, 5, 2), fill(2, 2, 3, 2), "Pool",
      {ksize = {1, 2, 3, 1}, strides = {1, 2, 2, 1}, padding = "SAME"})
pools(distinct(1, 2, 4, 5), fill(1, 2, 3, 2), "Pool",
      {ksize = {1, 1, 2, 3}, strides = {1, 1, 1, 2}, padding = "VALID",
       data_format = "NCHW"})
pools(distinct(1, 2, 3, 4, 2), fill(1, 1, 2, 2, 2), "Pool3D",
      {ksize = {1, 2, 2, 2, 1}, strides = {1, 2, 2, 2, 1}, padding = "SAME"},
      1e-2)

do -- the same with the window as operands
  local k, s, o = td.tensor{1, 2, 2, 1}, td.tensor{1, 1, 1, 1},
    {padding = "VALID"}
  local x, y = distinct(1, 3, 3, 2), fill(1, 2, 2, 2)
  local function max(name, of)
    return {name, function(a)
      return raw[name](x, raw.MaxPoolV2(x, k, s, o), a, k, s, o)
    end, {of}}
  end
  rows[#rows + 1] = {"MaxPoolV2", function(a)
    return raw.MaxPoolV2(a, k, s, o)
  end, {x}}
  rows[#rows + 1] = {"MaxPoolWithArgmax", function(a)
    return (td.max_pool_with_argmax(a, 2, 1))
  end, {x}}
  rows[#rows + 1] = max("MaxPoolGradV2", y)
  rows[#rows + 1] = max("MaxPoolGradGradV2", x)
end

for _, op in ipairs{"FractionalMaxPool", "FractionalAvgPool"} do
  for _, overlapping in ipairs{true, false} do
    rows[#rows + 1] = {op, function(a)
      return (raw[op](a, {pooling_ratio = {1, 1.5, 1.25, 1}, seed = 3,
        deterministic = true, overlapping = overlapping}))
    end, {distinct(1, 5, 4, 2)}}
  end
end

rows[#rows + 1] = {"CTCLoss", function(a)
  return (td.ctc_loss(a, td.tensor({{0, 0}, {0, 1}, {1, 0}}, "int64"),
                      {0, 1, 1}, {4, 3}))
end, {fill(4, 2, 3)}}

-- ---- normalisation, which has no float64 ------------------------------------

local function single(name, f, ...)
  rows[#rows + 1] = {name, f, {...}, 1e-2}
end
local function f32(x) return td.cast(x, "float32") end

for version, end_ in pairs{[""] = {}, V2 = {}, V3 = {td.tensor(0.0)}} do
  local x, pair = distinct(1, 2, 3, 2), fill(2)
  local mean, variance = fill(2), distinct(2)
  for _, training in ipairs{true, false} do
    local o = {is_training = training, epsilon = 0.5}
    single("FusedBatchNorm" .. version, function(a, b, c)
      return (raw["FusedBatchNorm" .. version](f32(a), f32(b), f32(c),
        f32(mean), f32(variance), o))
    end, x, pair, fill(2))
    single("FusedBatchNormGrad" .. version, function(dy, a, b)
      local m, v = td.moments(f32(a), {0, 1, 2})
      if not training then m, v = f32(mean), f32(variance) end
      local given = {f32(dy), f32(a), f32(b), td.stop_gradient(m),
                     td.stop_gradient(v), end_[1]}
      given[#given + 1] = o
      local dx, ds, d = raw["FusedBatchNormGrad" .. version](
        table.unpack(given))
      return dx + ds * 2 - d
    end, fill(1, 2, 3, 2), x, pair)
  end
end
for _, scale in ipairs{true, false} do
  local name = "BatchNormWithGlobalNormalization"
  rows[#rows + 1] = {name, function(a, m, v, beta, gamma)
    local o = {variance_epsilon = 0.5, scale_after_normalization = scale}
    local y = raw[name](a, m, v, beta, gamma, o)
    local written = (a - m) * td.rsqrt(v + 0.5)
    written = (scale and written * gamma or written) + beta
    return y + (y - written) * 1e3 -- the same, and the same gradients
  end, {fill(1, 2, 2, 2), fill(2), distinct(2), fill(2), distinct(2)}}
end
for _, beta in ipairs{0.5, 0.75, 1} do
  single("LRN", function(a)
    return raw.LRN(f32(a), {depth_radius = 2, beta = beta})
  end, fill(1, 1, 2, 7))
end

-- ---- recurrent cells, which have no float64 ---------------------------------

-- Near 0, where no cell is clipped.
local function near(...) return fill(...) * 0.1 end
local function all_of(ys) return ys[2] + ys[7] * 2 end

for _, peephole in ipairs{true, false} do
  local batch, inputs, n, o = 2, 3, 2, {use_peephole = peephole}
  local after = {near(batch, n), near(batch, n), near(inputs + n, 4 * n),
                 near(n), near(n), near(n), near(4 * n)}
  local function run(op, first, ...)
    local given = {first, ...}
    for i, x in ipairs(given) do given[i] = f32(x) end
    given[#given + 1] = o
    if op ~= "LSTMBlockCell" then
      table.insert(given, 1, td.tensor(3, "int64"))
    end
    return all_of{raw[op](table.unpack(given))}
  end
  single("LSTMBlockCell", function(...) return run("LSTMBlockCell", ...) end,
         near(batch, inputs), table.unpack(after))
  for _, op in ipairs{"BlockLSTM", "BlockLSTMV2"} do
    single(op, function(...) return run(op, ...) end, near(4, batch, inputs),
           table.unpack(after))
  end
end
single("GRUBlockCell", function(...)
  local given = {...}
  for i, x in ipairs(given) do given[i] = f32(x) end
  return (select(4, raw.GRUBlockCell(table.unpack(given))))
end, near(2, 3), near(2, 2), near(5, 4), near(5, 2), near(4), near(2))

for _, row in ipairs(rows) do
  if row[1] == "EnsureShape" then
    row[2] = function(a) return raw.EnsureShape(a, {shape = {2, 3}}) end
  end
end

-- Functions that ask for more than the rank, or the rank.
local need_sizes = {DynamicPartition = true, MatrixSolveLs = true,
                    Unpack = true}
local need_rank = {BatchMatMulV2 = true, BatchMatMulV3 = true,
                   BiasAddGrad = true, Transpose = true}

local function check(row, known)
  local coarse = row[4] ~= nil
  local worst = td.test.gradient(row[2], row[3],
                                 {delta = row[4], known = known})
  lu.assertTrue(worst < (coarse and 1e-3 or 1e-6),
                ("%s, known %s: %g"):format(row[1], known, worst))
end

-- One test a row: tests.Name, tests.Name_2 ...
local seen = {}
for _, row in ipairs(rows) do
  local n = (seen[row[1]] or 0) + 1
  seen[row[1]] = n
  tests["rule_" .. row[1] .. (n > 1 and "_" .. n or "")] = function()
    check(row, "all")
    if need_sizes[row[1]] then return end
    check(row, "rank")
    if not need_rank[row[1]] then check(row, "nothing") end
  end
end

-- Ops that TensorFlow gives no gradient either, and those tested below.
local without = {Bincount = true, Bitcast = true, DenseBincount = true,
                 IgammaGradA = true, Lu = true, RandomGammaGrad = true,
                 MaxPoolGradWithArgmax = true, LRNGrad = true,
                 BatchNormWithGlobalNormalizationGrad = true,
                 FractionalMaxPoolGrad = true, FractionalAvgPoolGrad = true,
                 Dilation2DBackpropInput = true,
                 Dilation2DBackpropFilter = true,
                 LSTMBlockCellGrad = true, BlockLSTMGrad = true,
                 BlockLSTMGradV2 = true, GRUBlockCellGrad = true,
                 RandomShuffle = true, ListDiff = true, Unique = true,
                 UniqueV2 = true, UniqueWithCounts = true,
                 UniqueWithCountsV2 = true}
local elsewhere = {RandomGamma = true, ReadVariableOp = true,
                   ResourceGather = true, ResourceGatherNd = true,
                   Enter = true, Switch = true,
                   Exit = true, Merge = true, NextIteration = true,
                   PreventGradient = true}
elsewhere.StackPopV2 = true -- loops.lua
elsewhere.PartitionedCall = true -- func.lua
elsewhere.StatefulPartitionedCall = true
for _, name in ipairs{"If", "Case", "While"} do -- functional.lua
  elsewhere[name], elsewhere["Stateless" .. name] = true, true
end
for _, name in ipairs{"Read", "Write", "Gather", "Scatter", "Concat", "Split",
                      "Grad"} do
  elsewhere["TensorArray" .. name .. "V3"] = true -- loops.lua
end

for _, name in ipairs{"PushBack", "PopBack", "Stack", "FromTensor", "Concat",
                      "ConcatV2", "Split", "GetItem", "SetItem", "Resize",
                      "Gather", "Scatter", "ScatterV2",
                      "ScatterIntoExistingList"} do
  elsewhere["TensorList" .. name] = true -- functional.lua
end
elsewhere.OptionalFromValue, elsewhere.OptionalGetValue = true, true

local function gives_floats(info)
  for _, out in ipairs(info.outputs) do
    local t = out.type:gsub("^%w+%*", "")
    for _, a in ipairs(info.attrs) do
      if a.name == t and a.type:find("type") then
        for _, d in ipairs(a.allowed or {"float32"}) do
          if d == "float32" then return true end
        end
      end
    end
    if t == "float32" then return true end
  end
  return false
end

function tests.every_op_has_a_rule()
  for _, type in ipairs(core.op_names()) do
    local info, rule = core.op_info(type), rules.rule(type)
    local needs = gives_floats(info) and #info.inputs > 0
                  and type:sub(1, 1) ~= "_"
    if needs and rule == nil and not info.no_gradient then
      lu.assertTrue(without[type] or false, type .. " has no gradient rule")
    end
    if rule then
      lu.assertTrue(seen[type] ~= nil or elsewhere[type] or false,
                    type .. ": its rule is not tested")
    end
  end
end

-- ---- the walk ---------------------------------------------------------------

function tests.forms()
  local x, z = td.constant(3.0), td.constant(2.0)
  local y = x * x * z
  gives(12, td.gradients(y, x))
  local d = td.gradients(y, {x, z})
  gives(12, d[1])
  gives(9, d[2])
  gives(13, td.gradients({y, x}, {x})[1])
  gives(24, td.gradients(y, x, {grad_ys = 2.0}))
  gives(1, td.gradients(y, y))
  lu.assertFalse(td.gradients(y, td.constant(1.0)))
  lu.assertFalse(td.gradients(td.stop_gradient(y), x))
end

function tests.stop_gradients()
  local x = td.constant(3.0)
  local a = x * x
  local y = a * x
  gives(27, td.gradients(y, x))
  gives(9, td.gradients(y, x, {stop_gradients = {a}}))
  lu.assertFalse(td.gradients(a * 2, x, {stop_gradients = {a}}))
end

function tests.shared_and_intermediate()
  local x = td.constant(2.0)
  local a = x * 3
  local y = a * a + a + x
  local d = td.gradients(y, {x, a})
  gives(40, d[1])
  gives(13, d[2])
  gives(6, td.gradients(td.gradients(x ^ 3, x), x) / 2)
end

function tests.integers_carry_none()
  local x = td.constant{1.5, 2.5}
  lu.assertFalse(td.gradients(x:cast("int32"):cast("float32"), x))
  lu.assertFalse(td.gradients(td.floor(x), x))
  raises("only floats", td.gradients, td.constant(1), td.constant(2))
end

function tests.no_rule()
  local x = td.constant{1.5, 2.5}
  local e = raises("no gradient is defined for op RandomShuffle", td.gradients,
                   td.random_shuffle(x), x)
  lu.assertEquals(e.code, "not_found")
  lu.assertStrContains(e.message, "gradients.lua:")
  local y = td.raw.PreventGradient(x, {message = "no"})
  raises("forbids", td.gradients, y, x)
end

function tests.refused()
  local x = td.constant(1.0)
  raises("not a value", td.gradients, x, td.tensor(1.0))
  raises("grad_ys", td.gradients, {x, x}, {x}, {grad_ys = {1.0}})
  raises("shape", td.gradients, x, {x}, {grad_ys = {td.constant{1.0, 2.0}}})
  raises("no option", td.gradients, x, {x}, {grad_y = 1})
end

function tests.variables()
  local v = td.variable({1.0, 2.0}, "v")
  local y = (v * v):sum() + v:read():sum()
  local s = td.session()
  s:init()
  gives({3, 5}, s:run(td.gradients(y, v)))
end

function tests.slices_of_variables()
  local v = td.variable({{1.0, 2.0}, {3.0, 4.0}}, "v")
  local y = td.raw.ResourceGatherNd(v.handle, {{0, 1}, {1, 0}, {0, 1}},
                                    {dtype = "float32"})
  local s = td.session()
  s:init()
  gives({{0, 5}, {2, 0}}, s:run(td.gradients((y * {1, 2, 4}):sum(), v)))
end

function tests.sparse()
  local v = td.variable(td.value.ones{5, 2}, "v")
  local w = td.constant{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}
  local y = (v:gather{4, 0, 4} * w):sum()
  local d = td.gradients(y, v)
  lu.assertEquals({d.values.dtype, d.indices.dtype}, {"float32", "int32"})
  lu.assertTrue(d.dense_shape == {5, 2})
  local s = td.session()
  s:init()
  local r = s:run(d)
  lu.assertEquals(r.indices:table(), {4, 0, 4})
  local dense = {{3, 4}, {0, 0}, {0, 0}, {0, 0}, {6, 8}}
  gives(dense, s:run(d:dense()))
  gives({{6, 8}, {0, 0}, {0, 0}, {0, 0}, {12, 16}}, s:run(d * 2))
  lu.assertEquals(s:run(d:unique()).indices:table(), {4, 0})
  local both = td.gradients(y + v:gather({1}):sum(), v)
  lu.assertEquals(s:run(both).indices:table(), {1, 4, 0, 4})
  local mixed = td.gradients(y + v:sum(), v)
  gives({{4, 5}, {1, 1}, {1, 1}, {1, 1}, {7, 9}}, s:run(mixed))
end

function tests.registered()
  td.register_gradient("TestTwice", function(_, dy) return dy * 2 end)
  raises("already", td.register_gradient, "TestTwice", print)
  raises("already", td.register_gradient, "MatMul", print)
  local x = td.constant(3.0)
  local y = td.gradient_override_map({Square = "TestTwice"}, function()
    return td.square(x)
  end)
  gives(9, y)
  gives(2, td.gradients(y, x))
  gives(6, td.gradients(td.square(x), x))
  raises("no op", td.gradient_override_map, {Squore = "TestTwice"})
  td.register_gradient("TestWrong", function(_, dy) return dy, dy end)
  raises("2 results for the 1 inputs", function()
    return td.gradients(td.gradient_override_map({Square = "TestWrong"},
                                                 td.square, x), x)
  end)
end

function tests.custom()
  local clipped = td.custom_gradient(function(x) return x * x end,
    function(dy, x) return td.minimum(dy * x * 2, 1.0) end)
  local x = td.constant(3.0)
  gives(9, clipped(x))
  gives(1, td.gradients(clipped(x), x))
  local two = td.custom_gradient(function(a, b) return a + b, a * b end,
    function(da, db, a, b) return da * 10 + a * 0, db * 100 + b * 0 end)
  local p, q = two(x, td.constant(5.0))
  gives(15, q)
  gives(10, td.gradients(p + q, x))
end

function tests.inside_a_branch_and_a_loop()
  local v = td.variable(3.0, "v")
  local x = td.constant(2.0)
  local c = td.cond(x:less(5), function()
    return td.gradients(x * x * v, x)
  end, function() return 0.0 end)
  local _, total = td.while_loop(function(i) return i:less(3) end,
    function(i, t) return i + 1, t + td.gradients(v * v * x, v) end, {0, 0.0})
  local s = td.session()
  s:init()
  lu.assertEquals(s:run{c, total}, {12.0, 36.0})
end

function tests.functions_of_values()
  gives(6, td.grad(function(x) return x * x end)(3.0))
  local f = td.value_and_grad(function(x, y) return (x * y):sum() end)
  local y, dx, dy = f(td.tensor{1.0, 2.0}, td.tensor{3.0, 4.0})
  gives(11, y)
  gives({3, 4}, dx)
  gives({1, 2}, dy)
  local traced = 0
  local g = td.grad(function(x)
    traced = traced + 1
    return x ^ 3
  end)
  gives({3, 12}, g(td.tensor{1.0, 2.0}))
  gives({27, 48}, g(td.tensor{3.0, 4.0}))
  gives(3, g(1.0))
  lu.assertEquals(traced, 2)
  raises("takes values", td.grad(td.square), td.constant(1.0))
end

-- Forty shapes; the first must be traced anew, the last is kept.
function tests.traces_are_bounded()
  local traced = 0
  local d = td.grad(function(x)
    traced = traced + 1
    return td.sum(x * x)
  end)
  for n = 1, 40 do d(td.value.ones{n}) end
  d(td.value.ones{40})
  lu.assertEquals(traced, 40)
  gives({2}, d(td.value.ones{1}))
  lu.assertEquals(traced, 41)
end

return tests
