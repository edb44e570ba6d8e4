--- commands/devices.lua - %devices: what computes.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local config = require "tide.run.config"
local libraries = require "tide.doctor.libraries"
local style = require "tide.show.style"

-- What Tide has of a card's memory; "" of the host's, which %mem tells, and of
-- another process's.
local function memory(name)
  local m = core.device_memory(name)
  if not m or m.host then return "" end
  return ("  %s in use, at most %s so far; %s taken%s"):format(
    style.bytes(m.in_use), style.bytes(m.peak), style.bytes(m.held),
    m.limit > 0 and " of " .. style.bytes(m.limit) or "")
end

--- %devices: the devices a session sees, the machine, and what is known of its
-- cards: why one is not used, too.
return function()
  for _, name in ipairs(config.devices()) do print(name .. memory(name)) end
  local m = core.machine()
  print(("%d threads, instruction set %s"):format(m.threads, m.isa))
  for _, line in ipairs(libraries.plugins()) do
    print(("%s%s: %s"):format(line.name, line.ok and "" or " is not used",
                              line.text))
  end
end
