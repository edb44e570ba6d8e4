--- commands/capture.lua - %%capture: what a cell shows, kept.
--
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local cell = require "tide.console.cell"
local commands = require "tide.console.commands"

--- %%capture [name]: runs the cell and shows nothing; name = {stdout =, stderr
-- =, outputs = {what it displayed}, result =}.
return function(name, state)
  if not state.body or not name:find "^[%a_]?[%w_]*$" then
    error("%%capture NAME stands at the top of a cell, which it runs", 0)
  end
  local kept = {outputs = {}}
  local line, before = state.line, state.line.sink
  local output = frontend.capture()
  line.sink = function(type, content)
    table.insert(kept.outputs, {type = type, content = content})
  end
  commands.guarded(state.body, state, function(ok, ...)
    line.sink = before
    kept.stdout, kept.stderr = output:stop()
    if ok then kept.result = ... end
    if name ~= "" then cell.env[name] = kept end
  end)
end
