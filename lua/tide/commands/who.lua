--- commands/who.lua - %who: the names there are.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local value = require "tide.show.value"
local names = require "tide.assist.names"
local frontend = require "tide.frontend"

-- A value in a few words.
local function brief(x)
  local ok, text = frontend.protected(value.text, x)
  text = ok and text:match "^[^\n]*" or "?"
  local width = core.width() - 36
  if (utf8.len(text) or #text) > width then
    local stop = utf8.offset(text, width - 2) or width - 2
    text = text:sub(1, stop - 1) .. "..."
  end
  return text
end

--- %who [pattern]: the names you have made, what they are, and their values.
return function(pattern)
  local n = 0
  for _, e in ipairs(names.list()) do
    if pattern == "" or e.name:find(pattern) then
      n = n + 1
      print(("%-20s %-12s %s"):format(e.name, core.kind(e.value)
        or type(e.value), brief(e.value)))
    end
  end
  if n == 0 then print "no names yet" end
end
