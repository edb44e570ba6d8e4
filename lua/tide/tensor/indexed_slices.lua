--- tensor/indexed_slices.lua - a gradient that touches few rows.
--
-- `values[k]` belongs to row `indices[k]` of a tensor of shape `dense_shape`;
-- rows that occur twice add up. Gradients of gathers are such; optimizers
-- update these rows only. Used as a tensor it is made dense.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local tensor = require "tide.tensor.tensor"
local ops = require("tide.ops").ops

local indexed_slices = {}
local meta = {}
local methods = {}

--- A sparse gradient.
-- @param values {k, ...}  @param indices {k}, int32 or int64
-- @param dense_shape the shape of the whole: a list of sizes or a tensor
function indexed_slices.new(values, indices, dense_shape)
  return setmetatable({values = values, indices = indices,
                       dense_shape = dense_shape}, meta)
end

--- Is x one?
function indexed_slices.is(x)
  return type(x) == "table" and getmetatable(x) == meta
end

-- Number of rows of the whole.
local function rows(self)
  local shape = self.dense_shape
  if type(shape) == "table" then return shape[1] end
  return shape[0]
end

--- The whole tensor, zeros where nothing is.
function methods:dense()
  local n = rows(self)
  if type(n) ~= "number" then n = ops.cast(n, "int32") end
  return core.op "UnsortedSegmentSum"(self.values, self.indices, n)
end
meta.__tensor = methods.dense

--- The same with each row once.
function methods:unique()
  local seen, place = core.op "Unique"(self.indices)
  local values = core.op "UnsortedSegmentSum"(self.values, place,
                                              ops.shape(seen)[0])
  return indexed_slices.new(values, seen, self.dense_shape)
end

--- The same with values = f(values): for what acts on each element.
function methods:map(f)
  return indexed_slices.new(f(self.values), self.indices, self.dense_shape)
end

--- One sparse gradient out of several: rows one after the other.
function indexed_slices.concat(list)
  if #list == 1 then return list[1] end
  local values, indices, wide = {}, {}, false
  for i, s in ipairs(list) do
    values[i], indices[i] = s.values, s.indices
    wide = wide or s.indices.dtype == "int64"
  end
  for i, x in ipairs(indices) do
    indices[i] = wide and ops.cast(x, "int64") or x
  end
  return indexed_slices.new(ops.concat(values, 0), ops.concat(indices, 0),
                            list[1].dense_shape)
end

-- The shape where it is known while the graph is built, else nil.
local function constant_shape(self)
  local shape = rawget(self, "dense_shape")
  return not core.kind(shape) and shape or nil
end

function meta.__index(self, key)
  if methods[key] then return methods[key] end
  if key == "dtype" then return rawget(self, "values").dtype end
  if key == "shape" then return constant_shape(self) end
  if type(key) ~= "string" or not key:match("^[%a_][%w_]*$") then
    return methods.dense(self)[key]
  end
  return tensor.methods[key]
end

--- session:run gives the three parts.
function meta.__fetch(self)
  local shape = self.dense_shape
  return {values = self.values, indices = self.indices,
          dense_shape = type(shape) == "userdata" and shape or nil}
end

function meta.__tostring(self)
  return ("IndexedSlices of %s"):format(tostring(self.values))
end

tensor.install(meta)

return indexed_slices
