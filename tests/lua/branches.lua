-- branches.lua - If, Case and While made by name: what they give, and what is
-- said of functions that do not fit them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"

local If, Case, While = core.op "If", core.op "Case", core.op "While"
local tests = {}

local function func(name, dtypes, f)
  return td.func(f, dtypes, {name = name})
end

-- Each is in a graph once it was called there.
local function known()
  func("double", "float32", function(x) return x + x end)(1.0)
  func("sum", {"float32", "float32"}, function(x, y) return x + y end)(1.0, 1.0)
  func("twice", "float32", function(x) return x, x end)(1.0)
  func("whole", "float32", function(x) return x:cast "int32" end)(1.0)
  func("ints", "int32", function(x) return x + x end)(1)
  func("wide", "float32", function(x) return td.stack{x, x} end)(1.0)
  func("small", "float32", function(x) return x:less(8) end)(1.0)
  func("left", "float32", function(x) return 8 - x end)(1.0)
end

-- What f(x) builds gives; x is fed, so that nothing is known of its shape.
local function give(f, value)
  local g = td.graph()
  return g:as_default(function()
    known()
    local x = td.placeholder "float32"
    local y = f(x)
    if core.kind(y) ~= "edge" then y = y[1] end
    local s <close> = td.session{graph = g}
    return td.tensor(s:run(y, {[x] = value}, {timeout = 20})):table()
  end)
end

local function choose(test, yes, no, o)
  return function(x)
    local options = {Tout = {"float32"}, then_branch = yes, else_branch = no}
    for k, v in pairs(o or {}) do options[k] = v end
    return If(test, {x}, options)
  end
end

local function case(index, branches)
  return function(x)
    return Case(index, {x}, {Tout = {"float32"}, branches = branches})
  end
end

local function loop(cond, body, o)
  return function(x)
    local options = {cond = cond, body = body}
    for k, v in pairs(o or {}) do options[k] = v end
    return While({x}, options)
  end
end

-- ---- what they give --------------------------------------------------------

-- A condition is whatever may be true: a number, a string, a tensor with
-- elements in it.
function tests.test_if()
  for _, test in ipairs{true, 1, -0.5, "x", {false}, {0, 0}} do
    lu.assertEquals(give(choose(test, "double", "left"), 3), 6)
  end
  for _, test in ipairs{false, 0, 0.0, "", td.value.zeros{0},
                   td.value.zeros{2, 0}} do
    lu.assertEquals(give(choose(test, "double", "left"), 3), 5)
  end
end

-- An index that is none is the last one.
function tests.test_case()
  local names = {"double", "left", "double"}
  for index, want in pairs{[0] = 6, [1] = 5, [2] = 6, [3] = 6, [-1] = 6} do
    lu.assertEquals(give(case(index, names), 3), want)
  end
  lu.assertEquals(give(case(-9, {"left"}), 3), 5)
end

function tests.test_while()
  lu.assertEquals(give(loop("small", "double"), 3), 12)
  lu.assertEquals(give(loop("small", "double"), 9), 9)
  lu.assertEquals(give(loop("left", "double"), 1), 8) -- until 8 - x is 0
  local shapes = {output_shapes = {{}}, parallel_iterations = 1}
  lu.assertEquals(give(loop("small", "double", shapes), 3), 12)
end

-- A value that changes shape, in a loop that says nothing of shapes.
function tests.test_a_loop_that_grows()
  local function flat(x)
    return core.op "StatefulPartitionedCall"({x}, {f = "wide",
      Tout = {"float32"}})[1]
  end
  local y = give(function(x)
    func("short", "float32", function(v) return td.size(v):less(8) end)(1.0)
    return While({flat(x)}, {cond = "short", body = "wide"})
  end, 3)
  lu.assertEquals(y, {{{3, 3}, {3, 3}}, {{3, 3}, {3, 3}}})
end

-- ---- what is said ----------------------------------------------------------

local refused = {
  then_unknown = {choose(true, "nope", "double"), "not_found",
    'no function "nope"'},
  else_unknown = {choose(true, "double", "nope"), "not_found",
    'no function "nope"'},
  arguments = {choose(true, "sum", "double"), "invalid_argument",
    'function "sum" takes other than the 1 tensors'},
  argument_dtype = {choose(true, "ints", "double"), "invalid_argument",
    'argument "arg" is int32, not float32'},
  results = {choose(true, "twice", "double"), "invalid_argument",
    'function "twice" gives more tensors than the call, 1'},
  result_dtype = {choose(true, "whole", "double"), "invalid_argument",
    "is int32, the call says float32"},
  not_taken = {choose(true, "double", "whole"), "invalid_argument",
    "is int32, the call says float32"},
  said = {choose(true, "wide", "double", {output_shapes = {{3}}}),
    "invalid_argument", "must be of shape {3}, not {2}"},
  said_twice = {choose(true, "double", "double",
    {output_shapes = {{}, {}}}), "invalid_argument",
    "a shape for each of the 1 results, or empty, has 2"},
  no_branches = {case(0, {}), "invalid_argument", "a list of at least 1"},
  index_of_a_vector = {case({0, 1}, {"double", "left"}), "invalid_argument",
    "branch_index must be of rank 0, not {2}"},
  case_unknown = {case(0, {"double", "nope"}), "not_found", "nope"},
  cond_unknown = {loop("nope", "double"), "not_found", "nope"},
  cond_of_two = {loop("twice", "double"), "invalid_argument", "twice"},
  cond_arguments = {loop("sum", "double"), "invalid_argument",
    'function "sum" takes other than the 1 tensors'},
  body_dtype = {loop("small", "whole"), "invalid_argument",
    "is int32, the call says float32"},
  body_of_two = {loop("small", "twice"), "invalid_argument", "twice"},
  body_shape = {loop("small", "wide", {output_shapes = {{}}}),
    "invalid_argument", "a function gives a tensor of shape"},
  no_body = {loop("small"), "invalid_argument", "body"},
  parallel = {loop("small", "double", {parallel_iterations = 0}),
    "invalid_argument", "parallel_iterations"},
}
for name, row in pairs(refused) do
  tests["test_refused_" .. name] = function()
    local ok, e = pcall(give, row[1], 3)
    lu.assertFalse(ok)
    lu.assertEquals(e.code, row[2], tostring(e))
    lu.assertStrContains(e.message, row[3])
    lu.assertNotNil(tostring(e):match "branches.lua:%d+", tostring(e))
  end
end

-- A function that calls itself in a branch would never end.
function tests.test_a_function_in_itself()
  local g = td.graph()
  local ok, e = pcall(g.as_default, g, function()
    local again
    again = td.func(function(x)
      return choose(x:less(8), "again", "double")(x)[1]
    end, "float32", {name = "again"})
    known()
    return td.session{graph = g}:run(again(1.0))
  end)
  lu.assertFalse(ok)
  lu.assertStrContains(e.message, 'function "again" calls itself')
end

return tests
