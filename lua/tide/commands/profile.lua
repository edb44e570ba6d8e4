--- commands/profile.lua - %profile: where the time of a step goes.
--
-- SPDX-License-Identifier: Apache-2.0

local commands = require "tide.console.commands"

--- %profile code: runs it with its steps traced, and shows the last of them.
return function(code, state)
  local traces, before = {}, state.line.traces
  state.line.traces = traces
  commands.guarded(state.body or code, state, function()
    state.line.traces = before
  end)
  if #traces == 0 then
    print "no step of a session was run by sess:run or eval"
  elseif #traces > 1 then
    print(("%d steps; the last one:"):format(#traces))
  end
  if #traces > 0 then return traces[#traces] end
end
