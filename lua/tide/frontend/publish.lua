--- frontend/publish.lua - what a console shows, on its way to whoever shows it.
--
-- In a notebook a message goes out as it is; on a terminal it is printed by
-- tide.frontend.terminal. A line whose state has a `sink` keeps it for itself.
-- SPDX-License-Identifier: Apache-2.0

local autoload = require "tide.base.autoload"
local frontend = require "tide.frontend"
local json = require "tide.base.json"
local lines = require "tide.frontend.lines"

local terminal = autoload "tide.frontend.terminal"

--- Sends a message of the Jupyter protocol: its type, content and metadata
-- (tables; nil: none), and binary buffers (a list of strings).
return function(type, content, metadata, buffers)
  local sink = lines.current().sink
  if sink then
    sink(type, content, metadata, buffers)
  elseif frontend.kind == "notebook" then
    frontend.publish(type, json.encode(json.object(content)),
                     json.encode(json.object(metadata)), buffers)
  else
    terminal(type, content)
  end
end
