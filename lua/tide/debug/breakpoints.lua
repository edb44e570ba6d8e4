--- debug/breakpoints.lua - where a debugger halts, and on what conditions.
--
-- A breakpoint in a line without code moves to the next one that has some. What
-- cannot be one is refused with the reason; where the text is not known yet, it
-- waits for it. Source: SourceBreakpoint in the Debug Adapter Protocol.
-- SPDX-License-Identifier: Apache-2.0

local files = require "tide.debug.files"
local json = require "tide.base.json"

local breakpoints = {}

local all = {} -- path = {[line] = breakpoint}
local last = 0 -- the last one's number

-- ---- hits -------------------------------------------------------------------

local enough = {
  ["="] = function(n, m) return n == m end,
  ["=="] = function(n, m) return n == m end,
  ["<"] = function(n, m) return n < m end,
  ["<="] = function(n, m) return n <= m end,
  [">"] = function(n, m) return n > m end,
  [">="] = function(n, m) return n >= m end,
  ["%"] = function(n, m) return m > 0 and n % m == 0 end,
}

-- A function of the number of hits so far: is it one to halt at?
local function read_hits(text)
  local mark, digits = text:match "^%s*([<>=%%]*)%s*(%d+)%s*$"
  local f, m = enough[mark == "" and "=" or mark], math.tointeger(digits)
  if not f or not m then return nil end
  return function(n) return f(n, m) end
end

-- ---- setting ----------------------------------------------------------------

-- The text of an optional member; nil where it is empty.
local function optional(b, name)
  local x = b[name]
  if x == nil or x == json.null or x == "" then return nil end
  if type(x) ~= "string" then
    error(("%s: a string is expected, not a %s"):format(name, type(x)), 0)
  end
  return x
end

-- The line that b is moved to. Without known lines it stays where it is.
local function line_with_code(line, active)
  if not active or active[line] then return line end
  local best
  for candidate in pairs(active) do
    if candidate > line and (not best or candidate < best) then
      best = candidate
    end
  end
  if not best then
    error(("no line from %d on has code"):format(line), 0)
  end
  return best
end

-- The breakpoint that b asks for; raises why it cannot be.
local function read(b, active)
  local line = type(b) == "table" and math.tointeger(b.line)
  if not line or line < 1 then
    error("a breakpoint has a line, a whole number from 1", 0)
  end
  local point = {line = line_with_code(line, active), hits = 0,
                 condition = optional(b, "condition"),
                 message = optional(b, "logMessage")}
  if point.condition then
    local ok, why = load("return " .. point.condition, "=condition", "t")
    if not ok then error(why, 0) end
  end
  local hits = optional(b, "hitCondition")
  point.enough = hits and read_hits(hits)
  if hits and not point.enough then
    error(("hitCondition: a number after ==, >, >=, <, <= or %% is expected, "
           .. "not %q"):format(hits), 0)
  end
  return point
end

--- Sets those of a file in place of the ones before. The answer to each:
-- {id =, verified =, line =, message =}.
function breakpoints.set(path, list)
  local active, why = files.lines(path)
  local points, answers = {}, json.array{}
  for i, b in ipairs(list) do
    last = last + 1
    local ok, point = pcall(read, b, active)
    local answer = {id = last, verified = ok and not why, message = why,
                    source = {path = path}}
    if ok then
      point.id = last
      points[point.line] = point
      answer.line = point.line
    else
      answer.message = point
      answer.line = type(b) == "table" and math.tointeger(b.line) or nil
    end
    answers[i] = answer
  end
  all[path] = next(points) and points or nil
  return answers
end

--- Removes them all.
function breakpoints.clear() all = {} end

--- Is there any?
function breakpoints.any() return next(all) ~= nil end

--- {{source = path, breakpoints = {{line =, ..}, ..}}, ..}
function breakpoints.list()
  local list = json.array{}
  for path, points in pairs(all) do
    local of_file = json.array{}
    for line, p in pairs(points) do
      of_file[#of_file + 1] = {id = p.id, line = line, verified = true,
                               condition = p.condition, logMessage = p.message,
                               source = {path = path}}
    end
    table.sort(of_file, function(a, b) return a.line < b.line end)
    list[#list + 1] = {source = path, breakpoints = of_file}
  end
  table.sort(list, function(a, b) return a.source < b.source end)
  return list
end

-- ---- hitting ----------------------------------------------------------------

--- The breakpoint of a line, or nil.
function breakpoints.at(path, line)
  local points = all[path]
  return points and points[line]
end

--- Does the breakpoint hold here? `value` computes an expression in the frame:
-- true and the value, or false and why there is none. Where that fails, it
-- holds, and why is the second result.
function breakpoints.holds(point, value)
  if point.condition then
    local ok, x = value(point.condition)
    if not ok then
      return true, ("the condition %s fails: %s"):format(point.condition,
                                                         tostring(x))
    end
    if not x then return false end
  end
  point.hits = point.hits + 1
  return not point.enough or point.enough(point.hits)
end

--- The message of a breakpoint that only says something, with {expression}s
-- replaced by their values.
function breakpoints.message(point, value)
  return (point.message:gsub("{(.-)}", function(code)
    local _, x = value(code)
    local ok, text = pcall(tostring, x)
    return ok and text or "?"
  end))
end

return breakpoints
