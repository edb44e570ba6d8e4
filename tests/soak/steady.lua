-- steady.lua - what is done over and over holds no more memory after a while:
-- steps, sessions opened and closed, graphs imported.
--
-- Memory of the process after the first third and at the end. TIDE_SOAK: a
-- million steps, 10^5 sessions, 10^4 imports.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local soak = os.getenv "TIDE_SOAK"
local SLACK = 4 << 10 -- KiB: what lists of free blocks may come to

local function resident()
  collectgarbage()
  collectgarbage()
  for line in io.lines "/proc/self/status" do
    local k = line:match "^VmRSS:%s*(%d+)"
    if k then return tonumber(k) end
  end
end

local function net()
  local x = td.placeholder("float32", {4, 8}, "x")
  local w = td.variable(td.value.ones{8, 8}, "w")
  local n, y = td.while_loop(function(i) return i:less(3) end,
    function(i, y) return i + 1, td.tanh(y:matmul(w)) end, {td.constant(0), x})
  return x, w, td.tanh(y):sum() + n:cast "float32"
end

local one = td.value.ones{4, 8}

local function steps()
  td.reset()
  local x, w, y = net()
  local sess = td.session()
  sess:init()
  local step = sess:callable({y, w:assign_add(td.value.zeros{8, 8}).op}, {x})
  return function() step(one) end
end

local function sessions()
  td.reset()
  local x, _, y = net()
  return function()
    local sess = td.session()
    sess:init()
    sess:run(y, {[x] = one})
    sess:close()
  end
end

local function imports()
  td.reset()
  net()
  local bytes = td.get_default_graph():save_bytes()
  return function()
    td.graph():import_bytes(bytes, "again", {}, {})
  end
end

local failed = 0
for _, row in ipairs{{"steps", steps, 30000, 1000000},
                     {"sessions", sessions, 600, 100000},
                     {"imports", imports, 3000, 10000}} do
  local name, make, few, many = table.unpack(row)
  local n, f = soak and many or few, make()
  local function run(first, last)
    for i = first, last do
      f()
      if i % 100 == 0 then collectgarbage() end -- what Lua holds is not meant
    end
  end
  run(1, n // 3)
  local before = resident()
  run(n // 3 + 1, n)
  local after = resident()
  local flat = after - before <= SLACK
  print(("%d %s: %d KiB after a third, %d KiB at the end%s"):format(n, name,
    before, after, flat and "" or ": NOT FLAT"))
  failed = failed + (flat and 0 or 1)
end
print(("%d passed, %d failed, 0 skipped"):format(3 - failed, failed))
os.exit(failed == 0)
