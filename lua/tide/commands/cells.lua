--- commands/cells.lua - %cells: what each cell has built.
--
-- SPDX-License-Identifier: Apache-2.0

--- %cells: nodes, bytes and time by cell.
return function(_, state)
  return require "tide.console.owner".table(state.line)
end
