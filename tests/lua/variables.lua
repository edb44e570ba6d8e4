-- variables.lua - variables: reading, writing, names, sharing.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function started()
  local s = td.session()
  s:init()
  return s
end

function tests.fields()
  local v = td.variable(td.zeros{2, 3}, "v")
  lu.assertEquals({v.name, v.dtype, v.rank, v.size, v.trainable},
                  {"v", "float32", 2, 6, true})
  lu.assertTrue(v.shape == {2, 3})
  lu.assertEquals(v.op.type, "VarHandleOp")
  lu.assertEquals(v.op.attr.shared_name, "v")
  lu.assertEquals(v.initializer.type, "AssignVariableOp")
  lu.assertStrContains(v.origin, "variables.lua:")
  lu.assertStrContains(tostring(v), 'Variable "v" float32 {2, 3}')
  lu.assertTrue(td.is_variable(v) and not td.is_variable(v:read()))
end

function tests.initial_values()
  local rows = {
    {td.tensor{1.0}, {1}}, {2, 2}, {{1.5, 2.5}, {1.5, 2.5}},
    {td.ones{2}, {1, 1}}, {function() return td.zeros{1} end, {0}},
  }
  local vars = {}
  for i, row in ipairs(rows) do vars[i] = td.variable(row[1]) end
  local s = started()
  for i, row in ipairs(rows) do gives(row[2], s:run(vars[i]), "row " .. i) end
end

function tests.names()
  lu.assertEquals(td.variable(0, "v").name, "v")
  lu.assertEquals(td.variable(0, "v").name, "v_1")
  lu.assertEquals(td.variable(0).name, "Variable")
  td.name_scope("a", function()
    lu.assertEquals(td.variable(0, "v").name, "a/v")
  end)
end

function tests.updates_give_the_new_value()
  local v = td.variable({1.0, 2.0}, "v")
  local s = started()
  gives({3, 4}, s:run(v:assign{3, 4}))
  gives({4, 5}, s:run(v:assign_add(td.ones{2})))
  gives({3.5, 4.5}, s:run(v:assign_sub{0.5, 0.5}))
  gives({3.5, 14.5}, s:run(v:scatter_add({1}, {10})))
  gives({3.5, 14}, s:run(v:scatter_sub({1, 1}, {0.25, 0.25})))
  gives({7, 14}, s:run(v:scatter_update({0}, {7})))
  gives({7, 14}, s:run(v))
end

function tests.slices_are_assigned()
  local v = td.variable({{1, 2}, {3, 4}, {5, 6}}, "v")
  local s = started()
  gives({{1, 2}, {3, 4}}, s:run(v["0:2"] + 0))
  gives({{9, 9}, {8, 8}, {5, 6}}, s:run(v["0:2"]:assign{{9, 9}, {8, 8}}))
  gives({{9, 9}, {8, 8}, {0, 1}}, s:run(v[-1]:assign{0, 1}))
  gives({{9, 9}, {8, 8}, {7, 7}}, s:run(v[td.constant(2)]:assign{7, 7}))
  gives({{1, 1}, {8, 8}, {2, 2}}, s:run(v["::2"]:assign{{1, 1}, {2, 2}}))
  gives({2, 2}, v[2]:eval())
  gives({{1, 4}, {8, 5}, {2, 6}}, s:run(v[":, 1"]:assign{4, 5, 6}))
  gives({{1, 4}, {0, 0}, {0, 0}}, s:run(v["1:"]:assign(0)))
  local n = td.constant(1)
  gives({{1, 4}, {0, 9}, {0, 0}}, s:run(v[{{n, n + 1}, -1}]:assign{9}))
  raises("value must broadcast to the shape of the slice, {2, 2}, and is of "
    .. "shape {3}", function() return v["0:2"]:assign{7, 7, 7} end)
  lu.assertTrue(v["1:"].shape == {2, 2})
end

function tests.slices_by_vectors_are_changed()
  local v = td.variable({{1, 2}, {3, 4}}, "v")
  local s = started()
  gives({{1, 12}, {3, 4}}, s:run(v:scatter_nd_add({{0, 1}}, {10})))
  gives({{1, 12}, {0, 7}}, s:run(v:scatter_nd_update({{1}}, {{0, 7}})))
  gives({{1, 2}, {0, 7}}, s:run(v:scatter_nd_min({{0, 1}}, {2})))
end

function tests.reads_see_their_control_scope()
  local v = td.variable(1, "v")
  local before = v:read()
  local up = td.control_dependencies({before}, function()
    return v:assign_add(10)
  end)
  local after = td.control_dependencies({up}, function() return v + 0 end)
  lu.assertEquals(started():run{before, after}, {1, 11})
end

function tests.used_as_tensors()
  local v = td.variable({{1.0, 2.0}, {3.0, 4.0}}, "v")
  started()
  gives({{2, 4}, {6, 8}}, v * 2)
  gives({{2, 4}, {6, 8}}, v + v)
  gives({{7, 10}, {15, 22}}, v:matmul(v))
  gives({3, 4}, v[1])
  gives(10, v:sum())
  gives({{{1, 2}, {3, 4}}}, td.stack{v})
  gives({{3, 4}}, v:gather{1})
  lu.assertEquals(v:gather({1}).op.type, "ResourceGather")
  lu.assertEquals(v:dim(1), 2)
