--- gradients.lua - derivatives of a graph, added to it as nodes.
--
-- The walk goes from ys back to xs, against the order in which nodes were
-- added: all uses of a tensor are met before the op that made it, so that what
-- they contribute can be summed there. One rule per op (tide/grad/*.lua) turns
-- gradients of its outputs into gradients of its inputs.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local dtypes = require "tide.dtype"
local flow = require "tide.flow"
local scope = require "tide.scope"
local shapes = require "tide.shape"
local slices = require "tide.indexed_slices"
local ops = require("tide.ops").ops

local gradients = {}

local function fail(code, fmt, ...)
  core.error(code, fmt:format(...))
end

-- ---- rules ----------------------------------------------------------------

local rules -- by op type; loaded when the first gradient is asked for
local none = {} -- by op type: is its gradient none, on purpose?

local function load_rules()
  rules = {}
  for _, name in ipairs{"math", "array", "nn", "state"} do
    for op, rule in pairs(require("tide.grad." .. name)) do rules[op] = rule end
  end
end

local function has_none(type)
  if none[type] == nil then none[type] = core.op_info(type).no_gradient end
  return none[type]
end

--- The rule of an op type: a function, false for none on purpose, or nil.
function gradients.rule(type)
  if not rules then load_rules() end
  return rules[type]
end

--- Declares the gradient of an op type, or of a name that
-- gradient_override_map uses.
-- @param type "MyOp"
-- @param rule function(op, dy, ...) -> one gradient for each of op.inputs, or
-- false; dy are the gradients of op.outputs, false where there is none
function gradients.register_gradient(type, rule)
  args.expect(type, "string", "register_gradient: the op")
  args.expect(rule, "function", "register_gradient: the rule")
  if gradients.rule(type) then
    fail("already_exists", "the gradient of %s is registered already", type)
  end
  rules[type] = rule
end

--- Inside f, ops of type A get the gradient registered as B: {A = "B"}.
function gradients.gradient_override_map(map, f, ...)
  local notes = {}
  for op, name in pairs(map) do
    if not core.op(op) then
      fail("not_found", "gradient_override_map: there is no op \"%s\"", op)
    end
    notes[op] = {_gradient_op_type = name}
  end
  return scope.enter({notes = notes}, f, ...)
end

local function rule_of(op)
  local name = op.attr._gradient_op_type
  if name then
    return gradients.rule(name) or fail("not_found", "no gradient is "
      .. "registered as \"%s\", which gradient_override_map gave to \"%s\"",
      name, op.name)
  end
  local rule = gradients.rule(op.type)
  if rule ~= nil or has_none(op.type) then return rule end
  fail("not_found", "no gradient is defined for op %s (node \"%s\", made at "
    .. "%s); give one with td.register_gradient, or stop there with "
    .. "td.stop_gradient", op.type, op.name, op.origin)
end

-- ---- what there is to differentiate ---------------------------------------

-- Variables stand for their handles: reads and gathers pass gradients on.
local function as_edge(x, what)
  if type(x) == "table" and rawget(x, "handle") then return x.handle end
  if core.kind(x) == "edge" then return x end
  if args.is_tensor(x) and core.kind(x) ~= "tensor" then return core.edge(x) end
  fail("invalid_argument", "gradients: %s must be a graph tensor or variable, "
    .. "not %s", what, core.kind(x) == "tensor" and "a value"
    or core.kind(x) or type(x))
end

local function as_list(x, what)
  local list = {}
  if not args.plain(x) then x = {x} end
  for i, e in ipairs(args.check_list(x, "gradients: " .. what)) do
    list[i] = as_edge(e, what)
  end
  return list
end

local function set_of(list)
  local set = {}
  for _, x in ipairs(list) do set[x] = true end
  return set
end

-- All ops that ys are made of, by id.
local function ancestors(ys, stop)
  local found, seen, stack = {}, {}, {}
  for _, y in ipairs(ys) do stack[#stack + 1] = y.op end
  while #stack > 0 do
    local op = table.remove(stack)
    if not seen[op] then
      seen[op] = true
      local inputs = op.inputs
      found[#found + 1] = {op = op, inputs = inputs, id = op.id}
      for _, x in ipairs(inputs) do
        if x and not stop[x] then stack[#stack + 1] = x.op end
      end
    end
  end
  table.sort(found, function(a, b) return a.id < b.id end)
  return found
end

-- Which of the ops, sorted by id, depend on xs.
local function mark_dependent(found, xs, stop)
  local depends = {}
  for _, row in ipairs(found) do
    for _, x in ipairs(row.inputs) do
      if x and not stop[x] and (xs[x] or depends[x.op]) then
        depends[row.op] = true
        break
      end
    end
  end
  return depends
end

-- ---- sums -----------------------------------------------------------------

-- The sum of a list of contributions; sparse as long as all of them are.
local function sum(list)
  if #list == 1 then return list[1] end
  local sparse, dense = {}, {}
  for _, g in ipairs(list) do
    table.insert(slices.is(g) and sparse or dense, g)
  end
  if #dense == 0 then return slices.concat(sparse) end
  if #sparse > 0 then dense[#dense + 1] = slices.concat(sparse):dense() end
  return #dense == 1 and dense[1] or core.op "AddN"(dense)
end

-- What has come together for a tensor: false when nothing has.
local function total(pending, edge)
  local list = pending[edge]
  if not list then return false end
  if #list > 1 then pending[edge] = {sum(list)} end
  return pending[edge][1]
end

local function contribute(pending, edge, g)
  local list = pending[edge]
  if list then list[#list + 1] = g else pending[edge] = {g} end
end

-- ---- the walk -------------------------------------------------------------

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

local function apply_rule(row, rule, dys)
  local op = row.op
  local results = table.pack(rule(op, table.unpack(dys)))
  if results.n ~= #row.inputs and not (results.n == 1 and not results[1]) then
    fail("invalid_argument", "the gradient of %s gives %d results for the %d "
      .. "inputs of \"%s\"", op.type, results.n, #row.inputs, op.name)
  end
  return results
end

-- Gradients of one op's inputs.
local function step(row, pending, wanted)
  local op, dys, any = row.op, {}, false
  for i, y in ipairs(op.outputs) do
    dys[i] = total(pending, y)
    any = any or dys[i]
  end
  local rule = any and rule_of(op)
  if not rule then return end
  local prefix = core.scope().prefix .. op.name .. "_grad/"
  local _ <close> = core.push{prefix = prefix, origin = op.origin}
  local results = apply_rule(row, rule, dys)
  for i, x in ipairs(row.inputs) do
    local g = results[i]
    if g and wanted(x) and dtypes.differentiable(x.dtype) then
      contribute(pending, x, check_result(op, i, x, g))
    end
  end
end

local function first_gradients(ys, grad_ys)
  local pending = {}
  for i, y in ipairs(ys) do
    local g = grad_ys and grad_ys[i]
    if not dtypes.differentiable(y.dtype) then
      fail("invalid_argument", "gradients: y \"%s\" is %s; only floats can be "
        .. "differentiated", y.name, y.dtype)
    end
    if g and not slices.is(g) then
      g = core.edge(g, not args.is_tensor(g) and y.dtype or nil)
      if not shapes.compatible(g.shape, y.shape) then
        fail("invalid_argument", "grad_ys: shape %s for \"%s\" of shape %s",
             shapes.text(g.shape), y.name, shapes.text(y.shape))
      end
    end
    contribute(pending, y, g or ops.ones_like(y))
  end
  return pending
end

local function walk(ys, xs, stop, grad_ys)
  local is_x = set_of(xs)
  local found = ancestors(ys, stop)
  local depends = mark_dependent(found, is_x, stop)
  local function wanted(x)
    return not stop[x] and (is_x[x] or depends[x.op])
  end
  local pending = first_gradients(ys, grad_ys)
  for i = #found, 1, -1 do
    if depends[found[i].op] then step(found[i], pending, wanted) end
  end
  local out = {}
  for i, x in ipairs(xs) do out[i] = total(pending, x) end
  return out
end

--- The derivatives of the sum of ys with respect to xs.
-- @param ys graph tensors, or one
-- @param xs graph tensors and variables, or one
-- @param[opt] o grad_ys: gradients of ys (ones); stop_gradients: tensors taken
-- as constant; name
-- @return for each x a graph tensor, sparse indexed slices {values, indices,
-- dense_shape}, or false where ys do not depend on x; a list for a list
-- @raise not_found for an op without a gradient
function gradients.gradients(ys, xs, o)
  o = args.read(o, {"grad_ys", "stop_gradients", "name"}, "gradients")
  local y_list, x_list = as_list(ys, "ys"), as_list(xs, "xs")
  local stop = set_of(as_list(o.stop_gradients or {}, "stop_gradients"))
  local grad_ys = o.grad_ys
  if grad_ys and not args.plain(grad_ys) then grad_ys = {grad_ys} end
  if grad_ys and #grad_ys ~= #y_list then
    fail("invalid_argument", "gradients: %d grad_ys for %d ys", #grad_ys,
         #y_list)
  end
  local place = flow.current()
  for i, y in ipairs(y_list) do y_list[i] = flow.capture(place, y) end
  return scope.name_scope(o.name or "gradients", function()
    local out = walk(y_list, x_list, stop, grad_ys)
    if args.plain(xs) then return out end
    return out[1]
  end)
end

local customs = 0

--- A function whose gradient is given: h = custom_gradient(f, g).
-- @param f function(x...) -> y...
-- @param g function(dy..., x...) -> one gradient for each x
-- @return function(x...) -> y..., which adds the nodes of f
function gradients.custom_gradient(f, g)
  args.expect(f, "function", "custom_gradient: f")
  args.expect(g, "function", "custom_gradient: g")
  customs = customs + 1
  local name = "CustomGradient-" .. customs
  return function(...)
    local all = {}
    for i, x in ipairs{...} do all[i] = core.edge(x) end
    local n_in, ys = #all, table.pack(f(table.unpack(all)))
    for i = 1, ys.n do table.insert(all, i, core.edge(ys[i])) end
    local rule = name .. "-" .. ys.n .. "-" .. n_in
    if not gradients.rule(rule) then
      gradients.register_gradient(rule, function(op, ...)
        local given = {...}
        local inputs = op.inputs
        for i = 1, ys.n do given[i] = given[i] or ops.zeros_like(inputs[i]) end
        table.move(inputs, ys.n + 1, #inputs, ys.n + 1, given)
        local dx = {g(table.unpack(given))}
        for _ = 1, ys.n do table.insert(dx, 1, false) end
        return table.unpack(dx, 1, #inputs)
      end)
    end
    local out = core.add("IdentityN", {all}, {_gradient_op_type = rule})
    return table.unpack(out, 1, ys.n)
  end
end

return gradients
