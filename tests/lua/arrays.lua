-- arrays.lua - tensor arrays, and loops over slices: results, gradients,
-- messages.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function run(x, feeds) return td.session():run(x, feeds) end

-- ---- the array --------------------------------------------------------------

function tests.written_and_read()
  local ta = td.tensor_array("float32", 3)
  ta = ta:write(0, {1.0, 2.0}):write(2, {5.0, 6.0}):write(1, {3.0, 4.0})
  lu.assertTrue(ta:read(1).shape == {2})
  gives({{1, 2}, {3, 4}, {5, 6}}, ta:stack())
  gives({{5, 6}, {1, 2}}, td.tensor_array("float32", 3):unstack(
    td.constant{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}):gather{2, 0})
  gives(3, ta:size())
  lu.assertStrContains(tostring(ta), "float32, elements {2}")
end

function tests.split_and_joined()
  local ta = td.tensor_array("int32", 3, {infer_shape = false})
  ta = ta:split(td.constant{1, 2, 3, 4, 5, 6}, {1, 3, 2})
  local x, lengths = ta:concat()
  local second = td.tensor_array("int32", 3, {infer_shape = false})
    :split(td.constant{1, 2, 3, 4, 5, 6}, {1, 3, 2}):read(1)
  local all, n, two = table.unpack(run{x, lengths, second})
  gives({1, 2, 3, 4, 5, 6}, all)
  gives({1, 3, 2}, n)
  gives({2, 3, 4}, two)
end

-- A gradient has the shape of what was split, however the array grew since.
function tests.split_then_grown()
  for _, more in ipairs{{2}, {2, 3}} do
    local x = td.constant{1.0, 2.0, 3.0}
    local ta = td.tensor_array("float32", 0,
                               {dynamic_size = true, infer_shape = false})
    ta = ta:split(x, {1, 2})
    for _, i in ipairs(more) do ta = ta:write(i, td.constant{7.0, 8.0}) end
    local y = td.reduce_sum(ta:read(1) * td.constant{5.0, 6.0})
    gives({0, 5, 6}, td.gradients(y, x))
    gives({2, 4, 6}, td.gradients(td.reduce_sum(td.square((ta:concat()))), x))
  end
end

function tests.of_strings_and_bools()
  gives({"a", "bc", ""}, td.tensor_array("string", 3):unstack(
    td.constant{"a", "bc", ""}):stack())
  gives({"", "x"}, td.tensor_array("string", 2, {element_shape = {}})
    :write(1, "x"):stack())
  gives({true, false}, td.tensor_array("bool", 2):unstack(
    td.constant{true, false}):stack())
end

function tests.grows()
  local ta = td.tensor_array("float32", 0, {dynamic_size = true})
  gives({{0, 0}, {1, 2}}, ta:write(1, {1.0, 2.0}):stack()["0:2"])
  raises("would grow", run, td.tensor_array("float32", 1):write(1, 2.0).flow)
end

function tests.once_only()
  local ta = td.tensor_array("float32", 2)
  raises("was written before", run, ta:write(0, 1.0):write(0, 2.0).flow)
  ta = td.tensor_array("float32", 2):write(0, 1.0)
  local x = ta:read(0)
  raises("clear_after_read = false", run, td.control_dependencies({x},
    function() return ta:read(0) end))
  ta = td.tensor_array("float32", 2, {clear_after_read = false}):write(0, 1.0)
  x = ta:read(0)
  gives(1, td.control_dependencies({x}, function() return ta:read(0) end))
end

function tests.never_written()
  gives(0, td.tensor_array("float32", 2, {element_shape = {}}):read(1))
  raises("was not written", run, td.tensor_array("float32", 2):read(1))
  raises("there are no elements", run, td.tensor_array("float32", 0):stack())
  local none = td.tensor_array("float32", 0, {element_shape = {2}}):stack()
  lu.assertTrue(run(none).shape == {0, 2})
end

function tests.wrong()
  local ta = td.tensor_array("float32", 2)
  raises("fetch its :stack()", run, ta)
  raises("outside tensor array", run, ta:read(2))
  raises("holds float32, given int32", ta.write, ta, 0, td.constant(1))
  raises("have shape {2}, but one of shape {3}", function()
    return td.tensor_array("float32", 2):write(0, {1.0, 2.0})
      :write(1, {1.0, 2.0, 3.0})
  end)
  raises("closed", run, td.control_dependencies({ta:close()}, function()
    return ta:size()
  end))
  raises("must not be negative", run, td.tensor_array("float32",
    td.constant(-1)).flow)
  raises("16777216 are allowed", run, td.tensor_array("float32",
    td.constant(1 << 30)).flow)
  raises("no option", td.tensor_array, "float32", 2, {dynamic = true})
  raises("sum to", run, td.tensor_array("float32", 2):split(
    td.constant{1.0, 2.0}, {1, 2}).flow)
end

