--- frontend/terminal.lua - messages as they look on a terminal.
--
-- A display that is updated is drawn over its older form while nothing else was
-- written since: for that, once there is such a display, print and the write of
-- files say so. What a terminal cannot show is left out.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local printers = {}

-- Displays at the end of the output: how many rows they take, and whose the
-- last ones are. nil: something else came after them.
local drawn
local clearing = false -- before the next output
local watching = false

local function forget() drawn = nil end

local function replace(library, name, f) library[name] = f end

-- From now on, whoever writes makes what is drawn old.
local function watch()
  if watching then return end
  local methods = getmetatable(io.stdout).__index
  for _, f in ipairs{{_G, "print"}, {io, "write"}, {os, "execute"},
                     {io, "popen"}, {methods, "write"}} do
    local library, name = f[1], f[2]
    local old = library[name]
    replace(library, name, function(...)
      if library ~= methods or ... == io.stdout or ... == io.stderr then
        forget()
      end
      return old(...)
    end)
  end
  watching = true
end

-- Rows that text takes, with lines folded at the terminal's width.
local function rows_of(text)
  local _, width = core.terminal_size()
  local rows = 0
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    line = line:gsub("\27%[[%d;]*m", "")
    local columns = utf8.len(line) or #line
    rows = rows + math.max(1, math.ceil(columns / width))
  end
  return rows
end

local function erase(rows)
  if rows > 0 then io.stdout:write(("\27[%dA\27[J"):format(rows)) end
end

local function draw(text, id)
  watch()
  local before = drawn or {rows = 0, last = 0}
  if clearing then
    erase(before.rows)
    before, clearing = {rows = 0, last = 0}, false
  end
  io.stdout:write(text, "\n")
  io.stdout:flush()
  local rows = rows_of(text)
  drawn = {rows = before.rows + rows, last = rows, id = id}
end

local function text_of(content)
  local text = content.data and content.data["text/plain"]
  if text == "" then return nil end
  return text
end

local function id_of(content)
  return content.transient and content.transient.display_id
end

-- The prompt has written the cell.
printers.execute_input = forget

function printers.execute_result(content)
  local text = text_of(content)
  if text then print(text) end
end

function printers.display_data(content)
  local text = text_of(content)
  if not text then return end
  if core.isatty(1) and core.terminal_size() then
    return draw(text, id_of(content))
  end
  print(text)
end

-- Drawn over the older one, or again below what came after it; where there is
-- no terminal the first form stands.
function printers.update_display_data(content)
  local text, id = text_of(content), id_of(content)
  if not text or not core.isatty(1) or not core.terminal_size() then return end
  if drawn and drawn.id == id and id ~= nil and not clearing then
    local rows, last = drawn.rows, drawn.last
    erase(last)
    drawn = {rows = rows - last, last = 0}
  end
  draw(text, id)
end

function printers.clear_output(content)
  if not drawn then return end
  clearing = true
  if content.wait then return end
  local rows = drawn.rows
  erase(rows)
  io.stdout:flush()
  drawn, clearing = nil, false
end

function printers.error(content)
  if #content.traceback > 0 then
    print(table.concat(content.traceback, "\n"))
  end
end

--- Prints a message.
return function(type, content)
  local f = printers[type]
  if f then f(content) end
end
