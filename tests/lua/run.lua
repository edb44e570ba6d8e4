-- run.lua - the tests of the Lua library: tide tests/lua/run.lua [FILE ...]
--
-- Each file gives a table of tests by name. The last line counts; before it
-- come those that took long. In the modes of TIDE_TEST, where values are
-- computed in another way, what tests/modes.txt excepts is counted and not run,
-- and a file about the console, which requires one of its modules at the left
-- margin, takes no part.
-- SPDX-License-Identifier: Apache-2.0

local dir = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = dir .. "/?.lua;" .. package.path

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"

local library = os.getenv "TIDE_LIBRARY"
if library then td.load_library(library) end

-- ---- which tests -----------------------------------------------------------

local modes = {}
for word in (os.getenv "TIDE_TEST" or ""):gmatch "[^,]+" do
  if word ~= "verify" then modes[word] = true end
end

-- far: sessions have their master in a server, for runs by hand.
if modes.far then
  local folder = io.popen "mktemp -d /tmp/tide-far-XXXXXX":read()
  _G.far_server = td.server{listen = "ipc://" .. folder .. "/s"}
  require "tide.run.session".defaults.target = _G.far_server.target
end

local fleet = modes.worker and require "shared.fleet"

local about_console = {assist = true, commands = true, console = true,
                       services = true, ui = true}

local function is_about_console(stem)
  for line in io.lines(dir .. "/" .. stem .. ".lua") do
    local folder = line:match '^local .*require "tide%.(%w+)'
    if about_console[folder] then return true end
  end
  return false
end

local function files()
  if #arg > 0 then return {table.unpack(arg)} end
  local list = {}
  local pipe <close> = assert(io.popen("ls '" .. dir .. "'"))
  for name in pipe:lines() do
    local stem = name:match("^([%w_]+)%.lua$")
    if stem and stem ~= "run" and stem ~= "helper"
      and not (next(modes) and is_about_console(stem)) then
      list[#list + 1] = stem
    end
  end
  return list
end

-- By name: true for those excepted in one of the modes; all the names there.
local function read_exceptions()
  local excepted, named = {}, {}
  for line in io.lines(dir .. "/../modes.txt") do
    local mode, name = line:match "^(%w+)%s+(.-)%s+#"
    if mode then
      named[#named + 1] = name
      excepted[name] = excepted[name] or modes[mode]
    end
  end
  return excepted, named
end

local excepted, named = read_exceptions()

-- Each test begins with an empty graph and no session.
local function isolated(name, test)
  return function()
    td.reset()
    local start = core.clock()
    test()
    local took = core.clock() - start
    if took > 0.5 then print(("%s: %.1f s"):format(name, took)) end
  end
end

local instances, seen, n_excepted = {}, {}, 0
for _, stem in ipairs(files()) do
  local tests = require(stem)
  seen[stem] = tests
  local names = {}
  for name in pairs(tests) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local full = stem .. "." .. name
    if excepted[full] or excepted[stem] then
      n_excepted = n_excepted + 1
    else
      instances[#instances + 1] = {full, isolated(full, tests[name])}
    end
  end
end

-- An exception that names no test is one that was forgotten.
local unknown = 0
for _, full in ipairs(named) do
  local stem, name = full:match "^([^.]*)%.(.*)$"
  if stem and seen[stem] and not seen[stem][name] then
    print("tests/modes.txt names " .. full .. ", which does not exist")
    unknown = unknown + 1
  end
end

local runner = lu.LuaUnit.new()
runner:setOutputType(os.getenv "TIDE_TEST_VERBOSE" and "text" or "nil")
runner:runSuiteByInstances(instances)
local r = runner.result
for _, failed in ipairs{r.failedTests, r.errorTests} do
  for _, node in ipairs(failed) do
    print(("%s: %s"):format(node.testName, node.msg))
    print(node.stackTrace)
  end
end
for _, node in ipairs(r.skippedTests) do print("skip: " .. node.testName) end
local failed = r.failureCount + r.errorCount + unknown
print(("%d passed, %d failed, %d skipped%s"):format(r.successCount, failed,
  r.skippedCount, n_excepted > 0 and (", %d excepted"):format(n_excepted)
  or ""))
if fleet then fleet.stop() end
os.exit(failed == 0 and 0 or 1, true)
