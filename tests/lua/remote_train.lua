-- remote_train.lua - training with variables on two workers: each stays where
-- it is, with what belongs to it, and gradients where they are asked to be.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local workers = require "shared.workers"

local tests = {}

local on = workers.on

local function two() return workers.cluster(2) end

-- Where each node is: name -> "worker 1", "localhost 0".
local function places(sess)
  local out = {}
  for name, job, task in sess:explain_placement():gmatch
    "%S+ %((%S+)%) %-> /job:(%w+)/replica:0/task:(%d+)" do
    out[name] = job .. " " .. task
  end
  return out
end

-- All nodes whose name has `part` are there; there are some.
local function are_at(found, part, want)
  local n = 0
  for name, place in pairs(found) do
    if name:find(part) then
      n = n + 1
      lu.assertEquals(place, want, name)
    end
  end
  lu.assertTrue(n > 0, part)
end

-- ---- variables -------------------------------------------------------------

-- Two variables on two workers, trained by `make`.
local function train(make)
  local list <close> = two()
  local sess = list.session
  local a = on(0, function() return td.variable({1.0, 2.0}, "a") end)
  local b = on(1, function() return td.variable({3.0, -1.0}, "b") end)
  local step = make():minimize(((a * b - 2) ^ 2):sum())
  sess:init()
  for _ = 1, 3 do sess:run(step) end
  local found = places(sess)
  are_at(found, "^a$", "worker 0")
  are_at(found, "^b$", "worker 1")
  are_at(found, "^a/[%w_]+$", "worker 0") -- its slots too
  are_at(found, "^b/[%w_]+$", "worker 1")
  are_at(found, "update_a/.*Apply", "worker 0")
  are_at(found, "update_b/.*Apply", "worker 1")
end

-- The rate is a variable of nobody's: it ties nothing together.
for name, make in pairs{
  sgd = function(rate) return td.train.sgd(rate) end,
  momentum = function(rate) return td.train.momentum(rate, 0.9) end,
  adam = function(rate) return td.train.adam(rate) end,
  adagrad = function(rate) return td.train.adagrad(rate) end,
  rmsprop = function(rate) return td.train.rmsprop(rate) end,
} do
  tests["variables_stay_with_" .. name] = function()
    train(function()
      return make(td.variable(0.01, {name = "rate", trainable = false}))
    end)
  end
end

-- What is read beside another variable does not join it.
function tests.a_read_in_the_scope_of_another()
  local list <close> = two()
  local sess = list.session
  local a = on(0, function() return td.variable({1.0, 2.0}, "a") end)
  local b = on(1, function() return td.variable({3.0, -1.0}, "b") end)
  local y = td.colocate_with(a, function() return b:read() * 2 end)
  td.colocate_with(a, td.variable, {1.0, 1.0}, "c")
  sess:init()
  helper.gives({6, -2}, sess:run(y))
  local found = places(sess)
  lu.assertEquals({found.a, found.b, found.c, found[y.op.name]},
                  {"worker 0", "worker 1", "worker 0", "worker 0"})
end

