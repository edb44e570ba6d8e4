--- remote/bench.lua - what the ways of values between processes are worth.
--
-- For each way left out two workers of this machine run the same step, all of
-- them in turn, so that what else the machine does hits all alike. The step
-- sends from one to the other 64 values of 1 KiB, one of 4 MiB that four nodes
-- take, eight such that are needed one after the other, and one that asks for
-- 16 bits.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"
local errors = require "tide.base.errors"
local pipe = require "tide.jupyter.pipe"

local bench = {}

local N = 1 << 20 -- floats of what is large
local SMALL, LATER = 64, 8
local WARM = 2 -- steps that do not count

-- off: words of TIDE_REMOTE_OFF; passes: left out of the plan; compress: of
-- the session. `name`: what is left out, or added.
local HOSTS = {
  {title = "one host: ipc, shared memory", listen = "ipc://%s/w%d", off = {},
   {name = "all as it is"},
   {name = "shared memory", off = {"shm"}},
   {name = "riding along", off = {"eager"}},
   {name = "waiting until wanted", off = {"wanted"}},
   {name = "one Recv a device", passes = {"one_recv"}},
   {name = "16 bits where marked", off = {"narrow"}}},
  {title = "as between hosts: tcp, CURVE", listen = "tcp://127.0.0.1:0",
   off = {"shm"},
   {name = "all as it is"},
   {name = "riding along", off = {"eager"}},
   {name = "waiting until wanted", off = {"wanted"}},
   {name = "one Recv a device", passes = {"one_recv"}},
   {name = "16 bits where marked", off = {"narrow"}},
   {name = "16 bits on slow links", compress = 1e9, adds = true}},
}

-- ---- workers ---------------------------------------------------------------

local function folder()
  local path = pipe.read{"mktemp", "-d", "/tmp/tide-bench-XXXXXX"}
  if not path then errors.raise("unavailable", "no folder in /tmp") end
  return (path:gsub("\n", ""))
end

-- A worker of task n that leaves nothing in the user's folders.
local function start(place, listen, off, n)
  local words = {"env", "TIDE_REMOTE_OFF=" .. table.concat(off, ","),
                 "XDG_CONFIG_HOME=" .. place, "XDG_RUNTIME_DIR=" .. place,
                 core.executable(), "worker", "--job", "worker", "--task",
                 tostring(n), "--listen", listen}
  for i, word in ipairs(words) do words[i] = pipe.quote(word) end
  local w = {pipe = assert(io.popen("echo $$; exec "
    .. table.concat(words, " ")))}
  w.pid = w.pipe:read "n"
  w.pipe:read()
  local line = w.pipe:read()
  w.address = line and line:match "listens on (%S+)$"
  if not w.address then
    errors.raise("unavailable", "a worker did not start: %s", line or "?")
  end
  if w.address:find "^tcp" then
    w.key = w.pipe:read():match "^public key (.*)$"
  end
  return w
end

local function stop(list)
  for _, w in ipairs(list) do os.execute("kill " .. math.tointeger(w.pid)) end
  for _, w in ipairs(list) do w.pipe:close() end
end

-- ---- the step --------------------------------------------------------------

local function on(n, f) return td.device("/job:worker/task:" .. n, f) end

-- What goes from task 0.
local function senders()
  local many = td.unstack(td.variable(td.ones{SMALL, 256}, "many"))
  local big, out = td.variable(td.ones{N}, "big"), {small = {}, later = {}}
  for i, x in ipairs(many) do out.small[i] = x * 2 end
  for i = 1, LATER do out.later[i] = big * i end
  out.shared, out.marked = big + 1, td.on_wire(big + 2)
  return out
end

-- What task 1 makes of it: a number.
local function receiver(x)
  local y, late = td.add_n(x.small):sum() + x.marked:sum(), x.shared
  for _, fold in ipairs{td.sum, td.max, td.min, td.mean} do
    y = y + fold(x.shared)
  end
  for i = 1, LATER do late = td.tanh(late) + x.later[i] end
  return y + late:sum()
end

-- A graph of its own, and what is fetched of it.
local function build()
  local g, y = td.graph(), nil
  g:as_default(function()
    y = on(1, function() return receiver(on(0, senders)) end)
  end)
  return g, y
end

-- ---- running ---------------------------------------------------------------

local function sum(sess, key)
  local all = 0
  for _, numbers in pairs(td.traffic(sess)) do all = all + numbers[key] end
  return all
end

local function joined(a, b)
  local out = table.move(a, 1, #a, 1, {})
  return table.move(b or {}, 1, b and #b or 0, #out + 1, out)
end

-- A way with its workers and its session.
local function open(host, way, place, all)
  local g, y = build()
  local run = {way = way, took = {}}
  local mine = {}
  for n = 0, 1 do
    mine[n + 1] = start(place, host.listen:format(place, #all),
                        joined(host.off, way.off), n)
    all[#all + 1] = mine[n + 1]
  end
  run.session = td.session{graph = g, passes_off = way.passes,
                           compress = way.compress}
  for _, w in ipairs(mine) do
    run.session:attach(w.address, w.key and {key = w.key})
  end
  run.session:init()
  run.step = run.session:callable(y, {})
  for _ = 1, WARM do run.step() end
  run.bytes = sum(run.session, "sent_bytes")
  run.messages = sum(run.session, "sent_messages")
  return run
end

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

-- What it was: seconds, bytes and messages of a step, the most that tensors
-- took in both workers.
local function close(run, steps)
  local s = run.session
  local row = {way = run.way.name, adds = run.way.adds or false,
    seconds = median(run.took), memory = sum(s, "memory_peak"),
    bytes = (sum(s, "sent_bytes") - run.bytes) / steps,
    messages = (sum(s, "sent_messages") - run.messages) / steps}
  s:close()
  return row
end

local function measure(host, steps, place, all)
  local runs, rows = {}, {title = host.title}
  for i, way in ipairs(host) do runs[i] = open(host, way, place, all) end
  for k = 1, steps do
    for i = 1, #runs do
      local run = runs[(k + i) % #runs + 1]
      local begin = core.clock()
      run.step()
      run.took[#run.took + 1] = core.clock() - begin
    end
  end
  for i, run in ipairs(runs) do rows[i] = close(run, steps) end
  return rows
end

--- Runs it all.
-- @param o steps = of each way (20); host(rows): called with each table
-- @return two lists of rows {way = what was left out (adds: added), seconds,
-- bytes, messages = of a step, memory = bytes}, each with its title; the first
-- row of each has all
function bench.run(o)
  local out, place = {}, folder()
  for i, host in ipairs(HOSTS) do
    local all = {}
    local ok, rows = pcall(measure, host, o.steps, place, all)
    stop(all)
    if not ok then
      os.execute("rm -r " .. pipe.quote(place))
      error(rows, 0)
    end
    out[i] = rows
    o.host(rows)
  end
  os.execute("rm -r " .. pipe.quote(place))
  return out
end

return bench
