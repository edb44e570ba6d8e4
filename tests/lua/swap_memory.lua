-- Loops whose saved values are more than their device's memory. The test device
-- gets its limit from the environment: each is a process of its own.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"

local binary = io.popen("readlink /proc/$PPID/exe"):read()

-- 2,000 iterations, of which the gradient needs 8 KiB each: 16 MB.
local program = [[
local td = require "tide"
local swap = arg[1] == "swap"
local step
td.device("/device:TEST:0", function()
  local w = td.variable(td.value.fill({2048}, 0.5), "w")
  local x = td.constant(td.value.linspace(0.0, 1.0, 2048))
  local _, h = td.while_loop(function(i) return i:less(2000) end,
    function(i, h) return i + 1, td.tanh(h * w + x) end, {0, x},
    {swap_memory = swap})
  local loss = (h * h):mean()
  step = {loss, td.train.sgd(1):minimize(loss), w}
end)
local sess = td.session{threads = 2}
sess:init()
local ok, result = pcall(sess.run, sess, step)
if not ok then
  print(result.code, result.message)
  return
end
local bytes, hash = sess:run(step[3]):bytes(), 5381
for i = 1, #bytes do hash = hash * 33 + bytes:byte(i) end
print(("%a %x"):format(result[1], hash))
]]

local function run(env, how)
  local path = os.tmpname()
  local f <close> = assert(io.open(path, "w"))
  f:write(program)
  f:flush()
  local p <close> = io.popen(
    ("env -u TIDE_TEST TIDE_TEST_DEVICES=1 %s %s %s %s 2>&1"):format(
      env, binary, path, how))
  local said = p:read "a"
  os.remove(path)
  return said
end

local T = {}

-- A quarter of what is saved, and a tenth, with copies that come late.
function T.more_than_the_memory_of_a_device()
  local want = run("", "keep")
  lu.assertStrMatches(want, "0x[^\n]+\n")
  lu.assertEquals(run("TIDE_TEST_MEMORY=4000000", "swap"), want)
  lu.assertEquals(run("TIDE_TEST_MEMORY=1600000 TIDE_TEST_DELAY=300", "swap"),
                  want)
end

function T.without_it_the_error_names_it()
  local said = run("TIDE_TEST_MEMORY=4000000", "keep")
  lu.assertStrContains(said, "resource_exhausted")
  lu.assertStrContains(said, "within its memory limit of 3.8 MiB")
  lu.assertStrContains(said, "with swap_memory = true")
end

return T
