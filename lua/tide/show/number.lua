--- show/number.lua - numbers as text: in columns, and alone.
--
-- SPDX-License-Identifier: Apache-2.0

local number = {}

local FEW = 10 -- numbers of which also the smallest should be told from 0

local function special(v)
  if v ~= v then return "nan" end
  if v == math.huge then return "inf" end
  if v == -math.huge then return "-inf" end
end

-- Digits behind the point that v takes with five that count.
local function decimals_of(v)
  local text = ("%.5g"):format(v)
  local digits, power = text:match "^-?%d*%.?(%d*)e?([-+]?%d*)$"
  if power ~= "" then return math.max(0, #digits - tonumber(power)) end
  return #digits
end

--- How a list of numbers is best written in a column, as a function of one:
-- with the same number of decimals, or all with powers of ten.
function number.format_of(list)
  local high, low, decimals, most = 0, math.huge, 0, 4
  for _, v in ipairs(list) do
    local a = math.abs(v)
    if v == v and a ~= math.huge then
      if a > 0 then low = math.min(low, a) end
      high = math.max(high, a)
      decimals = math.max(decimals, decimals_of(v))
    end
  end
  local spread = high >= 1e8 or (high > 0 and high < 1e-4)
    or (low < 1e-3 and #list <= FEW)
  if high >= 1e4 then most = 2 end
  if high > 0 and high < 0.1 then
    most = most - math.floor(math.log(high, 10))
  end
  decimals = math.min(decimals, most)
  local format = spread and "%.4e" or ("%%.%df"):format(decimals)
  return function(v)
    return special(v) or format:format(v == 0 and 0 or v)
  end
end

--- One number with `digits` that count (4).
-- @usage require("tide.show.number").text(1234.5678)  --> 1235
function number.text(v, digits)
  if math.type(v) == "integer" then return ("%d"):format(v) end
  return special(v) or ("%%.%dg"):format(digits or 4):format(v)
end

--- An integer of 64 bits without a sign, given as Lua holds it.
function number.unsigned(v)
  if v >= 0 then return ("%d"):format(v) end
  local tens = (v >> 1) // 5
  return ("%d%d"):format(tens, v - tens * 10)
end

return number
