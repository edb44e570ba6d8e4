--- console/watch.lua - looks on at the runs of sessions in cells.
--
-- While a console is there, each sess:run goes through this file. It keeps the
-- step that runs in the state of its line, so that %debug can show the fetches
-- and fed values of a step that failed. %profile puts a list `traces` into that
-- state; each run is then traced and its trace added to the list. A callable's
-- calls run without Lua and are not seen: when it is made, this file notes its
-- session, its fetches and the cell, "In[3]", that made it.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local lines = require "tide.frontend.lines"
local session = require "tide.run.session"

local watch = {}

--- By callable: {session =, fetches =, edges =, label = "In[3]", region = that
-- of its cell}. What has a finalizer, as what they are known by has, may not be
-- the key: it outlives in a weak table the regions that it holds.
watch.callables = setmetatable({}, {__mode = "k"})
local by_known = setmetatable({}, {__mode = "kv"})

local function with_trace(o)
  local out = {trace = true}
  for key, x in pairs(o or {}) do out[key] = x end
  return out
end

-- In place of `run` of a session.
local function observe(run, self, fetches, feeds, o)
  local line = lines.current()
  local asked = type(o) == "table" and o.trace
  line.step = {session = self, fetches = fetches, feeds = feeds}
  if line.traces and (o == nil or type(o) == "table") then o = with_trace(o) end
  local results, trace = run(self, fetches, feeds, o)
  line.step = nil
  if line.traces and trace then table.insert(line.traces, trace) end
  if asked then return results, trace end
  return results
end

local function made(callable, known, step)
  step.label = ("In[%d]"):format(lines.current().count)
  step.region = core.region_current()
  watch.callables[callable], by_known[known] = step, step
end

-- Are nodes that a callable is made of gone?
local function is_gone(step)
  for _, list in ipairs{step.fetches, step.edges} do
    for _, x in ipairs(list) do
      if core.is_gone(x) then return true end
    end
  end
  return false
end

-- A callable has failed, or a step that was started or is run in parts: what is
-- to be said beside the error.
local function failed(known, ...)
  local step = type(known) == "table" and known or by_known[known]
  if not step then return nil end
  local feeds, values = {}, step.values or {...}
  for i, x in ipairs(step.edges) do feeds[x] = values[i] end
  lines.current().step = {session = step.session,
                                     fetches = step.fetches, feeds = feeds}
  if not step.label or not is_gone(step) then return nil end
  return ("the callable was made by %s: run that cell again"):format(step.label)
end

--- From now on all runs are looked at.
function watch.install()
  session.observer, session.on_callable = observe, made
  session.on_failure(failed)
end

return watch
