--- script/run_record.lua - DIR/run.json: what a run was, and what became of it.
--
-- A run has a folder. Its record is written when the folder is opened, from
-- time to time while it goes on, and at the end, each time as a whole: a reader
-- sees the old text or the new. One JSON object, format 1:
--
--   format       1
--   argv, cwd    the script's words, where it was started
--   program      the file of the interpreter
--   script       {name (as it was given), path, sha256}; none at a prompt
--   modules      [{name, path, sha256}]: the user's Lua files loaded by then
--   flags        {name: value} of td.flags; what is no finite number is a
--                string: "nan", "inf", "-inf"
--   seed         of td.seed; none without one
--   versions     {name: text}: tide, build, library, Lua, OpenBLAS, ...
--   machine      {isa, best_isa, threads, processors, processor, devices}
--   environment  {name: value} of the variables that Tide reads
--   git          {commit, dirty} of the script's folder; none without git
--   process      {host, pid, boot, born} of who wrote it last
--   rerun_of     the folder of the run that this one repeats
--   created      when the run began, 2026-01-31T23:59:59Z
--   started      when this process did; `updated`, `ended` likewise
--   seconds      from `started` to `updated`, of a clock that is never set
--   reason       how it ended: "done", "SIGTERM", "SIGUSR1", "interrupted",
--                "failed" (`error` tells of what); none while it goes on, and
--                when it was killed
--   step         the last that was noted; `metrics` {name: number} likewise
--   attempts     [{started, ended, seconds, reason, step, host, pid}]: those
--                before it in this folder, the last hundred; `restarts` counts
--
-- Fields may be added to a format, so readers pass over those they do not know.
--
-- While a run goes on it holds DIR/run.lock; the lock ends with the process in
-- whatever way that ends, so a folder whose owner was killed is free.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local facts = require "tide.script.run_facts"
local flags = require "tide.script.flags"
local json = require "tide.base.json"
local redirect = require "tide.script.redirect"

local runs = {}

local FORMAT = 1
local MOST_BYTES = 1 << 20 -- of run.json
local MOST_ATTEMPTS = 100
local EVERY = 10           -- seconds between two notes that reach the disk

-- ---- reading ---------------------------------------------------------------

local function is_list_of(kind)
  return function(x)
    if type(x) ~= "table" then return false end
    local n = 0
    for key, each in pairs(x) do
      n = n + 1
      if math.type(key) ~= "integer" or type(each) ~= kind then return false end
    end
    return n == #x
  end
end

local plain = {string = true, number = true, boolean = true}

-- An object of names and plain values, or of lists of texts.
local function is_record(x)
  if type(x) ~= "table" or x == json.null then return false end
  for key, each in pairs(x) do
    if type(key) ~= "string" or not plain[type(each)]
       and not is_list_of "string"(each) then
      return false
    end
  end
  return true
end

local function is_list_of_records(x)
  if not is_list_of "table"(x) then return false end
  for _, each in ipairs(x) do
    if not is_record(each) then return false end
  end
  return true
end

local function is_number(x) return type(x) == "number" end
local function is_text(x) return type(x) == "string" end
local function is_whole(x) return math.type(x) == "integer" end

-- {what it is called in messages, the test}
local list = {"a list of texts", is_list_of "string"}
local record = {"an object of plain values", is_record}
local records = {"a list of objects", is_list_of_records}
local number = {"a number", is_number}
local text = {"a text", is_text}
local whole = {"an integer", is_whole}
local flag = {"true or false", function(x) return type(x) == "boolean" end}

local fields = {
  format = whole, argv = list, argv_cut = flag, cwd = text, program = text,
  script = record, modules = records, flags = record, seed = whole,
  versions = record, machine = record, environment = record, git = record,
  process = record, rerun_of = text, created = text, started = text,
  updated = text, ended = text, seconds = number, reason = text, error = text,
  step = whole, metrics = record, attempts = records, restarts = whole,
}
local parts = {
  script = {name = is_text, path = is_text, sha256 = is_text},
  process = {host = is_text, pid = is_whole},
}
local required = {"format", "argv", "flags", "process", "created", "started"}

-- Why it is no record; nil where it is one. What is null is not there.
local function wrong(data)
  if type(data) ~= "table" or #data > 0 then return "it is no object" end
  for key, value in pairs(data) do
    if value == json.null then data[key] = nil end
  end
  for _, name in ipairs(required) do
    if data[name] == nil then return ("it has no \"%s\""):format(name) end
  end
  for _, name in ipairs(args.sorted_keys(fields)) do
    local field, value = fields[name], data[name]
    if value ~= nil and not field[2](value) then
      return ("\"%s\" must be %s"):format(name, field[1])
    end
  end
  for _, name in ipairs(args.sorted_keys(parts)) do
    for key, test in pairs(data[name] and parts[name] or {}) do
      if not test(data[name][key]) then
        return ("\"%s\" has no \"%s\""):format(name, key)
      end
    end
  end
  if data.format ~= FORMAT then
    return ("its format is %d, this Tide knows %d"):format(data.format, FORMAT)
  end
