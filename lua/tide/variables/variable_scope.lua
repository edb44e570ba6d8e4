--- variables/variable_scope.lua - variables found by name, made once.
--
-- get_variable names a variable after the variable scopes around it, so that a
-- function that builds a layer can be called again with reuse and share it.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local graph = require "tide.graph.graph"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local dtypes = require "tide.tensor.dtype"
local variables = require "tide.variables.variables"
local initializers = require "tide.variables.initializers"

local variable_scope = {}

-- The innermost scope of each coroutine.
local current = setmetatable({}, {__mode = "k"})

-- That of a graph, around all others.
local function root()
  local state = graph.state(graph.owner())
  state.root_scope = state.root_scope or {name = "", reuse = false, used = {}}
  return state.root_scope
end

local function here()
  return current[coroutine.running()] or root()
end

local guard_meta = {__close = function(guard)
  current[guard.thread] = guard.outer
  core.pop(guard.token)
end}

local known = {"reuse", "initializer", "regularizer", "dtype", "trainable"}

local function enter(name, o)
  local outer = here()
  if type(o.reuse) ~= "boolean" and o.reuse ~= nil and o.reuse ~= "auto" then
    core.error("invalid_argument", ("variable_scope: reuse is true, false or "
      .. "\"auto\", not %s"):format(tostring(o.reuse)))
  end
  local full = outer.name == "" and name or outer.name .. "/" .. name
  local record = {name = full, reuse = outer.reuse, used = {}}
  outer.used[name] = outer.used[name] or 0
  for _, key in ipairs(known) do
    record[key] = o[key] == nil and outer[key] or o[key]
  end
  local thread = coroutine.running()
  local guard = {thread = thread, outer = current[thread],
                 token = scope.name_scope(name)}
  current[thread] = record
  return setmetatable(guard, guard_meta)
end

--- Variables got inside are called `name/...`.
-- @param name
-- @param[opt] o reuse = true: only those that exist, "auto": either;
-- initializer, regularizer, dtype, trainable: defaults for get_variable
-- @param[optchain] f run inside; without it the scope is to be closed
-- @usage local w = td.variable_scope("layer", td.get_variable, "w", {2})
-- w.name  --> layer/w
function variable_scope.variable_scope(name, o, f, ...)
  if type(o) == "function" then
    return variable_scope.variable_scope(name, nil, o, f, ...)
  end
  args.expect(name, "string", "variable_scope: the name")
  o = args.check(args.options(o, "variable_scope"), known, "variable_scope")
  return scope.guarded(enter(name, o), f, ...)
end

--- The current variable scope's name, "" outside of all.
function variable_scope.name()
  return here().name
end

--- For layers without a name: `base`, or base_1, base_2, ... where a scope of
-- that name was opened since the current one was.
function variable_scope.unused(base)
  local used = here().used
  local name = base
  while used[name] do
    used[base] = used[base] + 1
    name = base .. "_" .. used[base]
  end
  return name
end

local function check_shape(v, shape, dtype)
  if shape and not shapes.compatible(v.shape, shapes.of(shape)) then
    core.error("invalid_argument", ("variable \"%s\" has shape %s (made at "
      .. "%s), asked for %s"):format(v.name, shapes.text(v.shape), v.origin,
      shapes.text(shapes.of(shape))))
  end
  if dtype and dtype ~= v.dtype then
    core.error("invalid_argument", ("variable \"%s\" is %s (made at %s), asked "
      .. "for %s"):format(v.name, v.dtype, v.origin, dtype))
  end
  return v
end

-- Raises for the name of an initializer, and for what makes one.
local function check_initializer(name, dtype, x)
  if type(x) == "string" and dtype ~= "string" then
    local near = core.nearest(x, args.sorted_keys(initializers))
    core.error("invalid_argument", ("variable \"%s\": the initializer is a "
      .. "function or a value, not the string \"%s\"; write "
      .. "td.initializers.%s()"):format(name, x, near or "zeros"))
  end
  for _, maker in ipairs(args.sorted_keys(initializers)) do
    if type(x) == "function" and x == initializers[maker] then
      core.error("invalid_argument", ("variable \"%s\": the initializer gives "
        .. "a function; call it: td.initializers.%s()"):format(name, maker))
    end
  end
