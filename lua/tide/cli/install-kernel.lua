--- cli/install-kernel.lua - `tide install-kernel`: Jupyter gets to know Tide.
--
-- SPDX-License-Identifier: Apache-2.0

local choice = require "tide.jupyter.choice"
local core = require "tide.core"
local spec = require "tide.jupyter.spec"

local USAGE = [[
usage: tide install-kernel [options]

Writes a kernelspec, so that Jupyter's programs offer Tide. An older one of
Tide's is replaced.

  --name NAME           what it is called in Jupyter's folders (tide)
  --display-name TEXT   what people read (Tide)
  --env NAME=VALUE,...  the kernel's environment
  --command PATH        the program to start (this one, by its name on PATH)
  --replace             also in place of another program's kernel
]] .. choice.usage

-- "A=1,B=2" as {A = "1", B = "2"}.
local function environment(text)
  local env = {}
  for part in text:gmatch "[^,]+" do
    local name, value = part:match "^([%a_][%w_]*)=(.*)$"
    if not name then
      core.error("invalid_argument", ("--env: \"%s\" is not NAME=VALUE")
        :format(part))
    end
    env[name] = value
  end
  return env
end

--- Runs the command; returns its exit code.
return function(args)
  return choice.run(args, USAGE,
    {display_name = "Tide", env = "", command = "", replace = false},
    function(f)
      local folder, replaced = spec.write{
        folder = f.folder, name = f.name, replace = f.replace,
        display_name = f.display_name, env = environment(f.env),
        command = f.command ~= "" and f.command or spec.command()}
      print((replaced and "replaced " or "installed ") .. folder)
    end)
end
