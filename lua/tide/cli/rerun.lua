--- cli/rerun.lua - `tide rerun DIR`: a run once more, into a folder of its own.
--
-- The script is started as it was: its words, where it stood, the variables
-- that Tide reads, threads, instruction set. What it reads besides, such as
-- data, is not known, so not looked at.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local diff = require "tide.script.run_diff"
local errors = require "tide.base.errors"
local facts = require "tide.script.run_facts"
local flags = require "tide.script.flags"
local libraries = require "tide.doctor.libraries"
local redirect = require "tide.script.redirect"
local runs = require "tide.script.run_record"
local value = require "tide.show.value"

local USAGE = [[
usage: tide rerun DIR [--dir NEW] [--force]

Repeats the run whose folder is DIR: the same script, arguments, seed, threads
and instruction set, so that the result has the same bits. It writes into NEW,
DIR-rerun-1 (-2, ...) by default; DIR stays as it is. Where the script, the
versions or the processor are not what they were, it says so and does nothing.

What is started stands in DIR/run.json, so DIR must be a folder that you trust.

  --dir NEW   the folder of the new run; it must not be there, or be empty
  --force     all the same, where bits may differ
]]

-- ---- may it be repeated? ---------------------------------------------------

-- What would be run now: the files that the record names, as they are.
local function now(record)
  local script, modules = record.script, {}
  for i, m in ipairs(record.modules or {}) do
    modules[i] = {name = m.name, sha256 = type(m.path) == "string"
                  and facts.hash(m.path) or nil}
  end
  return {script = {sha256 = facts.hash(script.path)}, modules = modules,
          versions = libraries.versions(), machine = facts.machine(),
          environment = record.environment, flags = record.flags}
end

-- What speaks against it, as texts.
local function objections(record)
  local list = {}
  for i, d in ipairs(diff.of_bits(record, now(record))) do list[i] = d.text end
  if not record.seed then
    list[#list + 1] = "it had no seed (td.seed): what was drawn at random "
      .. "cannot be drawn again"
  end
  local state = record.reason or "killed, or still running"
  if state ~= "done" then
    list[#list + 1] = ("it did not come to its end (%s): where it stopped "
      .. "cannot be repeated"):format(state)
  end
  return list
end

local function check(dir, record, force)
  local list = objections(record)
  if #list == 0 then return end
  io.stderr:write(("tide: '%s' %s be repeated bit for bit:\n  %s\n"):format(dir,
    force and "may not" or "cannot", table.concat(list, "\n  ")))
  if not force then
    errors.raise("failed_precondition", "not repeated; --force repeats it all "
      .. "the same")
  end
end

local function check_script(dir, record)
  if not record.script then
    errors.raise("failed_precondition", "'%s' was no run of a script: what was "
      .. "typed or given by -e is not known", dir)
  end
  if record.argv_cut then
    errors.raise("failed_precondition", "'%s' had more arguments than its "
      .. "record holds", dir)
  end
  if not core.exists(record.script.path) then
    errors.raise("not_found", "the script '%s' is not there any more",
                 record.script.path)
  end
end

-- ---- the new folder --------------------------------------------------------

local function is_free(dir)
  return not core.exists(dir) or core.is_folder(dir) and core.list(dir) == ""
end

local function new_folder(dir, given)
  if given ~= "" then
    if is_free(given) then return given end
    errors.raise("already_exists", "'%s' is there, and not an empty folder",
                 given)
  end
  local stem, n = core.real_path(dir) .. "-rerun-", 1
  while not is_free(stem .. n) do n = n + 1 end
  return stem .. n
end

-- ---- starting --------------------------------------------------------------

-- What a variable must be for `want` to be in force, where `here` is now: what
-- it was in the run or is, where that will do.
local function variable(name, was, want, here)
  if want == nil or want == here then return was or os.getenv(name) end
  return tostring(want)
end

-- Sets the variables that Tide reads as they were; were any others? The
-- instruction set and the threads become those that were in force.
local function set_variables(record)
  local was, wanted, changed = record.environment or {}, {}, false
  for _, name in ipairs(facts.variables) do
    wanted[name] = type(was[name]) == "string" and was[name] or nil
  end
  local then_, here = record.machine or {}, core.machine()
  wanted.TIDE_ISA = variable("TIDE_ISA", wanted.TIDE_ISA, then_.isa, here.isa)
  wanted.TIDE_THREADS = variable("TIDE_THREADS", wanted.TIDE_THREADS,
                                 then_.threads, here.threads)
  for _, name in ipairs(facts.variables) do
    if os.getenv(name) ~= wanted[name] then
      changed = true
      core.setenv(name, wanted[name])
    end
  end
  return changed
end

local LEVELS = {scalar = 0, avx2 = 1, avx512 = 2}

-- Tide would not start with an instruction set that is not there.
local function check_isa(record)
  local isa = record.machine and record.machine.isa
  local best = core.machine().best_isa
  if isa and (LEVELS[isa] or 9) > LEVELS[best] then
    errors.raise("failed_precondition", "the run had code for %s; the best "
      .. "that this processor has is %s", tostring(isa), best)
  end
end

-- The words of the script, but --resume: there is nothing to go on with.
local function words_of(record)
  local script = record.script
  local name = core.real_path(script.name) == script.path and script.name
    or script.path
  if not name:find "[./]" then name = "./" .. name end
  local words = {core.executable(), name}
  for _, word in ipairs(record.argv) do
    if word ~= "--resume" then words[#words + 1] = word end
  end
  return words
end

-- A word as it was typed, or in quotes where that could mislead.
local function shown(word)
  return word:find "^[%w%-_=./:,+@]+$" and word or value.quote(word)
end

local function act(f, given)
  local dir = f[1]
  local record, why = runs.read(dir)
  if not record then errors.raise("not_found", "%s", why) end
  check_script(dir, record)
  check_isa(record)
  -- libraries choose by these when they are loaded: once more, with them set
  if set_variables(record) then
    core.become{core.executable(), "rerun", table.unpack(given)}
  end
  check(dir, record, f.force)
  local new = new_folder(dir, f.dir)
  core.setenv("TIDE_RERUN", redirect.variable(dir, new))
  if record.cwd then core.chdir(record.cwd) end
  local words = words_of(record)
  io.stderr:write(("tide: into '%s':"):format(new))
  for i = 2, #words do io.stderr:write(" ", shown(words[i])) end
  io.stderr:write "\n"
  core.become(words)
end

--- Runs the command; returns its exit code.
return function(words)
  if args.holds(words, "--help") or args.holds(words, "-h") then
    io.write(USAGE)
    return 0
  end
  local ok, f = pcall(flags.flags, {dir = "", force = false}, words)
  if not ok or #f ~= 1 then
    if not ok then io.stderr:write("tide: ", f.message, "\n\n") end
    io.stderr:write(USAGE)
    return 2
  end
  local done, e = pcall(act, f, words)
  if done then return 0 end
  io.stderr:write("tide: ", tostring(e), "\n")
  return 1
end