end

local function file_of(dir) return dir .. "/run.json" end

--- The record of a run's folder, with fields as the file has them; nil and why
-- not, where there is none or it is damaged. A file of more than 1 MiB is none.
-- @usage local record, why = runs.read "runs/first"
function runs.read(dir)
  local path = file_of(dir)
  if core.exists(path) and not core.is_file(path) then
    return nil, ("'%s' is no record of a run, for it is no regular file")
      :format(path)
  end
  local ok, bytes = pcall(core.read_file, path, MOST_BYTES)
  if not ok then return nil, bytes.message or tostring(bytes) end
  local data, why = json.decode(bytes)
  why = data == nil and why or wrong(data)
  if why then
    return nil, ("'%s' is no record of a run: %s"):format(path, why)
  end
  return data
end

-- ---- who has a folder ------------------------------------------------------

local function lock_of(dir) return dir .. "/run.lock" end

-- Is a process that ran on this machine still there? nil for one elsewhere.
local function lives(process)
  local here = facts.process()
  if process.host ~= here.host then return nil end
  if process.boot ~= here.boot then return false end
  local born = facts.born(process.pid)
  return born ~= nil and (process.born == nil or process.born == born)
end

--- What a run is doing: "running", "killed" when it ended without saying so,
-- else "done", "stopped" by a signal, "interrupted", "failed", or the reason
-- that it gave; "unknown" where that cannot be told.
function runs.state(dir, data)
  if data.reason then
    local stopped = data.reason:find "^SIG"
    return stopped and "stopped" or data.reason
  end
  local held = core.is_held(lock_of(dir))
  if held == nil then held = lives(data.process) end
  if held == nil then return "unknown" end
  return held and "running" or "killed"
end

local function is_here(process)
  local here = core.process()
  return process.host == here.host and process.pid == here.pid
end

-- The record may be that of who had the folder before.
local function in_use(dir, data)
  local who, remedy = "another process", "wait for its end, stop it"
  if data and not data.reason and lives(data.process) ~= false then
    local p = data.process
    who = ("process %s on %s, since %s"):format(p.pid, p.host, data.started)
    if is_here(p) then
      who = "this process, since " .. data.started
      remedy = "close what was opened there"
    end
  end
  errors.raise("failed_precondition", "the log folder '%s' is in use by %s; "
    .. "%s, or choose another folder", dir, who, remedy)
end

-- The lock, or nil and why not. One that nobody can reach any more, such as
-- that of a notebook's cell that runs again, is closed by a collection.
local function try_hold(path, before)
  local handle, why = core.hold(path)
  if not handle and why == "held" and before and is_here(before.process) then
    collectgarbage()
    collectgarbage()
    handle, why = core.hold(path)
  end
  return handle, why
end

-- Takes it, or raises. Where the file system knows no locks, the file itself
-- stands for one, and stays when its owner is killed.
local function hold(dir, before)
  local path = lock_of(dir)
  local was = core.exists(path)
  local handle, why = try_hold(path, before)
  if handle then return handle end
  if why == "held" then in_use(dir, before) end
  if was and not before then
    errors.raise("failed_precondition", "the log folder '%s' may be in use, "
      .. "and its file system knows no locks; if it is not, remove '%s'", dir,
      path)
  end
  if was and not before.reason and lives(before.process) ~= false then
    in_use(dir, before)
  end
  return nil
end

-- ---- writing ---------------------------------------------------------------

local run = {__name = "run record"}
run.__index = run

local function stamp() return os.date "!%Y-%m-%dT%H:%M:%SZ" end

-- JSON has no word for them.
local function spelt(x)
  if type(x) ~= "number" or x - x == 0 then return x end
  return x ~= x and "nan" or x > 0 and "inf" or "-inf"
end

local function plain_object(values, what)
  local object = json.object{}
  for _, row in ipairs(flags.list(values)) do
    object[row.name] = spelt(row.value)
  end
  for name, value in pairs(values) do
    if type(name) == "string" and not plain[type(value)] then
      errors.invalid("%s: \"%s\" must be a number, boolean or string, not %s",
                     what, name, args.what(value))
    end
  end
  return object
end

-- The row of an attempt that is over.
local function attempt(data)
  return {started = data.started, ended = data.ended or data.updated,
          seconds = data.seconds, reason = data.reason or "killed",
          step = data.step, host = data.process.host, pid = data.process.pid}
end

