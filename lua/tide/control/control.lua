--- control/control.lua - cond and while_loop, built of Switch, Merge and
-- their kin.
--
-- Branches and bodies are Lua functions that build nodes once; values from
-- outside are captured (context.lua). Construction: Yu et al., "Dynamic control
-- flow in large-scale machine learning", 2018, section 4.2.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local context = require "tide.control.context"
local loop = require "tide.control.loop_nodes"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local tensor_array = require "tide.control.tensor_array"
local ops = require("tide.ops").ops

local control = {}

local fail = errors.invalid

-- x as a tensor of the current place.
local function edge_here(x, dtype)
  return context.capture(context.current(), core.edge(x, dtype))
end

-- A tensor array goes by its flow; `same` is the array it must be, if any.
local function flow_of(x, same, what)
  if not tensor_array.is(x) then return x end
  if not same or same.handle ~= x.handle then
    fail("%s is tensor array \"%s\", which is not the one expected there: "
      .. "make it outside, and give what its :write gave", what,
      x.handle.op.name)
  end
  return x.flow
end

-- A flow as the tensor array it belongs to, if any.
local function array_of(edge, array)
  return array and tensor_array.behind(array, edge) or edge
end

-- What decides, as a tensor of the current place: true or false, not a number.
local function decision(what, x)
  local edge = edge_here(x, type(x) == "boolean" and "bool" or nil)
  if edge.dtype ~= "bool" then
    fail("%s is %s, not bool; compare it: x:not_equal(0)", what, edge.dtype)
  end
  return edge
end

-- ---- cond -----------------------------------------------------------------

-- Builds one branch; port 1 of Switch is the false side, 2 the true one.
local function build_branch(name, port, pred, switched, f)
  local function bring(outer)
    return (select(port, core.add("Switch", {outer, pred})))
  end
  local place = context.new("c", name, bring)
  local pivot
  do
    local _ <close> = core.push(context.frame(place))
    pivot = core.add("Identity", {switched}, nil, "pivot")
  end
  place.pivot = pivot.op
  local _ <close> = core.push(context.scope(place, pivot.op))
  return {place = place, pivot = pivot, results = table.pack(f()), edges = {}}
end

-- Does a branch only act? Then there are no tensors among its results.
local function acts_only(branch)
  local ops_only = true
  for i = 1, branch.results.n do
    local x = branch.results[i]
    if x ~= nil and core.kind(x) ~= "op" then ops_only = false end
  end
  return ops_only
end

