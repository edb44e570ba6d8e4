-- jobs.lua - signals that tell a job to go, and what is written of a run.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local facts = require "tide.script.run_facts"
local helper = require "helper"
local json = require "tide.base.json"
local redirect = require "tide.script.redirect"
local runs = require "tide.script.run_record"
local signals = require "tide.script.signals"

local raises = helper.raises
local tests = {}

local function send(name)
  os.execute(("kill -%s $PPID"):format(name))
end

-- ---- signals ---------------------------------------------------------------

function tests.signals()
  for _, name in ipairs{"TERM", "USR1"} do
    local heard = signals.open()
    lu.assertNil(heard:asked())
    send(name)
    lu.assertEquals(heard:asked(), "SIG" .. name)
    send "TERM"
    lu.assertEquals(heard:asked(), "SIG" .. name, "the first counts")
    lu.assertEquals(heard:close(), "SIG" .. name)
    lu.assertEquals(heard:close(), "SIG" .. name)
    lu.assertEquals(heard:asked(), "SIG" .. name)
  end
end

-- Several are open: each hears, and the handlers stay until the last is closed.
function tests.signals_counted()
  local one, two = signals.open(), signals.open()
  lu.assertNil(one:close())
  lu.assertNil(one:close())
  send "TERM"
  lu.assertEquals(two:asked(), "SIGTERM")
  lu.assertNil(one:asked())
  do
    local _ <close> = signals.open()
    send "TERM"
  end
  lu.assertEquals(two:close(), "SIGTERM")
  local fresh <close> = signals.open()
  lu.assertNil(fresh:asked(), "what came before is forgotten")
end

-- One that nobody closed is closed by the collector.
function tests.signals_forgotten()
  signals.open()
  collectgarbage()
  collectgarbage()
  local first <close> = signals.open()
  send "USR1"
  lu.assertEquals(first:asked(), "SIGUSR1")
end

-- A step that runs is not interrupted, nor is a wait for one.
function tests.signals_leave_steps_alone()
  local heard <close> = signals.open()
  local n = td.while_loop(function(i) return i:less(3000) end,
                          function(i) return i + 1 end, {0})
  local sess = td.session()
  os.execute "pid=$PPID; (sleep 0.02; kill -TERM $pid; kill -USR1 $pid) &"
  local steps = 0
  repeat
    lu.assertEquals(sess:run(n), 3000)
    steps = steps + 1
  until heard:asked() or steps == 1000
  lu.assertEquals(heard:asked(), "SIGTERM")
  lu.assertEquals(sess:run(n), 3000)
end

function tests.exit_codes()
  lu.assertEquals(signals.exit_code(), 0)
  raises("0 to 255", signals.exit_with, 256)
  raises("must be an integer", signals.exit_with, "1")
  signals.exit_with(0)
  lu.assertEquals(signals.AGAIN, 75)
end

-- ---- records ---------------------------------------------------------------

-- A test that gets a folder of its own, which is removed with its files.
local function in_folder(f)
  return function()
    local dir = core.temp_file()
    os.remove(dir)
    core.mkdirs(dir)
    local ok, e = xpcall(f, debug.traceback, dir)
    os.execute("rm -rf '" .. dir .. "'")
    if not ok then error(e, 0) end
  end
end

local function write(path, text)
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
end

local function read(dir)
  return json.decode(core.read_file(dir .. "/run.json"))
end

