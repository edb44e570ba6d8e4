--- ops/array.lua - shapes and places: fixed positions for array ops.
--
-- Inputs, then the fixed positions, then one table of attributes or a name.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local namespace = require "tide.ops"

local ops = namespace.ops
local options = args.options

namespace.not_methods{"concat", "stack", "meshgrid", "group", "tuple"}

--- x with another dtype. Floats become integers toward zero; x itself when it
-- has that dtype already.
-- @usage td.cast({1.5, -2.5}, "int32")  --> 1 -2
function ops.cast(x, dtype, o)
  if dtype == nil then
    core.error("invalid_argument", "cast(x, dtype): the dtype is missing; "
      .. "give one such as \"float32\"")
  end
  if args.dtype(x) == dtype then return x end
  o = options(o, "cast")
  o.DstT = dtype
  return core.op "Cast"(x, o)
end

-- How many sizes a list or vector holds.
local function count_of(sizes)
  local is_tensor = args.is_tensor(sizes)
  local shape = is_tensor and sizes.shape or {}
  local n = is_tensor and shape[1] or args.plain(sizes) and #sizes
  if not n or n < 0 then
    core.error("invalid_argument", "split: the second argument is the number "
      .. "of parts or a list of their sizes; give num_split for a tensor of "
      .. "unknown size")
  end
  return n
end

--- A list of n equal parts along `axis`, or of parts of the sizes in the list
-- `n`. @tparam[opt=0] integer axis
-- @usage td.split({1, 2, 3, 4}, 2, 0)[2]  --> 3 4
function ops.split(x, n, axis, o)
  o = options(o, "split")
  if math.type(n) == "integer" then
    o.num_split = n
    return core.op "Split"(axis or 0, x, o)
  end
  o.num_split = o.num_split or count_of(n)
  return core.op "SplitV"(x, n, axis or 0, o)
end

--- The tensors of a list one after the other along `axis`.
-- @usage td.concat({{1, 2}, {3}}, 0)  --> 1 2 3
function ops.concat(list, axis, o)
  args.check_list(list, "concat: the first argument")
  if #list == 1 then return ops.identity(list[1], o) end
  return core.op "ConcatV2"(list, axis or 0, options(o, "concat"))
end

--- The tensors of a list side by side along a new axis.
-- @usage td.stack({{1, 2}, {3, 4}}, 1)  --> {2, 2} 1 3 2 4
function ops.stack(list, axis, o)
  if args.is_tensor(axis) then
    core.error("invalid_argument", "stack takes one list of tensors, "
      .. "stack({a, b}, axis)")
  end
  o = options(o, "stack")
  o.axis = axis or 0
  return core.op "Pack"(list, o)
end

