--- train/lbfgs.lua - td.train.lbfgs: limited-memory BFGS as nodes of the graph.
--
-- One run of the op is one evaluation of loss and gradient. Where the loss fell
-- enough (Armijo), the last change of the variables and of the gradient is
-- remembered and a new direction taken; where not, the variables go back half
-- of the way. So the line search is spread over runs, and needs the same loss
-- in each: feed all examples, not batches. Source: Nocedal 1980.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local optimizer = require "tide.train.optimizer"
local scope = require "tide.graph.scope"
local ops = require("tide.ops").ops

local train = {}
local lbfgs, methods = optimizer.class("LBFGS", {})

local SHARE = 1e-4     -- of the fall that the slope promises (Armijo)
local SHORTEST = 2^-30 -- a step this short is given up

local fail = errors.invalid

-- ---- many variables as one vector -----------------------------------------

local function flat(list)
  local parts = {}
  for i, x in ipairs(list) do parts[i] = ops.reshape(x, {-1}) end
  return ops.concat(parts, 0)
end

-- Assigns to each variable its part of the vector x.
local function assign_parts(list, x)
  local done, from = {}, 0
  for i, v in ipairs(list) do
    local own = ops.slice(x, {from}, {v.size})
    done[i] = v:assign(ops.reshape(own, v.shape)).op
    from = from + v.size
  end
  return done
end

local function dot(a, b) return ops.sum(a * b) end

-- a / b where b > 0, else 0.
local function over(a, b)
  local good = b:greater(0)
  return ops.where(good, a / ops.where(good, b, ops.ones_like(b)),
                   ops.zeros_like(b))
end

-- Newton's direction against g, by the last changes of x (rows of S) and of g
-- (rows of Y), oldest first; rows of zeros are not there yet.
local function direction(g, S, Y, memory)
  local s, y, alpha = {}, {}, {}
  for i = 0, memory - 1 do s[i], y[i] = S[i], Y[i] end
  for i = memory - 1, 0, -1 do
    alpha[i] = over(dot(s[i], g), dot(s[i], y[i]))
    g = g - alpha[i] * y[i]
  end
  local newest = memory - 1
  local length = over(dot(s[newest], y[newest]), dot(y[newest], y[newest]))
  g = g * ops.where(length:greater(0), length, ops.ones_like(length))
  for i = 0, memory - 1 do
    local beta = over(dot(y[i], g), dot(s[i], y[i]))
    g = g + (alpha[i] - beta) * s[i]
  end
  return -g
end

-- ---- what is kept between runs --------------------------------------------

-- Variables by name; x, g, f: of the point the step started from; d: its
-- direction; slope: of the loss along it; t: its length; steps: taken so far.
local function make_state(beside, n, memory)
  local function make(shape, name, dtype)
    return optimizer.own_variable(function()
      return ops.zeros(shape, {dtype = dtype or beside.dtype})
    end, beside.name .. "/LBFGS/" .. name, beside)
  end
  return {x = make({n}, "x"), g = make({n}, "g"), d = make({n}, "d"),
          S = make({memory, n}, "S"), Y = make({memory, n}, "Y"),
          f = make({}, "f"), slope = make({}, "slope"), t = make({}, "t"),
          steps = make({}, "steps", "int32")}
end

local function read_all(state)
  local was = {}
  for _, name in ipairs(args.sorted_keys(state)) do
    was[name] = state[name]:read()
  end
  return was
end

-- rows with `new` as the last one.
local function push(rows, new)
  return ops.concat({rows["1:"], ops.expand_dims(new, 0)}, 0)
end

-- ---- one evaluation -------------------------------------------------------

-- From an accepted point x with loss f and gradient g: the next state.
local function advance(self, was, x, f, g)
  local first = was.steps:equal(0)
  local s, y = x - was.x, g - was.g
  -- Only what curves upwards keeps the matrix positive.
  local curved = ops.logical_and(ops.logical_not(first),
    dot(s, y):greater(1e-10 * dot(y, y)))
  local S = ops.where(curved, push(was.S, s), was.S)
  local Y = ops.where(curved, push(was.Y, y), was.Y)
  local d = direction(g, S, Y, self.memory)
  local slope = dot(g, d)
  local down = slope:less(0)
  d = ops.where(down, d, -g)
  slope = ops.where(down, slope, -dot(g, g))
  -- Without curvature nothing tells how far: no further than 1 in all.
  local short = ops.minimum(1, 1 / ops.maximum(ops.sum(ops.abs(g)), 1e-30))
  local lr = optimizer.as_dtype(self.settings.lr, x.dtype)
  local t = lr * ops.where(was.steps:equal(0), short, ops.ones_like(short))
  return {x = x, g = g, f = f, S = S, Y = Y, d = d, slope = slope, t = t,
          steps = was.steps + 1}
