--- show/live.lua - displays that change while a cell runs: charts, progress.
--
-- In a notebook the first change shows the object, later ones replace it where
-- it stands, at most four times a second, and the last one always, when the
-- cell ends. On a terminal one line is written over and over. Where neither is,
-- nothing is written.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local autoload = require "tide.base.autoload"
local display = require "tide.show.display"
local html = require "tide.show.html"
local style = require "tide.show.style"

local lines = autoload "tide.frontend.lines"

local has_frontend = pcall(require, "tide.frontend")

local live = {}
live.__index = live

local EVERY = 0.25 -- seconds between two updates in a notebook
local OFTEN = 0.1  -- on a terminal

--- What follows an object: `x` displays as it is now, in brief while x.moving;
-- `line(x)` is a line of text about it for a terminal.
function live.new(x, line)
  return setmetatable({x = x, line = line, shown = -math.huge}, live)
end

local function on_terminal()
  return style.frontend() ~= "notebook" and core.isatty(2)
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

local function show_terminal(self)
  local text = html.cut(self.line(self.x), core.width() - 1)
  io.stderr:write("\r", text, "\27[K")
end

-- `brief`: more is to come.
local function show(self, brief)
  self.shown, self.behind = core.clock(), brief
  self.x.moving = brief
  if style.frontend() == "notebook" then
    show_notebook(self)
  elseif on_terminal() then
    show_terminal(self)
    self.open = true
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
  if self.open then io.stderr:write "\n" end
  self.open = false
  if self.take_back then self.take_back() end
  self.take_back = nil
end

return live
