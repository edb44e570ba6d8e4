-- config.lua - td.config: defaults of sessions, limits of memory, how devices
-- compute.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

-- What a step that fills `bytes` says.
local function fill(sess, bytes)
  local n, sum
  td.device("/cpu:0", function()
    n = td.placeholder("int32", {1})
    sum = td.fill(n, 1.0):sum()
  end)
  local ok, e = pcall(sess.run, sess, sum, {[n] = {bytes // 4}})
  return ok or e
end

function tests.what_is_usual()
  local c = td.config()
  lu.assertEquals({c.matmul, c.deterministic, c.cuda_sync, c.memory_limit},
                  {"float32", false, false})
  lu.assertTrue(c.machine.threads > 0)
end

function tests.how_devices_compute()
  local c = td.config{matmul = "tf32", deterministic = true}
  lu.assertEquals({c.matmul, c.deterministic, c.cuda_sync},
                  {"tf32", true, false})
  c = td.config{cuda_sync = true, deterministic = false}
  lu.assertEquals({c.matmul, c.deterministic, c.cuda_sync},
                  {"tf32", false, true})
  local x = td.constant{{1.0, 2.0}, {3.0, 4.0}}
  lu.assertEquals(td.session():run(td.matmul(x, x)):table(),
                  {{7, 10}, {15, 22}})
  c = td.config{matmul = "float32", cuda_sync = false}
  lu.assertEquals({c.matmul, c.deterministic, c.cuda_sync},
                  {"float32", false, false})
end

-- In sessions that there are; what is refused leaves room for what is not.
function tests.a_limit_of_memory()
  local sess <close> = td.session()
  lu.assertTrue(fill(sess, 64 << 20))
  lu.assertEquals(td.config{memory_limit = 32e6}.memory_limit, 32000000)
  local e = fill(sess, 64 << 20)
  lu.assertEquals(e.code, "resource_exhausted")
  lu.assertStrContains(e.message, "within its memory limit of 30.5 MiB")
  lu.assertTrue(fill(sess, 4 << 20))
  lu.assertEquals(td.config{memory_limit = {CPU = 80 << 20, GPU = 1 << 20}}
    .memory_limit, {CPU = 80 << 20, CUDA = 1 << 20})
  lu.assertTrue(fill(sess, 64 << 20))
  lu.assertEquals(fill(sess, 96 << 20).code, "resource_exhausted")
  td.config{memory_limit = 0}
  lu.assertTrue(fill(sess, 96 << 20))
end

function tests.refused()
  raises("memory_limit must be a number of bytes", td.config,
         {memory_limit = "8G"})
  raises("not -1", td.config, {memory_limit = -1})
  raises("not 0.5", td.config, {memory_limit = 0.5})
  raises("memory_limit of CPU must be a number of bytes", td.config,
         {memory_limit = {CPU = true}})
  raises("no device is of type \"CPV\"; did you mean \"CPU\"?; there are CPU, "
    .. "CUDA, GPU", td.config, {memory_limit = {CPV = 1}})
  raises("matmul is one of float32, tf32, bfloat16, not \"tf23\"; did you mean "
    .. "\"tf32\"?", td.config, {matmul = "tf23"})
  raises("matmul must be a string", td.config, {matmul = 16})
  raises("deterministic must be a boolean", td.config, {deterministic = 1})
  raises("cuda_sync must be a boolean", td.config, {cuda_sync = "yes"})
  raises("config has no option \"memory\"", td.config, {memory = 1})
  -- Nothing of what is refused is set.
  raises("not -1", td.config, {memory_limit = -1, matmul = "tf32"})
  raises("matmul is one of", td.config, {memory_limit = 1, matmul = "tf23"})
  lu.assertEquals(td.config().matmul, "float32")
  local sess <close> = td.session()
  lu.assertTrue(fill(sess, 4 << 20))
end

return tests
