-- random.lua - distributions: moments, functions of seeds, gradients.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local N = 20000

-- Mean and variance of the numbers of a graph tensor.
local function moments(x)
  local s = td.session()
  local v = s:run(x):cast "float64"
  local mean = v:mean():item()
  return mean, ((v - mean) * (v - mean)):mean():item()
end

local function near(want, got, what)
  lu.assertAlmostEquals(got, want, 0.05 * math.max(1, math.abs(want)), what)
end

function tests.moments()
  for _, alpha in ipairs{0.3, 1.0, 4.5} do
    local mean, var = moments(td.random_gamma({N}, alpha, {seed = 1}))
    near(alpha, mean, "gamma")
    near(alpha, var, "gamma")
  end
  local mean, var = moments(td.random_gamma({N}, 4.0, {beta = 2.0, seed = 1}))
  near(2, mean)
  near(1, var)
  for _, rate in ipairs{0.5, 8.0, 40.0} do
    mean, var = moments(td.random_poisson(rate, {N}, {seed = 2}))
    near(rate, mean, "poisson")
    near(rate, var, "poisson")
  end
  for _, low in ipairs{-3.0, 0.0, 3.0} do -- each way to draw
    local x = td.parameterized_truncated_normal({N},
      {minvals = low, maxvals = low + 9.0, seed = 3})
    mean, var = moments(x)
    local density = math.exp(-low * low / 2) / math.sqrt(2 * math.pi)
    local tail = 0.5 * (1 - td.erf(td.tensor(low / math.sqrt(2), "float64"))
                        :item())
    local slope = density / tail
    near(slope, mean, "truncated")
    near(1 + low * slope - slope * slope, var, "truncated")
  end
end

function tests.every_rate_has_its_samples()
  local s = td.session()
  local x = s:run(td.random_poisson({1.0, 100.0}, {1000}, {seed = 1}))
  lu.assertTrue(x.shape == {1000, 2})
  local mean = x:mean(0):table()
  near(1, mean[1])
  near(100, mean[2])
end

function tests.classes()
  local s = td.session()
  local x = s:run(td.multinomial({{0.0, math.log(3.0), -math.huge}}, N,
                                 {seed = 1}))
  near(0.75, x:cast("float32"):mean():item())
  lu.assertEquals(x:max():item(), 1)
end

function tests.functions_of_seeds()
  local a = td.stateless_random_normal({3, 4}, {1, 2})
  gives(a, td.random.stateless_normal({3, 4}, {1, 2}))
  lu.assertFalse(pcall(td.test.close, a,
                       td.stateless_random_normal({3, 4}, {1, 3})))
  local u = td.stateless_random_uniform({N}, 7, {minval = 2, maxval = 4})
  near(3, u:mean():item())
  local i = td.stateless_random_uniform({N}, 7, {maxval = 4, dtype = "int32"})
  lu.assertEquals({i:min():item(), i:max():item()}, {0, 3})
  local t = td.stateless_truncated_normal({N}, 7, {mean = 1, stddev = 2})
  near(1, t:mean():item())
  lu.assertTrue(t:max():item() <= 5)
  raises("needs maxval", td.stateless_random_uniform, {1}, 1,
         {dtype = "int32"})
  raises("a seed", td.stateless_random_normal, {1})
end

function tests.gradient_of_gamma()
  local alpha = td.constant{2.0, 5.0}
  local x = td.random_gamma({N}, alpha, {seed = 3})
  local s = td.session()
  local slope = s:run(td.gradients(x:mean(0), alpha))
  near(1, slope:table()[1]) -- the mean is alpha
  near(1, slope:table()[2])
end

return tests
