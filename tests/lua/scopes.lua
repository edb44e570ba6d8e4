-- scopes.lua - names, devices, control inputs, and that scopes close.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function name() return td.no_op("n").name end

function tests.name_scope()
  lu.assertEquals(name(), "n")
  td.name_scope("a", function()
    lu.assertEquals(name(), "a/n")
    td.name_scope("b", function() lu.assertEquals(name(), "a/b/n") end)
    td.name_scope("", function() lu.assertEquals(name(), "n_1") end)
  end)
  td.name_scope("a", function() lu.assertEquals(name(), "a_1/n") end)
  td.name_scope("a/", function() lu.assertEquals(name(), "a/n_1") end)
  lu.assertEquals(td.name_scope("x", function(y) return 1, y end, 2), 1)
  raises("no name of a scope", td.name_scope, "a b")
  raises("must be a string", td.name_scope, 3)
end

function tests.closing_form()
  do
    local _ <close> = td.name_scope "c"
    lu.assertEquals(name(), "c/n")
  end
  lu.assertEquals(name(), "n")
end

function tests.errors_close_scopes()
  pcall(function() td.name_scope("e", function() error "x" end) end)
  lu.assertEquals(name(), "n")
  pcall(td.name_scope, "e", 3)
  lu.assertEquals(name(), "n_1")
end

function tests.scopes_belong_to_coroutines()
  local co = coroutine.wrap(function()
    td.name_scope("inner", function()
      coroutine.yield(name())
      coroutine.yield(name())
    end)
    return name()
  end)
  td.name_scope("outer", function()
    lu.assertEquals(co(), "inner/n")
    lu.assertEquals(name(), "outer/n")
    lu.assertEquals(co(), "inner/n_1")
  end)
  lu.assertEquals(co(), "n")
end

function tests.branches_may_yield()
  local build = coroutine.wrap(function()
    return td.cond(true, function()
      coroutine.yield()
      return td.constant(5, "inside")
    end, function() return 0 end)
  end)
  build()
  lu.assertEquals({name(), td.constant(1).op.flow}, {"n", 0})
  local y = build()
  lu.assertEquals(y:eval(), 5)
end

function tests.device()
  local x = td.device("/cpu:1", function() return td.constant(1) end)
  lu.assertStrContains(x.device, "CPU:1")
  td.device("/job:ps", function()
    lu.assertStrContains(td.device("/cpu:0", td.no_op).device, "/job:ps")
    lu.assertEquals(td.device(nil, td.no_op).device, "")
  end)
  local y = td.device(function(op) return op.type == "Const" and "/cpu:2" or nil
  end, function() return td.constant(1) end)
  lu.assertStrContains(y.device:upper(), "CPU:2")
  raises("", td.device, "/nonsense:::")
end

function tests.control_dependencies()
  local a, b = td.no_op("a"), td.constant(1, "b")
  local v = td.variable(0, "v")
  td.control_dependencies({a, b, v}, function()
    lu.assertEquals(td.no_op().control_inputs, {a, b.op, v.op})
    td.control_dependencies(nil, function()
      lu.assertEquals(td.no_op().control_inputs, {})
    end)
    td.control_dependencies({td.no_op("c")}, function()
      lu.assertEquals(#td.no_op().control_inputs, 4)
    end)
  end)
  raises("takes ops", td.control_dependencies, {1})
  raises("hole", td.control_dependencies, {a, nil, a})
end

function tests.group_and_tuple()
  local v = td.variable(1, "v")
  local up = v:assign_add(1)
  local both = td.group({up, td.no_op()}, "both")
  lu.assertEquals({both.name, both.type}, {"both", "NoOp"})
  local t = td.tuple{td.constant(5), false}
  lu.assertFalse(t[2])
  local sess <close> = td.session()
  sess:init()
  lu.assertEquals(sess:run{both, t[1]}, {true, 5})
  lu.assertEquals(sess:run(v), 2)
end

function tests.colocate_and_container()
  local v = td.container("shared", function() return td.variable(1, "v") end)
  lu.assertEquals(v.op.attr.container, "shared")
  local x = td.colocate_with(v, function() return td.constant(1) end)
  lu.assertEquals(x.op.attr._class, {"loc:@v"})
end

function tests.graphs()
  local g = td.graph()
  local x = g:as_default(function() return td.constant(1, "x") end)
  lu.assertTrue(x.graph == g)
  lu.assertTrue(td.get_default_graph() ~= g)
  lu.assertTrue(g["x:0"] == x and g:op("x") == x.op)
  lu.assertEquals(#g:ops(), 1)
  raises("another graph", td.add, x, 1)
  g:finalize()
  raises("final", g.as_default, g, td.no_op)
  lu.assertStrContains(g:summary{nodes = 9}, "x  Const() -> int32 {}")
end

function tests.collections()
  td.add_to_collection("mine", td.constant(1, "p/a"))
  td.add_to_collection("mine", td.constant(2, "q/a"))
  lu.assertEquals(#td.get_collection("mine"), 2)
  lu.assertEquals(td.get_collection("mine", "q/")[1].name, "q/a:0")
  lu.assertEquals(td.get_collection("none"), {})
end

function tests.origin()
  local x = td.relu(td.constant(1.0))
  lu.assertStrContains(x.origin, "scopes.lua:")
  local dx = td.gradients(td.exp(x), x)
  lu.assertStrContains(dx.origin, "scopes.lua:")
end

function tests.save_and_import()
  local path = os.tmpname()
  local g = td.graph()
  g:as_default(function()
    local x = td.placeholder("float32", {2}, "x")
    td.multiply(x, 3, "y")
  end)
  g:save(path)
  local y = td.import_graph(path, {prefix = "in", outputs = {"y:0"}})
  lu.assertEquals(y.name, "in/y:0")
  helper.gives({3, 6}, td.session():run(y, {["in/x"] = {1.0, 2.0}}))
  local z = td.import_graph(path, {prefix = "on", outputs = {"y:0"},
                                   inputs = {["x:0"] = td.constant{5.0, 6.0}}})
  helper.gives({15, 18}, z)
  os.remove(path)
end

return tests
