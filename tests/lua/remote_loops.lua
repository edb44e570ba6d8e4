-- remote_loops.lua - loops, branches and functions over two workers: the same
-- bits as on one device, gradients too, and iterations that overlap.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"
local helper = require "helper"
local workers = require "shared.workers"

local tests = {}

local WHERE = "/job:worker/task:"

local function two() return workers.cluster(2) end

-- Here: what asks for no task.
local function here(_, f) return f() end

-- There: f, with what it builds on task n.
local there = workers.on

local function bits(sess, fetches)
  local out = {}
  sess:init()
  for _ = 1, 2 do
    for _, x in ipairs(sess:run(fetches)) do out[#out + 1] = x:bytes() end
  end
  return out
end

-- Did both run steps? They tell so once a second.
local function ran(list)
  local until_ = core.clock() + 20
  repeat
    local least = math.huge
    for _, row in ipairs(list.session:workers()) do
      least = math.min(least, row.steps)
    end
    if least >= 2 then return true end
    core.pause(0.05)
  until core.clock() > until_
  return false
end

-- build(on) -> list of tensors: what they give with on(0, ..) and on(1, ..) on
-- two workers has the bits of one device.
local function same(build)
  local list <close> = two()
  td.seed(7)
  local got = bits(list.session, build(there))
  lu.assertTrue(ran(list), "both workers ran steps")
  td.reset()
  td.seed(7)
  local sess <close> = td.session()
  local want = bits(sess, build(here))
  lu.assertEquals(#got, #want)
  for i = 1, #got do lu.assertTrue(got[i] == want[i], "value " .. i) end
end

-- ---- the same bits ---------------------------------------------------------

function tests.a_deep_lstm()
  same(function(on)
    local cells = {}
    for d = 1, 4 do
      cells[d] = td.nn.lstm_cell(5)
      if on == there then
        cells[d] = td.nn.device_wrapper(cells[d], WHERE .. (d - 1) // 2)
      end
    end
    local cell = td.nn.multi_cell(cells)
    local x = td.constant(td.value.random_normal{3, 9, 5})
    local y = td.nn.dynamic_rnn(cell, x, {sequence_length = {9, 2, 6}})
    return {y, table.unpack(td.gradients(y:square():sum(), cell.variables))}
  end)
end

function tests.a_loop_and_its_gradient()
  same(function(on)
    local x = td.constant(td.value.random_normal{4, 4})
    local a = on(0, function() return td.variable(x * 0.3, "a") end)
    local b = on(1, function() return td.variable(x * 0.2, "b") end)
    local _, y = td.while_loop(function(i) return i:less(12) end,
      function(i, s)
        local h = on(0, function() return td.tanh(s:matmul(a)) end)
        return i + 1, on(1, function() return td.sin(h:matmul(b)) + s end)
      end, {0, td.ones{4, 4}}, {parallel_iterations = 4})
    return {y, table.unpack(td.gradients(y:sum(), {a, b}))}
  end)
end

-- The inner loop is on the other worker, and turns as often as the outer says.
function tests.nested_loops()
  same(function(on)
    local w = on(1, function() return td.variable(td.fill({3}, 0.5), "w") end)
    local _, y = td.while_loop(function(i) return i:less(5) end,
      function(i, s)
        local _, inner = on(1, function()
          return td.while_loop(function(j) return j:less_equal(i) end,
            function(j, t)
              return j + 1, on(0, function() return t * 1.25 end) + w
            end, {0, s})
        end)
        return i + 1, on(0, function() return inner * 0.5 end)
      end, {0, td.constant{1.0, 2.0, 3.0}})
    return {y, td.gradients(y:sum(), w)}
  end)
end

-- Each side has a value that is dead when the other branch is taken.
function tests.branches()
  same(function(on)
    local v = on(0, function() return td.variable(td.fill({3}, 1.5), "v") end)
    local u = on(1, function() return td.variable(td.fill({3}, 0.5), "u") end)
    local _, y = td.while_loop(function(i) return i:less(9) end,
      function(i, s)
        local even = td.mod(i, 2):equal(0)
        s = td.cond(even,
          function()
            local h = on(0, function() return td.sin(s * v) end)
            return on(1, function() return h + u end)
          end,
          function()
            local h = on(1, function() return td.cos(s * u) end)
            return on(0, function() return h * v end)
          end)
        local third = td.mod(i, 3):equal(0)
        return i + 1, td.cond(third,
          function() return on(1, function() return s * 2 end) end,
          function() return s end)
      end, {0, td.constant{1.0, 2.0, 3.0}})
    return {y, table.unpack(td.gradients(y:sum(), {v, u}))}
  end)
end

function tests.tensor_arrays()
  same(function(on)
    local x = td.constant(td.value.random_normal{8, 3})
    local w = on(0, function() return td.variable(td.fill({3}, 0.7), "w") end)
    local from = on(0, function()
      return td.tensor_array("float32", 8, {element_shape = {3}}):unstack(x)
    end)
    local to = on(1, function()
      return td.tensor_array("float32", 8, {element_shape = {3}})
    end)
    local _, array = td.while_loop(function(i) return i:less(8) end,
      function(i, a)
        local y = on(0, function() return td.tanh(from:read(i) * w) end)
        return i + 1, on(1, function() return a:write(7 - i, y * y) end)
      end, {0, to})
    local y = array:stack()
    return {y, table.unpack(td.gradients(y:sum(), {w, x}))}
  end)
end

function tests.folds_and_scans()
  same(function(on)
    local x = td.constant(td.value.random_normal{6, 3})
    local function step(a, e)
      local h = on(0, function() return td.tanh(a + e) end)
      return on(1, function() return h * 1.5 end)
    end
    local y = td.scan(step, x, td.ones{3})
    local z = td.foldl(step, x, td.ones{3})
    return {y, z, td.gradients(y:sum() + z:sum(), x)}
  end)
end

-- A function whose body is on both workers, called in a loop that is on both.
function tests.functions()
  same(function(on)
    local layer = td.func(function(x, w)
      local h = on(0, function() return td.tanh(x * w) end)
      return on(1, function() return td.sin(h + w) * x end)
    end, {"float32", "float32"}, {name = "layer"})
    local w = on(1, function() return td.variable(td.fill({4}, 0.6), "w") end)
    local x = td.constant(td.value.random_normal{4})
    local _, y = td.while_loop(function(i) return i:less(6) end,
      function(i, s) return i + 1, layer(s, w) + x end, {0, x})
    local z = layer(x, w)
    return {y, z, table.unpack(td.gradients(y:sum() + z:sum(), {w, x}))}
  end)
end

-- ---- in parallel -----------------------------------------------------------

-- Iterations 2k are on one worker, 2k + 1 on the other. Each tells the other
-- worker that it is there, and waits until it is told so: one after the other
-- they would wait for ever.
local function map_that_meets()
  local told = {}
  for n = 0, 1 do
    told[n] = there(n, function() return td.fifo_queue(-1, "float32", {}) end)
  end
  local function part(n, x)
    return there(n, function()
      local tell = told[1 - n]:enqueue(x * 0)
      local wait = td.control_dependencies({tell}, function()
        return told[n]:dequeue()
      end)
      return (x + 1) * (n + 2) + wait
    end)
  end
  return function(x)
    return td.cond(td.mod(x, 2):equal(0), function() return part(0, x) end,
                   function() return part(1, x) end)
  end
end

function tests.map_fn_in_parallel()
  local list <close> = two()
  local want = {}
  local y = td.map_fn(map_that_meets(), td.range(40):cast "float32",
                      {parallel_iterations = 2})
  for i = 0, 39 do want[i + 1] = (i + 1) * (i % 2 + 2) end
  for _ = 1, 5 do
    helper.gives(want, list.session:run(y, nil, {timeout = 60}))
  end
end

-- With one iteration at a time nobody is met: the test above sees what it says.
function tests.map_fn_one_by_one()
  local list <close> = two()
  local y = td.map_fn(map_that_meets(), td.range(4):cast "float32",
                      {parallel_iterations = 1})
  helper.raises("within", list.session.run, list.session, y, nil,
                {timeout = 0.5})
end

return tests