-- The branch's pivot, after what it does.
local function close_actions(branch)
  local _ <close> = core.push(context.scope(branch.place, branch.pivot.op))
  local waits = {}
  for i = 1, branch.results.n do waits[#waits + 1] = branch.results[i] end
  return scope.control_dependencies(waits, function()
    return core.add("Identity", {branch.pivot}, nil, "done")
  end)
end

-- Result i of a branch as a tensor inside it.
local function close_result(branch, i, dtype, array)
  local x = flow_of(branch.results[i], array, "cond: result " .. i)
  if x == nil or core.kind(x) == "op" then
    fail("cond: result %d of branch \"%s\" is %s, not a tensor", i,
         branch.place.name, x == nil and "nil" or "an op")
  end
  local _ <close> = core.push(context.scope(branch.place, branch.pivot.op))
  return core.add("Identity", {edge_here(x, not args.is_tensor(x) and dtype
                                         or nil)})
end

-- Both sides of result i; literals take the dtype of the other side.
local function close_results(no, yes, i)
  local a, b = no.results[i], yes.results[i]
  local array = tensor_array.is(b) and b
  local dtype = args.dtype(a) or args.dtype(b)
  local f = close_result(no, i, dtype, array)
  local t = close_result(yes, i, dtype, array)
  if f.dtype ~= t.dtype then
    fail("cond: result %d is %s in the true branch and %s in the false one; "
      .. "use td.cast", i, t.dtype, f.dtype)
  end
  return f, t
end

-- Result i of both branches, wherever it comes from.
local function merge(no, yes, f, t)
  local _ <close> = core.push(context.frame(no.place.parent))
  table.insert(no.edges, f)
  table.insert(yes.edges, t)
  return (core.add("Merge", {{f, t}}))
end

local function merge_branches(no, yes)
  if acts_only(no) and acts_only(yes) then
    return {}, merge(no, yes, close_actions(no), close_actions(yes)).op
  end
  if no.results.n ~= yes.results.n then
    fail("cond: the true branch gives %d results, the false one %d",
         yes.results.n, no.results.n)
  end
  local merged = {}
  for i = 1, no.results.n do
    merged[i] = merge(no, yes, close_results(no, yes, i))
  end
  return merged
end

-- What gradients need to know of a cond.
local function declare(name, pred, no, yes, merged)
  local made = {}
  for i, y in ipairs(merged) do made[i] = y.op end
  if #made == 0 then return end
  local c = {kind = "cond", name = name, id = made[1].serial, pred = pred,
             no = no, yes = yes, outputs = {table.unpack(merged)}}
  no.place.construct, yes.place.construct = c, c
  context.declare(c, made)
end

--- The results of true_fn() where the boolean scalar `pred` is true, else of
-- false_fn(). Only what the chosen branch needs is computed; what is made
-- outside of both is computed in any case. Branches without results act only;
-- cond then gives an op.
-- @usage local x = td.constant(-2.0)
-- td.cond(x:less(0), function() return -x end, function() return x end)  --> 2
function control.cond(pred, true_fn, false_fn, o)
  args.expect(true_fn, "function", "cond: the true branch")
  args.expect(false_fn, "function", "cond: the false branch")
  o = args.read(o, {"name"}, "cond")
  return scope.name_scope(o.name or "cond", function()
    local name = core.scope().prefix
    local p = core.add("Identity", {decision("cond: pred", pred)}, nil, "pred")
    local off, on = core.add("Switch", {p, p})
    local yes = build_branch(name .. "true", 2, p, on, true_fn)
    local no = build_branch(name .. "false", 1, p, off, false_fn)
    local merged, op = merge_branches(no, yes)
    if op then return op end
    declare(name:sub(1, -2), p, no, yes, merged)
    for i, y in ipairs(merged) do
      local x = yes.results[i]
      merged[i] = array_of(y, tensor_array.is(x) and x)
    end
    return table.unpack(merged)
  end)
end

-- ---- case -----------------------------------------------------------------

-- The conditions and functions of a list of pairs; a condition is a tensor.
local function read_pairs(list)
  local preds, functions = {}, {}
  for i, pair in ipairs(list) do
    local what = "case: pair " .. i
    args.expect(pair, "table", what)
    args.expect(pair[2], "function", what .. ": its second part")
    preds[i] = decision(what .. ": its condition", pair[1])
    functions[i] = pair[2]
  end
  return preds, functions
end

-- Ops that stop the step when too many or none of the conditions are true.
local function case_checks(preds, exclusive, default)
  local all, checks = ops.stack(preds), {}
  if exclusive then
    checks[1] = ops.assert(all:cast "int32":sum():less(2),
      {"case: more than one condition is true, and they are exclusive", all})
  end
  if not default then
    table.insert(checks, ops.assert(all:any(),
      {"case: no condition is true, and there is no default", all}))
  end
  return checks
end

-- The first function whose condition is true; the last one needs none.
local function choose(preds, functions, i)
  if i == #functions then return functions[i]() end
  return control.cond(preds[i], functions[i], function()
    return choose(preds, functions, i + 1)
  end)
end

-- Tensors that wait for the ops of the current scope, like those given.
local function made_here(...)
  local list = table.pack(...)
  for i = 1, list.n do
    if args.is_tensor(list[i]) or not core.kind(list[i]) then
      list[i] = ops.identity(core.edge(list[i]))
    end
  end
  return table.unpack(list, 1, list.n)
end

--- The results of the first function whose boolean scalar is true:
-- td.case{{p1, f1}, {p2, f2}, default = f}. Without a default one of them must
-- be true, or the step fails; with exclusive = true not more than one.
-- @usage local x = td.constant(5)
-- td.case{{x:less(0), function() return -1 end},
--   default = function() return 1 end}  --> 1
function control.case(list, o)
  local pairs_of, named = args.split(list)
  args.check(named, {"default", "exclusive", "name"}, "case")
  o = args.read(o, {"exclusive", "name"}, "case")
  local default, exclusive = named.default, o.exclusive or named.exclusive
  if default ~= nil then args.expect(default, "function", "case: default") end
  if #pairs_of == 0 then fail("case needs at least one {condition, f}") end
  return scope.name_scope(o.name or named.name or "case", function()
    local preds, functions = read_pairs(pairs_of)
    functions[#functions + 1] = default
    local checks = case_checks(preds, exclusive, default)
    if #checks == 0 then return choose(preds, functions, 1) end
    return scope.control_dependencies(checks, function()
      for i, p in ipairs(preds) do preds[i] = ops.identity(p) end
      if #functions > 1 then return choose(preds, functions, 1) end
      return made_here(functions[1]())
    end)
  end)
end

-- ---- while_loop -----------------------------------------------------------

local loop_options = {"parallel_iterations", "shape_invariants",
                      "maximum_iterations", "swap_memory", "back_prop", "name"}

-- Adds a counter in front, which stops the loop too.
local function with_counter(cond, body, vars, most)
  local limit = args.is_tensor(most) and most or core.tensor(most, "int32")
  local zero = core.tensor(0, limit.dtype)
  local function counted_cond(i, ...)
    return ops.logical_and(ops.less(i, limit), cond(...))
  end
  local function counted_body(i, ...)
    return i + 1, body(...)
  end
  return counted_cond, counted_body, {zero, table.unpack(vars)}
end

-- The condition, a boolean scalar made of the variables.
local function build_cond(l, cond)
  local merges = {}
  for i, var in ipairs(l.vars) do
    merges[i] = array_of(var.merge, l.arrays[i])
  end
  local _ <close> = core.push(context.scope(l.place, l.vars[1].merge.op))
  local pred = cond(table.unpack(merges))
  if pred == nil then fail("while_loop: the condition gives nil") end
  return decision("while_loop: the condition", pred)
end

local function check_result(l, i, x, var)
  local which = "loop variable " .. i - l.hidden
  x = flow_of(x, l.arrays[i], "while_loop: what the body gives for " .. which)
  if x == nil or core.kind(x) == "op" then
    fail("while_loop: the body gives %s for %s, not a tensor",
         x == nil and "nil" or "an op", which)
  end
  local edge = edge_here(x, not args.is_tensor(x) and var.merge.dtype or nil)
  if edge.dtype ~= var.merge.dtype then
    fail("while_loop: %s is %s, but the body gives %s (made at %s); use "
      .. "td.cast", which, var.merge.dtype, edge.dtype, edge.origin)
  end
  if not shapes.allows(var.merge.shape, edge.shape) then
    fail("while_loop: %s begins with shape %s, but the body gives %s (made at "
      .. "%s); allow both with shape_invariants", which,
      shapes.text(var.merge.shape), shapes.text(edge.shape), edge.origin)
  end
  return edge
end

local function build_body(l, body)
  local inside = {}
  for i, var in ipairs(l.vars) do
    inside[i] = array_of(loop.split(l, var), l.arrays[i])
  end
  local _ <close> = core.push(context.scope(l.place, l.place.pivot))
  local results = table.pack(body(table.unpack(inside)))
  if results.n ~= #l.vars then
    fail("while_loop: there are %d loop variables, but the body gives %d "
      .. "results", #l.vars - l.hidden, results.n - l.hidden)
  end
  for i, var in ipairs(l.vars) do
    loop.close(l, var, check_result(l, i, results[i], var))
  end
end

local function enter(l, i, x, invariant)
  l.arrays[i] = tensor_array.is(x) and x
  local edge = edge_here(flow_of(x, x))
  if invariant and not shapes.allows(invariant, edge.shape) then
    fail("while_loop: loop variable %d begins with shape %s, which its "
      .. "invariant %s does not allow", i - l.hidden, shapes.text(edge.shape),
      shapes.text(invariant))
  end
  loop.enter(l, edge, invariant)
end

local function build_loop(l, cond, body, vars, invariants)
  l.arrays = {}
  for i, x in ipairs(vars) do enter(l, i, x, invariants[i]) end
  loop.go_on(l, build_cond(l, cond))
  build_body(l, body)
  local exits = {}
  for i = l.hidden + 1, #vars do
    exits[i - l.hidden] = array_of(loop.exit(l, l.vars[i]), l.arrays[i])
  end
  return table.unpack(exits)
end

local function read_invariants(o, n, hidden)
  local list = {}
  local given = o.shape_invariants
  if given == nil then return list end
  args.check_list(given, "shape_invariants")
  if #given ~= n then
    fail("while_loop: %d shape_invariants for %d loop variables", #given, n)
  end
  for i = 1, n do list[i + hidden] = given[i] end
  return list
end

--- Repeats `body` while `cond` is true; both are given the loop variables.
-- @param cond function(vars...) -> boolean scalar
-- @param body function(vars...) -> as many tensors, of the same dtypes
-- @param vars list of initial values; a tensor array is one
-- @param[opt] o parallel_iterations (10) that may be in flight at once;
-- shape_invariants, a list of the shapes the variables keep (false: any);
-- maximum_iterations; what matters to gradients only: back_prop; swap_memory,
-- with which what they need of each iteration goes to the host's memory when
-- that of a device fills up
-- @return the variables after the last iteration, one by one
-- @usage td.while_loop(function(i) return i:less(10) end,
--   function(i) return i * 2 end, {1})  --> 16
function control.while_loop(cond, body, vars, o)
  args.expect(cond, "function", "while_loop: the condition")
  args.expect(body, "function", "while_loop: the body")
  args.check_list(vars, "while_loop: the loop variables")
  if #vars == 0 then fail("while_loop needs at least one loop variable") end
  o = args.read(o, loop_options, "while_loop")
  local n, hidden = #vars, o.maximum_iterations and 1 or 0
  return scope.name_scope(o.name or "while", function()
    if hidden == 1 then
      cond, body, vars = with_counter(cond, body, vars, o.maximum_iterations)
    end
    local l = loop.new(core.scope().prefix:sub(1, -2), {
      parallel = o.parallel_iterations or 10, swap = o.swap_memory,
      backward = o.back_prop ~= false})
    l.hidden = hidden
    return build_loop(l, cond, body, vars, read_invariants(o, n, hidden))
  end)
end

return control
