--- commands/devices.lua - %devices: what computes.
--
-- SPDX-License-Identifier: Apache-2.0

local help = require "tide.help.help"

--- %devices: the devices a session sees, and the machine.
return function()
  for _, name in ipairs(help.devices()) do print(name) end
  local m = require "tide.core".machine()
  print(("%d threads, instruction set %s"):format(m.threads, m.isa))
end
