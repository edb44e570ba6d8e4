--- control/higher_order.lua - loops over the slices of tensors: map_fn,
-- foldl, foldr, scan.
--
-- A tensor, or a structure (tables nested at will) of tensors, is gone through
-- slice by slice along the first axis. The slices lie in tensor arrays, and so
-- do results until they are stacked; iterations that do not depend on each
-- other overlap. The function is called once, to build the body.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local context = require "tide.control.context"
local loop = require "tide.control.loop_nodes"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local structure = require "tide.tensor.structure"
local tensor_array = require "tide.control.tensor_array"
local ops = require("tide.ops").ops

local higher_order = {}
local flatten, pack = structure.flatten, structure.pack

local fail = errors.invalid

-- ---- slices ---------------------------------------------------------------

local function inner(shape)
  return shape and shapes.of({table.unpack(shape, 2)})
end

-- The number of slices: of all the tensors one.
local function count(what, list)
  local n
  for _, x in ipairs(list) do
    if x.rank == 0 then
      fail("%s goes along the first axis of its tensors, given a scalar", what)
    end
    local size = x:dim(0)
    if type(size) == "number" then
      if n and n ~= size then
        fail("%s: the tensors have %d and %d slices; they need as many", what,
             n, size)
      end
      n = size
    end
  end
  return n or list[1]:dim(0)
end

local function slices_of(list, n)
  local arrays = {}
  for i, x in ipairs(list) do
    arrays[i] = tensor_array.tensor_array(x.dtype, n, {
      element_shape = inner(x.shape), name = "slices"}):unstack(x)
  end
  return arrays
end

local function read_all(arrays, i)
  local list = {}
  for k, a in ipairs(arrays) do list[k] = a:read(i) end
  return list
end

-- ---- the loop -------------------------------------------------------------

local options = {"parallel_iterations", "swap_memory", "back_prop", "name"}

-- Runs build(l, i) in a loop whose i goes from `first` to n - 1; build adds
-- further variables.
local function count_up(o, first, n, build)
  local l = loop.new(core.scope().prefix:sub(1, -2), {
    parallel = o.parallel_iterations or 10, swap = o.swap_memory,
    backward = o.back_prop ~= false})
  local i = loop.enter(l, core.edge(first))
  do
    local _ <close> = core.push(context.scope(l.place, i.merge.op))
    loop.go_on(l, context.capture(l.place, i.merge:less(n)))
  end
  loop.split(l, i)
  local _ <close> = core.push(context.scope(l.place, l.place.pivot))
  loop.close(l, i, i.inside + 1)
  build(l, i.inside)
end

-- A variable of the loop, which is not where it begins.
local function variable(l, initial, invariant)
  local _ <close> = core.push(context.scope_of(l.parent))
  local var = loop.enter(l, initial, invariant)
  return var, loop.split(l, var)
end

-- An array beside the loop, to be filled with tensors like x.
local function results_array(l, x, n)
  local _ <close> = core.push(context.scope_of(l.parent))
  return tensor_array.tensor_array(x.dtype, n, {element_shape = x.shape,
                                                name = "results"})
end

-- Puts y, a result of this iteration, at i of an array, which holds `first`, if
-- any, at `at` already; the array when the loop is over comes from the function
-- that is returned.
local function collect(l, i, y, n, first, at)
  y = context.capture(l.place, y)
  local array = results_array(l, y, n)
  if first then
    local _ <close> = core.push(context.scope_of(l.parent))
    array = array:write(at, first)
  end
  local var, inside = variable(l, array.flow)
  local after = tensor_array.behind(array, inside):write(i, y)
  loop.close(l, var, context.capture(l.place, after.flow))
  return function()
    return tensor_array.behind(array, loop.exit(l, var)):gather(ops.range(n))
  end
end

--- f of each slice: the results of f(x[0]), f(x[1]), ... stacked.
-- @param f function(slice) -> tensor or structure; iterations may overlap
-- @param xs a tensor, or a structure of tensors with as many slices; f is
-- given a structure alike
-- @param[opt] o parallel_iterations (10), swap_memory, back_prop, name
-- @return the stacked results, in the structure that f gives
-- @usage td.map_fn(function(x) return x * 2 end, td.constant{1, 2})  --> 2 4
function higher_order.map_fn(f, xs, o)
  args.expect(f, "function", "map_fn: the function")
  o = args.read(o, options, "map_fn")
  return scope.name_scope(o.name or "map", function()
    local list = flatten(xs, "map_fn: what is mapped")
    local n = count("map_fn", list)
    local arrays = slices_of(list, n)
    local result, collected = nil, {}
    count_up(o, 0, n, function(l, i)
      result = f(pack(xs, read_all(arrays, i)))
      for k, y in ipairs(flatten(result, "map_fn: results")) do
        collected[k] = collect(l, i, y, n)
      end
    end)
    local out = {}
    for k, finish in ipairs(collected) do out[k] = finish() end
    return pack(result, out)
  end)
