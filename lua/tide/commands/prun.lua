--- commands/prun.lua - %prun: which lines of Lua take the time.
--
-- Every thousandth instruction it is noted which line runs and which functions
-- called it. Coroutines are not looked into.
-- SPDX-License-Identifier: Apache-2.0

local commands = require "tide.console.commands"

local EVERY, SHOWN = 1000, 15

local function add(counts, key)
  counts[key] = (counts[key] or 0) + 1
end

-- A hook that counts where it is called, and the counts.
local function watcher()
  local own, total = {}, {}
  return own, total, function()
    local seen = {}
    for level = 2, 60 do
      local info = debug.getinfo(level, "Sl")
      if not info then break end
      local folder = info.source:match "^=%[tide%] (%l+)/"
      if info.currentline > 0 and folder ~= "console"
         and folder ~= "services" and folder ~= "frontend" then
        local key = ("%s:%d"):format(info.short_src, info.currentline)
        if level == 2 then add(own, key) end
        if not seen[key] then add(total, key) end
        seen[key] = true
      end
    end
  end
end

local function report(own, total)
  local lines, all = {}, 0
  for key, n in pairs(total) do
    lines[#lines + 1] = key
    all = math.max(all, n)
  end
  table.sort(lines, function(a, b)
    if total[a] ~= total[b] then return total[a] > total[b] end
    return a < b
  end)
  print(("%8s %8s  %s"):format("itself", "in all", "line"))
  for i = 1, math.min(#lines, SHOWN) do
    local key = lines[i]
    print(("%7.1f%% %7.1f%%  %s"):format(100 * (own[key] or 0) / all,
                                         100 * total[key] / all, key))
  end
  if #lines == 0 then print "it was over before anything was seen" end
end

--- %prun code: runs it and shows which lines of Lua took how much of the time.
return function(code, state)
  local own, total, look = watcher()
  debug.sethook(look, "", EVERY)
  return commands.guarded(state.body or code, state, function(ok)
    debug.sethook()
    if ok then report(own, total) end
  end)
end
