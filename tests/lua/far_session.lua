-- far_session.lua - sessions whose master is another process: a server of this
-- one, or a real worker where somebody has to die.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"
local helper = require "helper"
local owner = require "tide.console.owner"
local workers = require "shared.workers"

local raises, gives = helper.raises, helper.gives
local tests = {}

-- A server of this process, over ipc.
local function server(o)
  o = o or {}
  o.listen = o.listen or "ipc://" .. workers.path "f"
  return td.server(o)
end

-- A session at a server of its own; closing it ends both.
local function pair(o)
  local s = server()
  o = o or {}
  o.target = s.target
  local sess = td.session(o)
  return sess, setmetatable({}, {__close = function()
    sess:close()
    s:stop()
  end})
end

-- Asks again until f says yes; a test's deadline is for machines under load.
local function comes(f, what)
  local until_ = core.clock() + 60
  while not f() do
    if core.clock() > until_ then error("never came: " .. what) end
    core.pause(0.02)
  end
end

local function names(target)
  local list = {}
  for i, s in ipairs(td.sessions(target)) do list[i] = s.name end
  table.sort(list)
  return list
end

-- A program of its own that runs `text` and says "ready"; killed when closed.
local function program(text)
  local path = workers.path "p" .. ".lua"
  local file <close> = assert(io.open(path, "w"))
  file:write("local td = require 'tide'\n", text,
             "\nio.stdout:write 'ready\\n' io.stdout:flush()\n",
             "require 'tide.core'.pause(1000)\n")
  file:close()
  local pipe = assert(io.popen(("echo $$; exec %s %s 2>&1")
    :format(workers.binary, path)))
  local self = {pid = pipe:read(), line = pipe:read()}
  function self.kill()
    if not pipe then return end
    os.execute("kill -9 " .. self.pid)
    pipe:close()
    pipe = nil
  end
  return setmetatable(self, {__close = self.kill})
end

-- Are all of that task, its CPU among them?
local function all_of(task, devices)
  local cpu = false
  for _, name in ipairs(devices) do
    helper.contains(name, task .. "/device:")
    cpu = cpu or name == task .. "/device:CPU:0"
  end
  lu.assertTrue(cpu)
end

-- ---- steps -----------------------------------------------------------------

function tests.a_step_is_run_there()
  local sess, all <close> = pair()
  local x = td.placeholder("float32", {-1})
  local y = x * 2
  gives({2, 4}, sess:run(y, {[x] = {1.0, 2.0}}))
  gives({6}, sess:callable(y, {x}){3.0})
  local big = sess:run(y, {[x] = td.value.fill({1000000}, 2.0)})
  lu.assertEquals(td.value.reduce_sum(big):item(), 4e6)
  all_of("/job:worker/replica:0/task:0", sess:devices())
  helper.contains(tostring(sess), "at /job:worker/task:0")
  helper.contains(sess:explain_placement(), "Mul")
  lu.assertNotNil(all)
end

function tests.variables_and_training()
  local sess, _ <close> = pair()
  td.seed(7)
  local w = td.variable(td.random.normal({3, 1}), "w")
  local x = td.placeholder("float32", {-1, 3})
  local loss = (x:matmul(w) - 1):square():mean()
  local train = td.train.adam(0.1):minimize(loss)
  local feeds = {[x] = {{1.0, 2.0, 3.0}, {0.5, 0.1, 0.2}}}
  local here <close> = td.session()
  here:init()
  sess:init()
  gives(here:run(w):table(), sess:run(w))
  for _ = 1, 5 do
    here:run(train, feeds)
    sess:run(train, feeds)
  end
  lu.assertEquals(sess:run(w):table(), here:run(w):table())
end

function tests.control_flow_and_functions()
  local sess, _ <close> = pair()
  local n = td.placeholder("int32", {})
  local _, sum = td.while_loop(function(i) return i:less(n) end,
    function(i, s) return i + 1, s + i end, {0, 0})
  gives(45, sess:run(sum, {[n] = 10}))
  gives(3, sess:run(sum, {[n] = 3}))
  local f = td.func(function(a) return a * a + 1 end, {"float32"})
  local x = td.placeholder("float32", {})
  local y = td.cond(x:greater(0.0), function() return f(x) end,
                    function() return -x end)
  gives(10, sess:run(y, {[x] = 3.0}))
  gives(2, sess:run(y, {[x] = -2.0}))
  gives(6, sess:run(td.gradients(y, {x})[1], {[x] = 3.0}))
end

