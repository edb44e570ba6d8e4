--- jupyter/folders.lua - where Jupyter keeps kernelspecs, by its own rules.
--
-- The user's folder comes first, then that of the environment (virtualenv,
-- conda, or where the `jupyter` on PATH lives), then the system's; of kernels
-- of one name the first is taken.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local folders = {}

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

local function home()
  return variable "HOME" or "."
end

--- Where the user's kernels and runtime files are.
function folders.user()
  local data = variable "XDG_DATA_HOME" or home() .. "/.local/share"
  return variable "JUPYTER_DATA_DIR" or data .. "/jupyter"
end

--- The files called `name` on PATH that may be run.
function folders.on_path(name)
  local list = {}
  for dir in (os.getenv "PATH" or ""):gmatch "[^:]+" do
    local path = dir .. "/" .. name
    if dir:sub(1, 1) == "/" and core.allows(path, "x")
       and not core.is_folder(path) then
      list[#list + 1] = path
    end
  end
  return list
end

--- The prefix of the environment in use; nil where there is none.
function folders.environment()
  local prefix = variable "VIRTUAL_ENV" or variable "CONDA_PREFIX"
  if prefix then return prefix end
  local jupyter = folders.on_path "jupyter"[1]
  return jupyter and jupyter:match "^(.*)/bin/jupyter$"
end

--- Where kernels below a prefix are.
function folders.kernels(prefix)
  return prefix:gsub("/+$", "") .. "/share/jupyter/kernels"
end

--- Every folder that may have kernels, the one that is searched first at the
-- front.
function folders.all()
  local list, seen = {}, {}
  local function add(path)
    if not seen[path] then
      seen[path] = true
      list[#list + 1] = path
    end
  end
  for dir in (variable "JUPYTER_PATH" or ""):gmatch "[^:]+" do
    add(dir .. "/kernels")
  end
  add(folders.user() .. "/kernels")
  local environment = folders.environment()
  if environment then add(folders.kernels(environment)) end
  add(folders.kernels "/usr/local")
  add(folders.kernels "/usr")
  return list
end

return folders
