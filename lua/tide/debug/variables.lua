--- debug/variables.lua - what a debugger and a variable panel show of values.
--
-- A value that has parts gets a number, by which its parts are asked for. The
-- numbers hold until what halted goes on; none is used twice.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local json = require "tide.base.json"
local bundle = require "tide.show.bundle"
local cell = require "tide.console.cell"
local keywords = require "tide.assist.keywords"
local names = require "tide.assist.names"

local MOST = 500     -- parts of a table
local SOME = 8       -- of them in its text
local LONGEST = 200  -- characters of a value

local variables = {}

--- Are types told? JupyterLab shows them in place of the values.
variables.typed = true

-- number = {list = a function that lists {name =, value =, path =, key =},
-- set = function(item, value), env = what names in new values mean}
local references = {}
local last = 0

--- Forgets the numbers of values.
function variables.forget() references = {} end

local function refer(list, set, env)
  last = last + 1
  references[last] = {list = list, set = set, env = env}
  return last
end

local function known(reference)
  local r = references[reference]
  if not r then
    error(("there are no variables %d (any more)"):format(reference), 0)
  end
  return r
end

-- ---- values -----------------------------------------------------------------

local function is_plain(x)
  local meta = type(x) == "table" and debug.getmetatable(x)
  return type(x) == "table"
    and not (meta and (meta.__tostring or meta.__name))
end

-- Text of at most so many characters, in one line.
local function cut(text)
  text = json.utf8(text):gsub("\\?\n", "\\n")
  local stop = utf8.offset(text, LONGEST)
  return stop and text:sub(1, stop - 1) .. "..." or text
end

local function simple_text(x)
  if is_plain(x) then return next(x) == nil and "{}" or "{...}" end
  local ok, text = frontend.protected(function()
    return type(x) == "string" and ("%q"):format(x) or tostring(x)
  end)
  return cut(ok and text or "?")
end