function tests.gone_with_the_step()
  local ta = td.tensor_array("float32", 2, {clear_after_read = false})
  ta = ta:write(0, 1.0)
  local s = td.session()
  for _ = 1, 3 do lu.assertEquals(s:run(ta:read(0)), 1.0) end
end

-- ---- in loops and branches --------------------------------------------------

function tests.a_loop_variable()
  local _, ta = td.while_loop(function(i) return i:less(4) end,
    function(i, ta) return i + 1, ta:write(i, i * 10) end,
    {0, td.tensor_array("int32", 4)})
  gives({0, 10, 20, 30}, ta:stack())
  local other = td.tensor_array("int32", 4)
  raises("which is not the one expected", td.while_loop, function(i)
    return i:less(4)
  end, function(i) return i + 1, other end, {0, td.tensor_array("int32", 4)})
end

function tests.a_result_of_cond()
  local p = td.placeholder("bool", {}, "p")
  local ta = td.tensor_array("int32", 2):write(0, 7)
  local out = td.cond(p, function() return ta:write(1, 8) end,
                      function() return ta:write(1, 9) end):stack()
  lu.assertEquals(run(out, {p = true}):table(), {7, 8})
  lu.assertEquals(run(out, {p = false}):table(), {7, 9})
end

-- ---- over slices ------------------------------------------------------------

function tests.map_fn()
  local x = td.constant{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}
  local y = td.map_fn(function(v) return v * v end, x)
  gives({{1, 4}, {9, 16}, {25, 36}}, y)
  lu.assertTrue(y.shape == {-1, 2} or y.shape == {3, 2})
  gives({2, 3, 4}, td.map_fn(function(v) return v + 1 end, {1, 2, 3}))
  local z = td.map_fn(function(p) return {sum = p.a + p.b[1], a = p.a} end,
                      {a = x, b = {x * 10}})
  gives({{11, 22}, {33, 44}, {55, 66}}, z.sum)
  gives({{1, 2}, {3, 4}, {5, 6}}, z.a)
  gives({1, 1}, td.map_fn(function(v) return td.rank(v) end, x)["0:2"])
  local n = td.placeholder("float32", {-1}, "n")
  gives({1, 4}, run(td.map_fn(td.square, n), {n = td.tensor{1.0, 2.0}}))
end

function tests.folds()
  local x = td.constant{1, 2, 3, 4}
  local function f(a, v) return a * 10 + v end
  gives(1234, td.foldl(f, x))
  gives(51234, td.foldl(f, x, 5))
  gives(4321, td.foldr(f, x))
  gives(54321, td.foldr(f, x, 5))
  local r = td.foldl(function(a, p)
    return {n = a.n + 1, t = a.t + p[1] * p[2]}
  end, {x, x}, {n = 0, t = 0})
  lu.assertEquals(run{r.n, r.t}, {4, 30})
end

function tests.scan()
  local x = td.constant{1, 2, 3, 4}
  local function f(a, v) return a * 10 + v end
  gives({1, 12, 123, 1234}, td.scan(f, x))
  gives({51, 512, 5123, 51234}, td.scan(f, x, 5))
  gives({4321, 432, 43, 4}, td.scan(f, x, nil, {reverse = true}))
  gives({54321, 5432, 543, 54}, td.scan(f, x, 5, {reverse = true}))
  local a, b = table.unpack(td.scan(function(a, v)
    return {a[1] + v, a[2] * 2}
  end, x, {td.constant(0), td.constant(1)}))
  gives({1, 3, 6, 10}, a)
  gives({2, 4, 8, 16}, b)
end

function tests.no_slices()
  local x = td.zeros{0, 2}
  lu.assertTrue(run(td.map_fn(td.square, x)).shape == {0, 2})
  gives({3, 4}, td.foldl(function(a, v) return a + v end, x, {3.0, 4.0}))
  raises("needs an initial value", td.foldl, function(a) return a end, x)
end

function tests.slices_refused()
  local x = td.constant{1.0, 2.0}
  raises("given a scalar", td.map_fn, td.square, td.constant(1.0))
  raises("3 and 2 slices", td.map_fn, function(p) return p[1] end,
         {td.zeros{3}, x})
  raises("function must be a function", td.map_fn, x, x)
  raises("must be tensors, not nil", td.map_fn, function() end, x)
  raises("begins as float32, but the function gives int32", td.foldl,
         function(a) return a:cast "int32" end, x)
  raises("begins with shape {}, but the function gives {2}", td.scan,
         function(_, v) return td.stack{v, v} end, x)
  raises("1 values, but the function gives 2", td.foldl,
         function(a) return {a, a} end, x)
  raises("did you mean \"reverse\"", td.scan, td.add, x, nil, {revers = true})
end

-- ---- gradients --------------------------------------------------------------


function tests.two_gradients_do_not_mix()
  local x = td.constant{1.0, 2.0}
  local ta = td.tensor_array("float32", 2, {clear_after_read = false})
  local y = ta:unstack(x * x):read(0)
  gives({4, 0}, td.gradients(y, x) + td.gradients(y, x))
end

return tests
