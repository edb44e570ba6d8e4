--- show/live.lua - displays that change while a cell runs: charts, progress.
--
-- In a notebook the first change shows the object, later ones replace it where
-- it stands, at most four times a second, and the last one always, when the
-- cell ends. On a terminal each is a line below all that is printed, and
-- becomes a line of it at the end; how, the head of lua/bind_live.c says. Where
-- neither is, nothing is written.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local autoload = require "tide.base.autoload"
local display = require "tide.show.display"
local style = require "tide.show.style"

local lines = autoload "tide.frontend.lines"

local has_frontend = pcall(require, "tide.frontend")

local live = {}
live.__index = live

-- Those that stand on the terminal, by number.
local open = {}
local last = 0

local EVERY = 0.25 -- seconds between two updates in a notebook
local OFTEN = 0.1  -- on a terminal

--- What follows an object: `x` displays as it is now, in brief while x.moving;
-- `line(x)` is a line of text about it for a terminal.
function live.new(x, line)
  return setmetatable({x = x, line = line, shown = -math.huge}, live)
end

local function on_terminal()
  return style.frontend() ~= "notebook" and core.isatty(2)
    and os.getenv "TERM" ~= "dumb"
end

-- Has the end of the cell show what is left. Gives what takes that back.
local function at_end(self)
  if not has_frontend then return function() end end
  return lines.at_end(function() self:finish() end)
end

local function show_notebook(self)
  if self.id then
    display.update_display(self.id, self.x)
  else
    self.id = display.display(self.x, {id = true})
  end
end

-- ---- the terminal ----------------------------------------------------------

local aside = setmetatable({}, {
  __close = function() core.live_aside(false) end,
})

-- A child has the terminal for itself while this program waits for it.
local function replace(library, name)
  local f = library[name]
  library[name] = function(...)
    local _ <close> = aside
    core.live_aside(true)
    return f(...)
  end
end

local function make_way()
  if live.makes_way then return end
  live.makes_way = true
  replace(os, "execute")
  replace(io, "popen")
end

local function text_of(self)
  return style.cut(self.line(self.x):gsub("%c", " "), core.width() - 1)
end

local function show_terminal(self)
  if not self.number then
    make_way()
    last = last + 1
    self.number = last
    open[last] = self
  end
  core.live_show(self.number, text_of(self))
end

-- ---- both ------------------------------------------------------------------

-- `brief`: more is to come.
local function show(self, brief)
  self.shown, self.behind = core.clock(), brief
  self.x.moving = brief
  if style.frontend() == "notebook" then
    show_notebook(self)
  elseif on_terminal() then
    show_terminal(self)
  end
  self.x.moving = false
end

--- The object has changed.
function live:change()
  local now = core.clock()
  self.take_back = self.take_back or at_end(self)
  self.behind = true
  local every = style.frontend() == "notebook" and EVERY or OFTEN
  if now - self.shown >= every then show(self, true) end
end

--- There is no more to come: shows what has not been shown.
function live:finish()
  if self.behind then show(self, false) end
  if self.number then
    open[self.number] = nil
    core.live_end(self.number, text_of(self))
    self.number = nil
  end
  if self.take_back then self.take_back() end
  self.take_back = nil
end

--- A program ends: so do the lines on its terminal.
function live.finish_all()
  local numbers = {}
  for n in pairs(open) do numbers[#numbers + 1] = n end
  table.sort(numbers)
  for _, n in ipairs(numbers) do open[n]:finish() end
end

-- A program that just stops, without tide's command around it.
live.stop = setmetatable({}, {__gc = live.finish_all})

return live
