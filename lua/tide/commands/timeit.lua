--- commands/timeit.lua - %timeit and %%timeit.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local style = require "tide.show.style"
local cell = require "tide.console.cell"
local commands = require "tide.console.commands"

local ENOUGH = 0.2 -- seconds of one of the runs, when their size is chosen

local function measure(f, loops)
  local start = core.clock()
  for _ = 1, loops do f() end
  return core.clock() - start
end

-- A round number of loops that takes long enough.
local function choose(f)
  local loops = 1
  while true do
    for _, by in ipairs{1, 2, 5} do
      if measure(f, loops * by) >= ENOUGH then return loops * by end
    end
    loops = loops * 10
  end
end

local function options(text)
  local o = {}
  while true do
    local key, n, rest = text:match "^%-([nr])%s*(%d+)%s*(.*)$"
    if not key then return o, text end
    o[key], text = math.max(1, tonumber(n)), rest
  end
end

--- %timeit [-n loops] [-r runs] code: how long it takes, by many runs. As
-- %%timeit it times the cell; what stands behind it is run once before.
return function(text, state)
  local o, code = options(text)
  if state.body then
    commands.evaluate(code, state)
    code = state.body
  end
  local f, why = cell.load(code, state.chunk, state.at)
  if not f then error(why, 0) end
  local loops, runs = o.n or choose(f), o.r or 7
  local sum, squares, best = 0, 0, math.huge
  for _ = 1, runs do
    local s = measure(f, loops) / loops
    sum, squares, best = sum + s, squares + s * s, math.min(best, s)
  end
  local mean = sum / runs
  local spread = math.sqrt(math.max(0, squares / runs - mean * mean))
  print(("%s +- %s, best %s (%d runs of %s)"):format(style.seconds(mean),
    style.seconds(spread), style.seconds(best), runs,
    loops == 1 and "1 loop" or style.count(loops) .. " loops"))
end
