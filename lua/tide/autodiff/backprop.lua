--- autodiff/backprop.lua - from ys back to xs, summing what the rules give.
--
-- The walk goes against the order in which nodes were added: all uses of a
-- tensor are met before the op that made it, so that what they contribute can
-- be summed there. A cond or while_loop is one step, however many results it
-- has; what is inside of it is walked by its own module (autodiff/cond.lua,
-- autodiff/while_loop.lua), which calls the walk again.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local context = require "tide.control.context"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local flows = require "tide.autodiff.array_order"
local graph = require "tide.graph.graph"
local rules = require "tide.autodiff.rules"
local shapes = require "tide.tensor.shape"
local slices = require "tide.tensor.indexed_slices"

local backprop = {}

local fail = errors.raise

--- What differentiates a construct, by its kind: {inputs =, depends =, gradient
-- =}. gradients.lua says who does, for they call the walk in turn.
backprop.constructs = {}

local function module_of(construct)
  return backprop.constructs[construct.kind]
end

-- ---- what there is to differentiate ---------------------------------------

local function row_of(op, construct)
  if construct then
    return {construct = construct, id = construct.id,
            inputs = module_of(construct).inputs(construct)}
  end
  return {op = op, inputs = op.inputs, id = op.serial}
end

--- All that ys are made of: ops and constructs as rows, in the order in which
-- they were added.
-- @param o stop, within: sets of tensors that are not followed
-- @return the rows; the set of tensors where the walk ended
function backprop.ancestors(ys, o)
  local found, seen, ended, stack = {}, {}, {}, {}
  local state = graph.state(ys[1] and ys[1].graph)
  local constructs, variables = state.constructs, state.loop_variables
  local function follow(x)
    if not x or o.stop[x] or not dtypes.differentiable(x.dtype) then return end
    if o.within[x] or variables[x] then -- a walk in a loop ends at these
      ended[x] = true
    else
      stack[#stack + 1] = x.op
    end
  end
  for _, y in ipairs(ys) do follow(y) end
  while #stack > 0 do
    local op = table.remove(stack)
    local construct = constructs[op]
    local key = construct or op
    if not seen[key] then
      seen[key] = true
      local row = row_of(op, construct)
      found[#found + 1] = row
      for _, x in ipairs(row.inputs) do follow(x) end
    end
  end
  table.sort(found, function(a, b) return a.id < b.id end)
  return found, ended
end

--- Which tensors depend on those of the set `given`, as a function; and the
-- set of ops that made them.
function backprop.dependence(rows, given, o)
  local made = {}
  local function depends(x)
    return x and not o.stop[x] and dtypes.differentiable(x.dtype)
      and (given[x] or made[x.op]) or false
  end
  local function mark(row)
    if row.construct then
      for _, y in ipairs(module_of(row.construct).depends(row.construct,
                                                          depends, o)) do
        made[y.op] = true
      end
      return
    end
    for _, x in ipairs(row.inputs) do
      if depends(x) then
        made[row.op] = true
        return
      end
    end
  end
  for _, row in ipairs(rows) do mark(row) end
  return depends, made
end

-- ---- sums -----------------------------------------------------------------

--- The sum of a list of contributions; sparse as long as all of them are.
function backprop.sum(list)
  if #list == 1 then return list[1] end
  local sparse, dense = {}, {}
  for _, g in ipairs(list) do
    table.insert(slices.is(g) and sparse or dense, g)
  end
  if #dense == 0 then return slices.concat(sparse) end
  if #sparse > 0 then dense[#dense + 1] = slices.concat(sparse):dense() end
  if #dense == 1 then return dense[1] end
  flows.order(dense)
  return core.op "AddN"(dense)
end

-- What has come together for a tensor: false when nothing has.
local function total(pending, edge)
  local list = pending[edge]
  if not list then return false end
  if #list > 1 then pending[edge] = {backprop.sum(list)} end
  return pending[edge][1]
end

local function contribute(pending, edge, g)
  local list = pending[edge]
  if list then list[#list + 1] = g else pending[edge] = {g} end
end

-- ---- steps ----------------------------------------------------------------

-- Checks what a rule gave for input x, and makes it a gradient.
local function check_result(op, i, x, g)
  if slices.is(g) then return g end
  if not args.is_tensor(g) then
    fail("invalid_argument", "the gradient of %s gives %s for input %d of "
      .. "\"%s\"; false means none", op.type, type(g), i, op.name)
  end
  g = core.edge(g)
  if x.dtype ~= "resource" and g.dtype ~= x.dtype then
    fail("invalid_argument", "the gradient of %s for input %d of \"%s\" is %s, "
      .. "the input %s", op.type, i, op.name, g.dtype, x.dtype)
  end
  if x.dtype ~= "resource" and not shapes.compatible(g.shape, x.shape) then
    fail("invalid_argument", "the gradient of %s for input %d of \"%s\" has "
      .. "shape %s, the input %s", op.type, i, op.name, shapes.text(g.shape),
      shapes.text(x.shape))
  end
  return g
end

local function apply_rule(row, rule, dys, wanted)
  local op = row.op
  local results = rules.apply(rule, op, wanted, table.unpack(dys))
  if results.n ~= #row.inputs and not (results.n == 1 and not results[1]) then
    fail("invalid_argument", "the gradient of %s gives %d results for the %d "
      .. "inputs of \"%s\"", op.type, results.n, #row.inputs, op.name)
  end
  return results
end

-- The scope that is told already where a gradient is built in the mirror of a
-- branch or loop: names of deeply nested ones would grow with the square of the
-- depth.
local function told()
  local place = context.current()
  local m = place and place.mirror
  if not m then return "" end
  return m.kind == "w" and m.name .. "/" or m.name:match("^.*/") or ""
end

-- Opens the scope of the gradient of what is called `name`. `beside`: the op
-- that its nodes share a device with, or nil.
local function open_scope(name, origin, beside)
  local outer = told()
  if name:sub(1, #outer) == outer then name = name:sub(#outer + 1) end
  local s = {prefix = core.scope().prefix .. name .. "_grad/", origin = origin}
  if beside then s.colocate, s.device, s.device_fn = beside, false, false end
  return core.push(s)
end

-- What has come together for `edge`, summed where the op is that made it.
local function total_at(pending, edge, o)
  if not o.colocate then return total(pending, edge) end
  local _ <close> = core.push{colocate = edge.op, device = false,
                              device_fn = false}
  return total(pending, edge)
end

-- Gradients of one op's inputs.
local function step_op(row, pending, wanted, o)
  local op, dys, any = row.op, {}, false
  for i, y in ipairs(op.outputs) do
    dys[i] = total_at(pending, y, o)
    any = any or dys[i]
  end
  local rule = any and rules.of(op)
  if not rule then return end
  local _ <close> = open_scope(op.name, op.origin, o.colocate and op)
  local results = apply_rule(row, rule, dys, wanted)
  for i, x in ipairs(row.inputs) do
    local g = results[i]
    if g and wanted(x) then
      contribute(pending, x, check_result(op, i, x, g))
    end
  end
end

-- Gradients of what a cond or a loop takes.
local function step_construct(construct, pending, wanted, o)
  local dys, any = {}, false
  for _, y in ipairs(construct.outputs) do
    -- Handles of stacks do not add up.
    dys[y] = y.dtype == "resource" and pending[y] or total_at(pending, y, o)
      or nil
    any = any or dys[y]
  end
  if not any then return end
  local first = construct.outputs[1].op
  local _ <close> = open_scope(construct.name, first.origin)
  for _, part in ipairs(module_of(construct).gradient(construct, dys, wanted,
                                                      o)) do
    contribute(pending, part.of, part.is)
  end
end

--- The derivatives of the sum of ys with respect to xs.
-- @param ys tensors, and dys their gradients
-- @param xs tensors
-- @param o stop: set of tensors taken as constant; within: set of tensors that
-- are not followed further; colocate: each gradient is built on the device of
-- the op that it is of
-- @return for each x its gradient, or false
function backprop.walk(ys, dys, xs, o)
  local given = {}
  for _, x in ipairs(xs) do given[x] = true end
  local rows = backprop.ancestors(ys, o)
  local wanted, made = backprop.dependence(rows, given, o)
  local pending = {}
  for i, y in ipairs(ys) do contribute(pending, y, dys[i]) end
  for i = #rows, 1, -1 do
    local row = rows[i]
    if row.construct then
      step_construct(row.construct, pending, wanted, o)
    elseif made[row.op] then
      step_op(row, pending, wanted, o)
    end
  end
  local out = {}
  for i, x in ipairs(xs) do out[i] = total_at(pending, x, o) end
  return out
end

return backprop
