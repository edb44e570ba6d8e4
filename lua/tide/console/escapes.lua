--- console/escapes.lua - lines of a cell that are no Lua: %commands, !shell
-- lines, and ?help.
--
-- A command is a module of tide.commands.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local commands = require "tide.console.commands"
local cursor = require "tide.console.cursor"
local paths = require "tide.assist.paths"
local reference = require "tide.help.reference"
local autoload = require "tide.base.autoload"

local describe = autoload "tide.assist.describe"

local escapes = {}

local function path(rest, new)
  return paths.add(new(rest:match "[^%s/]*$"), rest:match "%S*$")
end

-- Does the command take paths, by what is said of it: "%run file"?
local function takes_paths(name)
  local call = (commands.about(name) or ""):lower()
  for _, word in ipairs{"file", "path", "folder", "dir"} do
    if call:find(word, 1, true) then return true end
  end
  return false
end

-- %name, or paths behind it; nil where Lua follows.
local function command(rest, new)
  local name = rest:match "^[%w_]*$"
  if not name then
    return takes_paths(rest:match "^[%w_]*") and path(rest, new) or nil
  end
  local list = new(name)
  for _, each in ipairs(commands.names()) do
    local call = commands.about(each)
    list:add(each, "command", call)
  end
  return list
end

-- The text with spaces in place of what stands before `rest` in its last line.
local function blanked(text, line, rest)
  return text:sub(1, #text - #line) .. (" "):rep(#line - #rest) .. rest
end

--- The text with spaces in place of what in its last line is no Lua.
function escapes.lua(text)
  local line = cursor.last_line(text)
  local rest = line:match "^%s*%?+%s*(.*)$" or line:match "^%s*%%+%w+%s+(.*)$"
  return rest and blanked(text, line, rest) or text
end

--- Adds what help knows that goes on from `name`.
function escapes.add_help(list, name)
  local place = name:match "^(.*[.:])[%w_]*$" or ""
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
end

--- Candidates for a text whose last line is none of Lua. Where Lua stands in
-- such a line: nil, the text with spaces in place of what is none, and the name
-- after a question mark.
-- @param new makes a list of candidates for a fragment
function escapes.complete(text, new)
  local line = cursor.last_line(text)
  local sign, rest = line:match "^%s*([%%!?]+)%s*(.*)$"
  if not sign then return nil, text end
  local list
  if sign:find "^%%" then
    list = command(rest, new)
    if not list then rest = rest:match "^[%w_]*%s*(.*)$" end
  elseif sign:find "^!" then
    list = path(rest, new)
  end
  if list then return list end
  return nil, blanked(text, line, rest), sign:find "^%?" and rest or nil
end

--- The page of the command that the last line of the text ends with, as
-- tide.assist.describe has it; or nil.
function escapes.page(text)
  local name = cursor.last_line(text):match "^%s*%%%%?([%w_]+)%s*$"
  if not name then return nil end
  local call, about = commands.about(name)
  return about and {head = call, text = about, rows = {}}
end

--- The page of the ?name that the text ends with, which help knows; or nil.
function escapes.help_page(text)
  local line = cursor.last_line(text)
  local name = line:match "^%s*%?%??%s*([%w_.:]+)$"
  if not name then return nil end
  return describe.name((name:gsub("^td%.", "")))
end

return escapes
