-- growth.lua - a graph that grows in a loop is noticed, once, and named; none
-- that grows otherwise is. In a notebook: console_growth.lua.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local errors = require "tide.base.errors"

local tests = {}

-- The warnings while f runs.
local function warnings(f)
  local list, warn = {}, errors.warn
  errors.warn = function(fmt, ...) list[#list + 1] = fmt:format(...) end
  local ok, e = pcall(f)
  errors.warn = warn
  if not ok then error(e, 0) end
  return list
end

local function here() return debug.getinfo(2, "l").currentline end

local function line(n) return ("growth.lua:%d"):format(n) end

function tests.named_once()
  local first
  local list = warnings(function()
    local x = td.placeholder("float32", {})
    local before = x + 5
    local sess <close> = td.session()
    for i = 1, 200 do
      first = here() + 1
      local y = x * 2
      local z = y + 1
      if i == 7 then before = before * 3 end
      lu.assertEquals(sess:run({z, before}, {[x] = i})[1], 2.0 * i + 1)
    end
  end)
  lu.assertEquals(#list, 1)
  lu.assertStrContains(list[1], "the graph grows in a loop: 32 times")
  local where = list[1]:match "each time by (.-); it has"
  lu.assertStrContains(where, line(first))
  lu.assertStrContains(where, line(first + 1))
  local _, commas = where:gsub(",", "")
  lu.assertEquals(commas, 1)
end

-- The step itself may be steady, and some steps may add nothing.
function tests.beside_callables_and_started_steps()
  for _, every in ipairs{1, 5} do
    local at
    local list = warnings(function()
      local x = td.placeholder("float32", {})
      local sess <close> = td.session()
      local f = sess:callable(x * 2, {x})
      for i = 1, 40 * every do
        at = here() + 1
        if i % every == 0 then td.constant(i) end
        if i % 2 == 0 then f(i) else sess:start(x, {[x] = i}):wait() end
      end
    end)
    lu.assertEquals(#list, 1)
    lu.assertStrContains(list[1], line(at))
  end
end

function tests.in_a_function_that_is_called_in_a_loop()
  local at
  local function loss(y)
    at = here() + 1
    return (y * y):mean()
  end
  local list = warnings(function()
    local v = td.variable(td.value.fill({3}, 1.0), "v")
    local sess <close> = td.session()
    sess:init()
    for _ = 1, 40 do loss(v):eval() end
  end)
  lu.assertEquals(#list, 1)
  lu.assertStrContains(list[1], line(at))
end

function tests.not_of_others()
  lu.assertEquals(warnings(function()
    local x = td.placeholder("float32", {})
    local sess <close> = td.session()
    local y = x
    for _ = 1, 100 do y = y + 1 end -- built before
    for i = 1, 100 do sess:run(y, {[x] = i}) end
    for i = 1, 20 do sess:run(y + i, {[x] = i}) end -- a few
    for i = 1, 20 do sess:run(y * i, {[x] = i}) end -- and others
    for i = 1, 100 do sess:run(y, {[x] = i}) end
    td.get_default_graph():finalize()
    for i = 1, 100 do sess:run(y, {[x] = i}) end
  end), {})
end

return tests
