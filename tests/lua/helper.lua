-- helper.lua - what several test files say often.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"

local helper = {}

-- Seconds until a state is there, on a machine that others use, too.
local PATIENCE = 60

-- What f() gives once that is true; what it gives then, after PATIENCE.
function helper.eventually(f)
  local last = core.clock() + PATIENCE
  local is = f()
  while not is and core.clock() < last do
    core.pause(0.02)
    is = f()
  end
  return is
end

-- Seconds that are promised: held to it in make soak, where the machine is the
-- test's.
function helper.in_time(seconds)
  return os.getenv "TIDE_SOAK" and seconds or PATIENCE
end

-- f(...) must raise an error whose text holds `text` (no pattern).
function helper.raises(text, f, ...)
  local ok, e = pcall(f, ...)
  lu.assertFalse(ok, "no error; expected " .. text)
  lu.assertStrContains(tostring(e), text)
  return e
end

-- A text must hold each of the parts (no patterns).
function helper.contains(text, ...)
  for _, part in ipairs{...} do lu.assertStrContains(text, part) end
end

-- A text without its colours.
function helper.bare(text) return (text:gsub("\27%[[%d;]*m", "")) end

-- A test of rows {what the error must say, the call}, each in a graph of its
-- own.
function helper.each(rows)
  return function()
    for _, row in ipairs(rows) do
      td.reset()
      helper.raises(row[1], row[2])
    end
  end
end

-- Equal to a table or number, within 1e-5.
function helper.gives(want, x, what)
  local ok, e = pcall(td.test.close, x, want, {atol = 1e-5})
  lu.assertTrue(ok, (what and what .. ": " or "") .. tostring(e))
end

return helper
