--- control/loop_nodes.lua - the nodes that make a loop.
--
--   Enter -> Merge -> ... -> LoopCond
--              |                |
--              +--> Switch <----+
--                    |   |
--                  Exit  Identity -> body -> NextIteration -> the Merge
--
-- A loop is a record of its variables; each variable is a record of its nodes.
-- while_loop and the loops of gradients are built of them, and gradients look
-- at them: further variables can join a loop as long as it has not closed.
-- Source: Yu et al., "Dynamic control flow in large-scale machine learning",
-- 2018, section 4.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"
local graph = require "tide.graph.graph"

local loop = {}

--- A loop in the current place, without variables yet.
-- @param name for messages and for the frame
-- @param o parallel; swap and backward matter to gradients
-- @return {place =, vars = {}, of = {edge -> variable}, outputs = {}, ...}
function loop.new(name, o)
  local g = core.scope().graph
  local l = {kind = "while_loop", name = name,
             frame = g:unique(name .. "/frame"), parallel = o.parallel,
             swap = o.swap, backward = o.backward, vars = {}, of = {},
             outputs = {}}
  local function bring(outer)
    return core.add("Enter", {outer}, {frame_name = l.frame,
      is_constant = true, parallel_iterations = l.parallel})
  end
  l.parent = context.current()
  l.place = context.new("w", name, bring)
  l.place.construct = l
  return l
end

--- A loop variable: its Enter, and its Merge with the back edge still open.
-- @param initial a tensor of the place that the loop is in, or one around it
-- @param[opt] invariant the shape that it keeps; false: any
function loop.enter(l, initial, invariant)
  initial = context.capture(l.parent, initial)
  local enter
  do -- of a constant of the loop around it, it waits for that loop's body
    local _ <close> = core.push{flow = l.place.index, capture = false}
    enter = core.add("Enter", {initial}, {frame_name = l.frame,
      parallel_iterations = l.parallel, _invariant = invariant})
  end
  local _ <close> = core.push(context.frame(l.place))
  local var = {initial = initial, enter = enter,
               merge = core.add("Merge", {{enter, false}}, {T = enter.dtype})}
  table.insert(l.vars, var)
  l.of[var.merge] = var
  graph.state(enter.graph).loop_variables[var.merge] = true
  return var
end

--- The loop goes on while `pred`, a tensor inside it, is true.
function loop.go_on(l, pred)
  local _ <close> = core.push(context.frame(l.place))
  l.going = core.add("LoopCond", {pred})
end

--- Where the variable goes: `off` out of the loop, `inside` into the body.
function loop.split(l, var)
  local _ <close> = core.push(context.frame(l.place))
  local on
  var.off, on = core.add("Switch", {var.merge, l.going})
  var.inside = core.add("Identity", {on})
  l.of[on], l.of[var.inside] = var, var
  l.place.pivot = l.place.pivot or var.inside.op
  return var.inside
end

--- Its value for the next iteration.
function loop.close(l, var, result)
  local _ <close> = core.push(context.frame(l.place))
  var.result = result
  var.next = core.add("NextIteration", {result})
  core.set_back_edge(var.merge.op, 1, var.next)
end

--- Its last value, a tensor of the place that the loop is in.
function loop.exit(l, var)
  local _ <close> = core.push(context.frame(l.parent))
  var.exit = core.add("Exit", {var.off})
  table.insert(l.outputs, var.exit)
  context.declare(l, {var.exit.op})
  l.id = l.id or var.exit.op.serial
  return var.exit
end

-- ---- counting -------------------------------------------------------------

--- The variable that counts the iterations of a loop from 0, added when it is
-- first asked for; its `exit` is their number.
function loop.counter(l)
  if l.counter then return l.counter end
  local _ <close> = core.push(context.scope_of(l.parent))
  local zero = core.add("Const", {}, {value = core.tensor(0), dtype = "int32"})
  l.counter = loop.enter(l, zero)
  local inside = loop.split(l, l.counter)
  do
    local _ <close> = core.push(context.scope_of(l.place))
    loop.close(l, l.counter, inside + 1)
  end
  loop.exit(l, l.counter)
  return l.counter
end

--- `op`, built in the loop or a branch inside, runs before the next iteration
-- counts. A branch may not be taken: what waits for it must not die with it.
function loop.before_next(l, op)
  local next = l.counter.next.op
  if op.flow == l.place.index then return core.add_control(next, op) end
  if not l.sync then
    local _ <close> = core.push(context.frame(l.place))
    l.sync = core.add("ControlTrigger", {})
    core.add_control(next, l.sync)
  end
  core.add_control(l.sync, op)
end

return loop
