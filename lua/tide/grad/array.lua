--- grad/array.lua - gradients of ops that move elements about.
--
-- What a forward op moves, its gradient moves back: reshapes reshape, a concat
-- splits, a gather scatters.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shape = require "tide.autodiff.rule_shape"
local shapes = require "tide.tensor.shape"
local slices = require "tide.tensor.indexed_slices"
local ops = require("tide.ops").ops

local grad = {}

-- ---- passing on -----------------------------------------------------------

local function pass(_, dy) return dy end

grad.Identity = pass
grad.Snapshot = pass
grad.EnsureShape = pass
grad.PlaceholderWithDefault = pass

function grad.Print(op, dy)
  local out = {dy}
  for i = 2, #op.inputs do out[i] = false end
  return table.unpack(out)
end

function grad.IdentityN(_, ...) return ... end

function grad.CheckNumerics(op, dy)
  return ops.check_numerics(dy, op.attr.message .. " (in the gradient)")
end

grad.CheckNumericsV2 = grad.CheckNumerics

function grad.PreventGradient(op)
  core.error("invalid_argument", ("\"%s\" forbids gradients: %s"):format(
    op.name, op.attr.message))
end

-- ---- shapes ---------------------------------------------------------------

local function reshape_back(op, dy)
  return ops.reshape(dy, shape.of(op.inputs[1]))
end

function grad.Squeeze(op, dy) return reshape_back(op, dy) end
function grad.Reshape(op, dy) return reshape_back(op, dy), false end
function grad.ExpandDims(op, dy) return reshape_back(op, dy), false end

