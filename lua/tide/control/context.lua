--- control/context.lua - places in control flow: branches of cond, bodies
-- of while_loop.
--
-- Each node knows the place it was built in (`op.flow`, a number; 0 is outside
-- of all). A tensor of an outer place used in an inner one passes through a
-- Switch or an Enter, made once per place: `capture` below, which the binding
-- calls whenever an input comes from another place.
--
-- A place may mirror another: gradients of what was built in a branch or loop
-- are built in a branch or loop of their own, and a tensor of the first that
-- is used in the second is recalled (autodiff/saved.lua).
-- Source: Yu et al., "Dynamic control flow in large-scale machine learning",
-- 2018, section 4; TensorFlow's control_flow_ops.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local graph = require "tide.graph.graph"

local context = {}

--- The record of the current place, nil outside of all.
function context.current()
  local scope = core.scope()
  return graph.state(scope.graph).flows[scope.flow], scope
end

--- The record of the place where op was built, nil outside of all.
function context.of(op)
  return graph.state(op.graph).flows[op.flow]
end

--- Opens a new place inside the current one.
-- @param kind "c" for a branch, "w" for a loop
-- @param name for messages
-- @param bring function(edge) -> edge: brings a tensor of the parent inside
-- @return a record: `pivot`, set by who opens it, is the op that runs before
-- all that has no input; `construct`, set when it is complete, the cond or loop
-- that it is a part of; `brought` lists {outer =, inside =}, `outer_of` gives
-- the first by the second; `links` lists {stack =, edge =}: what gradients
-- saved inside, and the stack outside that stands for it
function context.new(kind, name, bring)
  local parent, scope = context.current()
  local g = scope.graph
  local index = g:flow(scope.flow, kind, name)
  local place = {index = index, parent = parent, kind = kind, name = name,
                 bring = bring, seen = {}, brought = {}, outer_of = {},
                 links = {}, graph = g}
  graph.state(g).flows[index] = place
  function place.capture(edge) return context.capture(place, edge) end
  return place
end

local function index_of(place) return place and place.index or 0 end

local function refuse(edge, target)
  local inner = context.of(edge.op)
  local from = inner.kind == "w" and "the loop" or "a branch"
  core.error("invalid_argument", ("\"%s\" (made at %s) belongs to %s \"%s\" "
    .. "and cannot be used in \"%s\": only results of %s leave it, so give it "
    .. "as one more"):format(edge.name, edge.origin, from, inner.name,
    target.name, inner.kind == "w" and "while_loop" or "cond"))
end

-- Makes the Switch or Enter, once for each tensor of the parent.
local function bring_inside(place, outer)
  if place.seen[outer] then return place.seen[outer] end
  local _ <close> = core.push(context.frame(place))
  local inside = place.bring(outer)
  table.insert(place.brought, {outer = outer, inside = inside})
  place.outer_of[inside] = outer
  place.seen[outer] = inside
  return inside
end

-- Does `place` mirror the one numbered `at`? The branch of a second gradient
-- mirrors two.
local function mirrors(place, at)
  local m = place.mirror
  while m and m.index ~= at do m = place.kind == "c" and m.mirror end
  return m
end

-- The nearest place around `place` that has the edge already, as it has it, and
-- the places further inside, the innermost first.
local function nearest(place, edge, target)
  local at, missing = edge.op.flow, {}
  while at ~= index_of(place) do
    if not place then refuse(edge, target) end
    if not place.seen[edge] and mirrors(place, at) then
      place.seen[edge] = place.recall(edge)
    end
    if place.seen[edge] then return place.seen[edge], missing end
    missing[#missing + 1] = place
    place = place.parent
  end
  return edge, missing
end

-- From the outermost place inwards, so that each has its own Switch or Enter.
-- A tensor of a place that does not hold `target` is found nowhere. A loop, not
-- a recursion: each node looks up the stack for the line that made it.
local function bring(place, edge, target)
  local inside, missing = nearest(place, edge, target)
  for i = #missing, 1, -1 do
    inside = bring_inside(missing[i], inside)
    missing[i].seen[edge] = inside
  end
  return inside
end

--- `edge` as a tensor of `place`; nil is the graph outside of all.
function context.capture(place, edge)
  return bring(place, edge, place or {name = "the graph"})
end

--- What core.push takes to build in `place`; `pivot` is run before everything
-- that has no input.
function context.scope(place, pivot)
  return {flow = place.index, capture = place.capture, pivot = pivot,
          clear_controls = true}
end

--- What core.push takes to build the Switch, Merge, Enter and Exit nodes of a
-- place; nothing is captured on the way in or out.
function context.frame(place)
  return {flow = index_of(place), capture = false, pivot = false,
          clear_controls = true}
end

--- What core.push takes to build in a place, or outside of all with nil, when
-- one is elsewhere: nothing that the current scope says of devices applies.
function context.scope_of(place)
  local s = place and context.scope(place, place.pivot) or context.frame(nil)
  s.device, s.device_fn, s.colocate = false, false, false
  return s
end

--- Does `place`, or one around it, hold what was built at op?
function context.holds(place, op)
  while place and place.index ~= op.flow do place = place.parent end
  return index_of(place) == op.flow
end

--- Is `place`, or one around it, `around`?
function context.lies_in(place, around)
  while place and place ~= around do place = place.parent end
  return place ~= nil
end

--- The branch here that goes through what was built at op once more: it belongs
-- to a second gradient, and goes on in the branch that its own one mirrors. Nil
-- when there is none.
function context.again(op)
  local place, made_in = context.current(), context.of(op)
  while place do
    local m = place.kind == "c" and place.mirror and place.mirror.mirror
    while m do
      if context.lies_in(made_in, m) then return place end
      m = m.mirror
    end
    place = place.parent
  end
end

--- f(edge), built where the gradient of edge is built: here if edge can be
-- brought here, else in the place that this one mirrors. What f gives is then
-- recalled instead of edge: for what needs less of edge than its contents.
function context.at(edge, f)
  local here = context.current()
  if core.kind(edge) ~= "edge" or context.holds(here, edge.op) then
    return f(edge)
  end
  local place = context.of(edge.op)
  local _ <close> = core.push(context.scope(place, place.pivot))
  return f(edge)
end

--- The construct (record of a cond or while_loop) that op is a result of, or
-- nil.
function context.construct(op)
  return graph.state(op.graph).constructs[op]
end

--- Declares `ops` the results of a construct.
function context.declare(construct, ops)
  for _, op in ipairs(ops) do
    graph.state(op.graph).constructs[op] = construct
  end
end

-- Is there a loop between the current place and op's?
local function loop_between(place, op)
  while place and place.index ~= op.flow do
    if place.kind == "w" then return true end
    place = place.parent
  end
  return false
end

--- An op to wait for in the current place. A control edge cannot lead into a
-- loop: there a tensor that waits for op is brought in.
function context.control(op)
  local place = context.current()
  if not place or op.flow == place.index or not loop_between(place, op) then
    return op
  end
  local wait
  do
    local _ <close> = core.push{flow = op.flow, capture = false, pivot = false,
                                clear_controls = true, controls = {op}}
    wait = core.add("Const", {}, {value = core.tensor(0), dtype = "int32"},
                    "wait")
  end
  return context.capture(place, wait).op
end

return context
