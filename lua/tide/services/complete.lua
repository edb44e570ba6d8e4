--- services/complete.lua - service "complete": how the word at the cursor may
-- go on.
--
-- What stands before the cursor says what is asked for: a field, a method, an
-- option of a call, the inside of a string, a command, or a name. Completion
-- has no side effects and runs no function of the user's.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.base.json"
local cell = require "tide.console.cell"
local cursor = require "tide.console.cursor"
local escapes = require "tide.console.escapes"
local infer = require "tide.assist.infer"
local keywords = require "tide.assist.keywords"
local library = require "tide.help.lua_library"
local members = require "tide.assist.members"
local options = require "tide.assist.options"
local parse = require "tide.assist.parse"
local within = require "tide.assist.within"
local functions = require "tide.help.functions"

-- So many matches are told, and names where nothing is typed; so many
-- candidates are looked at.
local MOST_MATCHES, MOST_NAMES, MOST = 1000, 200, 50000

-- ---- candidates -----------------------------------------------------------

local candidates = {}
candidates.__index = candidates

-- Among the matches that fit equally well, kinds in this order.
local order = {}
for i, kind in ipairs{"feed", "property", "variable", "tensor", "op",
                      "function", "class", "module", "instance", "device",
                      "command", "path", "statement", "keyword"} do
  order[kind] = i
end