-- The first parts of a table, by their order in it, which begins with [1].
local function table_text(t)
  local texts = {}
  for k, v in next, t do
    if #texts == SOME then
      texts[#texts + 1] = "..."
      break
    end
    local name = k ~= #texts + 1
      and (type(k) == "string" and k or "[" .. simple_text(k) .. "]") .. " = "
    texts[#texts + 1] = (name or "") .. simple_text(v)
  end
  return cut("{" .. table.concat(texts, ", ") .. "}")
end

local function text_of(x)
  return is_plain(x) and table_text(x) or simple_text(x)
end

local function by_name(a, b) return a.sort < b.sort end

-- The expression of a part: that of the whole and its key; nil where the key
-- cannot be written.
local function path_to(path, key)
  if not path then return nil end
  local kind = type(key)
  if kind == "string" and key:find "^[%a_][%w_]*$" and not keywords.page(key)
  then
    return path .. "." .. key
  elseif kind == "string" or kind == "number" then
    return ("%s[%q]"):format(path, key)
  elseif kind == "boolean" then
    return ("%s[%s]"):format(path, key)
  end
end

-- The parts of a table, raw: looking has no effects.
local function parts(t, path)
  return function()
    local list, n = {}, 0
    for k, v in next, t do
      n = n + 1
      if n <= MOST then
        local name = type(k) == "string" and k
          or "[" .. simple_text(k) .. "]"
        local number = math.type(k) == "integer"
        local sort = number and ("\0%020d"):format(k) or name
        list[n] = {name = name, value = v, key = k, sort = sort,
                   path = path_to(path, k)}
      end
    end
    table.sort(list, by_name)
    if n > MOST then
      list[#list + 1] = {name = "...", text = ("%d more"):format(n - MOST)}
    end
    return list
  end
end

-- As the client is told of it.
local function describe(item, env)
  local x, name = item.value, json.utf8(item.name)
  if item.text then
    return {name = name, value = item.text, variablesReference = 0}
  end
  local reference = 0
  if type(x) == "table" and next(x) ~= nil then
    reference = refer(parts(x, item.path), function(part, value)
      rawset(x, part.key, value)
    end, env)
  end
  return {name = name, value = text_of(x),
          type = variables.typed and (core.kind(x) or type(x)) or nil,
          evaluateName = item.path and json.utf8(item.path),
          variablesReference = reference}
end

local function describe_all(list, env, from, n)
  local out = json.array{}
  for i = from, math.min(#list, from + n - 1) do
    out[#out + 1] = describe(list[i], env)
  end
  return out
end

--- The parts of what the number stands for; `n` of them behind the first
-- `skipped`, where that is asked for.
function variables.list(reference, skipped, n)
  local r = known(reference)
  local all = n == nil or n == 0
  return describe_all(r.list(), r.env, (skipped or 0) + 1,
                      all and math.maxinteger // 2 or n)
end

local function user_names()
  local list = names.list()
  for _, e in ipairs(list) do e.path = e.name end
  return list
end

--- The names a user has made.
function variables.globals()
  local list = user_names()
  return describe_all(list, nil, 1, #list)
end

-- ---- frames -----------------------------------------------------------------

-- The names that were `local` in cells, where a cell is at their level.
local function of_cells(frame)
  local list = {}
  for i, name in ipairs(frame.is_cell and cell.names() or {}) do
    list[i] = {name = name, path = name, value = cell.env[name]}
  end
  return list
end

local function locals(co, frame)
  return function()
    local list, at, level = of_cells(frame), {}, frame.level()
    for i = 1, 250 do
      local name, value = debug.getlocal(co, level, i)
      if not name then break end
      if not name:find "^%(" then
        if not at[name] then
          list[#list + 1] = {name = name, path = name}
          at[name] = #list
        end
        local item = list[at[name]] -- an inner one hides the outer
        item.value, item.slot = value, i
      end
    end
    return list
  end
end

local function upvalues(frame)
  return function()
    local list = {}
    for i = 1, 255 do
      local name, value = debug.getupvalue(frame.func, i)
      if not name then break end
      if name ~= "_ENV" and name ~= "" then
        list[#list + 1] = {name = name, path = name, value = value, slot = i}
      end
    end
    return list
  end
end

local function set_local(co, frame)
  return function(item, value)
    if item.slot then
      debug.setlocal(co, frame.level(), item.slot, value)
    else
      cell.env[item.name] = value
    end
  end
end

local function set_upvalue(frame)
  return function(item, value)
    debug.setupvalue(frame.func, item.slot, value)
  end
end

-- What names mean that are neither locals nor upvalues.
local function globals_of(frame)
  for i = 1, 255 do
    local name, value = debug.getupvalue(frame.func, i)
    if not name then break end
    if name == "_ENV" and type(value) == "table" then return value end
  end
  return cell.env
end

--- What names mean in a frame of a coroutine that halted, to be read and set.
function variables.environment(co, frame)
  local base = globals_of(frame)
  local function find(name)
    for _, e in ipairs(locals(co, frame)()) do
      if e.name == name then return e, set_local(co, frame) end
    end
    for _, e in ipairs(upvalues(frame)()) do
      if e.name == name then return e, set_upvalue(frame) end
    end
  end
  return setmetatable({}, {
    __index = function(_, name)
      local e = find(name)
      if e then return e.value end
      return base[name]
    end,
    __newindex = function(_, name, value)
      local e, set = find(name)
      if e then set(e, value) else base[name] = value end
    end,
  })
end

local function set_global(item, value) cell.env[item.name] = value end

--- The scopes of a frame of a coroutine that halted.
function variables.scopes(co, frame)
  local env = variables.environment(co, frame)
  local function scope(name, list, set, hint)
    return {name = name, presentationHint = hint, expensive = false,
            variablesReference = refer(list, set, env)}
  end
  return json.array{
    scope("Locals", locals(co, frame), set_local(co, frame), "locals"),
    scope("Upvalues", upvalues(frame), set_upvalue(frame), "locals"),
    scope("Globals", user_names, set_global, "globals")}
end

-- ---- expressions ------------------------------------------------------------

--- The values of an expression, or of statements, in a frame's environment or
-- the cells'.
function variables.value(code, env)
  env = env or cell.env
  local chunk, why = load("return " .. code, "=expression", "t", env)
  if not chunk then
    local statements = load(code, "=expression", "t", env)
    if not statements then error(why, 0) end
    chunk = statements
  end
  return chunk()
end

--- What an expression gives, as the client is told of it.
function variables.evaluate(code, env)
  local values = table.pack(variables.value(code, env))
  local item = {name = "", value = values[1],
                path = "(" .. code .. ")"}
  local v = describe(item, env)
  local texts = {}
  for i = 1, values.n do texts[i] = text_of(values[i]) end
  return {result = table.concat(texts, "\t"), type = v.type,
          variablesReference = v.variablesReference}
end

--- Sets one of the variables of a number to the value of an expression.
function variables.set(reference, name, code)
  local r = known(reference)
  for _, item in ipairs(r.list()) do
    if item.name == name and not item.text then
      local value = variables.value(code, r.env)
      r.set(item, value)
      item.value = value
      return describe(item, r.env)
    end
  end
  error("there is no variable " .. name, 0)
end

--- A variable as a notebook shows it.
function variables.rich(name, env)
  local b = bundle((variables.value(name, env)))
  return {data = b.data, metadata = json.object(b.metadata)}
end

return variables
