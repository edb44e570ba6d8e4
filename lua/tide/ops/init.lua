--- ops/init.lua - every op under its Lua name.
--
-- A name is looked for among the functions of tide/ops/*.lua, which give some
-- ops fixed positions and tables their meaning, then in the registry, whose
-- functions take the signature's inputs and one table of attributes. Loading
-- that an error or an interrupt cuts short is begun again.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local modules = require "tide.base.modules"
local errors = require "tide.base.errors"

local td = package.loaded.tide
local ops = {}

-- The functions of tide/ops/*.lua; `ops` has those that were asked for.
local defined = {}
local loaded = false -- all of them?
-- Functions that take no tensor first: no methods of tensors.
local not_methods = {}
-- Names that came from the registry, with their op.
local registered = {}

-- f, refusing more arguments than it has; in C, so that `return td.f(x)` leaves
-- the user's line on the stack.
local function strict(name, f)
  local info = debug.getinfo(f, "u")
  return core.strict(name, f, not info.isvararg and info.nparams or nil, td)
end

local function load_all()
  for _, name in ipairs(modules "ops") do require("tide.ops." .. name) end
  loaded = true
end

local function find(t, name)
  if not loaded then
    if defined[name] then return defined[name] end -- by a module of them
    load_all()
  end
  local f = defined[name]
  if not f then
    local op = type(name) == "string" and core.op_type(name)
    if not op then return nil end
    f = core.op(op)
    registered[name] = op
  end
  rawset(t, name, f)
  return f
end

local function define(_, name, f) defined[name] = strict(name, f) end

setmetatable(ops, {__index = find, __newindex = define})

local namespace = {ops = ops}

--- Is that the name of a function of tide/ops/*.lua?
function namespace.has(name)
  if not loaded then load_all() end
  return defined[name] ~= nil
end

--- Marks functions that are no methods: `{"concat", "zeros"}`.
function namespace.not_methods(names)
  for _, name in ipairs(names) do not_methods[name] = true end
end

--- The function behind `x:name()`, or nil. Ops without inputs and those whose
-- first is a list are no methods.
function namespace.method(name)
  local f = ops[name]
  if f == nil or not_methods[name] then return nil end
  if registered[name] then
    local first = core.op_info(registered[name]).inputs[1]
    if not first or first.list then
      not_methods[name] = true
      return nil
    end
  end
  return f
end

--- All names, sorted: for completion and for offering the nearest.
function namespace.names()
  local seen, list = {}, {}
  local function add(name)
    if name ~= "" and not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  if not loaded then load_all() end
  for name in pairs(defined) do add(name) end
  for _, name in ipairs(core.op_lua_names()) do add(name) end
  table.sort(list)
  return list
end

--- td.raw: every op under its own type, inputs in the signature's order.
-- @function ops.raw
-- @usage td.raw.Add({1}, {2})  --> 3
namespace.raw = setmetatable({}, {
  __index = function(t, name)
    local f = type(name) == "string" and core.op(name)
    if not f then
      errors.raise("not_found", "there is no op \"%s\"%s", tostring(name),
                   errors.did_you_mean(name, core.op_names()))
    end
    rawset(t, name, f)
    return f
  end,
  __complete = function() return core.op_names() end,
  __tostring = function()
    return ("td.raw: %d ops by their types, such as td.raw.MatMul(a, b)")
      :format(#core.op_names())
  end,
})

return namespace
