--- ops/linalg.lua - linear algebra; td.linalg has its short names.
--
-- Matrices lie in the last two axes; the axes before count them.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local namespace = require "tide.ops"

local ops = namespace.ops

namespace.not_methods{"einsum"}

-- Takes `keys` out of the options: values, and whether any is there.
local function taken(o, keys)
  local out, any = {}, o.align ~= nil
  for i, key in ipairs(keys) do
    out[i], any = o[key], any or o[key] ~= nil
    o[key] = nil
  end
  return out, any
end

local function zero(x) return core.tensor(0, args.dtype(x) or "float32") end

--- Matrices with the rows of `diagonal` on theirs. Options k (a diagonal, or
-- {lower, upper}), num_rows, num_cols, padding_value, align.
function ops.matrix_diag(diagonal, o)
  o = args.read(o, {"k", "num_rows", "num_cols", "padding_value", "align",
                    "name"}, "matrix_diag")
  local t, any = taken(o, {"k", "num_rows", "num_cols", "padding_value"})
  if not any then return core.op "MatrixDiag"(diagonal, o) end
  return core.op "MatrixDiagV3"(diagonal, t[1] or 0, t[2] or -1, t[3] or -1,
                                t[4] or zero(diagonal), o)
end

--- The diagonal of each matrix. Options k (a diagonal, or {lower, upper}),
-- padding_value, align.
function ops.matrix_diag_part(x, o)
  o = args.read(o, {"k", "padding_value", "align", "name"}, "matrix_diag_part")
  local t, any = taken(o, {"k", "padding_value"})
  if not any then return core.op "MatrixDiagPart"(x, o) end
  return core.op "MatrixDiagPartV3"(x, t[1] or 0, t[2] or zero(x), o)
end

--- Each matrix with another diagonal. Options k (a diagonal, or
-- {lower, upper}), align.
function ops.matrix_set_diag(x, diagonal, o)
  o = args.read(o, {"k", "align", "name"}, "matrix_set_diag")
  local t, any = taken(o, {"k"})
  if not any then return core.op "MatrixSetDiag"(x, diagonal, o) end
  return core.op "MatrixSetDiagV3"(x, diagonal, t[1] or 0, o)
end

--- The last two axes exchanged. conjugate = true: of complex numbers the
-- conjugates.
function ops.matrix_transpose(x, o)
  o = args.read(o, {"conjugate", "name"}, "matrix_transpose")
  local rank = args.is_tensor(x) and x.rank or nil
  if not args.is_tensor(x) then
    x = core.tensor(x)
    rank = x.rank
  end
  if not rank then
    local n = ops.rank(x)
    return ops.transpose(x, ops.concat({ops.range(n - 2),
                                        ops.stack{n - 1, n - 2}}, 0), o)
  end
  local perm = {}
  for i = 1, rank do perm[i] = i - 1 end
  perm[rank - 1], perm[rank] = rank - 1, rank - 2
  return ops.transpose(x, perm, o)
end

--- The sum of the diagonal of each matrix.
function ops.trace(x, o)
  o = args.read(o, {"keep_dims", "name"}, "trace")
  return ops.sum(ops.matrix_diag_part(x), -1, o)
end

--- A length: the root of the sum of squares over `axes` (all).
-- Option ord: 1, 2 (default), "inf".
function ops.norm(x, axes, o)
  if args.has_names(axes) and o == nil then axes, o = nil, axes end
  o = args.read(o, {"ord", "keep_dims", "name"}, "norm")
  local ord = o.ord or 2
  o.ord = nil
  if ord == 1 then return ops.sum(ops.abs(x), axes, o) end
  if ord == "inf" or ord == math.huge then
    return ops.max(ops.abs(x), axes, o)
  end
  if ord ~= 2 then
    core.error("invalid_argument", "norm: ord must be 1, 2 or \"inf\", not "
      .. tostring(ord))
  end
  local name = o.name
  o.name = nil
  local size = ops.abs(x)
  return ops.sqrt(ops.sum(size * size, axes, o), name)
end

local complex_of = {float32 = "complex64", float64 = "complex128"}

