-- ours_workers.lua - rows of ours.lua that run on real `tide worker` processes:
-- its result is called with the row's session.
--
--   worker_null_ipc       an empty step of one worker
--   worker_loop_ipc       an iteration whose counter goes to it and comes back
--   ..._curve             the same by tcp, encrypted
--   worker_null_two       an empty step of two workers, encrypted
--   worker_fetch_curve    100 MB of a variable
--
-- SPDX-License-Identifier: Apache-2.0

package.path = "tests/lua/?.lua;" .. package.path

local td = require "tide"
local workers = require "shared.workers"

-- Finalizers go from the last to the first, and the worker's pipe, which is
-- closed by one, waits for its end: this one is made after it.
local function end_with_process(w)
  return setmetatable({}, {__gc = function() w:kill() end})
end

local rows = {}

local ends = {} -- kept while the process lives
rows.ends = ends

-- A session with `n` workers.
local function attached(session, curve, n)
  local sess = session()
  for i = 1, n or 1 do
    local w = workers.start{task = i - 1,
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

for _, how in ipairs{"ipc", "curve"} do
  local curve = how == "curve"
  rows["worker_null_" .. how] = function(s) return null(s, curve) end
  rows["worker_loop_" .. how] = function(s) return loop(s, curve) end
  rows["worker_fetch_" .. how] = function(s) return fetch(s, curve) end
end
-- Beside TensorFlow.
rows.worker_null_one = rows.worker_null_curve
rows.worker_loop_far = rows.worker_loop_curve
rows.worker_fetch_far = rows.worker_fetch_curve
function rows.worker_null_two(session) return null(session, true, 2) end

return rows
