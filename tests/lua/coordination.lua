-- coordination.lua - steps that wait for one another: accumulators, barriers,
-- staging areas, mutexes, tensors kept in a session.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function run(x, feeds) return td.session():run(x, feeds) end

-- Until a step of s waits for that.
local function until_waits(s, text)
  for _ = 1, 500 do
    if s:why():find(text, 1, true) then return end
    os.execute("sleep 0.01")
  end
  lu.assertStrContains(s:why(), text)
end

-- Starts a step, and gives it when it waits for that.
local function waiting(s, x, text)
  local h = s:start(x)
  until_waits(s, text)
  return h
end

-- ---- accumulators -----------------------------------------------------------

function tests.accumulator()
  local s = td.session()
  local a = td.accumulator("float32", {2})
  s:run(a:apply({1, 2}, 0))
  s:run(a:apply({3, 6}, 0))
  lu.assertEquals(s:run(a:size()), 2)
  local mean = a:take(2)
  lu.assertTrue(mean.shape == {2})
  gives({2, 4}, s:run(mean))
  s:run(a:apply({9, 9}, 0))                          -- late
  lu.assertEquals(s:run(a:size()), 0)
  s:run(a:set_step(7))
  s:run(a:apply({9, 9}, 6))
  lu.assertEquals(s:run(a:size()), 0)
  raises("cannot go back to 3", s.run, s, a:set_step(3))
  lu.assertEquals(tostring(a), 'Accumulator "accumulator" float32 {2}')
end

function tests.accumulator_sum_and_names()
  local s = td.session()
  local a = td.accumulator("float64", nil, {reduction = "sum",
                                            shared_name = "shared"})
  local b = td.accumulator("float64", nil, {reduction = "sum",
                                            shared_name = "shared"})
  local one, two = td.constant(1.5, {dtype = "float64"}),
                   td.constant(2.0, {dtype = "float64"})
  s:run(a:apply(one, 0))
  s:run(b:apply(two, td.constant(0)))                -- a step of int32
  gives(3.5, s:run(a:take(2)))
end

function tests.accumulator_ordered()
  local s = td.session()
  local a = td.accumulator("float32", {}, {reduction = "sum", ordered = 3})
  for i, slot in ipairs{2, 0, 1} do
    s:run(a:apply(i + 0.0, 0, {slot = slot}))
  end
  gives(6, s:run(a:take(3)))
  s:run(a:apply(1.0, 1, {slot = 2}))
  local e = raises("slot 2 of accumulator", s.run, s,
                   a:apply(1.0, 1, {slot = 2}))
  lu.assertEquals(e.code, "already_exists")
end

-- 1e8 + 1 - 1e8 is 0 or 1 by the order: in slots it is always the same.
function tests.accumulator_same_bits()
  local s = td.session()
  local a = td.accumulator("float32", {}, {reduction = "sum", ordered = 3})
  local b = td.accumulator("float32", {}, {reduction = "sum"})
  local slot, step = td.placeholder("int32", {}), td.placeholder("int64", {})
  local g = td.placeholder("float32", {})
  local put, take = a:apply(g, step, {slot = slot}), a:take(3)
  local put_b, take_b = b:apply(g, step), b:take(3)
  local values, seen = {1e8, 1.0, -1e8}, {}
  local orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1},
                  {2, 1, 0}}
  for n, order in ipairs(orders) do
    for _, k in ipairs(order) do
      local feeds = {[slot] = k, [step] = n - 1, [g] = values[k + 1]}
      s:run(put, feeds)
      s:run(put_b, feeds)
    end
    lu.assertEquals(s:run(take), 0.0)
    seen[s:run(take_b)] = true
  end
  lu.assertTrue(seen[0.0] and seen[1.0])
end

function tests.accumulator_of_rows()
  local s = td.session()
  local a = td.accumulator("float32", {4, 2}, {sparse = true})
  local W = td.variable(td.zeros{4, 2}, "W")
  s:init()
  local rows = td.placeholder("int32", {-1})
  local g = td.gradients(td.reduce_sum(td.gather(W, rows)), {W})[1]
  local apply = a:apply(g, 0)
  s:run(apply, {[rows] = {2, 0, 2}})
  s:run(apply, {[rows] = {2, 3}})
  local taken = a:take(2)
  local got = s:run{taken.indices, taken.values, taken.dense_shape}
  gives({0, 2, 3}, got[1])
  gives({{1, 1}, {1.5, 1.5}, {1, 1}}, got[2])
  gives({4, 2}, got[3])
  raises("adds indexed slices, not table", a.apply, a, {1, 2}, 0)
end

function tests.accumulator_waits()
  local s = td.session()
  local a = td.accumulator("float32", {}, {name = "acc"})
  local take, apply = a:take(2), a:apply(1.0, 0)
  local h = waiting(s, take,
                    "accumulator acc: 0 of 2 gradients, global step 0")
  s:run(apply)
  s:run(apply)
  gives(1, h:wait())
  raises("did not end within", s.run, s, take, nil, {timeout = 0.05})
  h = waiting(s, take, "0 of 2 gradients, global step 1")
  h:cancel()
  lu.assertFalse(pcall(h.wait, h))
  s:run(a:apply(1.0, 5))                 -- those who left took nothing
  lu.assertEquals(s:run(a:size()), 1)
