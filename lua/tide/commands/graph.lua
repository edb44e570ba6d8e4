--- commands/graph.lua - %graph: the graph as it is now.
--
-- SPDX-License-Identifier: Apache-2.0

local commands = require "tide.console.commands"
local td = require "tide"

--- %graph [expression]: shows the default graph, or the one it gives.
return function(text, state)
  if text == "" then return td.get_default_graph() end
  return (commands.evaluate(text, state))
end
