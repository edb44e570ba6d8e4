--- debug/halts.lua - threads that a debugger halts, their frames and steps.
--
-- Lines are looked at only while there are breakpoints or a step is under way.
-- A line that halts waits in frontend.pause; the debugger's own line reads its
-- stack meanwhile. What is computed while it looks (a condition) runs in a
-- coroutine: within a hook there are no hooks, so nothing could interrupt it.
-- Nothing here may use frontend.protected, which forgets an interrupt.
-- SPDX-License-Identifier: Apache-2.0

local breakpoints = require "tide.debug.breakpoints"
local lines = require "tide.frontend.lines"
local files = require "tide.debug.files"
local frontend = require "tide.frontend"
local json = require "tide.base.json"
local system = require "tide.console.system"
local variables = require "tide.debug.variables"

local MAIN = 1          -- the number of the first line's thread
local MOST_LEVELS = 200 -- of a stack that are shown
local DEEPEST = 1000    -- of one whose errors halt: a walk takes their square

local halts = {}

--- The names of lines and their numbers as threads.
halts.threads = {[""] = MAIN}

local started = false
local uncaught = false -- halt where an error is raised that ends the cell?
local halted = {}      -- thread = {thread =, co =, frames =, go =, ..}
local steps = {}       -- thread = {kind =, co =, depth =}
local thinking = {}    -- thread = true while a condition is computed
local attended = {}    -- thread = true when the end of its cell is attended to
local last_frame = 0   -- the last frame's number: no two are alike
local seq = 0

--- The next number of what goes to the debugger's client.
function halts.next_seq()
  seq = seq + 1
  return seq
end

--- Sends an event to the client, whatever else the line's output goes to.
function halts.event(name, body)
  frontend.publish("debug_event",
                json.encode{seq = halts.next_seq(), type = "event",
                            event = name, body = json.object(body)})
end

local function thread_here()
  local line, threads = frontend.line(), halts.threads
  if not threads[line] then
    local n = MAIN
    for _ in pairs(threads) do n = n + 1 end
    threads[line] = n
  end
  return threads[line]
end

-- ---- the stack --------------------------------------------------------------

local look, raised

-- How many levels the stack has.
local function height_of(co)
  local low, high = 0, 1
  while debug.getinfo(co, high, "l") do low, high = high, high * 2 end
  while high - low > 1 do
    local middle = (low + high) // 2
    if debug.getinfo(co, middle, "l") then low = middle else high = middle end
  end
  return high
end

-- The level of the user's innermost function: the one below where it halts,
-- wherever what is above it has got to.
local function top_of(co)
  local level = 0
  while true do
    local info = debug.getinfo(co, level, "f")
    if not info then error("it runs again", 0) end
    level = level + 1
    if info.func == look or info.func == raised then return level end
  end
end

local function depth_of(co) return height_of(co) - top_of(co) end

-- The frame `below` levels under the innermost; nil where there is none.
local function frame_at(co, below)
  local info = debug.getinfo(co, top_of(co) + below, "nSlf")
  if not info then return nil end
  local is_chunk = info.what == "main"
  local is_cell = is_chunk and info.source:find "^=In%[" ~= nil
  return {path = files.path(info.source), line = info.currentline,
          name = is_cell and "cell" or is_chunk and "file" or info.name
            or "function",
          is_cell = is_cell, func = info.func,
          level = function() return top_of(co) + below end}
end