end

-- From a point that is no better: half of the way, or, when that is nothing,
-- all anew from where the step began.
local function retreat(was)
  local t = was.t * 0.5
  local lost = t:less(SHORTEST)
  local next = {}
  for name, x in pairs(was) do next[name] = x end
  next.t = ops.where(lost, ops.zeros_like(t), t)
  next.steps = ops.where(lost, ops.zeros_like(was.steps), was.steps)
  next.S = was.S * ops.cast(ops.logical_not(lost), was.S.dtype)
  next.Y = was.Y * ops.cast(ops.logical_not(lost), was.Y.dtype)
  return next
end

local function evaluate(self, loss, list, grads, state)
  local x, g, was = flat(list), flat(grads), read_all(state)
  local promised = was.f + SHARE * was.t * was.slope
  local good = ops.logical_or(was.steps:equal(0), loss:less_equal(promised))
  local forward, back = advance(self, was, x, loss, g), retreat(was)
  local next, done = {}, {}
  for _, name in ipairs(args.sorted_keys(state)) do
    next[name] = ops.where(good, forward[name], back[name])
  end
  -- All reads come before the first write.
  local ready = {}
  for name, tensor in pairs(next) do ready[#ready + 1] = {name, tensor.op} end
  table.sort(ready, function(a, b) return a[1] < b[1] end)
  for i, pair in ipairs(ready) do ready[i] = pair[2] end
  local _ <close> = core.push{controls = ready}
  for _, name in ipairs(args.sorted_keys(state)) do
    done[#done + 1] = state[name]:assign(next[name]).op
  end
  for _, op in ipairs(assign_parts(list, next.x + next.t * next.d)) do
    done[#done + 1] = op
  end
  return done
end

-- ---- the optimizer --------------------------------------------------------

-- Variables that loss depends on, and their gradients, dense.
local function depending(self, loss, variables)
  local list, grads = {}, {}
  for _, row in ipairs(self:compute_gradients(loss, {variables = variables})) do
    local v = row.variable
    if row.gradient then
      if not v.size then
        fail("lbfgs: variable \"%s\" has no known shape", v.name)
      end
      list[#list + 1], grads[#grads + 1] = v, core.edge(row.gradient)
      if v.dtype ~= list[1].dtype then
        fail("lbfgs takes variables of one dtype: \"%s\" is %s, \"%s\" is %s",
             list[1].name, list[1].dtype, v.name, v.dtype)
      end
    end
  end
  if #list == 0 then
    fail("lbfgs: no variable has a gradient; does the loss depend on them?")
  end
  return list, grads
end

function methods:minimize(loss, o)
  o = args.read(o, {"variables", "global_step", "name"}, "minimize")
  if not args.is_tensor(loss) then
    fail("lbfgs: the loss is a graph tensor, not %s", args.what(loss))
  end
  loss = core.edge(loss)
  if loss.rank and loss.rank > 0 then
    fail("lbfgs minimizes a scalar, given a loss of shape %s; take its :mean()",
         tostring(loss.shape))
  end
  local list, grads = depending(self, loss, o.variables)
  local n = 0
  for _, v in ipairs(list) do n = n + v.size end
  local state = make_state(list[1], n, self.memory)
  return scope.name_scope(o.name or self.name, function()
    local done = evaluate(self, loss, list, grads, state)
    return self:count(done, o.global_step)
  end)
end

function methods.apply_gradients()
  fail("lbfgs needs the loss as well as its gradients: use :minimize(loss)")
end

--- L-BFGS: quasi-Newton steps from the last few gradients, for a loss that is
-- the same in every run. lr (1) is the first length tried. Option memory (10),
-- how many changes are kept: 2 memory vectors as long as all variables.
-- @usage local v = td.variable({3.0, -2.0}, "v")
-- local step = td.train.lbfgs():minimize(((v - {1.0, 1.0}) ^ 2):sum())
-- local sess = td.session()
-- sess:init()
-- for _ = 1, 10 do sess:run(step) end
-- sess:run(v):round()  --> 1 1
function train.lbfgs(lr, o)
  o = args.read(o, {"memory"}, "lbfgs")
  local memory = o.memory or 10
  if math.type(memory) ~= "integer" or memory < 1 then
    fail("lbfgs: memory must be an integer of 1 or more")
  end
  local self = lbfgs{lr = args.expect_number(lr or 1.0,
                                             "lbfgs: the learning rate")}
  self.memory = memory
  return self
end

return train