-- Nodes that are there wait for others then: those that push.
function tests.a_gradient_of_a_loop_that_was_run()
  local sess, _ <close> = pair()
  local x = td.constant(2.0)
  local _, y = td.while_loop(function(i) return i:less(4) end,
    function(i, v) return i + 1, v * x end, {0, x})
  gives(32, sess:run(y))
  local d = td.gradients(y, {x})[1]
  gives(80, sess:run(d))
  gives(160, sess:run(td.gradients(d, {x})[1]))
  gives(32, sess:run(y))
end

-- What a cell made goes when it runs again, where the session is kept, too.
function tests.a_cell_again()
  local s <close> = server()
  local sess <close> = td.session{target = s.target, outlive = true,
                                  name = "cells"}
  local W, read, set, fill, size
  local function cell()
    local run = owner.start("a", "In[1]")
    W = td.variable({1.0, 2.0}, "W")
    read, set = W:read(), W:assign{5.0, 6.0}
    local q = td.fifo_queue(4, "float32", {}, "q")
    fill, size = q:enqueue(1.5), q:size()
    owner.stop(run, true)
  end
  for i = 1, 4 do
    cell()
    sess:init()
    gives(i == 1 and {1, 2} or {5, 6}, sess:run(read))
    gives(0, sess:run(size))
    sess:run(fill)
    gives(1, sess:run(size))
    sess:run(set)
  end
  comes(function()
    local other, n = td.session{target = s.target, name = "cells"}, 0
    for _, op in ipairs(other:core_graph():ops()) do
      if op.type:find "Queue" then n = n + 1 end
    end
    other:leave()
    return n == 3
  end, "nodes that go")
end

function tests.what_is_fed_does_not_change_what_is_there()
  local sess, _ <close> = pair()
  local x = td.constant(3.0)
  local y = x * 2
  local z = y + 1
  gives(11, sess:run(z, {[y] = 10.0}))
  gives(7, sess:run(z))
  gives(5, sess:run(z, {[x] = 2.0}))
  gives(10, sess:run(y, {[y] = 10.0}))
end

function tests.steps_that_go_on()
  local sess, _ <close> = pair()
  local q = td.fifo_queue(2, {"float32"})
  local x = td.placeholder("float32", {})
  local h = sess:start(q:dequeue())
  lu.assertFalse(h:done())
  comes(function() return sess:why():find "dequeue" end, "why")
  sess:run(q:enqueue(x), {[x] = 5.0})
  gives(5, h:wait(60))
  local other = sess:start(q:dequeue())
  other:cancel()
  raises("cancelled", other.wait, other, 60)
  local take = q:dequeue()
  comes(function() -- what it waits for there is told, where it is told in time
    local e = raises("did not end within 0.2", sess.run, sess, take, nil,
                     {timeout = 0.2})
    return tostring(e):find "waits for queue fifo_queue: 0 of 2 elements"
  end, "why")
end

function tests.traced()
  local sess, _ <close> = pair()
  local y = td.constant(1.0) + 2
  local r = sess:run(y, nil, {trace = true})
  gives(3, r)
end

-- ---- errors ----------------------------------------------------------------

function tests.errors_have_node_and_line()
  local sess, _ <close> = pair()
  local a = td.placeholder("int32", {-1})
  local b = td.constant({1, 2}):cast "int32"
  local line = debug.getinfo(1, "l").currentline + 1
  local c = td.add(a, b, {name = "sum"})
  local ok, e = pcall(sess.run, sess, c, {[a] = {1, 2, 3}})
  lu.assertFalse(ok)
  lu.assertEquals(e.node, "sum")
  helper.contains(e.where, ("far_session.lua:%d"):format(line))
  raises("needs placeholder", sess.callable, sess, c, {})
  gives({2, 4}, sess:run(c, {[a] = {1, 2}}))
end

function tests.what_only_this_process_can_run()
  local sess, _ <close> = pair()
  local x = td.placeholder("float32", {})
  local f = td.lua_op(function(v) return v * 2 end, {"float32"},
                      {shapes = {{}}})
  local y = f(x)
  local z = y + 1
  raises("sess:attach", sess.run, sess, z, {[x] = 1.0})
  gives(4, sess:run(z, {[y] = 3.0})) -- it is fed
  raises("several calls", sess.partial_run_setup, sess, {z}, {y})
end

function tests.ops_that_nobody_knows()
  local g = td.graph()
  g:as_default(td.import_graph, "tests/golden/imports/saver.pb")
  local sess, _ <close> = pair{graph = g}
  raises("VariableV2", sess.run, sess, g:edge "loss")
end

