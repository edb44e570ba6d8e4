--- services/start.lua - service "start": how a prompt or a notebook begins.
--
-- The global `td`, then the user's $XDG_CONFIG_HOME/tide/init.lua, whose error
-- is shown and stops nothing. Done once, before the first request.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local json = require "tide.base.json"
local cell = require "tide.console.cell"
local publish = require "tide.frontend.publish"
local traceback = require "tide.console.traceback"
local td = require "tide"

local start = {}

local done = false

--- The path of the user's start file, or nil.
function start.path()
  local config = os.getenv "XDG_CONFIG_HOME"
  if not config or config == "" then
    config = (os.getenv "HOME" or "") .. "/.config"
  end
  return config:find "^/" and config .. "/tide/init.lua" or nil
end

local function show(name, value, lines)
  publish("error", {ename = name, evalue = value,
                    traceback = json.array(lines)})
end

--- Runs a file of Lua with what it says `local` seen by cells, as theirs are.
-- Its errors are shown; true when there were none.
function start.run(path)
  local file = io.open(path, "rb")
  if not file then return false end
  local code = file:read "a"
  file:close()
  local chunk, why = cell.load(code or "", "@" .. path)
  if not chunk then
    show(traceback.syntax(why))
    return false
  end
  local ok, err, frames, interrupted = frontend.protected(chunk)
  if not ok then show(traceback.describe(err, frames, interrupted)) end
  return ok
end

--- Begins, unless that was done.
function start.once()
  if done then return end
  if rawget(_G, "td") == nil then _G.td = td end
  done = true
  local path = start.path()
  if path then start.run(path) end
end

--- Begins; {status = "ok"}.
function start.start()
  start.once()
  return {status = "ok"}
end

return start
