--- console/watch.lua - looks on at the runs of sessions in cells.
--
-- What is running is noted, so that %debug can tell about a step that failed;
-- while a line's state has `traces`, each run is traced into that list.
-- SPDX-License-Identifier: Apache-2.0

local console = require "tide.console"
local front = require "tide.front"

local watch = {}

local function with_trace(o)
  local out = {trace = true}
  for key, x in pairs(o or {}) do out[key] = x end
  return out
end

--- In place of `run` of a session.
function watch.observe(run, self, fetches, feeds, o)
  local line = console.line(front.line())
  local asked = type(o) == "table" and o.trace
  line.step = {session = self, fetches = fetches, feeds = feeds}
  if line.traces and (o == nil or type(o) == "table") then o = with_trace(o) end
  local results, trace = run(self, fetches, feeds, o)
  line.step = nil
  if line.traces and trace then table.insert(line.traces, trace) end
  if asked then return results, trace end
  return results
end

return watch
