--- grad/sparse.lua - gradients of sparse tensors made dense and multiplied.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local ops = require("tide.ops").ops

local grad = {}

-- A value that stands at many places has the gradients of all.
function grad.SparseToDense(op, dy)
  local indices, _, values = table.unpack(op.inputs)
  local places = indices
  if indices.rank == 0 then
    places = ops.reshape(indices, {1, 1})
  elseif indices.rank == 1 then
    places = ops.expand_dims(indices, 1)
  end
  local dvalues = core.op "GatherNd"(dy, places)
  local hidden = dvalues:sum()
  if values.rank == 0 then dvalues = dvalues:sum() end
  return false, false, dvalues, dy:sum() - hidden
end

-- x, or its conjugated transpose.
local function turned(x, turn)
  return turn and ops.conj(ops.transpose(x, {1, 0})) or x
end

-- Y = A B: dA = dY B^H at the elements of A, dB = A^H dY.
function grad.SparseTensorDenseMatMul(op, dy)
  local indices, values, size, b = table.unpack(op.inputs)
  local adjoint_a, adjoint_b = op.attr.adjoint_a, op.attr.adjoint_b
  local db = core.op "SparseTensorDenseMatMul"(indices, values, size, dy,
    {adjoint_a = not adjoint_a})
  local rows, inner = indices[{{}, 0}], indices[{{}, 1}]
  if adjoint_a then rows, inner = inner, rows end
  local left = ops.gather(dy, rows)
  local right = ops.gather(turned(b, adjoint_b), inner)
  local dvalues = (left * ops.conj(right)):sum(1)
  if adjoint_a then dvalues = ops.conj(dvalues) end
  return false, dvalues, false, turned(db, adjoint_b)
end

-- Where each element came from is found by reordering their numbers.
function grad.SparseReorder(op, _, dy)
  local indices, _, size = table.unpack(op.inputs)
  local numbers = ops.range(indices:dim(0))
  local _, order = core.op "SparseReorder"(indices, numbers, size)
  return false, ops.gather(dy, ops.invert_permutation(order)), false
end

return grad
