--- autodiff/array_order.lua - sums in arrays of gradients happen in one order.
--
-- Where several gradients of one element meet, the array adds them as they
-- come, and the order tells in the last bits. So what writes to an array of
-- gradients waits for what wrote before, in this iteration and the last: the
-- gradients of a flow, which those writes give, are put in order here.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"

local flows = {}

local writes = {TensorArrayWriteV3 = true, TensorArrayScatterV3 = true,
                TensorArraySplitV3 = true}

-- The variable of a loop that has this exit.
local function variable_of(exit)
  for _, var in ipairs(context.construct(exit.op).vars) do
    if var.exit == exit then return var end
  end
end

--- Does a write give this gradient?
function flows.is(edge)
  local type = core.kind(edge) == "edge" and edge.op.type
  if type == "Exit" then
    local construct = context.construct(edge.op)
    return construct ~= nil and variable_of(edge).orders == true
  elseif type == "Merge" then
    local construct = context.construct(edge.op)
    for i, y in ipairs(construct and construct.outputs or {}) do
      if y == edge then
        return flows.is(construct.no.edges[i])
          or flows.is(construct.yes.edges[i])
      end
    end
  elseif type == "AddN" then
    return flows.is(edge.op.inputs[1])
  end
  return writes[type] or false
end

-- Is `op` made of `of`? Yes too when that takes long to see.
local function made_of(op, of)
  local seen, stack, n = {}, {op}, 0
  while #stack > 0 do
    local at = table.remove(stack)
    if at == of or n > 1000 then return true end
    if not seen[at] and at.type ~= "NextIteration" then
      seen[at], n = true, n + 1
      for _, x in ipairs(at.inputs) do
        if x then stack[#stack + 1] = x.op end
      end
      for _, before in ipairs(at.control_inputs) do
        stack[#stack + 1] = before
      end
    end
  end
  return false
end

-- A flow that was passed on may be there already, and wait for this one.
local function wait(op, before)
  if not made_of(before, op) then core.add_control(op, before) end
end

--- All writes behind `edge` wait for op.
function flows.after(edge, op)
  if not flows.is(edge) then return end
  if writes[edge.op.type] then return wait(edge.op, op) end
  if edge.op.type == "Exit" then
    return wait(variable_of(edge).initial.op, op)
  end
  if edge.op.type == "AddN" then -- the others wait for the first
    return flows.after(edge.op.inputs[1], op)
  end
  local construct = context.construct(edge.op)
  for i, y in ipairs(construct.outputs) do
    if y == edge then
      flows.after(construct.no.edges[i], op)
      flows.after(construct.yes.edges[i], op)
    end
  end
end

--- Each of a list waits for the one before.
function flows.order(list)
  for i = 2, #list do
    if flows.is(list[i - 1]) then flows.after(list[i], list[i - 1].op) end
  end
end

return flows