function tests.averages_and_normalization()
  local list <close> = two()
  local sess = list.session
  local x = td.constant{{1.0, 2.0}, {3.0, 5.0}}
  local a = on(0, function() return td.layers.batch_normalization(x,
    {training = true, name = "one"}) end)
  local b = on(1, function() return td.layers.batch_normalization(a,
    {training = true, name = "two"}) end)
  local loss = (b ^ 3):sum()
  local steps = td.variable(0, {name = "steps", trainable = false})
  local average = td.train.moving_average(0.9, {num_updates = steps})
  local step = td.train.sgd(0.1):minimize(loss)
  local all = {step, average:apply()}
  for _, op in ipairs(td.get_collection "update_ops") do all[#all + 1] = op end
  sess:init()
  sess:run(td.group(all))
  local found = places(sess)
  are_at(found, "^one/[%w_]+$", "worker 0")
  are_at(found, "^two/[%w_]+$", "worker 1")
  are_at(found, "^one/%w+/ExponentialMovingAverage$", "worker 0")
  are_at(found, "^two/%w+/ExponentialMovingAverage$", "worker 1")
end

-- Rows are looked up where their part of the table is, and changed there.
function tests.embedding()
  local list <close> = two()
  local sess = list.session
  local parts = {}
  for n = 0, 1 do
    parts[n + 1] = on(n, function()
      return td.variable(td.ones{4, 2} * (n + 1), "part" .. n)
    end)
  end
  local rows = td.nn.embedding_lookup(parts, {0, 1, 5, 6}, {max_norm = 100})
  local step = td.train.adam(0.5):minimize((rows ^ 2):sum())
  sess:init()
  helper.gives({{1, 1}, {2, 2}, {2, 2}, {1, 1}}, sess:run(rows))
  sess:run(step)
  local found = places(sess)
  are_at(found, "^part0/[%w_]+$", "worker 0")
  are_at(found, "^part1/[%w_]+$", "worker 1")
  are_at(found, "ResourceGather$", "worker 0")
  are_at(found, "ResourceGather_1$", "worker 1")
end

-- ---- gradients -------------------------------------------------------------

local function net()
  local x = td.constant{{1.0, 2.0}, {0.5, -1.0}}
  local a = on(0, function() return td.variable(x, "a") end)
  local b = on(1, function() return td.variable(x * 0.5, "b") end)
  local h = on(0, function()
    return td.tanh(x:matmul(a, {name = "first"}), {name = "t0"})
  end)
  local _, y = td.while_loop(function(i) return i:less(3) end,
    function(i, s)
      return i + 1, on(1, function() return td.sin(s:matmul(b)) + s end)
    end, {0, h})
  local z = on(1, function() return td.exp(y, {name = "e1"}) end)
  local loss = on(1, function() return (z * z):sum() end)
  return loss, a, b
end

function tests.gradients_where_their_ops_are()
  local list <close> = two()
  local sess = list.session
  local loss, a, b = net()
  local free = td.gradients(loss, {a, b}, {name = "free"})
  local near = td.gradients(loss, {a, b}, {name = "near", colocate = true})
  sess:init()
  local got = sess:run{free, near}
  for k = 1, 2 do
    lu.assertEquals(got[1][k]:bytes(), got[2][k]:bytes())
  end
  local found = places(sess)
  are_at(found, "^near/t0_grad/", "worker 0")
  are_at(found, "^near/first_grad/MatMul", "worker 0")
  are_at(found, "^near/e1_grad/", "worker 1")
  are_at(found, "^near/while_grad/Sin_grad/Mul", "worker 1")
  are_at(found, "^near/while_grad/MatMul_grad/MatMul", "worker 1")
  are_at(found, "^free/t0_grad/", "localhost 0") -- where they come cheapest
end

function tests.minimize_where_the_ops_are()
  local list <close> = two()
  local sess = list.session
  local loss, a = net()
  local step = td.train.sgd(0.01):minimize(loss, {colocate = true})
  sess:init()
  local before = sess:run(loss)
  sess:run(step)
  lu.assertTrue(sess:run(loss) < before)
  local found = places(sess)
  are_at(found, "^gradients/t0_grad/", "worker 0")
  are_at(found, "^gradients/e1_grad/", "worker 1")
  lu.assertEquals(found[a.name], "worker 0")
  helper.raises("colocate", td.gradients, loss, a, {colocate = 1})
end

-- ---- fewer bits ------------------------------------------------------------

-- Half the bytes where it is asked for, the same values where nothing crosses.
function tests.on_the_wire()
  local list <close> = two()
  local sess, N = list.session, 100000
  local x = on(0, function()
    return td.variable(td.value.random_normal{N}, "x")
  end)
  local y = on(0, function() return td.multiply(x, 2.0) end)
  local z = on(1, function() return td.on_wire(y) + 0 end)
  local near = on(0, function() return td.on_wire(y) + 0 end)
  sess:init()
  local function copied(what)
    local before = td.traffic().copied
    local value = sess:run(what)
    return value, td.traffic().copied - before
  end
  local full, bytes = copied(y)
  lu.assertEquals(bytes, 4 * N)
  local cut = copied(z)
  lu.assertEquals(copied(near):bytes(), full:bytes())
  lu.assertFalse(cut:bytes() == full:bytes())
  td.test.close(cut, full, {rtol = 1 / 128, atol = 0})
  local wide = on(0, function() return td.on_wire(y) end)
  local _, less = copied(td.device("/job:localhost", function()
    return wide + 0
  end))
  lu.assertEquals(less, 2 * N)
  lu.assertEquals(td.gradients(td.on_wire(x):sum(), x).dtype, "float32")
  helper.raises("float32 tensor, not int32", td.on_wire, td.constant(1))
  helper.raises("not as \"float16\"", td.on_wire, y, "float16")
end

-- Where a session asks for it and the link is slow, which any link is below
-- 10^9 MB/s: once it was measured.
function tests.on_a_slow_link()
  local full = td.value.random_normal{400000}
  local a <close> = workers.start{task = 0, env = "TIDE_REMOTE_OFF=shm"}
  local b <close> = workers.start{task = 1, env = "TIDE_REMOTE_OFF=shm"}
  for _, compress in ipairs{false, 1e9} do
    local sess <close> = td.session{compress = compress or nil}
    sess:attach{a.address, b.address}
    local x = on(0, function() return td.variable(full, "full") + 0 end)
    local same
    local y, n = on(1, function() return x + 0 end), 0
    sess:init()
    repeat
      local value = sess:run(y)
      same = value:bytes() == full:bytes()
      td.test.close(value, full, {rtol = 1 / 128, atol = 0})
      n = n + 1
    until not same or n == (compress and 1000 or 5)
    lu.assertEquals(same, not compress)
  end
  helper.raises("\"slow\" or a number of MB/s", td.session,
                {compress = "always"})
  helper.raises("\"slow\" or a number of MB/s", td.session, {compress = 0})
  td.session{compress = "slow"}:close()
end

return tests
