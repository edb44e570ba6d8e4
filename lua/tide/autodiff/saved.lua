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

local saved = {}

-- ---- stacks ---------------------------------------------------------------

-- The gradient loop around a place, nil when there is none.
local function loop_around(place)
  while place and not place.back do place = place.parent end
  return place and place.back
end
saved.loop_around = loop_around

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

-- The stack is a result of loop l, and of the loops around up to where it is
-- made: for each, its handle outside stands for what is pushed inside.
local function link(l, stack, edge, place)
  local handle = context.capture(l.parent, stack)
  table.insert(l.links, {stack = handle, edge = edge, place = place})
  table.insert(l.outputs, handle)
  context.declare(l, {handle.op})
  if handle == stack then return end
  local outer = l.parent
  while outer.kind ~= "w" do outer = outer.parent end
  link(outer.loop, stack, handle, l.parent)
end

-- The value that `edge`, in `from`, had in the iteration that `place` is in.
local function save(back, from, place, edge)
  local stack = new_stack(back, edge)
  push(back.forward, from, stack, edge)
  link(back.forward, stack, edge, from)
  return pop(back, place, stack, edge)
end

-- ---- derivatives of derivatives -------------------------------------------
--
-- A value that a gradient loop popped has a gradient itself. The loop that is
-- the gradient of the gradient counts forward again; it pushes them, in the
-- order in which a second gradient of the first loop pops them. So the gradient
-- of a stack is a stack: its handle goes from loop to loop like any gradient.

local function refuse(l)
  while l.forward do l = l.forward end
  core.error("unimplemented", ("the second derivative through loop \"%s\": it "
    .. "goes through loops, also in each other, but none with a cond inside, "
    .. "and no third goes through; take the first derivative in the "
    .. "body"):format(l.name))
end
saved.refuse = refuse

--- Puts dp, the gradient of what was popped, aside: the handle of a new stack.
function saved.push_gradient(op, dp)
  local place = context.current()
  local back = loop_around(place)
  local l = back and back.forward.forward
  if not l or l.forward or place ~= back.place then
    refuse(back and back.forward or {name = op.name})
  end
  local stack = new_stack(back, dp)
  push(back, place, stack, context.capture(place, dp))
  return stack
end

--- What push_gradient put aside for the edge of a link; `back` is the gradient
-- of its loop. A loop further inside takes the handle.
function saved.pop_gradient(back, from, stack)
  if from.place ~= back.forward.place then refuse(back.forward) end
  if from.edge.dtype == "resource" then
    return context.capture(back.place, stack)
  end
  return pop(back, back.place, stack, from.edge)
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

--- For a branch of a gradient: `edge` is inside the branch it mirrors. Outside
-- of loops it is alive whenever the gradient's branch is.
function saved.recall_in_branch(place, edge)
  local back = loop_around(place)
  if not back then return edge end
  return without_saving(place, edge)
    or save(back, place.mirror, place, edge)
end

return saved
