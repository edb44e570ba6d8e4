-- control.lua - cond, case, while_loop: results, captures, order, messages.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function run(x, feeds) return td.session():run(x, feeds) end

-- ---- cond -------------------------------------------------------------------

function tests.cond_chooses()
  local x = td.placeholder("float32", {}, "x")
  local y = td.cond(x:less(0), function() return -x end,
                    function() return x end)
  lu.assertEquals({run(y, {x = -3}), run(y, {x = 4})}, {3.0, 4.0})
end

function tests.cond_computes_one_branch()
  local p = td.placeholder("bool", {}, "p")
  local v = td.variable(0, "v")
  local y = td.cond(p, function() return v:assign_add(1) end,
                    function() return v:assign_add(10) end)
  local s = td.session()
  s:init()
  lu.assertEquals(s:run(y, {p = true}), 1)
  lu.assertEquals(s:run(y, {p = false}), 11)
end

function tests.cond_results()
  local x = td.constant(2.0)
  local a, b = td.cond(true, function() return x, 1 end,
                       function() return 0, x:cast "int32" end)
  lu.assertEquals({a.dtype, b.dtype}, {"float32", "int32"})
  lu.assertEquals(run{a, b}, {2.0, 1})
  local shaped = td.cond(true, function() return td.zeros{2, 3} end,
                         function() return td.zeros{2, 4} end)
  lu.assertTrue(shaped.shape == {2, -1})
  gives({2, 2}, td.cond(false, function() return {x, 1.0} end,
                        function() return {x, x} end))
end

function tests.cond_acts()
  local v = td.variable(1, "v")
  local op = td.cond(v:read():equal(1), function() return v:assign(5).op end,
                     function() end)
  local s = td.session()
  s:init()
  lu.assertTrue(s:run(op))
  lu.assertEquals(s:run(v), 5)
  s:run(op)
  lu.assertEquals(s:run(v), 5)
end

function tests.nested_cond()
  local x = td.placeholder("int32", {}, "x")
  local y = td.cond(x:less(10), function()
    return td.cond(x:less(5), function() return x * 2 end,
                   function() return x * 3 end)
  end, function() return x end)
  lu.assertEquals({run(y, {x = 2}), run(y, {x = 6}), run(y, {x = 20})},
                  {4, 18, 20})
end

function tests.case()
  local x = td.placeholder("int32", {}, "x")
  local y = td.case{{x:less(0), function() return -1 end},
                    {x:equal(0), function() return 0 end},
                    default = function() return 1 end}
  lu.assertEquals({run(y, {x = -5}), run(y, {x = 0}), run(y, {x = 9})},
                  {-1, 0, 1})
end

function tests.case_without_default()
  local x = td.placeholder("int32", {}, "x")
  local function n(value) return function() return td.constant(value) end end
  local y = td.case{{x:less(0), n(-1)}, {x:equal(0), n(0)}}
  lu.assertEquals({run(y, {x = -5}), run(y, {x = 0})}, {-1, 0})
  local e = raises("no default", run, y, {x = 9})
  lu.assertStrContains(tostring(e), "no default] [0 0]")
  local one = td.case{{x:less(0), function() return -1 end}}
  lu.assertEquals(run(one, {x = -5}), -1)
  raises("no default", run, one, {x = 9})
end

function tests.case_exclusive()
  local x = td.placeholder("int32", {}, "x")
  local function n(value) return function() return value end end
  local y = td.case{{x:less(1), n(1)}, {x:less(5), n(2)}, default = n(3),
                    exclusive = true}
  lu.assertEquals({run(y, {x = 2}), run(y, {x = 9})}, {2, 3})
  raises("more than one condition is true", run, y, {x = 0})
  lu.assertEquals(run(td.case{{x:less(1), n(1)}, {x:less(5), n(2)},
                              default = n(3)}, {x = 0}), 1)
end

