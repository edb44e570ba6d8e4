-- run.lua - the tests of the Lua library: tide tests/lua/run.lua [FILE ...]
--
-- Each file gives a table of tests by name. The last line counts; before it
-- come those that took long.
-- SPDX-License-Identifier: Apache-2.0

local dir = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = dir .. "/?.lua;" .. package.path

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"

local function files()
  if #arg > 0 then return {table.unpack(arg)} end
  local list = {}
  local pipe <close> = assert(io.popen("ls '" .. dir .. "'"))
  for name in pipe:lines() do
    local stem = name:match("^([%w_]+)%.lua$")
    if stem and stem ~= "run" and stem ~= "helper" then
      list[#list + 1] = stem
    end
  end
  return list
end

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

local instances = {}
for _, stem in ipairs(files()) do
  local tests = require(stem)
  local names = {}
  for name in pairs(tests) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local full = stem .. "." .. name
    instances[#instances + 1] = {full, isolated(full, tests[name])}
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
print(("%d passed, %d failed, %d skipped"):format(r.successCount,
  r.failureCount + r.errorCount, r.skippedCount))
os.exit(r.notSuccessCount == 0 and 0 or 1, true)
