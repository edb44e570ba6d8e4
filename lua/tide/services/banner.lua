--- services/banner.lua - service "banner": what a console says first.
--
-- SPDX-License-Identifier: Apache-2.0

local config = require "tide.run.config"
local td = require "tide"

--- {text = lines}: the version, the devices, and where help is.
return function()
  local devices = {}
  for i, name in ipairs(config.devices()) do
    devices[i] = name:match "device:(.*)" or name
  end
  return {text = ("Tide %s, %s, on %s\n%%tour shows around, ?name explains, " ..
                  "Tab completes, Ctrl-D leaves\n"):format(
            td.version, _VERSION, table.concat(devices, ", "))}
end
