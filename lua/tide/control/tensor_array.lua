--- control/tensor_array.lua - td.tensor_array: a list of tensors that a step
-- fills.
--
-- An array is a handle and a flow, a scalar that orders what is done with it:
-- a write gives a new object, with the flow behind the write, for whatever is
-- to come after. As a variable of a loop, or a result of a branch, the object
-- goes by its flow; the handle is the same all along.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local tensor_array = {}
local methods = {}
local meta = {__index = methods}

local fail = errors.invalid

--- Is x one?
function tensor_array.is(x)
  return type(x) == "table" and getmetatable(x) == meta
end

--- The same array behind another flow.
function tensor_array.behind(array, flow)
  return setmetatable({handle = array.handle, flow = flow, dtype = array.dtype,
                       known = array.known}, meta)
end

local options = {"dynamic_size", "clear_after_read", "element_shape",
                 "infer_shape", "name"}

--- An array of `size` tensors of one dtype. Each place is written once in a
-- step, and read once.
-- @param dtype of the elements
-- @param size how many; a number or a graph scalar
-- @param[opt] o dynamic_size: writing beyond the end makes it longer;
-- clear_after_read = false: elements can be read again; element_shape: what is
-- known of it; infer_shape = false: the elements differ in shape
-- @usage td.tensor_array("int32", 2):write(0, 5):write(1, 6):stack()  --> 5 6
function tensor_array.tensor_array(dtype, size, o)
  args.expect(dtype, "string", "tensor_array: the dtype")
  o = args.read(o, options, "tensor_array")
  local each = o.element_shape or false
  local infer = o.infer_shape ~= false
  local handle, flow = core.add("TensorArrayV3", {size == nil and 0 or size}, {
    dtype = dtype, element_shape = each, dynamic_size = o.dynamic_size,
    clear_after_read = o.clear_after_read, identical_element_shapes = infer,
  }, o.name or "tensor_array")
  return setmetatable({handle = handle, flow = flow, dtype = dtype,
    known = {infer = infer, each = each and shapes.of(each) or nil}}, meta)
end

-- ---- shapes ---------------------------------------------------------------

-- What a write tells of the shape of every element.
local function learn(self, shape, what)
  local known = self.known
  if not known.infer or not shape then return end
  if not shapes.compatible(known.each, shape) then
    fail("%s: the elements of this tensor array have shape %s, but one of "
      .. "shape %s is written; infer_shape = false allows both", what,
      shapes.text(known.each), shapes.text(shape))
  end
  known.each = known.each or shape
end

local function without_first(shape)
  if not shape then return nil end
  return shapes.of({table.unpack(shape, 2)})
end

local function with_first(n, shape)
  if not shape then return nil end
  return {n, table.unpack(shape)}
end

local function narrowed(x, shape)
  if shape then core.set_shape(x, shape) end
  return x
end

local function value(self, x, what)
  local edge = core.edge(x, not args.is_tensor(x) and self.dtype or nil)
  if edge.dtype ~= self.dtype then
    fail("%s: the tensor array holds %s, given %s; use td.cast", what,
         self.dtype, edge.dtype)
  end
  return edge
end

-- ---- one element ----------------------------------------------------------

--- Element i.
function methods:read(i)
  local x = core.add("TensorArrayReadV3", {self.handle, i, self.flow},
                     {dtype = self.dtype})
  return narrowed(x, self.known.each)
end

--- The array with x as element i.
function methods:write(i, x)
  x = value(self, x, "write")
  learn(self, x.shape, "write")
  return tensor_array.behind(self, core.add("TensorArrayWriteV3",
    {self.handle, i, x, self.flow}))
end

-- ---- many elements --------------------------------------------------------

--- Elements, by a vector of indices, side by side along a new first axis.
function methods:gather(indices)
  local x = core.add("TensorArrayGatherV3", {self.handle, indices, self.flow},
    {dtype = self.dtype, element_shape = self.known.each or false})
  return x
end

--- All elements side by side along a new first axis.
function methods:stack()
  return self:gather(ops.range(self:size()))
end

--- The array with slice k of x as element indices[k].
function methods:scatter(indices, x)
  x = value(self, x, "scatter")
  learn(self, without_first(x.shape), "scatter")
  return tensor_array.behind(self, core.add("TensorArrayScatterV3",
    {self.handle, indices, x, self.flow}))
end

--- The array with the slices of x as its elements.
function methods:unstack(x)
  x = value(self, x, "unstack")
  return self:scatter(ops.range(x:dim(0)), x)
end

--- All elements one after the other along their first axis; then how long each
-- of them is.
function methods:concat()
  local rest = without_first(self.known.each)
  local x, lengths = core.add("TensorArrayConcatV3", {self.handle, self.flow},
    {dtype = self.dtype, element_shape_except0 = rest or false})
  return narrowed(x, with_first(-1, rest)), lengths
end

--- The array with the parts of x, cut by a vector of lengths, as its elements.
function methods:split(x, lengths)
  x = value(self, x, "split")
  learn(self, with_first(-1, without_first(x.shape)), "split")
  return tensor_array.behind(self, core.add("TensorArraySplitV3",
    {self.handle, x, ops.cast(core.edge(lengths), "int64"), self.flow}))
end

--- The number of elements.
function methods:size()
  return core.add("TensorArraySizeV3", {self.handle, self.flow})
end

--- An op that lets go of all elements.
function methods:close()
  return core.add("TensorArrayCloseV3", {self.handle})
end

--- Only tensors come out of a step.
function meta.__fetch(self)
  fail("the tensor array \"%s\" cannot be fetched; fetch its :stack(), "
    .. ":concat() or an element", self.handle.op.name)
end

function meta.__tostring(self)
  return ("TensorArray \"%s\" %s, elements %s"):format(self.handle.op.name,
    self.dtype, shapes.text(self.known.each))
end

return tensor_array
