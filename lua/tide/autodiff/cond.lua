--- autodiff/cond.lua - the gradient of cond: a cond on the same predicate.
--
-- Each branch is the gradient of a branch: a walk from what it gave back to
-- what was brought into it. Where only one branch has a gradient the other
-- gives zeros.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"
local saved = require "tide.autodiff.saved"
local shape = require "tide.autodiff.rule_shape"
local shapes = require "tide.tensor.shape"
local slices = require "tide.tensor.indexed_slices"
local backprop = require "tide.autodiff.backprop"
local ops = require("tide.ops").ops

local grad = {}

local function each_branch(c, f)
  f(c.no, 1)
  f(c.yes, 2)
end

-- What was brought into a branch, {outer =, inside =}. The branch of a gradient
-- goes on in the one it mirrors as long as that is alive. A stack that a loop
-- or cond inside fills is a result of that one.
local function brought_into(branch)
  local list, place = {}, branch.place
  while place do
    for _, b in ipairs(place.brought) do
      if not context.construct(b.inside.op) then list[#list + 1] = b end
    end
    place = place.mirror and not saved.saving(place) and place.mirror
  end
  return list
end

--- The tensors that the cond takes.
function grad.inputs(c)
  local list = {}
  each_branch(c, function(branch)
    for _, b in ipairs(brought_into(branch)) do list[#list + 1] = b.outer end
  end)
  return list
end

local function inside(branch, o)
  local within = {}
  for _, b in ipairs(brought_into(branch)) do within[b.inside] = true end
  return {stop = o.stop, within = within, colocate = o.colocate}
end

-- All that a walk through a branch may begin with.
local function ends(branch)
  local list = table.move(branch.edges, 1, #branch.edges, 1, {})
  for _, link in ipairs(branch.place.links) do list[#list + 1] = link.edge end
  return list
end

--- Those of its results that depend on what `depends` says.
function grad.depends(c, depends, o)
  local hit, list = {}, {}
  each_branch(c, function(branch)
    local given = {}
    for _, b in ipairs(brought_into(branch)) do
      given[b.inside] = depends(b.outer) or nil
    end
    local within = inside(branch, o)
    local rows = backprop.ancestors(ends(branch), within)
    local now = backprop.dependence(rows, given, within)
    for i, y in ipairs(branch.edges) do
      if now(y) then hit[c.outputs[i]] = true end
    end
    for _, link in ipairs(branch.place.links) do
      if now(link.edge) then hit[link.stack] = true end
    end
  end)
  for _, y in ipairs(c.outputs) do
    if hit[y] then list[#list + 1] = y end
  end
  return list
end

-- ---- the branches of the gradient -----------------------------------------

-- A branch in the current place that mirrors `branch`.
local function open_branch(branch, port, pred)
  local function bring(outer)
    return (select(port, core.add("Switch", {outer, pred})))
  end
  local name = core.scope().prefix .. (port == 2 and "true" or "false")
  local place = context.new("c", name, bring)
  place.mirror = branch.place
  function place.recall(edge) return saved.recall_in_branch(place, edge) end
  local _ <close> = core.push(context.frame(place))
  local switched = select(port, core.add("Switch", {pred, pred}))
  place.pivot = core.add("Identity", {switched}, nil, "pivot").op
  return place
end

-- What a branch gave and saved, and the gradients of that.
local function given_to(c, branch, dys)
  local ys, gs = {}, {}
  for i, y in ipairs(branch.edges) do
    local dy = dys[c.outputs[i]]
    if dy then ys[#ys + 1], gs[#gs + 1] = y, dy end
  end
  for _, link in ipairs(branch.place.links) do
    for _, stack in ipairs(dys[link.stack] or {}) do
      ys[#ys + 1] = link.edge
      gs[#gs + 1] = saved.pop_gradient(link, stack)
    end
  end
  return ys, gs
end

-- Gradients of what was brought into a branch, by the tensor outside.
local function through_branch(c, branch, place, dys, wanted, o)
  local _ <close> = core.push(context.scope(place, place.pivot))
  local xs, found = {}, {}
  local ys, gs = given_to(c, branch, dys)
  local brought = {}
  for _, b in ipairs(brought_into(branch)) do
    if wanted(b.outer) then
      brought[#brought + 1] = b
      xs[#xs + 1] = b.inside
    end
  end
  for i, g in ipairs(backprop.walk(ys, gs, xs, inside(branch, o))) do
    local x = brought[i].outer
    found[x] = g and found[x] and backprop.sum{found[x], g} or g or found[x]
  end
  return found
end

-- ---- both sides together --------------------------------------------------

-- A result of `made`, the cond that is being built.
local function merge(made, no, yes)
  local _ <close> = core.push(context.frame((context.current())))
  local y = core.add("Merge", {{no, yes}})
  table.insert(made.no.edges, no)
  table.insert(made.yes.edges, yes)
  table.insert(made.outputs, y)
  made.id = made.id or y.op.serial
  context.declare(made, {y.op})
  return y
end

-- f() as a tensor of the branch.
local function in_branch(place, f)
  local _ <close> = core.push(context.scope(place, place.pivot))
  return context.capture(place, core.edge(f()))
end

-- The rows of g, or none of a tensor like `like`.
local function rows(place, g, like)
  local none = {0}
  table.move(like.dense_shape, 2, #like.dense_shape, 2, none)
  local values = in_branch(place, function()
    return g and g.values or ops.zeros(none, {dtype = like.values.dtype})
  end)
  local indices = in_branch(place, function()
    return ops.cast(g and g.indices or ops.zeros({0}, {dtype = "int64"}),
                    "int64")
  end)
  return values, indices
end

local function merge_sparse(made, _, no, yes)
  local like = no or yes
  local values_no, at_no = rows(made.no.place, no, like)
  local values_yes, at_yes = rows(made.yes.place, yes, like)
  return slices.new(merge(made, values_no, values_yes),
                    merge(made, at_no, at_yes), like.dense_shape)
end

local function merge_dense(made, x, no, yes)
  local function side(branch, g)
    return in_branch(branch.place, function()
      if not g then return shape.zeros(x) end
      return slices.is(g) and g:dense() or g
    end)
  end
  return merge(made, side(made.no, no), side(made.yes, yes))
end

-- Both give rows of a tensor whose size is known, or one does and the other
-- nothing.
local function stays_sparse(no, yes)
  for _, g in pairs{no = no, yes = yes} do
    if not slices.is(g) or core.kind(g.dense_shape) then return false end
  end
  return shapes.known((no or yes).dense_shape)
end

-- A stack is filled in one of the branches. The loop around, which it leaves
-- too, says when it is full.
local function pass_stack(_, _, no, yes) return saved.made(no or yes) end

local function is_stack(g)
  return not slices.is(g) and g.dtype == "resource"
end

local function merge_parts(c, made, found_no, found_yes)
  local parts, done = {}, {}
  for _, x in ipairs(grad.inputs(c)) do
    local no, yes = found_no[x], found_yes[x]
    if (no or yes) and not done[x] then
      done[x] = true
      local together = is_stack(no or yes) and pass_stack
        or stays_sparse(no, yes) and merge_sparse or merge_dense
      parts[#parts + 1] = {of = x, is = together(made, x, no, yes)}
    end
  end
  return parts
end

--- Gradients of what the cond takes: see autodiff/while_loop.lua.
function grad.gradient(c, dys, wanted, o)
  local pred = context.capture(context.current(), c.pred)
  local made = {kind = "cond", name = c.name, pred = pred, outputs = {},
                no = {place = open_branch(c.no, 1, pred), edges = {}},
                yes = {place = open_branch(c.yes, 2, pred), edges = {}}}
  made.no.place.construct, made.yes.place.construct = made, made
  local found_no = through_branch(c, c.no, made.no.place, dys, wanted, o)
  local found_yes = through_branch(c, c.yes, made.yes.place, dys, wanted, o)
  return merge_parts(c, made, found_no, found_yes)
end

return grad
