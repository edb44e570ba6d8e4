--- show/axis.lua - from numbers to pixels, and the numbers beside an axis.
--
-- SPDX-License-Identifier: Apache-2.0

local number = require "tide.show.number"

local axis = {}

local function finite(v) return v == v and math.abs(v) ~= math.huge end

--- The lowest and highest finite number of lists; above 0 for a log axis.
function axis.range(lists, log)
  local low, high
  for _, list in ipairs(lists) do
    for _, v in ipairs(list) do
      if finite(v) and (not log or v > 0) then
        if not low or v < low then low = v end
        if not high or v > high then high = v end
      end
    end
  end
  if not low then return log and 1 or 0, log and 10 or 1 end
  if low < high then return low, high end
  if log then return low / 2, high * 2 end
  local room = math.max(math.abs(low) * 0.1, 1e-12)
  return low - room, high + room
end

-- The step of 1, 2 or 5 times a power of ten that gives about n steps.
local function step_of(width, n)
  local raw = width / n
  local power = 10.0 ^ math.floor(math.log(raw, 10))
  for _, k in ipairs{1, 2, 5} do
    if raw <= k * power * 1.0001 then return k * power end
  end
  return 10 * power
end

local function linear_ticks(low, high, n)
  local step, list = step_of(high - low, n), {}
  local first = math.ceil(low / step - 1e-9)
  for k = 0, 2 * n do
    local v = (first + k) * step
    if v > high + 1e-9 * (high - low) then break end
    list[#list + 1] = math.abs(v) < step * 1e-9 and 0 or v
  end
  return list
end

local function log_ticks(low, high)
  local first, last = math.log(low, 10), math.log(high, 10)
  local list, every = {}, math.max(1, math.ceil((last - first) / 8))
  for p = math.ceil(first - 1e-9), math.floor(last + 1e-9), every do
    list[#list + 1] = 10.0 ^ p
  end
  if #list >= 2 then return list end
  list = {}
  for p = math.floor(first), math.ceil(last) do
    for _, k in ipairs{1, 2, 5} do
      local v = k * 10.0 ^ p
      if v >= low * 0.999 and v <= high * 1.001 then list[#list + 1] = v end
    end
  end
  return list
end

--- An axis: a function from numbers to pixels between `from` and `to`, nil for
-- what has no place; its ticks as {value, text}.
function axis.new(low, high, from, to, log)
  local a, b = low, high
  if log then a, b = math.log(low), math.log(high) end
  local self = {low = low, high = high, ticks = {}}
  function self.place(v)
    if not finite(v) or (log and v <= 0) then return nil end
    local t = log and math.log(v) or v
    return from + (t - a) / (b - a) * (to - from)
  end
  local values = log and log_ticks(low, high)
    or linear_ticks(low, high, math.max(2, math.abs(to - from) // 48))
  for i, v in ipairs(values) do
    self.ticks[i] = {v, number.text(v, 5)}
  end
  return self
end

return axis
