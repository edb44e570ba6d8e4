--- autodiff/saved.lua - what gradients need of the iterations that were.
--
-- The gradient of a loop is a loop that counts back. What the rules ask of an
-- iteration was pushed on a stack by the loop itself, one stack a tensor, and
-- is popped in the opposite order. The pushes of an iteration come before its
-- counter counts on, and so do the pops: the counters keep both in order, and
-- the number of iterations leaves the loop when all is pushed. Constants, what
-- is the same in every iteration, and a variable that counts by one are not
-- pushed. The stack of an inner loop lasts over all runs of that loop: the
-- runs of the inner loop follow each other, forward and back.
-- Source: Yu et al. 2018, section 5.1.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"
local loop = require "tide.control.loop_nodes"
local slices = require "tide.tensor.indexed_slices"

local saved = {}

-- ---- stacks ---------------------------------------------------------------

-- The gradient loop around a place, nil when there is none.
local function loop_around(place)
  while place and not place.back do place = place.parent end
  return place and place.back
end
saved.loop_around = loop_around

--- The gradient loop for which a branch of a gradient saves what is inside the
-- branch it mirrors; nil when that is alive whenever the gradient's branch is.
function saved.saving(place)
  local back = loop_around(place)
  return back and context.lies_in(place.mirror, back.forward.place) and back
    or nil
end

-- Outside of all loops that the gradient goes through.
local function place_of_stack(back)
  local place, mirror = back.forward.parent, back.parent
  local found = place
  while mirror and mirror.mirror == place do
    if place.kind == "w" then found = place.parent end
    place, mirror = place.parent, mirror.parent
  end
  return found
end

-- The handle of a new stack for `edge`.
local function new_stack(back, edge)
  local s = context.scope_of(place_of_stack(back))
  s.colocate = edge.op
  local _ <close> = core.push(s)
  return (core.add("StackV2", {core.tensor(-1)}, {elem_type = edge.dtype}))
end

local function push(l, place, stack, edge)
  local counter = loop.counter(l)
  local s = context.scope_of(place)
  s.controls = {counter.result.op} -- after the iteration before this one
  local _ <close> = core.push(s)
  local op = core.add("StackPushV2", {stack, edge},
                      {swap_memory = l.swap}).op
  loop.before_next(l, op)
end

local function pop(back, place, stack, edge)
  local s = context.scope_of(place)
  s.controls = {place.pivot}
  local _ <close> = core.push(s)
  local popped = core.add("StackPopV2", {stack}, {elem_type = edge.dtype})
  core.set_shape(popped, edge.shape)
  loop.before_next(back, popped.op)
  return popped
end

-- The stack is a result of the cond or loop that `place` is a part of, and of
-- those around up to where it is made: for each, its handle outside stands for
-- what is pushed inside.
local function link(place, stack, edge)
  local construct = place.construct
  local handle = context.capture(place.parent, stack)
  table.insert(place.links, {stack = handle, edge = edge})
  table.insert(construct.outputs, handle)
  context.declare(construct, {handle.op})
  if handle ~= stack then link(place.parent, stack, handle) end
end

-- The value that `edge`, in `from`, had in the iteration that `place` is in.
local function save(back, from, place, edge)
  local stack = new_stack(back, edge)
  push(back.forward, from, stack, edge)
  link(from, stack, edge)
  return pop(back, place, stack, edge)
end

-- ---- derivatives of derivatives -------------------------------------------
--
-- A value that a gradient loop popped has a gradient itself. The loop that is
-- the gradient of the gradient counts forward again; it pushes them, in the
-- order in which a second gradient of the first loop pops them. So the gradient
-- of a stack is a stack: its handle goes from place to place like any gradient,
-- against the way of what was saved. What was pushed in a branch was popped in
-- the branch that mirrors it; its gradient is pushed in the mirror of the
-- second and popped in another mirror of the first. All four are taken in the
-- same iterations, for they have one predicate.

--- Puts dp, the gradient of what was popped, aside: the handle of a new stack.
-- Nil where no gradient loop popped it.
function saved.push_gradient(dp)
  local place = context.current()
  local back = loop_around(place)
  if not back or not back.forward.forward then return nil end
  if slices.is(dp) then dp = dp:dense() end
  local stack = new_stack(back, dp)
  push(back, place, stack, context.capture(place, dp))
  return stack
end

--- What push_gradient put aside for the edge of link `of`, in the place here.
-- One that is a handle itself stands for what is further inside.
function saved.pop_gradient(of, stack)
  local place = context.current()
  if of.edge.dtype == "resource" then return context.capture(place, stack) end
  return pop(loop_around(place), place, stack, of.edge)
end

--- The stack that a handle stands for, where it was made.
function saved.made(stack)
  while stack.op.type ~= "StackV2" do stack = stack.op.inputs[1] end
  return stack
end

-- ---- recalling ------------------------------------------------------------

local function copy_constant(place, edge)
  local _ <close> = core.push(context.scope_of(place))
  return core.add("Const", {}, {value = edge.op.attr.value,
                                dtype = edge.dtype})
end

-- What the Identity passes on.
local function behind(edge)
  while edge.op.type == "Identity" and edge.op.inputs[1].op.flow == edge.op.flow
    do
    edge = edge.op.inputs[1]
  end
  return edge
end

-- What need not be saved: nil when there is no way around it.
local function without_saving(place, edge)
  local outer = place.mirror.outer_of[edge]
  if outer then return context.capture(place, outer) end
  if edge.op.type == "Const" then return copy_constant(place, edge) end
  local source = behind(edge)
  if source ~= edge then return context.capture(place, source) end
end

local function is_one(x)
  if x.op.type ~= "Const" then return false end
  local v = x.op.attr.value
  return v.rank == 0 and v:item() == 1
end

-- Does the variable of a loop grow by one each time?
local function counts(var)
  local op = var.result.op
  if op.type ~= "AddV2" or var.inside.dtype ~= "int32" then return false end
  local x, y = table.unpack(op.inputs)
  return x == var.inside and is_one(y) or y == var.inside and is_one(x)
end

-- A variable that counts, from the number of iterations that are left.
local function count(back, var)
  local place, done = back.place, back.counter.result
  local first = var.initial.op
  if first.type == "Const" and first.attr.value:item() == 0 then return done end
  local _ <close> = core.push(context.scope_of(place))
  return context.capture(place, var.initial) + done
end

--- For the place of a gradient loop: `edge` is inside the loop it mirrors.
function saved.recall_in_loop(back, edge)
  local place, l = back.place, back.forward
  local var = l.of[edge]
  if not var then
    return without_saving(place, edge) or save(back, l.place, place, edge)
  end
  if edge ~= var.inside then return context.capture(place, var.inside) end
  if counts(var) then return count(back, var) end
  return save(back, l.place, place, edge)
end

--- For a branch of a gradient: `edge` is inside the branch it mirrors.
function saved.recall_in_branch(place, edge)
  local back = saved.saving(place)
  if not back then return edge end
  return without_saving(place, edge)
    or save(back, place.mirror, place, edge)
end

return saved