-- The axes back in their order, by the same op.
local function moved_back(op, dy)
  local perm = shape.constant(op.inputs[2])
  local inverse
  if perm then
    inverse = {}
    for i, axis in ipairs(perm) do inverse[axis % #perm + 1] = i - 1 end
    inverse = core.tensor(inverse, "int32")
  else
    inverse = ops.invert_permutation(op.inputs[2])
  end
  return core.op(op.type)(dy, inverse), false
end

grad.Transpose, grad.ConjugateTranspose = moved_back, moved_back

function grad.ReverseV2(op, dy)
  return core.op "ReverseV2"(dy, op.inputs[2]), false
end

function grad.BroadcastTo(op, dy)
  local x = op.inputs[1]
  local dx = shape.unbroadcast(x, op.outputs[1], dy, false)
  return dx, false
end

-- Sums over the copies of axes [first, first + 7) of dy, as far as there are so
-- many; those before and behind are one axis each.
local function sum_copies(dy, multiples, size, first)
  local here, behind = ("%d:%d"):format(first, first + 7), first + 7 .. ":"
  local inner = ops.transpose(ops.stack{multiples[here], size[here]})
  local before = ops.prod(size["0:" .. first], 0, {keep_dims = true})
  local rest = ops.prod(size[behind] * multiples[behind], 0,
                        {keep_dims = true})
  inner = ops.reshape(inner, {-1})
  local parts = ops.concat({before, inner, rest}, 0)
  return ops.sum(ops.reshape(dy, parts), ops.range(1, ops.size(inner) + 1, 2))
end

-- Element i of an axis of size d lies at i, i + d, ...: sum over the copies, of
-- all axes at once: they become twice as many.
function grad.Tile(op, dy)
  local x, multiples = table.unpack(op.inputs)
  local counts, parts, axes = shape.constant(multiples), {}, {}
  if not x.rank or not counts or x.rank > 8 then
    local size = shape.sizes(x, {out_type = multiples.dtype})
    for first = 0, (x.rank or 16) - 1, 7 do
      dy = sum_copies(dy, multiples, size, first)
    end
    return ops.reshape(dy, size), false
  end
  for i = 1, x.rank do
    parts[2 * i - 1] = counts[i]
    parts[2 * i] = x:dim(i - 1)
    axes[i] = 2 * i - 2
  end
  if x.rank == 0 then return dy, false end
  return ops.sum(ops.reshape(dy, parts), axes), false
end

-- ---- parts ----------------------------------------------------------------

-- Gradients of a concat's inputs: dy cut to their sizes.
local function cut(inputs, axis, dy)
  local at = shape.constant(axis) or axis
  local sizes = {}
  for i, x in ipairs(inputs) do sizes[i] = x:dim(at) end
  return ops.split(dy, sizes, axis, {num_split = #inputs})
end

function grad.ConcatV2(op, dy)
  local inputs = op.inputs
  local axis = table.remove(inputs)
  local dx = cut(inputs, axis, dy)
  dx[#dx + 1] = false
  return table.unpack(dx)
end

function grad.Concat(op, dy)
  local inputs = op.inputs
  local axis = table.remove(inputs, 1)
  return false, table.unpack(cut(inputs, axis, dy))
end

local function all_filled(op, dys)
  for i = 1, #op.outputs do dys[i] = shape.filled(op, i, dys[i]) end
  return dys
end

function grad.Split(op, ...)
  return false, ops.concat(all_filled(op, {...}), op.inputs[1])
end

function grad.SplitV(op, ...)
  return ops.concat(all_filled(op, {...}), op.inputs[3]), false, false
end

function grad.Pack(op, dy)
  return table.unpack(ops.unstack(dy, op.attr.axis, {num = #op.inputs}))
end

function grad.Unpack(op, ...)
  return ops.stack(all_filled(op, {...}), op.attr.axis)
end

function grad.Slice(op, dy)
  local x, begin = op.inputs[1], op.inputs[2]
  local after = shape.sizes(x, {out_type = begin.dtype}) - begin
    - ops.shape(dy, {out_type = begin.dtype})
  return ops.pad(dy, ops.stack({begin, after}, 1)), false, false
end

local masks = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
               "shrink_axis_mask"}

-- The masks and index dtype of a StridedSlice or its gradient.
local function mask_attrs(op)
  local attrs = {}
  for _, name in ipairs(masks) do attrs[name] = op.attr[name] end
  return attrs
end

function grad.StridedSlice(op, dy)
  local x, begin, finish, strides = table.unpack(op.inputs)
  local size = shape.sizes(x, {out_type = begin.dtype})
  return core.op "StridedSliceGrad"(size, begin, finish, strides, dy,
                                    mask_attrs(op)), false, false, false
end

function grad.StridedSliceGrad(op, g)
  local _, begin, finish, strides = table.unpack(op.inputs)
  return false, false, false, false,
    core.op "StridedSlice"(g, begin, finish, strides, mask_attrs(op))
end

-- The part of dy that was not padding.
local function unpad(op, dy)
  local x, paddings = op.inputs[1], op.inputs[2]
  local before = ops.reshape(ops.slice(paddings, {0, 0}, {-1, 1}), {-1})
  return ops.slice(dy, before, shape.sizes(x, {out_type = paddings.dtype}))
end

function grad.Pad(op, dy) return unpad(op, dy), false end

function grad.PadV2(op, dy)
  local dx = unpad(op, dy)
  return dx, false, ops.sum(dy) - ops.sum(dx)
end

-- ---- filling --------------------------------------------------------------

function grad.Fill(_, dy) return false, ops.sum(dy) end

function grad.Diag(_, dy) return core.op "DiagPart"(dy) end
function grad.DiagPart(_, dy) return core.op "Diag"(dy) end

-- ---- gathers --------------------------------------------------------------

-- values {n, ...rest} of rows `indices` of a tensor shaped like x.
local function sparse(x, indices, dy)
  local s, flat = x.shape, ops.reshape(indices, {-1})
  if shapes.known(s) then
    local rest = {-1}
    table.move(s, 2, #s, 2, rest)
    return slices.new(ops.reshape(dy, rest), flat, s)
  end
  local size = shape.sizes(x)
  local rest = ops.concat({core.tensor{-1}, size["1:"]}, 0)
  return slices.new(ops.reshape(dy, rest), flat, size)
end

function grad.Gather(op, dy)
  return sparse(op.inputs[1], op.inputs[2], dy), false
end

-- The numbers of slices when every batch has its own: index i of batch b is
-- b * count + i.
local function batch_ids(indices, batch, groups, count)
  local size = shape.sizes(indices)
  local first = ops.range(groups) * count
  local dims = ops.concat({size[{{0, batch}}],
                           ops.ones_like(size[{{batch, false}}])}, 0)
  return indices + ops.cast(ops.reshape(first, dims), indices.dtype)
end

-- Along another axis than the first, or by batches: bring the axis to the front
-- of its batch, sum the slices of each number, bring it back. dy is shaped
-- batch, outer, indices, inner.
local function gather_axis(x, indices, axis, batch, dy)
  local n, m, size = shape.rank(x), shape.rank(indices),
    shape.sizes(x)
  if axis < 0 then axis = n + axis end
  local ids, groups, many = indices, 1, batch ~= 0
  if many then
    if batch < 0 then batch = m + batch end
    groups = ops.prod(size[{{0, batch}}], 0)
    ids = batch_ids(indices, batch, groups, size[axis])
  end
  local i = m - batch
  local batches, outer, inner = ops.range(0, batch), size[{{batch, axis}}],
    size[{{axis + 1, false}}]
  local front = ops.concat({batches, ops.range(axis, axis + i),
    ops.range(batch, axis), ops.range(axis + i, n + i - 1)}, 0)
  local rows = ops.reshape(ops.transpose(dy, front),
    ops.concat({core.tensor{-1}, outer, inner}, 0))
  local sums = core.op "UnsortedSegmentSum"(rows, ops.reshape(ids, {-1}),
    many and groups * size[axis] or size[axis])
  local back = ops.concat({batches, ops.range(batch + 1, axis + 1),
    ops.stack{batch}, ops.range(axis + 1, n)}, 0)
  if many then
    sums = ops.reshape(sums, ops.concat({size[{{0, batch}}],
      ops.stack{size[axis]}, outer, inner}, 0))
  end
  local dx = ops.transpose(sums, back)
  if x.shape then core.set_shape(dx, x.shape) end
  return dx
end

function grad.GatherV2(op, dy)
  local x, indices, at = table.unpack(op.inputs)
  local axis, batch = shape.constant(at), op.attr.batch_dims
  if axis == nil then
    core.error("unimplemented",
      "the gradient of gather needs an axis that is a constant")
  end
  if axis == 0 then return sparse(x, indices, dy), false, false end
  return gather_axis(x, indices, axis, batch, dy), false, false
end

function grad.GatherNd(op, dy)
  local x, indices = table.unpack(op.inputs)
  return core.op "ScatterNd"(indices, dy,
    shape.sizes(x, {out_type = indices.dtype})), false
end

function grad.ScatterNd(op, dy)
  return false, core.op "GatherNd"(dy, op.inputs[1]), false
end

-- Positions of the k largest in rows laid end to end.
local function top_k(x, k, indices, dy)
  local columns = shape.sizes(x)[-1]
  local wide = ops.reshape(indices, {-1, k})
  local rows = ops.range(wide:dim(0))
  local at = wide + ops.expand_dims(rows, 1) * columns
  local flat = core.op "UnsortedSegmentSum"(ops.reshape(dy, {-1}),
    ops.reshape(at, {-1}), shape.size(x))
  return ops.reshape(flat, shape.of(x))
end

function grad.TopKV2(op, dy)
  local x, k = table.unpack(op.inputs)
  return top_k(x, shape.constant(k) or k, op.outputs[2], dy), false
end

function grad.TopK(op, dy)
  return top_k(op.inputs[1], op.attr.k, op.outputs[2], dy)
end

-- Equal elements share it.
function grad.NthElement(op, dy)
  local x, y = op.inputs[1], op.outputs[1]
  local chosen = ops.cast(ops.equal(x, ops.expand_dims(y, -1)), x.dtype)
  local parts = chosen / chosen:sum(-1, {keep_dims = true})
  return parts * ops.expand_dims(dy, -1), false
end

function grad.DynamicPartition(op, ...)
  local x, parts = table.unpack(op.inputs)
  local n = op.attr.num_partitions
  local order = core.op "DynamicPartition"(ops.reshape(ops.range(0,
    shape.size(parts)), shape.sizes(parts)), parts, {num_partitions = n})
  local dx = core.op "DynamicStitch"(order, all_filled(op, {...}))
  return ops.reshape(dx, shape.of(x)), false
end

-- Later lists win where indices repeat: only they get the gradient.
function grad.DynamicStitch(op, dy)
  local inputs, out = op.inputs, {}
  local n = op.attr.N
  for i = 1, n do out[i] = false end
  for i = 1, n do out[n + i] = ops.gather(dy, inputs[i]) end
  return table.unpack(out)
end
grad.ParallelDynamicStitch = grad.DynamicStitch

-- ---- other orders -----------------------------------------------------------

function grad.MirrorPad(op, dy)
  return core.op "MirrorPadGrad"(dy, op.inputs[2], {mode = op.attr.mode}), false
end

function grad.MirrorPadGrad(op, g)
  return core.op "MirrorPad"(g, op.inputs[2], {mode = op.attr.mode}), false
end

function grad.ReverseSequence(op, dy)
  return core.op "ReverseSequence"(dy, op.inputs[2],
    {seq_dim = op.attr.seq_dim, batch_dim = op.attr.batch_dim}), false
end

function grad.Roll(op, dy)
  return ops.roll(dy, -op.inputs[2], op.inputs[3]), false, false
end

-- Pairs of ops that undo each other.
for a, b in pairs{SpaceToDepth = "DepthToSpace", DepthToSpace = "SpaceToDepth"}
do
  grad[a] = function(op, dy)
    return core.op(b)(dy, {block_size = op.attr.block_size,
                           data_format = op.attr.data_format})
  end
end

for a, b in pairs{SpaceToBatch = "BatchToSpace", BatchToSpace = "SpaceToBatch"}
do
  grad[a] = function(op, dy)
    return core.op(b)(dy, op.inputs[2], {block_size = op.attr.block_size}),
           false
  end
  grad[a .. "ND"] = function(op, dy)
    return core.op(b .. "ND")(dy, op.inputs[2], op.inputs[3]), false, false
  end
end

-- ---- parts replaced ---------------------------------------------------------

function grad.TensorScatterUpdate(op, dy)
  local indices = op.inputs[2]
  local updates = ops.gather_nd(dy, indices)
  return core.op "TensorScatterUpdate"(dy, indices, ops.zeros_like(updates)),
         false, updates
end

function grad.TensorScatterAdd(op, dy)
  return dy, false, ops.gather_nd(dy, op.inputs[2])
end
grad.ScatterNdNonAliasingAdd = grad.TensorScatterAdd

function grad.TensorScatterSub(op, dy)
  return dy, false, -ops.gather_nd(dy, op.inputs[2])
end

-- Equal extremes share the gradient.
function grad.TensorScatterMax(op, dy)
  local x, indices, updates = table.unpack(op.inputs)
  local z = op.outputs[1]
  local mine = ops.equal(x, z):cast(dy.dtype)
  local theirs = ops.equal(updates, ops.gather_nd(z, indices)):cast(dy.dtype)
  local n = core.op "TensorScatterAdd"(mine, indices, theirs)
  local share = dy / n
  return share * mine, false, ops.gather_nd(share, indices) * theirs
end
grad.TensorScatterMin = grad.TensorScatterMax

function grad.TensorStridedSliceUpdate(op, dy)
  local _, begin, finish, strides, value = table.unpack(op.inputs)
  local attrs = mask_attrs(op)
  local part = core.op "StridedSlice"(dy, begin, finish, strides, attrs)
  local dx = core.op "TensorStridedSliceUpdate"(dy, begin, finish, strides,
                                                ops.zeros_like(value), attrs)
  return dx, false, false, false, (shape.unbroadcast(value, part, part, false))
end

return grad
