--- flow/accumulator.lua - td.accumulator: gradients that wait for one another.
--
-- Workers apply gradients, each with the global step it was computed for; what
-- is late is dropped. Who takes n gets their mean or sum, and begins the next
-- step. An ordered one adds them in the order of slots, one for each worker:
-- the same bits whoever comes first.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local indexed_slices = require "tide.tensor.indexed_slices"
local ops = require("tide.ops").ops
local resource = require "tide.flow.resource"
local shapes = require "tide.tensor.shape"

local accumulator = {}
local methods = {}
local meta = resource.class("accumulator", methods, "its :take(n) or :size()")

local fail = errors.invalid

local reductions = {mean = "MEAN", sum = "SUM"}

--- An accumulator for gradients of a dtype (half, bfloat16, float32, float64)
-- and a shape, which may be known in part.
-- @param[opt] o reduction: "mean" or "sum"; sparse: of indexed slices, a row's
-- mean being over those who had it; ordered = n: n slots, added in their
-- order; shared_name: those of one name are one accumulator; name
-- @usage td.accumulator("float32", {2, -1}).name  --> accumulator
function accumulator.accumulator(dtype, shape, o)
  args.expect(dtype, "string", "accumulator: the dtype")
  o = args.read(o, {"reduction", "sparse", "ordered", "shared_name", "name"},
                "accumulator")
  local reduction = reductions[o.reduction or "mean"]
  if not reduction then
    fail("accumulator: reduction is \"mean\" or \"sum\", not %s",
         tostring(o.reduction))
  end
  if o.ordered and math.type(o.ordered) ~= "integer" then
    fail("accumulator: ordered is a number of slots, not %s",
         tostring(o.ordered))
  end
  local type = (o.ordered and "Ordered" or "") .. (o.sparse and "Sparse" or "")
    .. "ConditionalAccumulator"
  local handle = core.add(type, {}, {
    dtype = dtype, shape = shape or false,
    reduction_type = reduction, slots = o.ordered,
    shared_name = o.shared_name}, o.name or "accumulator")
  return setmetatable({handle = handle, dtype = dtype, name = handle.op.name,
    shape = shape and shapes.of(shape) or false, sparse = o.sparse or false,
    ordered = o.ordered or false}, meta)
end

-- Slot and step, as inputs behind the handle.
local function when(self, step, o)
  local inputs = {self.handle}
  if self.ordered and o.slot == nil then
    fail("apply: accumulator \"%s\" is ordered; give a slot, 0 to %d",
         self.name, self.ordered - 1)
  elseif o.slot ~= nil and not self.ordered then
    fail("apply: accumulator \"%s\" is not ordered and has no slots", self.name)
  end
  if o.slot ~= nil then
    inputs[2] = resource.value(o.slot, "int32", "apply: the slot")
  end
  if step == nil then fail("apply: tell the step of the gradient") end
  local edge = core.edge(step, not args.is_tensor(step) and "int64" or nil)
  inputs[#inputs + 1] = ops.cast(edge, "int64")
  return inputs
end

local function apply_rows(self, g, inputs, o)
  if not indexed_slices.is(g) then
    fail("apply: accumulator \"%s\" is sparse and adds indexed slices, not %s",
         self.name, args.what(g))
  end
  local shape = g.dense_shape
  local known = shape ~= nil and shape ~= false
  local n = #inputs
  inputs[n + 1] = ops.cast(core.edge(g.indices), "int64")
  inputs[n + 2] = resource.value(g.values, self.dtype, "apply: the gradient")
  inputs[n + 3] = known and ops.cast(core.edge(shape), "int64")
    or core.edge({}, "int64")
  local type = self.ordered and "OrderedSparseAccumulatorApplyGradient"
    or "SparseAccumulatorApplyGradient"
  return core.add(type, inputs, {has_known_shape = known}, o.name)
end

--- An op that adds gradient g, computed for a global step; a late one is
-- dropped.
-- @param g a tensor; of a sparse accumulator indexed slices
-- @param step an integer, or a graph scalar
-- @param[opt] o slot: of an ordered one, from 0 on; name
function methods:apply(g, step, o)
  o = args.read(o, {"slot", "name"}, "apply")
  local inputs = when(self, step, o)
  if self.sparse then return apply_rows(self, g, inputs, o) end
  inputs[#inputs + 1] = resource.value(g, self.dtype, "apply: the gradient")
  local type = self.ordered and "OrderedAccumulatorApplyGradient"
    or "AccumulatorApplyGradient"
  return core.add(type, inputs, nil, o.name)
end

--- Waits for n gradients, gives the mean or sum of all that are there, and
-- begins the next step.
-- @return a graph tensor; of a sparse accumulator indexed slices
function methods:take(n, o)
  o = args.read(o, {"name"}, "take")
  local attrs = {dtype = self.dtype}
  if not self.sparse then
    return core.add("AccumulatorTakeGradient", {self.handle, n}, attrs, o.name)
  end
  local indices, values, shape =
    core.add("SparseAccumulatorTakeGradient", {self.handle, n}, attrs, o.name)
  return indexed_slices.new(values, indices, shape)
end

--- An op that has gradients of steps before s dropped. A step cannot go back.
function methods:set_step(s, o)
  o = args.read(o, {"name"}, "set_step")
  local edge = core.edge(s, not args.is_tensor(s) and "int64" or nil)
  return core.add("AccumulatorSetGlobalStep",
                  {self.handle, ops.cast(edge, "int64")}, nil, o.name)
end

--- How many gradients are there for this step, int32.
function methods:size()
  return core.add("AccumulatorNumAccumulated", {self.handle})
end

function meta.__tostring(self)
  return ("Accumulator \"%s\" %s %s%s%s"):format(self.name, self.dtype,
    shapes.text(self.shape or nil), self.sparse and ", sparse" or "",
    self.ordered and (", %d slots"):format(self.ordered) or "")
end

return accumulator