end

function tests.init_follows_dependencies()
  local a = td.variable(function() return td.constant(3.0) end, "a")
  local b = td.variable(a * 2, "b")
  local c = td.variable(b + a, "c")
  local s = started()
  lu.assertEquals(s:run{a, b, c}, {3.0, 6.0, 9.0})
  s:run(a:assign(1))
  s:init()
  lu.assertEquals(s:run(a), 1.0)
  local d = td.variable(5, "d")
  s:init()
  lu.assertEquals(s:run(d), 5)
end

function tests.not_initialised()
  local v = td.variable(0, "forgotten")
  local e = raises("forgotten", function() return td.session():run(v + 1) end)
  lu.assertEquals(e.code, "failed_precondition")
end

function tests.global_initializer()
  local v, w = td.variable(1, "v"), td.variable(2, "w")
  local s = td.session()
  s:run(td.global_variables_initializer())
  lu.assertEquals(s:run{v, w}, {1, 2})
end

function tests.collections()
  local v = td.variable(0, "D/v")
  local w = td.variable(0, {name = "w", trainable = false})
  local all = td.global_variables()
  lu.assertTrue(#all == 2 and all[1] == v and all[2] == w)
  lu.assertTrue(#td.trainable_variables() == 1
                and td.trainable_variables()[1] == v)
  lu.assertEquals(td.trainable_variables("G/"), {})
end

function tests.get_variable()
  local function layer()
    return td.get_variable("w", {2}, {initializer = td.initializers.ones()})
  end
  local a = td.variable_scope("D", layer)
  lu.assertEquals(a.name, "D/w")
  lu.assertTrue(td.variable_scope("D", {reuse = true}, layer) == a)
  lu.assertTrue(td.variable_scope("D", {reuse = "auto"}, layer) == a)
  local e = raises("exists already", td.variable_scope, "D", layer)
  lu.assertEquals(e.code, "already_exists")
  lu.assertStrContains(e.message, "variables.lua:")
  raises("no variable \"E/w\"", td.variable_scope, "E", {reuse = true}, layer)
  raises("asked for {3}", td.variable_scope, "D", {reuse = true}, function()
    return td.get_variable("w", {3})
  end)
  raises("asked for int32", td.variable_scope, "D", {reuse = true}, function()
    return td.get_variable("w", {2}, {dtype = "int32"})
  end)
  local b = td.variable_scope("D", function()
    return td.variable_scope("in", layer)
  end)
  lu.assertEquals(b.name, "D/in/w")
  do
    local _ <close> = td.variable_scope "F"
    lu.assertEquals(layer().name, "F/w")
  end
  lu.assertEquals(layer().name, "w")
  gives({1, 1}, started():run(a))
end

function tests.get_variable_defaults()
  local v = td.variable_scope("s", {dtype = "float64", trainable = false},
    function() return td.get_variable("v", {4, 4}) end)
  lu.assertEquals({v.dtype, v.trainable}, {"float64", false})
  local limit = math.sqrt(6 / 8)
  started()
  lu.assertTrue(v:abs():max():eval() <= limit)
  local n = td.get_variable("n", nil, {initializer = 5})
  lu.assertEquals(n.dtype, "float32")
  raises("needs a shape", td.get_variable, "m")
end

function tests.initializers()
  local rows = {
    {td.initializers.zeros(), 0, 0}, {td.initializers.ones(), 1, 0},
    {td.initializers.constant(3), 3, 0},
    {td.initializers.random_normal{mean = 1, stddev = 2}, 1, 2},
    {td.initializers.glorot_uniform(), 0, math.sqrt(2 / 200)},
    {td.initializers.he_normal(), 0, math.sqrt(2 / 100)},
    {td.initializers.lecun_uniform(), 0, math.sqrt(1 / 100)},
  }
  for i, row in ipairs(rows) do
    local x = td.session():run(row[1]({100, 100}, "float32"))
    lu.assertAlmostEquals(x:mean():item(), row[2], 0.1, "row " .. i)
    local deviation = (x - x:mean()):square():mean():sqrt():item()
    lu.assertAlmostEquals(deviation, row[3], 0.05 * row[3] + 1e-6, "row " .. i)
  end
  gives({{1, 0}, {0, 1}}, td.initializers.identity()({2, 2}, "float32"))
end

function tests.refused()
  local v = td.variable({1.0, 2.0}, "v")
  raises("variable \"v\" has shape {2}, given {3}", v.assign, v, {1, 2, 3})
  raises("variable \"v\" is float32, given int32", v.assign, v, td.tensor{1, 2})
  raises("to be float64", td.variable, td.zeros{2}, {dtype = "float64"})
  raises("no initial value", td.variable, function() end)
  raises("option \"nam\"", td.variable, 0, {nam = "x"})
  raises("did you mean \"assign\"", function() return v.asign end)
  raises("cannot be given fields", function() v.x = 1 end)
end

function tests.inside_control_flow()
  local made
  local r = td.cond(true, function()
    made = td.variable(function() return td.constant(2) end, "v")
    return made * 3
  end, function() return 0 end)
  lu.assertEquals(made.op.flow, 0)
  lu.assertEquals(started():run(r), 6)
end

return tests
