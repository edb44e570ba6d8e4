--- commands/save.lua - %save: inputs as a script.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

-- Which numbers "1-3 7" means.
local function numbers(text, last)
  local list = {}
  for word in text:gmatch "%S+" do
    local from, to = word:match "^(%d+)%-?(%d*)$"
    if not from then
      error(("%%save takes numbers like 3 or 1-5, not %s"):format(word), 0)
    end
    if to == "" then to = from end
    for n = tonumber(from), math.min(tonumber(to), last) do
      list[#list + 1] = n
    end
  end
  if text == "" then
    for n = 1, last do list[n] = n end
  end
  return list
end

--- %save FILE [3 1-5 ...]: writes the inputs of those numbers; all without any.
return function(text, state)
  local path, rest = text:match "^(%S+)%s*(.*)$"
  if not path then error("%save needs the name of a file", 0) end
  local parts = {}
  -- The last one is this command.
  for _, n in ipairs(numbers(rest, state.line.count - 1)) do
    parts[#parts + 1] = state.line.inputs[n]
  end
  core.write_file(path, table.concat(parts, "\n") .. "\n")
  print(("%d inputs written to %s"):format(#parts, path))
end
