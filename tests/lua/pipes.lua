-- pipes.lua - reading what has no end: steps, readers and loops that wait for a
-- pipe are told what they read, end when they are cancelled, and leave nothing.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local ROUNDS = 20

-- A named pipe that is open for writing: its path, the end to write to, what
-- removes it.
local function pipe()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkfifo " .. path))
  local to = assert(io.open(path, "r+"))
  to:setvbuf "no"
  return path, to, setmetatable({}, {__close = function()
    if io.type(to) == "file" then to:close() end
    os.remove(path)
  end})
end

local function count(folder)
  local _, n = core.list(folder):gsub("%z", "")
  return n
end

local function descriptors()
  collectgarbage()
  return count "/proc/self/fd"
end

-- Until f() holds, for a second at most.
local function soon(f, what)
  for _ = 1, 100 do
    if f() then return end
    os.execute "sleep 0.01"
  end
  lu.assertTrue(f(), what)
end

-- What was opened since is closed, and no thread reads any more.
local function nothing_stays(before)
  soon(function() return descriptors() <= before end, "descriptors stay open")
end

local function why(s, text)
  soon(function() return s:why():find(text, 1, true) end, s:why())
end

function tests.steps_that_read_a_file()
  local path, to <const>, _ <close> = pipe()
  local s = td.session()
  local x = td.read_file(path)
  s:run(td.constant(1) + 1)
  local before, threads = descriptors(), nil
  for i = 1, ROUNDS do
    if i % 2 == 0 then
      raises("did not end within", s.run, s, x, nil, {timeout = 0.02})
    else
      local h = s:start(x)
      why(s, "a thread that reads '" .. path .. "'")
      h:cancel()
      lu.assertEquals(raises("", h.wait, h).code, "cancelled")
    end
    threads = threads or count "/proc/self/task"
    nothing_stays(before)
  end
  lu.assertTrue(count "/proc/self/task" <= threads + 1)
  local h = s:start(x)
  soon(function() return descriptors() > before end, "it is not opened")
  to:write "tide"
  to:close()
  lu.assertEquals(h:wait(), "tide")
end

-- Steps end one after the other, and what came is the next one's.
function tests.readers()
  local path, to <const>, _ <close> = pipe()
  local s = td.session()
  local q = td.fifo_queue(2, "string", {})
  local key, value = td.reader.text_lines():read(q)
  s:run(q:enqueue(path))
  to:write "one\ntw"
  lu.assertEquals(s:run(value), "one")
  local before = descriptors()
  for _ = 1, ROUNDS do
    raises("did not end within", s.run, s, value, nil, {timeout = 0.02})
  end
  local h = s:start{key, value}
  why(s, "which reads '" .. path .. "'")
  to:write "o\n"
  lu.assertEquals({h:wait()}, {path .. ":2", "two"})
  lu.assertTrue(descriptors() <= before + 1)
end

function tests.elements_in_a_graph()
  local path, to <const>, _ <close> = pipe()
  local s = td.session()
  local line = td.data.lines(path):next().line
  to:write "one\n"
  lu.assertEquals(s:run(line), "one")
  local before = descriptors()
  for _ = 1, ROUNDS do
    raises("did not end within", s.run, s, line, nil, {timeout = 0.02})
  end
  local h = s:start(line)
  why(s, "'" .. path .. "' is being read")
  to:write "two\nthree\n"
  lu.assertEquals(h:wait(), "two")
  lu.assertEquals(s:run(line), "three")
  lu.assertTrue(descriptors() <= before + 1)
end

-- Closed, or left to the collector, while the next line is waited for.
function tests.loops()
  local path, to <const>, _ <close> = pipe()
  local before = descriptors()
  for i = 1, ROUNDS do
    local it = td.data.lines(path):batches()
    to:write(i .. "\n")
    lu.assertEquals(it().line:item(), tostring(i))
    if i % 2 == 0 then it:close() end
    it = nil -- luacheck: ignore
    nothing_stays(before)
  end
end

-- What is there is given; the rest of an epoch that nobody wants is not waited
-- for.
function tests.first_lines()
  local path, to <const>, _ <close> = pipe()
  to:write "a\nb\nc\n"
  local list = {}
  for e in td.data.lines(path):take(2):batches() do
    list[#list + 1] = e.line:item()
  end
  lu.assertEquals(list, {"a", "b"})
end

function tests.tables()
  local path, to <const>, _ <close> = pipe()
  to:close()
  os.execute(("printf 'a,b\\n1,2\\n' >%s &"):format(path))
  local t, names = td.load_csv(path)
  lu.assertEquals(names, {"a", "b"})
  lu.assertEquals(t.b:table(), {2})
end

-- Arrays that a child writes into a pipe.
function tests.arrays()
  local saved <const> = os.tmpname()
  local function through_a_pipe(load)
    local path, to <const>, _ <close> = pipe()
    to:close()
    os.execute(("cat %s >%s &"):format(saved, path))
    return load(path)
  end
  local x = td.tensor{{1.0, 2.0}, {3.0, 4.0}}
  td.save_npy(saved, x)
  lu.assertEquals(through_a_pipe(td.load_npy):table(), x:table())
  td.save_npz(saved, {a = x, b = x + 1})
  lu.assertEquals(through_a_pipe(td.load_npz).b:table(), (x + 1):table())
  td.save_npy(saved, x)
  raises("archive", through_a_pipe, td.load_npz)
  os.remove(saved)
end

-- More wait than there are threads; what reads a file is none of them.
function tests.others_go_on()
  local path, _, _ <close> = pipe()
  local s = td.session()
  local x, other = td.read_file(path), td.read_file "/proc/self/comm"
  local list = {}
  for i = 1, ROUNDS do list[i] = s:start(x) end
  lu.assertStrContains(s:run(other), "tide")
  for _, h in ipairs(list) do h:cancel() end
  for _, h in ipairs(list) do
    lu.assertEquals(raises("", h.wait, h).code, "cancelled")
  end
end

return tests
