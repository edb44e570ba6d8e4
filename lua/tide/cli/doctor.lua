--- cli/doctor.lua - `tide doctor [--json]`: what is installed, what is broken.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local report = require "tide.doctor.report"

local USAGE = [[
usage: tide doctor [--json]

Looks at the processor, the libraries, Jupyter's kernels and programs, the
folders and the terminal, and says what to do about what is broken. The exit
code is 1 when something is.
]]

local PARTS = {"machine", "notebook", "place"}

--- Runs the command; returns its exit code.
return function(args)
  local what = args[1]
  if what == "--help" or what == "-h" then
    io.write(USAGE)
    return 0
  end
  if #args > 1 or what and what ~= "--json" then
    io.stderr:write(USAGE)
    return 2
  end
  local r = report.new()
  for _, part in ipairs(PARTS) do
    local ok, why = pcall(require("tide.doctor." .. part), r)
    if not ok then r:problem("doctor", tostring(why)) end
  end
  if what then
    print(r:json())
    return r.bad > 0 and 1 or 0
  end
  print(("Tide %s, %s\n"):format(core.version, core.executable()))
  print(r:text())
  print(r.bad == 0 and "\nAll that Tide needs is there."
        or ("\n%d broken: see BAD above."):format(r.bad))
  return r.bad > 0 and 1 or 0
end
