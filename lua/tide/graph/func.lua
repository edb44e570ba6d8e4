--- graph/func.lua - td.func: a subgraph that is built once and called many
-- times.
--
-- The function is traced into a graph of its own, which becomes a definition in
-- the library of every graph that calls it; a call is one node. What the trace
-- takes from outside (tensors, handles of variables) becomes a further argument
-- of each call. The gradient of a call is the call of another function, whose
-- body is the first one's with its gradients; the planner puts bodies in place
-- of calls and merges what is computed twice. What a body draws or takes from a
-- queue cannot be had twice: it is among the results of the call, beyond those
-- the caller sees, and an argument of the gradient.
-- Source: TensorFlow's function.proto and SymbolicGradient.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local gradients = require "tide.autodiff.gradients"
local grad_shape = require "tide.autodiff.rule_shape"
local graph = require "tide.graph.graph"
local shapes = require "tide.tensor.shape"
local slices = require "tide.tensor.indexed_slices"

local func = {}

local fail = errors.raise

-- ---- tracing --------------------------------------------------------------

-- What is known of a traced graph, while its handle lives.
local traces = setmetatable({}, {__mode = "k"})

-- To build outside of all scopes in the graph of a trace.
local function at_root(g)
  return {graph = g, prefix = "", flow = 0, capture = false, pivot = false,
          clear_controls = true, device = false, device_fn = false,
          colocate = false}
end

local SMALL = 1024 -- constants up to this size are copied, not passed

local function is_small_constant(edge)
  return edge.op.type == "Const" and edge.size and edge.size <= SMALL
end

-- What stands for an outer tensor; for a handle it knows the variable.
local function stand_in(edge)
  local attrs = {dtype = edge.dtype, shape = edge.shape or false}
  if edge.dtype == "resource" then
    attrs._handle_dtype, attrs._handle_shape = grad_shape.variable(edge)
  end
  return core.add("Placeholder", {}, attrs, "captured")
end

-- The stand-in for an outer tensor inside a trace, made once.
local function bring(trace, edge)
  local inside = trace.inside[edge]
  if inside then return inside end
  local _ <close> = core.push(at_root(trace.graph))
  if is_small_constant(edge) then
    inside = core.add("Const", {}, {value = edge.op.attr.value,
                                    dtype = edge.dtype})
  else
    inside = stand_in(edge)
    table.insert(trace.captured, {outer = edge, inside = inside})
  end
  trace.inside[edge] = inside
  return inside
end

core.set_foreign(function(g, edge)
  local trace = traces[g]
  return trace and bring(trace, edge) or nil
end)

local function new_trace(g)
  local trace = {graph = g, captured = {}, inside = {}}
  traces[g] = trace
  return trace
end

-- ---- what has a state -----------------------------------------------------

local info = {} -- by op type

local function info_of(op)
  info[op.type] = info[op.type] or core.op_info(op)
  return info[op.type]
end

-- The op that made the handle which op takes, or nil.
local function source_of(op)
  local source
  local function handle(of)
    for _, x in ipairs(of.inputs) do
      if x and x.dtype == "resource" then return x.op end
    end
  end
  local at = handle(op)
  while at do source, at = at, handle(at) end
  return source
end

local harmless = {VariableShape = true, StackV2 = true, TensorArrayV3 = true}
local local_state = {StackV2 = true, TensorArrayV3 = true}

-- Does it change or take what is there when the step is over? Stacks and arrays
-- are the step's own.
local function acts(op)
  local i = info_of(op)
  if not i.stateful or i.reads or harmless[op.type] then return false end
  local source = source_of(op)
  return not (source and local_state[source.type])
end

--- A node of the function that op calls which must not run twice, or nil.
function func.acting(op)
  for _, inner in ipairs((core.function_body(op)):ops()) do
    if acts(inner) then return inner end
  end
end

