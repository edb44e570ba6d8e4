--- progress.lua - a bar on the terminal for long loops.
--
--   for batch in td.progress(d:batches(100)) do ... end
--   for i in td.progress(1000, {title = "steps"}) do ... end
--
-- The bar is on stderr and drawn at most ten times a second; where stderr is no
-- terminal nothing is written.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"

local EVERY = 0.1 -- seconds between two drawings

local function clock_text(seconds)
  local s = math.floor(seconds + 0.5)
  if s >= 3600 then
    return ("%d:%02d:%02d"):format(s // 3600, s // 60 % 60, s % 60)
  end
  return ("%d:%02d"):format(s // 60, s % 60)
end

-- One line: title, bar, count, time gone and time left.
local function line(bar, now)
  local gone = now - bar.start
  local title = bar.title and bar.title .. " " or ""
  if not bar.total or bar.total == 0 then
    return ("%s%d, %s"):format(title, bar.done, clock_text(gone))
  end
  local share = math.min(1, bar.done / bar.total)
  local left = share > 0 and clock_text(gone / share - gone) or "?"
  local tail = (" %d/%d, %s left"):format(bar.done, bar.total, left)
  if share == 1 then
    tail = (" %d/%d, %s"):format(bar.done, bar.total, clock_text(gone))
  end
  local room = core.width() - #title - #tail - 3
  if room < 4 then return title .. tail end
  local full = math.floor(share * room)
  return ("%s[%s%s]%s"):format(title, ("#"):rep(full), ("."):rep(room - full),
                               tail)
end

local function draw(bar, force)
  if not bar.shown then return end
  local now = core.clock()
  if not force and now - bar.drawn < EVERY then return end
  bar.drawn = now
  io.stderr:write("\r", line(bar, now), "\27[K")
end

local function finish(bar)
  if bar.finished then return end
  bar.finished = true
  if bar.shown then
    draw(bar, true)
    io.stderr:write("\n")
  end
end

local function counter(n)
  local i = 0
  return function()
    i = i + 1
    if i <= n then return i end
  end
end

-- Length of an iterator that has one.
local function length(x)
  local meta = getmetatable(x)
  return type(meta) == "table" and meta.__len and #x or nil
end

--- Walks 1 .. n, or an iterator, showing how far it is.
-- @param x an integer or an iterator (with `#` where its length is known)
-- @param[opt] o title; total, where the iterator does not tell
return function(x, o)
  o = args.read(o, {"title", "total", "name"}, "progress")
  local step = math.type(x) == "integer" and counter(x) or x
  if step == nil or (type(step) ~= "function" and not (getmetatable(step)
     and getmetatable(step).__call)) then
    core.error("invalid_argument", "progress takes a number or an iterator")
  end
  local now = core.clock()
  local bar = {title = o.title or o.name, done = 0, start = now, drawn = now,
               total = o.total or (step ~= x and x) or length(x),
               shown = core.isatty(2)}
  local first = true
  local closing = setmetatable({}, {__close = function() finish(bar) end})
  local function next_item()
    if not first then bar.done = bar.done + 1 end
    first = false
    draw(bar)
    return step()
  end
  return next_item, nil, nil, closing
end
