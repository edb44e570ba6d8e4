--- remote_faults.lua - what is known, and what is left, after a step over
-- workers failed: which tasks may have changed variables, and that a restore is
-- whole.
-- SPDX-License-Identifier: Apache-2.0

local all_or_none = require "tide.train.all_or_none"
local helper = require "helper"
local lu = require "luaunit"
local td = require "tide"
local workers = require "shared.workers"

local on, raises = workers.on, helper.raises
local tests = {}

-- A variable on each of two tasks.
local function two()
  local all = workers.cluster(2)
  local a = on(0, function() return td.variable(1.0, "a") end)
  local b = on(1, function() return td.variable(2.0, "b") end)
  all.session:init()
  return all, a, b
end

local function bad_on(n, x)
  return on(n, function() return td.check_numerics(td.log(x), "bad") end)
end

local task = "/job:worker/replica:0/task:%d"

-- Is the task one of those that are said to be `how`?
local function is_said(applied, how, n)
  for part in (applied or ""):gmatch "[^;]+" do
    if part:find(how .. " at ", 1, true)
      and part:find(task:format(n), 1, true) then return true end
  end
  return false
end

local function may_be(applied, n)
  return is_said(applied, "unknown", n) or is_said(applied, "all", n)
end

function tests.nothing_was_begun()
  local all <close>, a = two()
  local x = td.placeholder("float32", {})
  local bad = bad_on(1, x)
  local step = td.control_dependencies({bad}, function()
    return a:assign_add(1.0)
  end)
  local e = raises("bad", all.session.run, all.session, step, {[x] = -1.0})
  lu.assertNil(e.applied)
  lu.assertNil(tostring(e):find "applied")
  lu.assertEquals(all.session:run(a), 1.0)
end

function tests.an_update_before_the_error()
  local all <close>, a = two()
  local sess = all.session
  local x = td.placeholder("float32", {})
  local step = td.control_dependencies({a:assign_add(1.0)}, function()
    return bad_on(1, x:identity())
  end)
  local e = raises("bad", sess.run, sess, step, {[x] = -1.0})
  lu.assertTrue(may_be(e.applied, 0), e.applied)
  lu.assertTrue(is_said(e.applied, "nothing", 1), e.applied)
  helper.contains(tostring(e), "; applied: " .. e.applied)
  lu.assertEquals(sess:run(a), 2.0)
end

-- One task has ended its part before the other is stopped.
function tests.all_of_a_task()
  local all <close>, a, b = two()
  local sess = all.session
  local q = on(1, function() return td.fifo_queue(1, "float32", {}) end)
  local adds = {a:assign_add(1.0).op, b:assign_add(q:dequeue()).op}
  helper.eventually(function()
    local e = raises("", sess.run, sess, adds, nil, {timeout = 0.2})
    lu.assertEquals(e.code, "deadline_exceeded")
    lu.assertFalse(is_said(e.applied, "all", 1))
    return is_said(e.applied, "all", 0)
  end)
  lu.assertEquals(sess:run(b), 2.0)
end

function tests.who_died()
  local all <close>, a, b = two()
  local sess = all.session
  local q = on(0, function() return td.fifo_queue(1, "float32", {}) end)
  local got = q:dequeue()
  local h = sess:start{a:assign(got), b:assign_add(1.0)}
  helper.eventually(function() return sess:run(b) == 3.0 end)
  all[2]:kill()
  local e = raises(task:format(1), h.wait, h)
  lu.assertTrue(may_be(e.applied, 1), e.applied)
  lu.assertTrue(is_said(e.applied, "nothing", 0), e.applied)
end

-- ---- patience --------------------------------------------------------------

function tests.patience()
  local w <close> = workers.start{args = "--patience 3"}
  local sess <close> = td.session()
  raises("patience must be 1 to 1000, not 0.5", sess.attach, sess, w.address,
         {patience = 0.5})
  lu.assertStrContains(sess:attach(w.address, {patience = 1})[1], "CPU:0")
  local bad <close> = workers.start{args = "--patience 0.1"}
  lu.assertEquals(bad:stop(), 1)
  helper.contains(bad:errors(), "patience must be 1 to 1000, not 0.1")
end

-- ---- restores --------------------------------------------------------------

local function has_value(sess, v) return sess:run(v.is_initialized) end

function tests.a_restore_that_fails_half_way()
  local all <close>, a, b = two()
  local sess = all.session
  local x = td.placeholder("float32", {})
  local first = a:assign(10.0)
  local second = td.control_dependencies({first}, function()
    return b:assign(bad_on(1, x:identity()))
  end)
  local items = {{variable = a}, {variable = b}}
  local e = raises("none has a value now: restore again", all_or_none, sess,
                   items, {first, second}, {[x] = -1.0})
  lu.assertEquals(e.code, "invalid_argument")
  lu.assertFalse(has_value(sess, a))
  lu.assertFalse(has_value(sess, b))
  all_or_none(sess, items, {first, second}, {[x] = 1.0})
  lu.assertEquals(sess:run{a, b}, {10.0, 0.0})
end

function tests.a_restore_that_fails_before()
  local all <close>, a, b = two()
  local sess = all.session
  local x = td.placeholder("float32", {})
  local value = bad_on(1, x)
  local e = raises("bad", all_or_none, sess, {{variable = a}, {variable = b}},
                   {a:assign(value)}, {[x] = -1.0})
  lu.assertNil(e.message:find "restore again")
  lu.assertEquals(sess:run{a, b}, {1.0, 2.0})
end

function tests.shared_variables_too()
  local all <close> = workers.cluster(2)
  local sess = all.session
  local v = td.container("kept", function()
    return on(0, function() return td.variable(1.0, "v") end)
  end)
  sess:init()
  local x = td.placeholder("float32", {})
  local step = td.control_dependencies({v:assign(5.0)}, function()
    return bad_on(1, x:identity())
  end)
  raises("restore again", all_or_none, sess, {{variable = v}}, step,
         {[x] = -1.0})
  lu.assertFalse(has_value(sess, v))
end

return tests
