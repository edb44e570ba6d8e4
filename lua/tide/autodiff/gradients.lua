--- autodiff/gradients.lua - derivatives of a graph, added to it as nodes.
--
-- What users call. The work is that of backprop.lua, which goes from ys back to
-- xs, and of the rules (rules.lua, grad/*.lua), which turn gradients of an op's
-- outputs into gradients of its inputs.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local context = require "tide.control.context"
local rules = require "tide.autodiff.rules"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local slices = require "tide.tensor.indexed_slices"
local backprop = require "tide.autodiff.backprop"
local ops = require("tide.ops").ops

backprop.constructs.cond = autoload "tide.autodiff.cond"
backprop.constructs.while_loop = autoload "tide.autodiff.while_loop"

--- Declares the gradient of an op type, or of a name that gradient_override_map
-- uses.
-- @param type "MyOp"
-- @param rule function(op, dy, ...) -> one gradient for each of op.inputs, or
-- false; dy are the gradients of op.outputs, false where there is none
-- @function gradients.register_gradient(type, rule)

--- Inside f, ops of type A get the gradient registered as B: {A = "B"}.
-- @function gradients.gradient_override_map(map, f, ...)

local gradients = {
  rule = rules.get,
  register_gradient = rules.register,
  gradient_override_map = rules.override_map,
}

local fail = errors.raise

-- ---- what there is to differentiate ---------------------------------------

-- Variables stand for their handles: reads and gathers pass gradients on.
local function as_edge(x, what)
  if type(x) == "table" and rawget(x, "handle")
     and not rawget(x, "flow") then return x.handle end
  if core.kind(x) == "edge" then return x end
  if args.is_tensor(x) and core.kind(x) ~= "tensor" then return core.edge(x) end
  fail("invalid_argument", "gradients: %s must be a graph tensor or variable, "
    .. "not %s", what, core.kind(x) == "tensor" and "a value"
    or core.kind(x) or type(x))
end

local function as_list(x, what)
  local list = {}
  if x == nil then
    fail("invalid_argument", "gradients(ys, xs): the %s are missing", what)
  end
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

local function first_gradients(ys, grad_ys, colocate)
  local dys = {}
  for i, y in ipairs(ys) do
    local g = grad_ys and grad_ys[i]
    if not dtypes.differentiable(y.dtype) or y.dtype == "variant" and not g then
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
    dys[i] = g or colocate and scope.colocate_with(y, ops.ones_like, y)
      or ops.ones_like(y)
  end
  return dys
end

-- Until it is closed, rules.source is the name of this call of gradients.
local function name_source()
  local outer = rules.source
  rules.source = core.scope().prefix
  return setmetatable({}, {__close = function() rules.source = outer end})
end

-- A gradient is taken with respect to what can be seen from here.
local function check_places(xs)
  local place = context.current()
  for _, x in ipairs(xs) do
    if not context.holds(place, x.op) then
      local inner = context.of(x.op)
      fail("invalid_argument", "gradients: \"%s\" is inside %s \"%s\" and ys "
        .. "are outside; take the gradient with respect to what is brought in, "
        .. "or call td.gradients inside", x.name, inner.kind == "w"
        and "the loop" or "the branch", inner.name)
    end
  end
end

--- The derivatives of the sum of ys with respect to xs.
-- @param ys graph tensors, or one
-- @param xs graph tensors and variables, or one
-- @param[opt] o grad_ys: gradients of ys (ones); stop_gradients: tensors taken
-- as constant; colocate: each gradient is on the device of the op that it is
-- of, not where it comes cheapest (TensorFlow: colocate_gradients_with_ops);
-- name
-- @return for each x a graph tensor, sparse indexed slices {values, indices,
-- dense_shape}, or false where ys do not depend on x; a list for a list
-- @raise not_found for an op without a gradient
-- @usage local x = td.constant(3.0)
-- td.gradients(x * x, x)  --> 6
function gradients.gradients(ys, xs, o)
  o = args.read(o, {"grad_ys", "stop_gradients", "colocate", "name"},
                "gradients")
  args.expect_all(o, {colocate = "boolean"})
  local y_list, x_list = as_list(ys, "ys"), as_list(xs, "xs")
  local stop = set_of(as_list(o.stop_gradients or {}, "stop_gradients"))
  local grad_ys = o.grad_ys
  if grad_ys and not args.plain(grad_ys) then grad_ys = {grad_ys} end
  if grad_ys and #grad_ys ~= #y_list then
    fail("invalid_argument", "gradients: %d grad_ys for %d ys", #grad_ys,
         #y_list)
  end
  check_places(x_list)
  local place = context.current()
  for i, y in ipairs(y_list) do y_list[i] = context.capture(place, y) end
  return scope.name_scope(o.name or "gradients", function()
    local _ <close> = name_source()
    local dys = first_gradients(y_list, grad_ys, o.colocate)
    local out = backprop.walk(y_list, dys, x_list,
      {stop = stop, within = {}, colocate = o.colocate})
    if args.plain(xs) then return out end
    return out[1]
  end)
end

local customs = 0

--- A function whose gradient is given: h = custom_gradient(f, g).
-- @param f function(x...) -> y...
-- @param g function(dy..., x...) -> one gradient for each x
-- @return function(x...) -> y..., which adds the nodes of f
-- @usage local function half(dy, x) return dy * x end
-- local f = td.custom_gradient(td.square, half)
-- td.grad(f)(3.0)  --> 3
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
    if not rules.get(rule) then
      rules.register(rule, function(op, ...)
        local given = {...}
        local inputs = op.inputs
        for i = 1, ys.n do given[i] = given[i] or ops.zeros_like(inputs[i]) end
        table.move(inputs, ys.n + 1, #inputs, ys.n + 1, given)
        local dx = table.pack(g(table.unpack(given)))
        if dx.n ~= n_in then
          fail("invalid_argument", "custom_gradient: the gradient gives %d "
            .. "results for %d arguments", dx.n, n_in)
        end
        local all_dx = {}
        for i = 1, #inputs do all_dx[i] = i > ys.n and dx[i - ys.n] or false end
        return table.unpack(all_dx, 1, #inputs)
      end)
    end
    local out = core.add("IdentityN", {all}, {_gradient_op_type = rule})
    return table.unpack(out, 1, ys.n)
  end
end

return gradients