--- The slices of x along `axis`, as a list. The size must be known, or given
-- as `num`.
-- @usage td.unstack({{1, 2}, {3, 4}}, 1)[2]  --> 2 4
function ops.unstack(x, axis, o)
  o = options(o, "unstack")
  o.axis = args.expect(axis or 0, "integer", "unstack: axis")
  if not o.num then
    local shape = args.is_tensor(x) and x.shape or core.tensor(x).shape
    local size = shape and shape[(o.axis < 0 and #shape or 0) + o.axis + 1]
    if not size or size < 0 then
      core.error("invalid_argument",
        "unstack: the size of axis " .. o.axis .. " is not known; give num")
    end
    o.num = size
  end
  return core.op "Unpack"(x, o)
end

--- x without its axes of size 1, or without those listed.
-- @usage td.squeeze({{5, 6}}, {0})  --> 5 6
function ops.squeeze(x, axes, o)
  o = options(o, "squeeze")
  if math.type(axes) == "integer" then axes = {axes} end
  o.squeeze_dims = axes
  return core.op "Squeeze"(x, o)
end

--- Axes in the order `perm`; reversed without it. conjugate = true: of complex
-- numbers the conjugates.
-- @usage td.transpose{{1, 2}, {3, 4}}  --> {2, 2} 1 3 2 4
function ops.transpose(x, perm, o)
  o = args.read(o, {"conjugate", "name"}, "transpose")
  local op = o.conjugate and "ConjugateTranspose" or "Transpose"
  o.conjugate = nil
  if not perm then
    local rank = args.is_tensor(x) and x.rank or core.tensor(x).rank
    perm = {}
    if rank then
      for i = 1, rank do perm[i] = rank - i end
      if rank < 2 then
        return op == "Transpose" and ops.identity(x, o) or ops.conj(x, o)
      end
    else
      perm = ops.range(ops.rank(x) - 1, -1, -1)
    end
  end
  return core.op(op)(x, perm, o)
end

--- Row i of the result is `on` at column indices[i], `off` elsewhere.
-- Default float32 1 and 0; option `axis` places the new axis.
-- @usage td.one_hot({1}, 3, 5, 9)  --> {1, 3} 9 5 9
function ops.one_hot(indices, depth, on, off, o)
  if type(on) == "table" and args.has_names(on) then on, o = nil, on end
  o = options(o, "one_hot")
  local dtype = o.dtype or args.dtype(on) or args.dtype(off)
  o.dtype = nil
  o.T = dtype or ((on == nil or math.type(on) == "float") and "float32" or nil)
  if on == nil then on = 1 end
  if off == nil then off = 0 end
  return core.op "OneHot"(indices, depth, on, off, o)
end

--- Slices of `params` along `axis` at `indices`. Of a variable, rows are read
-- without reading the whole.
-- @usage td.gather({10, 20, 30}, {2, 0}, 0)  --> 30 10
function ops.gather(params, indices, axis, o)
  if type(axis) == "table" then axis, o = nil, axis end
  o = options(o, "gather")
  if type(params) == "table" and rawget(params, "handle")
     and (axis or 0) == 0 then
    o.dtype = params.dtype
    return core.op "ResourceGather"(params.handle, indices, o)
  end
  return core.op "GatherV2"(params, indices, axis or 0, o)
end

--- The k largest along the last axis: values, indices (int32).
-- @usage td.top_k({1, 3, 2}, 2)  --> 3 2
function ops.top_k(x, k, o)
  return core.op "TopKV2"(x, k or 1, options(o, "top_k"))
end

--- a where c is true, b elsewhere; with c alone the indices (int64 {n, rank})
-- of its true elements.
-- @usage td.where({true, false}, {1, 2}, {3, 4})  --> 1 4
function ops.where(c, a, b, o)
  if a == nil and b == nil then
    return core.op "Where"(c, options(o, "where"))
  end
  return (core.op "SelectV2" or core.op "Select")(c, a, b, options(o, "where"))
end

--- x with `paddings` {{before, after}, ...}; option constant_values.
-- @usage td.pad({1, 2}, {{1, 2}})  --> 0 1 2 0 0
function ops.pad(x, paddings, o)
  o = options(o, "pad")
  local fill = o.constant_values
  o.constant_values = nil
  if fill == nil then return core.op "Pad"(x, paddings, o) end
  return core.op "PadV2"(x, paddings, fill, o)
end

--- x with a new axis of size 1 at `axis`.
-- @usage td.expand_dims({1, 2}, 0)  --> {1, 2} 1 2
function ops.expand_dims(x, axis, o)
  return core.op "ExpandDims"(x, axis or 0, options(o, "expand_dims"))
end

--- x with every axis of the list reversed.
-- @usage td.reverse({1, 2, 3}, {0})  --> 3 2 1
function ops.reverse(x, axes, o)
  if math.type(axes) == "integer" then axes = {axes} end
  return core.op "ReverseV2"(x, axes, options(o, "reverse"))
end

--- The same bits read as another dtype.
-- @usage td.bitcast(1.0, "int32")  --> 1065353216
function ops.bitcast(x, dtype, o)
  if type(dtype) == "table" then dtype, o = dtype.type, dtype end
  o = options(o, "bitcast")
  o.type = dtype
  return core.op "Bitcast"(x, o)
end

--- x; the step fails unless its shape is `shape` (-1: any size).
function ops.ensure_shape(x, shape, o)
  if args.has_names(shape) then shape, o = shape.shape, shape end
  o = options(o, "ensure_shape")
  o.shape = shape or false
  return core.op "EnsureShape"(x, o)
end

--- The elements in order along one axis.
-- @usage td.flatten{{1, 2}, {3, 4}}  --> {4} 1 2 3 4
function ops.flatten(x, o)
  return ops.reshape(x, {-1}, args.read(o, {"name"}, "flatten"))
end

--- A value of the placeholder's own where nothing is fed.
-- @usage td.placeholder_with_default(3, {}):eval()  --> 3
function ops.placeholder_with_default(x, shape, o)
  o = options(o, "placeholder_with_default")
  o.shape = shape or false
  return core.add("PlaceholderWithDefault", {x}, o, o.name)
end

--- Which places of rows are within their lengths: {..., n} of bools, true at k
-- where k < length. n is the longest length when not given. Option dtype
-- ("bool").
-- @usage td.sequence_mask({1, 2}, 2)  --> {2, 2} true false true true
function ops.sequence_mask(lengths, n, o)
  if args.has_names(n) then n, o = nil, n end
  o = args.read(o, {"dtype", "name"}, "sequence_mask")
  lengths = args.tensor(lengths)
  if n == nil then n = ops.maximum(ops.max(lengths), 0) end
  n = ops.cast(n, lengths.dtype)
  local places = core.op "Range"(ops.cast(0, lengths.dtype), n,
                                 ops.cast(1, lengths.dtype))
  return ops.cast(ops.less(places, ops.expand_dims(lengths, -1)),
                  o.dtype or "bool", o.name)
end