-- Nodes that must run with every call: what acts, and the cond or loop around.
local function controls_of(g)
  local list, seen = {}, {}
  local function add(op)
    if not seen[op] then
      seen[op] = true
      list[#list + 1] = op
    end
  end
  local inner = false
  for _, op in ipairs(g:ops()) do
    if acts(op) then
      if op.flow == 0 then add(op) else inner = true end
    end
  end
  for op in pairs(inner and graph.state(g).constructs or {}) do
    if op.flow == 0 then add(op) end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

-- What acts gives: results that a gradient takes for arguments.
local function draws_of(controls)
  local list = {}
  for _, op in ipairs(controls) do
    for _, y in ipairs(op.outputs) do
      if y.dtype ~= "resource" and y.dtype ~= "variant" and acts(op) then
        list[#list + 1] = y
      end
    end
  end
  return list
end

-- ---- definitions ----------------------------------------------------------

local function names_of(edges, g)
  local names = {}
  for i, e in ipairs(edges) do
    names[i] = e.op.type == "Placeholder" and e.op.name or g:unique("saved")
  end
  return names
end

-- A function: what it is made of, and what a call of it passes. Behind the
-- given arguments come captured tensors, of those of the trace the ones after
-- `skip`; `outer` are they for the caller. By `serials` graphs know it.
local function define(name, trace, given, results, controls, skip)
  local f = {name = name, trace = trace, args = {}, outer = {},
             results = results, controls = controls, gradients = {},
             stateful = #controls > 0, captured = #trace.captured,
             serials = setmetatable({}, {__mode = "k"})}
  table.move(given, 1, #given, 1, f.args)
  for i = skip + 1, #trace.captured do
    table.insert(f.args, trace.captured[i].inside)
    table.insert(f.outer, trace.captured[i].outer)
  end
  f.arg_names = names_of(f.args, trace.graph)
  return f
end

-- A name that no function of graph g has.
local function free_name(g, wanted)
  local name = wanted
  for k = 1, math.huge do
    if not core.function_serial(g, name) then return name end
    name = wanted .. "_" .. k
  end
end

-- By serial: the functions of graph g.
local function known_in(g)
  local state = graph.state(g)
  state.functions = state.functions or {}
  return state.functions
end

local function make(f, g)
  return core.function_make({body = f.trace.graph, name = f.name, args = f.args,
    arg_names = f.arg_names, results = f.results, controls = f.controls,
    region = f.region}, g)
end

-- Makes f; another name is found where somebody else's function has that of f,
-- if f may have another: it was not given, or cells may have replaced it.
local function make_named(f, g)
  local ok, got = pcall(make, f, g)
  if ok then return got end
  local may = f.unnamed or graph.state(g).on_variable
  if got.code ~= "already_exists" or not may then error(got, 0) end
  f.name = free_name(g, f.name)
  return make(f, g)
end

local enter

-- What the body of f calls has the same names in the body as in g.
local function enter_called(f, g)
  local inside, serials = f.trace.graph, {}
  for i, name in ipairs(core.functions(inside)) do
    serials[i] = core.function_serial(inside, name)
  end
  for _, serial in ipairs(serials) do
    local called, name = known_in(inside)[serial],
                         core.function_name(inside, serial)
    local outer = called and enter(called, g)
    if called and outer ~= name then
      if core.function_serial(inside, outer) then
        core.function_rename(inside, outer, free_name(inside, outer))
      end
      core.function_rename(inside, name, outer)
    end
  end
end

-- Puts f into the library of graph g, unless it is there, and gives its name in
-- there. A function is its cell's; when that runs again, f is called otherwise
-- where it still is called.
function enter(f, g)
  local name = f.serials[g] and core.function_name(g, f.serials[g])
  if name then return name end
  enter_called(f, g)
  local serial = make_named(f, g)
  f.serials[g] = serial
  known_in(g)[serial] = f
  return core.function_name(g, serial)
end

-- A call of f with tensors for its explicit arguments: all its results, and the
-- op.
local function call(f, given, name)
  local def = enter(f, core.graph())
  local inputs, types = table.move(given, 1, #given, 1, {}), {}
  table.move(f.outer, 1, #f.outer, #inputs + 1, inputs)
  for i, y in ipairs(f.results) do types[i] = y.dtype end
  local type = f.stateful and "StatefulPartitionedCall" or "PartitionedCall"
  local out = core.add(type, {inputs}, {Tout = types, f = def}, name)
  local g = core.graph()
  local op = out[1] and out[1].op or g:op(g:size() - 1)
  core.function_infer(op)
  for i, y in ipairs(f.results) do
    if y.shape then core.set_shape(out[i], y.shape) end
  end
  return out, op
end

-- ---- td.func --------------------------------------------------------------

-- A name for a function that has none: unlike those of the library, and of
-- functions that are not called yet.
local function new_name()
  local state = graph.state(graph.owner())
  state.function_names = state.function_names or {}
  for k = 1, math.huge do
    local name = "func_" .. k
    if not state.function_names[name]
       and not core.function_taken(graph.owner(), name) then
      state.function_names[name] = true
      return name
    end
  end
end

-- Result i of a trace as a tensor of its graph.
local function check_result(name, i, y)
  if y == nil or core.kind(y) == "op" then
    fail("invalid_argument", "func \"%s\": result %d is %s; a function gives "
      .. "tensors", name, i, core.kind(y) or "nil")
  end
  y = core.edge(y)
  if y.op.flow ~= 0 then
    fail("invalid_argument", "func \"%s\": result %d, \"%s\", is inside a loop "
      .. "or branch", name, i, y.name)
  end
  return y
end

local function trace_body(f, types, known, name)
  local g = core.graph_new()
  local seed = core.graph():get_seed()
  if seed then g:set_seed(seed) end
  graph.state(g).made_in = core.graph()
  local trace = new_trace(g)
  local _ <close> = core.push(at_root(g))
  local xs = {}
  for i, t in ipairs(types) do
    xs[i] = core.add("Placeholder", {}, {dtype = t, shape = known[i] or false},
                     "arg")
  end
  local ys = table.pack(f(table.unpack(xs)))
  for i = 1, ys.n do ys[i] = check_result(name, i, ys[i]) end
  return trace, xs, ys
end

local function check_args(f, n, ...)
  local given = {...}
  if select("#", ...) ~= n then
    fail("invalid_argument", "function \"%s\" takes %d argument%s, given %d",
         f.name, n, n == 1 and "" or "s", select("#", ...))
  end
  for i = 1, n do
    local want = f.args[i].dtype
    local x = given[i]
    if args.is_tensor(x) and x.dtype ~= want then
      fail("invalid_argument", "function \"%s\": argument %d is %s, given %s; "
        .. "use td.cast", f.name, i, want, x.dtype)
    end
    given[i] = core.edge(x, want)
    if not shapes.compatible(f.args[i].shape, given[i].shape) then
      fail("invalid_argument", "function \"%s\": argument %d has shape %s, "
        .. "given %s", f.name, i, shapes.text(f.args[i].shape),
        shapes.text(given[i].shape))
    end
  end
  return given
end

--- A function that is built once, as a subgraph with a name, and called many
-- times: each call is one node, and the graph's file has the function in its
-- library. It can be differentiated, call others, and use tensors and variables
-- from outside; variables made inside are made outside of it.
-- @param f function(tensor...) -> tensor...; called once, here
-- @param types the dtypes of its arguments: {"float32", "int32"}
-- @param[opt] o name: of the function (func_1, ...); shapes: a list, one shape
-- for each argument (unknown)
-- @return function(tensor...) -> tensor...; without results, the op of the call
-- @usage local f = td.func(function(x) return x * x + 1 end, "float32")
-- f(td.constant(3.0))  --> 10
function func.func(f, types, o)
  args.expect(f, "function", "func: the function")
  o = args.read(o, {"name", "shapes"}, "func")
  if dtypes.is_name(types) then types = {types} end
  args.check_list(types, "func: the dtypes of the arguments")
  local name = o.name or new_name()
  local trace, xs, ys = trace_body(f, types, o.shapes or {}, name)
  local controls = controls_of(trace.graph)
  local results = table.move(ys, 1, ys.n, 1, {})
  for _, y in ipairs(draws_of(controls)) do results[#results + 1] = y end
  local made = define(name, trace, xs, results, controls, 0)
  made.n_results = ys.n
  made.region, made.unnamed = core.region_current(), not o.name
  return function(...)
    local out, op = call(made, check_args(made, #xs, ...))
    if ys.n == 0 then return op end
    return table.unpack(out, 1, ys.n)
  end
end

-- ---- gradients ------------------------------------------------------------

-- The function behind a call; one that came with a file is opened.
local function function_of(op)
  local state, name = graph.state(op.graph), op.attr.f
  state.opened = state.opened or {}
  local f = state.opened[op]
    or known_in(op.graph)[core.function_serial(op.graph, name)]
  if f and #f.args == #op.inputs then return f end
  local g, xs, ys = core.function_body(op)
  f = define(name, new_trace(g), xs, ys, {}, 0)
  f.n_results = #ys
  state.opened[op] = f
  return f
end

-- Refuses a gradient that would draw again, or act again.
local function check_pure(f, results, cut)
  local seen, stack = {}, {}
  for x in pairs(cut) do seen[x.op] = true end -- it has run before
  local function visit(op)
    if not seen[op] then
      seen[op] = true
      stack[#stack + 1] = op
    end
  end
  local function follow(x)
    if x and not cut[x] then visit(x.op) end
  end
  for _, y in ipairs(results) do follow(y) end
  while #stack > 0 do
    local op = table.remove(stack)
    if acts(op) then
      fail("unimplemented", "the gradient of function \"%s\" needs \"%s\" "
        .. "(%s), which has a state and is inside a loop, a branch or another "
        .. "program's function; take it outside the function and pass it in",
        f.name, op.name, op.type)
    end
    for _, x in ipairs(op.inputs) do follow(x) end
    for _, before in ipairs(op.control_inputs) do visit(before) end
  end
end

-- Flattens gradients of arguments: how to get each from the results.
local function flatten(found)
  local results, parts = {}, {}
  local function add(x)
    results[#results + 1] = x
    return #results
  end
  for i, d in ipairs(found) do
    if slices.is(d) then
      local shape = d.dense_shape
      parts[i] = {values = add(core.edge(d.values)),
                  indices = add(core.edge(d.indices)),
                  shape = args.is_tensor(shape) and add(core.edge(shape))
                    or nil, sizes = shape}
    else
      parts[i] = d and {dense = add(core.edge(d))} or false
    end
  end
  return results, parts
end

local function gather_parts(parts, out)
  local list = {}
  for i, p in ipairs(parts) do
    if not p then
      list[i] = false
    elseif p.dense then
      list[i] = out[p.dense]
    else
      list[i] = slices.new(out[p.values], out[p.indices],
                           p.shape and out[p.shape] or p.sizes)
    end
  end
  return list
end

-- The function that gives the gradients of a call of f, where the results of
-- the set `has` have one. Its arguments: those of f, gradients of results, what
-- f draws.
local function make_gradient(f, has, key)
  local trace = f.trace
  local name = f.name .. "_grad_" .. key
  local _ <close> = core.push(at_root(trace.graph))
  local ys, dys, given = {}, {}, table.move(f.args, 1, #f.args, 1, {})
  for i, y in ipairs(f.results) do
    if has[i] then
      ys[#ys + 1] = y
      dys[#dys + 1] = core.add("Placeholder", {}, {dtype = y.dtype,
        shape = y.shape or false}, "dy")
      given[#given + 1] = dys[#dys]
    end
  end
  for i = f.n_results + 1, #f.results do given[#given + 1] = f.results[i] end
  local found = gradients.gradients(ys, f.args, {grad_ys = dys})
  local results, parts = flatten(found)
  local cut = {}
  for _, x in ipairs(given) do cut[x] = true end
  check_pure(f, results, cut)
  local d = {parts = parts}
  if #results > 0 then
    d.f = define(name, trace, given, results, {}, f.captured)
    d.f.n_results = #results
    d.f.region, d.f.unnamed = f.region, true
  end
  return d
end

--- The rule of calls: gradients of what the call op takes.
function func.gradient(op, ...)
  local f = function_of(op)
  local dys, has, key = {}, {}, {}
  for i, y in ipairs(op.outputs) do
    local dy = select(i, ...)
    has[i] = dy and dtypes.differentiable(y.dtype)
    if has[i] then dys[#dys + 1] = core.edge(dy) end
    key[i] = has[i] and "1" or "0"
  end
  key = table.concat(key)
  f.gradients[key] = f.gradients[key] or make_gradient(f, has, key)
  local d = f.gradients[key]
  if not d.f then return gather_parts(d.parts, {}) end
  local inputs = op.inputs
  table.move(dys, 1, #dys, #inputs + 1, inputs)
  local outputs = op.outputs
  table.move(outputs, f.n_results + 1, #outputs, #inputs + 1, inputs)
  return gather_parts(d.parts, (call(d.f, inputs)))
end

return func
