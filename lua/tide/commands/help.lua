--- commands/help.lua - what ?name shows.
--
-- SPDX-License-Identifier: Apache-2.0

local errors = require "tide.base.errors"
local help = require "tide.help.help"
local commands = require "tide.console.commands"
local service = require "tide.services.inspect"
local pager = require "tide.console.pager"

local GENERAL = [[
?name       what is known of an op, a function, a method, a variable
??name      its source
%lsmagic    the commands, such as %time; %tour: steps through Tide
!command    runs a command of the shell
;           behind the last expression hides the result
_ __ ___    the last three results; Out[n], In[n]: those of cell n
Ctrl-C      interrupts what runs
]]

-- What the inspection service knows: of variables too.
local function inspect(name, level, line)
  local reply = service({code = name, cursor_pos = utf8.len(name) or #name,
                         detail_level = level}, line)
  return reply.found and reply.data or nil
end

local function plain(text)
  return text and {["text/plain"] = text}
end

local function of_command(name)
  local call, text = commands.about(name)
  return call and plain(call .. "\n  " .. text)
end

--- ?name: what is known of a name.
return function(name, state, level)
  if name == "" then return pager.show(state.line, plain(GENERAL)) end
  local data = inspect(name, level or 0, state.line)
    or plain(help.text((name:gsub("^td%.", ""))))
    or of_command(name)
  if data then return pager.show(state.line, data) end
  errors.raise("not_found", "no help on \"%s\"%s", name, help.hint(name))
end
