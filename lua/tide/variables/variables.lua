--- variables/variables.lua - variables: state that outlives a step.
--
-- A variable is a resource handle (VarHandleOp). Used as a tensor it is read
-- anew, after whatever the current control scope waits for. Its nodes stand
-- outside all control flow and functions, and wait for nothing.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local dtypes = require "tide.tensor.dtype"
local shapes = require "tide.tensor.shape"
local scope = require "tide.graph.scope"
local session = require "tide.run.session"
local slice = require "tide.tensor.slice"
local tensor = require "tide.tensor.tensor"
local namespace = require "tide.ops"

local variables = {}
local methods = {}
local meta = {__name = "variable"}
local part = {}

local fail = errors.raise

-- ---- reading --------------------------------------------------------------

local read_op = core.op "ReadVariableOp"

--- A fresh read: the value when the current control scope's ops have run. Each
-- use of a variable is one; keep the result to share one read.
function methods:read()
  local edge = read_op(self.handle, {dtype = self.dtype})
  if not edge.shape and self.shape then core.set_shape(edge, self.shape) end
  return edge
end
meta.__tensor = methods.read

--- What session:run fetches for a variable.
function meta.__fetch(self) return self.snapshot end

function meta.__tostring(self)
  return ("Variable \"%s\" %s %s"):format(self.name, self.dtype,
                                          shapes.text(self.shape))
end

meta.__forms = "variable" -- what show/repr.lua knows it by

-- ---- writing --------------------------------------------------------------

-- The value after op.
local function read_after(self, op)
  local _ <close> = core.push{controls = {op}}
  return self:read()
end

-- `x` for an update named `what`, as a tensor of the variable's dtype.
local function operand(self, x, what)
  if getmetatable(self) ~= meta then
    fail("invalid_argument", "%s is called with a colon: W:%s(t); given %s "
         .. "where the variable should be", what, what, args.what(self))
  end
  if args.is_tensor(x) and x.dtype ~= self.dtype then
    fail("invalid_argument", "%s: variable \"%s\" is %s, given %s; use td.cast",
         what, self.name, self.dtype, x.dtype)
  end
  return core.edge(x, self.dtype)
end

local function updater(what, op)
  methods[what] = function(self, x, o)
    o = args.read(o, {"name"}, what)
    local edge = operand(self, x, what)
    if not shapes.compatible(self.shape, edge.shape) then
      fail("invalid_argument", "%s: variable \"%s\" has shape %s, given %s",
           what, self.name, shapes.text(self.shape), shapes.text(edge.shape))
    end
    return read_after(self, core.add(op, {self.handle, edge},
                                     {dtype = self.dtype}, o.name))
  end
end

--- Sets the variable to x; gives the value afterwards.
-- @function methods:assign(x, o)

--- Adds x to the variable; gives the value afterwards.
-- @function methods:assign_add(x, o)

--- Subtracts x from the variable; gives the value afterwards.
-- @function methods:assign_sub(x, o)

updater("assign", "AssignVariableOp")
updater("assign_add", "AssignAddVariableOp")
updater("assign_sub", "AssignSubVariableOp")

--- Gives the variable the value x now, in the session (the default one): no
-- node is added.
-- @usage local v = td.variable(1.0, "v")
-- v:load(3.0)
-- v:eval()  --> 3.0
function methods:load(x, sess)
  sess = sess or session.default()
  sess:run(self.initializer, {[self.initial_value] = x})
end

--- Row indices[k] changes by row k of x; what occurs twice acts twice. Gives
-- the value afterwards.
-- @function methods:scatter_add(indices, x, o)
-- @function methods:scatter_sub(indices, x, o)
-- @function methods:scatter_update(indices, x, o)
-- @function methods:scatter_mul(indices, x, o)
-- @function methods:scatter_div(indices, x, o)
-- @function methods:scatter_min(indices, x, o)
-- @function methods:scatter_max(indices, x, o)
for _, what in ipairs{"Add", "Sub", "Update", "Mul", "Div", "Min", "Max"} do
  local op = "ResourceScatter" .. what
  local name = "scatter_" .. what:lower()
  methods[name] = function(self, indices, x, o)
    o = args.read(o, {"name"}, name)
    return read_after(self, core.add(op, {self.handle, indices,
      operand(self, x, name)}, {dtype = self.dtype}, o.name))
  end
end

