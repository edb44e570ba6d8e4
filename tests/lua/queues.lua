-- queues.lua - queues: the order of tuples, names, closing, waiting. What fills
-- them is in input.lua.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local contains, raises, gives = helper.contains, helper.raises, helper.gives
local tests = {}

local SOON = {timeout = 20} -- what should be at once

-- What x gives in the session, within some seconds.
local function run(sess, x, feeds)
  return sess:run(x, feeds, SOON)
end

-- Waits until f() holds.
local function wait_for(f, what)
  local begun = core.clock()
  while not f() do lu.assertTrue(core.clock() - begun < 60, what) end
end

-- ---- tuples in and out ------------------------------------------------------

function tests.first_in_first_out()
  local q = td.fifo_queue(10, {"int32", "float32"}, {{}, {2}})
  local sess = td.session()
  run(sess, q:enqueue(1, {1.0, 1.5}))
  run(sess, q:enqueue{2, {2.0, 2.5}})
  run(sess, q:enqueue_many({3, 4, 5}, {{3, 0}, {4, 0}, {5, 0}}))
  lu.assertEquals(run(sess, q:size()), 5)
  local a, b = q:dequeue()
  lu.assertEquals(a.shape, {})
  lu.assertEquals(b.shape, {2})
  local both = run(sess, {a, b})
  lu.assertEquals(both[1], 1)
  gives({1.0, 1.5}, both[2])
  local c, d = q:dequeue(3)
  lu.assertEquals(c.shape, {3})
  lu.assertEquals(d.shape, {3, 2})
  both = run(sess, {c, d})
  gives({2, 3, 4}, both[1])
  gives({{2, 2.5}, {3, 0}, {4, 0}}, both[2])
  lu.assertEquals(run(sess, q:size()), 1)
end

function tests.one_component_may_be_plain()
  local sess = td.session()
  for i, q in ipairs{td.fifo_queue(4, "int32", {2}),
                     td.fifo_queue(4, {"int32"}, {{2}}),
                     td.fifo_queue(-1, "int32", {{2}})} do
    run(sess, q:enqueue{i, 7})
    gives({i, 7}, run(sess, q:dequeue()))
  end
  local any = td.fifo_queue(4, "float32")
  lu.assertNil(any:dequeue().shape)
  run(sess, any:enqueue{{1.0}})
  run(sess, any:enqueue(2.0))
  gives({{1}}, run(sess, any:dequeue()))
  lu.assertEquals(run(sess, any:dequeue()), 2.0)
end

function tests.n_may_be_a_tensor()
  local q = td.fifo_queue(9, "int32", {})
  local n = td.placeholder("int32", {})
  local sess = td.session()
  run(sess, q:enqueue_many{1, 2, 3, 4})
  local some = q:dequeue(n)
  lu.assertEquals(some.shape, {-1})
  gives({1, 2, 3}, run(sess, some, {[n] = 3}))
  lu.assertEquals(run(sess, q:dequeue(0)).shape, {0})
end

function tests.strings_and_bools()
  local q = td.fifo_queue(4, {"string", "bool"}, {{}, {}})
  local sess = td.session()
  run(sess, q:enqueue_many({"one", "two"}, {true, false}))
  local s, b = q:dequeue(2)
  local both = run(sess, {s, b})
  lu.assertEquals(both[1]:table(), {"one", "two"})
  lu.assertEquals(both[2]:table(), {true, false})
end

function tests.tuples_by_name()
  local q = td.fifo_queue(4, {"float32", "int64"}, {{2}, {}},
                          {names = {"image", "label"}})
  local sess = td.session()
  run(sess, q:enqueue{label = 7, image = {1.0, 2.0}})
  run(sess, q:enqueue_many{label = {8, 9}, image = {{3, 4}, {5, 6}}})
  local one = run(sess, q:dequeue())
  lu.assertEquals(one.label, 7)
  gives({1, 2}, one.image)
  local two = run(sess, q:dequeue(2))
  gives({8, 9}, two.label)
  gives({{3, 4}, {5, 6}}, two.image)
  lu.assertEquals(tostring(q),
    'Queue "fifo_queue" fifo of 4: image: float32 {2}, label: int64 {}')
end

function tests.padding()
  local q = td.padding_fifo_queue(8, {"int32", "string"}, {{-1, 2}, {-1}})
  local sess = td.session()
  run(sess, q:enqueue({{1, 2}}, {"a"}))
  run(sess, q:enqueue({{3, 4}, {5, 6}}, {"b", "c", "d"}))
  local x, s = q:dequeue(2)
  lu.assertEquals(x.shape, {2, -1, 2})
  local both = run(sess, {x, s})
  gives({{{1, 2}, {0, 0}}, {{3, 4}, {5, 6}}}, both[1])
  lu.assertEquals(both[2]:table(), {{"a", "", ""}, {"b", "c", "d"}})
end

