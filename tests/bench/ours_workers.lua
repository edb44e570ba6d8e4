-- ours_workers.lua - rows of ours.lua that run on real `tide worker` processes:
-- its result is called with the row's session.
--
--   worker_null_ipc       an empty step of one worker
--   worker_loop_ipc       an iteration whose counter goes to it and comes back
--   ..._curve             the same by tcp, encrypted
--   worker_null_two       an empty step of two workers, encrypted
--   worker_fetch_curve    100 MB of a variable
--   worker_null_cost      worker_null_curve, beside the same by ipc
--   worker_beat_p99       of empty steps, which have the lane of heartbeats,
--                         while 100 MB at a time come, encrypted
--   worker_sparse_read_1g, .._update_1g
--                         32 rows at random of a table of 1 GB (also 64m, 4g)
--   worker_register_first 36,000 nodes that the worker has not seen, and a step
--   worker_register_again the same nodes in another session
--   worker_null_hostile   an empty step while others without a key and with one
--                         do the worker what harm they can, for some time
--   worker_null_busy      while they do it to nobody: what that takes of the
--                         machine
--
-- SPDX-License-Identifier: Apache-2.0

package.path = "tests/lua/?.lua;" .. package.path

local td = require "tide"
local core = require "tide.core"
local workers = require "shared.workers"

-- Finalizers go from the last to the first, and the worker's pipe, which is
-- closed by one, waits for its end: this one is made after it.
local function end_with_process(w)
  return setmetatable({worker = w}, {__gc = function() w:kill() end})
end

local rows = {}

local ends = {} -- kept while the process lives
rows.ends = ends

-- A session with `n` workers.
local function attached(session, curve, n, env)
  local sess = session()
  for i = 1, n or 1 do
    local w = workers.start{task = i - 1, env = env,
                            listen = curve and "tcp://127.0.0.1:0" or nil}
    ends[i] = end_with_process(w)
    assert(w.address, w.line or "no worker")
    sess:attach(w.address, w.key and {key = w.key})
  end
  return sess
end

local function on(task, build)
  local _ <close> = td.device("/job:worker/task:" .. task)
  return build()
end

local function null(session, curve, n)
  local sess = attached(session, curve, n)
  local list = {}
  for i = 1, n or 1 do list[i] = on(i - 1, td.no_op) end
  local step = sess:callable(#list > 1 and list or list[1], {})
  return function() step() end, 1
end

local function loop(session, curve)
  local sess, n = attached(session, curve), 200
  local i = td.while_loop(function(i) return td.less(i, n) end, function(i)
    return on(0, function() return i + 1 end)
  end, {td.constant(0)})
  if type(i) == "table" then i = i[1] end
  local step = sess:callable(i, {})
  return function() step() end, n
end

local function fetch(session, curve)
  local sess = attached(session, curve)
  local read = on(0, function()
    return td.variable(td.ones{25 << 20}, "big"):read()
  end)
  sess:init()
  local step = sess:callable(read, {})
  return function() step() end, 1
end

-- Steps until nothing of the value is to come, again and again.
local function beat(session)
  local sess = attached(session, true, 1, "TIDE_REMOTE_OFF=shm")
  local read = on(0, function()
    return td.variable(td.ones{25 << 20}, "big"):read()
  end)
  local step = sess:callable(on(0, td.no_op), {})
  sess:init()
  return function()
    local took = {}
    while #took < 400 do
      local bulk = sess:start(read)
      repeat
        local start = core.clock()
        step()
        took[#took + 1] = core.clock() - start
      until bulk:done()
      bulk:wait()
    end
    table.sort(took)
    return took[math.ceil(#took * 0.99)]
  end
end

-- Rows at random of a table of so many MB, read or updated.
local function sparse(session, mb, updates)
  local sess, n = attached(session), mb << 12
  local rows_read = td.placeholder("int64", {32}, "rows")
  local step = on(0, function()
    local big = td.variable(td.zeros{n, 64}, "table")
    if not updates then return big:gather(rows_read) end
    local after = big:scatter_sub(rows_read, td.ones{32, 64})
    return after.op.control_inputs[1] -- without a copy to be read
  end)
  sess:init()
  local call, at, some = sess:callable(step, {rows_read}), 0, {}
  for i = 1, 256 do
    some[i] = td.value.random_uniform({32}, {maxval = n, dtype = "int64"})
  end
  return function()
    at = at % #some + 1
    call(some[at])
  end, 1
end

-- Its names are new, or those that it had before.
local function register(session, again)
  local w = workers.start()
  ends[1] = end_with_process(w)
  local round = 0
  return function()
    if not again or round == 0 then round = round + 1 end
    local g = td.graph()
    g:as_default(function()
      local x = td.placeholder("float32", {}, "x" .. round)
      local y = x
      local sess = session{graph = g}
      sess:attach(w.address)
      on(0, function()
        td.name_scope("round" .. round, function()
          for _ = 1, 18000 do y = td.tanh(y + x) end
        end)
      end)
      sess:run(y, {[x] = 1.0})
      sess:close()
    end)
  end, 1
end

local function among_hostile(session, busy)
  local step, n = null(session, true), 2000
  local w = ends[1].worker
  local at = busy and "nobody" or ("%s '%s'"):format(
    w.address:match "tcp://(.*)", w.key)
  return function()
    local p = io.popen("build/bench/hostile_peer " .. at, "w")
    os.execute "sleep 1" -- beyond what it may do at once
    local start = core.clock()
    for _ = 1, n do step() end
    local took = (core.clock() - start) / n
    p:close()
    return took
  end
end

for _, how in ipairs{"ipc", "curve"} do
  local curve = how == "curve"
  rows["worker_null_" .. how] = function(s) return null(s, curve) end
  rows["worker_loop_" .. how] = function(s) return loop(s, curve) end
  rows["worker_fetch_" .. how] = function(s) return fetch(s, curve) end
end
rows.worker_null_cost = rows.worker_null_curve
rows.worker_beat_p99 = beat
rows.worker_null_hostile = among_hostile
function rows.worker_null_busy(session) return among_hostile(session, true) end
for name, mb in pairs{["64m"] = 64, ["1g"] = 1 << 10, ["4g"] = 4 << 10} do
  rows["worker_sparse_read_" .. name] = function(s) return sparse(s, mb) end
  rows["worker_sparse_update_" .. name] = function(s)
    return sparse(s, mb, true)
  end
end
function rows.worker_register_first(session) return register(session) end
function rows.worker_register_again(session) return register(session, true) end
-- Beside TensorFlow.
rows.worker_null_one = rows.worker_null_curve
rows.worker_loop_far = rows.worker_loop_curve
rows.worker_fetch_far = rows.worker_fetch_curve
function rows.worker_null_two(session) return null(session, true, 2) end

return rows
