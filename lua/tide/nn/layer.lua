--- nn/layer.lua - what all layers of td.layers are made of.
--
-- A layer is a function of a tensor that keeps its variables: the first call
-- makes them, named after the layer, and every further call shares them. A
-- class says what differs: its arguments, the variables that an input needs,
-- and the ops. td.layers.NAME(arguments) is a layer, td.layers.NAME(x,
-- arguments) makes one and applies it.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local variable_scope = require "tide.variables.variable_scope"
local weights = require "tide.nn.weights"

local layer = {fail = weights.fail, size = weights.size}

-- ---- arguments ------------------------------------------------------------

-- Is x the table or name that ends the arguments?
local function ends(x)
  if type(x) == "string" then return true end
  return args.plain(x) and (args.has_names(x) or next(x) == nil)
end

local common = {"name", "trainable", "reuse"}

-- Options of the same name are alike in all layers.
local function check_options(self)
  local kind = self.kind
  for _, list in ipairs{self.booleans, {"trainable"}} do
    for _, key in ipairs(list) do
      if self[key] ~= nil then
        args.expect(self[key], "boolean", kind .. ": " .. key)
      end
    end
  end
  for _, key in ipairs(args.sorted_keys(self)) do
    if key:find "_regularizer$" and type(self[key]) ~= "function" then
      layer.fail(self, "%s must be a function such as td.regularizers.l2(0.01),"
        .. " not %s", key, args.what(self[key]))
    end
  end
end

-- A number that was written as a string would be taken for a name.
local function check_end(class, list, n)
  local key, x = class.positions[n + 1], list[n + 1]
  if key and type(x) == "string" and tonumber(x) then
    core.error("invalid_argument", ("%s: %s must be a number, not the string "
      .. "\"%s\""):format(class.kind, key, x))
  end
end