end

-- What makes the initial value: a function without arguments, or the value.
local function initial_value(name, shape, dtype, initializer)
  check_initializer(name, dtype, initializer)
  if type(initializer) ~= "function" then
    if initializer ~= nil then return initializer end
    initializer = dtypes.is_float(dtype) and initializers.glorot_uniform()
      or initializers.zeros()
  end
  if not shape then
    core.error("invalid_argument", ("variable \"%s\" needs a shape: "
      .. "get_variable(name, {2, 3}), or {initializer = value}"):format(name))
  end
  return function()
    local value = initializer(shape, dtype)
    if type(value) ~= "function" then return value end
    core.error("invalid_argument", ("variable \"%s\": the initializer gives a "
      .. "function, not a tensor; call what makes it: "
      .. "td.initializers.zeros()"):format(name))
  end
end

-- What the regularizer says of a new variable joins the losses.
local function regularize(v, regularizer)
  if not regularizer then return end
  args.expect(regularizer, "function", "get_variable: the regularizer")
  local _ <close> = core.push{graph = v.graph, flow = 0, capture = false,
    prefix = v.name .. "/Regularizer/", pivot = false, clear_controls = true,
    colocate = v.op}
  local loss = regularizer(v)
  if loss and core.edge(loss).rank ~= 0 then
    core.error("invalid_argument", ("variable \"%s\": the regularizer gives a "
      .. "tensor of shape %s, not a scalar; take its :sum()"):format(v.name,
      shapes.text(core.edge(loss).shape)))
  end
  if loss then graph.add_to_collection("regularization_losses", loss) end
end

--- The variable of that name in the current variable scope.
-- @param name
-- @param shape list of sizes, or one size; may be nil where initializer is a
-- value
-- @param[opt] o dtype (float32), initializer (td.initializers.*, a value or a
-- graph tensor), trainable, collections; regularizer, a function of the
-- variable whose result joins the collection "regularization_losses"
-- @usage td.get_variable("w", {3, 3}).shape  --> {3, 3}
function variable_scope.get_variable(name, shape, o)
  args.expect(name, "string", "get_variable: the name")
  o = args.check(args.options(o, "get_variable"),
                 {"dtype", "initializer", "regularizer", "trainable",
                  "collections"}, "get_variable")
  if shape ~= nil then shape = shapes.asked(shape, name) end
  local record = here()
  local full = record.name == "" and name or record.name .. "/" .. name
  local known_here = graph.state(graph.owner()).variables
  local found = known_here[full]
  if found and record.reuse then return check_shape(found, shape, o.dtype) end
  if found then
    core.error("already_exists", ("variable \"%s\" exists already, made at %s; "
      .. "for one of its own give it, its layer or its variable_scope another "
      .. "name; to share it set reuse = true in variable_scope, or call the "
      .. "same layer or cell again"):format(full, found.origin))
  end
  if record.reuse == true then
    core.error("not_found", ("there is no variable \"%s\" to reuse; make it "
      .. "first in a scope without reuse"):format(full))
  end
  for _, key in ipairs{"initializer", "regularizer", "trainable"} do
    if o[key] == nil then o[key] = record[key] end
  end
  local dtype = o.dtype or record.dtype or "float32"
  local initial = initial_value(full, shape, dtype, o.initializer)
  local v = variables.make(initial, full,
    {shape = shape, dtype = args.is_tensor(o.initializer) and o.dtype or dtype,
     trainable = o.trainable, collections = o.collections})
  known_here[full] = v
  regularize(v, o.regularizer)
  return v
end

return variable_scope
