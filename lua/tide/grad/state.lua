--- grad/state.lua - gradients of variables, and where control flow ends them.
--
-- The gradient of a variable is that of its handle: reads pass it on, gathers
-- keep it sparse.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shapes = require "tide.shape"
local slices = require "tide.indexed_slices"
local ops = require("tide.ops").ops

local grad = {}

function grad.ReadVariableOp(_, dy) return dy end

-- The shape of the variable behind a handle: known, or read when needed.
local function variable_shape(handle)
  local op = handle.op
  while op.type == "Enter" or op.type == "Switch" or op.type == "Identity" do
    op = op.inputs[1].op
  end
  local shape = op.attr.shape
  return shapes.known(shape) and shape or core.op "VariableShape"(handle)
end

function grad.ResourceGather(op, dy)
  if op.attr.batch_dims ~= 0 then
    core.error("unimplemented",
      "the gradient of gather from a variable needs batch_dims to be 0")
  end
  local handle, indices = table.unpack(op.inputs)
  local shape = variable_shape(handle)
  local rest = {-1}
  if type(shape) == "table" then
    for i = 2, #shape do rest[i] = shape[i] end
  else
    rest = ops.concat({core.tensor{-1}, shape["1:"]}, 0)
  end
  return slices.new(ops.reshape(dy, rest), ops.reshape(indices, {-1}), shape),
         false
end

-- ---- control flow ---------------------------------------------------------

-- Inside a loop body or branch, what was captured from outside is constant
-- during this iteration: its gradient there is that of the tensor itself.
local function captured(op)
  return op.flow ~= 0 and op.flow == core.scope().flow
end

local function later(op, what)
  core.error("unimplemented", ("the gradient of %s comes later (\"%s\", made "
    .. "at %s)"):format(what, op.name, op.origin))
end

function grad.Enter(op, dy)
  if op.attr.is_constant and captured(op) then return dy end
  later(op, "while_loop")
end

function grad.Switch(op, dfalse, dtrue)
  if captured(op) then return dtrue or dfalse, false end
  later(op, "cond")
end

function grad.Exit(op) later(op, "while_loop") end
function grad.NextIteration(op) later(op, "while_loop") end

function grad.Merge(op)
  for _, x in ipairs(op.inputs) do
    if x and x.op.type == "NextIteration" then later(op, "while_loop") end
  end
  later(op, "cond")
end

return grad
