--- commands/devices.lua - %devices: what computes.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local config = require "tide.run.config"

--- %devices: the devices a session sees, and the machine.
return function()
  for _, name in ipairs(config.devices()) do print(name) end
  local m = core.machine()
  print(("%d threads, instruction set %s"):format(m.threads, m.isa))
end
