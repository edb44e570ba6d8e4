--- console/pager.lua - a text to be read: help, source, a file.
--
-- A notebook gets it as a payload, which it shows beside the cells. A terminal
-- prints it, through $PAGER or less when it is longer than the screen.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local paint = require "tide.console.paint"

local pager = {}

local function is_long(text)
  local rows = core.isatty(0) and core.isatty(1) and core.terminal_size()
  if not rows or os.getenv "TERM" == "dumb" then return false end
  local _, lines = text:gsub("\n", "")
  return lines + 2 > rows
end

-- less -R: with colours.
local function page(text)
  local name = os.getenv "PAGER"
  if not name or name == "" then name = "less -R" end
  local pipe = io.popen(name, "w")
  if not pipe then return false end
  pipe:write(text, "\n")
  return pipe:close()
end

--- Shows a bundle ({[mime] = text}) on behalf of a line.
function pager.show(line, data)
  if frontend.kind == "notebook" then
    table.insert(line.payload, {source = "page", start = 0, data = data})
    return
  end
  local text = data["text/plain"]
  if not paint.on() then text = text:gsub("\27%[[%d;]*m", "") end
  io.stdout:flush()
  if not (is_long(text) and page(text)) then print(text) end
end

return pager