function tests.case_refused()
  local one = function() return 1 end
  raises("at least one", td.case, {default = one})
  raises("default must be a function", td.case, {{true, one}, default = 1})
  raises("pair 1: its second part must be a function", td.case, {{true, 1}})
  raises("pair 2 must be a table", td.case, {{true, one}, one})
  raises("int32, not bool; compare it: x:not_equal(0)", td.case,
         {{td.constant(1), one}, default = one})
end

function tests.cond_refused()
  local one, x = function() return 1 end, td.constant(1)
  raises("true branch must be a function", td.cond, true, 1, one)
  raises("2 results, the false one 1", td.cond, true,
         function() return 1, 2 end, one)
  raises("int32 in the true branch and float32 in the false", td.cond, true,
         function() return x end, function() return td.constant(1.0) end)
  raises("is an op, not a tensor", td.cond, true, td.no_op, one)
  raises("pred is int32, not bool; compare it: x:not_equal(0)", td.cond,
         td.constant(1), one, one)
  raises("pred is float32, not bool", td.cond, 0.5, one, one)
  raises("pred", td.cond, td.constant{true, false}, one, one)
end

function tests.results_of_branches_stay_inside()
  local leaked
  td.cond(true, function()
    leaked = td.constant(1) + 1
    return leaked
  end, function() return 0 end)
  raises("belongs to a branch", td.cond, true, function() return leaked end,
         function() return 0 end)
end

-- ---- the nodes --------------------------------------------------------------

-- How often a type is among ops, and the first of them.
local function count(type, list)
  local n, first = 0, nil
  for _, op in ipairs(list or td.get_default_graph():ops()) do
    if op.type == type then
      n, first = n + 1, first or op
    end
  end
  return n, first
end

-- TensorFlow's: a Switch for each branch and tensor, however often it is used,
-- and one for the pivots; the false side comes first.
function tests.nodes_of_cond()
  local x, p = td.placeholder("float32", {}), td.placeholder("bool", {})
  local inside
  local y = td.cond(p, function()
    inside = td.constant(1.0)
    return x * x + x
  end, function() return x * 0.5 end)
  lu.assertEquals(count "Switch", 3)
  lu.assertEquals(y.op.type, "Merge")
  local no, yes = table.unpack(y.op.inputs)
  lu.assertEquals(no.op.inputs[1].op.type, "Mul")
  lu.assertEquals(yes.op.inputs[1].op.type, "AddV2")
  local pivot = inside.op.control_inputs[1]
  lu.assertEquals(pivot.type, "Identity")
  lu.assertEquals(pivot.inputs[1].op.type, "Switch")
end

function tests.nodes_of_while_loop()
  local x, inside = td.placeholder("float32", {}), {}
  local _, y = td.while_loop(function(i)
    inside.cond = td.constant(4)
    return i:less(inside.cond)
  end, function(i, y)
    inside.body = td.constant(2.0)
    return i + 1, y * x + x * inside.body
  end, {0, x})
  for type, n in pairs{Enter = 3, Merge = 2, LoopCond = 1, Switch = 2,
                       NextIteration = 2, Exit = 2} do
    lu.assertEquals(count(type), n, type)
  end
  local constant = 0
  for _, op in ipairs(td.get_default_graph():ops()) do
    if op.type == "Enter" and op.attr.is_constant then
      constant = constant + 1
    end
  end
  lu.assertEquals(constant, 1) -- x, used twice
  lu.assertEquals(inside.cond.op.control_inputs[1].type, "Merge")
  local pivot = inside.body.op.control_inputs[1]
  lu.assertEquals(pivot.type, "Identity")
  lu.assertEquals(pivot.inputs[1].op.type, "Switch")
  lu.assertEquals(y.op.inputs[1].op.inputs[2].op.type, "LoopCond")
end

-- ---- while_loop -------------------------------------------------------------

function tests.while_counts()
  local i, s = td.while_loop(function(i) return i:less(10) end,
                             function(i, s) return i + 1, s + i end, {0, 0})
  lu.assertEquals(run{i, s}, {10, 45})
end

function tests.while_zero_times()
  local i = td.while_loop(function(i) return i:less(0) end,
                          function(i) return i + 1 end, {7})
  lu.assertEquals(run(i), 7)
