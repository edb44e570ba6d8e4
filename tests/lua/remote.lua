-- remote.lua - sessions whose graphs run in other processes: real workers, over
-- ipc in a folder of their own, and over tcp with keys.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"
local helper = require "helper"
local tables = require "tide.remote.table"
local asking = require "shared.asking"
local bundle = require "tide.show.bundle"
local complete = require "tide.services.complete"
local workers = require "shared.workers"

local raises, gives = helper.raises, helper.gives
local in_time = helper.in_time
local cluster, on = workers.cluster, workers.on
local tests = {}

-- How many descriptors and threads this process has.
local function held()
  local _, files = core.list "/proc/self/fd":gsub("%z", "")
  local _, threads = core.list "/proc/self/task":gsub("%z", "")
  return files, threads
end

local function seconds(f)
  local start = core.clock()
  f()
  return core.clock() - start
end

-- ---- attaching and running -------------------------------------------------

function tests.attach_gives_device_names()
  local w <close> = workers.start{args = "--cpu-devices 2"}
  local sess <close> = td.session()
  lu.assertEquals(sess:attach(w.address),
    {"/job:worker/replica:0/task:0/device:CPU:0",
     "/job:worker/replica:0/task:0/device:CPU:1"})
  lu.assertEquals(#sess:devices(), 3)
  lu.assertEquals(td.devices(), sess:devices())
  lu.assertEquals(w.line, "tide worker /job:worker/task:0 listens on "
    .. w.address)
end

function tests.every_host()
  local w <close> = workers.start{listen = "tcp://*:0"}
  lu.assertEquals(w.address:match "^tcp://(.*):%d+$", core.process().host)
end

function tests.a_graph_that_is_there()
  local x = td.placeholder("float32", {-1})
  local y = td.device("/job:ps/task:3", function() return x * 2 end)
  local sess <close> = td.session()
  local before = td.constant(1.0) + 2
  gives(3, sess:run(before))
  local w <close> = workers.start{job = "ps", task = 3}
  sess:attach(w.address)
  gives({2, 4}, sess:run(y, {[x] = {1.0, 2.0}}))
  gives(3, sess:run(before))
  helper.contains(sess:explain_placement(), "/job:ps/replica:0/task:3")
end

function tests.values_of_all_sizes_and_kinds()
  local all <close> = cluster(1)
  local sess = all.session
  local x, s = td.placeholder("float32", {-1}), td.placeholder("string", {-1})
  local y, t, b = on(0, function()
    return x + 1, td.string_join{s, "!"}, td.constant{true, false}
  end)
  for _, n in ipairs{0, 1, 1000, 262144, 1000000} do
    local out = sess:run(y, {[x] = td.value.fill({n}, 2.0)})
    lu.assertEquals(out.shape, {n})
    lu.assertEquals(td.value.reduce_sum(out):item(), 3.0 * n)
  end
  local long = ("long"):rep(50000)
  lu.assertEquals(sess:run(t, {[s] = {"", "a\0b", long}}):table(),
                  {"!", "a\0b!", long .. "!"})
  lu.assertEquals(sess:run(b):table(), {true, false})
end

function tests.variables_live_there()
  local list <close> = cluster(2)
  local sess = list.session
  local v = on(0, function() return td.variable(td.ones{2}, "v") end)
  local w = on(1, function() return td.variable(td.zeros{2}, "w") end)
  raises("v", sess.run, sess, v:read())
  sess:init()
  local both = td.group{v:assign_add{1.0, 2.0}, w:assign_add(v * 0 + 1)}
  for _ = 1, 10 do sess:run(both) end
  gives({11, 21}, sess:run(v))
  gives({10, 10}, sess:run(w))
  local other <close> = td.session() -- has its own
  other:attach(list[1].address)
  raises("v", other.run, other, v:read())
  gives({11, 21}, sess:run(v))
end

function tests.gradients_over_two_workers()
  local x = td.placeholder("float32", {-1, 3})
  local function net()
    local W = on(0, function()
      return td.variable(td.reshape(td.range(6), {3, 2}):cast "float32", "W")
    end)
    local h = on(0, function() return td.tanh(x:matmul(W) * 0.1) end)
    local U = on(1, function() return td.variable(td.ones{2, 1}, "U") end)
    local loss = on(1, function() return (h:matmul(U) ^ 2):mean() end)
    return {loss, table.unpack(td.gradients(loss, {W, U}))}
  end
  local feeds = {[x] = {{1.0, -2.0, 0.5}, {0.25, 3.0, -1.0}}}
  local fetches = net()
  local all <close> = cluster(2)
  local sess = all.session
  sess:init()
  local far = sess:run(fetches, feeds)
  for _ = 1, 3 do
    for i, value in ipairs(sess:run(fetches, feeds)) do
      lu.assertEquals(tostring(value), tostring(far[i])) -- the same bits
    end
  end
  local W, U = {{0, 1}, {2, 3}, {4, 5}}, {{1}, {1}}
  local rows = feeds[x]
  local loss = td.value_and_grad(function(a, b)
    return (td.tanh(td.tensor(rows):matmul(a) * 0.1):matmul(b) ^ 2):mean()
  end)
  local l, dW, dU = loss(td.tensor(W):cast "float32",
                         td.tensor(U):cast "float32")
  gives(l, far[1])
  gives(dW:table(), far[2])
  gives(dU:table(), far[3])
end

function tests.a_loop_there()
  local all <close> = cluster(2)
  local sess = all.session
  local i, s = on(0, function()
    return td.while_loop(function(i) return i:less(10) end, function(i, s)
      return i + 1, on(1, function() return s + i end)
    end, {0, 0})
  end)
  lu.assertEquals({table.unpack(sess:run{i, s})}, {10, 45})
end

function tests.a_task_that_is_not_there()
  local y = on(7, function() return td.constant(1.0, "asked") end)
  local line = debug.getinfo(1, "l").currentline - 1
  local far = td.func(function() return on(7, function()
    return td.fill({2}, 1.0) * 2
  end) end, {})
  local all <close> = cluster(1)
  local sess = all.session
  local e = raises("asks for \"/job:worker/task:7\", and no such task takes "
    .. "part in the session; there is /job:localhost/replica:0/task:0, "
    .. "/job:worker/replica:0/task:0; sess:attach", sess.run, sess, y)
  lu.assertEquals({e.code, e.node}, {"invalid_argument", "asked"})
  helper.contains(tostring(e), "remote.lua:" .. line)
  raises("no such task", sess.run, sess, far())
  local w <close> = workers.start{task = 7}
  sess:attach(w.address)
  gives(1, sess:run(y))
  w:kill()
  e = raises("/job:worker/replica:0/task:7", sess.run, sess, y)
  lu.assertEquals(e.code, "unavailable")
end

-- ---- errors ----------------------------------------------------------------

function tests.an_error_of_a_kernel()
  local all <close> = cluster(1)
  local sess = all.session
  local x = td.placeholder("float32", {-1})
  local bad = on(0, function()
    return td.check_numerics(td.log(x), "loss") -- here
  end)
  local line = debug.getinfo(1, "l").currentline - 2
  local e = raises("loss : Tensor had", sess.run, sess, bad, {[x] = {-1.0}})
  lu.assertEquals({e.code, e.op, e.node}, {"invalid_argument", "CheckNumerics",
                                           bad.op.name})
  lu.assertEquals(e.task, "/job:worker/replica:0/task:0")
  lu.assertEquals(e.device, "/job:worker/replica:0/task:0/device:CPU:0")
  helper.contains(tostring(e), "remote.lua:" .. line)
  gives({0}, sess:run(bad, {[x] = {1.0}}))
end

function tests.a_timeout_and_the_next_step()
  local all <close> = cluster(1)
  local sess = all.session
  local q = on(0, function() return td.fifo_queue(1, "int32", {}) end)
  local got = q:dequeue()
  local e = raises("/job:worker/replica:0/task:0", sess.run, sess, got, nil,
                   {timeout = 0.1})
  lu.assertEquals(e.code, "deadline_exceeded")
  sess:run(q:enqueue(3))
  lu.assertEquals(sess:run(got), 3)
end

function tests.cancelled_by_another_line()
  local all <close> = cluster(1)
  local sess = all.session
  local q = on(0, function() return td.fifo_queue(1, "int32", {}) end)
  local got = q:dequeue()
  local h = sess:start(got)
  h:cancel()
  local took = seconds(function() raises("cancelled", h.wait, h) end)
  lu.assertTrue(took < in_time(1), took)
  sess:run(q:enqueue(3))
  lu.assertEquals(sess:run(got), 3)
end

-- ---- looking ---------------------------------------------------------------

-- One axis of time: what two workers did, and what went between them.
function tests.a_trace_over_workers()
  local c <close> = cluster(2)
  local x = td.placeholder("float32", {-1, 64})
  local y = on(0, function() return x:matmul(td.ones{64, 64}) end)
  local z = on(1, function() return y:tanh():sum() end)
  local feeds = {[x] = td.value.ones{8, 64}}
  c.session:run(z, feeds)
  local _, p = c.session:run(z, feeds, {trace = true})
  lu.assertEquals(#p.tasks, 2)
  local known = {}
  for _, t in ipairs(p.tasks) do
    lu.assertNil(t.trouble)
    lu.assertEquals(t.dropped, 0)
    lu.assertTrue(t.error > 0)
    known[t.task] = 0
  end
  for _, e in ipairs(p.events) do
    lu.assertTrue(e.ready <= e.start and e.start <= e.stop)
    if known[e.task] then known[e.task] = known[e.task] + 1 end
  end
  lu.assertTrue(known["/job:worker/task:0"] > 1)
  lu.assertTrue(known["/job:worker/task:1"] > 1)
  local between = 0
  for _, a in ipairs(p.arrows) do
    local from, to = p.events[a.from], p.events[a.to]
    lu.assertTrue(to.stop + a.error >= from.start)
    if from.task ~= to.task and to.task == "/job:worker/task:1" then
      between = between + 1
      lu.assertEquals(a.bytes, 8 * 64 * 4)
    end
  end
  lu.assertTrue(between >= 1)
  lu.assertStrContains(p.chrome, '"ph":"s"')
  lu.assertStrContains(p.chrome, "/job:worker/replica:0/task:1 (clock ")
  local text = bundle(p).data["text/plain"]
  lu.assertStrContains(text, "tasks, ")
  lu.assertStrContains(text, "sent until there")
  lu.assertStrContains(p:svg(), "clock ")
end

-- Who waits for whom, while a step hangs; and its error says it too.
function tests.why_across_tasks()
  local c <close> = cluster(2)
  local q = on(0, function() return td.fifo_queue(5, "float32", {{}}) end)
  local x = on(0, function() return q:dequeue() end)
  local y = on(1, function() return x * 2 end)
  local e
  local tries = 0
  repeat -- a busy worker may not answer in time
    e = tostring(raises("waiting:", c.session.run, c.session, y, nil,
                        {timeout = 2}))
    tries = tries + 1
  until e:find("waits for", 1, true) or tries == 20
  lu.assertStrContains(e, "waits for")
  local h = c.session:start(y)
  local text
  repeat
    text = c.session:why()
  until text:find(" of /job:worker/task:0, whose fifo_queue_dequeue", 1, true)
  lu.assertStrContains(text, "/job:worker/task:1 waits for ")
  lu.assertStrContains(text, " waits for queue fifo_queue: 0 of 5 elements")
  lu.assertNil(text:find("silent", 1, true))
  c.session:run(q:enqueue(21))
  lu.assertEquals(h:wait(), 42)
  lu.assertEquals(c.session:why(), "")
end

function tests.nobody_there()
  local sess <close> = td.session()
  local took = seconds(function()
    local e = raises("nobody answers at ipc://", sess.attach, sess,
      "ipc://" .. workers.path "none", {timeout = 0.3})
    lu.assertEquals(e.code, "unavailable")
  end)
  lu.assertTrue(took > 0.2 and took < in_time(2), took)
  raises("the address \"tcp://x\": it has no port", sess.attach, sess,
         "tcp://x")
  raises("is no host that others can dial", sess.attach, sess,
         "tcp://0.0.0.0:80")
  raises("the list of addresses is empty", sess.attach, sess, {})
  raises("an address is text", sess.attach, sess, {{}})
  raises("the public key of tcp://127.0.0.1:1 is not known", sess.attach, sess,
         "tcp://127.0.0.1:1")
  raises("called with a colon", sess.attach, "ipc:///x")
  lu.assertEquals(#sess:workers(), 0)
end

function tests.a_task_that_is_taken()
  local all <close> = cluster(1)
  local sess = all.session
  local other <close> = workers.start()
  local e = raises("/job:worker/replica:0/task:0", sess.attach, sess,
                   other.address)
  lu.assertEquals(e.code, "already_exists")
  lu.assertEquals(#sess:workers(), 1)
  raises("is /job:worker/task:0, not /job:worker/task:5", function()
    local fresh <close> = td.session()
    fresh:attach(other.address, {task = 5})
  end)
  gives(3, sess:run(on(0, function() return td.constant(1.0) + 2 end)))
end

function tests.a_list_is_attached_whole_or_not_at_all()
  local w <close> = workers.start()
  local sess <close> = td.session()
  raises("nobody answers", sess.attach, sess,
         {w.address, "ipc://" .. workers.path "none"}, {timeout = 0.3})
  lu.assertEquals(#sess:workers(), 0)
  lu.assertEquals(#sess:devices(), 1)
  sess:attach(w.address)
end

function tests.a_closed_session()
  local w <close> = workers.start()
  local sess = td.session()
  sess:close()
  raises("the session is closed", sess.attach, sess, w.address)
end

-- ---- keys ------------------------------------------------------------------

function tests.tcp_with_keys()
  local w <close> = workers.start{listen = "tcp://127.0.0.1:0"}
  lu.assertEquals(#w.key, 40)
  local sess <close> = td.session()
  sess:attach(w.address) -- it has left its key
  gives(3, sess:run(on(0, function() return td.constant(1.0) + 2 end)))
  sess:detach(w.address)
  sess:attach(w.address, {key = w.key})
  local file = workers.path "key"
  local f <close> = assert(io.open(file, "w"))
  f:write("# the worker's\n", w.key, " me@here\n")
  f:close()
  sess:detach "/job:worker/task:0"
  sess:attach(w.address:gsub("127.0.0.1", "localhost"), {key = file})
end

-- A worker at ipc proves its key where it dials one at tcp.
function tests.values_between_tcp_and_ipc()
  local near <close> = workers.start()
  local far <close> = workers.start{listen = "tcp://127.0.0.1:0", task = 1}
  local sess <close> = td.session()
  sess:attach(near.address)
  sess:attach(far.address)
  local x = td.placeholder("float32", {})
  local there = on(0, function() return x * 2 end)
  local back = on(1, function() return there + 1 end)
  local again = on(0, function() return back * back end)
  gives(49, sess:run(again, {[x] = 3}, {timeout = 60}))
  local other = on(0, function() return on(1, function() return -x end) * 2 end)
  gives(-8, sess:run(other, {[x] = 4}, {timeout = 60}))
end

function tests.a_wrong_key()
  local w <close> = workers.start{listen = "tcp://127.0.0.1:0"}
  local other <close> = td.server{listen = "tcp://127.0.0.1:0"}
  local sess <close> = td.session()
  local e = raises("its public key is probably not the one given", sess.attach,
                   sess, w.address, {key = other.public_key})
  lu.assertEquals(e.code, "permission_denied")
  raises("of Z85", sess.attach, sess, w.address, {key = ("#"):rep(40)})
  sess:attach(w.address)
end

function tests.not_on_the_list()
  local list = workers.path "allow"
  local f <close> = assert(io.open(list, "w"))
  f:write "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 somebody\n"
  f:close()
  local w <close> = workers.start{listen = "tcp://127.0.0.1:0",
                                  args = "--allow " .. list}
  local sess <close> = td.session()
  local e = raises("not on the list there", sess.attach, sess, w.address)
  lu.assertEquals(e.code, "permission_denied")
end

-- ---- leaving ---------------------------------------------------------------

function tests.detach()
  local list <close> = cluster(2)
  local sess = list.session
  local v = on(0, function() return td.variable(td.ones{2}, "kept") end)
  local y = on(1, function() return td.constant(2.0) * 3 end)
  sess:init()
  gives(6, sess:run(y))
  sess:detach "/job:worker/task:1"
  lu.assertEquals(#sess:devices(), 2)
  local e = raises("kept", sess.detach, sess, list[1].address)
  lu.assertEquals(e.code, "failed_precondition")
  gives({1, 1}, sess:run(v))
  sess:detach(list[1].address, {drop = true})
  lu.assertEquals(#sess:workers(), 0)
  raises("no worker \"/job:worker/task:0\" is attached; there is none",
         sess.detach, sess, "/job:worker/task:0")
  sess:attach{list[1].address, list[2].address}
  gives(6, sess:run(y))
  raises("is not initialised", sess.run, sess, v:read())
  sess:init()
  gives({1, 1}, sess:run(v))
end

function tests.a_hundred_times()
  local w <close> = workers.start()
  local sess <close> = td.session()
  local y = on(0, function() return td.constant(1.0) + 1 end)
  local function once()
    sess:attach(w.address)
    gives(2, sess:run(y))
    sess:detach(w.address)
  end
  for _ = 1, 5 do once() end
  local files, threads = held()
  for _ = 1, 100 do once() end
  local more_files, more_threads
  helper.eventually(function() -- ZeroMQ closes on a thread of its own
    more_files, more_threads = held()
    return more_files <= files + 2 and more_threads <= threads
  end)
  lu.assertTrue(more_files <= files + 2, more_files - files)
  lu.assertTrue(more_threads <= threads, more_threads - threads)
end

function tests.sessions_come_and_go()
  local w <close> = workers.start()
  local v = on(0, function() return td.variable(1.0, "v") end)
  for _ = 1, 20 do
    local sess <close> = td.session()
    sess:attach(w.address)
    raises("v", sess.run, sess, v:read()) -- nothing is left of the last one's
    sess:init()
    gives(1, sess:run(v))
  end
end

function tests.a_worker_is_killed()
  local list <close> = cluster(1)
  local sess = list.session
  local y = on(0, function() return td.constant(1.0) + 1 end)
  gives(2, sess:run(y))
  list[1]:kill()
  local took = seconds(function()
    local e = raises("/job:worker/replica:0/task:0", sess.run, sess, y)
    lu.assertEquals(e.code, "unavailable")
    lu.assertEquals(e.task, "/job:worker/replica:0/task:0")
  end)
  lu.assertTrue(took < in_time(10), took)
  local row = sess:workers()[1]
  lu.assertEquals(row.state, "dead")
  helper.contains(row.error, "/job:worker/replica:0/task:0")
  gives(3, sess:run(td.constant(1.0) + 2)) -- the rest goes on
  local _ <close> = workers.start{listen = list[1].address}
  helper.eventually(function() return (pcall(sess.run, sess, y)) end)
  gives(2, sess:run(y))
end

function tests.a_worker_that_ends_in_order()
  local list <close> = cluster(1)
  local sess = list.session
  local y = on(0, function() return td.constant(1.0) + 1 end)
  gives(2, sess:run(y))
  lu.assertEquals(list[1]:stop(), 0)
  local took = seconds(function()
    raises("/job:worker/replica:0/task:0", sess.run, sess, y)
  end)
  lu.assertTrue(took < in_time(2), took)
end

-- ---- looking ---------------------------------------------------------------

function tests.rows_of_workers()
  local list <close> = cluster(2)
  local sess = list.session
  sess:run(on(1, function() return td.constant(1.0) + 1 end))
  local rows
  helper.eventually(function() -- who was starved for two seconds is suspect
    rows = sess:workers()
    return rows[1].state == "up" and rows[2].state == "up"
  end)
  lu.assertEquals(#rows, 2)
  for i, row in ipairs(rows) do
    lu.assertEquals(row.task, list[i].task)
    lu.assertEquals(row.address, list[i].address)
    lu.assertEquals({row.state, row.pid}, {"up", list[i].pid})
    lu.assertTrue(row.heartbeat < in_time(5), row.heartbeat)
    lu.assertTrue(row.bytes_in > 0 and row.bytes_out > 0)
    lu.assertEquals(row.devices, {list[i].task .. "/device:CPU:0"})
  end
  helper.contains(tables.text(rows, {width = 100}), "2 workers: 2 up",
                  "worker 0  ● up", "worker 1  ● up", "1 CPU")
end

function tests.devices_are_completed()
  local all <close> = cluster(1)
  local _ <close> = asking.provide{td = td, sess = all.session}
  local found = asking.at(complete, "td.device('/job:w|").matches
  helper.contains(table.concat(found, " "), "/job:worker/task:0",
                  "/job:worker/task:0/cpu:0",
                  "/job:worker/replica:0/task:0/device:CPU:0")
end

-- ---- servers ---------------------------------------------------------------

function tests.a_server_of_this_process()
  local s <close> = td.server{listen = "ipc://" .. workers.path "s",
                              job = "ps", task = 1, cpu_devices = 2}
  lu.assertEquals({s.job, s.task, s.public_key}, {"ps", 1, nil})
  lu.assertEquals(tostring(s), "Server /job:ps/task:1 at " .. s.target)
  local sess <close> = td.session()
  lu.assertEquals(#sess:attach(s.target), 2)
  gives(3, sess:run(td.device("/job:ps/task:1", function()
    return td.constant(1.0) + 2
  end)))
  raises("no field or method \"targt\" on a server; did you mean \"target\"?",
         function() return s.targt end)
  sess:close()
  s:stop()
  s:stop()
  s:join() -- it is over
end

function tests.servers_of_a_cluster()
  local c = td.cluster{ps = {"ipc://" .. workers.path "p"},
                       worker = {"ipc://" .. workers.path "w"},
                       job = "worker", task = 0}
  local s <close> = td.server{cluster = c, job = "ps", task = 0}
  local own <close> = td.server{cluster = c}
  lu.assertEquals(own.target, c:address("worker", 0))
  local sess <close> = td.session()
  lu.assertEquals(sess:attach(c), {"/job:ps/replica:0/task:0/device:CPU:0"})
  lu.assertEquals(sess:workers()[1].address, s.target)
end

function tests.what_a_server_refuses()
  local path = "ipc://" .. workers.path "s"
  for _, row in ipairs{
    {"nothing says where it listens", {}},
    {"it has no port", {listen = "tcp://x"}},
    {"is no name of a job", {listen = path, job = "a b"}},
    {"task must be a number from 0", {listen = path, task = -1}},
    {"data_port is of tcp", {listen = path, data_port = 8000}},
    {"cpu_devices must be 1 to", {listen = path, cpu_devices = -1}},
    {"No such file", {listen = path, allow = "/nowhere"}},
    {"tide.key", {listen = path, key = "/nowhere"}},
    {"job \"x\"", {cluster = {worker = {"a:1"}}, job = "x"}},
    {"no host that others can dial", {listen = path, advertise = "*:1"}},
  } do raises(row[1], td.server, row[2]) end
  local s <close> = td.server{listen = path}
  local e = raises("another process listens there", td.server, {listen = path})
  lu.assertEquals(e.code, "unavailable")
  lu.assertEquals(s.target, path)
end

return tests
