--- cli/doc.lua - `tide doc DIR [USAGE]`: writes the reference into DIR.
--
-- reference.md, reference.html and the manual page tide.1. USAGE is a file with
-- what `tide --help` prints; `make doc` gives it.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local manual = require "tide.help.manual"

local USAGE = "usage: tide doc DIR [USAGE]"

--- Runs the command; returns its exit code.
return function(args)
  local dir = args[1]
  if dir == "--help" then
    print(USAGE)
    return 0
  end
  if not dir or #args > 2 or dir:sub(1, 1) == "-" then
    io.stderr:write(USAGE, "\n")
    return 2
  end
  local usage = args[2] and core.read_file(args[2])
  local sections = manual.sections(usage)
  core.mkdirs(dir)
  core.write_file(dir .. "/reference.md", manual.markdown(sections))
  core.write_file(dir .. "/reference.html", manual.html(sections))
  core.write_file(dir .. "/tide.1", manual.man(usage))
  return 0
end
