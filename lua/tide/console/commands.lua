--- console/commands.lua - what begins with %, !, ? at the start of a line.
--
-- A command is a module tide.commands.NAME: a function of the text behind the
-- name and of {line =, chunk =, at =, body =}: the state of its line, the name
-- of the chunk and the number of the line it stands on, and the cell under a
-- %%name. What it returns is its value.
-- SPDX-License-Identifier: Apache-2.0

local errors = require "tide.base.errors"
local frontend = require "tide.frontend"
local modules = require "tide.base.modules"
local lines = require "tide.frontend.lines"
local cell = require "tide.console.cell"
local traceback = require "tide.console.traceback"

local commands = {}

-- "?", "??" and "!" are commands too, of names that nobody types.
local marks = {help = "?name", source = "??name", shell = "!command"}

--- The names of all commands, sorted.
function commands.names()
  local list = {}
  for _, name in ipairs(modules "commands") do
    if not marks[name] then list[#list + 1] = name end
  end
  return list
end

--- What is known of a command: its call ("%time code") and what it does.
function commands.about(name)
  for _, row in ipairs(require "tide.docs") do
    if row.module == "commands." .. name and row.name == "return" then
      local call, text = row.text:gsub("\n", " "):match "^(.-):%s+(.*)$"
      return call or "%" .. name, text or row.text
    end
  end
end

local function find(name)
  local module = "tide.commands." .. name
  if package.preload[module] then return require(module) end
  errors.raise("not_found", "there is no command %%%s%s; %%lsmagic lists them",
    name, errors.did_you_mean(name, commands.names(), "%%%s"))
end

--- Runs a command; what cells call.
function commands.run(name, text, at, body, chunk)
  chunk = chunk or debug.getinfo(2, "S").source
  return find(name)(text, {line = lines.current(), chunk = chunk, at = at,
                           body = body})
end

--- The values of `code`, written on the line of a command: run in the cells'
-- environment; none where a semicolon hides them. Raises what it raises.
function commands.evaluate(code, state)
  local chunk, hidden = cell.load(code, state.chunk, state.at)
  if not chunk then error(hidden, 0) end
  if not hidden then return chunk() end
  chunk()
end

local function finish(f, ok, ...)
  f(ok, ...)
  if ok then return ... end
  traceback.raise(...)
end

--- The values of `code`, as evaluate gives them; finish(ok, ...) is called
-- before they are returned, or before its error (the first of ...) is raised
-- again: after an interrupt too.
function commands.guarded(code, state, f)
  return finish(f, frontend.protected(commands.evaluate, code, state))
end

cell.provide("__command", commands.run)

return commands