function tests.a_shared_name_is_one_queue()
  local a = td.fifo_queue(4, "int32", {}, {shared_name = "ours"})
  local b = td.fifo_queue(4, "int32", {}, {shared_name = "ours"})
  local other = td.fifo_queue(5, "int32", {}, {shared_name = "ours"})
  local sess = td.session()
  run(sess, a:enqueue(5))
  lu.assertEquals(run(sess, b:dequeue()), 5)
  raises("capacity", run, sess, other:size())
end

function tests.in_loops_and_branches()
  local q = td.fifo_queue(9, "int32", {})
  local sess = td.session()
  run(sess, q:enqueue_many{1, 2, 3, 4})
  local _, total = td.while_loop(function(i) return i:less(3) end,
    function(i, s) return i + 1, s + q:dequeue() end, {0, 0},
    {parallel_iterations = 1})
  lu.assertEquals(run(sess, total), 6)
  local p = td.placeholder("bool", {})
  local act = td.cond(p, function() return q:enqueue(7) end, function() end)
  run(sess, act, {[p] = false})
  lu.assertEquals(run(sess, q:size()), 1)
  run(sess, act, {[p] = true})
  gives({4, 7}, run(sess, q:dequeue(2)))
end

function tests.random_order()
  local function draw()
    td.reset()
    local q = td.random_shuffle_queue(100, "int32", {},
                                      {min_after_dequeue = 10, seed = 3})
    local sess = td.session()
    run(sess, q:enqueue_many(td.range(100)))
    local first = run(sess, q:dequeue(90)):table()
    raises("did not end", sess.run, sess, q:dequeue(1), nil, {timeout = 0.05})
    run(sess, q:close())
    local rest = run(sess, q:dequeue(10)):table()
    return table.move(rest, 1, 10, 91, first)
  end
  local a, b = draw(), draw()
  lu.assertEquals(a, b)
  local sorted = table.move(a, 1, 100, 1, {})
  table.sort(sorted)
  for i = 1, 100 do lu.assertEquals(sorted[i], i - 1) end
  lu.assertNotEquals(a, sorted)
end

function tests.by_priority()
  local q = td.priority_queue(8, "string", {}, {names = {"text"}})
  local sess = td.session()
  run(sess, q:enqueue_many{priority = {3, 1, 2}, text = {"c", "a", "b"}})
  local all = run(sess, q:dequeue(3))
  lu.assertEquals(all.text:table(), {"a", "b", "c"})
  gives({1, 2, 3}, all.priority)
  local plain = td.priority_queue(8, {"int32", "int32"}, {{}, {}})
  run(sess, plain:enqueue(5, 6, 7))
  lu.assertEquals(run(sess, {plain:dequeue()}), {5, 6, 7})
end

-- ---- closing ----------------------------------------------------------------

function tests.closing()
  local q = td.fifo_queue(4, "int32", {})
  local sess = td.session()
  run(sess, q:enqueue_many{1, 2, 3})
  lu.assertEquals(run(sess, q:is_closed()), false)
  run(sess, q:close())
  lu.assertEquals(run(sess, q:is_closed()), true)
  lu.assertEquals(raises("closed", run, sess, q:enqueue(4)).code, "cancelled")
  lu.assertEquals(raises("already", run, sess, q:close()).code, "cancelled")
  gives({1, 2}, run(sess, q:dequeue(2)))
  local e = raises("requested 2, current size 1", run, sess, q:dequeue(2))
  lu.assertEquals(e.code, "out_of_range")
  gives({3}, run(sess, q:dequeue_up_to(2)))
  raises("insufficient", run, sess, q:dequeue_up_to(2))
end

function tests.closing_with_cancel()
  local q = td.fifo_queue(1, "int32", {}, "full")
  local sess = td.session()
  run(sess, q:enqueue(1))
  local waits = sess:start(q:enqueue(2))
  wait_for(function() return sess:why():find "room in queue full" end, "why")
  run(sess, q:close{cancel_pending_enqueues = true})
  lu.assertEquals(raises("cancelled", waits.wait, waits, 20).code, "cancelled")
  lu.assertEquals(run(sess, q:dequeue()), 1)
end

-- ---- waiting ----------------------------------------------------------------

function tests.steps_wait_for_one_another()
  local q = td.fifo_queue(2, "int32", {})
  local sess = td.session()
  local put = sess:start(q:enqueue_many{1, 2, 3, 4, 5})
  local take = sess:start(q:dequeue(4))
  gives({1, 2, 3, 4}, (take:wait(20)))
  put:wait(20)
  lu.assertEquals(run(sess, q:size()), 1)
end

function tests.a_timeout_names_the_queue()
  local q = td.fifo_queue(3, "int32", {}, "letters")
  local sess = td.session()
  run(sess, q:enqueue(1, "sender"))
  local e = raises("letters", sess.run, sess, q:dequeue(2), nil,
                   {timeout = 0.05})
  lu.assertEquals(e.code, "deadline_exceeded")
  contains(tostring(e), "queue letters: 0 of 3 elements", "sender")
  lu.assertEquals(run(sess, q:size()), 1) -- it was given back
  e = raises("room in queue letters", sess.run, sess,
             q:enqueue_many{1, 2, 3, 4}, nil, {timeout = 0.05})
  lu.assertEquals(e.code, "deadline_exceeded")
