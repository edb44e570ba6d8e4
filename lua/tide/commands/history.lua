--- commands/history.lua - %history: what was typed.
--
-- SPDX-License-Identifier: Apache-2.0

local history = require "tide.services.history"

local function ask(request, line)
  return history.history(request, line).history
end

--- %history [n | -g glob]: the inputs of this session; the newest n of all, or
-- those that match.
return function(text, state)
  local glob = text:match "^%-g%s*(.*)$"
  local request = {hist_access_type = "range", session = 0}
  if glob then
    request = {hist_access_type = "search", pattern = "*" .. glob .. "*",
               unique = true, n = 100}
  elseif tonumber(text) then
    request = {hist_access_type = "tail", n = tonumber(text)}
  elseif text ~= "" then
    error("%history takes a number or -g and a glob", 0)
  end
  for _, e in ipairs(ask(request, state.line)) do
    local number = glob and ("%d/%d"):format(e[1], e[2]) or tostring(e[2])
    print(("%4s: %s"):format(number, (e[3]:gsub("\n", "\n      "))))
  end
end
