--- services/is_complete.lua - service "is_complete": is that all of the cell?
--
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local cell = require "tide.console.cell"

local STEP = 2 -- spaces a level

local change = {["do"] = 1, ["then"] = 1, ["function"] = 1, ["repeat"] = 1,
                ["("] = 1, ["["] = 1, ["{"] = 1, ["elseif"] = -1, ["end"] = -1,
                ["until"] = -1, [")"] = -1, ["]"] = -1, ["}"] = -1}

-- How far the line is indented on which byte `at` stands.
local function indent_at(code, at)
  local from = at
  while from > 1 and code:byte(from - 1) ~= 10 do from = from - 1 end
  local space = code:match("^[ \t]*", from)
  return #space:gsub("\t", (" "):rep(8))
end

-- The indent of the line that comes next: one step more than the line that
-- opened the innermost block or bracket.
local function next_indent(code)
  local words, open = frontend.words(code), {}
  for i = 1, #words, 3 do
    local kind, at = words[i], words[i + 1]
    if kind == "open" then return "" end -- within a long string
    if kind == "keyword" or kind == "symbol" then
      local by = change[code:sub(at, words[i + 2])]
      if by == 1 then open[#open + 1] = at end
      if by == -1 then open[#open] = nil end
    end
  end
  local last = open[#open]
  return last and (" "):rep(indent_at(code, last) + STEP) or ""
end

-- A string that goes on behind the line's end.
local function string_goes_on(code)
  local words = frontend.words(code)
  local n = #words
  if words[n - 2] ~= "broken" or not code:find("^[\"']", words[n - 1]) then
    return false
  end
  local stop = #code - (code:byte(-1) == 10 and 1 or 0)
  local from = stop
  while code:byte(from) == 92 do from = from - 1 end -- backslashes
  return (stop - from) % 2 == 1 or code:sub(words[n - 1]):find "\\z%s*$" ~= nil
end

-- The body of a %%command ends with an empty line.
local function of_command(code)
  if code:find "\n[ \t]*\n?$" and code:find "\n" then
    return {status = "complete"}
  end
  return {status = "incomplete", indent = ""}
end

--- {status = "complete" | "incomplete" | "invalid", indent = spaces of the next
-- line of an incomplete one}
return function(request)
  local code = type(request.code) == "string" and request.code or ""
  if cell.cell_command(code) then return of_command(code) end
  local chunk, _, unfinished = cell.check(code)
  if chunk then return {status = "complete"} end
  if unfinished or string_goes_on(code) then
    return {status = "incomplete", indent = next_indent(code)}
  end
  return {status = "invalid"}
end
