--- console/is_complete.lua - service "is_complete": is that all of the cell?
--
-- SPDX-License-Identifier: Apache-2.0

--- {status = "complete" | "incomplete" | "invalid", indent =}
return function(request)
  local code = request.code
  if code:find "^%s*%?" then return {status = "complete"} end
  if load("return " .. code, "=", "t") then return {status = "complete"} end
  local chunk, why = load(code, "=", "t")
  if chunk then return {status = "complete"} end
  if why:find("<eof>'?$") then return {status = "incomplete", indent = ""} end
  return {status = "invalid"}
end
