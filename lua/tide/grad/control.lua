--- grad/control.lua - gradients of single nodes of control flow.
--
-- Loops and branches as a whole are in autodiff/while_loop.lua and cond.lua.
-- Here is what a walk inside of one meets: tensors on their way in, which are
-- the tensors outside, in this iteration or branch.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"
local saved = require "tide.autodiff.saved"
local shape = require "tide.autodiff.rule_shape"

local grad = {}

local function refuse(op)
  core.error("unimplemented", ("the gradient of %s \"%s\" (made at %s): only "
    .. "what td.cond and td.while_loop built in this program has one, not a "
    .. "loop or cond that was imported; take the gradient before the graph is "
    .. "saved, and import it too"):format(op.type, op.name, op.origin))
end

function grad.Enter(op, dy)
  if context.of(op) and op.attr.is_constant then return dy end
  refuse(op)
end

-- One side of a cond's Switch is its branch's, one of a loop's its body's; a
-- Switch of no construct has both.
function grad.Switch(op, dno, dyes)
  if context.of(op) then return dyes or dno, false end
  local x, pred = table.unpack(op.inputs)
  if not dno or not dyes then
    local no, yes = core.add("Switch", {shape.zeros(x), pred})
    dno, dyes = dno or no, dyes or yes
  end
  return core.add("Merge", {{dno, dyes}}), false
end

-- In a gradient loop: the handle stands for what was pushed.
function grad.StackPopV2(op, dp)
  return saved.push_gradient(dp) or refuse(op)
end

grad.Exit, grad.NextIteration, grad.Merge = refuse, refuse, refuse

return grad
