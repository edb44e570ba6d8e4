--- show/colour.lua - colours that stand for numbers, and for kinds of things.
--
-- Numbers of one sign go from white to blue; of both, from blue over white, at
-- 0, to red. NaN and infinities have colours of their own.
-- SPDX-License-Identifier: Apache-2.0

local colour = {}

local WHITE, BLUE, RED = {255, 255, 255}, {33, 102, 172}, {192, 57, 43}
local NAN, INF = {233, 30, 199}, {255, 152, 0}

local function mix(a, b, share)
  local out = {}
  for i = 1, 3 do out[i] = math.floor(a[i] + (b[i] - a[i]) * share + 0.5) end
  return out
end

--- A function from numbers between low and high to {red, green, blue}.
function colour.scale(low, high)
  local both = low < 0 and high > 0
  local far = math.max(math.abs(low), math.abs(high))
  return function(v)
    if v ~= v then return NAN end
    if math.abs(v) == math.huge then return INF end
    if both then
      return mix(WHITE, v < 0 and BLUE or RED, math.min(1, math.abs(v) / far))
    end
    if high <= low then return WHITE end
    return mix(WHITE, BLUE, math.max(0, math.min(1, (v - low) / (high - low))))
  end
end

--- {red, green, blue} as "#rrggbb".
function colour.hex(c)
  return ("#%02x%02x%02x"):format(c[1], c[2], c[3])
end

--- Black or white, whichever is read better on c.
function colour.ink(c)
  local light = 0.299 * c[1] + 0.587 * c[2] + 0.114 * c[3]
  return light > 140 and "#000000" or "#ffffff"
end

--- Colours that are told apart, also by those who see few: Okabe and Ito, Color
-- Universal Design, 2008.
colour.series = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7",
                 "#56b4e9", "#8c6d31", "#666666"}

--- Light ones for the areas of boxes with black text.
colour.areas = {"#cfe2f3", "#fce5cd", "#d9ead3", "#f4cccc", "#e6d5ee",
                "#fff2cc", "#d0e9e7", "#e2e2e2", "#dfe7c8", "#f3d9e6"}

return colour
