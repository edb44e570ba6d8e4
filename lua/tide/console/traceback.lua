--- console/traceback.lua - an error as it is shown.
--
-- The message, then the user's frames with their lines of source, innermost
-- first; those of the library and of C are left out. An error of Tide also
-- shows the line that made its node.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local paint = require "tide.console.paint"
local sources = require "tide.console.sources"

local traceback = {}

local AROUND = 2  -- lines before and after the one that is meant
local MOST = 20   -- frames shown

-- ---- passing on -------------------------------------------------------------

local relay = {}

--- Raises again what frontend.protected caught, with where it was raised; for
-- code that has to put something back in between.
function traceback.raise(err, frames, interrupted)
  error(setmetatable({err, frames, interrupted}, relay), 0)
end

--- The first such error: what was raised, its frames, whether by an interrupt.
function traceback.first(err, frames, interrupted)
  while getmetatable(err) == relay do
    err, frames, interrupted = err[1], err[2], err[3]
  end
  return err, frames, interrupted
end

-- ---- what it is called ------------------------------------------------------

--- The text of anything that was raised; never raises.
function traceback.text(err)
  local ok, text = frontend.protected(tostring, err)
  if ok then return ("%s"):format(text) end
  local why = type(text) == "string" and text or type(text)
  return ("an error object whose __tostring fails (%s)"):format(why)
end

local function is_tide(err)
  return debug.getmetatable(err) == debug.getregistry()["tide.error"]
end

-- "invalid_argument" -> "InvalidArgumentError"
local function camel(code)
  return (("_" .. code):gsub("_(%a)", string.upper)) .. "Error"
end

-- What TensorFlow's users and front ends know it as.
local function name_of(err)
  if type(err) ~= "table" and type(err) ~= "userdata" then return "Error" end
  if is_tide(err) and type(err.code) == "string" then return camel(err.code) end
  local meta = debug.getmetatable(err)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name or "Error"
end

local function value_of(err)
  local text = traceback.text(err)
  if type(err) == "table" and text:find "^table: " then
    return "an error object: a table without __tostring"
  end
  return text
end

-- ---- where ------------------------------------------------------------------

local function is_user(frame)
  return frame.line > 0 and not frame.source:find "^=%["
    and frame.source ~= "=?"
end

-- Lines around line n of a chunk, with an arrow at it.
local function excerpt(lines, source, n)
  local from = math.max(1, n - AROUND)
  local list = sources.lines(source, from, n + AROUND)
  if not list or not list[n - from + 1] then return end
  local width = #tostring(from + #list - 1)
  for i, text in ipairs(list) do
    local k = from + i - 1
    local here = k == n
    lines[#lines + 1] = ("%s %s %s"):format(
      here and paint.arrow "  -->" or "     ",
      paint.number(("%" .. width .. "d"):format(k)), paint.lua(text))
  end
end

local function called(frame)
  if frame.what == "main" or not frame.name then return "" end
  return ", in " .. paint.name(frame.name)
end

local function add_frames(lines, frames)
  local shown = 0
  for _, f in ipairs(frames) do
    if is_user(f) then
      shown = shown + 1
      if shown > MOST then
        lines[#lines + 1] = "  ..."
        return
      end
      lines[#lines + 1] = ("  %s%s"):format(
        paint.place(f.short_src .. ":" .. f.line), called(f))
      excerpt(lines, f.source, f.line)
    end
  end
end

--- The lines about where a node was made ("In[3]:12").
function traceback.origin(where)
  local source, n = tostring(where or ""):match "^(.*):(%d+)$"
  if not source then return {} end
  local lines = {"  made at " .. paint.place(where)}
  excerpt(lines, source, tonumber(n))
  return lines
end

-- The line that made the node of an error of Tide, unless a frame shows it.
local function add_origin(lines, err, frames)
  if not is_tide(err) then return end
  for _, f in ipairs(frames) do
    if f.short_src .. ":" .. f.line == err.where then return end
  end
  if not err.node then return end
  lines[#lines + 1] = ("  node %s"):format(paint.strong(err.node))
  for _, line in ipairs(traceback.origin(err.where)) do
    lines[#lines + 1] = line
  end
end

-- How many frames there are down to the user's outermost; below is who called
-- the cell.
local function depth(frames)
  for i = #frames, 1, -1 do
    if is_user(frames[i]) then return i end
  end
  return #frames
end

--- The lines of all frames of a cell, those of C and the library too.
function traceback.all(frames)
  local lines = {}
  for i = 1, depth(frames) do
    local f = frames[i]
    local where = f.line > 0 and f.short_src .. ":" .. f.line or f.short_src
    lines[#lines + 1] = "  " .. where .. called(f)
  end
  return lines
end

--- Name, value and lines of a cell that is no Lua, by the parser's message.
function traceback.syntax(why)
  local lines = {paint.failure "SyntaxError" .. ": " .. why}
  local source, n = why:match "^([^\n]-):(%d+):"
  if source then excerpt(lines, source, tonumber(n)) end
  return "SyntaxError", why, lines
end

--- Name, value and lines of an error: of what was raised, the frames it was
-- raised in (tide.frontend), and whether an interrupt did it.
function traceback.describe(err, frames, interrupted)
  err, frames, interrupted = traceback.first(err, frames, interrupted)
  local name, value = "KeyboardInterrupt", "interrupted"
  if not interrupted then name, value = name_of(err), value_of(err) end
  local lines = {interrupted and paint.failure(value)
                 or paint.failure(name) .. ": " .. value}
  add_frames(lines, frames)
  if not interrupted then add_origin(lines, err, frames) end
  return name, value, lines
end

return traceback
