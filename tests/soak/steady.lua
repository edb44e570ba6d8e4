-- steady.lua - what is done over and over holds no more after a while: steps,
-- steps fed by files and queues, steps that are saved, sessions opened and
-- closed, graphs imported.
--
-- Memory, threads and open files of the process after the first third and at
-- the end. TIDE_SOAK: a million steps, of input and saved ones as well, 10^5
-- sessions, 10^4 imports.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"

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

local function threads()
  for line in io.lines "/proc/self/status" do
    local n = line:match "^Threads:%s*(%d+)"
    if n then return tonumber(n) end
  end
end

local function open_files()
  local _, n = core.list("/proc/self/fd"):gsub("\0", "")
  return n
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

-- A record of a file goes through a pipeline into a queue and out of it.
local function input()
  td.reset()
  local path = os.tmpname()
  do
    local w <close> = td.record_writer(path)
    for i = 1, 300 do w:write(tostring(i)) end
  end
  local e = td.data.records(path):shuffle(32):map(function(e)
    return {x = td.string_to_number(e.record), key = e.key}
  end):batch(3):repeat_():next()
  local q = td.padding_fifo_queue(4, {"float32", "string"}, {{-1}, {-1}})
  local sess = td.session()
  local put = sess:callable(q:enqueue(e.x, e.key), {})
  local get = sess:callable(q:dequeue(), {})
  return function()
    put()
    get()
  end
end

-- A checkpoint every thousand steps, of which three stay.
local function saves()
  td.reset()
  local x, w, y = net()
  local sess = td.session()
  sess:init()
  local step = sess:callable({y, w:assign_add(td.value.zeros{8, 8}).op}, {x})
  local saver, dir, n = td.train.saver{max_to_keep = 3}, os.tmpname(), 0
  os.remove(dir)
  return function()
    step(one)
    n = n + 1
    if n % 1000 == 0 then
      saver:save(sess, dir .. "/model", {global_step = n})
    end
  end, function()
    local _, files = core.list(dir):gsub("\0", "")
    os.execute("rm -r '" .. dir .. "'")
    return files == 7 -- three of two files, and the file that lists them
  end
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

-- What is done, how often, and under TIDE_SOAK. It is made by a function that
-- gives it, and what is called at the end: is all as it should be?
local rows = {{"steps", steps, 30000, 1000000},
              {"steps of input", input, 6000, 1000000},
              {"steps, saved", saves, 60000, 1000000},
              {"sessions", sessions, 600, 100000},
              {"imports", imports, 3000, 10000}}
local failed = 0
for _, row in ipairs(rows) do
  local name, make, few, many = table.unpack(row)
  local n, f, finish = soak and many or few, make()
  local function run(first, last)
    for i = first, last do
      f()
      if i % 100 == 0 then collectgarbage() end -- what Lua holds is not meant
    end
  end
  run(1, n // 3)
  local before, busy, files = resident(), threads(), open_files()
  run(n // 3 + 1, n)
  local after = resident()
  local flat = after - before <= SLACK and threads() <= busy + 1
    and open_files() <= files + 1 -- an I/O thread, or its file, comes and goes
  if finish and not finish() then flat = false end
  print(("%d %s: %d KiB after a third, %d KiB at the end; %d threads, %d "
    .. "files%s"):format(n, name, before, after, threads(), open_files(),
            flat and "" or ": NOT FLAT"))
  failed = failed + (flat and 0 or 1)
end
print(("%d passed, %d failed, 0 skipped"):format(#rows - failed, failed))
os.exit(failed == 0)
