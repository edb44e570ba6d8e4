--- grad/ctc.lua - the gradient of connectionist temporal classification.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local ops = require("tide.ops").ops

local grad = {}

-- The op gives it beside the loss; it has none of its own.
function grad.CTCLoss(op, dloss)
  if not dloss then return false, false, false, false end
  local gradient = core.op "PreventGradient"(op.outputs[2],
    {message = "there is no second gradient of ctc_loss"})
  return gradient * ops.reshape(dloss, {1, -1, 1}), false, false, false
end

return grad
