--- script/progress.lua - a bar for long loops, on a terminal and in a notebook.
--
--   for batch in td.progress(d:batches(100)) do ... end
--   for i in td.progress(1000, {title = "steps"}) do ... end
--
-- On a terminal the bar is on stderr and drawn at most ten times a second, in a
-- notebook four times; elsewhere nothing is written.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local html = require "tide.show.html"
local live = require "tide.show.live"
local style = require "tide.show.style"
local svg = require "tide.show.svg"

local BAR, HIGH = 240, 12 -- pixels

local function clock_text(seconds)
  local s = math.floor(seconds + 0.5)
  if s >= 3600 then
    return ("%d:%02d:%02d"):format(s // 3600, s // 60 % 60, s % 60)
  end
  return ("%d:%02d"):format(s // 60, s % 60)
end

-- How far it is: "30/100, 0:05 left".
local function count_text(bar)
  local gone = core.clock() - bar.start
  if not bar.total or bar.total == 0 then
    return ("%d, %s"):format(bar.done, clock_text(gone))
  end
  local share = math.min(1, bar.done / bar.total)
  if share == 1 then
    return ("%d/%d, %s"):format(bar.done, bar.total, clock_text(gone))
  end
  return ("%d/%d, %s left"):format(bar.done, bar.total,
    share > 0 and clock_text(gone / share - gone) or "?")
end

-- One line: title, bar, count, time gone and time left.
local function line(bar)
  local title = bar.title and bar.title .. " " or ""
  local tail = count_text(bar)
  if not bar.total or bar.total == 0 then return title .. tail end
  local room = style.terminal_width() - style.columns(title) - #tail - 4
  if room < 4 then return title .. " " .. tail end
  local full = math.floor(math.min(1, bar.done / bar.total) * room)
  return ("%s[%s%s] %s"):format(title, ("#"):rep(full), ("."):rep(room - full),
                                tail)
end

local class = {__name = "progress", __tostring = line}

function class.__repr_html(bar)
  local picture = ""
  if bar.total and bar.total > 0 then
    local d = svg.drawing(BAR, HIGH, "#dddddd")
    d:rect(0, 0, BAR * math.min(1, bar.done / bar.total), HIGH,
           {fill = bar.done >= bar.total and "#2e8b57" or "#2166ac"})
    picture = d:image("progress") .. " "
  end
  return ("<div>%s%s%s</div>"):format(bar.title
    and html.escape(bar.title) .. " " or "", picture,
    html.escape(count_text(bar)))
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
  x = math.tointeger(x) or x
  local step = math.type(x) == "integer" and counter(x) or x
  if step == nil or (type(step) ~= "function" and not (getmetatable(step)
     and getmetatable(step).__call)) then
    core.error("invalid_argument", ("progress takes a number or an iterator "
      .. "such as d:batches(100), not %s"):format(args.what(x)))
  end
  local bar = setmetatable({title = o.title or o.name, done = 0,
    start = core.clock(), total = o.total or (step ~= x and x) or length(x)},
    class)
  local shown, first = live.new(bar, line), true
  local closing = setmetatable({}, {__close = function() shown:finish() end})
  -- Where nothing comes, it was all: a total that was told was wrong, if it is
  -- not what came.
  local function pass(...)
    if ... == nil then
      bar.total = bar.total and bar.done
      shown:finish()
    end
    return ...
  end
  local function next_item()
    if not first then bar.done = bar.done + 1 end
    first = false
    shown:change()
    return pass(step())
  end
  return next_item, nil, nil, closing
end
