-- initializers.lua - how variables begin: what is drawn is spread as it should.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local initializers = td.initializers
local tests = {}

-- Mean, standard deviation and largest magnitude.
local function spread(x)
  local mean = x:mean()
  return {mean:item(), (x - mean):square():mean():sqrt():item(),
          x:abs():max():item()}
end

local n, m = 200, 300
local cut = 2 / 0.87962566103423978

-- Name, arguments, standard deviation, bound in standard deviations.
local rows = {
  {"random_uniform", {minval = -3, maxval = 3}, math.sqrt(3), math.sqrt(3)},
  {"random_normal", {stddev = 2.0}, 2},
  {"truncated_normal", {stddev = 2.0}, 2 * 0.8796, cut},
  {"glorot_uniform", nil, math.sqrt(2 / (n + m)), math.sqrt(3)},
  {"glorot_normal", nil, math.sqrt(2 / (n + m)), cut},
  {"he_uniform", nil, math.sqrt(2 / n), math.sqrt(3)},
  {"he_normal", nil, math.sqrt(2 / n), cut},
  {"lecun_uniform", nil, math.sqrt(1 / n), math.sqrt(3)},
  {"lecun_normal", nil, math.sqrt(1 / n), cut},
  {"uniform_unit_scaling", {factor = 2.0}, 2 / math.sqrt(n), math.sqrt(3)},
  {"variance_scaling", {scale = 3.0, mode = "fan_out"}, math.sqrt(3 / m), cut},
  {"variance_scaling", {distribution = "untruncated_normal"},
   math.sqrt(1 / n)},
  {"variance_scaling", {distribution = "normal"}, math.sqrt(1 / n), cut},
  {"orthogonal", {gain = 2.0}, 2 / math.sqrt(m)},
}

for i, row in ipairs(rows) do
  tests["spread_" .. i .. "_" .. row[1]] = function()
    td.seed(7)
    local make = initializers[row[1]](row[2])
    local x = td.session():run(make({n, m}, "float32"))
    local mean, deviation, most = table.unpack(spread(x))
    lu.assertAlmostEquals(mean, 0, 0.03 * row[3])
    lu.assertAlmostEquals(deviation, row[3], 0.02 * row[3])
    if row[4] then lu.assertTrue(most <= row[4] * row[3] * 1.001) end
  end
end

-- A weight of a convolution: {rows, columns, in, out}.
function tests.fans_of_convolutions()
  local x = td.session():run(initializers.he_uniform()({3, 3, 20, 40},
                                                       "float64"))
  lu.assertEquals(x.dtype, "float64")
  lu.assertAlmostEquals(spread(x)[3], math.sqrt(6 / 180), 1e-3)
end

function tests.orthogonal()
  td.seed(1)
  local sess = td.session()
  for _, shape in ipairs{{6, 4}, {4, 6}, {5, 5}, {2, 3, 4}} do
    local q = sess:run(initializers.orthogonal()(shape, "float64"))
    lu.assertTrue(q.shape == shape)
    local a = q:reshape{-1, shape[#shape]}
    local tall = a:dim(0) >= a:dim(1)
    local product = tall and a:matmul(a, {transpose_a = true})
      or a:matmul(a, {transpose_b = true})
    td.test.close(product, td.value.eye(product:dim(0), {dtype = "float64"}),
                  {atol = 1e-12})
  end
end

function tests.those_without_chance()
  local function of(make, shape) return make(shape, "float32") end
  gives({{2, 0, 0}, {0, 2, 0}}, of(initializers.identity{gain = 2.0}, {2, 3}))
  gives({3, 3}, of(initializers.constant(3), {2}))
  gives({0, 0}, of(initializers.zeros(), {2}))
  gives({1, 1}, of(initializers.ones(), {2}))
end

function tests.seeds()
  local function draw(o)
    return td.session():run(initializers.glorot_uniform(o)({3}, "float32"))
  end
  gives(draw{seed = 4}:table(), draw{seed = 4})
end

function tests.errors()
  raises("identity: a variable of rank 2, not of shape {3}",
         initializers.identity(), {3}, "float32")
  raises("orthogonal: a variable of rank 2 or more, not of shape {3}",
         initializers.orthogonal(), {3}, "float32")
  raises("mode is fan_in, fan_out or fan_avg, not fan",
         initializers.variance_scaling{mode = "fan"}, {3, 3}, "float32")
  raises("distribution is truncated_normal, untruncated_normal or uniform, "
         .. "not gamma", initializers.variance_scaling,
         {distribution = "gamma"})
  raises("did you mean \"stddev\"?", initializers.random_normal, {stdev = 1})
end

return tests
