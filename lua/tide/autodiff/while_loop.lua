--- autodiff/while_loop.lua - the gradient of while_loop: a loop that counts
-- back.
--
-- Its variables are the number of iterations left, the gradients of the loop's
-- variables, and a sum for each tensor that was brought in from outside. Its
-- body is the gradient of the loop's body: a walk from what the body gave back
-- to what it was given.
-- Source: Yu et al., "Dynamic control flow in large-scale machine learning",
-- 2018, section 5.1.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local context = require "tide.control.context"
local flows = require "tide.autodiff.array_order"
local loop = require "tide.control.loop_nodes"
local saved = require "tide.autodiff.saved"
local shape = require "tide.autodiff.rule_shape"
local shapes = require "tide.tensor.shape"
local slices = require "tide.tensor.indexed_slices"
local tensor_array = require "tide.control.tensor_array"
local backprop = require "tide.autodiff.backprop"
local ops = require("tide.ops").ops

local grad = {}

-- ---- what depends on what -------------------------------------------------

--- The tensors that the loop takes.
function grad.inputs(l)
  local list = {}
  for i, var in ipairs(l.vars) do list[i] = var.initial end
  for _, b in ipairs(l.place.brought) do list[#list + 1] = b.outer end
  return list
end

-- Tensors brought into the loop, {outer =, inside =}. A stack that a loop or
-- cond in the body fills is a result of that one.
local function brought_into(l)
  local list = {}
  for _, b in ipairs(l.place.brought) do
    if not context.construct(b.inside.op) then list[#list + 1] = b end
  end
  return list
end

-- o of a walk inside the loop.
local function inside(l, o)
  local within = {}
  for _, b in ipairs(brought_into(l)) do within[b.inside] = true end
  return {stop = o.stop, within = within, colocate = o.colocate}
end

-- All that a walk through the body may begin with.
local function ends(l)
  local list = {}
  for i, var in ipairs(l.vars) do list[i] = var.result end
  for _, link in ipairs(l.place.links) do list[#list + 1] = link.edge end
  return list
end

-- The set of Merges whose variables depend on what `depends` says of the
-- tensors outside: at first, or after some iterations; and whether a tensor of
-- the body does, as a function.
local function dependent(l, depends, o)
  local given, grown = {}, true
  for _, var in ipairs(l.vars) do
    given[var.merge] = depends(var.initial) or nil
  end
  for _, b in ipairs(brought_into(l)) do
    given[b.inside] = depends(b.outer) or nil
  end
  o = inside(l, o)
  local rows, now = backprop.ancestors(ends(l), o), nil
  while grown do
    grown = false
    now = backprop.dependence(rows, given, o)
    for _, var in ipairs(l.vars) do
      if not given[var.merge] and now(var.result) then
        given[var.merge], grown = true, true
      end
    end
  end
  return given, now
end

--- Those of the loop's results that depend on what `depends` says.
function grad.depends(l, depends, o)
  local given, now = dependent(l, depends, o)
  local list = {}
  for _, var in ipairs(l.vars) do
    if var.exit and given[var.merge] then list[#list + 1] = var.exit end
  end
  for _, link in ipairs(l.place.links) do
    if now(link.edge) then list[#list + 1] = link.stack end
  end
  return list
end

-- The variables whose gradient is not zero for sure: those with a gradient
-- from outside, and what they are made of.
local function reaching(l, dys, o)
  local reached, grown = {}, true
  for _, var in ipairs(l.vars) do
    reached[var] = var.exit and dys[var.exit] and true
  end
  o = inside(l, o)
  while grown do
    grown = false
    local ys = {}
    for _, link in ipairs(l.place.links) do
      if dys[link.stack] then ys[#ys + 1] = link.edge end
    end
    for _, var in ipairs(l.vars) do
      if reached[var] then ys[#ys + 1] = var.result end
    end
    local _, ended = backprop.ancestors(ys, o)
    for _, var in ipairs(l.vars) do
      if not reached[var] and ended[var.merge] then
        reached[var], grown = true, true
      end
    end
  end
  return reached
end

-- ---- the loop that counts back --------------------------------------------

local function fail(fmt, ...)
  errors.raise("unimplemented", fmt, ...)
end

local function check(l)
  if l.forward and l.forward.forward then
    fail("the third derivative through loop \"%s\": there are two; take the "
      .. "first derivative in the body", l.forward.forward.name)
  end
  local place = context.current()
  while place and not place.mirror and place ~= l.parent do
    if place.kind == "w" then
      fail("the gradient of the loop \"%s\" is asked for inside the loop "
        .. "\"%s\", which would need its iterations again and again; take it "
        .. "outside", l.name, place.name)
    end
    place = place.parent
  end
end

-- The runs of an inner loop push and pop one after the other: each begins to
-- count when the outer loop has counted.
local function order_runs(back)
  local outer = saved.loop_around(back.parent)
  if not outer then return end
  local counter = back.forward.counter
  if not counter.ordered then
    core.add_control(counter.enter.op, loop.counter(outer.forward).result.op)
    counter.ordered = true
  end
  loop.before_next(outer, loop.exit(back, back.counter).op)
end

-- How many iterations a loop had, when it is over. The loop of a gradient knows
-- before, and counts down to 0.
local function iterations(l)
  if not l.forward then return loop.counter(l).exit end
  return l.counter.initial + loop.exit(l, l.counter)
end

-- A loop with as many iterations as l, in the current place, that counts back.
local function count_back(l)
  local total = context.capture(context.current(), iterations(l))
  local back = loop.new(core.scope().prefix .. "back",
                        {parallel = l.parallel, swap = l.swap, backward = true})
  local place = back.place
  back.forward, place.mirror, place.back = l, l.place, back
  function place.recall(edge) return saved.recall_in_loop(back, edge) end
  local left = loop.enter(back, total)
  do
    local _ <close> = core.push(context.scope(place, left.merge.op))
    loop.go_on(back, left.merge:greater(0))
  end
  loop.split(back, left)
  local _ <close> = core.push(context.scope(place, place.pivot))
  loop.close(back, left, left.inside - 1)
  back.counter = left
  order_runs(back)
  return back
end

-- x, which is known to have the shape `s` or one that it allows.
local function shaped(x, s)
  if not s or shapes.allows(s, x.shape) then return x end
  return ops.identity(x):set_shape(s)
end

local function dense(g)
  return slices.is(g) and g:dense() or g
end

-- A variable of the gradient loop, of the shape of `merge`.
local function enter(back, initial, merge)
  local var = loop.enter(back, shaped(dense(initial), merge.shape),
                         merge.shape or false)
  loop.split(back, var)
  return var
end

-- A tensor of the loop's place, whatever it was.
local function close(back, var, result, s)
  result = context.capture(back.place, shaped(dense(result), s))
  loop.close(back, var, result)
end

-- ---- its variables --------------------------------------------------------

-- Zeros like what a variable is in the end: of a list, as long as it grew.
local function zeros_behind(l, var)
  local list = var.initial.dtype == "variant" and not var.exit
  return shape.zeros(list and loop.exit(l, var) or var.exit or var.initial)
end

-- Variables that carry gradients: {var =, back =}.
local function carry(l, back, dys, which)
  local list = {}
  for _, var in ipairs(l.vars) do
    if which(var) then
      local dy = var.exit and dys[var.exit] or zeros_behind(l, var)
      list[#list + 1] = {var = var, back = enter(back, dy, var.merge)}
    end
  end
  return list
end

-- The walk through the body: gradients of the variables carried, then of the
-- tensors in `brought`.
local function through_body(l, carried, brought, outer_dys, o)
  local ys, dys, xs = {}, {}, {}
  for i, c in ipairs(carried) do
    ys[i], dys[i], xs[i] = c.var.result, c.back.inside, c.var.merge
  end
  for _, link in ipairs(l.place.links) do
    for _, stack in ipairs(outer_dys[link.stack] or {}) do
      ys[#ys + 1] = link.edge
      dys[#ys] = saved.pop_gradient(link, stack)
    end
  end
  for _, b in ipairs(brought) do xs[#xs + 1] = b.inside end
  return backprop.walk(ys, dys, xs, inside(l, o))
end

-- The sum over all iterations of g, the gradient of b.
local function accumulate(back, b, g)
  local zero = shape.zeros(b.outer)
  local var = loop.enter(back, zero, zero.shape or false)
  loop.split(back, var)
  local _ <close> = core.push(context.scope(back.place, back.place.pivot))
  if flows.is(g) then
    var.orders = true
    flows.after(g, var.inside.op)
  end
  close(back, var, backprop.sum{var.inside, dense(g)}, zero.shape)
  return loop.exit(back, var)
end

-- The tensors that x was in all iterations, one after the other along the first
-- axis, in the order of the forward loop.
local function collect(back, x, each)
  local array = tensor_array.tensor_array(x.dtype, back.counter.initial, {
    element_shape = each, infer_shape = false, name = "rows"})
  local var = loop.enter(back, array.flow)
  loop.split(back, var)
  do
    local _ <close> = core.push(context.scope(back.place, back.place.pivot))
    local written = tensor_array.behind(array, var.inside)
      :write(back.counter.result, x)
    loop.close(back, var, context.capture(back.place, written.flow))
  end
  return (tensor_array.behind(array, loop.exit(back, var)):concat())
end

-- The same for rows of a tensor whose size is known.
local function accumulate_rows(back, g)
  local each = {-1}
  table.move(g.dense_shape, 2, #g.dense_shape, 2, each)
  return slices.new(collect(back, g.values, each),
                    collect(back, g.indices, {-1}), g.dense_shape)
end

local function stays_sparse(g)
  return slices.is(g) and not core.kind(g.dense_shape)
    and shapes.known(g.dense_shape)
end

-- A stack that is full when the loop is over.
local function filled(back, stack)
  local _ <close> = core.push(context.scope_of(back.parent))
  local after = back.counter.exit or loop.exit(back, back.counter)
  local _ <close> = core.push{controls = {after.op}}
  return core.add("Identity", {saved.made(stack)})
end

-- The gradient of b that the loop gives, when it is g in each iteration.
local function over_all(back, b, g)
  if not slices.is(g) and g.dtype == "resource" then return filled(back, g) end
  if stays_sparse(g) then return accumulate_rows(back, g) end
  return accumulate(back, b, g)
end

--- Gradients of what the loop takes.
-- @param l the loop
-- @param dys gradients of its exits
-- @param wanted does anybody ask for the gradient of this tensor?
-- @param o of the walk
-- @return list of {of = tensor, is = its gradient}
function grad.gradient(l, dys, wanted, o)
  local parts = {}
  check(l)
  if not l.backward then return parts end
  local depends, reached = dependent(l, wanted, o), reaching(l, dys, o)
  local brought = {}
  for _, b in ipairs(brought_into(l)) do
    if wanted(b.outer) then brought[#brought + 1] = b end
  end
  local back = count_back(l)
  local carried = carry(l, back, dys, function(var)
    return reached[var] and depends[var.merge]
      and dtypes.differentiable(var.merge.dtype)
  end)
  local found
  do
    local _ <close> = core.push(context.scope(back.place, back.place.pivot))
    found = through_body(l, carried, brought, dys, o)
    for i, c in ipairs(carried) do
      close(back, c.back, found[i] or shape.zeros(c.var.inside),
            c.var.merge.shape)
    end
  end
  -- A walk meets the loop behind all that its body took, before who uses it.
  back.id = core.next_serial(core.graph())
  for _, c in ipairs(carried) do
    if wanted(c.var.initial) then
      parts[#parts + 1] = {of = c.var.initial, is = loop.exit(back, c.back)}
    end
  end
  for i, b in ipairs(brought) do
    local g = found[#carried + i]
    if g then parts[#parts + 1] = {of = b.outer, is = over_all(back, b, g)} end
  end
  return parts
end

return grad