function tests.sessions_that_cannot_be_had()
  local s <close> = server()
  raises("keeps no session \"b\"; there is none", td.session,
         {target = s.target, name = "b"})
  local sess <close> = td.session{target = s.target, name = "a",
                                  outlive = false}
  raises("there is \"a\"", td.session, {target = s.target, name = "b"})
  raises("keeps a session \"a\" already", td.session,
         {target = s.target, name = "a", outlive = true})
  raises("1 to 128 bytes", td.session,
         {target = s.target, name = ("x"):rep(200), outlive = true})
  raises("has a graph of its own", td.session,
         {target = s.target, name = "a", graph = td.graph()})
  raises("is for a session at a target", td.session, {name = "a"})
  raises("td.server{listen", td.session, {listen = "ipc:///nowhere"})
  raises("td.device", td.session, {target = s.target, placement = {}})
  raises("nobody answers", td.session, {target = "ipc://"
    .. workers.path "none", timeout = 0.3})
  raises("the target", td.sessions, "nowhere")
  lu.assertEquals(names(s.target), {"a"})
  lu.assertNotNil(sess)
end

function tests.a_server_that_stops()
  local s = server()
  local sess = td.session{target = s.target}
  local y = td.constant(1.0) + 2
  gives(3, sess:run(y))
  s:stop()
  raises("task:0", sess.run, sess, y) -- it has ended, or is silent
  sess:close()
end

-- ---- loops, joined ---------------------------------------------------------

