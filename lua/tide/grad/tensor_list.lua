--- grad/tensor_list.lua - gradients of lists of tensors.
--
-- The gradient of a list is a list, of the gradients of its elements: what was
-- appended is popped from it, what was popped is appended. AddN adds lists up.
-- Source: TensorFlow's list_ops.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shape = require "tide.autodiff.rule_shape"
local ops = require("tide.ops").ops

local grad = {}

-- What is known of the shape of the elements, as a tensor.
local function each(list)
  return core.op "TensorListElementShape"(list, {shape_type = "int32"})
end

-- The sizes of a row of x.
local function row(x)
  return shape.sizes(x)["1:"]
end

local function length(list)
  return core.op "TensorListLength"(list)
end

local function reserved(list, n, dtype)
  return core.op "TensorListReserve"(each(list), n, {element_dtype = dtype,
                                                     shape_type = "int32"})
end

function grad.TensorListPushBack(op, dlist)
  local x = op.inputs[2]
  return core.op "TensorListPopBack"(dlist, shape.sizes(x),
                                     {element_dtype = x.dtype})
end

function grad.TensorListPopBack(op, dlist, dx)
  local list, x = table.unpack(op.outputs)
  dlist = dlist or core.op "ZerosLike"(list)
  return core.op "TensorListPushBack"(dlist, dx or shape.zeros(x)), false
end

function grad.TensorListStack(_, dx)
  return core.op "TensorListFromTensor"(dx, row(dx)), false
end

function grad.TensorListFromTensor(op, dlist)
  local x = op.inputs[1]
  return core.op "TensorListStack"(dlist, row(x), {element_dtype = x.dtype}),
         false
end

function grad.TensorListConcat(op, dx)
  return core.op "TensorListSplit"(dx, each(op.inputs[1]), op.outputs[2])
end

function grad.TensorListConcatV2(op, dx)
  return grad.TensorListConcat(op, dx), false, false
end

function grad.TensorListSplit(op, dlist)
  local x, _, lengths = table.unpack(op.inputs)
  local shape_of = ops.concat({core.tensor({-1}, "int32"), row(x)}, 0)
  return (core.op "TensorListConcatV2"(dlist, shape_of, lengths,
                                       {element_dtype = x.dtype})), false, false
end

function grad.TensorListGetItem(op, dx)
  local list, index = table.unpack(op.inputs)
  return core.op "TensorListSetItem"(reserved(list, length(list), dx.dtype),
                                     index, dx), false, false
end

function grad.TensorListSetItem(op, dlist)
  local _, index, x = table.unpack(op.inputs)
  local zeros = core.op "TensorListSetItem"(dlist, index, shape.zeros(x))
  local dx = core.op "TensorListGetItem"(dlist, index, shape.sizes(x),
                                         {element_dtype = x.dtype})
  if op.attr.resize_if_index_out_of_bounds then
    zeros = core.op "TensorListResize"(zeros, length(op.inputs[1]))
  end
  return zeros, false, dx
end

function grad.TensorListResize(op, dlist)
  return core.op "TensorListResize"(dlist, length(op.inputs[1])), false
end

function grad.TensorListGather(op, dx)
  local list, indices = table.unpack(op.inputs)
  local into = reserved(list, length(list), dx.dtype)
  return core.op "TensorListScatterIntoExistingList"(into, dx, indices), false,
         false
end

-- The elements at `indices`, rows of a tensor like x.
local function gathered(dlist, indices, x)
  return core.op "TensorListGather"(dlist, indices, row(x),
                                    {element_dtype = x.dtype})
end

function grad.TensorListScatter(op, dlist)
  return gathered(dlist, op.inputs[2], op.inputs[1]), false, false
end

function grad.TensorListScatterV2(op, dlist)
  return gathered(dlist, op.inputs[2], op.inputs[1]), false, false, false
end

function grad.TensorListScatterIntoExistingList(op, dlist)
  local list, x, indices = table.unpack(op.inputs)
  local zeros = core.op "TensorListScatterIntoExistingList"(
    dlist, shape.zeros(x), indices)
  return core.op "TensorListResize"(zeros, length(list)),
         gathered(dlist, indices, x), false
end

-- ---- optionals ------------------------------------------------------------

function grad.OptionalFromValue(op, d)
  local types, sizes = {}, {}
  for i, x in ipairs(op.inputs) do
    types[i], sizes[i] = x.dtype, x.shape or false
  end
  return table.unpack((core.op "OptionalGetValue"(d, {output_types = types,
                                                      output_shapes = sizes})))
end

function grad.OptionalGetValue(op, ...)
  local ds = {}
  for i in ipairs(op.outputs) do
    ds[i] = shape.filled(op, i, (select(i, ...)))
  end
  return core.op "OptionalFromValue"(ds)
end

return grad
