--- base/rng.lua - random numbers for Lua code: shuffles, drawn digits.
--
-- A stream of its own for each seed, so that nothing here changes what
-- math.random gives to others. Generator: SplitMix64 (Steele et al. 2014).
-- SPDX-License-Identifier: Apache-2.0

local rng = {}
rng.__index = rng

--- A stream for an integer seed.
function rng.new(seed)
  return setmetatable({state = seed}, rng)
end

--- 64 random bits.
function rng:bits()
  self.state = self.state + 0x9E3779B97F4A7C15
  local z = self.state
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end

--- Uniform over [low, high), or [0, 1).
function rng:uniform(low, high)
  local u = (self:bits() >> 11) * 0x1p-53
  return low and low + u * (high - low) or u
end

--- An integer in low .. high.
function rng:integer(low, high)
  return low + (self:bits() >> 1) % (high - low + 1)
end

--- Normal with mean 0 and standard deviation 1 (Box and Muller).
function rng:normal()
  local u = 1 - self:uniform()
  return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * self:uniform())
end

--- Brings a list into random order, in place (Fisher and Yates).
function rng:shuffle(list)
  for i = #list, 2, -1 do
    local k = self:integer(1, i)
    list[i], list[k] = list[k], list[i]
  end
  return list
end

return rng