--- The eigenvalues of each square matrix, complex numbers in no order, and its
-- eigenvectors as columns, of length 1. Options compute_v.
-- @usage (td.eig{{0.0, 1.0}, {-1.0, 0.0}})  --> 0+1i 0-1i
function ops.eig(x, o)
  o = args.read(o, {"compute_v", "name"}, "eig")
  if not args.is_tensor(x) then x = core.tensor(x) end
  return core.op "Eig"(x, {compute_v = o.compute_v, name = o.name,
                           Tout = complex_of[x.dtype] or x.dtype})
end

--- The eigenvalues of each square matrix alone.
-- @usage td.eigvals{{2.0, 0.0}, {0.0, 3.0}}  --> 2+0i 3+0i
function ops.eigvals(x, o)
  o = args.read(o, {"name"}, "eigvals")
  o.compute_v = false
  return (ops.eig(x, o))
end

--- X of A X = B from the factor L that cholesky gives of A.
function ops.cholesky_solve(l, b, o)
  o = args.read(o, {"name"}, "cholesky_solve")
  local half = ops.matrix_triangular_solve(l, b)
  o.adjoint = true
  return ops.matrix_triangular_solve(l, half, o)
end

--- X with the least squares of A X - B and, times the option l2_regularizer
-- (0), of X. Option fast (true): through the Cholesky factor of A^H A.
-- @usage td.matrix_solve_ls({{1.0}, {1.0}}, {{1.0}, {3.0}})  --> 2
function ops.matrix_solve_ls(a, b, o)
  o = args.read(o, {"l2_regularizer", "fast", "name"}, "matrix_solve_ls")
  local l = o.l2_regularizer or 0
  o.l2_regularizer = nil
  if not args.is_tensor(l) then l = core.tensor(l, "float64") end
  return core.op "MatrixSolveLs"(a, b, l, o)
end

--- log(det(A)) of each positive definite matrix.
function ops.logdet(x, o)
  o = args.read(o, {"name"}, "logdet")
  local d = ops.log(ops.matrix_diag_part(ops.cholesky(x)))
  return ops.multiply(ops.sum(d, -1), 2, o)
end

-- ---- Einstein's sums ------------------------------------------------------

-- Subscripts that occur once, sorted, after any "...": the result's when the
-- equation names none.
local function implied(from)
  local count, once = {}, {}
  for c in from:gmatch "%w" do count[c] = (count[c] or 0) + 1 end
  for c, n in pairs(count) do if n == 1 then once[#once + 1] = c end end
  table.sort(once)
  return (from:find("...", 1, true) and "..." or "") .. table.concat(once)
end

-- What the first two operands keep: all that the rest or the result needs.
local function between(parts, to)
  local later, kept, seen = to, "", {}
  for i = 3, #parts do later = later .. "," .. parts[i] end
  for c in (parts[1] .. parts[2]):gmatch "%w" do
    if not seen[c] and later:find(c, 1, true) then kept = kept .. c end
    seen[c] = true
  end
  local dots = (parts[1] .. parts[2]):find("...", 1, true)
  return (dots and "..." or "") .. kept
end

local function fold(parts, to, list, o)
  while #parts > 2 do
    local kept = between(parts, to)
    list[2] = core.op "Einsum"({list[1], list[2]}, {equation = parts[1] .. ","
      .. parts[2] .. "->" .. kept})
    parts[2] = kept
    table.remove(parts, 1)
    table.remove(list, 1)
  end
  o.equation = table.concat(parts, ",") .. "->" .. to
  return core.op "Einsum"(list, o)
end

--- Products summed over every subscript that the result lacks:
-- `einsum("ij,jk->ik", a, b)`. Without "->" the result has the subscripts that
-- occur once. Any number of operands, from left to right.
function ops.einsum(equation, ...)
  args.expect(equation, "string", "einsum: the equation")
  local list, o, parts = {...}, nil, {}
  local from, to = equation:gsub("%s", ""):match "^(.-)%->(.*)$"
  if not from then
    from = equation:gsub("%s", "")
    to = implied(from)
  end
  for part in (from .. ","):gmatch "([^,]*)," do parts[#parts + 1] = part end
  if #list == #parts + 1 or (#list == 2 and #parts ~= 2) then
    o = table.remove(list)
  end
  o = args.read(o, {"name"}, "einsum")
  if #list == 1 and #parts ~= 1 and args.plain(list[1]) then list = list[1] end
  if #list ~= #parts then
    core.error("invalid_argument", ("einsum: \"%s\" has %d operands, given %d")
      :format(equation, #parts, #list))
  end
  return fold(parts, to, {table.unpack(list)}, o)
end
