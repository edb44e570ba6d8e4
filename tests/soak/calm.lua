-- calm.lua - on a machine that has far too much to do nobody is taken for dead:
-- tide tests/soak/calm.lua MINUTES
--
-- Three workers, one over tcp, run steps that pass through all of them, short
-- and long ones, with pauses in which only heartbeats tell that they live. What
-- else keeps the processors busy, tests/soak/remote starts.
-- SPDX-License-Identifier: Apache-2.0

package.path = arg[0]:match "^(.*)/" .. "/../lua/?.lua;" .. package.path

local core = require "tide.core"
local td = require "tide"
local workers = require "shared.workers"

local last = core.clock() + 60 * assert(tonumber(arg[1]), "how many minutes?")
local list <close> = setmetatable({}, {__close = function(all)
  for _, w in ipairs(all) do w:stop() end
end})
for i = 1, 3 do
  list[i] = workers.start{task = i - 1,
                          listen = i == 3 and "tcp://127.0.0.1:0" or nil}
end

local sess <close> = td.session()
for _, w in ipairs(list) do sess:attach(w.address, {timeout = 60}) end

local function on(i, f) return td.device("/job:worker/task:" .. i, f) end

-- Through all of them; `long` adds work there.
local n = td.placeholder("int32", {})
local function way(work)
  local y = td.constant(1.0)
  for i = 0, 2 do
    y = on(i, function() return y + (work and work(i) or 1) end)
  end
  return y
end

local short = way()
local long = way(function()
  local m = td.fill({256, 256}, 1 / 256)
  local _, product = td.while_loop(function(k) return k:less(n) end,
    function(k, p) return k + 1, p:matmul(m) end, {0, m})
  return product:mean()
end)

local steps, looks, suspect, silent = 0, 0, 0, 0

local function look()
  for _, row in ipairs(sess:workers()) do
    looks = looks + 1
    silent = math.max(silent, row.heartbeat)
    if row.state == "suspect" then suspect = suspect + 1 end
    assert(row.state ~= "dead", row.error)
  end
end

local function run(y, want, feeds)
  local got = sess:run(y, feeds, {timeout = 300}) -- a hang says who waits
  assert(math.abs(got - want) < 1e-3, got)
  steps = steps + 1
  look()
end

for _, w in ipairs(sess:workers()) do assert(w.state == "up", w.state) end
for round = 1, math.huge do
  for _ = 1, 50 do
    run(short, 4)
    if core.clock() > last then break end
  end
  if round % 5 == 0 then run(long, 1 + 3 / 256, {[n] = 200}) end
  for _ = 1, round % 4 * 5 do
    core.pause(0.2)
    look()
  end
  if core.clock() > last then break end
end
sess:close()
print(("%d steps; %d looks, %d of them at a suspect; silent for %.1f s at most")
  :format(steps, looks, suspect, silent))
print "[  PASSED  ] 1 test"
