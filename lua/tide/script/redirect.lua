--- script/redirect.lua - a run that is repeated has a folder of its own.
--
-- `tide rerun` starts a script as it was started before, so the script names
-- the folder of the run that is repeated. That must stay as it is: the command
-- sets TIDE_RERUN to the two folders, a line each, and paths into the old one
-- become paths into the new one: values of td.flags, and the folders that runs
-- are kept in.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local redirect = {}

-- The old folder and the new one, both absolute; nil where nothing is repeated.
local function folders()
  local old, new = (os.getenv "TIDE_RERUN" or ""):match "^([^\n]+)\n([^\n]+)$"
  return old, new
end

-- The path absolute and without links, as far as it exists.
local function absolute(path)
  local real = core.real_path(path)
  if real then return real end
  local parent, name = path:match "^(.*)/([^/]+)/*$"
  if not parent then parent, name = ".", path end
  if name == "." or name == ".." or path == "" then return path end
  real = core.real_path(parent == "" and "/" or parent)
  return real and real:gsub("/$", "") .. "/" .. name or path
end

--- The folder of the run that is repeated; nil where nothing is.
function redirect.from()
  return (folders())
end

--- Where a script's path leads: into the new folder where it led into the old
-- one, else where it says.
function redirect.path(path)
  local old, new = folders()
  if not old or path == "" or path:find "%z" then return path end
  local full = absolute(path)
  if full == old then return new end
  local below = full:sub(1, #old + 1) == old .. "/"
  return below and new .. full:sub(#old + 1) or path
end

--- The value of TIDE_RERUN for two folders, of which the first is there.
function redirect.variable(old, new)
  old, new = absolute(old), absolute(new)
  if (old .. new):find "[\n%z]" then
    core.error("invalid_argument", "a folder whose name has a line end cannot "
      .. "be repeated")
  end
  return old .. "\n" .. new
end

return redirect
