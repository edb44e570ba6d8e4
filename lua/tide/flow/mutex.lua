--- flow/mutex.lua - td.mutex: ops of steps that exclude one another.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local resource = require "tide.flow.resource"
local scope = require "tide.graph.scope"

local mutex = {}
local methods = {}
local meta = resource.class("mutex", methods, "what its :lock(f) gives")

--- A mutex; those of one name are one.
-- @param[opt] name also of its node
-- @usage td.mutex("turn").name  --> turn
function mutex.mutex(name)
  if name ~= nil then args.expect(name, "string", "mutex: the name") end
  local handle = core.add("MutexV2", {}, {shared_name = name}, name or "mutex")
  return setmetatable({handle = handle, name = handle.op.name}, meta)
end

-- ---- what is built inside -------------------------------------------------

-- Ops that were added to g since it had `before`.
local function built_since(g, before)
  return {table.unpack(g:ops(), before + 1)}
end

-- The op of each input, control inputs too.
local function each_input(op, f)
  for _, x in ipairs(op.inputs) do f(x.op) end
  for _, x in ipairs(op.control_inputs) do f(x) end
end

-- Those that nothing else of them waits for, outside of their branches and
-- loops.
local function last_of(ops, flow)
  local used, list = {}, {}
  for _, op in ipairs(ops) do
    if op.flow == flow then
      each_input(op, function(from) used[from] = true end)
    end
  end
  for _, op in ipairs(ops) do
    if op.flow == flow and not used[op] then list[#list + 1] = op end
  end
  return list
end

-- ---- locking --------------------------------------------------------------

-- A result, available when the mutex is free again.
local function behind(release, x)
  if core.kind(x) == "op" then return scope.group({x, release}) end
  if not args.is_tensor(x) then return x end
  return scope.tuple({x}, {controls = {release}})[1]
end

--- Runs f; the ops that it makes run, in a step, while nobody else has the
-- mutex: after it is locked and before it is free. Whoever uses a result of f
-- has all of them run. A step that fails inside leaves the mutex free.
-- @return the results of f; without any, an op that runs what it made
-- @usage td.mutex("turn"):lock(function() return td.constant(1) end)  --> 1
function methods:lock(f)
  args.expect(f, "function", "lock: what runs inside")
  local lock = core.add("MutexLock", {self.handle}, nil, "lock")
  local g = core.scope().graph
  local before = g:size()
  local results = table.pack(scope.control_dependencies({lock}, f))
  local ops = built_since(g, before)
  local release = scope.control_dependencies(last_of(ops, lock.op.flow),
    function() return core.add("ConsumeMutexLock", {lock}, nil, "unlock") end)
  if results.n == 0 then return release end
  for i = 1, results.n do results[i] = behind(release, results[i]) end
  return table.unpack(results, 1, results.n)
end

function meta.__tostring(self)
  return ("Mutex \"%s\""):format(self.name)
end

return mutex
