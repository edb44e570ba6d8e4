-- session.lua - runs: structures, feeds, callables, handles, defaults.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local bundle = require "tide.show.bundle"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function model()
  local x = td.placeholder("float32", {-1}, "x")
  local y = td.placeholder("float32", {}, "y")
  return x, y, td.multiply(x, y, "z"), td.sum(x, nil, "s")
end

function tests.structures()
  local x, y, z, s = model()
  local sess <close> = td.session()
  local feeds = {[x] = {1, 2}, [y] = 3}
  lu.assertEquals(sess:run(s, feeds), 3.0)
  gives({3, 6}, sess:run(z, feeds))
  lu.assertEquals(sess:run({s, y}, feeds), {3.0, 3.0})
  lu.assertEquals(sess:run({a = s, b = {s, c = y}}, feeds),
                  {a = 3.0, b = {3.0, c = 3.0}})
  lu.assertEquals(sess:run({s.op, td.no_op()}, feeds), {true, true})
  lu.assertEquals(sess:run({"s", "s:0", "^s", "y"}, feeds),
                  {3.0, 3.0, true, 3.0})
  lu.assertEquals(sess:run({}, feeds), {})
  lu.assertEquals(sess:run({s, s}, feeds), {3.0, 3.0})
  local value = sess:run(s, feeds, {as_values = true})
  lu.assertEquals({value.rank, value:item()}, {0, 3.0})
  lu.assertEquals(sess:run(td.constant(true)), true)
  lu.assertEquals(sess:run(td.constant "text"), "text")
end

function tests.feeds()
  local x, y, z, s = model()
  local sess <close> = td.session()
  gives({2, 4}, sess:run(z, {x = {1, 2}, ["y:0"] = 2}))
  gives({2, 4}, sess:run(z, {[x] = td.tensor{1.0, 2.0}, [y] = 2}))
  gives({9}, sess:run(z + 0, {[z] = {9}}))
  lu.assertEquals(sess:run(x:dim(0), {[x] = {}}), 0)
  raises("fed twice", sess.run, sess, s, {[x] = {1}, ["x:0"] = {2}})
  raises("write {[x] = value}", sess.run, sess, s, {{1}})
  raises("to feed the tensor in variable q write [q] =", sess.run, sess, s,
         {q = {1}})
  raises("expects float32 {}, given float32 {2}", sess.run, sess, z,
         {[x] = {1}, [y] = {1, 2}})
  raises("float32", sess.run, sess, s, {[x] = td.tensor{1}})
  raises("graph tensor", sess.run, sess, s, {[x] = td.constant{1.0}})
  raises("x", sess.run, sess, s)
  raises("not number", sess.run, sess, s, 3)
end

function tests.refused()
  local x = td.placeholder("float32", {}, "x")
  local sess <close> = td.session()
  raises("no node \"nope\"", sess.run, sess, "nope")
  raises("did you mean \"x\"", sess.run, sess, "xx")
  raises("no gradient", sess.run, sess, {false})
  raises("[2].a is number", sess.run, sess, {x, {a = 1}}, {x = 1})
  raises("hole", sess.run, sess, {x, nil, x}, {x = 1})
  raises("nothing to fetch", sess.run, sess)
  raises("timeout", sess.run, sess, x, {x = 1}, {timout = 1})
  raises("timeout", sess.run, sess, x, {x = 1}, {timeout = -1})
  raises("timeout must be a number", sess.run, sess, x, {x = 1},
         {timeout = "a"})
  raises("threads must be an integer, not 1.5", td.session, {threads = 1.5})
  raises("another graph", sess.run, sess,
         td.graph():as_default(td.constant, 1))
  raises("did you mean \"threads\"", td.session, {thread = 2})
  raises("it has no port", td.session, {target = "tcp://somewhere"})
  raises("did you mean \"callable\"", function() return sess.calable end)
end

function tests.callable()
  local x, y, z, s = model()
  local sess <close> = td.session()
  local f = sess:callable({s, z, s.op}, {x, y})
  local a, b, c = f({1, 2}, 3)
  lu.assertEquals({a, c}, {3.0, true})
  gives({3, 6}, b)
  lu.assertEquals(sess:callable(s, x)({5}), 5.0)
  raises("takes 2 values, 1 given", f, {1})
  raises("flat", sess.callable, sess, {{s}}, {x})
  raises("fed twice", sess.callable, sess, {s}, {x, x})
end

function tests.start_and_loop()
  local x, _, _, s = model()
  local v = td.variable(0, "v")
  local up = v:assign_add(1).op
  local sess <close> = td.session()
  sess:init()
  local h = sess:start({s, s.op}, {[x] = {1, 2}})
  local a, b = h:wait()
  lu.assertEquals({a, b, h:done()}, {3.0, true, true})
  local loop = sess:loop(up, {threads = 2, steps = 100})
  loop:wait()
  lu.assertEquals({loop:steps(), sess:run(v)}, {100, 100})
  local endless = sess:loop(up)
  endless:cancel()
  raises("cancelled", endless.wait, endless, 30)
  lu.assertTrue(endless:done())
