--- grad/call.lua - gradients of calls of functions.
--
-- SPDX-License-Identifier: Apache-2.0

local func = require "tide.graph.func"

local function rule(op, ...)
  local list = func.gradient(op, ...)
  return table.unpack(list, 1, #op.inputs)
end

return {PartitionedCall = rule, StatefulPartitionedCall = rule}
