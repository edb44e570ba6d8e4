--- grad/linalg.lua - gradients of linear algebra, of matrices in the last two
-- axes.
--
-- What holds of one matrix holds of each in a batch. F below is what divides
-- by the differences of eigenvalues: equal ones give 0 there, not infinity.
-- Sources: Giles, "Collected matrix derivative results for forward and reverse
-- mode algorithmic differentiation", 2008; Townsend, "Differentiating the
-- singular value decomposition", 2016; Walter and Lehmann, "On evaluating
-- higher-order derivatives of the QR decomposition", 2010.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shape = require "tide.autodiff.rule_shape"
local ops = require("tide.ops").ops

local conj = shape.conj
local grad = {}

-- ---- matrices -------------------------------------------------------------

-- x y, either conjugated and transposed.
local function mul(x, y, adjoint_x, adjoint_y)
  return core.op "BatchMatMulV2"(x, y, {adj_x = adjoint_x, adj_y = adjoint_y})
end

-- The conjugated transpose.
local function adjoint(x)
  local perm
  if x.rank then
    perm = {}
    for i = 1, x.rank - 2 do perm[i] = i - 1 end
    perm[#perm + 1], perm[#perm + 2] = x.rank - 1, x.rank - 2
  else
    local rank = ops.rank(x)
    perm = ops.concat({ops.range(rank - 2), ops.stack{rank - 1, rank - 2}}, 0)
  end
  return conj(core.op "Transpose"(x, perm))
end

local function diag(x) return core.op "MatrixDiag"(x) end
local function diag_part(x) return core.op "MatrixDiagPart"(x) end
local function set_diag(x, d) return core.op "MatrixSetDiag"(x, d) end

local function lower(x) return ops.matrix_band_part(x, -1, 0) end

-- The triangle of a symmetric matrix that stands for all of it.
local function folded(x)
  local both = lower(x + adjoint(x))
  return set_diag(both, diag_part(both) * 0.5)
end

-- 1 / (e[j] - e[i]), 0 where they are equal.
local function differences(e)
  local d = ops.expand_dims(e, -2) - ops.expand_dims(e, -1)
  return ops.div_no_nan(ops.ones_like(d), d)
end

-- A size of x: a number where it is known.
local function size(x, axis)
  local known = x.shape and x:dim(axis)
  return math.type(known) and known or shape.sizes(x)[axis]
end

-- x of a number for each matrix, as matrices of one.
local function each(x)
  return ops.expand_dims(ops.expand_dims(x, -1), -1)
end

-- ---- equations ------------------------------------------------------------

function grad.MatrixInverse(op, dy)
  local y, turned = op.outputs[1], op.attr.adjoint
  return -mul(y, mul(dy, y, turned, not turned), not turned, false)
end

-- The gradient of the matrix in op(A) X = B from that of B.
local function of_matrix(op, db)
  local x = op.outputs[1]
  if op.attr.adjoint then return -mul(x, db, false, true) end
  return -mul(db, x, false, true)
end

function grad.MatrixSolve(op, dy)
  local db = ops.matrix_solve(op.inputs[1], dy,
                              {adjoint = not op.attr.adjoint})
  return of_matrix(op, db), db
end

function grad.MatrixTriangularSolve(op, dy)
  local a, b = table.unpack(op.inputs)
  local is_lower = op.attr.lower
  local db = ops.matrix_triangular_solve(a, dy,
    {lower = is_lower, adjoint = not op.attr.adjoint})
  local da = ops.matrix_band_part(of_matrix(op, db), is_lower and -1 or 0,
                                  is_lower and 0 or -1)
  return shape.unbatch(a, b, da, db)
end

-- The diagonals of the whole matrix's gradient, in the rows that they have.
function grad.BandedTriangularSolve(op, dy)
  local a, b = table.unpack(op.inputs)
  local is_lower, count = op.attr.lower, size(a, -2) - 1
  local db = ops.banded_triangular_solve(a, dy,
    {lower = is_lower, adjoint = not op.attr.adjoint})
  local k = is_lower and {-count, 0} or {0, count}
  if not math.type(count) then
    local zero = ops.zeros_like(count)
    k = ops.stack(is_lower and {-count, zero} or {zero, count})
  end
  local da = ops.matrix_diag_part(of_matrix(op, db),
                                  {k = k, align = "LEFT_RIGHT"})
  return shape.unbatch(a, b, da, db)
end

-- X of (a + l I) X = b, a positive.
local function regular(a, l, b)
  local diagonal = diag_part(a) + ops.cast(l, a.dtype)
  return ops.cholesky_solve(ops.cholesky(set_diag(a, diagonal)), b)
end

-- X = (A^H A + l I)^-1 A^H B, or, the same, A^H (A A^H + l I)^-1 B.
function grad.MatrixSolveLs(op, dx)
  local a, b, l = table.unpack(op.inputs)
  local x, rows, cols = op.outputs[1], size(a, -2), size(a, -1)
  if not (op.attr.fast and math.type(rows) and math.type(cols)) then
    core.error("unimplemented", "the gradient of MatrixSolveLs needs fast and "
      .. "a matrix of known sizes")
  end
  if rows >= cols then
    local z = regular(mul(a, a, true), l, dx)
    local both = mul(x, z, false, true)
    return mul(b, z, false, true) - mul(a, both + adjoint(both)), mul(a, z),
           false
  end
  local square = mul(a, a, false, true)
  local db, w = regular(square, l, mul(a, dx)), regular(square, l, b)
  return mul(w, dx, false, true) - mul(db, x, false, true)
         - mul(w, mul(db, a, true)), db, false
end

-- ---- determinants ---------------------------------------------------------

local function inverse_adjoint(x)
  return ops.matrix_inverse(x, {adjoint = true})
end

function grad.MatrixDeterminant(op, dy)
  return each(dy * conj(op.outputs[1])) * inverse_adjoint(op.inputs[1])
end

function grad.LogMatrixDeterminant(op, _, dlog)
  if not dlog then return false end
  return each(dlog) * inverse_adjoint(op.inputs[1])
end

-- ---- factors --------------------------------------------------------------

-- L^-H m L^-1
local function between(l, m)
  local function solve(x)
    return ops.matrix_triangular_solve(l, x, {adjoint = true})
  end
  return adjoint(solve(adjoint(solve(m))))
end

function grad.Cholesky(op, dl)
  local l = op.outputs[1]
  local m = mul(l, dl, true)
  m = lower(set_diag(m, diag_part(m) * 0.5))
  local da = between(l, m)
  return (da + adjoint(da)) * 0.5
end

-- x R^-H, R an upper triangle.
local function over(x, r)
  return adjoint(ops.matrix_triangular_solve(r, adjoint(x), {lower = false}))
end

-- Of A = Q R with a square R.
local function qr_square(q, r, dq, dr)
  local in_q, in_r = mul(q, dq, true), mul(r, dr, false, true)
  local skew = lower(in_q - adjoint(in_q) + in_r - adjoint(in_r))
  local da = mul(q, dr + over(skew, r)) + over(dq - mul(q, in_q), r)
  if not q.dtype:find "complex" then return da end
  -- The diagonal of R is real, whatever the phases in Q.
  local d = diag_part(in_r - adjoint(in_q))
  local turn = diag(d - ops.cast(ops.real(d), q.dtype))
  return da + over(mul(q, turn, false, true), r)
end

-- A wider than high is (X | Y), R then (U | V) with X = Q U and V = Q^H Y.
function grad.Qr(op, dq, dr)
  local a, q, r = op.inputs[1], op.outputs[1], op.outputs[2]
  dq, dr = shape.filled(op, 1, dq), shape.filled(op, 2, dr)
  local rows, cols = size(a, -2), size(a, -1)
  local known = math.type(rows) and math.type(cols)
  if op.attr.full_matrices and not (known and rows <= cols) then
    core.error("unimplemented", "the gradient of Qr with full_matrices needs a "
      .. "matrix that is known to have no more rows than columns")
  end
  if known and rows >= cols then return qr_square(q, r, dq, dr) end
  local least = known and rows or ops.minimum(rows, cols)
  local function left(x) return x[{"...", ":", {false, least}}] end
  local function right(x) return x[{"...", ":", {least, false}}] end
  local y, dv = right(a), right(dr)
  local dx = qr_square(q, left(r), dq + mul(y, dv, false, true), left(dr))
  return ops.concat({dx, mul(q, dv)}, -1)
end

-- ---- eigenvalues and singular values --------------------------------------

function grad.SelfAdjointEigV2(op, de, dv)
  local e, v = table.unpack(op.outputs)
  if not op.attr.compute_v then
    e, v = ops.self_adjoint_eig(op.inputs[1])
  end
  local inner = diag(de or ops.zeros_like(e))
  if dv and op.attr.compute_v then
    inner = inner + differences(e) * mul(v, dv, true)
  end
  return folded(mul(v, mul(inner, v, false, true)))
end

-- Of A V = V E with vectors of length 1 whose phase stays: Boeddeker et al.,
-- "On the computation of complex-valued gradients", 2017, 4.77.
function grad.Eig(op, de, dv)
  local a, e, v = op.inputs[1], table.unpack(op.outputs)
  if not op.attr.compute_v then e, v = ops.eig(a) end
  local inner = diag(de or ops.zeros_like(e))
  if dv and op.attr.compute_v then
    local in_v = mul(v, dv, true)
    local along = diag(ops.cast(ops.real(diag_part(in_v)), e.dtype))
    inner = inner + conj(differences(e))
                    * (in_v - mul(mul(v, v, true), along))
  end
  local turned = adjoint(v)
  local da = ops.matrix_solve(turned, mul(inner, turned))
  return a.dtype == e.dtype and da or ops.cast(ops.real(da), a.dtype)
end

-- What lies outside the columns of u: x - u u^H x.
local function beside(u, x) return x - mul(u, mul(u, x, true)) end

local function only_values(op, ds)
  local _, u, v = ops.svd(op.inputs[1])
  return mul(u, mul(diag(ds), v, false, true))
end

function grad.Svd(op, ds, du, dv)
  if not op.attr.compute_uv then return only_values(op, ds) end
  if op.attr.full_matrices then
    core.error("unimplemented", "Svd with full_matrices has no gradient: the "
      .. "vectors that it adds are any that fit")
  end
  local s, u, v = table.unpack(op.outputs)
  ds, du, dv = shape.filled(op, 1, ds), shape.filled(op, 2, du),
               shape.filled(op, 3, dv)
  local inverse = diag(ops.div_no_nan(ops.ones_like(s), s))
  local f, full = differences(s * s), diag(s)
  local fu, in_v = f * mul(u, du, true), mul(v, dv, true)
  local fv = f * in_v
  local inner = diag(ds) + mul(fu + adjoint(fu), full)
                + mul(full, fv + adjoint(fv))
  if s.dtype:find "complex" then -- u and v turn together
    local phase = diag(diag_part(in_v))
    inner = inner + mul(inverse, adjoint(phase) - phase) * 0.5
  end
  return mul(mul(u, inner) + mul(beside(u, du), inverse), v, false, true)
         + mul(mul(u, inverse), beside(v, dv), false, true)
end

-- ---- Einsum ---------------------------------------------------------------

local function einsum(equation, list)
  return core.op "Einsum"(list, {equation = equation})
end

-- The subscripts of an operand, each once: those in `there`, and the others.
local function subscripts(own, there)
  local kept, alone, seen = "", "", {}
  for c in own:gmatch "%w" do
    if not seen[c] then
      seen[c] = true
      local wanted = there:find(c, 1, true)
      kept, alone = kept .. (wanted and c or ""), alone .. (wanted and "" or c)
    end
  end
  return kept, alone
end

-- Ones of the sizes that the subscripts in `alone` have in x.
local function ones_along(x, own, alone)
  local before, after = own:match "^(%w*)%.*(%w*)$"
  local sizes = {}
  for c in alone:gmatch "%w" do
    local at, back = before:find(c, 1, true), after:find(c, 1, true)
    sizes[#sizes + 1] = size(x, at and at - 1 or back - 1 - #after)
  end
  return ops.ones(sizes, {dtype = x.dtype})
end

-- g, whose first axes are those of "..." in the result, in the sizes that they
-- have in x; `n` axes follow in g, `before` are in front of them in x.
local function undo_dots(g, x, before, after, n)
  local own = shape.sizes(x)[{{before, after > 0 and -after or false}}]
  local all = ops.shape(g)
  local front = all[{{false, n > 0 and -n or false}}]
  local axes = core.op "BroadcastGradientArgs"(own, front)
  local back = all[{{ops.rank(g) - n, false}}]
  return ops.reshape(ops.sum(g, axes), ops.concat({own, back}, 0))
end

-- The gradient of operand i: the same sum with dy in its place. What the
-- operand alone summed over is the same for each element there.
local function of_operand(op, dy, parts, to, i)
  local x, own, other = op.inputs[i], parts[i], parts[3 - i]
  local dots = to:find("...", 1, true) and "..." or ""
  local kept, alone = subscripts(own, (other or "") .. to)
  local g = other
    and einsum(to .. "," .. other .. "->" .. dots .. kept,
               {dy, conj(op.inputs[3 - i])})
    or einsum(to .. "->" .. dots .. kept, {dy})
  local before, after = own:match "^(%w*)%.%.%.(%w*)$"
  if dots ~= "" and not before then
    g, dots = ops.sum(g, ops.range(ops.rank(g) - #kept)), ""
  elseif dots ~= "" and other and other:find("...", 1, true) then
    g = undo_dots(g, x, #before, #after, #kept)
  end
  if dots == "" then own = own:gsub("%.", "") end
  if alone ~= "" then
    return einsum(dots .. kept .. "," .. alone .. "->" .. own,
                  {g, ones_along(x, parts[i], alone)})
  end
  return own == dots .. kept and g or einsum(dots .. kept .. "->" .. own, {g})
end

function grad.Einsum(op, dy)
  local from, to = op.attr.equation:match "^(.*)%->(.*)$"
  local parts, out = {}, {}
  for part in (from .. ","):gmatch "([^,]*)," do parts[#parts + 1] = part end
  for i = 1, #parts do out[i] = of_operand(op, dy, parts, to, i) end
  return table.unpack(out)
end

-- ---- diagonals ------------------------------------------------------------

function grad.MatrixDiag(_, dy) return diag_part(dy) end

function grad.MatrixDiagPart(op, dy)
  return set_diag(shape.zeros(op.inputs[1]), dy)
end

function grad.MatrixSetDiag(op, dy)
  return set_diag(dy, shape.zeros(op.inputs[2])), diag_part(dy)
end

-- Diagonals k of x.
local function band_of(op, x, k)
  return core.op "MatrixDiagPartV3"(x, k, core.tensor(0, x.dtype),
                                    {align = op.attr.align})
end

local function with_band(op, x, d, k)
  return core.op "MatrixSetDiagV3"(x, d, k, {align = op.attr.align})
end

function grad.MatrixDiagV3(op, dy)
  return band_of(op, dy, op.inputs[2]), false, false, false, false
end

function grad.MatrixDiagPartV3(op, dy)
  local x, k = table.unpack(op.inputs)
  return with_band(op, shape.zeros(x), dy, k), false, false
end

function grad.MatrixSetDiagV3(op, dy)
  local _, d, k = table.unpack(op.inputs)
  return with_band(op, dy, shape.zeros(d), k), band_of(op, dy, k), false
end

function grad.MatrixBandPart(op, dy)
  return ops.matrix_band_part(dy, op.inputs[2], op.inputs[3]), false, false
end

function grad.Cross(op, dy)
  local a, b = table.unpack(op.inputs)
  return ops.cross(b, dy), ops.cross(dy, a)
end

return grad
