--- script/run_facts.lua - what a run is made of: what would have to be the same
-- for another one to have the same bits.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local json = require "tide.base.json"
local libraries = require "tide.doctor.libraries"
local pipe = require "tide.jupyter.pipe"

local facts = {}

-- The variables by which a run is told how to compute, and where code is.
local VARIABLES = {"LUA_PATH", "LUA_PATH_5_4", "TIDE_DATA", "TIDE_DEVICE",
  "TIDE_ISA", "TIDE_LIBRARY", "TIDE_LUA", "TIDE_MEMORY_LIMIT", "TIDE_OFF",
  "TIDE_TEST", "TIDE_TEST_DELAY", "TIDE_TEST_DEVICES", "TIDE_THREADS"}

local MOST_CODE = 64 << 20  -- bytes of a script
local MOST_WORDS = 256 << 10 -- bytes of all arguments

-- ---- small things ----------------------------------------------------------

-- The first line of a file, or nil.
local function first_line(path, pattern)
  local f <close> = io.open(path)
  if not f then return nil end
  for line in f:lines() do
    local found = line:match(pattern)
    if found then return found end
  end
end

--- Who this process is: {host, pid, boot, born}. Two processes of one number
-- differ in `born`, the ticks from the start of the machine to theirs.
function facts.process()
  local p = core.process()
  return {host = p.host, pid = p.pid, born = facts.born(p.pid),
          boot = first_line("/proc/sys/kernel/random/boot_id", "^%S+")}
end

--- When the process of that number began, in ticks; nil where there is none.
function facts.born(pid)
  local rest = first_line(("/proc/%d/stat"):format(pid), "^.*%)%s(.*)$")
  local n = 2
  for word in (rest or ""):gmatch "%S+" do
    n = n + 1
    if n == 22 then return math.tointeger(tonumber(word)) end
  end
end

--- The SHA-256 of a file as hexadecimal digits; nil where it cannot be read.
function facts.hash(path)
  if not core.is_file(path) then return nil end
  local ok, bytes = pcall(core.read_file, path, MOST_CODE)
  return ok and core.sha256(bytes) or nil
end

-- ---- code ------------------------------------------------------------------

-- The file that is run: {name as it was given, path, sha256}, or nil.
local function script()
  local words = rawget(_G, "arg")
  local name = type(words) == "table" and words[0]
  local path = type(name) == "string" and name ~= "-" and name ~= "-e"
    and core.real_path(name)
  local hash = path and facts.hash(path)
  return hash and {name = name, path = path, sha256 = hash} or nil
end

-- Are Lua's own libraries and Tide's, which are no files of the user.
local function is_ours(name)
  return package.preload[name] or name == "tide" or name:find "^tide%."
    or name == "_G" or name == "package" or type(rawget(_G, name)) == "table"
    and package.loaded[name] == rawget(_G, name)
end

-- The user's modules that are loaded by now: a list of {name, path, sha256}.
local function modules()
  local names, list = {}, {}
  for name in pairs(package.loaded) do
    if type(name) == "string" and not is_ours(name) then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local path = package.searchpath(name, package.path)
    path = path and core.real_path(path)
    local hash = path and facts.hash(path)
    if hash then
      list[#list + 1] = {name = name, path = path, sha256 = hash}
    end
  end
  return json.array(list)
end

-- The script's words; those that are too long altogether are left out, which
-- `cut` says.
local function arguments()
  local words, list, n = rawget(_G, "arg"), json.array{}, 0
  for i, word in ipairs(type(words) == "table" and words or {}) do
    word = tostring(word)
    n = n + #word
    if n > MOST_WORDS then return list, true end
    list[i] = word
  end
  return list
end

-- What git prints in that folder, or nil: without git, without a repository,
-- or when it takes too long. It starts no program that the folder names.
local function git_says(folder, ...)
  return pipe.read({"timeout", "10", "git", "-c", "core.fsmonitor=false", "-C",
                    folder, ...}, {GIT_OPTIONAL_LOCKS = "0"})
end

--- The commit of the folder's repository, and whether files that git knows have
-- changed since: {commit =, dirty =}, or nil.
function facts.git(folder)
  local commit = git_says(folder, "rev-parse", "--verify", "HEAD")
  commit = commit and commit:match "^(%x+)%s*$"
  if not commit then return nil end
  local status = git_says(folder, "status", "--porcelain", "--branch",
                          "--untracked-files=no", "--ignore-submodules=all")
  local dirty
  if status then dirty = status:find "\n[^\n]" ~= nil end
  return {commit = commit, dirty = dirty}
end

-- ---- the machine -----------------------------------------------------------

--- What computes: instruction set in force and best one, threads, processor.
function facts.machine()
  local m = core.machine()
  local devices = json.array{}
  for i, name in ipairs(core.devices(1)) do
    devices[i] = name:match "device:(.*)$" or name
  end
  return {isa = m.isa, best_isa = m.best_isa, threads = m.threads,
          processors = (core.processors()), devices = devices,
          processor = first_line("/proc/cpuinfo", "^model name%s*:%s*(.-)%s*$")}
end

--- {name = value} of the variables that tell Tide how to compute.
function facts.environment()
  local list = json.object{}
  for _, name in ipairs(VARIABLES) do list[name] = os.getenv(name) end
  return list
end

--- The names of those variables.
facts.variables = VARIABLES

-- ---- all of it -------------------------------------------------------------

--- What this process would run, as run.json has it: argv, cwd, program, script,
-- modules, versions, machine, environment, git.
function facts.all()
  local argv, cut = arguments()
  local code = script()
  local folder = code and code.path:match "^(.*)/[^/]*$" or core.cwd()
  return {argv = argv, argv_cut = cut, cwd = core.cwd(), script = code,
          program = core.executable(), modules = modules(),
          versions = libraries.versions(), machine = facts.machine(),
          environment = facts.environment(),
          git = facts.git(folder ~= "" and folder or "/")}
end

return facts
