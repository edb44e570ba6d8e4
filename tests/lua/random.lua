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

-- ---- td.seed --------------------------------------------------------------

-- A program that draws from everything that may draw, and prints it.
local PROGRAM = [[
local td = require "tide"
local seed = math.tointeger(tonumber(arg[1]))
if seed then td.seed(seed) end
local x = td.tensor{1.0, 2, 3, 4, 5, 6, 7, 8}
local picture = td.reshape(td.range(192):cast "float32", {1, 8, 8, 3})
local cell = td.nn.dropout_wrapper(td.nn.lstm_cell(3),
  {input_keep_prob = 0.5, state_keep_prob = 0.5, variational_recurrent = true})
local rows = {
  random_shuffle = td.random_shuffle(x), dropout = td.dropout(x, 0.5),
  uniform = td.random_uniform{4}, normal = td.random_normal{4},
  truncated = td.truncated_normal{4}, gamma = td.random_gamma({4}, 2.0),
  integers = td.random_uniform({8}, {maxval = 1000, dtype = "int32"}),
  poisson = td.random_poisson(50.0, {8}),
  multinomial = td.multinomial(td.ones{1, 100}, 20),
  flip = td.random_flip_left_right(picture),
  bright = td.random_brightness(picture, 0.5),
  contrast = td.random_contrast(picture, 0.1, 0.9),
  crop = td.random_crop(picture, {1, 5, 5, 3}),
  fractional = td.nn.fractional_max_pool(picture,
    {pooling_ratio = {1, 1.5, 1.5, 1}}),
  layer = td.layers.dropout(td.layers.dense(td.ones{2, 8}, 8),
    {rate = 0.5, training = true}),
  rnn = td.nn.dynamic_rnn(cell, td.ones{2, 3, 4}),
  orthogonal = td.get_variable("q", {3, 3},
    {initializer = td.initializers.orthogonal()}):read(),
  loop = (select(2, td.while_loop(function(i) return i:less(3) end,
    function(i, v) return i + 1, v + td.random_uniform{4} end,
    {0, td.zeros{4}}))),
  mapped = td.map_fn(function(v) return v + td.random_uniform{} end, x),
  sampled = td.nn.sampled_softmax_loss(td.random_normal{50, 4},
    td.random_normal{50}, td.constant({{1}, {2}}, {dtype = "int64"}),
    td.random_normal{2, 4}, 9, 50),
}
local names = {}
for name in pairs(rows) do names[#names + 1] = name end
table.sort(names)
local s = td.session()
s:init()
local function show(name, v)
  local list = v:table()
  for i = 1, #list do list[i] = ("%q"):format(list[i]) end
  print(name .. ":" .. table.concat(list, " "))
end
for _, name in ipairs(names) do
  show(name, s:run(rows[name]:reshape{-1}))
  show(name .. "_2", s:run(rows[name]:reshape{-1}))
end
show("value", td.value.random_normal{4})
show("value_2", td.value.random_normal{4})
local d = td.data.of{x = x}
for k = 1, 2 do
  local order = {}
  for b in d:batches(3, {shuffle = true, epochs = 2}) do
    for _, v in ipairs(b.x:table()) do order[#order + 1] = v end
  end
  print("batches_" .. k .. ":" .. table.concat(order, " "))
  show("shuffled_" .. k, d:shuffled().x)
end
print("own:" .. table.concat(d:shuffled{seed = 3}.x:table(), " "))
]]

-- What a process that runs the program prints, by name.
local function drawn(seed)
  local binary = io.popen("readlink /proc/$PPID/exe"):read()
  local path = os.tmpname()
  local f <close> = assert(io.open(path, "w"))
  f:write(PROGRAM):close()
  local pipe = io.popen(("%s %s %s 2>&1"):format(binary, path, seed))
  local out, n = {}, 0
  for line in pipe:lines() do
    local name, text = line:match "^([%w_]+):(.*)$"
    lu.assertTrue(name ~= nil and name ~= "tide", line)
    out[name], n = text, n + 1
  end
  pipe:close()
  os.remove(path)
  return out, n
end

function tests.a_seed_is_a_program_that_can_be_had_again()
  local a, n = drawn(5)
  lu.assertTrue(n > 40)
  lu.assertEquals(drawn(5), a)
  local other, zero, none = drawn(6), drawn(0), drawn("none")
  lu.assertEquals(drawn(0), zero)
  for name, text in pairs(a) do
    if name == "own" then
      lu.assertEquals({other.own, none.own}, {text, text})
    elseif not name:find "^flip" then
      lu.assertNotEquals(other[name], text, name)
      lu.assertNotEquals(zero[name], text, name)
    end
  end
  for _, pair in ipairs{{"batches_1", "batches_2"}, {"uniform", "uniform_2"},
                        {"shuffled_1", "shuffled_2"}, {"value", "value_2"}} do
    lu.assertNotEquals(a[pair[1]], a[pair[2]])
  end
end

-- Both seeds 0 would be a stream by chance.
function tests.seeds_of_zero()
  td.seed(0)
  local x = td.random_uniform({3}, {seed = 0})
  lu.assertEquals({x.op.attr.seed, x.op.attr.seed2}, {0, 2147483647})
end

-- Regions of a fractional pool are fixed by a seed, and only then.
function tests.seeds_of_fractional_pools()
  local x, o = td.ones{1, 8, 8, 1}, {pooling_ratio = {1, 1.5, 1.5, 1}}
  lu.assertFalse(td.nn.fractional_max_pool(x, o).op.attr.deterministic)
  td.seed(3)
  lu.assertTrue(td.nn.fractional_max_pool(x, o).op.attr.deterministic)
  o.deterministic = false
  local op = td.nn.fractional_avg_pool(x, o).op
  lu.assertEquals({op.attr.seed, op.attr.seed2, op.attr.deterministic},
                  {0, 0, false})
end

function tests.orders_begin_again_with_the_seed()
  local d = td.data.of{x = td.value.ones{20}:cumsum(0)}
  local function order() return d:shuffled().x:table() end
  td.seed(7)
  local a, b = order(), order()
  td.seed(7)
  lu.assertEquals({order(), order()}, {a, b})
  lu.assertNotEquals(a, b)
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
  gives({4, 0, 1, 5, 2, 3}, td.random.stateless_shuffle({0, 1, 2, 3, 4, 5},
                                                        {3, -4}))
  gives({2, 0, 6, 4}, td.random.index_shuffle({0, 1, 2, 3}, {1, 2, 3}, 9))
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
