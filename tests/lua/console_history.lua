-- console_history.lua - service "history": kinds, sessions, a file that several
-- write and that was cut short.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local lines = require "tide.frontend.lines"
local history = require "tide.services.history"
local notebook = require "shared.notebook"

local tests = {}

local function folder()
  local path = os.tmpname()
  os.remove(path)
  return path
end

local function remove(dir)
  for _, name in ipairs{"history", "history.lock"} do
    os.remove(dir .. "/" .. name)
  end
  os.remove(dir)
end

-- Inputs (and outputs) of a reply as "session/line input".
local function listed(reply)
  local out = {}
  for i, e in ipairs(reply.history) do
    local text = e[3]
    if type(text) == "table" then
      text = text[1] .. " => " .. tostring(text[2])
    end
    out[i] = ("%d/%d %s"):format(e[1], e[2], text)
  end
  return out
end

-- A new session of the first line, as a kernel's start is.
local function restart(path)
  local line = lines.current()
  line.session, line.count = nil, 0
  history.use(path)
end

local function fill(nb, path)
  restart(path)
  for _, code in ipairs{"a = 1", "a", "b = 'é'", "a"} do nb:run(code) end
  restart(path)
  for _, code in ipairs{"c = [[\n*?]]", "a + 1", "a"} do nb:run(code) end
end

-- A request, and what it gives.
local requests = {
  {{hist_access_type = "tail", n = 3},
   {"2/1 c = [[\n*?]]", "2/2 a + 1", "2/3 a"}},
  {{hist_access_type = "tail", n = 2, output = true},
   {"2/2 a + 1 => 2", "2/3 a => 1"}},
  {{hist_access_type = "tail", n = 1, raw = false}, {"2/3 a"}},
  {{hist_access_type = "tail", n = 0}, {}},
  {{hist_access_type = "range", session = 1, start = 2, stop = 4},
   {"1/2 a", "1/3 b = 'é'"}},
  {{hist_access_type = "range", session = 0, start = 1},
   {"2/1 c = [[\n*?]]", "2/2 a + 1", "2/3 a"}},
  {{hist_access_type = "range", session = -1, start = 1, stop = 2,
    output = true}, {"1/1 a = 1 => null"}},
  {{hist_access_type = "range", session = 9}, {}},
  {{hist_access_type = "search", pattern = "a"}, {"1/2 a", "1/4 a", "2/3 a"}},
  {{hist_access_type = "search", pattern = "a", n = 2}, {"1/4 a", "2/3 a"}},
  {{hist_access_type = "search", pattern = "a", unique = true}, {"2/3 a"}},
  {{hist_access_type = "search", pattern = "?"}, {"1/2 a", "1/4 a", "2/3 a"}},
  {{hist_access_type = "search", pattern = "*1"}, {"1/1 a = 1", "2/2 a + 1"}},
  {{hist_access_type = "search", pattern = "b = '?'"}, {"1/3 b = 'é'"}},
  {{hist_access_type = "search", pattern = "a?*1"}, {"1/1 a = 1", "2/2 a + 1"}},
  {{hist_access_type = "search", pattern = "*\n*"}, {"2/1 c = [[\n*?]]"}},
  {{hist_access_type = "search", pattern = "A"}, {}},
  {{hist_access_type = "search", pattern = "*[*", unique = true, n = 5},
   {"2/1 c = [[\n*?]]"}},
  {{hist_access_type = "search", pattern = ""}, {}},
}

local function check(nb)
  for i, row in ipairs(requests) do
    local reply = nb:call("history", row[1])
    lu.assertEquals(reply.status, "ok")
    lu.assertEquals(listed(reply), row[2], "row " .. i)
  end
end

