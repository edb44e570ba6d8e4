--- commands/file.lua - %%file: a cell as a file.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

--- %%file [-a] PATH: writes the cell to a file; -a adds it at the end.
return function(text, state)
  local flag, path = text:match "^(%-a)%s+(.+)$"
  path = path or text
  if not state.body or path == "" then
    error("%%file PATH stands at the top of a cell, which is written there", 0)
  end
  local body = state.body:gsub("\n*$", "\n")
  if flag and core.exists(path) then body = core.read_file(path) .. body end
  core.write_file(path, body)
  print(("%d bytes in %s"):format(#body, path))
end
