-- functional.lua - While, If, Case and lists of tensors as TensorFlow 2 writes
-- them.
--
-- Each file of tests/golden/functional is a graph that TensorFlow made and ran
-- (tests/peers/functional.py); its answers are constants in it.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"

local dir = "tests/golden/functional/"
local tests = {}

local function has(g, name)
  return (pcall(g.op, g, name))
end

-- The nodes called what_0, what_1, ...
local function numbered(g, what)
  local list = {}
  while has(g, what .. "_" .. #list) do
    list[#list + 1] = what .. "_" .. #list .. ":0"
  end
  return list
end

local function feeds_of(s, g)
  local feeds = {}
  for i, name in ipairs(numbered(g, "arg")) do
    feeds[name] = s:run("feed_" .. i - 1 .. ":0")
  end
  return feeds
end

-- Equal, or as near as sums in another order are.
local function same(got, want, what)
  lu.assertEquals(got.dtype, want.dtype, what)
  lu.assertEquals(got.shape, want.shape, what)
  local a, b = got:reshape{-1}:table(), want:reshape{-1}:table()
  for i, x in ipairs(b) do
    if not got.dtype:find("^float") then
      lu.assertEquals(a[i], x, what)
    else
      lu.assertAlmostEquals(a[i], x, 1e-12 * math.max(1, math.abs(x)), what)
    end
  end
end

local function text(s, name)
  return s:run(name .. ":0")
end

local function check_refused(s, g, feeds)
  local got = numbered(g, "got")
  local ok, e = pcall(s.run, s, got, feeds)
  lu.assertFalse(ok)
  lu.assertEquals(e.code, text(s, "code"))
  lu.assertStrContains(e.message, text(s, "word"))
end

local function check(name)
  local g = td.graph()
  g:as_default(function() td.import_graph(dir .. name .. ".pb") end)
  local s <close> = td.session{graph = g}
  local feeds = feeds_of(s, g)
  if has(g, "code") then return check_refused(s, g, feeds) end
  local want = s:run(numbered(g, "want"))
  for round = 1, 2 do -- the second from the plan that is there
    local got = s:run(numbered(g, "got"), feeds)
    for i, x in ipairs(got) do
      same(td.tensor(x), td.tensor(want[i]), ("got_%d, run %d"):format(i - 1,
                                                                 round))
    end
  end
end

-- ---- gradients that Tide takes ---------------------------------------------

-- Sums of squares of what the graph gives, by the floats that it takes.
local function gradients_of(g)
  local ys, xs = {}, {}
  for _, name in ipairs(numbered(g, "got")) do
    local y = g:edge(name)
    if y.dtype:find("^float") then ys[#ys + 1] = (y * y):sum() end
  end
  for _, name in ipairs(numbered(g, "arg")) do
    local x = g:edge(name)
    if x.dtype:find("^float") then xs[#xs + 1] = x end
  end
  return td.gradients(ys, xs)
end

-- TensorFlow's are the last results of grad_NAME.
local function check_gradients(name)
  local g = td.graph()
  local function import(file)
    return g:as_default(function() td.import_graph(dir .. file .. ".pb") end)
  end
  import(name)
  local found = g:as_default(gradients_of, g)
  local s <close> = td.session{graph = g}
  local got = s:run(found, feeds_of(s, g))
  g = td.graph()
  import("grad_" .. name)
  local want = td.session{graph = g}:run(numbered(g, "want"))
  for i, x in ipairs(got) do
    same(td.tensor(x), td.tensor(want[#want - #got + i]), "gradient " .. i)
  end
end

-- A body that acts cannot be run again.
function tests.test_gradient_of_what_acts()
  local g = td.graph()
  g:as_default(function() td.import_graph(dir .. "state_product.pb") end)
  local ok, e = pcall(g.as_default, g, gradients_of, g)
  lu.assertFalse(ok)
  lu.assertEquals(e.code, "unimplemented")
  lu.assertStrContains(e.message, "has an effect or draws")
end

-- An element may have as many dimensions as there can be.
function tests.test_batch_of_highest_rank()
  local shape, of = {}, {element_dtype = "float32"}
  for i = 1, 16 do shape[i] = i == 2 and 3 or 1 end
  local g, any = td.graph(), nil
  local y = g:as_default(function()
    local x = td.reshape({1.0, 2.0, 3.0}, shape)
    any = td.placeholder("int32", {})
    local list = core.op "EmptyTensorList"(any, any, of)
    list = core.op "TensorListPushBackBatch"(list, x)
    return core.op "TensorListGetItem"(list, 0, shape, of)
  end)
  y = td.tensor(td.session{graph = g}:run(y, {[any] = -1}))
  lu.assertEquals(y.shape, shape)
  lu.assertEquals(y:reshape{-1}:table(), {1, 2, 3})
end

-- What was read is written as it was.
function tests.test_round_trip()
  local g = td.graph()
  g:as_default(function() td.import_graph(dir .. "if_loops.pb") end)
  local bytes = g:save_bytes()
  local path = os.tmpname()
  g:save(path)
  local again = td.graph()
  again:as_default(function() td.import_graph(path) end)
  os.remove(path)
  lu.assertEquals(again:save_bytes(), bytes)
  lu.assertEquals(again:op("while").type, "StatelessWhile")
end

-- ---- all files ------------------------------------------------------------

for name in io.popen("ls " .. dir):read("a"):gmatch("(%S+)%.pb") do
  tests["test_" .. name] = function() check(name) end
  local of = name:match("^grad_(%w+_%w+)$")
  if of then
    tests["test_own_grad_" .. of] = function() check_gradients(of) end
  end
end

return tests
