--- tensor/tensor.lua - what values, graph tensors and ops can do in Lua.
--
-- Values and graph tensors share their methods, which are the ops; the binding
-- looks here for whatever is no field.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local namespace = require "tide.ops"
local slice = require "tide.tensor.slice"

local elsewhere = autoload "tide.base.elsewhere"

require "tide.ops.math" -- the operators

local ops = namespace.ops
local tensor = {}

local fields = {"shape", "dtype", "size", "rank", "item", "table", "bytes",
                "rows", "name", "op", "graph", "origin", "device", "dim",
                "eval", "set_shape"}

-- ---- methods --------------------------------------------------------------

local methods = {}

--- The number, boolean or string of a value of rank 0.
-- @function methods:item()
-- @usage td.tensor(5):item()  --> 5

--- A value as nested Lua tables.
-- @function methods:table()
-- @usage td.tensor{{1, 2}, {3, 4}}:table()[2][1]  --> 3

--- The bytes of a value, row by row, as a string.
-- @function methods:bytes()
-- @usage #td.tensor{1, 2}:bytes()  --> 8

--- Walks the rows of a value: for i, row in t:rows() do; i counts from 0.
-- @function methods:rows()

--- The size of an axis, counted from 0, negative from the end: a number when it
-- is known, else a graph scalar.
function methods.dim(x, axis)
  local shape = x.shape
  if not shape or math.type(axis) ~= "integer" then
    return ops.shape(x)[axis]
  end
  local size = shape[(axis < 0 and #shape or 0) + axis + 1]
  if not size then
    core.error("invalid_argument", ("axis %d of a tensor of rank %d"):format(
      axis, #shape))
  end
  return size >= 0 and size or ops.shape(x)[axis]
end

--- Narrows what is known of the shape of a graph tensor; returns it.
function methods.set_shape(x, shape)
  core.set_shape(x, shape)
  return x
end

local ipairs_step = ipairs{}

-- Is the running [] handler called by ipairs? Its step is a function of C, two
-- levels up: the handler, the binding's __index, the step.
local function called_by_ipairs()
  local info = debug.getinfo(4, "f")
  return info and info.func == ipairs_step
end

methods["[]"] = function(x, key)
  if key == 1 and called_by_ipairs() then
    core.error("invalid_argument",
      "ipairs does not walk a tensor, which counts from 0; use "
      .. "for i, row in t:rows() do")
  end
  return slice.take(x, key)
end

-- What only values have: a graph tensor has numbers when it is run.
local of_values = {item = true, table = true, bytes = true, rows = true}

local function missing(name)
  if of_values[name] then
    core.error("invalid_argument", ("a graph tensor has no %s(): it has a "
      .. "value only in a run; x:eval() or sess:run(x) give it"):format(name))
  end
  if rawget(ops, name) then
    core.error("invalid_argument", ("no field or method \"%s\" on a tensor; "
      .. "it is a function, td.%s"):format(name, name))
  end
  local known = table.move(fields, 1, #fields, 1, {})
  local all = namespace.names()
  table.move(all, 1, #all, #known + 1, known)
  core.error("invalid_argument", ("no field or method \"%s\" on a tensor%s")
    :format(name, elsewhere.hint(name, known)))
end

setmetatable(methods, {__index = function(t, name)
  local f = namespace.method(name)
  if not f then missing(name) end
  rawset(t, name, f)
  return f
end})

tensor.methods = methods

-- ---- metamethods ----------------------------------------------------------

local meta = {}

namespace.install_operators(meta)

function meta.__len()
  core.error("invalid_argument",
    "a tensor has no #; use t:dim(0), t.size or #t.shape")
end

function meta.__pairs()
  core.error("invalid_argument",
    "pairs does not walk a tensor; use for i, row in t:rows() do")
end

function meta.__concat(a, b)
  return tostring(a) .. tostring(b)
end

-- Numbers compare; tensors have methods for it.
local function comparison(name, compare)
  return function(a, b)
    local function scalar(x)
      if type(x) == "number" then return x end
      if core.kind(x) == "tensor" and x.rank == 0 then return x:item() end
      core.error("invalid_argument", ("Lua's comparison gives one boolean; "
        .. "compare element by element with a:%s(b), or read numbers with "
        .. ":item()"):format(name))
    end
    return compare(scalar(a), scalar(b))
  end
end

meta.__lt = comparison("less", function(a, b) return a < b end)
meta.__le = comparison("less_equal", function(a, b) return a <= b end)

--- Gives a metatable of an object with `__tensor` all that tensors have.
function tensor.install(target)
  for name, f in pairs(meta) do target[name] = f end
end

-- The binding makes the metatables; the operators are written here.
local registry = debug.getregistry()
tensor.install(registry["tide.tensor"])
tensor.install(registry["tide.edge"])
core.set_methods("tensor", methods)
core.set_methods("edge", methods)

-- ---- ops ------------------------------------------------------------------

tensor.op_methods = {}
core.set_methods("op", tensor.op_methods)

--- An array that never changes: tensor(data, dtype, shape).
-- @param data numbers, booleans or strings, in nested tables; or a value
-- @param[opt] dtype by default int32 for integers, float32 for floats
-- @param[opt] shape the same elements in another shape
-- @usage td.tensor({1, 2, 3, 4}, "float64", {2, 2})  --> {2, 2} 1 2 3 4
function tensor.tensor(data, dtype, shape)
  return core.tensor(data, dtype, shape)
end

--- Is x a graph tensor, a value, or a variable?
tensor.is_tensor = args.is_tensor

return tensor
