--- commands/reset.lua - %reset: begins anew.
--
-- SPDX-License-Identifier: Apache-2.0

local names = require "tide.assist.names"
local system = require "tide.console.system"
local owner = require "tide.console.owner"
local td = require "tide"

--- %reset [-f]: forgets the names you have made, the default graph and its
-- session. Asks first; -f does not.
return function(text, state)
  if text ~= "-f" then
    local answer = system.ask("forget all names and the graph? [y/N] ")
    if not answer or not answer:lower():find "^%s*y" then
      print "nothing was forgotten"
      return
    end
  end
  names.reset()
  td.reset()
  owner.reset()
  state.line.last = nil
end
