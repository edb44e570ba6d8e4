--- show/series.lua - the points of a chart, never more than it can show.
--
-- Of many points those kept are the lowest and the highest of each stretch of
-- the series: spikes stay, and so does a NaN, which breaks the line.
-- SPDX-License-Identifier: Apache-2.0

local series = {}
series.__index = series

local KEPT = 4000 -- points from which on a series is thinned to half

--- An empty series.
function series.new(name)
  return setmetatable({name = name, xs = {}, ys = {}, n = 0}, series)
end

-- Indices of the points of first .. last that stand for them, in order.
local function stand_ins(ys, first, last, out)
  local low, high, bad
  for i = first, last do
    local y = ys[i]
    if y ~= y then
      bad = bad or i
    else
      if not low or y < ys[low] then low = i end
      if not high or y > ys[high] then high = i end
    end
  end
  local list = {low, high ~= low and high or nil}
  if bad then list[#list + 1] = bad end
  table.sort(list)
  table.move(list, 1, math.min(#list, 2), #out + 1, out)
end

--- xs and ys of at most `most` points that look like all of them.
function series:thinned(most)
  local n = #self.xs
  if n <= most then return self.xs, self.ys end
  local keep, buckets = {1}, math.max(1, (most - 2) // 2)
  for b = 1, buckets do
    local first = 2 + (b - 1) * (n - 2) // buckets
    local last = 1 + b * (n - 2) // buckets
    stand_ins(self.ys, first, last, keep)
  end
  keep[#keep + 1] = n
  local xs, ys = {}, {}
  for k, i in ipairs(keep) do xs[k], ys[k] = self.xs[i], self.ys[i] end
  return xs, ys
end

--- Adds a point.
function series:add(x, y)
  self.n = self.n + 1
  self.xs[#self.xs + 1], self.ys[#self.ys + 1] = x, y
  self.last = y
  if y == y then
    self.low = math.min(self.low or y, y)
    self.high = math.max(self.high or y, y)
  end
  if #self.xs > KEPT then self.xs, self.ys = self:thinned(KEPT // 2) end
end

return series