--- Does `text` go on from the fragment, and is it new?
function candidates:wants(text)
  self.n = self.n + 1
  local fragment = self.fragment
  local head = text:sub(1, #fragment)
  if head ~= fragment and head:lower() ~= self.lower then return false end
  if self.n > MOST or self.matches[text] then return false end
  return self.hidden or text:byte(1) ~= 95 or not text:find "^__"
end

--- Takes `text` where it is wanted. `thing`: what it is, or its type;
-- `signature` overrides that of the thing. What is less far comes first.
function candidates:add(text, thing, signature, far)
  if self:wants(text) then self:put(text, thing, signature, far) end
end

--- Takes what is known to be wanted.
function candidates:put(text, thing, signature, far)
  self.matches[text] = {text = text, thing = thing, far = far or 0,
                        signature = signature}
end

local function new(fragment)
  return setmetatable({fragment = fragment, lower = fragment:lower(), n = 0,
                       hidden = fragment:find "^_" ~= nil, matches = {},
                       most = MOST_MATCHES}, candidates)
end

-- The type of a match.
local function classify(match, fields)
  local kind = match.thing
  if type(kind) == "string" then return kind end
  kind = members.type(kind) or "instance"
  return kind == "instance" and fields and "property" or kind
end

-- Where a match stands among the others: a smaller number comes first.
local function rank(match, fragment)
  local exact = match.text:sub(1, #fragment) == fragment
  return (exact and 0 or 10000) + (match.text:byte(1) == 95 and 1000 or 0)
    + 100 * match.far + (order[match.type] or 99)
end

-- Fills in how it is called, or what it is. After a colon the object is no
-- argument.
local function sign(match, methods)
  if match.signature then return end
  local ok, text = false, nil
  if type(match.thing) == "table" then
    ok, text = pcall(members.signature, match.thing)
  end
  match.signature = ok and text or ""
  if methods and not (match.thing.name or ""):find ":" then
    match.signature = match.signature:gsub("^%([%w_]+,? ?", "(")
  end
end

-- The texts of matches by their rank, and the ranks in order.
local function by_rank(self)
  local groups, ranks = {}, {}
  for text, match in pairs(self.matches) do
    local ok, kind = pcall(classify, match, self.fields)
    match.type = ok and kind or "instance"
    local r = rank(match, self.fragment)
    if not groups[r] then
      groups[r] = {}
      ranks[#ranks + 1] = r
    end
    table.insert(groups[r], text)
  end
  table.sort(ranks)
  return groups, ranks
end

--- The best matches, in order.
function candidates:best()
  local groups, ranks = by_rank(self)
  local list = {}
  for _, r in ipairs(ranks) do
    table.sort(groups[r])
    for _, text in ipairs(groups[r]) do
      if #list == self.most then return list end
      local match = self.matches[text]
      sign(match, self.methods)
      list[#list + 1] = match
    end
  end
  return list
end

-- ---- names ----------------------------------------------------------------

-- The names of a table of globals. Another line may change it meanwhile.
local function add_table(list, t)
  for name, x in next, t do
    if list.n > MOST then return end
    if type(name) == "string" and list:wants(name) then
      local own = library[name] or members.is_library(x)
      local f = type(x) == "function" and functions.name(x, name)
      list:put(name, infer.of_value(x, f or nil), nil, own and 3 or 2)
    end
  end
end

local function add_locals(source, list)
  for _, l in ipairs(source:locals()) do
    if list:wants(l.name) then
      list:add(l.name, infer.local_thing(source, l), nil, 1)
    end
  end
end

local function add_globals(source, list)
  for name in pairs(source.assigned) do
    if list:wants(name) then
      list:add(name, infer.named(source, name), nil, 2)
    end
  end
  for _, t in ipairs(infer.globals(source)) do pcall(add_table, list, t) end
  for _, word in ipairs(keywords.list) do list:add(word, "keyword", nil, 4) end
end

-- ---- what is asked for ----------------------------------------------------

-- After a dot or colon, word i: the fields of what is before.
local function add_members(source, list, i)
  local thing = infer.ending(source, i - 1)
  if not thing then return end
  list.fields, list.methods = not thing.module, source.words[i] == ":"
  members.each(thing, list.methods, {
    wants = function(name)
      return list:wants(name) and name:find "^[%a_][%w_]*$"
    end,
    add = function(name, more) list:put(name, more) end,
  })
end

-- Is the end of the text inside a comment that ends with its line?
local function in_comment(source, text)
  return source.last_kind == "comment" and source.last_stop == #source.text
    and text:byte(-1) ~= 10
end

local unfinished = {number = true, broken = true, open = true}

-- The words up to the cursor: candidates for the last one.
local function of_source(source, text)
  if in_comment(source, text) then return nil end
  local inside = within.string(source, new)
  if inside ~= nil then return inside or nil end
  local n, kind = source.n, source.kinds[source.n]
  local touching = n > 0 and source.stops[n] == #source.text
  if touching and unfinished[kind] then return nil end
  local typed = touching and (kind == "name" or kind == "keyword")
  local list = new(typed and source.words[n] or "")
  local at = typed and n - 1 or n
  local word = source.kinds[at] == "symbol" and source.words[at]
  if (word == "." or word == ":") and source:ends_operand(at - 1) then
    add_members(source, list, at)
    return list
  end
  if typed and source.words[at] == "function" then return nil end
  local named = options.add(source, at, list)
  if not typed then list.most = MOST_NAMES end
  add_locals(source, list)
  if typed or not named then add_globals(source, list) end
  return list
end

-- The candidates at the end of a text.
local function candidates_at(text, after)
  local list, lua, asked = escapes.complete(text, new)
  if list then return list end
  text = lua
  local source = parse.read(text, text:sub(-1):find "%s" ~= nil)
  source.env, source.after = cell.env, after
  list = of_source(source, text)
  if asked and list then escapes.add_help(list, asked) end
  return list
end

-- ---- the reply ------------------------------------------------------------

local function reply(list, text, at, problem)
  local stop = cursor.points(text, at)
  local start = list and list.fragment and cursor.points(text,
    at - #list.fragment) or stop
  local matches, types = {}, {}
  for i, match in ipairs(list and list:best() or {}) do
    matches[i] = match.text
    types[i] = {start = start, ["end"] = stop, text = match.text,
                type = match.type, signature = match.signature}
  end
  return {status = "ok", matches = json.array(matches), cursor_start = start,
          cursor_end = stop, metadata = json.object{
            _jupyter_types_experimental = json.array(types),
            tide_problem = problem}}
end

--- {matches =, cursor_start =, cursor_end =, metadata =} of request.code at
-- request.cursor_pos.
return function(request)
  local text = cursor.sound(type(request.code) == "string" and request.code
                            or "")
  local at = cursor.bytes(text, request.cursor_pos)
  local ok, list = pcall(candidates_at, text:sub(1, at), text:sub(at + 1))
  return reply(ok and list or nil, text, at, not ok and tostring(list) or nil)
end
