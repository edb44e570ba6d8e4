--- console/publish.lua - what a console shows, on its way to whoever shows it.
--
-- In a notebook a message goes out as it is; on a terminal it is printed by
-- tide.console.terminal. A line whose state has a `sink` keeps it for itself.
-- SPDX-License-Identifier: Apache-2.0

local console = require "tide.console"
local frontend = require "tide.frontend"
local json = require "tide.base.json"

--- Sends a message of the Jupyter protocol: its type, content and metadata
-- (tables; nil: none), and binary buffers (a list of strings).
return function(type, content, metadata, buffers)
  local sink = console.line(frontend.line()).sink
  if sink then
    sink(type, content, metadata, buffers)
  elseif frontend.kind == "notebook" then
    frontend.publish(type, json.encode(json.object(content)),
                  json.encode(json.object(metadata)), buffers)
  else
    require("tide.console.terminal")(type, content)
  end
end
