--- assist/infer.lua - what an expression in unfinished source stands for.
--
-- A *thing* is what is known: {value =} where the value exists, {is =} where
-- only its kind does (a type of Lua, or an object as tide.assist.known names
-- it), `name` the public name of a function of Tide, `module` the place in td
-- of a table, `at` the word that defines it in the text. No user's function is
-- called: fields are read raw, through tables that are __index only, and a
-- call's result is what is known of Tide's own functions.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local known = require "tide.assist.known"
local functions = require "tide.help.functions"

local infer = {}

-- Chains of __index tables are followed that far, expressions that deep; and so
-- many expressions are looked at in one text.
local MOST, MOST_STEPS = 30, 2000

local thing_at -- the expression at a word

-- ---- tables and objects ---------------------------------------------------

--- The tables in which the fields of table x are found, itself the first: it
-- and those that are `__index` of each other.
function infer.chain(x)
  local list, seen = {}, {}
  while type(x) == "table" and not seen[x] and #list < MOST do
    seen[x] = true
    list[#list + 1] = x
    local meta = debug.getmetatable(x)
    x = type(meta) == "table" and rawget(meta, "__index") or nil
  end
  return list
end

-- A thing of a value.
local function of_value(x, name)
  return {value = x, name = name, is = known.object(x),
          module = known.module(x)}
end
infer.of_value = of_value

-- A field that Tide gives its objects; of live ones the value.
local function object_field(thing, key)
  local is = known.fields[thing.is] and known.fields[thing.is][key]
  if not is then return nil end
  if core.kind(thing.value) then
    local ok, x = pcall(function() return thing.value[key] end)
    if ok and x ~= nil then return of_value(x) end
  end
  return {is = is}
end

local function raw_field(x, key)
  for _, t in ipairs(infer.chain(x)) do
    local found = rawget(t, key)
    if found ~= nil then return found end
  end
end

-- A name of td or of a place in it.
local function module_field(module, key)
  local name = known.name_in(module, key)
  if not name then return nil end
  if module == "" and known.is_module(key) then
    return {is = "module", module = key, value = known.place(key)}
  end
  return {is = "function", name = name}
end

--- The table in which the fields of a live value, or of a type, are found raw;
-- or nil.
function infer.table_of(thing)
  local x = thing.value
  if type(x) == "string" or thing.is == "string" then return string end
  if thing.is == "file" or io.type(x) then
    return debug.getmetatable(io.stdout).__index
  end
  if type(x) == "userdata" and not thing.is then
    local meta = debug.getmetatable(x)
    x = meta and rawget(meta, "__index")
  end
  return type(x) == "table" and x or nil
end

-- A field that is there.
local function live_field(thing, key)
  local x = infer.table_of(thing)
  local found = x and raw_field(x, key)
  if found == nil then return nil end
  local name
  if rawequal(x, string) then
    name = "string." .. key
  elseif thing.module and type(key) == "string" then
    name = known.name_in(thing.module, key)
  end
  return of_value(found, name)
end

--- The field `key` of a thing, or nil.
function infer.field(thing, key)
  if thing.keys then
    local at = thing.keys[key]
    return at and thing_at(thing.parse, at, (thing.depth or 0) + 1)
  end
  local live = live_field(thing, key)
  if live then return live end
  if type(key) ~= "string" then
    local of = thing.is and thing.is:match "^{(.*)}$"
    return of and {is = of}
  end
  if thing.module then return module_field(thing.module, key) end
  if not thing.is then return nil end
  local field = object_field(thing, key)
  if field then return field end
  local name = known.method(thing.is, key)
  return name and {is = "function", name = name}
end

-- What calling a thing gives.
local function called(thing)
  if not thing then return nil end
  if thing.is == "cell:" or thing.is == "layer" then return {is = "x:"} end
  local name = thing.name or functions.name(thing.value)
  local is = name and known.result(name)
  return is and {is = is}
end

-- ---- expressions ----------------------------------------------------------

--- The tables in which globals are looked for.
function infer.globals(parse)
  return {parse.env or _G, _G}
end

-- A table of the text, with the fields that it is given later.
local function extended(parse, thing, name)
  for field, at in pairs(thing and thing.keys and parse.fields[name] or {}) do
    thing.keys[field] = at
  end
  return thing
end

-- The global of that name: what there is, else what the text gives it.
local function global(parse, name, depth)
  for _, t in ipairs(infer.globals(parse)) do
    local x = raw_field(t, name)
    if x ~= nil then return of_value(x, functions.name(x)) end
  end
  local at = parse.assigned[name]
  if not at or at == 0 then return nil end
  return extended(parse, thing_at(parse, at, depth + 1), name)
end

-- What a local of the text stands for.
local function of_local(parse, l, depth)
  local thing = l.from and l.from > 0 and (l.part or 1) == 1
    and thing_at(parse, l.from, depth + 1) or {}
  -- what the cell made when it was run before
  if l.outer and parse.env and not thing.is and thing.value == nil then
    thing = of_value(rawget(parse.env, l.name))
  end
  thing.at = thing.at or l.at
  return extended(parse, thing, l.name)
end

local function variable(parse, name, at, depth)
  local l = parse:find(name, at)
  if not l then return global(parse, name, depth) end
  return (l.from or 0) < at and of_local(parse, l, depth) or {at = l.at}
end

-- The keys of the constructor that opens at word i, with where values begin.
local function constructor(parse, i, depth)
  local keys, stop, n, k = {}, parse.match[i] or parse.n, 0, i + 1
  local fresh = true
  while k < stop do
    local word = parse.words[k]
    if fresh and parse.kinds[k] == "name" and parse.words[k + 1] == "=" then
      keys[word] = k + 2
      k = k + 1
    elseif fresh then
      n = n + 1
      keys[n] = k
    end
    fresh = word == "," or word == ";"
    if fresh and keys[n] == k then n = n - 1 end
    k = (word == "(" or word == "{" or word == "[" or word == "function")
      and parse.match[k] or k
    k = k + 1
  end
  return {is = "table", keys = keys, parse = parse, depth = depth}
end

local function text_of(word)
  local body = word:match "^[\"'](.*)[\"']$" or word:match "^%[=*%[(.*)%]=*%]$"
  return {value = body or word, literal = true}
end

-- The operand at word i without what follows, and the word behind it.
local function primary(parse, i, depth)
  local kind, word = parse.kinds[i], parse.words[i]
  if kind == "name" then
    return variable(parse, word, i, depth), i + 1
  elseif kind == "string" then
    return text_of(word), i + 1
  elseif kind == "number" then
    return {value = math.tointeger(tonumber(word)) or tonumber(word),
            literal = true}, i + 1
  elseif word == "(" then
    return thing_at(parse, i + 1, depth + 1), (parse.match[i] or parse.n) + 1
  elseif word == "{" then
    return constructor(parse, i, depth), (parse.match[i] or parse.n) + 1
  elseif word == "function" then
    local stop = parse.match[i] or parse.n
    return {is = "function", at = i, parse = parse}, stop + 1
  elseif word == "true" or word == "false" then
    return {is = "boolean"}, i + 1
  end
  return nil, i + 1
end

-- require "name", getmetatable(x): what Lua's own functions give.
local function library_call(parse, thing, i, depth)
  local f = thing.value
  if f == nil or f ~= require and f ~= assert then return called(thing) end
  local argument = parse.words[i] == "(" and i + 1 or i
  local x = thing_at(parse, argument, depth + 1)
  if f == assert then return x end
  local module = x and x.value
  module = module and package.loaded[module]
  return module ~= nil and of_value(module) or nil
end

-- One suffix of the operand at word i: the thing and the word behind; nil where
-- there is none.
local function suffix(parse, thing, i, depth)
  local word, kind = parse.words[i], parse.kinds[i]
  if word == "." or word == ":" then
    if parse.kinds[i + 1] ~= "name" then return nil end
    return thing and infer.field(thing, parse.words[i + 1]), i + 2
  elseif word == "[" and kind == "symbol" then
    local key = thing_at(parse, i + 1, depth + 1)
    local stop = (parse.match[i] or parse.n) + 1
    local object = thing and thing.is
    if object == "edge" or object == "tensor" or object == "x:" then
      return {is = object}, stop
    elseif object == "g:" then
      return {is = "x:"}, stop
    elseif object == "W:" then
      return {is = "W[key]:"}, stop
    end
    return thing and key and key.value ~= nil
      and infer.field(thing, key.value) or nil, stop
  elseif word == "(" or word == "{" or kind == "string" then
    local stop = kind == "string" and i + 1 or (parse.match[i] or parse.n) + 1
    return thing and library_call(parse, thing, i, depth), stop
  end
end

local arithmetic = {["+"] = true, ["-"] = true, ["*"] = true, ["/"] = true,
  ["//"] = true, ["%"] = true, ["^"] = true, ["&"] = true, ["|"] = true}
local tensors = {["x:"] = true, edge = true, tensor = true, ["W:"] = true,
                 ["W[key]:"] = true}

-- What an operator makes of the operand before it and the one at word i + 1.
local function operation(parse, thing, i, depth)
  local word = parse.words[i]
  if word == "or" then return thing end
  if word == ".." then return {is = "string"} end
  if word == "and" then return thing_at(parse, i + 1, depth + 1) end
  if word == "==" or word == "~=" or word == "<" or word == ">" or word == "<="
     or word == ">=" then
    return {is = "boolean"}
  end
  if not arithmetic[word] then return thing end
  local other = thing_at(parse, i + 1, depth + 1)
  for _, x in ipairs{thing or {}, other or {}} do
    if tensors[x.is] then return {is = "x:"} end
  end
  return {is = "number"}
end

-- `stop`: the last word to look at, for an expression without operators.
local function operand(parse, i, depth, stop)
  local thing, k = primary(parse, i, depth)
  for _ = 1, 1000 do
    if stop and k > stop or k > parse.n then break end
    local more, after = suffix(parse, thing, k, depth)
    if not after then break end
    thing, k = more, after
  end
  return thing, k
end

function thing_at(parse, i, depth)
  parse.steps = (parse.steps or 0) + 1
  if depth > MOST or i > parse.n or parse.steps > MOST_STEPS then return nil end
  local word = parse.words[i]
  if word == "not" then return {is = "boolean"} end
  if word == "#" then return {is = "number"} end
  if word == "-" or word == "~" then
    return thing_at(parse, i + 1, depth + 1)
  end
  local thing, k = operand(parse, i, depth)
  if k <= parse.n and parse.kinds[k] ~= "name" then
    return operation(parse, thing, k, depth)
  end
  return thing
end

--- What a visible local stands for.
function infer.local_thing(parse, l)
  return of_local(parse, l, 0)
end

--- What the global of that name stands for; {} where that is not known.
function infer.named(parse, name)
  return global(parse, name, 0) or {}
end

--- The thing that the expression ending with word j stands for, and the word it
-- begins with; nil where nothing is known.
function infer.ending(parse, j)
  local i = parse:back(j)
  if not i then return nil end
  return (operand(parse, i, 0, j)), i
end

return infer
