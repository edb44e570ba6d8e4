--- graph/scope.lua - where nodes are built: name, device, control inputs.
--
-- A scope takes a function, runs it and returns what it returns; or it is kept
-- in a variable that closes it: `local _ <close> = td.name_scope "conv1"`.
-- Scopes belong to the coroutine that opened them.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local graph = require "tide.graph.graph"

local context = autoload "tide.control.context"

local scope = {}

-- ---- the two forms --------------------------------------------------------

local function run(guard, f, ...)
  local _ <close> = guard
  return f(...)
end

--- Runs f inside `guard`, an open to-be-closed value; returns the guard when
-- there is no function.
function scope.guarded(guard, f, ...)
  if f == nil then return guard end
  if type(f) ~= "function" then
    local _ <close> = guard
    core.error("invalid_argument", "a scope takes a function, not "
      .. (core.kind(f) or type(f)))
  end
  return run(guard, f, ...)
end

--- Opens what core.push takes.
function scope.enter(what, f, ...)
  return scope.guarded(core.push(what), f, ...)
end

--- Nodes are added to g inside the function, or until the scope closes.
-- @function g:as_default(f, ...)
graph.add_method("as_default", function(g, f, ...)
  return scope.enter({graph = g}, f, ...)
end)

-- ---- names ----------------------------------------------------------------

--- Names begin with `name/`, made unique; "" leaves all name scopes; a name
-- ending with "/" is taken as it is, to come back to a scope.
-- @usage td.name_scope("conv1", td.no_op, "n").name  --> conv1/n
function scope.name_scope(name, f, ...)
  if name == nil or name == "" then
    return scope.enter({prefix = ""}, f, ...)
  end
  args.expect(name, "string", "name_scope: the name")
  if name:sub(-1) == "/" then return scope.enter({prefix = name}, f, ...) end
  if not name:match("^[%w.][%w_.\\/-]*$") then
    core.error("invalid_argument", ("\"%s\" is no name of a scope: it may hold "
      .. "letters, digits and . _ - / and begins with a letter or digit")
      :format(name))
  end
  local here = core.scope()
  return scope.enter({prefix = here.graph:unique(here.prefix .. name) .. "/"},
                     f, ...)
end

-- ---- places ---------------------------------------------------------------

--- A device for the nodes: "/CPU:1", a function of the op that gives one, or
-- nil for none in particular.
-- @usage td.device("/cpu:1", td.no_op).device  --> /device:CPU:1
function scope.device(spec, f, ...)
  if type(spec) == "function" then
    return scope.enter({device_fn = spec}, f, ...)
  end
  if spec == nil then
    return scope.enter({device = false, device_fn = false}, f, ...)
  end
  args.expect(spec, "string", "device")
  return scope.enter({device = spec}, f, ...)
end

-- The op behind a tensor, op or variable.
local function op_of(x, what)
  local kind = core.kind(x)
  if kind == "op" then return x end
  if kind == "edge" then return x.op end
  local meta = type(x) == "table" and getmetatable(x)
  if meta and x.handle then return x.handle.op end
  if meta and meta.__tensor then return core.edge(x).op end
  core.error("invalid_argument", ("%s takes ops, graph tensors or variables, "
    .. "not %s"):format(what, kind or type(x)))
end
scope.op_of = op_of

--- The nodes go to the device of x (an op, tensor or variable). What takes a
-- resource, such as the read of another variable, stays where that is.
function scope.colocate_with(x, f, ...)
  return scope.enter({colocate = op_of(x, "colocate_with")}, f, ...)
end

--- Variables and other resources live in the named container.
function scope.container(name, f, ...)
  args.expect(name, "string", "container")
  return scope.enter({container = name}, f, ...)
end

-- ---- order ----------------------------------------------------------------

--- The nodes run after those of the list; nil drops the outer control inputs.
function scope.control_dependencies(list, f, ...)
  if list == nil then return scope.enter({clear_controls = true}, f, ...) end
  if args.is_tensor(list) or core.kind(list) == "op" then list = {list} end
  args.check_list(list, "control_dependencies")
  local ops = {}
  for i, x in ipairs(list) do
    ops[i] = context.control(op_of(x, "control_dependencies"))
  end
  return scope.enter({controls = ops}, f, ...)
end

--- One op that runs the ops and tensors of a list.
function scope.group(list, o)
  if core.kind(o) then
    core.error("invalid_argument", "group takes one list: td.group{a, b}")
  end
  o = args.read(o, {"name"}, "group")
  if args.is_tensor(list) or core.kind(list) == "op" then list = {list} end
  return scope.control_dependencies(list, function()
    return core.add("NoOp", {}, nil, o.name or "group_deps")
  end)
end

--- The tensors of a list, each after all of them are computed; false stays.
-- @usage td.tuple({td.constant(1), td.constant(2)})[2]  --> 2
function scope.tuple(list, o)
  o = args.read(o, {"name", "controls"}, "tuple")
  local waits, out = {}, {}
  for _, x in ipairs(list) do
    if x then waits[#waits + 1] = x end
  end
  for _, x in ipairs(o.controls or {}) do waits[#waits + 1] = x end
  scope.control_dependencies(waits, function()
    for i, x in ipairs(list) do
      out[i] = x and core.add("Identity", {x}, nil, o.name or "tuple")
    end
  end)
  return out
end

--- An op that does nothing: something to wait for.
function scope.no_op(o)
  return core.add("NoOp", {}, nil, args.read(o, {"name"}, "no_op").name)
end

return scope
