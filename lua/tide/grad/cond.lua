--- grad/cond.lua - the gradient of cond: a cond on the same predicate.
--
-- Each branch is the gradient of a branch: a walk from what it gave back to
-- what was brought into it. Where only one branch has a gradient the other
-- gives zeros.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local flow = require "tide.flow"
local saved = require "tide.grad.saved"
local shape = require "tide.grad.shape"
local shapes = require "tide.shape"
local slices = require "tide.indexed_slices"
local walk = require "tide.walk"
local ops = require("tide.ops").ops

local grad = {}

local function each_branch(c, f)
  f(c.no, 1)
  f(c.yes, 2)
end

--- The tensors that the cond takes.
function grad.inputs(c)
  local list = {}
  each_branch(c, function(branch)
    for _, b in ipairs(branch.place.brought) do list[#list + 1] = b.outer end
  end)
  return list
end

local function inside(branch, o)
  local within = {}
  for _, b in ipairs(branch.place.brought) do within[b.inside] = true end
  return {stop = o.stop, within = within}
end

--- Those of its results that depend on what `depends` says.
function grad.depends(c, depends, o)
  local hit, list = {}, {}
  each_branch(c, function(branch)
    local given = {}
    for _, b in ipairs(branch.place.brought) do
      given[b.inside] = depends(b.outer) or nil
    end
    local within = inside(branch, o)
    local rows = walk.ancestors(branch.edges, within)
    local now = walk.dependence(rows, given, within)
    for i, y in ipairs(branch.edges) do hit[i] = hit[i] or now(y) end
  end)
  for i, y in ipairs(c.outputs) do
    if hit[i] then list[#list + 1] = y end
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
  local place = flow.new("c", name, bring)
  place.mirror = branch.place
  function place.recall(edge) return saved.recall_in_branch(place, edge) end
  local _ <close> = core.push(flow.frame(place))
  local switched = select(port, core.add("Switch", {pred, pred}))
  place.pivot = core.add("Identity", {switched}, nil, "pivot").op
  return place
end

-- Gradients of what was brought into a branch, by the tensor outside.
local function through_branch(c, branch, place, dys, wanted, o)
  local _ <close> = core.push(flow.scope(place, place.pivot))
  local ys, gs, xs, found = {}, {}, {}, {}
  for i, y in ipairs(c.outputs) do
    if dys[y] then
      ys[#ys + 1] = branch.edges[i]
      gs[#gs + 1] = dys[y]
    end
  end
  local brought = {}
  for _, b in ipairs(branch.place.brought) do
    if wanted(b.outer) then
      brought[#brought + 1] = b
      xs[#xs + 1] = b.inside
    end
  end
  for i, g in ipairs(walk.back(ys, gs, xs, inside(branch, o))) do
    found[brought[i].outer] = g or nil
  end
  return found
end

-- ---- both sides together --------------------------------------------------

local function merge(no, yes)
  local _ <close> = core.push(flow.frame((flow.current())))
  return (core.add("Merge", {{no, yes}}))
end

-- f() as a tensor of the branch.
local function in_branch(place, f)
  local _ <close> = core.push(flow.scope(place, place.pivot))
  return flow.capture(place, core.edge(f()))
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

local function merge_sparse(places, _, no, yes)
  local like = no or yes
  local values_no, at_no = rows(places.no, no, like)
  local values_yes, at_yes = rows(places.yes, yes, like)
  return slices.new(merge(values_no, values_yes), merge(at_no, at_yes),
                    like.dense_shape)
end

local function merge_dense(places, x, no, yes)
  local function side(place, g)
    return in_branch(place, function()
      if not g then return shape.zeros(x) end
      return slices.is(g) and g:dense() or g
    end)
  end
  return merge(side(places.no, no), side(places.yes, yes))
end

-- Both give rows of a tensor whose size is known, or one does and the other
-- nothing.
local function stays_sparse(no, yes)
  for _, g in pairs{no = no, yes = yes} do
    if not slices.is(g) or core.kind(g.dense_shape) then return false end
  end
  return shapes.known((no or yes).dense_shape)
end

local function merge_parts(c, places, found_no, found_yes)
  local parts, done = {}, {}
  for _, x in ipairs(grad.inputs(c)) do
    local no, yes = found_no[x], found_yes[x]
    if (no or yes) and not done[x] then
      done[x] = true
      local together = stays_sparse(no, yes) and merge_sparse or merge_dense
      parts[#parts + 1] = {of = x, is = together(places, x, no, yes)}
    end
  end
  return parts
end

--- Gradients of what the cond takes: see grad/loop.lua.
function grad.gradient(c, dys, wanted, o)
  local pred = flow.capture(flow.current(), c.pred)
  local places = {no = open_branch(c.no, 1, pred),
                  yes = open_branch(c.yes, 2, pred)}
  local found_no = through_branch(c, c.no, places.no, dys, wanted, o)
  local found_yes = through_branch(c, c.yes, places.yes, dys, wanted, o)
  return merge_parts(c, places, found_no, found_yes)
end

return grad
