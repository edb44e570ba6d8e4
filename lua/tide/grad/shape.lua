--- grad/shape.lua - what several gradient rules need: sizes, and undoing a
-- broadcast.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dtypes = require "tide.dtype"
local shapes = require "tide.shape"
local ops = require("tide.ops").ops

local shape = {}

--- The shape of x: a list where all of it is known, else a tensor.
function shape.of(x)
  local s = x.shape
  if not shapes.known(s) then return ops.shape(x) end
  return core.tensor({table.unpack(s)}, "int32")
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
    local rx, ry = core.op "BroadcastGradientArgs"(ops.shape(x), ops.shape(y))
    ax, ay = rx, ry
  end
  return dx and reduce(dx, ax, x), dy and reduce(dy, ay, y)
end

--- The complex conjugate; reals are their own.
function shape.conj(x)
  return dtypes.is_complex(x.dtype) and ops.conj(x) or x
end

--- dy, or zeros like output i where there is no gradient.
function shape.filled(op, i, dy)
  return dy or ops.zeros_like(op.outputs[i])
end

return shape
