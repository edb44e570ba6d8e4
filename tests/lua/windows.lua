-- windows.lua - pool, convolution, erosion2d: windows by the rank of what they
-- slide over, against a walk over every cell.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

-- Of a {1, length, 1} sequence: what `take` makes of the cells of each window.
local function walk(x, window, rate, take)
  local out, from = {}, x:table()[1]
  for at = 1, #from - (window - 1) * rate do
    local cells = {}
    for k = 0, window - 1 do cells[k + 1] = from[at + k * rate][1] end
    out[#out + 1] = {take(cells)}
  end
  return td.tensor{out}
end

local function largest(cells) return math.max(table.unpack(cells)) end

local function mean(cells)
  local sum = 0.0
  for _, c in ipairs(cells) do sum = sum + c end
  return sum / #cells
end

function tests.pool_with_holes()
  local x = td.value.random_normal{1, 11, 1}
  for window = 1, 3 do
    for rate = 1, 4 do
      local o = {dilations = rate}
      td.test.close(td.pool(x, window, "MAX", o),
                    walk(x, window, rate, largest))
      td.test.close(td.pool(x, window, "AVG", o), walk(x, window, rate, mean))
    end
  end
end

-- Holes along each of several axes are holes along one after the other.
function tests.pool_with_holes_axis_by_axis()
  local x = td.value.random_normal{2, 9, 8, 3}
  local both = td.pool(x, {2, 3}, "MAX", {dilations = {3, 2}})
  local one = td.pool(x, {2, 1}, "MAX", {dilations = {3, 1}})
  gives(both, td.pool(one, {1, 3}, "MAX", {dilations = {1, 2}}))
  local first = td.transpose(x, {0, 3, 1, 2})
  gives(td.transpose(both, {0, 3, 1, 2}), td.pool(first, {2, 3}, "MAX",
    {dilations = {3, 2}, data_format = "NCHW"}))
end

function tests.pool_where_sizes_are_not_known()
  local x = td.placeholder("float32", {-1, -1, 1})
  local y = td.pool(x, 2, "MAX", {dilations = 3})
  local value = td.value.random_normal{1, 8, 1}
  gives(walk(value, 2, 3, largest), y:eval{[x] = value})
end

function tests.pool_by_rank()
  local line, image = td.value.random_normal{2, 7, 3},
    td.value.random_normal{2, 7, 6, 3}
  local volume = td.value.random_normal{1, 4, 5, 6, 2}
  for _, padding in ipairs{"SAME", "VALID"} do
    local o = {strides = 2, padding = padding}
    gives(td.max_pool(image, 3, 2, padding), td.pool(image, 3, "MAX", o))
    gives(td.avg_pool(image, {3, 2}, 2, padding),
          td.pool(image, {3, 2}, "AVG", o))
    gives(td.max_pool3d(volume, 2, 2, padding), td.pool(volume, 2, "MAX", o))
    gives(td.avg_pool3d(volume, 2, 2, padding), td.pool(volume, 2, "AVG", o))
    local y = td.pool(line, 3, "MAX", o)
    gives(td.max_pool(td.expand_dims(line, 1), {1, 3}, {1, 2},
                      padding):squeeze{1}, y)
    o.data_format = "NCW"
    gives(td.transpose(y, {0, 2, 1}),
          td.pool(td.transpose(line, {0, 2, 1}), 3, "MAX", o))
  end
end

function tests.convolution_by_rank()
  local random = td.value.random_normal
  local line, image, volume = random{2, 7, 3}, random{2, 7, 6, 3},
    random{1, 4, 5, 6, 2}
  local o = {padding = "VALID", dilations = 2}
  local f1, f2, f3 = random{3, 3, 4}, random{3, 2, 3, 4}, random{2, 2, 2, 2, 3}
  gives(td.conv1d(line, f1, 1, "VALID", {dilations = 2}),
        td.convolution(line, f1, o))
  gives(td.conv2d(image, f2, o), td.convolution(image, f2, o))
  gives(td.conv2d(image, f2, o),
        td.convolution(image, f2, {padding = "VALID", rate = 2}))
  gives(td.conv3d(volume, f3, {padding = "VALID"}),
        td.convolution(volume, f3, {padding = "VALID"}))
  gives(td.conv1d(line, f1, 2, "SAME"), td.convolution(line, f1,
    {strides = {2}, padding = "SAME"}))
end

function tests.erosion_is_the_smallest_difference()
  local x, k = td.value.random_normal{1, 9, 1}, {0.5, -1.0, 0.25}
  for rate = 1, 3 do
    local want = walk(x, 3, rate, function(cells)
      local least = math.huge
      for i, c in ipairs(cells) do least = math.min(least, c - k[4 - i]) end
      return least
    end)
    local kernel = td.reshape(td.tensor(k), {1, 3, 1})
    gives(want, td.erosion2d(td.expand_dims(x, 1), kernel,
                             {rates = {1, rate}}):squeeze{1})
  end
end

function tests.they_have_gradients()
  local x = td.value.random_normal({1, 7, 6, 2}, {dtype = "float64"})
  local k = td.value.random_normal({2, 2, 2}, {dtype = "float64"})
  local function close(f, ...)
    lu.assertTrue(td.test.gradient(f, {...}) < 1e-6)
  end
  close(function(t) return td.pool(t, 2, "MAX", {dilations = 2}) end, x)
  close(function(t) return td.pool(t, 2, "AVG", {dilations = {1, 3}}) end, x)
  close(function(t, f) return td.erosion2d(t, f, {strides = 2}) end, x, k)
end

function tests.they_say_what_they_want()
  local image = td.value.zeros{1, 4, 4, 1}
  raises("one, two or three axes", td.pool, td.value.zeros{2, 3}, 2, "MAX")
  raises("\"MAX\" or \"AVG\"", td.pool, image, 2, "max")
  raises("\"MAX\" or \"AVG\"", td.pool, image, 2)
  raises("window_shape is a number or 2", td.pool, image, {2, 2, 2}, "MAX")
  raises("strides are 1", td.pool, image, 2, "MAX",
         {dilations = 2, strides = 2})
  raises("td.pad", td.pool, image, 2, "MAX", {dilations = 2, padding = "SAME"})
  raises("one, two or three axes", td.convolution, td.value.zeros{2, 3},
         td.value.zeros{1, 3, 3})
  raises("strides must be", td.erosion2d, image, td.value.zeros{2, 2, 1},
         {strides = {1, 2, 3}})
end

return tests
