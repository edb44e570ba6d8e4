--- kmeans.lua - clusters without gradients: variables changed by assignment.
--
-- Each point belongs to the nearest center; each center moves to the mean of
-- its points; again, until nothing moves. The whole update is one step.
--
--   tide tutorials/kmeans.lua --k 5 --points 1000
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{k = 3, points = 300, steps = 50, seed = 4, smoke = false}
if flags.smoke then flags.points = 60 end
td.seed(flags.seed)

-- Points around k places.
local places = td.value.random_uniform{flags.k, 2, minval = -10, maxval = 10}
local owner = td.value.range(flags.points) % flags.k
local points = td.gather(places, owner)
  + td.value.random_normal{flags.points, 2}

local data = td.constant(points, "points")
local centers = td.variable(data[{{0, flags.k}}], "centers")

-- {points, 1, 2} - {1, k, 2}: all differences at once.
local difference = data[":, new, :"] - centers["new, :, :"]
local distance = difference:square():sum(2)
local nearest = distance:argmin(1)
local cost = distance:min(1):mean()

-- The mean of each center's points; one without points stays.
local one = td.ones{flags.points, 1}
local sums = td.unsorted_segment_sum(data, nearest, flags.k)
local counts = td.unsorted_segment_sum(one, nearest, flags.k)
local means = td.where(counts:greater(0), sums / td.maximum(counts, 1), centers)
local moved = (means - centers):abs():max()
local update = td.control_dependencies({cost, moved}, function()
  return centers:assign(means)
end)

local sess <close> = td.session()
sess:init()
local step = sess:callable{cost, moved, update}
for i = 1, flags.steps do
  local c, change = step()
  print(("step %d: mean squared distance %.4f, moved %.4f"):format(i, c,
                                                                  change))
  if change < 1e-5 then break end
end
for i, center in sess:run(centers):rows() do
  print(("center %d at %s"):format(i, center))
end