-- The user's frames, the innermost first.
local function frames_of(co)
  local frames = {}
  for below = 0, MOST_LEVELS do
    local frame = frame_at(co, below)
    if not frame then break end
    if frame.path then frames[#frames + 1] = frame end
  end
  return frames
end

-- Gives the frames of a place numbers, besides those they had.
local function number_frames(place)
  place.by_number = place.by_number or {}
  for _, frame in ipairs(place.frames) do
    last_frame = last_frame + 1
    frame.id = last_frame
    place.by_number[last_frame] = frame
  end
end

-- ---- what is looked for -----------------------------------------------------

local function attend()
  local wanted = breakpoints.any() or next(steps)
  frontend.debug(started and wanted and look or nil,
              started and uncaught and raised or nil)
end

--- Begins to look, or ends it; with the end nothing is looked for any more.
function halts.start(on)
  started = on
  if not on then
    breakpoints.clear()
    steps, uncaught = {}, false
    for thread in pairs(halted) do
      if not halted[thread].go then halts.go_on(thread) end
    end
  end
  attend()
end

--- Is a debugger there?
function halts.started() return started end

--- Sets the breakpoints of a file; see breakpoints.set.
function halts.set_breakpoints(path, list)
  local answers = breakpoints.set(path, list)
  attend()
  return answers
end

--- Halts where errors are raised that nobody catches, or no longer.
function halts.set_uncaught(on)
  uncaught = on
  attend()
end

-- ---- halting ----------------------------------------------------------------

local function release(place)
  if halted[place.thread] ~= place then return end
  halted[place.thread] = nil
  if not next(halted) then variables.forget() end
  if not place.go then
    halts.event("continued", {threadId = place.thread,
                              allThreadsContinued = false})
  end
end

-- A step ends with its cell at the latest, and so does what an interrupt left.
local function attend_to_end(thread)
  if attended[thread] then return end
  attended[thread] = true
  lines.at_end(function()
    attended[thread], thinking[thread], steps[thread] = nil, nil, nil
    if halted[thread] then release(halted[thread]) end
    attend()
  end)
end

local function halt(reason, about)
  if frontend.interrupted() then return end
  local thread = thread_here()
  steps[thread] = nil
  attend_to_end(thread)
  local place = about or {}
  place.thread, place.co = thread, coroutine.running()
  halted[thread] = place
  halts.event("stopped", {reason = reason, threadId = thread,
                          allThreadsStopped = false, text = place.text,
                          hitBreakpointIds = place.hit})
  while not place.go and not frontend.interrupted() do frontend.pause() end
  release(place)
end

-- Computes expressions in the innermost frame of the line that looks.
local function here(thread)
  local co = coroutine.running()
  local env = variables.environment(co, frame_at(co, 0))
  attend_to_end(thread)
  return function(code)
    thinking[thread] = true
    local aside = coroutine.create(variables.value)
    local ok, x = coroutine.resume(aside, code, env)
    thinking[thread] = nil
    return ok, x
  end
end

-- At the line of a breakpoint: halts, says something or passes by.
local function meet(point, thread)
  local plain = not (point.condition or point.enough or point.message)
  local value = not plain and here(thread)
  local holds, why = true, nil
  if not plain then holds, why = breakpoints.holds(point, value) end
  if not holds then return false end
  if point.message and not why then
    local text = breakpoints.message(point, value)
    halts.event("output", {category = "console", line = point.line,
                           output = json.utf8(text) .. "\n"})
    return false
  end
  halt("breakpoint", {text = why and json.utf8(why),
                      hit = json.array{point.id}})
  return true
end

-- Is a step of this thread over at this line? A coroutine that has ended or
-- given way ends it in the one that resumed it.
local function step_ends(step)
  if step.kind == "in" or step.kind == "pause" then return true end
  local co = coroutine.running()
  if co ~= step.co then return coroutine.status(step.co) ~= "normal" end
  local depth = depth_of(co)
  return depth < step.depth or (step.kind == "next" and depth == step.depth)
end

-- Called at each line of the user's, while there is something to look for.
function look(source, line)
  local path = files.path(source)
  local thread = path and thread_here()
  if not path or thinking[thread] then return end
  local point = breakpoints.at(path, line)
  if point and meet(point, thread) then return end
  local step = steps[thread]
  if step and step_ends(step) then
    halt(step.kind == "pause" and "pause" or "step")
  end
end

-- Does the innermost protected call of the stack run a cell?
local function ends_cell(co)
  for level = top_of(co), DEEPEST do
    local info = debug.getinfo(co, level, "f")
    if not info then return false end
    if info.func == frontend.protected then
      local runs = debug.getinfo(co, level - 1, "S")
      return runs.source == "=[tide] services/execute.lua"
    end
  end
end

-- Called where an error was raised, before the stack is left.
function raised(err)
  local co = coroutine.running()
  if system.exit_code(err) or not ends_cell(co) then return end
  local ok, text = pcall(tostring, err)
  halt("exception", {text = json.utf8(ok and text or "?"), exception = true})
end

-- ---- what a client asks -----------------------------------------------------

--- The numbers of the threads that are halted, in order.
function halts.list()
  local list = json.array{}
  for thread, place in pairs(halted) do
    if not place.go then list[#list + 1] = thread end
  end
  table.sort(list)
  return list
end

--- The place where a thread halted, with its frames.
function halts.place(thread)
  local place = halted[thread]
  if not place or place.go then
    error(("thread %d is not halted: it runs or is idle"):format(thread), 0)
  end
  if not place.frames then
    place.frames = frames_of(place.co)
    place.depth = depth_of(place.co)
    place.changed = true
  end
  if place.changed then number_frames(place) end
  place.changed = false
  return place
end

--- The place and the frame of a number.
function halts.frame(id)
  for _, place in pairs(halted) do
    local frame = not place.go and place.by_number and place.by_number[id]
    if frame then return place, frame end
  end
  error(("there is no frame %d (any more)"):format(id), 0)
end

--- Something may have changed in what is halted: from now on its frames have
-- other numbers, by which JupyterLab sees that it has to look again.
function halts.changed()
  for _, place in pairs(halted) do place.changed = true end
end

--- Lets a thread go on, to the end of a step ("next", "in", "out") or for good.
-- That it does is told first: the next halt may come at once.
function halts.go_on(thread, kind)
  local place = halts.place(thread)
  steps[thread] = kind and {kind = kind, co = place.co, depth = place.depth}
  attend()
  halts.event("continued", {threadId = thread, allThreadsContinued = false})
  place.go = true
  frontend.resume()
end

--- Halts a thread at its next line, or that of the next cell.
function halts.pause(thread)
  if halted[thread] and not halted[thread].go then
    error(("thread %d is halted already"):format(thread), 0)
  end
  steps[thread] = {kind = "pause"}
  attend()
end

return halts
