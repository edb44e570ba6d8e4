--- cli/uninstall-kernel.lua - `tide uninstall-kernel`: Jupyter forgets Tide.
--
-- SPDX-License-Identifier: Apache-2.0

local choice = require "tide.jupyter.choice"
local spec = require "tide.jupyter.spec"

local USAGE = [[
usage: tide uninstall-kernel [options]

Removes a kernelspec that `tide install-kernel` wrote.

  --name NAME     what it is called in Jupyter's folders (tide)
  --force         also when it is another program's kernel, or a broken one
]] .. choice.usage

--- Runs the command; returns its exit code.
return function(args)
  return choice.run(args, USAGE, {force = false}, function(f)
    print("removed " .. spec.remove(f.folder, f.name, f.force))
  end)
end