end

-- ---- folds ----------------------------------------------------------------

-- Checks result k of f, which goes on as x goes in.
local function check_next(what, k, x, y)
  if y.dtype ~= x.dtype then
    fail("%s: value %d begins as %s, but the function gives %s; use td.cast",
         what, k, x.dtype, y.dtype)
  end
  if not shapes.allows(x.shape, y.shape) then
    fail("%s: value %d begins with shape %s, but the function gives %s", what,
         k, shapes.text(x.shape), shapes.text(y.shape))
  end
  return y
end

-- What a fold begins with, as a list; and the first slice that is left.
local function begin(what, xs, arrays, n, init, reverse)
  if init ~= nil then
    return flatten(init, what .. ": the initial value"), 0, init
  end
  if n == 0 then fail("%s of no slices needs an initial value", what) end
  local last = reverse and n - 1 or 0
  return read_all(arrays, last), 1, xs
end

-- foldl, foldr and scan, which gives all values on the way.
local function fold(what, f, xs, init, o)
  local list = flatten(xs, what .. ": what is folded")
  local n = count(what, list)
  local arrays = slices_of(list, n)
  local values, first, form = begin(what, xs, arrays, n, init, o.reverse)
  local vars, collected = {}, {}
  local l
  local function body(new, step)
    l = new
    local inside = {}
    for k, v in ipairs(values) do vars[k], inside[k] = variable(l, v) end
    local i = o.reverse and n - 1 - step or step
    local result = f(pack(form, inside), pack(xs, read_all(arrays, i)))
    local ys = flatten(result, what .. ": results")
    if #ys ~= #vars then
      fail("%s: there are %d values, but the function gives %d", what, #vars,
           #ys)
    end
    for k, y in ipairs(ys) do
      y = check_next(what, k, vars[k].merge, context.capture(l.place, y))
      loop.close(l, vars[k], y)
      if what == "scan" then
        collected[k] = collect(l, i, y, n, first == 1 and values[k],
                               o.reverse and n - 1 or 0)
      end
    end
  end
  count_up(o, first, n, body)
  local out = {}
  for k, var in ipairs(vars) do
    out[k] = collected[k] and collected[k]() or loop.exit(l, var)
  end
  return pack(form, out)
end

local fold_options = {"reverse", table.unpack(options)}

-- Is a table made of options only?
local function are_options(t)
  local known = {}
  for _, name in ipairs(fold_options) do known[name] = true end
  for key in pairs(t) do
    if not known[key] then return false end
  end
  return next(t) ~= nil
end

-- The initial value may be left out.
local function read_fold(what, init, o)
  if o == nil and args.plain(init) and are_options(init) then
    init, o = nil, init
  end
  return init, args.read(o, fold_options, what)
end

local function folding(what, reverse)
  return function(f, xs, init, o)
    args.expect(f, "function", what .. ": the function")
    init, o = read_fold(what, init, o)
    if reverse then o.reverse = true end
    return scope.name_scope(o.name or what, function()
      return fold(what, f, xs, init, o)
    end)
  end
end

--- f(...f(f(init, x[0]), x[1])..., x[n - 1]): the last value.
-- @param f function(value, slice) -> value
-- @param xs a tensor or a structure of tensors, gone through by slices
-- @param[opt] init the first value, a tensor or structure; without it x[0]
-- @param[opt] o as map_fn's
-- @usage td.foldl(td.add, td.constant{1, 2, 3})  --> 6
higher_order.foldl = folding("foldl", false)

--- The same from the last slice to the first.
-- @usage td.foldr(function(a, x) return x - a end, td.constant{1, 2, 3})  --> 2
higher_order.foldr = folding("foldr", true)

--- All values of a fold, stacked: f(init, x[0]), f(f(init, x[0]), x[1]), ...
-- @param f function(value, slice) -> value
-- @param xs a tensor or a structure of tensors, gone through by slices
-- @param[opt] init the first value, a tensor or structure; without it the
-- first result is x[0]
-- @param[opt] o reverse: from the last slice to the first, each value at the
-- place of its slice; and as map_fn's
-- @usage td.scan(td.add, td.constant{1, 2, 3})  --> 1 3 6
higher_order.scan = folding("scan", false)

return higher_order