end

function tests.while_captures()
  local x = td.placeholder("float32", {}, "x")
  local v = td.variable(2.0, "v")
  local _, y = td.while_loop(function(i) return i:less(x:cast "int32") end,
    function(i, y) return i + 1, y * v + x end, {0, 1.0})
  local s = td.session()
  s:init()
  lu.assertEquals(s:run(y, {x = 3}), 29.0)
end

-- Tail calls leave no lines behind: 400 deep there are thousands of the
-- library's functions above the user's, and each node looks for its line.
function tests.branches_within_branches_by_tail_calls()
  local x = td.placeholder("float32", {}, "x")
  local inner
  local function nest(n, v)
    if n > 0 then
      return td.cond(v:less(n), function() return nest(n - 1, v + 1) end,
                     function() return v - 1 end)
    end
    inner = v * 2
    return inner
  end
  local y = coroutine.wrap(function()
    local deep = nest(400, x)
    return deep
  end)()
  lu.assertStrMatches(inner.op.origin, ".*control%.lua:%d+")
  lu.assertStrMatches(y.op.origin, ".*control%.lua:%d+")
  local s <close> = td.session()
  lu.assertEquals(s:run(y, {[x] = 500}), 499)
  lu.assertEquals(s:run(y, {[x] = 300}), 349)
  lu.assertEquals(s:run(y, {[x] = -1000}), -1200)
end

function tests.while_nested()
  local i, total = td.while_loop(function(i) return i:less(4) end,
    function(i, total)
      local _, inner = td.while_loop(function(j) return j:less(i) end,
        function(j, t) return j + 1, t + i * 10 + j end, {0, 0})
      return i + 1, total + inner
    end, {0, 0})
  -- 10 + (20 + 21) + (30 + 31 + 32)
  lu.assertEquals(run{i, total}, {4, 144})
end

function tests.cond_in_while_in_cond()
  local p = td.placeholder("bool", {}, "p")
  local y = td.cond(p, function()
    local _, s = td.while_loop(function(i) return i:less(6) end,
      function(i, s)
        local add = td.cond((i % 2):equal(0), function() return i end,
                            function() return -i end)
        return i + 1, s + add
      end, {0, 0})
    return s
  end, function() return 100 end)
  lu.assertEquals({run(y, {p = true}), run(y, {p = false})}, {-3, 100})
end

function tests.while_updates_variables()
  local v = td.variable(0, "v")
  local i = td.while_loop(function(i) return i:less(5) end, function(i)
    return td.control_dependencies({v:assign_add(i)}, function()
      return i + 1
    end)
  end, {0}, {parallel_iterations = 1})
  local s = td.session()
  s:init()
  lu.assertEquals({s:run(i), s:run(v)}, {5, 10})
end

-- A loop of what is outside of both runs where the body around it runs, and
-- not once more when that is over.
function tests.while_of_constants_in_while()
  local v = td.variable(0, "v")
  local zero, two, one = td.constant(0), td.constant(2), td.constant(1)
  local function inner()
    return td.while_loop(function(j) return j:less(two) end, function(j)
      return td.control_dependencies({v:assign_add(one)}, function()
        return j + 1
      end)
    end, {zero})
  end
  local body = td.while_loop(function(i) return i:less(3) end, function(i)
    return td.control_dependencies({inner().op}, function() return i + 1 end)
  end, {0})
  local cond = td.while_loop(function(i) return (i + inner()):less(4) end,
                             function(i) return i + 1 end, {0})
  local s = td.session()
  s:init()
  lu.assertEquals({s:run(body), s:run(v)}, {3, 3 * 2})
  lu.assertEquals({s:run(cond), s:run(v)}, {2, 6 + 3 * 2})
end

function tests.while_waits_for_outer_ops()
  local v = td.variable(0, "v")
  local first = v:assign(41)
  local r = td.control_dependencies({first}, function()
    return td.while_loop(function(i) return i:less(1) end, function(i)
      return td.control_dependencies({first}, function()
        return i + 1 + v
      end)
    end, {0})
  end)
  local s = td.session()
  s:init()
  lu.assertEquals(s:run(r), 42)
