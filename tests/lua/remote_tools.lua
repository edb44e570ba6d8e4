-- remote_tools.lua - workers that are looked after: containers that sessions
-- share, limits of memory, keys that stay.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local workers = require "shared.workers"

local raises, gives = helper.raises, helper.gives
local on = workers.on
local tests = {}

-- A session attached to workers.
local function session(...)
  local sess = td.session()
  for _, w in ipairs{...} do sess:attach(w.address) end
  return sess
end

-- Variables of task n: one of a shared container, one of the session's own.
local function variables(n)
  return on(n, function()
    local shared = td.container("pool", function()
      return td.variable(td.constant(1.0), "shared" .. n)
    end)
    return shared, td.variable(td.constant(5.0), "own" .. n)
  end)
end

-- ---- containers ------------------------------------------------------------

function tests.reset_reaches_all_workers()
  local a <close> = workers.start()
  local b <close> = workers.start{task = 1}
  local shared, own = {}, {}
  for n = 0, 1 do shared[n], own[n] = variables(n) end
  local one <close> = session(a, b)
  local two <close> = session(a, b)
  one:init()
  two:init{own[0], own[1]}
  for n = 0, 1 do
    one:run{shared[n]:assign(7.0 + n), own[n]:assign(3.0)}
    gives(7 + n, two:run(shared[n]:read()))
  end
  one:reset{"pool"}
  for n = 0, 1 do
    raises("is not initialised", two.run, two, shared[n]:read())
    raises("is not initialised", one.run, one, shared[n]:read())
    gives(3, one:run(own[n]:read()))
    gives(5, two:run(own[n]:read()))
  end
  one:init{shared[0], shared[1]}
  gives(1, two:run(shared[1]:read()))
  one:reset() -- its own, there too
  raises("is not initialised", one.run, one, own[0]:read())
  gives(5, two:run(own[0]:read()))
  gives(1, two:run(shared[0]:read()))
end

function tests.reset_of_a_worker_that_is_gone()
  local a <close> = workers.start()
  local b <close> = workers.start{task = 1}
  local sess <close> = session(a, b)
  local shared, own = variables(1)
  sess:init()
  a:kill()
  local ok, e = pcall(sess.reset, sess, {"pool"})
  if not ok then lu.assertStrContains(tostring(e), "task:0") end
  gives(5, sess:run(own:read()))
  raises("is not initialised", sess.run, sess, shared:read())
end

-- ---- numbers -------------------------------------------------------------

function tests.metrics_of_a_server()
  local address = "ipc://" .. workers.path "s"
  do
    local s <close> = td.server{listen = address, metrics = "0"}
    lu.assertStrMatches(s.metrics, "http://127%.0%.0%.1:%d+/metrics")
  end
  for _, where in ipairs{"here", "127.0.0.1:99999", address} do
    raises("metrics", td.server, {listen = address, metrics = where})
  end
  local s <close> = td.server{listen = address}
  lu.assertNil(s.metrics)
end

function tests.the_last_error()
  local w <close> = workers.start()
  local sess <close> = session(w)
  local x = td.placeholder("float32", {-1}, "x")
  local y = on(0, function() return td.reshape(x, {2, 2}, "square") end)
  gives({{1, 2}, {3, 4}}, sess:run(y, {[x] = {1.0, 2.0, 3.0, 4.0}}))
  lu.assertNil(sess:workers()[1].last_error)
  raises("square", sess.run, sess, y, {[x] = {1.0}})
  local row = sess:workers()[1]
  helper.contains(row.last_error, "(square)")
  lu.assertEquals({row.state, row.error}, {"up"})
  helper.contains(require "tide.remote.table".text(sess:workers()),
                  "1 worker: 1 up", "last error: ")
end

-- ---- memory ----------------------------------------------------------------

function tests.a_step_at_the_limit_of_memory()
  local w <close> = workers.start{args = "--memory-limit 64M"}
  local sess <close> = session(w)
  local n = td.placeholder("int32", {}, "n")
  local x = td.placeholder("float32", {-1}, "x")
  local filled, sum = on(0, function()
    return td.fill(td.stack{n}, 1.0, "filled"):max(), x:sum()
  end)
  local v = on(0, function()
    return td.variable(td.zeros{20000000}, "large")
  end)
  local function refused(node, size, ...)
    local e = raises("memory limit of 64.0 MiB", ...)
    lu.assertEquals(e.code, "resource_exhausted")
    helper.contains(tostring(e), "/job:worker/replica:0/task:0/device:CPU:0")
    helper.contains(tostring(e), node)
    helper.contains(tostring(e), size)
    gives(1, sess:run(filled, {[n] = 1000000}))
  end
  refused("filled", "8000000000 bytes", sess.run, sess, filled,
          {[n] = 2000000000})
  refused("task:0", "120000000 bytes", sess.run, sess, sum,
          {[x] = td.value.fill({30000000}, 1.0)})
  refused("zeros", "80000000 bytes", sess.init, sess, {v})
end

-- Graphs are not tensors: who registers more than the process may take is told
-- so, and it goes on for others.
function tests.a_greedy_client()
  local w <close> = workers.start{args = "--memory-limit 64M"}
  local greedy <close> = session(w)
  local other <close> = session(w)
  local x = td.placeholder("float32", {})
  local y = on(0, function() return x + 1 end)
  local why
  for i = 1, 40 do
    local z = on(0, function()
      return (td.constant(td.value.fill({30000000}, i + 0.5)) + x):max()
    end)
    local ok, e = pcall(greedy.run, greedy, z, {[x] = 1.0})
    why = not ok and e
    if why then break end
    gives(3, other:run(y, {[x] = 2.0}))
  end
  lu.assertEquals(why and why.code, "resource_exhausted")
  helper.contains(tostring(why), "task:0")
  gives(3, other:run(y, {[x] = 2.0}))
  greedy:close()
  gives(3, other:run(y, {[x] = 2.0}))
  lu.assertEquals(w:stop(), 0)
end

-- ---- failures --------------------------------------------------------------

-- The trace of a step that failed has what each task had run; a large one is
-- pulled, too.
function tests.trace_of_a_failure()
  local list <close> = workers.cluster(2)
  local sess = list.session
  local x = td.placeholder("int32", {}, "x")
  local long = on(0, function()
    local y = x
    for _ = 1, 1500 do y = td.negative(y) end
    return y
  end)
  local bad = on(1, function() return td.floordiv(x, long) end)
  local ok, e = pcall(sess.run, sess, bad, {[x] = 0}, {trace = true})
  lu.assertFalse(ok)
  lu.assertEquals(e.op, "FloorDiv")
  local of, failed = {}, {}
  for _, event in ipairs(e.trace.events) do
    of[event.task] = (of[event.task] or 0) + 1
    if event.failed then failed[#failed + 1] = event.task .. event.op end
  end
  lu.assertEquals(failed, {"/job:worker/task:1FloorDiv"})
  lu.assertEquals(#e.trace.tasks, 2)
  for _, task in ipairs(e.trace.tasks) do lu.assertNil(task.trouble) end
  lu.assertTrue(of["/job:worker/task:0"] >= 1500)
end

return tests