end

-- Results are 400,000 bytes each. What is over counts until it is taken or
-- nobody has the handle.
function tests.started_steps_hold_no_more_than_queued_bytes()
  local x = td.placeholder("float32", {}, "x")
  local y = td.fill({100000}, x)
  local sess <close> = td.session{queued_bytes = 1000000}
  local function start(v) return sess:start(y, {[x] = v}) end
  start(0):wait()
  local kept = {start(1), start(2)}
  local _, e = pcall(start, 3)
  lu.assertEquals(e.code, "resource_exhausted")
  lu.assertStrContains(e.message, "hold 800000 bytes of results, and this one "
    .. "would add 400000; queued_bytes of the session is 1000000")
  lu.assertEquals(kept[1]:wait()[0]:item(), 1.0)
  kept[3] = start(3)
  helper.raises("wait for some of them", start, 4)
  for i = 1, 3 do kept[i] = nil end
  for i = 1, 20 do start(i) end
  lu.assertEquals(start(7):wait()[0]:item(), 7.0)
  local small <close> = td.session{queued_bytes = 1}
  for _ = 1, 3 do small:start(y, {[x] = 1}):wait() end -- one is let in
  raises("queued_bytes must be at least 1", td.session, {queued_bytes = -1})
end

function tests.the_log_of_a_loop()
  local v = td.variable(0, "v")
  local up = v:assign_add(1)
  local sess <close> = td.session()
  sess:init()
  local h = sess:loop(up.op, {steps = 7, log = {half = up / 2, v = up},
                              every = 3})
  h:wait()
  lu.assertEquals(h:log(), {half = {steps = {3, 6}, values = {1.5, 3.0}},
                            v = {steps = {3, 6}, values = {3, 6}}})
  lu.assertEquals(sess:loop(up.op, {steps = 0}):log(), {})
  raises("log.x must be a tensor", sess.loop, sess, up.op, {log = {x = up.op}})
  raises("every must be 1 or more", sess.loop, sess, up.op, {every = 0})
end