end

function tests.maximum_iterations()
  local i = td.while_loop(function() return true end,
                          function(i) return i + 2 end, {0},
                          {maximum_iterations = 5})
  lu.assertEquals(run(i), 10)
  local n = td.placeholder("int32", {}, "n")
  local k = td.while_loop(function(k) return k:less(100) end,
                          function(k) return k + 1 end, {0},
                          {maximum_iterations = n})
  lu.assertEquals(run(k, {n = 3}), 3)
end

function tests.shape_invariants()
  local function grow(invariants)
    return td.while_loop(function(x) return x:dim(0):less(5) end, function(x)
      return td.concat({x, x["0:1"]}, 0)
    end, {td.ones{1}}, {shape_invariants = invariants})
  end
  local x = grow{{-1}}
  lu.assertTrue(x.shape == {-1})
  gives({1, 1, 1, 1, 1}, x)
  gives({1, 1, 1, 1, 1}, grow{false})
  raises("3 shape_invariants for 1", grow, {{}, {}, {}})
end

function tests.iterations_overlap_safely()
  for _, parallel in ipairs{1, 3, 32} do
    local _, y = td.while_loop(function(i) return i:less(50) end,
      function(i, y) return i + 1, y * 2 % 1000003 + i end, {0, 1},
      {parallel_iterations = parallel})
    local want = 1
    for i = 0, 49 do want = want * 2 % 1000003 + i end
    lu.assertEquals(run(y), want)
  end
end

function tests.constants_in_bodies()
  local i, y = td.while_loop(function(i) return i:less(td.constant(3)) end,
    function(i, y) return i + 1, y + td.ones{2} end, {0, td.zeros{2}})
  lu.assertEquals(run(i), 3)
  gives({3, 3}, y)
end

function tests.while_refused()
  local less = function(i) return i:less(3) end
  local same = function(...) return ... end
  raises("at least one loop variable", td.while_loop, less, same, {})
  raises("2 loop variables, but the body gives 1", td.while_loop, less,
         function(i) return i end, {0, 0})
  raises("loop variable 2 is float32, but the body gives int32 (made at",
         td.while_loop, less, function(i) return i + 1, i end, {0, 0.0})
  raises("loop variable 1 begins with shape {1}, but the body gives {2}",
         td.while_loop, function() return true end,
         function(x) return td.concat({x, x}, 0) end, {td.ones{1}})
  raises("gives nil for loop variable 1", td.while_loop, less,
         function() return nil end, {0})
  raises("the condition is int32, not bool", td.while_loop, same, same, {0})
  raises("the condition gives nil", td.while_loop, function() end, same, {0})
  raises("body must be a function", td.while_loop, less, 3, {0})
  raises("did you mean \"parallel_iterations\"", td.while_loop, less, same, {0},
         {paralel_iterations = 3})
  raises("parallel_iterations", td.while_loop, less, same, {0},
         {parallel_iterations = 0})
end

function tests.bodies_stay_inside()
  local leaked
  td.while_loop(function(i) return i:less(3) end, function(i)
    leaked = i + 1
    return leaked
  end, {0})
  raises("belongs to the loop", td.cond, true, function() return leaked end,
         function() return 0 end)
  raises("so give it as one more", function() return leaked * 2 end)
end

function tests.scopes_after_an_error()
  pcall(td.while_loop, function(i) return i:less(3) end,
        function() error "x" end, {0})
  lu.assertEquals(td.no_op("n").name, "n")
  lu.assertEquals(td.no_op("m").flow, 0)
end

function tests.structures_that_hold_themselves()
  local x = {td.constant{1, 2}}
  x[2] = x
  raises("does a table hold itself", td.map_fn, td.identity, x)
  local named = {}
  named.a = named
  raises("does a table hold itself", td.scan, td.add, named)
end

return tests
