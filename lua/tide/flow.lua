--- flow.lua - places in control flow: branches of cond, bodies of while_loop.
--
-- Each node knows the place it was built in (`op.flow`, a number; 0 is outside
-- of all). A tensor of an outer place used in an inner one passes through a
-- Switch or an Enter, made once per place: `capture` below, which the binding
-- calls whenever an input comes from another place.
-- Source: facts of TensorFlow's control_flow_ops; Yu et al. 2018, section 4.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local graph = require "tide.graph"

local flow = {}

--- The record of the current place, nil outside of all.
function flow.current()
  local scope = core.scope()
  return graph.state(scope.graph).flows[scope.flow], scope
end

--- The record of the place where op was built, nil outside of all.
function flow.of(op)
  return graph.state(op.graph).flows[op.flow]
end

--- Opens a new place inside the current one.
-- @param kind "c" for a branch, "w" for a loop
-- @param name for messages
-- @param bring function(edge) -> edge: brings a tensor of the parent inside
function flow.new(kind, name, bring)
  local parent, scope = flow.current()
  local g = scope.graph
  local index = g:flow(scope.flow, kind, name)
  local place = {index = index, parent = parent, kind = kind, name = name,
                 bring = bring, seen = {}, graph = g}
  graph.state(g).flows[index] = place
  function place.capture(edge) return flow.capture(place, edge) end
  return place
end

local function index_of(place) return place and place.index or 0 end

local function refuse(edge, target)
  local inner = flow.of(edge.op)
  local from = inner.kind == "w" and "the loop" or "a branch"
  core.error("invalid_argument", ("\"%s\" belongs to %s \"%s\" and cannot be "
    .. "used in \"%s\": only results of %s leave it"):format(edge.name, from,
    inner.name, target.name, inner.kind == "w" and "while_loop" or "cond"))
end

-- From the outermost place inwards, so that each has its own Switch or Enter.
-- A tensor of a place that does not hold `target` is found nowhere.
local function bring(place, edge, target)
  if edge.op.flow == index_of(place) then return edge end
  if not place then refuse(edge, target) end
  local inside = place.seen[edge]
  if inside then return inside end
  local outer = bring(place.parent, edge, target)
  local _ <close> = core.push{flow = place.index, capture = false,
                              pivot = false, clear_controls = true}
  inside = place.bring(outer)
  place.seen[edge] = inside
  return inside
end

--- `edge` as a tensor of `place`; nil is the graph outside of all.
function flow.capture(place, edge)
  return bring(place, edge, place or {name = "the graph"})
end

--- What core.push takes to build in `place`; `pivot` is run before everything
-- that has no input.
function flow.scope(place, pivot)
  return {flow = place.index, capture = place.capture, pivot = pivot,
          clear_controls = true}
end

--- What core.push takes to build the Switch, Merge, Enter and Exit nodes of a
-- place; nothing is captured on the way in or out.
function flow.frame(place)
  return {flow = index_of(place), capture = false, pivot = false,
          clear_controls = true}
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
function flow.control(op)
  local place = flow.current()
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
  return flow.capture(place, wait).op
end

return flow
