-- input.lua - what fills queues and what stops that: batches, buckets, epochs,
-- queue runners, the coordinator, the first cause.
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

-- All that a step gives until out_of_range, as lists of Lua.
local function drain(sess, x)
  local list = {}
  while true do
    local ok, y = pcall(run, sess, x)
    if not ok then
      lu.assertEquals(y.code, "out_of_range", tostring(y))
      return list, y
    end
    list[#list + 1] = type(y) == "userdata" and y:table() or y
  end
end

-- ---- batches ----------------------------------------------------------------

-- 0, 1, 2, ... n - 1, once.
local function count(n)
  return td.train.range_input_producer(n, {epochs = 1, shuffle = false})
    :dequeue()
end

function tests.batches()
  local i = count(7)
  local b = td.train.batch({i, {square = i * i}}, 3, {threads = 2})
  lu.assertEquals(b[1].shape, {3})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  local seen, rounds = {}, 0
  while rounds < 2 do
    local got = run(sess, b)
    for k, x in ipairs(got[1]:table()) do
      seen[x] = true
      lu.assertEquals(got[2].square:table()[k], x * x)
    end
    rounds = rounds + 1
  end
  local n = 0
  for _ in pairs(seen) do n = n + 1 end
  lu.assertEquals(n, 6)
  lu.assertEquals(raises("", run, sess, b).code, "out_of_range")
end

function tests.batches_in_order_and_the_rest()
  local b = td.train.batch(count(7), 3, {allow_smaller = true})
  lu.assertEquals(b.shape, {-1})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  lu.assertEquals(drain(sess, b), {{0, 1, 2}, {3, 4, 5}, {6}})
end

function tests.batches_of_batches()
  local two = td.train.range_input_producer(3, {epochs = 1, shuffle = false})
    :dequeue(3)
  local b = td.train.batch({x = td.stack({two, two * 10}, 1)}, 1,
                           {enqueue_many = true})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  lu.assertEquals(drain(sess, b.x), {{{0, 0}}, {{1, 10}}, {{2, 20}}})
end

function tests.batches_are_padded()
  local i = count(4)
  local b = td.train.batch(td.range(i), 2, {dynamic_pad = true})
  lu.assertEquals(b.shape, {2, -1})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  lu.assertEquals(drain(sess, b), {{{0}, {0}}, {{0, 1, 0}, {0, 1, 2}}})
end

function tests.shuffled_batches()
  local b = td.train.shuffle_batch(count(50), 5,
    {min_after_dequeue = 20, capacity = 40, seed = 5})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  local all, first = {}, nil
  for _, list in ipairs(drain(sess, b)) do
    first = first or table.move(list, 1, 5, 1, {})
    table.move(list, 1, 5, #all + 1, all)
  end
  lu.assertEquals(#all, 50)
  lu.assertNotEquals(first, {0, 1, 2, 3, 4})
  table.sort(all)
  for i = 1, 50 do lu.assertEquals(all[i], i - 1) end
end

-- Sequence i is i, i, ... i, (7 i) % 10 + 1 long.
local function length_of(i) return 7 * i % 10 + 1 end

-- What the buckets of the first n sequences must give, as a set of texts.
local function expected_buckets(n, size, bounds, smaller)
  local buckets, out = {}, {}
  local function give(list)
    local most = 0
    for _, i in ipairs(list) do most = math.max(most, length_of(i)) end
    local rows = {}
    for k, i in ipairs(list) do
      local len = length_of(i)
      rows[k] = len .. ":" .. (i .. " "):rep(len) .. ("0 "):rep(most - len)
    end
    out[#out + 1] = table.concat(rows, "|")
  end
  for i = 0, n - 1 do
    local which = 1
    for _, bound in ipairs(bounds) do
      if bound <= length_of(i) then which = which + 1 end
    end
    buckets[which] = buckets[which] or {}
    table.insert(buckets[which], i)
    if #buckets[which] == size then
      give(buckets[which])
      buckets[which] = nil
    end
  end
  for which = 1, #bounds + 1 do
    if smaller and buckets[which] then give(buckets[which]) end
  end
  table.sort(out)
  return out
end

local function check_buckets(n, size, bounds, smaller)
  td.reset()
  local i = count(n)
  local len = i * 7 % 10 + 1
  local lengths, b = td.train.bucket_by_sequence_length(len,
    {x = td.fill(td.reshape(len, {1}), i)}, size, bounds,
    {allow_smaller = smaller})
  lu.assertEquals(b.x.shape, {-1, -1})
  local sess <close> = td.session()
  td.train.start_queue_runners(sess)
  local out = {}
  local all = td.concat({td.expand_dims(lengths, 1), b.x}, 1)
  for _, list in ipairs(drain(sess, all)) do
    for k, row in ipairs(list) do
      list[k] = table.remove(row, 1) .. ":" .. table.concat(row, " ") .. " "
    end
    out[#out + 1] = table.concat(list, "|")
  end
  table.sort(out)
  lu.assertEquals(out, expected_buckets(n, size, bounds, smaller))
end

function tests.buckets()
  check_buckets(40, 4, {3, 6, 8}, false)
  check_buckets(41, 4, {3, 6, 8}, true)
  check_buckets(5, 8, {100}, true)
  check_buckets(30, 1, {2}, false)
end

-- ---- producers --------------------------------------------------------------

function tests.epochs_end()
  local q = td.train.string_input_producer({"a", "b", "c"},
                                           {epochs = 2, shuffle = false})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  lu.assertEquals(drain(sess, q:dequeue()), {"a", "b", "c", "a", "b", "c"})
end

function tests.epochs_are_shuffled()
  local function orders()
    td.reset()
    local q = td.train.range_input_producer(20, {epochs = 3, seed = 4})
    local sess = td.session()
    td.train.start_queue_runners(sess)
    return drain(sess, q:dequeue(20))
  end
  local a, b = orders(), orders()
  lu.assertEquals(a, b)
  lu.assertEquals(#a, 3)
  lu.assertNotEquals(a[1], a[2])
  for _, list in ipairs(a) do
    table.sort(list)
    for i = 1, 20 do lu.assertEquals(list[i], i - 1) end
  end
end

function tests.slices()
  local x = td.constant{{1, 2}, {3, 4}, {5, 6}}
  local row = td.train.slice_input_producer({x = x, y = td.constant{7, 8, 9}},
                                            {epochs = 1, shuffle = false})
  local sess = td.session()
  td.train.start_queue_runners(sess)
  local both = td.concat({row.x, td.reshape(row.y, {1})}, 0)
  lu.assertEquals(drain(sess, both), {{1, 2, 7}, {3, 4, 8}, {5, 6, 9}})
end

function tests.rows_and_their_number_in_the_run()
  local x = td.placeholder("float32", {-1, 2})
  raises("not fed", function()
    td.train.input_producer(x, {epochs = 1})
    td.train.start_queue_runners(td.session())
  end)
  td.reset()
  local v = td.variable(td.zeros{2, 2}, {name = "v", validate_shape = false})
  local q = td.train.input_producer(
    td.placeholder_with_default(td.zeros{0, 2}, {-1, 2}))
  local sess = td.session()
  sess:init{v}
  td.train.start_queue_runners(sess)
  raises("nothing to be produced", run, sess, q:dequeue())
end

-- ---- runners ----------------------------------------------------------------

-- A tensor that is an error from the n-th time on.
local function failing_at(n)
  local x = td.variable(0.0, "counter"):assign_add(1.0)
  return td.check_numerics(td.sqrt(n - 0.5 - x), "the example is bad")
end

local function failing_queue(n, o)
  local q = td.fifo_queue(8, "float32", {}, "examples")
  td.train.add_queue_runner(td.train.queue_runner(q, q:enqueue(failing_at(n)),
                                                  o))
  return q
end

-- Runs x until it fails; the error.
local function error_of(sess, x)
  while true do
    local ok, e = pcall(run, sess, x)
    if not ok then return e end
  end
end

function tests.a_failing_producer_reaches_the_consumer()
  for _, threads in ipairs{1, 4} do
    td.reset()
    local q = failing_queue(6, {threads = threads})
    local b = td.train.batch(q:dequeue(), 2)
    local sess = td.session()
    sess:init()
    local loops = td.train.start_queue_runners(sess)
    local e = error_of(sess, b)
    lu.assertEquals(e.code, "invalid_argument")
    contains(tostring(e), "queue batch/fifo_queue failed",
             "queue examples failed", "the example is bad", "input.lua:")
    for _, loop in ipairs(loops) do
      lu.assertEquals(raises("bad", loop.wait, loop, 20).code,
                      "invalid_argument")
    end
    raises("queue examples failed", run, sess, q:dequeue())
    raises("queue examples failed", run, sess, q:enqueue(1.0))
  end
end

function tests.who_waits_is_told()
  local q = failing_queue(1)
  local sess = td.session()
  sess:init()
  local waits = sess:start(q:dequeue())
  td.train.start_queue_runners(sess)
  raises("the example is bad", waits.wait, waits, 20)
end

function tests.a_queue_closes_after_the_last_of_several_ops()
  local a = td.train.range_input_producer(3, {epochs = 1, shuffle = false})
  local b = td.train.range_input_producer(30, {epochs = 1, shuffle = false})
  local q = td.fifo_queue(4, "int32", {})
  td.train.add_queue_runner(td.train.queue_runner(q,
    {q:enqueue(a:dequeue()), q:enqueue(b:dequeue())}, {threads = 2}))
  local sess = td.session()
  td.train.start_queue_runners(sess)
  local all = drain(sess, q:dequeue())
  lu.assertEquals(#all, 33)
  table.sort(all)
  lu.assertEquals({table.unpack(all, 1, 7)}, {0, 0, 1, 1, 2, 2, 3})
end

function tests.runners_start_once()
  local q = td.fifo_queue(4, "float32", {})
  td.train.add_queue_runner(td.train.queue_runner(q, q:enqueue(1.5)))
  local sess = td.session()
  local loops = td.train.start_queue_runners(sess)
  lu.assertEquals(#loops, 1)
  lu.assertEquals(#td.train.start_queue_runners(sess), 0)
  loops[1]:cancel()
  raises("cancelled", loops[1].wait, loops[1], 20)
  local e = error_of(sess, q:dequeue()) -- after what was in it
  lu.assertEquals(e.code, "cancelled")
  contains(tostring(e), "queue fifo_queue failed: cancelled")
end

function tests.a_closed_session_ends_runners()
  local q = td.train.range_input_producer(5)
  local b = td.train.batch(q:dequeue(), 2)
  local sess = td.session()
  local coord = td.train.coordinator()
  local loops = td.train.start_queue_runners(sess, coord)
  run(sess, b)
  sess:close()
  for _, loop in ipairs(loops) do lu.assertTrue(loop:done()) end
  coord:request_stop()
  coord:join(20)
end

function tests.runners_go_on_without_lua()
  local q = td.train.range_input_producer(100, {epochs = 1, shuffle = false})
  local seen = td.variable(0, "seen")
  local copy = td.fifo_queue(200, "int32", {})
  local _ <close> = td.control_dependencies{seen:assign_add(1)}
  td.train.add_queue_runner(td.train.queue_runner(copy,
                                                  copy:enqueue(q:dequeue())))
  local sess = td.session()
  sess:init()
  td.train.start_queue_runners(sess)
  lu.assertEquals(#run(sess, copy:dequeue(100)):table(), 100)
  collectgarbage()
  lu.assertEquals(raises("", run, sess, copy:dequeue()).code, "out_of_range")
end

-- ---- the coordinator --------------------------------------------------------

function tests.out_of_range_is_a_normal_end()
  local b = td.train.batch(count(6), 2)
  local sess = td.session()
  local coord = td.train.coordinator()
  td.train.start_queue_runners(sess, coord)
  local n = 0
  while not coord:should_stop() do
    local ok, e = pcall(run, sess, b)
    if ok then n = n + 1 else coord:request_stop(e) end
  end
  lu.assertEquals(n, 3)
  coord:join(20)
  lu.assertTrue(coord:should_stop())
end

function tests.join_raises_the_first_cause()
  local q = failing_queue(6)
  local b = td.train.batch(q:dequeue(), 2)
  local more = td.train.batch(b, 1)
  local sess = td.session()
  sess:init()
  local coord = td.train.coordinator()
  td.train.start_queue_runners(sess, coord)
  coord:request_stop(error_of(sess, more)) -- which only followed
  local e = raises("the example is bad", coord.join, coord, 20)
  lu.assertEquals(e.op, "CheckNumerics")
  lu.assertNotStrContains(tostring(e), "failed")
  raises("the example is bad", coord.join, coord, 20) -- again
end

function tests.a_failed_runner_stops_the_others()
  failing_queue(2)
  local other = td.train.range_input_producer(5)
  local sess = td.session()
  sess:init()
  local coord = td.train.coordinator()
  local loops = td.train.start_queue_runners(sess, coord)
  wait_for(function() return coord:should_stop() end, "should_stop")
  raises("the example is bad", coord.join, coord, 20)
  for _, loop in ipairs(loops) do lu.assertTrue(loop:done()) end
  lu.assertEquals(error_of(sess, other:dequeue()).code, "out_of_range")
end

function tests.a_stop_lets_nothing_hang()
  local q = td.fifo_queue(2, "float32", {}) -- that nobody takes from
  td.train.add_queue_runner(td.train.queue_runner(q, q:enqueue(1.5),
                                                  {threads = 3}))
  local never = td.fifo_queue(2, "float32", {}) -- that nobody puts into
  td.train.batch(never:dequeue(), 2)
  local sess = td.session()
  local coord = td.train.coordinator()
  td.train.start_queue_runners(sess, coord)
  local e = raises("not over after", coord.join, coord, 0.05)
  lu.assertEquals(e.code, "deadline_exceeded")
  contains(tostring(e), "batch/fifo_queue", "nobody asked")
  lu.assertFalse(coord:should_stop())
  coord:request_stop "enough"
  lu.assertTrue(coord:should_stop())
  local ok, why = pcall(coord.join, coord, 20)
  lu.assertFalse(ok)
  lu.assertEquals(why, "enough")
  lu.assertEquals(sess:why(), "")
  gives({1.5, 1.5}, run(sess, q:dequeue(2)))
end

function tests.a_coordinator_says_what_it_has()
  local coord = td.train.coordinator()
  lu.assertEquals(tostring(coord), "Coordinator of 0 queue runners")
  coord:join()
  coord:request_stop()
  lu.assertEquals(tostring(coord),
                  "Coordinator of 0 queue runners, stopping")
  coord:join()
  raises("a coordinator has no \"stop\"", function() return coord.stop end)
end

-- ---- mistakes ---------------------------------------------------------------

tests.mistakes = helper.each{
  {"batch: a batch has 1 example or more, not 0", function()
    td.train.batch(td.constant(1), 0)
  end},
  {"an example of \"Placeholder:0\" is of shape {-1}; dynamic_pad = true fills",
   function() td.train.batch(td.placeholder("int32", {-1}), 2) end},
  {"its sizes must be known: say them by the option shapes", function()
    td.train.shuffle_batch(td.placeholder("int32", {-1}), 2)
  end},
  {"with enqueue_many a tensor has a first axis", function()
    td.train.batch(td.constant(1), 2, {enqueue_many = true})
  end},
  {"threads must be 1 or more, given 0", function()
    td.train.batch(td.constant(1), 2, {threads = 0})
  end},
  {"bounds grow, but 3 follows on 5", function()
    td.train.bucket_by_sequence_length(1, {td.ones{2}}, 2, {5, 3})
  end},
  {"2 bounds make 3 buckets, given 2 batch sizes", function()
    td.train.bucket_by_sequence_length(1, {td.ones{2}}, {2, 2}, {3, 5})
  end},
  {"the length is an integer scalar, given float32 {}", function()
    td.train.bucket_by_sequence_length(1.5, {td.ones{2}}, 2, {3})
  end},
  {"the list of names is empty", function()
    td.train.string_input_producer{}
  end},
  {"epochs must be 1 or more, given 0", function()
    td.train.string_input_producer({"a"}, {epochs = 0})
  end},
  {"the limit must be 1 or more, given 0", function()
    td.train.range_input_producer(0)
  end},
  {"takes a tensor with rows, or a list, given a scalar", function()
    td.train.input_producer(td.constant(1))
  end},
  {"queue_runner takes a queue or a list of queues, not number", function()
    td.train.queue_runner(1, td.no_op())
  end},
  {"queue_runner takes ops to run, given none", function()
    td.train.queue_runner(td.fifo_queue(4, "int32"), {})
  end},
  {"threads must be 1 or more", function()
    td.train.queue_runner(td.fifo_queue(4, "int32"), td.no_op(), {threads = 0})
  end},
  {"add_queue_runner takes what td.train.queue_runner gives", function()
    td.train.add_queue_runner(td.fifo_queue(4, "int32"))
  end},
  {"start_queue_runners takes what td.train.coordinator gives, not number",
   function() td.train.start_queue_runners(td.session(), 1) end},
  {"start_queue_runners takes a session, not coordinator", function()
    td.train.start_queue_runners(td.train.coordinator())
  end},
}

return tests
