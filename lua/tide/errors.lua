--- errors.lua - what an error object looks like as text.
--
-- Errors are tables {code, message, op, node, where, device, derived}; pcall
-- gives them as they are, print and .. as one line.
-- SPDX-License-Identifier: Apache-2.0

local meta = debug.getregistry()["tide.error"]

--- "message (MatMul, node "y", train.lua:12)"
function meta.__tostring(e)
  local parts = {}
  parts[#parts + 1] = e.op
  if e.node then parts[#parts + 1] = ("node \"%s\""):format(e.node) end
  parts[#parts + 1] = e.device
  parts[#parts + 1] = e.where
  if #parts == 0 then return e.message or e.code end
  return ("%s (%s)"):format(e.message or e.code, table.concat(parts, ", "))
end

function meta.__concat(a, b)
  return tostring(a) .. tostring(b)
end

return meta
