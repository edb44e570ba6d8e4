--- commands/load.lua - %load: a file to be edited and run.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

--- %load FILE: puts its text where the next cell is typed.
return function(path, state)
  if path == "" then error("%load needs the name of a file", 0) end
  local text = core.read_file(path, 1 << 20)
  table.insert(state.line.payload, {source = "set_next_input", text = text,
                                    replace = true})
end
