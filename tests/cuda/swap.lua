-- swap.lua - what loops keep for their gradients is more than a card has, on
-- the fake runtime:
--   build/tide tests/cuda/swap.lua
--
-- The card gets its size from the environment: each run is a process of its
-- own. Its streams come late by chance, so copies that waited for the wrong
-- thing would bring other numbers.
-- SPDX-License-Identifier: Apache-2.0

-- Of each iteration the gradient needs 32 KiB: 200 of them are 6.3 MiB.
local program = [[
local td = require "tide"
local length, swap, limit = tonumber(arg[1]), arg[2] == "swap", arg[3]
if limit then td.config{memory_limit = {GPU = tonumber(limit)}} end
local step
td.device("/gpu:0", function()
  local w = td.variable(td.value.fill({8192}, 0.5), "w")
  local x = td.constant(td.value.linspace(0.0, 1.0, 8192))
  local _, h = td.while_loop(function(i) return i:less(length) end,
    function(i, h) return i + 1, td.tanh(h * w + x) end, {0, x},
    {swap_memory = swap})
  local loss = (h * h):mean()
  step = {loss, td.train.sgd(1):minimize(loss), w}
end)
local sess = td.session{threads = 2}
sess:init()
local ok, result = pcall(function()
  sess:run(step)
  return sess:run(step) -- again, with memory that was used
end)
if not ok then
  print(result.code, result.message)
  return
end
local bytes, hash = sess:run(step[3]):bytes(), 5381
for i = 1, #bytes do hash = hash * 33 + bytes:byte(i) end
print(("%a %x"):format(result[1], hash))
]]

local binary = io.popen("readlink /proc/$PPID/exe"):read()
local passed, failed = 0, 0

local function run(env, ...)
  local path = os.tmpname()
  local f <close> = assert(io.open(path, "w"))
  f:write(program)
  f:flush()
  local p <close> = io.popen(
    ("TIDE_PLUGINS=%s TIDE_CUDA_CACHE=1 %s %s %s %s 2>&1"):format(
      binary:gsub("tide$", "cuda-fake/libtide_cuda.so"), env, binary, path,
      table.concat({...}, " ")))
  local said = p:read "a"
  os.remove(path)
  return said
end

local function check(name, ok, said)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
    print(("%s: %s"):format(name, said))
  end
end

local SMALL = "TIDE_FAKE_MEMORY=12000000" -- the half and more is one length's

local function same(name, want, env, ...)
  local said = run(env, ...)
  check(name, said == want and want:find "^0x", said .. " instead of " .. want)
end

local once, twice = run("", 200, "keep"), run("", 400, "keep")
same("one length, kept", once, SMALL, 200, "keep")
same("two lengths, swapped", twice, SMALL, 400, "swap")
same("with copies that come late", twice, SMALL .. " TIDE_FAKE_DELAY=300",
     400, "swap")
same("within a limit", twice, "", 400, "swap", 8000000)
same("four lengths", run("", 800, "keep"), SMALL, 800, "swap")

local said = run(SMALL, 400, "keep")
for _, part in ipairs{"resource_exhausted", "CUDA:0 has no 32768 bytes",
                      "the largest: ", "with swap_memory = true"} do
  check("two lengths, kept", said:find(part, 1, true), said)
end
said = run("", 400, "keep", 8000000)
for _, part in ipairs{"resource_exhausted", "with swap_memory = true",
                      "within its memory limit of 7.6 MiB"} do
  check("two lengths within a limit", said:find(part, 1, true), said)
end

print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
os.exit(failed == 0)
