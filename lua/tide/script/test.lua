--- script/test.lua - td.test: comparing tensors, checking gradients.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local gradients = require "tide.autodiff.gradients"
local rng = require "tide.base.rng"
local ops = require("tide.ops").ops

local test = {}

local function fail(fmt, ...)
  errors.raise("failed_precondition", fmt, ...)
end

local function as_value(x)
  if core.kind(x) == "tensor" then return x end
  if core.kind(x) == "edge" or args.is_tensor(x) then
    return core.edge(x):eval(nil, {as_values = true})
  end
  return core.tensor(x)
end

-- All elements in order, in one list of numbers.
local function flatten(value)
  local flat = core.tensor(value, nil, {value.size}):table()
  for i, x in ipairs(flat) do
    if x == true then flat[i] = 1 elseif x == false then flat[i] = 0 end
  end
  return flat
end

local function differs(x, y, o)
  if x == y or (x ~= x and y ~= y) then return false end
  if type(x) ~= "number" or type(y) ~= "number" then return true end
  if x ~= x or y ~= y then return true end
  if math.abs(x) == math.huge or math.abs(y) == math.huge then return true end
  return math.abs(x - y) > o.atol + o.rtol * math.abs(y)
end

--- Raises unless a and b have one shape and elements no further apart than
-- atol + rtol |b| (1e-6 and 1e-5). NaN equals NaN. Returns true.
-- @usage td.test.close({1.0}, {1.0 + 1e-7})  --> true
function test.close(a, b, o)
  o = args.read(o, {"atol", "rtol"}, "test.close")
  o.atol, o.rtol = o.atol or 1e-6, o.rtol or 1e-5
  a, b = as_value(a), as_value(b)
  if a.shape ~= b.shape then
    fail("shapes differ: %s and %s", tostring(a.shape), tostring(b.shape))
  end
  local x, y = flatten(a), flatten(b)
  local wrong, first = 0, nil
  for i = 1, #x do
    if differs(x[i], y[i], o) then
      wrong, first = wrong + 1, first or i
    end
  end
  if wrong == 0 then return true end
  fail("%d of %d elements differ, the first at %d: %s and %s", wrong, #x,
       first - 1, tostring(x[first]), tostring(y[first]))
end

-- ---- gradients ------------------------------------------------------------

-- y weighted by fixed random numbers, so that no element cancels another; by
-- itself where its size is not known.
local function weigh(y, random)
  if not y.size then return ops.sum(y * (y / 2 + 1)) end
  local weights = {}
  for k = 1, y.size do weights[k] = random:uniform(0.5, 1.5) end
  return ops.sum(ops.reshape(y, {-1}) * core.tensor(weights, y.dtype, {y.size}))
end

local function weigh_all(ys, random)
  local terms = {}
  for i, y in ipairs(ys) do terms[i] = weigh(y, random) end
  return ops.add_n(terms)
end

-- d loss / d xs[k][i], by central differences.
local function numeric(loss, values, k, i, delta)
  local value = values[k]
  local list = flatten(value)
  local function at(shift)
    local moved, given = table.move(list, 1, #list, 1, {}), {}
    moved[i] = moved[i] + shift
    for j, v in ipairs(values) do given[j] = v end
    given[k] = core.tensor(core.tensor(moved, value.dtype, {#list}), nil,
                           value.shape)
    return loss(table.unpack(given))
  end
  return (at(delta) - at(-delta)) / (2 * delta)
end

-- What a placeholder for v is told of its shape: "all", "rank" or "nothing".
local function told(v, known)
  if known == "nothing" then return nil end
  local shape = {}
  for i, n in ipairs(v.shape) do shape[i] = known == "rank" and -1 or n end
  return shape
end

local function build(f, values, known)
  local xs = {}
  for i, v in ipairs(values) do
    xs[i] = ops.placeholder(v.dtype, told(v, known))
  end
  local ys = table.pack(f(table.unpack(xs)))
  local edges = {}
  for i = 1, ys.n do
    if args.is_tensor(ys[i]) and ys[i].dtype:match("float") then
      edges[#edges + 1] = core.edge(ys[i])
    end
  end
  return xs, edges
end

-- Largest |a - n| / max(1, |a|, |n|) over one argument.
local function largest_error(analytic, loss, values, k, delta)
  local worst = 0.0
  for i, a in ipairs(analytic) do
    local n = numeric(loss, values, k, i, delta)
    local scale = math.max(1, math.abs(a), math.abs(n))
    worst = math.max(worst, math.abs(a - n) / scale)
    if a ~= a then worst = math.huge end
  end
  return worst
end

--- How far the gradient of f is from central differences: the largest relative
-- error over all elements of all arguments. Variables that f makes are as they
-- begin.
-- @param f function(x...) -> y..., of float tensors
-- @param x a value or literal, or a list of them
-- @param[opt] o delta (1e-5 in float64, 1e-2 else); dtype of literals
-- (float64); known: what f is told of the shapes of x: "all", "rank" or
-- "nothing"
-- @usage td.test.gradient(td.square, {1.0, 2.0}) < 1e-6  --> true
function test.gradient(f, x, o)
  o = args.read(o, {"delta", "dtype", "seed", "known"}, "test.gradient")
  local list = type(x) == "table" and core.kind(x[1]) == "tensor" and x or {x}
  local values = {}
  for i, v in ipairs(list) do
    values[i] = core.kind(v) == "tensor" and v
                or core.tensor(v, o.dtype or "float64")
  end
  local graph = core.graph_new()
  local _ <close> = core.push{graph = graph}
  local xs, ys = build(f, values, o.known or "all")
  local total = weigh_all(ys, rng.new(o.seed or 1))
  local found = gradients.gradients({total}, xs)
  local session <close> = core.session(graph, {})
  session:init()
  local loss = session:callable({total}, xs)
  local worst = 0.0
  for k, g in ipairs(found) do
    local v = values[k]
    local delta = o.delta or (v.dtype == "float64" and 1e-5 or 1e-2)
    local analytic = {}
    if g then
      local value = session:core_run({core.edge(g)}, xs, values,
                                     {as_values = true})[1]
      analytic = flatten(value)
    else
      for i = 1, v.size do analytic[i] = 0.0 end
    end
    worst = math.max(worst, largest_error(analytic, loss, values, k, delta))
  end
  return worst
end

return test