function tests.a_loop_and_its_log()
  local sess, _ <close> = pair()
  local n = td.variable(td.zeros{}, "n")
  sess:init()
  local up = n:assign_add(1.0)
  local h = sess:loop(up, {steps = 100, log = {twice = n:read() * 0 + 2},
                           every = 10})
  h:wait(60)
  lu.assertTrue(h:done())
  lu.assertEquals(h:steps(), 100)
  local log = h:log().twice
  lu.assertEquals(log.steps, {10, 20, 30, 40, 50, 60, 70, 80, 90, 100})
  lu.assertEquals(log.values, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2})
  gives(100, sess:run(n))
  local forever = sess:loop(up)
  lu.assertEquals(#sess:loops(), 2)
  comes(function() return forever:steps() > 0 end, "a step")
  raises("still running", forever.wait, forever, 0.01)
  forever:cancel()
  raises("cancelled", forever.wait, forever, 60)
  local x = td.placeholder("float32", {})
  raises("placeholder", sess.loop, sess, x + 1)
end

function tests.a_loop_that_fails()
  local sess, _ <close> = pair()
  local n = td.variable(td.zeros({}, "int32"), "n")
  sess:init()
  local step = td.floordiv(td.constant(6, "int32"), 3 - n:assign_add(1),
                           {name = "third"})
  local h = sess:loop(step)
  local e = raises("", h.wait, h, 60)
  lu.assertEquals(e.node, "third")
  helper.contains(e.where, "far_session.lua")
end

function tests.queues_are_filled_there()
  local sess, _ <close> = pair()
  local q = td.fifo_queue(10, {"float32"}, {{}})
  td.train.add_queue_runner(td.train.queue_runner(q, {q:enqueue(2.0)}))
  local coord = td.train.coordinator()
  td.train.start_queue_runners(sess, coord)
  local two = q:dequeue()
  for _ = 1, 20 do gives(2, sess:run(two)) end
  coord:request_stop()
  sess:run(q:close{cancel_pending_enqueues = true})
  coord:join(60)
end

function tests.who_joins_has_the_graph_and_the_chart()
  local s <close> = server()
  local maker = td.session{target = s.target, outlive = true, name = "job"}
  local n = td.variable(td.zeros{}, "n")
  maker:init()
  local up = n:assign_add(1.0)
  local h = maker:loop(up, {steps = 50, log = {n = n:read() * 0 + 1}})
  h:wait(60)
  maker:run(td.identity(n:read() * 2, {name = "twice"}))
  maker:leave()
  lu.assertEquals(names(s.target), {"job"})
  local sess = td.session{target = s.target, name = "job"}
  gives(100, sess:run "twice:0")
  local found = sess:loops()
  lu.assertEquals(#found, 1)
  lu.assertEquals(found[1]:steps(), 50)
  lu.assertEquals(#found[1]:log().n.values, 50)
  -- what is added now takes what is there
  local more = sess:as_default(function()
    return sess:core_graph():find "twice".outputs[1] + 1
  end)
  gives(101, sess:run(more))
  sess:close()
  lu.assertEquals(names(s.target), {})
end

-- Nothing of the maker's is left but the session.
function tests.who_comes_back_has_the_variables()
  local s <close> = server()
  local maker = td.session{target = s.target, outlive = true, name = "job"}
  local w = td.variable({1.0, 2.0}, "net/w")
  td.variable(5, "u")
  maker:init()
  maker:run(w:assign_add{0.5, 0.5})
  maker:leave()
  td.reset()
  local sess = td.session{target = s.target, name = "job"}
  local list, path = sess:variables(), workers.path "model"
  lu.assertEquals({list[1].name, list[2].name}, {"net/w", "u"})
  lu.assertEquals({list[1].dtype, list[1].shape}, {"float32", {2}})
  gives({1.5, 2.5}, list[1]:eval())
  sess:as_default(function()
    lu.assertTrue(rawequal(td.global_variables "net/"[1], list[1]))
    local saver = td.train.saver{}
    path = saver:save(sess, path)
    list[1]:load({7.0, 8.0}, sess)
    gives({7, 8}, list[1]:eval())
    gives({8, 9}, sess:run(list[1]:assign_add{1.0, 1.0}))
    saver:restore(sess, path)
    sess:init() -- changes nothing
  end)
  gives({1.5, 2.5}, list[1]:eval())
  gives({1.5, 2.5}, td.train.load_variable(path, "net/w"))
  sess:close()
end

-- One that was never run: its handle alone came along.
function tests.a_variable_without_its_initial_value()
  local s <close> = server()
  local maker = td.session{target = s.target, outlive = true, name = "job"}
  local w = td.variable({1.0, 2.0}, "w")
  raises("not initialised", maker.run, maker, w:read())
  maker:leave()
  local sess <close> = td.session{target = s.target, name = "job"}
  local v = sess:variables()[1]
  raises("w/initial_value", sess.init, sess)
  v:load({3.0, 4.0}, sess)
  gives({3, 4}, sess:run(v))
end

function tests.killed_and_joined()
  local w <close> = workers.start()
  local p <close> = program(([[
local n = td.variable(td.zeros{}, "n")
local sess = td.session{target = %q, outlive = true, name = "job"}
sess:init()
local up = n:assign_add(1.0)
td.identity(n:read(), {name = "now"})
sess:run "now:0"
h = sess:loop(up, {log = {n = n:read() * 0 + 1}, every = 1000})
]]):format(w.address))
  lu.assertEquals(p.line, "ready")
  local seen = td.sessions(w.address)[1]
  lu.assertEquals(seen.name, "job")
  lu.assertTrue(seen.outlive)
  p.kill()
  local sess = td.session{target = w.address, name = "job"}
  local before = sess:run "now:0"
  comes(function() return sess:run "now:0" > before end, "a step")
  local h = sess:loops()[1]
  lu.assertFalse(h:done())
  comes(function() return #h:log().n.steps >= 3 end, "a log")
  lu.assertEquals(h:log().n.steps[1], 1000)
  h:cancel()
  sess:close()
  lu.assertEquals(td.sessions(w.address), {})
end

function tests.killed_and_gone()
  local w <close> = workers.start()
  local p <close> = program(([[
local n = td.variable(td.zeros{}, "n")
local sess = td.session{target = %q}
sess:init()
h = sess:loop(n:assign_add(1.0))
]]):format(w.address))
  lu.assertEquals(p.line, "ready")
  lu.assertEquals(#td.sessions(w.address), 1)
  p.kill()
  comes(function() return #td.sessions(w.address) == 0 end, "the end")
end

-- ---- its workers -----------------------------------------------------------

function tests.workers_of_its_own()
  local other <close> = server{task = 1}
  local sess, _ <close> = pair()
  local before = #sess:devices()
  local came = sess:attach(other.target)
  all_of("/job:worker/replica:0/task:1", came)
  lu.assertEquals(#sess:devices(), before + #came)
  local v = td.device("/job:worker/task:1", function()
    return td.variable(td.ones{2}, "v")
  end)
  sess:init()
  gives({2, 2}, sess:run(v + 1))
  helper.contains(sess:explain_placement(), "/job:worker/replica:0/task:1")
  local rows = sess:workers()
  lu.assertEquals(#rows, 1)
  lu.assertEquals(rows[1].task, "/job:worker/replica:0/task:1")
  lu.assertEquals(rows[1].state, "up")
  raises("v", sess.detach, sess, "/job:worker/task:1")
  sess:detach("/job:worker/task:1", {drop = true})
  lu.assertEquals(#sess:devices(), before)
end

-- What failed to be planned is planned anew.
function tests.a_graph_that_is_there()
  local other <close> = server{task = 1}
  local sess, _ <close> = pair{soft_placement = false}
  local y = td.device("/job:worker/task:1", function()
    return td.constant(2.0) * 2
  end)
  raises("task:1", sess.run, sess, y)
  sess:attach(other.target)
  gives(4, sess:run(y))
end

function tests.two_sessions_have_their_own()
  local s <close> = server()
  local v = td.variable(td.zeros{}, "v")
  local a <close> = td.session{target = s.target}
  local b <close> = td.session{target = s.target}
  a:init()
  a:run(v:assign(5.0))
  raises("v", b.run, b, v)
  b:init()
  gives(0, b:run(v))
  gives(5, a:run(v))
end

return tests