-- A tail in pieces, as the prompt asks for it, is the whole.
local function check_pieces(nb)
  local whole = listed(nb:call("history", {hist_access_type = "tail"}))
  for n = 1, #whole + 1 do
    local before, got = 1 << 30, {}
    while before > 0 do
      local reply = nb:call("history", {hist_access_type = "tail", n = n,
                                        before = before})
      table.move(got, 1, #got, #reply.history + 1)
      table.move(listed(reply), 1, #reply.history, 1, got)
      lu.assertTrue(reply.before < before)
      before = reply.before
    end
    lu.assertEquals(got, whole, "pieces of " .. n)
  end
end

function tests.on_disk()
  local nb <close> = notebook.open()
  local dir = folder()
  fill(nb, dir .. "/history")
  check(nb)
  check_pieces(nb)
  remove(dir)
end

function tests.in_memory()
  local nb <close> = notebook.open()
  restart(nil)
  for _, code in ipairs{"a", "b", "a"} do nb:run(code) end
  local reply = nb:call("history", {hist_access_type = "search",
                                    pattern = "a", unique = true})
  lu.assertEquals(listed(reply), {"1/3 a"})
end

-- Where nothing can be written, it stays in memory and cells run on.
function tests.a_folder_that_cannot_be()
  local nb <close> = notebook.open()
  restart("/dev/null/history")
  lu.assertEquals(nb:run("1").status, "ok")
  lu.assertEquals(nb:run("2").status, "ok")
  lu.assertEquals(listed(nb:call("history", {hist_access_type = "tail",
                                             n = 9})), {"1/1 1", "1/2 2"})
end

-- A record cut short by a crash, garbage, empty lines: passed over, and the
-- next record stands on a line of its own.
function tests.torn_records()
  local nb <close> = notebook.open()
  local dir = folder()
  local path = dir .. "/history"
  fill(nb, path)
  for _, torn in ipairs{'{"i": "lost', "", "\n\n", "garbage\n", "[1, 2]\n",
                        '{"s": 1, "n": 1, "i": 3}\n', '{"s": "x"}\n',
                        "\0\0\0", '{"s": 1, "n": 99, "i": "late'} do
    local file <close> = assert(io.open(path, "ab"))
    file:write(torn)
    file:close()
    restart(path)
    nb:run "after"
    local reply = nb:call("history", {hist_access_type = "tail", n = 1})
    lu.assertStrContains(listed(reply)[1], "/1 after")
  end
  local reply = nb:call("history", {hist_access_type = "tail", n = 100})
  lu.assertEquals(#reply.history, 7 + 9)
  lu.assertEquals(reply.history[16][1], 11) -- sessions are numbered on
  remove(dir)
end

-- Four processes write at once: every record is whole and there.
function tests.several_writers()
  local dir = folder()
  local path = dir .. "/history"
  local code = ([[
    local history = require "tide.services.history"
    history.use %q
    local line = {name = "", count = 0}
    for i = 1, 50 do history.add(line, i, ("x"):rep(i * 20) .. arg[1]) end
  ]]):format(path)
  local pipes = {}
  local binary = io.popen("readlink /proc/$PPID/exe"):read()
  for i = 1, 4 do
    pipes[i] = assert(io.popen(("%s -e '%s' %d 2>&1"):format(binary, code, i)))
  end
  for _, p in ipairs(pipes) do
    lu.assertEquals(p:read "a", "")
    p:close()
  end
  local nb <close> = notebook.open()
  restart(path)
  local seen, sessions = {}, {}
  local reply = nb:call("history", {hist_access_type = "tail", n = 1000})
  lu.assertEquals(#reply.history, 200)
  for _, e in ipairs(reply.history) do
    seen[e[3]] = true
    sessions[e[1]] = (sessions[e[1]] or 0) + 1
  end
  local n = 0
  for _ in pairs(seen) do n = n + 1 end
  lu.assertEquals(n, 200)
  lu.assertEquals(sessions, {50, 50, 50, 50})
  remove(dir)
end

-- The file stays bounded, and its newest half.
function tests.a_bounded_file()
  local dir = folder()
  local path = dir .. "/history"
  history.use(path)
  local line = {name = "", count = 0}
  for i = 1, 60 do history.add(line, i, ("x"):rep(100000) .. i) end
  lu.assertTrue(#core.read_file(path) <= 5 << 20)
  local reply = history.history({hist_access_type = "tail", n = 1000}, line)
  lu.assertTrue(#reply.history >= 20 and #reply.history < 60)
  lu.assertStrContains(reply.history[#reply.history][3], "x60")
  history.use(nil)
  remove(dir)
end

-- Many stars do not take for ever.
function tests.a_glob_of_stars()
  local nb <close> = notebook.open()
  restart(nil)
  nb:run("-- " .. ("a"):rep(5000))
  local reply = nb:call("history", {hist_access_type = "search",
                                    pattern = ("*a"):rep(40) .. "b"})
  lu.assertEquals(reply.history[1], nil)
end

return tests
