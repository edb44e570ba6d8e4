-- large.lua - tensors of more elements than 32 bits count, on a card.
--   build/tide tests/cuda/large.lua [ELEMENTS]
--
-- Of int8, which a card has room for; what comes out is known without another
-- device. The plugin is $TIDE_LIBRARY, or the one on the fake runtime.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local n = math.tointeger(tonumber(arg[1] or 2 ^ 31 + 4099))
td.load_library(os.getenv "TIDE_LIBRARY" or "build/cuda-fake/libtide_cuda.so")

-- Elements n - 5 to n - 1, from each test; all else stays on the card.
local function last(x) return x:reshape{-1}[{{n - 5, n}}]:cast "int32" end

local tests = {}

-- 1, 1, ... , of an operand that was not there when the graph was made.
local function ones(feed) return td.fill({n}, feed:cast "int8") end

function tests.elementwise(feed)
  local x = ones(feed)
  return last(x + x * td.constant(2, "int8")), {3, 3, 3, 3, 3}
end

function tests.broadcast(feed)
  local x = ones(feed):reshape{-1, 1}
  return last(x + td.constant({4}, "int8")), {5, 5, 5, 5, 5}
end

function tests.slice_and_concat(feed)
  local x = ones(feed)
  local y = td.concat({x[{{2, n}}], td.constant({7, 8}, "int8")}, 0)
  return last(y), {1, 1, 1, 7, 8}
end

function tests.where_it_ends(feed)
  local x = td.concat({ones(feed)[{{0, n - 1}}], td.constant({9}, "int8")}, 0)
  return td.argmax(x, 0), n - 1
end

function tests.gather(feed)
  local at = td.constant({n - 1, 0, n - 2, n // 2, 1}, "int64")
  local x = td.concat({ones(feed)[{{0, n - 1}}], td.constant({9}, "int8")}, 0)
  return td.gather(x, at):cast "int32", {9, 1, 1, 1, 1}
end

function tests.sum_of_rows(feed)
  local rows = n // 4099
  local x = ones(feed)[{{0, rows * 4099}}]:reshape{rows, 4099}
  local sums = x:cast "float32":sum(1)
  return td.stack{sums:min(), sums:max()}, {4099, 4099}
end

local names, failed, skipped = {}, 0, 0
for name in pairs(tests) do names[#names + 1] = name end
table.sort(names)

local function try(name)
  td.reset()
  local feed = td.placeholder("int32", {})
  local y, want
  td.device("/gpu:0", function() y, want = tests[name](feed) end)
  local sess <close> = td.session{threads = 2}
  local got = sess:run(y, {[feed] = 1})
  td.test.close(got, want, {atol = 0})
end

for _, name in ipairs(names) do
  local ok, e = pcall(try, name)
  if not ok and type(e) == "table" and e.code == "resource_exhausted" then
    skipped = skipped + 1
    print("skip: large-" .. name)
  elseif not ok then
    failed = failed + 1
    print(name .. ": " .. tostring(e))
  end
end
print(("%d passed, %d failed, %d skipped"):format(#names - failed - skipped,
  failed, skipped))
os.exit(failed == 0)
