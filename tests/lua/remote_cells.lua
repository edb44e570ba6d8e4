-- remote_cells.lua - cells that run again while workers are attached, workers
-- that come back, and variables that are restored over several of them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"
local helper = require "helper"
local owner = require "tide.console.owner"
local workers = require "shared.workers"

local raises, gives = helper.raises, helper.gives
local on = workers.on
local tests = {}

-- `second`: more words for the second worker.
local function two(second) return workers.cluster(2, second) end

-- Runs cells by name.
local function notebook()
  local count = 0
  return function(key, f)
    count = count + 1
    local run = owner.start(key, ("In[%d]"):format(count))
    local ok, why = pcall(f)
    owner.stop(run, ok)
    lu.assertTrue(ok, tostring(why))
  end
end

-- Is it so, soon? What workers tell of themselves comes once a second.
local function soon(f)
  local until_ = core.clock() + 20
  while not f() do
    if core.clock() > until_ then return false end
    core.pause(0.05)
  end
  return true
end

-- ---- cells -----------------------------------------------------------------

function tests.a_cell_again()
  local list <close> = two()
  local sess, run = list.session, notebook()
  local W, V, fill, size
  local function cell()
    W = on(0, function() return td.variable({1.0, 2.0}, "W") end)
    local q = on(0, function() return td.fifo_queue(4, "float32", {}, "q") end)
    fill, size = q:enqueue(1.5), q:size()
  end
  run("b", function()
    V = on(0, function() return td.variable({7.0}, "V") end)
  end)
  local graph = td.graph()
  local other <close> = td.session{graph = graph}
  other:attach(list[1].address)
  local theirs = graph:as_default(function()
    return on(0, function() return td.variable({3.0}, "W") end)
  end)
  other:init()
  run("a", cell)
  sess:init()
  sess:run(V:assign{8.0})
  for _ = 1, 3 do
    run("a", cell)
    lu.assertEquals(W.name, "W")
    sess:init() -- V keeps what it has, W has its first value again
    gives({1, 2}, sess:run(W))
    gives({8}, sess:run(V))
    gives(0, sess:run(size))
    sess:run(fill)
    gives(1, sess:run(size))
    gives({3}, other:run(theirs))
  end
end

-- What a cell left behind is dropped there, too.
function tests.memory_of_a_cell_again()
  local list <close> = two()
  local sess, run = list.session, notebook()
  local MB = 1 << 20
  local function used() return sess:workers()[1].memory end
  local count, v = 0, nil
  run("v", function()
    v = on(0, function() return td.variable(td.zeros{MB}, "v") end)
  end)
  sess:init()
  local function cell()
    count = count + 1 -- the queue of the last run has another name
    local q = on(0, function()
      return td.fifo_queue(4, "float32", {MB}, "q" .. count)
    end)
    local fill = on(0, function() return q:enqueue(v + 1) end)
    for _ = 1, 2 do sess:run(fill) end -- 8 MB
  end
  for _ = 1, 12 do run("a", cell) end
  local function told() return sess:workers()[1].steps >= 24 end
  lu.assertTrue(soon(told), "24 steps")
  run("a", function() end)
  lu.assertTrue(soon(function() return used() < 24 * MB end), used())
end

-- ---- restoring -------------------------------------------------------------

local function value(sess, v) return sess:run(v):table() end

-- A worker that comes back has no values, which is said by name; a restore
-- gives all variables theirs, those of the other worker too.
function tests.a_worker_that_comes_back()
  local list <close> = two()
  local sess = list.session
  local v = on(0, function() return td.variable({1.0}, "v") end)
  local w = on(1, function() return td.variable({2.0}, "w") end)
  local saver = td.train.saver{sharded = true}
  sess:init()
  local path = saver:save(sess, workers.path "model")
  sess:run{v:assign{5.0}, w:assign{6.0}}
  list[2]:kill()
  local e = raises("/job:worker/replica:0/task:1", sess.run, sess, w:read())
  lu.assertEquals(e.code, "unavailable")
  local _ <close> = workers.start{task = 1, listen = list[2].address}
  lu.assertTrue(soon(function()
    local ok, why = pcall(sess.run, sess, w:read())
    e = why
    return not ok and why.code ~= "unavailable"
  end))
  lu.assertEquals(e.code, "failed_precondition")
  helper.contains(tostring(e), "variable w is not initialised")
  lu.assertEquals(value(sess, v), {5})
  saver:restore(sess, path)
  lu.assertEquals({value(sess, v), value(sess, w)}, {{1}, {2}})
end

-- What one worker cannot take leaves the variables of the other as they were,
-- or without a value, where it did not say in time whether it had begun.
function tests.a_restore_that_fails()
  for _, sharded in ipairs{false, false, false, true} do
    td.reset()
    local list <close> = two "--memory-limit 20M"
    local sess, MB = list.session, 1 << 20
    local v = on(0, function() return td.variable({1.0}, "v") end)
    local w = on(1, function() return td.variable(td.zeros{2 * MB}, "w") end)
    local saver = td.train.saver{variables = {w, v}, sharded = sharded}
    local filler = on(1, function()
      return td.variable(td.zeros{2 * MB}, "filler")
    end)
    sess:run{v.initializer, w.initializer}
    local path = saver:save(sess, workers.path "model")
    saver:restore(sess, path)
    sess:run(v:assign{5.0})
    sess:run(filler.initializer)
    local e = raises("/job:worker/replica:0/task:1", saver.restore, saver, sess,
                     path)
    lu.assertEquals(e.code, "resource_exhausted")
    if tostring(e):find "restore again" then
      raises("variable v is not initialised", value, sess, v)
    else
      lu.assertEquals(value(sess, v), {5})
    end
    sess:close()
  end
end

-- A session whose step does not fit there is told so, and the next step runs.
function tests.the_memory_of_a_worker()
  local list <close> = two "--memory-limit 32M"
  local sess = list.session
  local n = td.placeholder("int32", {1})
  local y = on(1, function() return td.fill(n, 1.0):sum() end)
  local e = raises("/job:worker/replica:0/task:1", sess.run, sess, y,
                   {[n] = {1 << 24}})
  lu.assertEquals(e.code, "resource_exhausted")
  helper.contains(tostring(e), "memory limit")
  gives(1 << 10, sess:run(y, {[n] = {1 << 10}}))
end

return tests
