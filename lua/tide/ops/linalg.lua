--- ops/linalg.lua - linear algebra; td.linalg has its short names.
--
-- Matrices lie in the last two axes; the axes before count them.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local namespace = require "tide.ops"

local ops = namespace.ops

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
  o = args.options(o, "matrix_diag")
  local t, any = taken(o, {"k", "num_rows", "num_cols", "padding_value"})
  if not any then return core.op "MatrixDiag"(diagonal, o) end
  return core.op "MatrixDiagV3"(diagonal, t[1] or 0, t[2] or -1, t[3] or -1,
                                t[4] or zero(diagonal), o)
end

--- The diagonal of each matrix. Options k (a diagonal, or {lower, upper}),
-- padding_value, align.
function ops.matrix_diag_part(x, o)
  o = args.options(o, "matrix_diag_part")
  local t, any = taken(o, {"k", "padding_value"})
  if not any then return core.op "MatrixDiagPart"(x, o) end
  return core.op "MatrixDiagPartV3"(x, t[1] or 0, t[2] or zero(x), o)
end

--- Each matrix with another diagonal. Options k (a diagonal, or
-- {lower, upper}), align.
function ops.matrix_set_diag(x, diagonal, o)
  o = args.options(o, "matrix_set_diag")
  local t, any = taken(o, {"k"})
  if not any then return core.op "MatrixSetDiag"(x, diagonal, o) end
  return core.op "MatrixSetDiagV3"(x, diagonal, t[1] or 0, o)
end

--- The last two axes exchanged.
function ops.matrix_transpose(x, o)
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
  return ops.sum(ops.matrix_diag_part(x), -1, o)
end

--- A length: the root of the sum of squares over `axes` (all).
-- Option ord: 1, 2 (default), "inf".
function ops.norm(x, axes, o)
  if args.has_names(axes) and o == nil then axes, o = nil, axes end
  o = args.options(o, "norm")
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

--- X of A X = B from the factor L that cholesky gives of A.
function ops.cholesky_solve(l, b, o)
  local half = ops.matrix_triangular_solve(l, b)
  o = args.options(o, "cholesky_solve")
  o.adjoint = true
  return ops.matrix_triangular_solve(l, half, o)
end

--- log(det(A)) of each positive definite matrix.
function ops.logdet(x, o)
  local d = ops.log(ops.matrix_diag_part(ops.cholesky(x)))
  return ops.multiply(ops.sum(d, -1), 2, o)
end
