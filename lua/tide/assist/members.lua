--- assist/members.lua - what things have: fields, methods, and what they are.
--
-- Tables are walked raw, through tables that are __index; a type of the user's
-- may offer names by a metamethod `__complete`, a list or a function that
-- gives one, which is run for a moment only.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local infer = require "tide.assist.infer"
local known = require "tide.assist.known"
local library = require "tide.help.lua_library"
local functions = require "tide.help.functions"
local shapes = require "tide.tensor.shape"

local members = {}

-- So many fields of a table are looked at.
local MOST = 20000
-- How many instructions __complete may run, and how often a hook looks.
local INSTRUCTIONS, STEP = 1000000, 1000

-- ---- what a thing is ------------------------------------------------------

local object_types = {["x:"] = "tensor", edge = "tensor", tensor = "tensor",
                      ["op:"] = "op", ["W:"] = "variable",
                      ["W[key]:"] = "variable", ["function"] = "function",
                      module = "module"}

local libraries = {}
for _, name in ipairs{"string", "table", "math", "io", "os", "utf8",
                      "coroutine", "debug", "package", "_G"} do
  libraries[package.loaded[name]] = true
end

--- Is that one of Lua's own libraries?
function members.is_library(x) return libraries[x] or false end

--- The type of a thing as completion shows it; nil where nothing is known.
function members.type(thing)
  if thing.is then return object_types[thing.is] or "instance" end
  local x = thing.value
  if type(x) == "function" then return "function" end
  if type(x) == "table" then
    if thing.module or libraries[x] then return "module" end
    local meta = debug.getmetatable(x)
    return meta and rawget(meta, "__call") ~= nil and "class" or "instance"
  end
  return x ~= nil and "instance" or nil
end

-- "(a, b, ...)" of a function written in Lua.
local function declared(f)
  local info = debug.getinfo(f, "u")
  local names = {}
  for i = 1, info.nparams do names[i] = debug.getlocal(f, i) end
  if info.isvararg then names[#names + 1] = "..." end
  return "(" .. table.concat(names, ", ") .. ")"
end

-- The same of the function at a word of a text.
local function written(parse, i)
  while i < parse.n and parse.words[i] ~= "(" do i = i + 1 end
  local stop = parse.match[i] or parse.n
  return "(" .. table.concat(parse.words, " ", i + 1, stop - 1)
    :gsub(" ,", ",") .. ")"
end

--- How a thing is called, or what it is in a few words; "" where that is not
-- known.
function members.signature(thing)
  local call = thing.name and known.call(thing.name)
  if call then return call end
  local x = thing.value
  if thing.is == "function" and thing.parse then
    return written(thing.parse, thing.at)
  elseif type(x) == "function" then
    local row = library.find(thing.name or functions.name(x))
    if row then return row.call end
    return debug.getinfo(x, "S").what ~= "C" and declared(x) or "(...)"
  end
  local shown = members.brief(thing)
  return shown and ": " .. shown or ""
end

--- A thing in a few words: "float32 {2, 3}", "number"; or nil.
function members.brief(thing)
  local x = thing.value
  if x == nil then return known.words[thing.is] end
  local kind = core.kind(x)
  if kind == "tensor" or kind == "edge" or thing.is == "W:" then
    local shape = x.shape
    return ("%s %s"):format(x.dtype, shapes.text(shape))
  elseif kind == "op" then
    return x.type
  elseif type(x) == "table" or type(x) == "userdata" then
    local meta = debug.getmetatable(x)
    local name = meta and rawget(meta, "__name")
    return kind or type(name) == "string" and name or type(x)
  end
  return math.type(x) or type(x)
end

--- May it be called?
function members.callable(thing)
  if thing.is then
    return thing.is == "function" or thing.is == "cell:" or thing.is == "layer"
  end
  local x = thing.value
  local meta = type(x) ~= "function" and debug.getmetatable(x)
  return type(x) == "function" or meta and rawget(meta, "__call") ~= nil
    or false
end

-- ---- what it offers by itself ---------------------------------------------

-- f(x) in a coroutine of its own, which is stopped when it takes long.
local function briefly(f, x)
  local co = coroutine.create(f)
  local left = INSTRUCTIONS // STEP
  debug.sethook(co, function()
    left = left - 1
    if left > 0 then return end
    debug.sethook(co, function() error "__complete takes too long" end, "", 1)
    error "__complete takes too long"
  end, "", STEP)
  local ok, list = coroutine.resume(co, x)
  return ok and coroutine.status(co) == "dead" and list or nil
end

-- The names that the metatable of x offers, a list.
local function offered(x)
  local meta = debug.getmetatable(x)
  local offer = meta and rawget(meta, "__complete")
  if type(offer) == "function" then
    local ours = debug.getinfo(offer, "S").source:find "^=%[tide%]"
    offer = ours and offer(x) or not ours and briefly(offer, x)
  end
  return type(offer) == "table" and offer or {}
end

-- ---- all of them ----------------------------------------------------------

-- Of a table and those that are its __index. Another line may change them
-- meanwhile, which ends the walk.
local function of_table(x, take)
  local n = 0
  for _, t in ipairs(infer.chain(x)) do
    pcall(function()
      for key, value in next, t do
        n = n + 1
        if n > MOST then return end
        if type(key) == "string" then take(key, value) end
      end
    end)
  end
end

local function raw_members(thing, take)
  local x = infer.table_of(thing)
  if not x then return end
  of_table(x, function(key, value)
    take(key, function()
      local name = rawequal(x, string) and "string." .. key
        or thing.module and known.name_in(thing.module, key)
      return infer.of_value(value, name or nil)
    end)
  end)
end

-- The names that a type offers, or those of a module that is not loaded.
local function named_members(thing, take)
  local list = thing.value ~= nil and offered(thing.value)
    or thing.module and known.names_of(thing.module) or {}
  for i = 1, math.min(#list, MOST) do
    local key = rawget(list, i)
    if type(key) == "string" then
      take(key, function()
        return thing.module and infer.field(thing, key) or {is = "field"}
      end)
    end
  end
end

-- What Tide's objects have.
local function object_members(thing, take)
  if thing.is == "layer" and thing.value then
    for key, x in next, rawget(thing.value, "made") or {} do
      take(key, function() return infer.of_value(x) end)
    end
  end
  local fields = known.fields[thing.is] or {}
  for key, is in pairs(fields) do
    take(key, function() return infer.field(thing, key) or {is = is} end)
  end
  for key, name in pairs(known.methods(thing.is)) do
    take(key, function()
      return not fields[key] and {is = "function", name = name}
    end)
  end
end

--- Calls list.add(name, thing) for what a thing has and list.wants(name) says;
-- `methods`: for what can stand after a colon.
function members.each(thing, methods, list)
  local function take(key, make)
    if not list.wants(key) then return end
    local more = make() or {}
    if not methods or members.callable(more) then list.add(key, more) end
  end
  for key in pairs(thing.keys or {}) do
    if type(key) == "string" then
      take(key, function() return infer.field(thing, key) end)
    end
  end
  raw_members(thing, take)
  named_members(thing, take)
  if thing.is then object_members(thing, take) end
end

return members
