--- flow/resource.lua - what barriers, accumulators, staging areas and mutexes
-- share: classes whose objects are handles of what outlives a step.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local shapes = require "tide.tensor.shape"

local resource = {}

local fail = errors.invalid

--- A metatable for objects of a kind; `hint` says what can be fetched instead.
function resource.class(kind, methods, hint)
  local meta = {__name = kind}
  function meta.__index(self, key)
    if methods[key] then return methods[key] end
    return fail("%s \"%s\" has no \"%s\"%s", kind, rawget(self, "name"),
                tostring(key),
                errors.did_you_mean(key, args.sorted_keys(methods)))
  end
  function meta.__fetch(self)
    fail("%s \"%s\" cannot be fetched; fetch %s", kind, self.name, hint)
  end
  return meta
end

--- Lists of dtypes and of shapes, each of one thing or of many.
-- @return two lists; shapes are nil where none are given
function resource.components(dtypes, of, what)
  if type(dtypes) == "string" then
    dtypes = {dtypes}
    if of and (of[1] == nil or type(of[1]) ~= "table") then of = {of} end
  end
  args.check_list(dtypes, what .. ": the dtypes")
  if #dtypes == 0 then fail("%s: give a dtype at least", what) end
  if not of then return dtypes end
  args.check_list(of, what .. ": the shapes")
  if #of ~= #dtypes then
    fail("%s: %d dtypes and %d shapes; give a shape for each, or none", what,
         #dtypes, #of)
  end
  local list = {}
  for i, shape in ipairs(of) do list[i] = shapes.of(shape) end
  return dtypes, list
end

--- x as a graph tensor of a dtype.
function resource.value(x, dtype, what)
  local edge = core.edge(x, not args.is_tensor(x) and dtype or nil)
  if edge.dtype ~= dtype then
    fail("%s is %s, given %s; use td.cast", what, dtype, edge.dtype)
  end
  return edge
end

--- x with a shape, or what is known of it.
function resource.shaped(x, shape)
  if shape then core.set_shape(x, shape) end
  return x
end

return resource