--- W:scatter_nd_add(i, t): the slice of W that vector i[k] names changes by
-- slice k of t. scatter_nd_sub, scatter_nd_update, scatter_nd_min and
-- scatter_nd_max alike. They give the value afterwards.
for _, what in ipairs{"Add", "Sub", "Update", "Min", "Max"} do
  local op = "ResourceScatterNd" .. what
  local name = "scatter_nd_" .. what:lower()
  methods[name] = function(self, indices, x, o)
    o = args.read(o, {"name"}, name)
    return read_after(self, core.add(op, {self.handle, indices,
      operand(self, x, name)}, {T = self.dtype}, o.name))
  end
end

-- ---- parts ----------------------------------------------------------------

--- W["0:2"]: a slice that can be assigned to, and read as a tensor.
local part_meta = {}

function part_meta.__tensor(self)
  return slice.take(self.variable:read(), self.key)
end

--- W["0:2"]:assign(t): gives the whole value afterwards; t broadcasts to the
-- slice, whose bounds may be graph scalars.
function part:assign(x, o)
  o = args.read(o, {"name"}, "assign")
  local v = self.variable
  local begin, finish, strides, masks = slice.spec(self.key)
  masks.T = v.dtype
  return read_after(v, core.add("ResourceStridedSliceAssign",
    {v.handle, begin, finish, strides, operand(v, x, "assign")}, masks,
    o.name))
end

function part_meta.__index(self, key)
  if part[key] then return part[key] end
  if key == "dtype" then return self.variable.dtype end
  local edge = part_meta.__tensor(self)
  local x = edge[key]
  if type(x) ~= "function" then return x end
  return function(first, ...)
    if first == self then first = edge end
    return x(first, ...)
  end
end

function part_meta.__tostring(self)
  return tostring(self.variable) .. "[...]"
end

tensor.install(part_meta)

-- ---- fields and methods ---------------------------------------------------

local fields = {"name", "dtype", "shape", "handle", "initializer",
                "initial_value", "is_initialized", "trainable", "graph", "op",
                "device", "rank", "size", "origin"}

local computed = {
  op = function(self) return self.handle.op end,
  device = function(self) return self.handle.device end,
  origin = function(self) return self.handle.origin end,
  rank = function(self) return self.shape and #self.shape end,
  size = function(self) return shapes.count(self.shape) end,
  shape = function() return nil end,
}