-- What f writes to stderr.
local function complaints(f)
  local was, parts = io.stderr, {}
  local function use(file) rawset(io, "stderr", file) end
  local _ <close> = setmetatable({}, {__close = function() use(was) end})
  use{write = function(_, ...) parts[#parts + 1] = table.concat{...} end}
  f()
  return table.concat(parts)
end

tests.record = in_folder(function(dir)
  dir = dir .. "/deep/er"
  td.seed(7)
  local run = runs.open(dir, {flags = {lr = 0.5, n = 3, name = "x", on = true}})
  local d = read(dir)
  lu.assertEquals({d.format, d.seed, d.restarts, d.step, d.reason, d.ended},
                  {1, 7, 0})
  lu.assertEquals(json.encode(d.flags),
                  '{"lr": 0.5, "n": 3, "name": "x", "on": true}')
  lu.assertEquals(d.process.pid, core.process().pid)
  lu.assertEquals(d.versions.tide, td.version)
  lu.assertEquals(d.script.sha256, facts.hash(d.script.path))
  lu.assertEquals(d.machine.threads, core.machine().threads)
  lu.assertEquals({d.cwd, d.program}, {core.cwd(), core.executable()})
  lu.assertStrMatches(d.created, "%d+%-%d%d%-%d%dT%d%d:%d%d:%d%dZ")
  lu.assertEquals(runs.state(dir, d), "running")
  lu.assertNil(run.before)
  lu.assertEquals(run:differences(), {})
  run:note{step = 4, metrics = {loss = 0.25, bad = 0 / 0, far = -1 / 0}}
  lu.assertNil(read(dir).step, "not yet")
  run:note{step = 5, now = true}
  lu.assertEquals(read(dir).step, 5)
  run:close()
  run:close "again"
  d = read(dir)
  lu.assertEquals({d.step, d.reason, runs.state(dir, d)}, {5, "done", "done"})
  lu.assertEquals(json.encode(d.metrics),
                  '{"bad": "nan", "far": "-inf", "loss": 0.25}')
  lu.assertTrue(d.seconds >= 0 and d.ended ~= nil)
  lu.assertFalse(core.exists(dir .. "/run.lock"))
  raises("is closed", run.note, run, {step = 6})
  lu.assertEquals(runs.read(dir).step, 5)
end)

tests.record_of_a_restart = in_folder(function(dir)
  local first = runs.open(dir, {flags = {lr = 1, n = 2}})
  first:note{step = 10, metrics = {loss = 1}}
  first:close "SIGTERM"
  lu.assertEquals(runs.state(dir, read(dir)), "stopped")
  local run = runs.open(dir, {flags = {lr = 2, n = 2}, seed = 9})
  local d = read(dir)
  lu.assertEquals({d.restarts, d.seed, d.step, d.reason}, {1, 9, 10})
  lu.assertEquals(d.created, first.data.created)
  local row = d.attempts[1]
  lu.assertEquals({row.reason, row.step, row.pid},
                  {"SIGTERM", 10, core.process().pid})
  lu.assertEquals(#run:differences(), 1)
  lu.assertEquals(run:differences()[1].text, "--lr was 1, is 2")
  run:close()
  d = runs.read(dir)
  for i = 1, 110 do d.attempts[i] = d.attempts[1] end
  write(dir .. "/run.json", json.encode(d))
  runs.open(dir, {flags = {}}):close()
  d = runs.read(dir)
  lu.assertEquals({#d.attempts, d.restarts}, {100, 2})
  local fresh <close> = runs.open(dir, {flags = {}, fresh = true})
  lu.assertEquals({fresh.data.restarts, #fresh.data.attempts}, {0, 0})
  lu.assertNotNil(fresh.before)
end)

tests.record_of_a_folder_in_use = in_folder(function(dir)
  local run = runs.open(dir)
  local e = raises("is in use by this process, since 20", runs.open, dir)
  lu.assertEquals(e.code, "failed_precondition")
  helper.contains(tostring(e), dir, "close what was opened there")
  lu.assertEquals(read(dir).process.pid, core.process().pid)
  run:note{step = 1, now = true}
  run:close()
  runs.open(dir):close()
  -- killed: the lock is gone, the file is there
  run = runs.open(dir)
  local text = core.read_file(dir .. "/run.json")
  run:close()
  write(dir .. "/run.json", text)
  write(dir .. "/run.lock", "")
  lu.assertEquals(runs.state(dir, read(dir)), "killed")
  run = runs.open(dir)
  lu.assertEquals(run.data.attempts[3].reason, "killed")
  run:close()
end)

-- As a notebook's cell does that runs again.
tests.record_forgotten = in_folder(function(dir)
  runs.open(dir)
  local run <close> = runs.open(dir)
  lu.assertEquals(run.data.attempts[1].reason, "killed")
end)

tests.record_closes_by_itself = in_folder(function(top)
  local n = 0
  local function reason_of(f)
    n = n + 1
    local dir = top .. "/" .. n
    pcall(function()
      local _ <close> = runs.open(dir)
      f()
    end)
    local d = read(dir)
    return d.reason, d.error
  end
  lu.assertEquals(reason_of(function() end), "done")
  local reason, why = reason_of(function() td.matmul(1, 2) end)
  lu.assertEquals(reason, "failed")
  lu.assertStrContains(why, "MatMul")
  lu.assertEquals(reason_of(function() error(("x"):rep(1e5)) end), "failed")
  lu.assertEquals(reason_of(function() error({}) end), "failed")
  lu.assertEquals(reason_of(function() core.error("cancelled", "interrupted")
    end), "interrupted")
end)

tests.record_refuses = in_folder(function(dir)
  raises("must be a string", runs.open, 3)
  raises("no option \"flag\"; did you mean \"flags\"?", runs.open, dir,
         {flag = {}})
  raises("flags must be a table", runs.open, dir, {flags = 3})
  raises("seed must be an integer", runs.open, dir, {seed = 1.5})
  raises("\"x\" must be a number, boolean or string, not table", runs.open,
         dir, {flags = {x = {}}})
  lu.assertFalse(core.exists(dir .. "/run.lock"), "nothing is kept")
  local run <close> = runs.open(dir)
  raises("step must be an integer", run.note, run, {step = 0.5})
  raises("no option \"steps\"", run.note, run, {steps = 1})
  raises("metrics: \"x\" must be", run.note, run, {metrics = {x = {}}})
  write(dir .. "/file", "")
  raises("Not a directory", runs.open, dir .. "/file/run")
end)

-- What cannot be written is said once, and training goes on.
tests.record_that_cannot_be_written = in_folder(function(dir)
  local run = runs.open(dir)
  os.remove(dir .. "/run.json")
  core.mkdirs(dir .. "/run.json/in_the_way")
  local said = complaints(function()
    run:note{step = 1, now = true}
    run:note{step = 2, now = true}
    run:close()
  end)
  helper.contains(said, "the record of the run is not up to date", dir)
  lu.assertEquals(select(2, said:gsub("not up to date", "")), 1)
  lu.assertFalse(core.exists(dir .. "/run.lock"))
end)

-- ---- records from outside --------------------------------------------------

local good = {format = 1, argv = {}, flags = {}, created = "c", started = "s",
              process = {host = "h", pid = 1}}

-- A good record with fields changed; false takes one away.
local function changed(t)
  local d = {}
  for k, v in pairs(good) do d[k] = v end
  for k, v in pairs(t) do
    if v == false then d[k] = nil else d[k] = v end
  end
  d.flags = d.flags and d.flags ~= 3 and json.object(d.flags) or d.flags
  return json.encode(d)
end

tests.hostile_records = in_folder(function(dir)
  local rows = {
    {"", "expected a value"}, {"{", "is no record of a run"},
    {"[]", "has no \"format\""}, {"[1]", "it is no object"},
    {"3", "it is no object"}, {"null", "has no \"format\""},
    {("["):rep(100000), "nested too deeply"},
    {('{"a":'):rep(100000), "nested too deeply"},
    {(" "):rep((1 << 20) + 1), "1048576"},
    {changed{format = 2}, "format is 2, this Tide knows 1"},
    {changed{format = 1.5}, "\"format\" must be an integer"},
    {changed{argv = false}, "has no \"argv\""},
    {changed{argv = {1}}, "\"argv\" must be a list of texts"},
    {changed{argv = {a = "b"}}, "\"argv\" must be a list of texts"},
    {changed{argv = "x"}, "\"argv\" must be"},
    {changed{flags = 3}, "\"flags\" must be an object"},
    {changed{flags = {x = {y = 1}}}, "\"flags\" must be an object"},
    {changed{seed = "x"}, "\"seed\" must be an integer"},
    {changed{process = {host = 1, pid = 1}}, "\"process\" has no \"host\""},
    {changed{process = {host = "h", pid = 1.5}}, "\"process\" has no \"pid\""},
    {changed{script = {name = "x"}}, "\"script\" has no"},
    {changed{modules = {json.null}}, "\"modules\" must be a list of objects"},
    {changed{attempts = {1}}, "\"attempts\" must be"},
    {changed{metrics = {json.null}}, "\"metrics\" must be"},
    {changed{seconds = "long"}, "\"seconds\" must be a number"},
    {changed{started = json.null}, "has no \"started\""},
    {changed{cwd = true}, "\"cwd\" must be a text"},
  }
  for i, row in ipairs(rows) do
    write(dir .. "/run.json", row[1])
    local d, why = runs.read(dir)
    lu.assertNil(d, "row " .. i)
    lu.assertStrContains(why, row[2], false, "row " .. i)
  end
  write(dir .. "/run.json", changed{unknown = {1, {2}}, seed = json.null})
  lu.assertNotNil(runs.read(dir))
  lu.assertNil((runs.read(dir .. "/nowhere")))
end)

-- A folder with a damaged record is used, and what was there is kept.
tests.damaged_record = in_folder(function(dir)
  write(dir .. "/run.json", "no JSON")
  local run
  local said = complaints(function() run = runs.open(dir) end)
  helper.contains(said, "is no record of a run", "kept as run.json.unreadable")
  run:close()
  lu.assertEquals(core.read_file(dir .. "/run.json.unreadable"), "no JSON")
  lu.assertEquals(read(dir).reason, "done")
end)

-- ---- facts -----------------------------------------------------------------

-- A git that says what it was asked, in place of the one that may be there.
tests.git = in_folder(function(dir)
  local odd = dir .. "/it's; touch $HOME `x` \"y\""
  core.mkdirs(odd)
  core.mkdirs(dir .. "/bin")
  write(dir .. "/bin/git", [[#!/bin/sh
printf '%s\n' "$4" > "${0%/*}/asked"
case $5 in
rev-parse) cat "${0%/*}/commit" ;;
status) cat "${0%/*}/status" ;;
esac
]])
  os.execute("chmod +x '" .. dir .. "/bin/git'")
  local path = os.getenv "PATH"
  core.setenv("PATH", dir .. "/bin:" .. path)
  local _ <close> = setmetatable({}, {__close = function()
    core.setenv("PATH", path)
  end})
  local rows = {
    {"cafe12\n", "## main\n", {commit = "cafe12", dirty = false}},
    {"cafe12\n", "## main\n M file\n", {commit = "cafe12", dirty = true}},
    {"cafe12\n", "", {commit = "cafe12"}},
    {"", "## main\n", nil}, {"fatal\n", "", nil},
  }
  for i, row in ipairs(rows) do
    write(dir .. "/bin/commit", row[1])
    write(dir .. "/bin/status", row[2])
    lu.assertEquals(facts.git(odd), row[3], "row " .. i)
  end
  lu.assertEquals(core.read_file(dir .. "/bin/asked"), odd .. "\n")
end)

function tests.process()
  local p = facts.process()
  lu.assertEquals(p.born, facts.born(p.pid))
  lu.assertNotNil(p.born)
  lu.assertNil(facts.born(1 << 40))
  lu.assertStrMatches(core.library_digest(), "%x+")
  lu.assertEquals(#core.library_digest(), 64)
  lu.assertStrMatches(core.build(), "%x*")
end

-- ---- a run that is repeated ------------------------------------------------

tests.redirect = in_folder(function(dir)
  core.mkdirs(dir .. "/old/below")
  local was = core.cwd()
  local _ <close> = setmetatable({}, {__close = function()
    core.chdir(was)
    core.setenv "TIDE_RERUN"
  end})
  lu.assertEquals(redirect.path(dir .. "/old"), dir .. "/old")
  core.chdir(dir)
  core.setenv("TIDE_RERUN", redirect.variable("old", "new"))
  local real = core.real_path(dir)
  lu.assertEquals(redirect.from(), real .. "/old")
  local rows = {
    {"old", real .. "/new"}, {"./old/", real .. "/new"},
    {dir .. "/old", real .. "/new"}, {"old/below", real .. "/new/below"},
    {"old/more", real .. "/new/more"}, {"old/../old", real .. "/new"},
    {"older", "older"}, {"", ""}, {"ol", "ol"}, {"old\0", "old\0"},
    {"nowhere/old", "nowhere/old"}, {dir, dir},
  }
  for _, row in ipairs(rows) do
    lu.assertEquals(redirect.path(row[1]), row[2], row[1])
  end
  lu.assertEquals(td.flags({dir = "old", other = "x"}, {}).dir, real .. "/new")
  local run <close> = runs.open("old")
  lu.assertEquals({run.dir, run.data.rerun_of},
                  {real .. "/new", real .. "/old"})
  raises("has a line end", redirect.variable, "a\nb", "c")
end)

return tests
