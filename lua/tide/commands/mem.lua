--- commands/mem.lua - %mem: where memory is.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local style = require "tide.show.style"

-- Bytes of the process; nil where the system does not say.
local function resident()
  local file <close> = io.open("/proc/self/status")
  local text = file and file:read "a"
  local kb = text and text:match "VmRSS:%s*(%d+) kB"
  return kb and tonumber(kb) * 1024
end

--- %mem: memory of tensors, of Lua, and of the process.
return function()
  local used, peak = core.memory()
  print(("tensors  %s, at most %s since the last %%mem"):format(
    style.bytes(used), style.bytes(peak)))
  print(("Lua      %s"):format(
    style.bytes(math.floor(collectgarbage "count" * 1024))))
  local rss = resident()
  if rss then print("process  " .. style.bytes(rss)) end
end
