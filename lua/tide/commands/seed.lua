--- commands/seed.lua - %seed: random numbers that can be had again.
--
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

--- %seed n: the seed of the default graph and of math.random.
return function(text)
  local n = math.tointeger(tonumber(text))
  if not n then error("%seed needs a whole number", 0) end
  td.seed(n)
  math.randomseed(n)
end
