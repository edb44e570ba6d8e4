--- console/variables.lua - what a debugger and a variable panel show of values.
--
-- A value that has parts gets a number, by which its parts are asked for. The
-- numbers hold until what halted goes on.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local front = require "tide.front"
local json = require "tide.json"
local bundle = require "tide.console.bundle"
local cell = require "tide.console.cell"
local names = require "tide.console.names"

local MOST = 500     -- parts of a table
local LONGEST = 200  -- characters of a value

local variables = {}

local references = {} -- number = function that lists {name, value} pairs

--- Forgets the numbers of values.
function variables.forget() references = {} end

local function refer(list)
  references[#references + 1] = list
  return #references
end

-- ---- values -----------------------------------------------------------------

local function text_of(x)
  local ok, text = front.protected(function()
    return type(x) == "string" and ("%q"):format(x) or tostring(x)
  end)
  text = json.utf8(ok and text or "?")
  local stop = utf8.offset(text, LONGEST)
  return stop and text:sub(1, stop - 1) .. "..." or text
end

local function by_name(a, b) return a.sort < b.sort end

-- The parts of a table, raw: looking has no effects.
local function parts(t)
  return function()
    local list = {}
    for k, v in next, t do
      if #list >= MOST then break end
      local is_name = type(k) == "string"
      local name = is_name and k or "[" .. text_of(k) .. "]"
      local sort = math.type(k) == "integer" and ("\0%020d"):format(k) or name
      list[#list + 1] = {name = name, value = v, sort = sort}
    end
    table.sort(list, by_name)
    return list
  end
end

local function variable(name, x)
  local has_parts = type(x) == "table" and next(x) ~= nil
  return {name = json.utf8(name), value = text_of(x),
          type = core.kind(x) or type(x), evaluateName = json.utf8(name),
          variablesReference = has_parts and refer(parts(x)) or 0}
end

local function describe(list)
  local out = json.array{}
  for i, e in ipairs(list) do out[i] = variable(e.name, e.value) end
  return out
end

--- The parts of what the number stands for.
function variables.list(reference)
  local list = references[reference]
  if not list then error("no such variables (any more)", 0) end
  return describe(list())
end

--- The names a user has made.
function variables.globals()
  return describe(names.list())
end

-- ---- frames -----------------------------------------------------------------

local function locals(co, frame)
  return function()
    local list, at, level = {}, {}, frame.level()
    for i = 1, 250 do
      local name, value = debug.getlocal(co, level, i)
      if not name then break end
      if not name:find "^%(" then
        if not at[name] then
          at[name] = #list + 1
          list[#list + 1] = {name = name}
        end
        list[at[name]].value = value -- an inner one hides the outer
      end
    end
    return list
  end
end

local function upvalues(frame)
  return function()
    local list = {}
    for i = 1, 250 do
      local name, value = debug.getupvalue(frame.func, i)
      if not name then break end
      if name ~= "_ENV" and name ~= "" then
        list[#list + 1] = {name = name, value = value}
      end
    end
    return list
  end
end

--- The scopes of a frame of a coroutine that halted.
function variables.scopes(co, frame)
  local function scope(name, list, hint)
    return {name = name, presentationHint = hint, expensive = false,
            variablesReference = refer(list)}
  end
  return json.array{scope("Locals", locals(co, frame), "locals"),
                    scope("Upvalues", upvalues(frame), "locals"),
                    scope("Globals", names.list, "globals")}
end

--- What names mean in a frame, to be read.
function variables.environment(co, frame)
  local env = {}
  for _, e in ipairs(upvalues(frame)()) do env[e.name] = e.value end
  for _, e in ipairs(locals(co, frame)()) do env[e.name] = e.value end
  return setmetatable(env, {__index = cell.env, __newindex = cell.env})
end

-- ---- expressions ------------------------------------------------------------

local function value_of(code, env)
  if type(code) ~= "string" then error("an expression is a string", 0) end
  local chunk = load("return " .. code, "=expression", "t", env or cell.env)
  local why
  if not chunk then
    chunk, why = load(code, "=expression", "t", env or cell.env)
  end
  if not chunk then error(why, 0) end
  return (chunk())
end

--- The value of an expression, in a frame's environment or the cells'.
function variables.evaluate(code, env)
  local v = variable("", value_of(code, env))
  return {result = v.value, type = v.type,
          variablesReference = v.variablesReference}
end

--- A variable as a notebook shows it.
function variables.rich(name, env)
  local b = bundle(value_of(name, env))
  return {data = b.data, metadata = json.object(b.metadata)}
end

return variables
