--- doctor/place.lua - folders that Tide writes to or reads from, the terminal.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local folders = require "tide.jupyter.folders"
local source = require "tide.data.source"

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

local function base(name, otherwise)
  return variable(name) or (variable "HOME" or ".") .. otherwise
end

-- ---- folders ---------------------------------------------------------------

-- May it be written to, or made? Else false and why.
local function usable(path)
  while not core.exists(path) do
    local parent = path:match "^(.*)/[^/]*$"
    path = (parent == nil and ".") or (parent == "" and "/") or parent
  end
  if not core.is_folder(path) then return false, path .. " is no folder" end
  local ok, why = core.allows(path, "w")
  return ok, not ok and path .. ": " .. why or nil
end

local function writable(r)
  local list = {
    {"config", base("XDG_CONFIG_HOME", "/.config") .. "/tide",
     "XDG_CONFIG_HOME"},
    {"state", base("XDG_STATE_HOME", "/.local/state") .. "/tide",
     "XDG_STATE_HOME"},
    {"cache", source.cache_dir(), "XDG_CACHE_HOME"},
    {"runtime", variable "JUPYTER_RUNTIME_DIR"
     or folders.user() .. "/runtime", "JUPYTER_RUNTIME_DIR"},
  }
  for _, row in ipairs(list) do
    local name, path, var = table.unpack(row)
    local ok, why = usable(path)
    if ok then
      r:ok(name, path)
    else
      r:problem(name, ("%s cannot be written to (%s)"):format(path, why),
                ("chmod it, or let %s name another folder"):format(var))
    end
  end
end

local MOST = 8 -- names in the data folder that are told

local function data(r)
  local dir = variable "TIDE_DATA"
  if not dir then
    r:note("data", "TIDE_DATA is not set: tutorials make up what they learn "
      .. "from", "export TIDE_DATA=DIR, if there are data sets on this machine")
  elseif not core.is_folder(dir) then
    r:problem("data", ("TIDE_DATA is %s, which is no folder"):format(dir),
              "unset TIDE_DATA, or let it name one")
  else
    local found = {}
    for name in core.list(dir):gmatch "%Z+" do found[#found + 1] = name end
    table.sort(found)
    if #found > MOST then found[MOST] = "..." end
    r:ok("data", dir .. ": " .. table.concat(found, ", ", 1,
                                             math.min(#found, MOST)))
  end
end

-- ---- the terminal ----------------------------------------------------------

local function terminal(r)
  local term = variable "TERM"
  local locale = variable "LC_ALL" or variable "LC_CTYPE" or variable "LANG"
  local utf8 = locale and locale:lower():find "utf%-?8"
  local there = core.isatty(1)
  if not there then
    r:ok("terminal", "output goes to a file or pipe")
  elseif not term or term == "dumb" then
    r:note("terminal", "TERM says it can do nothing: the prompt is plain",
           "export TERM=xterm-256color")
  else
    r:ok("terminal", ("%s, %d columns"):format(term, core.width()))
  end
  if there and not utf8 then
    r:note("locale", (locale or "none set") .. ": no UTF-8 is promised",
           "export LANG=C.UTF-8")
  end
end

--- Folders and the terminal.
return function(r)
  r:begin "folders"
  writable(r)
  data(r)
  r:begin "terminal"
  terminal(r)
end
