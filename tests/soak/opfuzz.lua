-- opfuzz.lua - random calls of every op from Lua: opfuzz.lua CALLS SEED [LOG]
--
-- Each call is drawn from the op's signature (opfuzz_args.lua), or by a maker
-- of its own where it takes what others make (opfuzz_made.lua), and made in one
-- of three ways: on values, as a node whose inputs are constants, variables and
-- fed placeholders of half-known shape, and through the library's function. A
-- few are broken on purpose. Whatever comes back must be a value or an error
-- object with a code; a crash or a sanitizer's finding ends the process. With
-- LOG each call is named before it is made.
--
-- A call depends on (seed, op, how many of this op came before) and on the
-- graph it falls into, not on which other ops there are.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"
local here = arg[0]:match "^(.*/)"
local args = dofile(here .. "opfuzz_args.lua")
local made = dofile(here .. "opfuzz_made.lua")

local calls, seed, log = tonumber(arg[1] or "20000"), tonumber(arg[2] or "1"),
  arg[3]
local random, pick, chance = math.random, args.pick, args.chance
local EPOCH = 100 -- calls that share a graph

-- ---- the graph that nodes go to --------------------------------------------

local graph, session, token, used
local devices = {"", "", "", "", "", "/device:CPU:1", "/device:CPU:1",
  "/device:TEST:0"}

local function close()
  if not graph then return end
  session:close()
  core.pop(token)
  graph = nil
end

local function open()
  close()
  graph = core.graph_new()
  token = core.push{graph = graph, device = pick(devices)}
  session = core.session(graph, {threads = pick{1, 1, 2}, cpu_devices = 2,
    roundtrip = chance(25),
    passes_off = chance(25) and {pick{"fold", "cse", "one_recv"}} or {}})
  used = 0
  if chance(50) then graph:set_seed(random(0, 99)) end
end

local function run(fetches, feeds, values, timeout)
  return session:core_run(fetches, feeds, values,
    {as_values = true, timeout = timeout or 20})
end

-- ---- inputs of nodes -------------------------------------------------------

local VarHandleOp, AssignVariableOp = core.op "VarHandleOp",
  core.op "AssignVariableOp"
local StackV2, StackPushV2 = core.op "StackV2", core.op "StackPushV2"
local TensorArrayV3, TensorArrayScatterV3 = core.op "TensorArrayV3",
  core.op "TensorArrayScatterV3"
local Placeholder, Identity = core.op "Placeholder", core.op "Identity"

-- A stack; one to be popped holds something.
local function stack(c)
  local dtype = c.type or "float32"
  local handle = StackV2(pick{-1, 5},
    {elem_type = dtype, stack_name = pick{"", "s"}})
  if c.op ~= "StackPopV2" then return handle end
  local push = StackPushV2(handle, args.value(dtype, c.like))
  local _ <close> = core.push{controls = {push.op}}
  return Identity(handle)
end

-- A tensor array; one to be read from holds something. The flow goes to
-- flow_in.
local function tensor_array(c)
  local dtype = c.type or "float32"
  local handle, flow = TensorArrayV3(5, {dtype = dtype,
    dynamic_size = chance(50), clear_after_read = chance(50),
    element_shape = chance(30) and args.declared(c.like) or false})
  if not c.op:find("Write") and not c.op:find("Scatter")
    and not c.op:find("Split") then
    local value = args.value(dtype, {3, table.unpack(c.like)})
    flow = TensorArrayScatterV3(handle, {0, 1, 2}, value, flow)
  end
  c.flow = flow
  return handle
end

local TensorListFromTensor, EmptyTensorList = core.op "TensorListFromTensor",
  core.op "EmptyTensorList"
local OptionalFromValue, OptionalNone, Pack = core.op "OptionalFromValue",
  core.op "OptionalNone", core.op "Pack"