end

function tests.why_names_the_queue()
  local q = td.fifo_queue(3, "int32", {}, "letters")
  local sess = td.session()
  local waits = sess:start(q:dequeue())
  wait_for(function() return sess:why():find "queue letters" end, "why")
  contains(sess:why(), "queue letters: 0 of 3 elements",
           "nothing has enqueued yet")
  waits:cancel()
  lu.assertEquals(raises("", waits.wait, waits, 20).code, "cancelled")
  run(sess, q:enqueue(4))
  lu.assertEquals(run(sess, q:dequeue()), 4) -- the cancelled one took nothing
end

function tests.a_closed_session_lets_nobody_wait()
  local q = td.fifo_queue(3, "int32", {})
  local sess = td.session()
  local waits = sess:start(q:dequeue())
  sess:close()
  lu.assertEquals(raises("", waits.wait, waits, 20).code, "cancelled")
end

-- ---- mistakes ---------------------------------------------------------------

local function pair()
  return td.fifo_queue(4, {"float32", "int32"}, {{2}, {}})
end

local function named()
  return td.fifo_queue(4, {"float32", "int32"}, {{2}, {}},
                       {names = {"image", "label"}})
end

tests.mistakes = helper.each{
  {"the capacity is a whole number, -1 for no limit, not table", function()
    td.fifo_queue({"int32"})
  end},
  {"nothing fits into a capacity of 0", function()
    td.fifo_queue(0, "int32")
  end},
  {"dtype 1 is \"int23\", which is none; did you mean \"int32\"?", function()
    td.fifo_queue(4, "int23")
  end},
  {"the dtypes are a list such as", function() td.fifo_queue(4, {}) end},
  {"2 dtypes and 1 shape: give one for each, or none", function()
    td.fifo_queue(4, {"int32", "int32"}, {{}})
  end},
  {"shape 1 is {-1}; a padding_fifo_queue takes sizes that are not known",
   function() td.fifo_queue(4, {"int32"}, {{-1}}) end},
  {"padding_fifo_queue takes shapes", function()
    td.padding_fifo_queue(4, "int32")
  end},
  {"1 names for 2 components", function()
    td.fifo_queue(4, {"int32", "int32"}, nil, {names = {"a"}})
  end},
  {"two components are named \"a\"", function()
    td.fifo_queue(4, {"int32", "int32"}, nil, {names = {"a", "a"}})
  end},
  {"min_after_dequeue must be from 0 to 3, below the capacity, given 4",
   function()
     td.random_shuffle_queue(4, "int32", {}, {min_after_dequeue = 4})
   end},
  {"holds 2 components (float32 {2}, int32 {}), given 1", function()
    pair():enqueue(1)
  end},
  {"holds 2 components (float32 {2}, int32 {}), given 4", function()
    pair():enqueue(1, 2, 3, 4)
  end},
  {"component 2 of queue \"fifo_queue\" is int32, given float32; use td.cast",
   function() pair():enqueue({1.0, 2.0}, td.constant(1.0)) end},
  {"component 1 of queue \"fifo_queue\" is of shape {2}, given {3}", function()
    pair():enqueue({1.0, 2.0, 3.0}, 1)
  end},
  {"is of shape {2}, given {1, 3}, a batch of {3}", function()
    pair():enqueue_many({{1.0, 2.0, 3.0}}, {1})
  end},
  {"component 2 of queue \"fifo_queue\" is a scalar; a batch has a first axis",
   function() pair():enqueue_many({{1.0, 2.0}}, 1) end},
  {"has names: give one table, {image = .., label = ..}", function()
    named():enqueue({1.0, 2.0}, 1)
  end},
  {"\"label\" is missing; queue \"fifo_queue\" holds image: float32 {2}, "
   .. "label: int32 {}", function() named():enqueue{image = {1.0, 2.0}} end},
  {"has no component \"labels\"; did you mean \"label\"?", function()
    named():enqueue{image = {1.0, 2.0}, label = 1, labels = 1}
  end},
  {"component \"label\" of queue \"fifo_queue\" is int32, given float32",
   function() named():enqueue{image = {1, 2}, label = td.constant(1.0)} end},
  {"n must be 0 or more, given -1", function() pair():dequeue(-1) end},
  {"n must be an integer, not 1.5", function() pair():dequeue(1.5) end},
  {"n is int32, given float32", function()
    pair():dequeue(td.constant(1.0))
  end},
  {"was made without shapes", function()
    td.fifo_queue(4, "int32"):dequeue(2)
  end},
  {"dequeue_up_to takes n", function() pair():dequeue_up_to() end},
  {"enqueue is called with a colon: q:enqueue(...); given number", function()
    pair().enqueue(1)
  end},
  {"a queue has no \"deque\"; did you mean \"dequeue\"?", function()
    pair():deque()
  end},
  {"cannot be fetched; fetch its :dequeue() or :size()", function()
    td.session():run(pair())
  end},
}

return tests
