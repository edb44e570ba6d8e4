--- autodiff/rule_shape.lua - what several gradient rules need: sizes, and
-- undoing a broadcast.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"
local dtypes = require "tide.tensor.dtype"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local shape = {}

--- The sizes of x as a tensor. Where gradients of a loop are built, the sizes
-- are saved, not x.
function shape.sizes(x, o)
  return context.at(x, function() return ops.shape(x, o) end)
end

--- The number of elements of x, and of its axes, in the same manner.
function shape.size(x)
  return context.at(x, function() return ops.size(x) end)
end
function shape.rank(x)
  return context.at(x, function() return ops.rank(x) end)
end

--- The shape of x: a list where all of it is known, else a tensor.
function shape.of(x)
  local s = x.shape
  if not shapes.known(s) then return shape.sizes(x) end
  return core.tensor({table.unpack(s)}, "int32")
end

--- What is known of the variable behind a handle: its dtype and shape, nil for
-- one that came from elsewhere.
function shape.variable(handle)
  local op = handle.op
  while op.type == "Enter" or op.type == "Switch" or op.type == "Identity" do
    op = op.inputs[1].op
  end
  local attr = op.attr
  if op.type == "Placeholder" then -- of a function that is traced
    return attr._handle_dtype, attr._handle_shape
  end
  return attr.dtype, attr.shape
end

--- The shape of the variable behind a handle: known, or read when needed.
function shape.of_variable(handle)
  local _, s = shape.variable(handle)
  return shapes.known(s) and s or core.op "VariableShape"(handle)
end

--- Zeros like x; like the variable behind it when x is a handle, like all that
-- is in it when it is a list.
function shape.zeros(x)
  if x.dtype == "variant" then return core.op "ZerosLike"(x) end
  if x.dtype == "resource" then
    return ops.zeros(shape.of_variable(x), {dtype = shape.variable(x)})
  end
  local s = x.shape
  return ops.zeros(shapes.known(s) and {table.unpack(s)} or shape.sizes(x),
                   {dtype = x.dtype})
end

--- x in the shape of `like`.
function shape.as(x, like)
  if shapes.known(like.shape) and x.shape == like.shape then return x end
  return ops.reshape(x, shape.of(like))
end

--- The contents of a constant input: a Lua table or number, else nil.
function shape.constant(x)
  local op = x.op
  while op.type == "Identity" or op.type == "Enter" do op = op.inputs[1].op end
  if op.type ~= "Const" then return nil end
  local value = op.attr.value
  return value.rank == 0 and value:item() or value:table()
end

--- Axes as a list counted from 0, from a constant input; else nil.
function shape.axes(x, rank)
  local axes = shape.constant(x)
  if not axes or not rank then return nil end
  if type(axes) == "number" then axes = {axes} end
  local out = {}
  for i, a in ipairs(axes) do out[i] = a < 0 and a + rank or a end
  return out
end

-- Axes of the result that an operand of shape `own` was spread over, when the
-- shapes tell; else nil.
local function spread_axes(own, other)
  local rank, axes = math.max(#own, #other), {}
  for i = 1, rank do
    local a = own[i - rank + #own] or 1
    local b = other[i - rank + #other] or 1
    if i - rank + #own < 1 or a == 1 then
      if b ~= 1 then axes[#axes + 1] = i - 1 end
    elseif a < 0 and b ~= 1 then
      return nil
    end
  end
  return axes
end

-- dx summed over `axes` of the result, then brought into the shape of x.
local function reduce(dx, axes, x)
  if type(axes) == "table" then
    if #axes == 0 and #dx.shape == #x.shape then return dx end
    if #axes > 0 then dx = ops.sum(dx, axes) end
  else
    dx = ops.sum(dx, axes)
  end
  return shape.as(dx, x)
end

--- Gradients dx, dy of the operands x, y of an op that broadcasts, brought from
-- the shape of its result to theirs.
function shape.unbroadcast(x, y, dx, dy)
  local sx, sy = x.shape, y.shape
  local ax, ay
  if sx and sy then
    ax, ay = spread_axes(sx, sy), spread_axes(sy, sx)
    if sx == sy and shapes.known(sx) then return dx, dy end
  end
  if not ax or not ay or not (dx or dy).shape then
    local rx, ry = core.op "BroadcastGradientArgs"(shape.sizes(x),
                                                   shape.sizes(y))
    ax, ay = rx, ry
  end
  return dx and reduce(dx, ax, x), dy and reduce(dy, ay, y)
end

--- The same for matrices in the last two axes: only the axes before broadcast.
function shape.unbatch(x, y, dx, dy)
  local sx, sy = x.shape, y.shape
  if sx and sy and #sx == #sy and #sx == 2 then return dx, dy end
  local rx, ry = core.op "BroadcastGradientArgs"(shape.sizes(x)["0:-2"],
                                                 shape.sizes(y)["0:-2"])
  return dx and ops.reshape(ops.sum(dx, rx), shape.of(x)),
         dy and ops.reshape(ops.sum(dy, ry), shape.of(y))
end

--- The complex conjugate; reals are their own.
function shape.conj(x)
  return dtypes.is_complex(x.dtype) and ops.conj(x) or x
end

--- dy, or zeros like output i where there is no gradient.
function shape.filled(op, i, dy)
  return dy or shape.zeros(op.outputs[i])
end

return shape
