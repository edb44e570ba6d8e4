--- console/input.lua - questions to whoever sits in front of the console.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local input = {}

local has_frontend, frontend = pcall(require, "tide.frontend")
local autoload = require "tide.base.autoload"

local system = autoload "tide.console.system"

-- A script's own standard input.
local function plain(prompt)
  io.write(prompt)
  io.flush()
  local text = io.read "l"
  if text then return text end
  return nil, "the input has ended"
end

local function ask(prompt, password, what)
  prompt = prompt == nil and "" or args.expect(prompt, "string", what)
  if not has_frontend or frontend.kind == "script" then return plain(prompt) end
  local text, why = system.ask(prompt, password)
  if text then return text end
  if frontend.kind == "notebook" or password then return nil, why end
  if core.isatty(0) and why ~= "there is nobody to ask" then return nil, why end
  return plain(prompt)
end

--- A line typed by the user, without its end; nil and why there is none.
-- @param[opt] prompt text shown before it
function input.input(prompt)
  return ask(prompt, false, "input: the prompt")
end

--- The same, and what is typed is not shown.
-- @param[opt] prompt text shown before it
function input.getpass(prompt)
  return ask(prompt, true, "getpass: the prompt")
end

return input