end

tests.accumulator_mistakes = helper.each{
  {"\"mean\" or \"sum\", not max", function()
    td.accumulator("float32", {}, {reduction = "max"})
  end},
  {"is float32, given int32; use td.cast", function()
    td.accumulator("float32", {}):apply(td.constant(1), 0)
  end},
  {"have shape {2}: one of shape {3} cannot be added", function()
    td.accumulator("float32", {2}):apply(td.zeros{3}, 0)
  end},
  {"give a slot, 0 to 2", function()
    td.accumulator("float32", {}, {ordered = 3}):apply(1.0, 0)
  end},
  {"is not ordered and has no slots", function()
    td.accumulator("float32", {}):apply(1.0, 0, {slot = 0})
  end},
  {"tell the step", function()
    td.accumulator("float32", {}):apply(1.0)
  end},
  {"accumulator \"accumulator\" has no \"aply\"; did you mean", function()
    return td.accumulator("float32", {}).aply
  end},
  {"must be positive, not 0", function()
    run(td.accumulator("float32", {}):take(0))
  end},
  {"fetch its :take(n)", function() run(td.accumulator("float32", {})) end},
}

-- ---- barriers ---------------------------------------------------------------

function tests.barrier()
  local s = td.session()
  local b = td.barrier({"float32", "int32"}, {{}, {2}})
  s:run(b:insert(1, {"a", "b"}, {1, 2}))
  local h = waiting(s, td.tuple{b:take(2)},
                    "barrier barrier: 0 of 2 elements ready, 2 incomplete")
  s:run(b:insert(2, {"b", "a"}, {{3, 3}, {4, 4}}))
  local got = {h:wait()}
  gives({"b", "a"}, got[2])
  gives({2, 1}, got[3])
  gives({{3, 3}, {4, 4}}, got[4])
  s:run(b:insert(1, {"c"}, {5}))
  lu.assertEquals(s:run(b:incomplete_size()), 1)
  s:run(b:close())
  raises("there is no key d", s.run, s, b:insert(1, {"d"}, {6}))
  s:run(b:insert(2, {"c"}, {{7, 7}}))
  lu.assertEquals(s:run(b:ready_size()), 1)
  local _, keys = b:take(9, {allow_small_batch = true,
                             wait_for_incomplete = true})
  gives({"c"}, s:run(keys))
  local e = raises("insufficient elements", s.run, s, keys)
  lu.assertEquals(e.code, "out_of_range")
  lu.assertEquals(tostring(b), 'Barrier "barrier": float32 {}, int32 {2}')
end

tests.barrier_mistakes = helper.each{
  {"give a shape for each", function() td.barrier({"float32"}) end},
  {"2 dtypes and 1 shapes", function()
    td.barrier({"float32", "int32"}, {{}})
  end},
  {"has components 1 to 1, none of number 0", function()
    td.barrier("float32", {}):insert(0, {"a"}, {1})
  end},
  {"component 1 of barrier \"barrier\" is float32, given int32", function()
    td.barrier("float32", {}):insert(1, {"a"}, td.constant{1})
  end},
  {"is of shape {2}, given a batch of {3}", function()
    td.barrier("float32", {2}):insert(1, {"a"}, td.zeros{1, 3})
  end},
}

-- ---- staging areas ----------------------------------------------------------

function tests.staging_area()
  local s = td.session()
  local area = td.staging_area({"float32", "string"}, {{-1}, {}},
                               {capacity = 2})
  local put = area:put({1, 2}, "x")
  s:run(put)
  s:run(area:put({3}, "y"))
  local h = waiting(s, put, "room in staging area staging_area: 2 tuples")
  local x, name = area:get()
  lu.assertTrue(x.shape == {-1})
  local got = s:run{x, name}
  gives({1, 2}, got[1])
  lu.assertEquals(got[2], "x")
  h:wait()
  local _, second = area:peek(1)
  lu.assertEquals(s:run(second), "x")
  lu.assertEquals(s:run(area:size()), 2)
  s:run(area:clear())
  lu.assertEquals(s:run(area:size()), 0)
  raises("did not end within", s.run, s, name, nil, {timeout = 0.05})
end

-- One step makes what the next one takes.
function tests.staging_ahead()
  local s = td.session()
  local area = td.staging_area("int32", {})
  local i = td.placeholder("int32", {})
  local put, got = area:put(i * 10), area:get()
  s:run(put, {[i] = 1})
  for k = 2, 5 do
    lu.assertEquals(s:run({got, put}, {[i] = k})[1], (k - 1) * 10)
  end
end

-- Areas of one name are one; those of other names, or containers, are not.
function tests.staging_names()
  local s = td.session()
  local one = td.staging_area("int32", {}, {shared_name = "a"})
  local same = td.staging_area("int32", {}, {shared_name = "a"})
  local other = td.staging_area("int32", {})
  local far = td.container("c", td.staging_area, "int32", {},
                           {shared_name = "a"})
  s:run(one:put(5))
  lu.assertEquals(s:run(other:size()), 0)
  lu.assertEquals(s:run(far:size()), 0)
  lu.assertEquals(s:run(same:get()), 5)
