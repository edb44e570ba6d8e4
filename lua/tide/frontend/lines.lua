--- frontend/lines.lua - the lines of evaluation, and what belongs to each.
--
-- A console evaluates cells on one or more lines; "" is the first. Services and
-- commands keep in a line's state what they need from cell to cell.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"

local lines = {}

local states = {} -- by name

--- The state of the line that runs now: its name, its execution count, and what
-- others keep there.
function lines.current()
  local name = frontend.line()
  local line = states[name]
  if not line then
    line = {name = name, count = 0}
    states[name] = line
  end
  return line
end

--- Has f called when the cell that runs now has ended, however it ends. What
-- f raises is dropped. Gives a function that takes this back.
function lines.at_end(f)
  local line = lines.current()
  local list = line.at_end or {}
  line.at_end = list
  table.insert(list, f)
  return function()
    for i = #list, 1, -1 do
      if list[i] == f then return table.remove(list, i) end
    end
  end
end

--- Calls what was left for the end of the cell of `line`.
function lines.finish(line)
  local list = line.at_end or {}
  line.at_end = nil
  for _, f in ipairs{table.unpack(list)} do
    frontend.protected(f)
  end
end

return lines