-- A list of three tensors or of none: a node, as no variant is a constant.
local function tensor_list(c)
  local dtype = c.types.element_dtype or c.type
  if not dtype or dtype == "variant" then dtype = "float32" end
  if chance(10) then
    return EmptyTensorList(core.edge(-1), pick{-1, 5}, {element_dtype = dtype})
  end
  local values = args.value(dtype, {3, table.unpack(c.like)})
  return TensorListFromTensor(core.edge(values),
    chance(50) and -1 or core.tensor(c.like, "int32", {#c.like}))
end

local function optional(c)
  if chance(10) then return OptionalNone() end
  local dtype = pick{"float32", "int64", "string"}
  c.options.output_types = {dtype}
  c.options.output_shapes = {args.declared(c.like)}
  return OptionalFromValue{core.edge(args.value(dtype, c.like))}
end

local function variant(c, shape)
  local make = c.op:find "^Optional" and optional or tensor_list
  if #shape ~= 1 or shape[1] > 4 or not c.hinted then return make(c) end
  local list = {}
  for i = 1, shape[1] do list[i] = make(c) end
  return Pack(list)
end

-- What ops of accumulators, barriers and mutexes take.
local function coordination(c)
  local kind = c.op:match "^Barrier" or c.op:match "^Mutex"
  if kind == "Mutex" then return core.op "MutexV2"{shared_name = "m"} end
  if kind then
    local dtype = c.type or "float32"
    if c.op == "BarrierTakeMany" then
      c.options.component_types = {dtype}
    elseif chance(90) then
      c.options.component_index = 0
    end
    return core.op "Barrier"{component_types = {dtype}, shapes = {c.like}}
  end
  local o = {dtype = pick{"float32", "float64", c.type},
    shape = chance(50) and args.declared(c.like) or false}
  local type = (c.op:find "^Ordered" and "Ordered" or "")
    .. (c.op:find "Sparse" and "Sparse" or "") .. "ConditionalAccumulator"
  if c.op:find "^Ordered" then o.slots = pick{1, 3} end
  return core.op(type)(o)
end

-- Ops whose step may end by its deadline: what they wait for does not come.
local function may_wait(name)
  return name:find "Stage$" or name:find "Peek$" or name:find "UnstageNoKey$"
    or name:find "Unstage$" or name:find "TakeGradient$"
    or name == "BarrierTakeMany" or name == "MutexLock"
    or name:find "^QueueDequeue" or name:find "^QueueEnqueue"
    or name:find "^ReaderRead"
end

-- A variable of the call's dtype and shape, mostly.
local function variable(c)
  local dtype = chance(95) and c.type or pick{"float32", "int64", "string"}
  local shape = chance(90) and c.like or args.shape()
  local handle = VarHandleOp{dtype = dtype or "float32",
    shape = args.declared(shape)}
  if chance(95) then
    run({AssignVariableOp(handle, args.value(dtype or "float32", shape))}, {},
      {})
  end
  if chance(5) then args.handle = run({handle}, {}, {})[1] end
  return chance(90) and handle or Identity(handle)
end

local function fed(value, feeds)
  local x = Placeholder{dtype = value.dtype, shape = args.declared(value.shape)}
  feeds.edges[#feeds.edges + 1], feeds.values[#feeds.values + 1] = x, value
  return x
end

local function few(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * math.max(1, math.min(d, 1000)) end
  return n <= 40
end

-- An input as a value, as a literal or as an edge.
local function input(c, it, feeds)
  if it.dtype == "resource" and chance(97) then
    local make = c.op:find("^Stack") and stack or c.op:find("^TensorArray")
      and tensor_array or (c.op:find("Accumulator") or c.op:find("^Barrier")
      or c.op:find("^Mutex")) and coordination
    return (make and chance(95) and make or variable)(c)
  end
  if it.dtype == "variant" then return variant(c, it.shape) end
  if it.name == "flow_in" and c.flow and chance(95) then return c.flow end
  local value = args.value(it.dtype, it.shape, it.list)
  if not value then return nil end
  if value.dtype ~= "resource" and few(it.shape) and chance(7) then
    return value:table()
  end
  if not feeds or chance(15) then return value end
  return fed(value, feeds)
end

-- What a maker made; some of the values are fed, some constants.
local function made_inputs(c, feeds)
  local list, o = made.calls[c.op](c)
  if chance(95) then c.options = {} end
  for k, v in pairs(o or {}) do c.options[k] = v end
  for i, x in ipairs(list) do
    if core.kind(x) == "tensor" then
      list[i] = feeds and chance(50) and fed(x, feeds)
        or chance(50) and core.edge(x) or x
    end
  end
  return list
end

local function inputs(c, feeds)
  if made.calls[c.op] and chance(60) then return made_inputs(c, feeds) end
  local list = {}
  for i, it in ipairs(c.inputs) do
    if it.is_list then
      list[i] = {}
      for k, one in ipairs(it) do list[i][k] = input(c, one, feeds) end
    else
      list[i] = input(c, it, feeds)
    end
  end
  return list
end

-- Something for calls of functions, branches and loops to call.
local double = td.func(function(x) return x + x end, "float32",
  {name = "double"})
local some = td.func(function(x)
  local n = x:abs():sum()
  return n:greater_equal(1):logical_and(n:less(99))
end, "float32", {name = "some"})

local function calls_functions(c)
  return c.op:find "PartitionedCall$" or c.op:find "If$" or c.op:find "Case$"
    or c.op:find "While$"
end

local function call_double(c, list)
  double(1.0) -- the graph knows them now
  some(1.0)
  local o, x = c.options, {core.edge(args.value("float32", c.like))}
  o.f, o.body, o.cond = "double", "double", "some"
  o.then_branch, o.else_branch = "double", pick{"double", "double", "some"}
  o.branches = {"double", o.else_branch}
  for name in pairs(o) do
    local known = false
    for _, a in ipairs(c.info.attrs) do known = known or a.name == name end
    if not known then o[name] = nil end
  end
  if chance(70) then
    if not c.op:find "While$" then o.Tout = {"float32"} end
    list[#c.info.inputs] = x
  end
end

-- ---- calls that are wrong --------------------------------------------------

local strange = {false, true, 1.5, -1, 1 << 40, "x", print, td, {},
  {{1}, {2, 3}}, {1, "a"},
  {a = 1}, 0 / 0, "\0", {{}}}

local function odd(n)
  local r = random(n + 3)
  if r == n + 1 then return session end
  if r == n + 2 then return graph end
  if r == n + 3 then return core.op "NoOp"() end
  return strange[r]
end

local breaks = {
  function(list) list[#list] = nil end,
  function(list) table.insert(list, random(#list + 1), odd(#strange)) end,
  function(_, o) o[pick{"nope", "", "T", "N", 1, "dtype"}] = odd(#strange) end,
  function(_, o)
    o.name = pick{"", "a b", "/", "_x", "a/b", "\0", 5, {},
      ("n"):rep(3000), "x"}
  end,
  function(list) if #list > 0 then list[random(#list)] = odd(#strange) end end,
  function(list)
    local i = #list > 0 and random(#list)
    if i then list[i] = type(list[i]) == "table" and list[i][1] or {list[i]} end
  end,
  function(_, o, info)
    local a = #info.attrs > 0 and pick(info.attrs)
    if a then o[a.name] = odd(#strange) end
  end,
}

-- ---- one call --------------------------------------------------------------

local names, infos, functions = {}, {}, {}
for _, name in ipairs(core.op_names()) do
  names[#names + 1] = name
  infos[name], functions[name] = core.op_info(name), core.op(name)
end

-- Ops that wait for others, mean something only in a loop, or write files: they
-- are built, not run.
local writers = {WriteFile = true, Save = true, SaveSlices = true,
  SaveV2 = true, MergeV2Checkpoints = true}

local function only_built(name)
  return name:sub(1, 1) == "_" or name == "Enter" or name == "Exit"
    or name == "NextIteration"
    or name == "LoopCond" or name == "Merge" or writers[name]
end

local function collect(result, edges)
  if core.kind(result) == "edge" or core.kind(result) == "op" then
    edges[#edges + 1] = result
  elseif type(result) == "table" then
    for _, r in ipairs(result) do collect(r, edges) end
  end
end

local function call(name)
  local info, feeds = infos[name], {edges = {}, values = {}}
  local c = args.call(name, info)
  local as_node = chance(60)
  local list = inputs(c, as_node and feeds or nil)
  local o = c.options
  -- takes nothing, so refuses little
  if calls_functions(c) then call_double(c, list) end
  local plain = #info.inputs + #info.attrs == 0
  if chance(plain and 30 or 6) then pick(breaks)(list, o, info) end
  local f = functions[name]
  if info.lua ~= "" and chance(15) then
    f = td[info.lua] or f
    if chance(30) then
      local more = pick{0, 1, -1, {0}, {2, 3}, "x", 0.5}
      table.insert(list, random(#list + 1), more)
    end
  end
  if name:sub(1, 1) == "_" and chance(90) then o.name = o.name or "made" end
  list[#info.inputs + 1] = o
  local results = table.pack(f(table.unpack(list, 1,
    math.max(#info.inputs + 1, #list))))
  local edges = {}
  collect(results, edges)
  if #edges == 0 or only_built(name) then return end
  if core.kind(edges[1]) == "edge"
    and chance(name == "Placeholder" and 90 or 2) then
    feeds.edges[#feeds.edges + 1] = edges[1]
    feeds.values[#feeds.values + 1] = args.value(edges[1].dtype, c.like)
  end
  run(chance(30) and {pick(edges)} or edges, feeds.edges, feeds.values,
    may_wait(name) and 0.02)
end

-- ---- counting --------------------------------------------------------------

local taken, refused, codes, bad, accepted = {}, {}, {}, 0, 0

local function hash(name)
  local h = seed
  for i = 1, #name do h = (h * 31 + name:byte(i)) & 0x7fffffff end
  return h
end

local function count(name, ok, err)
  if ok then
    accepted = accepted + 1
    taken[name] = (taken[name] or 0) + 1
    return
  end
  refused[name] = (refused[name] or 0) + 1
  local code = type(err) == "table" and err.code or "none"
  codes[code] = (codes[code] or 0) + 1
  if code == "none" or code == "internal" or code == "unknown"
    or code == "deadline_exceeded" and not may_wait(name) then
    bad = bad + 1
    if bad <= 20 then
      print(("strange error of %s: %s (%s)"):format(name, tostring(err), code))
    end
  end
end

math.randomseed(seed)
args.fill_pools()
made.begin{args = args, run = run}
for i = 1, calls do
  local name, nth = names[(i - 1) % #names + 1], (i - 1) // #names
  math.randomseed(hash(name), nth)
  if not graph or used >= EPOCH or only_built(name) then open() end
  used = used + 1
  if log then io.stderr:write(("%d %s\n"):format(i, name)) end
  local start = os.clock()
  local ok, err = pcall(call, name)
  if os.clock() - start > 0.1 then
    print(("slow: %s call %d took %.1f s"):format(name, i, os.clock() - start))
  end
  if log then io.stderr:write("  ", ok and "ok" or tostring(err), "\n") end
  count(name, ok, err)
  if only_built(name) then close() end
end
close()
made.finish()

for _, name in ipairs(names) do
  print(("op %s %d %d"):format(name, taken[name] or 0, refused[name] or 0))
end
for code, n in pairs(codes) do print(("code %s %d"):format(code, n)) end
print(("total %d %d %d"):format(calls, accepted, bad))
if bad > 0 then os.exit(false, true) end
