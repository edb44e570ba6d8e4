--- jupyter/choice.lua - which folder of kernels a command line means.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local flags = require("tide.script.flags").flags
local folders = require "tide.jupyter.folders"

local choice = {}

--- What choice.read knows, for a usage message.
choice.usage = [[
where:
  --user          in the user's folder (the default): $JUPYTER_DATA_DIR,
                  $XDG_DATA_HOME/jupyter or ~/.local/share/jupyter
  --prefix DIR    in DIR/share/jupyter
  --sys-prefix    in the environment in use: $VIRTUAL_ENV, $CONDA_PREFIX, or
                  where the jupyter on PATH lives
  --system        for all users, in /usr/local/share/jupyter
]]

local SYSTEM = "/usr/local"

local function environment()
  local prefix = folders.environment()
  if prefix then return folders.kernels(prefix) end
  core.error("failed_precondition", "--sys-prefix: no environment is in use "
    .. "($VIRTUAL_ENV, $CONDA_PREFIX) and no jupyter is on PATH; name its "
    .. "folder by --prefix DIR")
end

-- The folder of kernels that the flags f name.
local function folder_of(f)
  local given = (f.user and 1 or 0) + (f.prefix ~= "" and 1 or 0)
    + (f.sys_prefix and 1 or 0) + (f.system and 1 or 0)
  if given > 1 then
    core.error("invalid_argument", "only one of --user, --prefix, "
      .. "--sys-prefix and --system can be meant")
  end
  if f.prefix ~= "" then return folders.kernels(f.prefix) end
  if f.sys_prefix then return environment() end
  if f.system then return folders.kernels(SYSTEM) end
  return folders.user() .. "/kernels"
end

--- Reads the words of a command line: flags by name and, in .folder, the folder
-- of kernels that is meant. `defaults` are the command's own flags.
function choice.read(defaults, words)
  for name, value in pairs{user = false, prefix = "", sys_prefix = false,
                           system = false, name = "tide"} do
    defaults[name] = value
  end
  local f = flags(defaults, words)
  if f[1] then
    core.error("invalid_argument", "what is \"" .. f[1] .. "\"?")
  end
  f.folder = folder_of(f)
  return f
end

--- Runs a command: prints `usage` for --help; a wrong command line is exit code
-- 2, a failure 1. `act` gets the flags.
function choice.run(words, usage, defaults, act)
  for _, word in ipairs(words) do
    if word == "--help" or word == "-h" then
      io.write(usage)
      return 0
    end
  end
  local ok, f = pcall(choice.read, defaults, words)
  if not ok then
    io.stderr:write("tide: ", tostring(f):match "^[^\n]*", "\n\n", usage)
    return 2
  end
  local done, why = pcall(act, f)
  if done then return 0 end
  io.stderr:write("tide: ", tostring(why), "\n")
  return 1
end

return choice
