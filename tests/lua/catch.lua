-- catch.lua - pcall, xpcall and coroutines, which tide replaces, do as Lua's.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"

local tests = {}

local function both(...) return ... end

local function deep() return deep() + 1 end

-- What is called with its arguments, and all it returns; a function is given
-- the message.
local overflows = function(e) return e:find "stack overflow" ~= nil end
local cases = {
  {{pcall, both}, {true}},
  {{pcall, both, 1, nil, 3}, {true, 1, nil, 3, n = 4}},
  {{pcall, error}, {false, nil, n = 2}},
  {{pcall, error, "x", 0}, {false, "x"}},
  {{pcall, pcall, error, "x", 0}, {true, false, "x"}},
  {{pcall, pcall}, {false, "bad argument #1 to 'pcall' (value expected)"}},
  {{pcall, 5}, {false, "attempt to call a number value"}},
  {{pcall, deep}, {false, overflows}},
  {{xpcall, both, error, 1, nil, 3}, {true, 1, nil, 3, n = 4}},
  {{xpcall, error, function(e) return e .. "!" end, "x", 0}, {false, "x!"}},
  {{xpcall, error, function() return 1, 2 end}, {false, 1}},
  {{xpcall, error, function() end}, {false, nil, n = 2}},
  {{xpcall, error, error, "x", 0}, {false, "error in error handling"}},
  {{xpcall, deep, debug.traceback}, {false, overflows}},
  {{pcall, xpcall, both}, {false,
    "bad argument #2 to 'xpcall' (function expected, got no value)"}},
  {{coroutine.resume, coroutine.create(both), 1, nil, n = 4},
   {true, 1, nil, n = 3}},
  {{coroutine.resume, coroutine.create(error), "x", 0}, {false, "x"}},
  {{coroutine.close, coroutine.create(both)}, {true}},
  {{pcall, coroutine.wrap(error), {}, 0}, {false, function(e)
    return type(e) == "table"
  end}},
}

function tests.test_results()
  for i, case in ipairs(cases) do
    local call, want = case[1], case[2]
    local got = table.pack(call[1](table.unpack(call, 2, call.n or #call)))
    lu.assertEquals(got.n, want.n or #want, "case " .. i)
    for k = 1, got.n do
      if type(want[k]) == "function" then
        lu.assertTrue(want[k](got[k]), got[k])
      else
        lu.assertEquals(got[k], want[k], "case " .. i)
      end
    end
  end
end

--- A coroutine may yield inside, and go on or fail after.
function tests.test_yields_inside()
  local co = coroutine.wrap(function()
    local got = {pcall(function(a)
      local b = coroutine.yield(a + 1)
      local ok, e = xpcall(function()
        error(coroutine.yield(b + 1), 0)
      end, function(e) return "handled " .. e end)
      coroutine.yield(ok, e)
      error("out", 0)
    end, 1)}
    return table.unpack(got)
  end)
  lu.assertEquals(co(), 2)
  lu.assertEquals(co(10), 11)
  lu.assertEquals({co("x")}, {false, "handled x"})
  lu.assertEquals({co()}, {false, "out"})
end

--- Variables are closed on the way, with the error; in order.
function tests.test_closes()
  local log = {}
  local function closing(name)
    return setmetatable({}, {__close = function(_, e)
      log[#log + 1] = name .. tostring(e)
    end})
  end
  local function body()
    local _ <close> = closing "a"
    local _ <close> = closing "b"
    error("!", 0)
  end
  lu.assertEquals({pcall(body)}, {false, "!"})
  lu.assertEquals({pcall(coroutine.wrap(body))}, {false, "!"})
  local co = coroutine.create(function()
    local _ <close> = closing "c"
    coroutine.yield()
  end)
  coroutine.resume(co)
  coroutine.close(co)
  lu.assertEquals(log, {"b!", "a!", "b!", "a!", "cnil"})
end

return tests