end

tests.staging_mistakes = helper.each{
  {"holds tuples of 2, given 1", function()
    td.staging_area({"int32", "int32"}):put(1)
  end},
  {"is of shape {2}, given {3}", function()
    td.staging_area("float32", {2}):put(td.zeros{3})
  end},
  {"8 bytes never fit a memory_limit of 4", function()
    run(td.staging_area("int32", {2}, {memory_limit = 4}):put{1, 2})
  end},
}

-- ---- mutexes ----------------------------------------------------------------

-- Reads, waits, writes: without the mutex steps lose updates.
function tests.mutex()
  local s = td.session{threads = 4}
  local W = td.variable(0, "W")
  local m = td.mutex("turn")
  s:init()
  local step = m:lock(function()
    local was = W:read()
    return W:assign(was + 1)
  end)
  local running = {}
  for i = 1, 50 do running[i] = s:start(step) end
  for i = 1, 50 do running[i]:wait() end
  lu.assertEquals(s:run(W), 50)
  lu.assertEquals(tostring(m), 'Mutex "turn"')
end

-- All of it runs, whichever result is used, between locking and unlocking.
function tests.mutex_order()
  local s = td.session()
  local area = td.staging_area("int32", {})
  local m = td.mutex()
  local W = td.variable(0, "W")
  s:init()
  local seven, none = m:lock(function()
    W:assign_add(1)
    area:put(3)
    return td.constant(7), "not a tensor"
  end)
  lu.assertEquals(none, "not a tensor")
  lu.assertEquals(s:run(seven), 7)
  lu.assertEquals(s:run(W), 1)
  lu.assertEquals(s:run(area:size()), 1)
  local op = m:lock(function() W:assign_add(1) end)
  s:run(op)
  lu.assertEquals(s:run(W), 2)
end

function tests.mutex_branches_and_loops()
  local s = td.session()
  local m = td.mutex("turn")
  local W = td.variable(0, "W")
  s:init()
  local x = td.placeholder("int32", {})
  local r = m:lock(function()
    local up = td.cond(x:greater(0), function() return W:assign_add(x) end,
                       function() return W:assign_sub(1) end)
    return td.while_loop(function(i) return i:less(3) end,
      function(i)
        return td.tuple({i + 1}, {controls = {W:assign_add(10)}})[1]
      end, {up * 0})
  end)
  s:run(r, {[x] = 5})
  lu.assertEquals(s:run(W), 35)
  s:run(r, {[x] = 0})
  lu.assertEquals(s:run(W), 64)
end

function tests.a_failing_step_leaves_it_free()
  local s = td.session()
  local m = td.mutex("turn")
  local x = td.placeholder("float32", {})
  local area = td.staging_area("float32", {})
  local r = m:lock(function() return td.check_numerics(x, "bad") end)
  local stuck = m:lock(function() return area:get() end)
  for _ = 1, 3 do
    raises("bad", s.run, s, r, {[x] = 0 / 0})
    raises("did not end within", s.run, s, stuck, nil, {timeout = 0.05})
  end
  local h = waiting(s, stuck, "staging area staging_area: 0 tuples")
  local other = s:start(r, {[x] = 2})
  until_waits(s, "mutex turn: lock_1 holds it, 1 wait")
  h:cancel()
  lu.assertFalse(pcall(h.wait, h))
  gives(2, other:wait())
end

-- ---- tensors kept in a session ----------------------------------------------

function tests.session_tensors()
  local g = td.get_default_graph()
  local s, other = td.session(), td.session{graph = g}
  local x = td.placeholder("float32", {-1})
  local keep = td.raw.GetSessionHandle(x)
  local handle = td.placeholder("string", {})
  local get = td.raw.GetSessionTensor(handle, {dtype = "float32"})
  local wrong = td.raw.GetSessionTensor(handle, {dtype = "int32"})
  local delete = td.raw.DeleteSessionTensor(handle)
  local a, b = s:run(keep, {[x] = {1, 2}}), s:run(keep, {[x] = {3}})
  lu.assertNotEquals(a, b)
  gives({1, 2}, s:run(get, {[handle] = a}))
  gives({3}, s:run(get, {[handle] = b}))
  raises("is float32 and cannot be had as int32", s.run, s, wrong,
         {[handle] = a})
  local e = raises("another session gave it out", other.run, other, get,
                   {[handle] = a})
  lu.assertEquals(e.code, "invalid_argument")
  raises("another session", other.run, other, delete, {[handle] = a})
  s:run(delete, {[handle] = a})
  raises("it was deleted", s.run, s, get, {[handle] = a})
  gives({3}, s:run(get, {[handle] = b}))
  local W = td.variable(1.0, "W")
  s:init()
  raises("keeps no tensor", s.run, s, delete, {[handle] = "W"})
  gives(1, s:run(W))
end

return tests