local function attempts_of(before)
  local rows = json.array{}
  for _, row in ipairs(before.attempts or {}) do rows[#rows + 1] = row end
  rows[#rows + 1] = attempt(before)
  while #rows > MOST_ATTEMPTS do table.remove(rows, 1) end
  return rows
end

local function write(self)
  local data = self.data
  data.updated = stamp()
  data.seconds = core.clock() - self.begun
  core.write_file(file_of(self.dir), json.encode(data) .. "\n")
  self.written = core.clock()
end

-- Training does not end because its record cannot be written; that is said.
local function try_write(self)
  local ok, why = pcall(write, self)
  if ok then
    self.complained = false
  elseif not self.complained then
    self.complained = true
    self.written = core.clock()
    io.stderr:write("tide: the record of the run is not up to date: ",
                    tostring(why), "\n")
  end
  return ok
end

local function new_data(o, before)
  local data = json.object(facts.all())
  data.format = FORMAT
  data.flags = plain_object(o.flags or flags.last() or {}, "flags")
  data.seed = o.seed or core.graph():get_seed()
  data.process = facts.process()
  data.rerun_of = redirect.from()
  data.started = stamp()
  data.created, data.restarts = data.started, 0
  data.attempts = json.array{}
  if before then
    data.created = before.created
    data.attempts = attempts_of(before)
    data.restarts = (before.restarts or 0) + 1
    data.step, data.metrics = before.step, before.metrics
  end
  return data
end

--- The folder in which a run that names `dir` is kept: that one, or another
-- when the run is repeated by `tide rerun`.
runs.folder = redirect.path

--- Begins a run in a folder, which is made, and writes its record. A run that
-- was there before is one with it: it was restarted.
-- @param dir the folder; see runs.folder
-- @param[opt] o flags: table of named settings (those that td.flags gave last);
-- seed: an integer (the graph's); fresh = true: what was there before is
-- another run, and forgotten
-- @return an object: .dir, .data (what run.json has), .before (the record that
-- was there, or nil), :note{}, :close(reason)
-- @raise failed_precondition where a living run has the folder, by name; what
-- files raise, such as resource_exhausted on a full disk
-- @usage local run <close> = runs.open(dir, {flags = flags})
function runs.open(dir, o)
  args.expect(dir, "string", "the folder of a run")
  o = args.read(o, {"flags", "seed", "fresh"}, "the record of a run")
  args.expect_all(o, {flags = "table", seed = "integer", fresh = "boolean"})
  dir = redirect.path(dir)
  core.mkdirs(dir)
  local before, why = runs.read(dir)
  local lock = hold(dir, before)
  before = runs.read(dir) or before -- it may have ended in between
  local self = setmetatable({dir = dir, lock = lock, before = before,
                             begun = core.clock()}, run)
  if not before and core.exists(file_of(dir)) then
    os.rename(file_of(dir), file_of(dir) .. ".unreadable")
    io.stderr:write("tide: ", why, "; it is kept as run.json.unreadable\n")
  end
  local ok, e = pcall(function()
    self.data = new_data(o, not o.fresh and before or nil)
    write(self)
  end)
  if ok then return self end
  if lock then core.let_go(lock) end
  error(e, 0)
end

--- Which flags differ from those of the record that was there before: a list as
-- flags.differences gives it, empty where nothing was there.
function run:differences()
  if not self.before then return {} end
  return flags.differences(self.before.flags, self.data.flags)
end

--- Notes how far the run is. It costs little: the file is written every ten
-- seconds at most, or with now = true.
-- @param o step: an integer; metrics: {name = number}; now
function run:note(o)
  o = args.read(o, {"step", "metrics", "now"}, "note")
  args.expect_all(o, {step = "integer", metrics = "table"})
  if self.closed then
    errors.raise("failed_precondition", "the record of '%s' is closed",
                 self.dir)
  end
  self.data.step = o.step or self.data.step
  if o.metrics then self.data.metrics = plain_object(o.metrics, "metrics") end
  if o.now or core.clock() - self.written >= EVERY then try_write(self) end
end

--- Ends the run: writes when and how it ended, and lets the folder go. Once is
-- enough; another call does nothing.
-- @param[opt] reason "done", the name of a signal, "failed", ...
-- @param[opt] why the error's text, of one that failed
function run:close(reason, why)
  if self.closed then return end
  self.closed = true
  self.data.reason = reason or "done"
  self.data.error = why and tostring(why):sub(1, 1000) or nil
  self.data.ended = stamp()
  try_write(self)
  if self.lock then
    core.let_go(self.lock)
  else
    os.remove(lock_of(self.dir))
  end
end

function run:__close(e)
  if e == nil then return self:close "done" end
  local message = type(e) == "table" and e.message or tostring(e)
  local interrupted = message:match "^[^\n]*":find "interrupted$"
  self:close(interrupted and "interrupted" or "failed", tostring(e))
end

function run:__tostring()
  return ("Run in %s, step %s"):format(self.dir, self.data.step or "none")
end

return runs
