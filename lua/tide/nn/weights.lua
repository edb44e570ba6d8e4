--- nn/weights.lua - the variables of a cell or layer.
--
-- A cell or layer is an object that the first call makes variables for, by
-- get_variable in a variable scope of its name, and that later calls find them
-- in: calling it again is how weights are shared.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local shapes = require "tide.tensor.shape"
local variable_scope = require "tide.variables.variable_scope"

local weights = {}

--- Raises an error about `self`, by the name of its variables.
function weights.fail(self, fmt, ...)
  local name = self.scope or self.name
  core.error("invalid_argument", self.kind .. (name and (" \"%s\""):format(name)
    or "") .. ": " .. fmt:format(...))
end

-- "2", "2 to 4", "2 or more"
local function ranks_text(from, to)
  if to == math.huge then return from .. " or more" end
  return to and to > from and from .. " to " .. to or tostring(from)
end

--- x as a graph tensor of one of the ranks from..to.
function weights.input(self, x, from, to)
  if x == nil then weights.fail(self, "a call takes a tensor, given nil") end
  x = core.edge(x, not args.is_tensor(x) and self.dtype or nil)
  if x.rank and (x.rank < from or x.rank > (to or from)) then
    weights.fail(self, "its input has rank %s, given shape %s",
                 ranks_text(from, to), shapes.text(x.shape))
  end
  return x
end

--- The size of an axis of x, which variables are made by.
function weights.size(self, x, axis)
  local shape = x.shape
  if shape and (axis >= #shape or axis < -#shape) then
    weights.fail(self, "its input has no axis %d, given shape %s", axis,
                 shapes.text(shape))
  end
  local size = shape and shape[(axis < 0 and #shape or 0) + axis + 1]
  if not size or size < 0 then
    weights.fail(self, "axis %d of its input must be known, given shape %s; "
      .. "x:set_shape tells it", axis, shapes.text(shape))
  end
  return size
end

local function options(self, row, dtype)
  local o = {dtype = dtype}
  for k, v in pairs(row) do
    if type(k) == "string" then o[k] = v end
  end
  if o.trainable == nil then o.trainable = self.trainable end
  return o
end

--- Makes the variables of self, in the variable scope that is open.
-- @param rows list of {name, shape, initializer =, regularizer =, trainable =}
-- @param dtype
function weights.make(self, rows, dtype)
  local list, made = {}, {}
  for i, row in ipairs(rows) do
    list[i] = variable_scope.get_variable(row[1], row[2],
                                          options(self, row, dtype))
    made[row[1]] = list[i]
  end
  self.variables, self.made, self.dtype = list, made, dtype
  self.scope = variable_scope.name()
end

--- The variables' values by name, each read when it is first asked for.
function weights.values(self)
  return setmetatable({}, {__index = function(w, name)
    local v = self.made[name]
    w[name] = v and v:read()
    return rawget(w, name)
  end})
end

--- The same, all read now.
function weights.read(self)
  local w = {}
  for name, v in pairs(self.made) do w[name] = v end
  for _, name in ipairs(args.sorted_keys(w)) do w[name] = w[name]:read() end
  return w
end

return weights
