--- commands/time.lua - %time and %%time.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local style = require "tide.show.style"
local commands = require "tide.console.commands"

local function report(wall, cpu, ...)
  print(("%s (%s of processor time)"):format(
    style.seconds(core.clock() - wall), style.seconds(os.clock() - cpu)))
  return ...
end

--- %time code: runs it once and says how long it took; its value stays.
return function(code, state)
  local wall, cpu = core.clock(), os.clock()
  return report(wall, cpu, commands.evaluate(state.body or code, state))
end
