--- console/escapes.lua - lines of a cell that are no Lua: %commands, !shell
-- lines, and ?help.
--
-- A command is a module of tide.commands.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local commands = require "tide.console.commands"
local cursor = require "tide.console.cursor"
local paths = require "tide.console.paths"
local reference = require "tide.reference"

local escapes = {}

local function path(rest, new)
  return paths.add(new(rest:match "[^%s/]*$"), rest:match "%S*$")
end

-- %name, or what may follow it: paths, for those that take any.
local function command(rest, new)
  local name = rest:match "^[%w_]*$"
  if not name then return path(rest, new) end
  local list = new(name)
  for _, each in ipairs(commands.names()) do
    local call = commands.about(each)
    list:add(each, "command", call)
  end
  return list
end

-- ?name: whatever help knows.
local function help(name, new)
  local place, part = name:match "^(.*[.:])([%w_]*)$"
  place, part = place or "", part or name
  local list = new(part)
  local inside = place:gsub("^td%.", "")
  for _, each in ipairs(reference.names()) do
    if each:sub(1, #inside) == inside then
      local more = each:sub(#inside + 1)
      list:add(more:match "^[%w_]+" or more,
               more:find "[.:]" and "module" or "function")
    end
  end
  for _, type in ipairs(inside == "" and core.op_names() or {}) do
    list:add(type, "op")
  end
  if place == "" then list:add("td", "module") end
  return list
end

--- Candidates for a text whose last line is none of Lua; nil for Lua.
-- @param new makes a list of candidates for a fragment
function escapes.complete(text, new)
  local line = cursor.last_line(text)
  local sign, rest = line:match "^%s*([%%!?]+)%s*(.*)$"
  if not sign then return nil end
  if sign:find "^%%" then return command(rest, new) end
  if sign:find "^%?" then return help(rest, new) end
  return path(rest, new)
end

--- The page of a command or of a ?name, as tide.console.describe has it; nil
-- where the last line of the text is neither.
function escapes.page(text)
  local line = cursor.last_line(text)
  local name = line:match "^%s*%%%%?([%w_]+)"
  if name then
    local call, about = commands.about(name)
    return about and {head = call, text = about, rows = {}}
  end
  name = line:match "^%s*%?%??%s*([%w_.:]+)$"
  return name and require "tide.console.describe".name(name:gsub("^td%.", ""))
end

return escapes