-- A method of tensors, or an error that offers the nearest name.
local function tensor_method(key)
  local f = rawget(tensor.methods, key) or namespace.method(key)
  if f then return f end
  local known = args.sorted_keys(methods)
  for _, more in ipairs{fields, namespace.names()} do
    table.move(more, 1, #more, #known + 1, known)
  end
  fail("invalid_argument", "no field or method \"%s\" on a variable%s", key,
       errors.did_you_mean(key, known))
end

function meta.__index(self, key)
  if type(key) ~= "string" or not key:match("^[%a_][%w_]*$") then
    return setmetatable({variable = self, key = key}, part_meta)
  end
  if methods[key] then return methods[key] end
  if computed[key] then return computed[key](self) end
  return tensor_method(key)
end

function meta.__newindex(self)
  fail("invalid_argument", "variable \"%s\" cannot be given fields; assign to "
    .. "it with W:assign(t) or W[\"0:2\"]:assign(t)", rawget(self, "name"))
end

tensor.install(meta)

--- Is x a variable?
function variables.is_variable(x)
  return type(x) == "table" and getmetatable(x) == meta
end

-- ---- making ---------------------------------------------------------------

-- The initial value as a graph tensor outside all control flow.
local function initial_edge(initial, dtype, name)
  if type(initial) == "function" then initial = initial() end
  if initial == nil then
    fail("invalid_argument", "variable \"%s\" has no initial value", name)
  end
  if core.kind(initial) == "edge" and initial.graph ~= core.graph() then
    fail("invalid_argument", "the initial value of variable \"%s\" is made "
      .. "inside a function, and the variable outside; give a Lua function "
      .. "that makes it", name)
  end
  local edge = core.edge(initial, not args.is_tensor(initial) and dtype or nil)
  if dtype and edge.dtype ~= dtype then
    fail("invalid_argument", "variable \"%s\" is to be %s, but its initial "
      .. "value is %s; use td.cast", name, dtype, edge.dtype)
  end
  if edge.op.flow ~= 0 then
    fail("invalid_argument", "the initial value of variable \"%s\" is made "
      .. "inside a loop or branch; give a function that makes it", name)
  end
  return edge
end

-- Handle, initializer and read of a variable called `name` in full.
local function add_nodes(name, initial, o)
  local v = {dtype = initial.dtype, initial_value = initial,
             shape = o.shape and shapes.of(o.shape)}
  if not v.shape and o.validate_shape ~= false then v.shape = initial.shape end
  v.name = core.graph():unique(name)
  local told = graph.state().on_variable
  if told then told(v) end
  v.handle = core.add("VarHandleOp", {}, {dtype = v.dtype,
    shape = v.shape or false, shared_name = v.name}, v.name, true)
  v.graph = v.handle.graph
  v.trainable = o.trainable ~= false
  local _ <close> = core.push{prefix = v.name .. "/", colocate = v.handle.op}
  local own = {dtype = v.dtype}
  v.is_initialized = core.add("VarIsInitializedOp", {v.handle}, nil,
                              "IsInitialized")
  v.initializer = core.add("AssignVariableOp", {v.handle, initial}, own,
                           "Assign")
  v.snapshot = core.add("ReadVariableOp", {v.handle}, own, "Read")
  return setmetatable(v, meta)
end

-- The node "HANDLE/name" that is there, or a new one.
local function node(v, name, op, inputs, attrs)
  local found = v.graph:find(v.handle.op.name .. "/" .. name)
  if found and found.type == op and found.inputs[1] == v.handle then
    return found.outputs[1] or found
  end
  return core.add(op, inputs(), attrs, name)
end

--- The variable of a handle that is there, called `name`, for graphs that came
-- from elsewhere; in no collection.
function variables.of_handle(name, handle)
  local dtype, shape = handle.op.attr.dtype, handle.op.attr.shape
  local v = {name = name, dtype = dtype, shape = shape or nil, handle = handle,
             graph = handle.graph, trainable = false}
  local _ <close> = core.push{prefix = handle.op.name .. "/",
                              colocate = handle.op}
  local own = {dtype = dtype}
  local function alone() return {handle} end
  v.is_initialized = node(v, "IsInitialized", "VarIsInitializedOp", alone)
  v.snapshot = node(v, "Read", "ReadVariableOp", alone, own)
  v.initializer = node(v, "Assign", "AssignVariableOp", function()
    return {handle, core.add("Placeholder", {}, {dtype = dtype,
      shape = shape or false}, "initial_value")}
  end, own)
  v.initial_value = v.initializer.inputs[2]
  return setmetatable(v, meta)
end

-- `name` in full, already with its scopes.
local function make(initial, name, o)
  local _ <close> = core.push{graph = graph.owner(), prefix = name .. "/",
                              flow = 0, capture = false, pivot = false,
                              clear_controls = true}
  local edge = initial_edge(initial, o.dtype, name)
  local v = add_nodes(name, edge, o)
  for _, collection in ipairs(o.collections or {"variables"}) do
    graph.add_to_collection(collection, v)
  end
  if v.trainable then graph.add_to_collection("trainable_variables", v) end
  return v
end

local options = {"name", "dtype", "shape", "trainable", "collections",
                 "validate_shape"}

--- A variable: variable(initial, name or options).
-- @param initial a graph tensor, a value, a literal, or a function that makes
-- one of them
-- @param[opt] o name; dtype; trainable (true); validate_shape = false lets the
-- shape change; collections
-- @usage local v = td.variable({1.0, 2.0}, "v")
-- td.session():init()
-- v:assign_add{1.0, 1.0}  --> 2 3
function variables.variable(initial, o)
  o = args.read(o, options, "variable")
  if o.name and dtypes.is_name(o.name) then
    core.error("invalid_argument", ("variable: \"%s\" is a dtype, not a name; "
      .. "write {dtype = \"%s\"}"):format(o.name, o.name))
  end
  local name = core.scope().prefix .. (o.name or "Variable")
  return make(initial, name, o)
end

--- For modules that keep their own variables: `name` is complete.
variables.make = make

-- ---- all of them ----------------------------------------------------------

--- Variables of the current graph whose names begin with `prefix`.
function variables.global_variables(prefix)
  return graph.get_collection("variables", prefix)
end

--- Those that optimizers change.
function variables.trainable_variables(prefix)
  return graph.get_collection("trainable_variables", prefix)
end

--- Those that a session keeps for itself, such as the counts of td.metrics.
function variables.local_variables(prefix)
  return graph.get_collection("local_variables", prefix)
end

--- An op that runs the initializers of a list of variables. They run in any
-- order: where an initial value reads another variable, use sess:init().
function variables.variables_initializer(list, o)
  local inits = {}
  for i, v in ipairs(list) do inits[i] = v.initializer end
  return scope.group(inits, o or "init")
end

--- The same for all variables of the graph.
function variables.global_variables_initializer(o)
  return variables.variables_initializer(variables.global_variables(), o)
end

--- The same for the local ones: metrics begin anew.
function variables.local_variables_initializer(o)
  return variables.variables_initializer(variables.local_variables(),
                                         o or "init_local")
end

return variables