-- An object of the class from the arguments without the tensor. Positions may
-- be given by name, too.
local function new(class, list)
  local given, n = {}, 0
  for i, key in ipairs(class.positions) do
    if i > list.n or ends(list[i]) then break end
    given[key], n = list[i], i
  end
  if list.n > n + 1 then
    core.error("invalid_argument", ("%s takes %s and options at most, given %d "
      .. "arguments"):format(class.kind, #class.positions == 0 and "a tensor"
      or "a tensor, " .. table.concat(class.positions, ", "), list.n))
  end
  check_end(class, list, n)
  local known = {table.unpack(class.positions)}
  for _, more in ipairs{class.options, common} do
    table.move(more, 1, #more, #known + 1, known)
  end
  local self = args.read(list[n + 1], known, class.kind)
  for key, x in pairs(given) do self[key] = x end
  self.variables = {}
  setmetatable(self, class)
  check_options(self)
  if class.check then class.check(self) end
  return self
end

--- Raises for an option of another type: `types` is {axis = "integer"}.
function layer.expect(self, types)
  for _, key in ipairs(args.sorted_keys(types)) do
    if self[key] ~= nil then
      args.expect(self[key], types[key], self.kind .. ": " .. key)
    end
  end
end

--- Option `key` as a number, `default` when absent, from `low` to `high` where
-- these are given.
function layer.within(self, key, default, low, high)
  if self[key] == nil then self[key] = default end
  args.expect_number(self[key], self.kind .. ": " .. key, low, high)
end

--- Option `key` as a whole number of at least 1.
function layer.count(self, key)
  local x = self[key]
  if math.type(x) ~= "integer" or x < 1 then
    layer.fail(self, "%s is a whole number of at least 1, not %s", key,
               type(x) == "number" and x or args.what(x))
  end
end

-- ---- the call -------------------------------------------------------------

-- Do the variables fit what this input needs?
local function check_rows(self, rows, x)
  local first = rows[1] and self.variables[1]
  if first and first.graph ~= x.graph then
    layer.fail(self, "its variables (made at %s) belong to another graph; make "
      .. "a new layer in this one", first.origin)
  end
  if rows[1] and self:variables_dtype(x) ~= self.dtype then
    layer.fail(self, "its variables (made at %s) are %s, given %s",
      self.variables[1].origin, self.dtype, x.dtype)
  end
  for _, row in ipairs(rows) do
    local v = self.made[row[1]]
    if not shapes.compatible(v.shape, row[2]) then
      layer.fail(self, "its %s (made at %s) has shape %s, but an input of "
        .. "shape %s needs %s", row[1], v.origin, shapes.text(v.shape),
        shapes.text(x.shape), shapes.text(row[2]))
    end
  end
end

-- Weights are floats, and what they multiply.
local function check_dtype(self, x, rows)
  if rows[1] and not self.takes_ids and not dtypes.is_float(x.dtype) then
    layer.fail(self, "its input is of floats, given %s; cast it: "
      .. "x:cast \"float32\"", x.dtype)
  end
end

-- `training` as a boolean or a graph scalar of bool.
local function check_training(self, training)
  if type(training) == "boolean" then return end
  if not args.is_tensor(training) then
    layer.fail(self, "training is a boolean or a graph scalar, not a %s",
               args.what(training))
  end
  if training.dtype ~= "bool" or (training.rank or 0) ~= 0 then
    layer.fail(self, "training is a bool of shape {}, given %s %s; "
      .. "td.placeholder(\"bool\", {}) is one", training.dtype,
      shapes.text(training.shape))
  end
end

local function apply(self, x, o)
  local rows = self:rows(x)
  check_dtype(self, x, rows)
  if not self.made then weights.make(self, rows, self:variables_dtype(x)) end
  check_rows(self, rows, x)
  return self:apply(x, weights.values(self), o)
end

-- The first call names the layer; its variables and ops stand in a scope.
local function call(self, x, o)
  o = args.read(o, {"training"}, self.kind)
  self.name = self.name or variable_scope.unused(self.kind)
  if o.training == nil then o.training = self.training or false end
  check_training(self, o.training)
  x = weights.input(self, x, self.ranks[1], self.ranks[2])
  if self.made then return scope.name_scope(self.name, apply, self, x, o) end
  return variable_scope.variable_scope(self.name, {reuse = self.reuse}, apply,
                                       self, x, o)
end

-- ---- classes --------------------------------------------------------------

local base = {options = {}, positions = {}, booleans = {}, optional = {},
              ranks = {0, math.huge}, takes_ids = false}

-- Variables: a list of {name, shape, initializer =, regularizer =, ...}.
function base.rows() return {} end

-- The dtype of the variables.
function base.variables_dtype(_, x) return x.dtype end

-- What is known of the layer, in words.
local function describe(self)
  local parts = {}
  for i, v in ipairs(self.variables) do
    parts[i] = v.name .. " " .. shapes.text(v.shape)
  end
  return ("%s \"%s\"%s"):format(self.kind, self.name or "not named yet",
    #parts > 0 and ": " .. table.concat(parts, ", ") or "")
end

-- What a layer of a class may have: options, variables that options switch off,
-- and what the first call makes.
local function own_fields(class)
  local known = {}
  for _, list in ipairs{class.positions, class.options, class.optional, common,
                        {"training", "made", "dtype", "scope"}} do
    for _, key in ipairs(list) do known[key] = true end
  end
  return known
end

-- A field that there is not.
local function unknown(self, key)
  if type(key) ~= "string" then return nil end
  local has = args.sorted_keys(self.made or {})
  table.insert(has, "variables")
  return layer.fail(self, "it has no \"%s\"%s; %s", key,
    errors.did_you_mean(key, has),
    self.made and "it has " .. table.concat(has, ", ")
    or "the first call layer(x) makes its variables")
end

--- Is x a layer?
function layer.is(x)
  local meta = type(x) == "table" and getmetatable(x)
  return meta and rawget(meta, "__call") == call or false
end

--- The function that makes, and given a tensor applies, layers of a class:
-- kind, its name; positions and options, names of arguments, of which
-- `booleans` are true or false; `optional`, variables it may do without; ranks
-- {least, most} of the input; check(self) looks at the arguments; rows(self, x)
-- lists its variables; apply(self, x, w, o) -> y, where w are the variables'
-- values by name and o.training says what dropout and the like are to do.
function layer.define(class)
  setmetatable(class, {__index = base})
  local known = own_fields(class)
  function class.__index(self, key)
    local made = rawget(self, "made")
    if class[key] ~= nil then return class[key] end
    if made and made[key] or known[key] then return made and made[key] end
    return unknown(self, key)
  end
  class.__call, class.__tostring, class.__name = call, describe, class.kind
  return function(x, ...)
    if x == nil and select("#", ...) > 0 then
      core.error("invalid_argument", ("%s: its input is nil; without an input, "
        .. "td.layers.%s(...) makes the layer"):format(class.kind, class.kind))
    end
    if not args.is_tensor(x) then return new(class, table.pack(x, ...)) end
    return new(class, table.pack(...))(x)
  end
end

return layer