function tests.a_session_owns_its_loops()
  local v = td.variable(0, "v")
  local up = v:assign_add(1).op
  local sess = td.session()
  sess:init()
  lu.assertEquals(sess:loops(), {})
  local h = sess:loop(up, {threads = 2})
  sess:loop(up, {log = {v = v}})
  collectgarbage()
  local found = sess:loops()
  lu.assertEquals(#found, 2)
  while found[2]:steps() < 5 do end
  local steps = found[2]:log().v.steps -- the newest: the loop is fast
  lu.assertEquals(steps[3], steps[1] + 2)
  lu.assertFalse(h:done() or found[1]:done())
  found[1]:cancel()
  raises("cancelled", h.wait, h, 30)
  sess:close()
  lu.assertTrue(found[2]:done())
  raises("session was closed", found[2].wait, found[2])
end

function tests.a_session_that_is_collected_ends_its_loops()
  local w = td.raw.VarHandleOp{dtype = "int32", shape = {}, shared_name = "w",
                               container = "kept"}
  local zero = td.raw.AssignVariableOp(w, td.constant(0))
  local up = td.raw.AssignAddVariableOp(w, td.constant(1))
  local read = td.raw.ReadVariableOp(w, {dtype = "int32"})
  local function forget(sess)
    sess:run(zero)
    sess:loop(up)
  end
  forget(td.session())
  local watch <close> = td.session() -- the default one in its place
  while watch:run(read) < 10 do end
  local last, times = nil, 0
  for _ = 1, 1000 do
    collectgarbage()
    local now = watch:run(read)
    times = now == last and times + 1 or 0
    if times == 5 then return end
    last = now
    os.execute("sleep 0.01")
  end
  error("the loop goes on")
end

function tests.timeout()
  local i = td.while_loop(function(i) return i:greater_equal(0) end,
                          function(i) return i * 1 end, {1})
  local sess <close> = td.session()
  local e = raises("", sess.run, sess, i, nil, {timeout = 0.05})
  lu.assertEquals(e.code, "deadline_exceeded")
  lu.assertEquals(sess:run(td.constant(1)), 1)
end

function tests.partial()
  local a = td.placeholder("float32", {}, "a")
  local b = td.placeholder("float32", {}, "b")
  local x, y = a + 1, a * b
  local sess <close> = td.session()
  local p = sess:partial_run_setup({x, y}, {a, b})
  lu.assertEquals(p:run(x, {[a] = 2}), 3.0)
  lu.assertEquals(p:run({y = y}, {b = 5}), {y = 10.0})
  local q = sess:partial_run_setup({x, y}, {a, b})
  raises("", q.run, q, y, {[a] = 2})
  raises("no fetch of", q.run, q, a + 1)
  local unused = sess:partial_run_setup({}, {a})
  lu.assertEquals(unused:run({}, {[a] = 1}), {})
end

function tests.trace()
  local x, _, _, s = model()
  local sess <close> = td.session()
  local r, trace = sess:run(s, {[x] = {1}}, {trace = true})
  lu.assertEquals(r, 1.0)
  lu.assertTrue(#trace.events > 0)
  lu.assertStrContains(trace.totals, "Sum")
  lu.assertStrContains(trace.chrome, "traceEvents")
end

function tests.default_session()
  lu.assertNil(td.get_default_session())
  local x = td.constant(2)
  lu.assertEquals(x:eval(), 2)
  local first = td.get_default_session()
  lu.assertNotNil(first)
  local s = td.session()
  lu.assertTrue(td.get_default_session() == s)
  first:as_default(function()
    lu.assertTrue(td.get_default_session() == first)
  end)
  lu.assertTrue(td.no_op():run())
  s:close()
  raises("closed", s.run, s, x)
  lu.assertEquals((x + 1):eval(), 3)
end

function tests.as_default_brings_its_graph()
  local g = td.graph()
  local s = td.session{graph = g}
  local x = s:as_default(function()
    return td.constant(4):eval()
  end)
  lu.assertEquals({x, g:size()}, {4, 1})
end

function tests.devices_and_threads()
  local s = td.session{cpu_devices = 2, threads = 2}
  local x = td.device("/cpu:1", td.constant, 3)
  lu.assertEquals(s:run(x + 1), 4)
  lu.assertStrContains(s:devices()[2], "device:CPU:1")
  lu.assertEquals(td.devices(), s:devices())
  lu.assertStrContains(s:explain_placement(), "CPU:1")
  s:close() -- then td.devices() tells what the next one would see
  lu.assertEquals(#td.devices(), 1)
  td.config{cpu_devices = 2}
  lu.assertEquals(#td.devices(), 2)
  td.config{cpu_devices = 1}
end

function tests.sessions_have_their_own_variables()
  local v = td.variable(1, "v")
  local a, b = td.session(), td.session()
  a:init()
  b:init()
  a:run(v:assign(5))
  lu.assertEquals({a:run(v), b:run(v)}, {5, 1})
  a:reset()
  raises("v", a.run, a, v)
  lu.assertEquals(b:run(v), 1)
end

function tests.the_graph_grows()
  local x = td.constant(1)
  local s <close> = td.session()
  lu.assertEquals(s:run(x), 1)
  lu.assertEquals(s:run(x + 1), 2)
end

function tests.stats_and_why()
  local s <close> = td.session()
  s:run(td.constant(1))
  lu.assertEquals(s:stats().steps, 1)
  lu.assertEquals(s:why(), "")
end

-- What holds itself is refused wherever structures are read; what is there
-- twice is not.
function tests.a_fetch_that_holds_itself()
  local s <close> = td.session()
  local x = td.placeholder("float32", {})
  local list, named = {x}, {a = {}}
  list[2], named.a.b = list, named
  local object = setmetatable({}, {__fetch = function(o) return o end})
  local says = "is the table that it lies in"
  for _, f in ipairs{list, named, object} do
    helper.raises(says, s.run, s, f)
    helper.raises(says, s.callable, s, f, {x})
    helper.raises(says, s.start, s, f)
  end
  local pair = {x, x + 1}
  lu.assertEquals(s:run({pair, {pair}}, {[x] = 1}), {{1, 2}, {{1, 2}}})
  local value = {}
  value[1] = value
  helper.raises("nest deeper", s.run, s, x, {[x] = value})
end

-- What had run is in the error of a traced step that fails, and what failed.
function tests.trace_of_a_failure()
  local sess <close> = td.session()
  local x = td.placeholder("int32", {}, "x")
  local bad = td.floordiv(x + 1, x)
  local ok, e = pcall(sess.run, sess, bad, {[x] = 0}, {trace = true})
  lu.assertFalse(ok)
  lu.assertEquals(e.node, "FloorDiv")
  local failed, ran = {}, {}
  for _, event in ipairs(e.trace.events) do
    local list = event.failed and failed or ran
    list[#list + 1] = event.op
  end
  lu.assertEquals(failed, {"FloorDiv"})
  lu.assertTableContains(ran, "AddV2")
  lu.assertStrContains(bundle(e.trace).data["text/plain"], "failed: FloorDiv")
  lu.assertStrContains(e.trace.chrome, '"failed":true')
  ok, e = pcall(sess.run, sess, bad, {[x] = 0})
  lu.assertFalse(ok)
  lu.assertNil(e.trace)
  lu.assertEquals(sess:run(bad, {[x] = 1}, {trace = true}), 2)
  local queue = td.fifo_queue(1, {"float32"}, {{}})
  ok, e = pcall(sess.run, sess, queue:dequeue(), nil,
                {trace = true, timeout = 0.05})
  lu.assertFalse(ok)
  local last = e.trace.events[#e.trace.events]
  lu.assertEquals(last.op, "QueueDequeueV2") -- it waited until then
  lu.assertNil(last.failed)
  lu.assertTrue(last.stop - last.start > 1e6)
end

return tests
