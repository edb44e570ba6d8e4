--- grad/segment.lua - gradients of folds by segments.
--
-- A row of the data gets what the row of its segment gets, weighed by its part
-- in it.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shape = require "tide.autodiff.rule_shape"
local ops = require("tide.ops").ops

local grad = {}

-- dx, and nothing for what chose the rows.
local function data_alone(op, dx)
  local out = {dx}
  for i = 2, #op.inputs do out[i] = false end
  return table.unpack(out)
end

-- Rows of a segment fold: `fold(kind, x)` folds likewise, `pick(y)` gives each
-- row of the data that of its segment, zeros to those that were left out.
local function sorted(op)
  local ids = op.inputs[2]
  return function(kind, x) return core.op("Segment" .. kind)(x, ids) end,
         function(y) return ops.gather(y, ids) end
end

local function unsorted(op)
  local ids, n = op.inputs[2], op.inputs[3]
  local function pick(y)
    local rows = ops.gather(y, ops.maximum(ids, 0))
    local inner = ops.shape(rows)[{{shape.rank(ids), false}}]
    local kept = ops.reshape(ops.greater_equal(ids, 0),
      ops.concat({shape.sizes(ids), ops.ones_like(inner)}, 0))
    return ops.where(kept, rows, ops.zeros_like(rows))
  end
  return function(kind, x)
    return core.op("UnsortedSegment" .. kind)(x, ids, n)
  end, pick
end

local function segment_sum(segments)
  return function(op, dy)
    local _, pick = segments(op)
    return data_alone(op, pick(dy))
  end
end

-- Equal extremes share the gradient.
local function segment_extreme(segments)
  return function(op, dy)
    local fold, pick = segments(op)
    local chosen = ops.equal(op.inputs[1], pick(op.outputs[1])):cast(dy.dtype)
    local n = ops.maximum(fold("Sum", chosen), 1)
    return data_alone(op, chosen * pick(dy / n))
  end
end

-- The product of the others, whether or not zeros are among them.
local function segment_prod(segments)
  return function(op, dy)
    local x = op.inputs[1]
    local fold, pick = segments(op)
    local zero = ops.equal(x, 0)
    local safe = ops.where(zero, ops.ones_like(x), x)
    local count = pick(fold("Sum", ops.cast(zero, x.dtype)))
    local product = pick(fold("Prod", safe))
    local alone = ops.logical_and(zero, ops.equal(count, 1))
    local others = ops.where(ops.equal(count, 0), product / safe,
                             ops.where(alone, product, ops.zeros_like(x)))
    return data_alone(op, pick(dy) * others)
  end
end

grad.SegmentSum = segment_sum(sorted)
grad.SegmentMax = segment_extreme(sorted)
grad.SegmentMin = grad.SegmentMax
grad.SegmentProd = segment_prod(sorted)
grad.UnsortedSegmentSum = segment_sum(unsorted)
grad.UnsortedSegmentMax = segment_extreme(unsorted)
grad.UnsortedSegmentMin = grad.UnsortedSegmentMax
grad.UnsortedSegmentProd = segment_prod(unsorted)

function grad.SegmentMean(op, dy)
  local ids = op.inputs[2]
  local fold, pick = sorted(op)
  local count = pick(fold("Sum", ops.ones_like(ids):cast(dy.dtype)))
  local rows = pick(dy)
  local inner = ops.ones_like(ops.shape(rows)["1:"])
  return rows / ops.reshape(count, ops.concat({shape.sizes(ids), inner}, 0)),
         false
end

-- The gradient ops are linear: their own is the forward op.
for _, kind in ipairs{"Sum", "Mean", "SqrtN"} do
  local name = "SparseSegment" .. kind
  local counted = name .. "WithNumSegments"
  local function rule(op, dy)
    local data, indices, ids = table.unpack(op.inputs)
    return data_alone(op, core.op(name .. "Grad")(dy, indices, ids,
                                                  shape.sizes(data)[0]))
  end
  grad[name], grad[counted] = rule, rule
  grad[name .. "Grad"] = function(op, g)
    local dy, indices, ids = table.unpack(op.inputs)
    return core.op(counted)(g, indices, ids, shape.sizes(dy)[0]),
           false, false, false
  end
end

return grad
