--- console/complete.lua - service "complete": how the word at the cursor may go
-- on.
--
-- What stands before the cursor says what is asked for: a field, a method, an
-- option of a call, the inside of a string, a command, or a name. Completion
-- has no side effects and runs no function of the user's.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.json"
local cell = require "tide.console.cell"
local cursor = require "tide.console.cursor"
local escapes = require "tide.console.escapes"
local infer = require "tide.console.infer"
local keywords = require "tide.console.keywords"
local library = require "tide.console.library"
local members = require "tide.console.members"
local options = require "tide.console.options"
local parse = require "tide.console.parse"
local within = require "tide.console.within"

-- So many matches are told; so many candidates are looked at.
local MOST_MATCHES, MOST = 500, 50000

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

--- Takes `text` where it goes on from the fragment. `thing`: what it is, or its
-- type; `signature` overrides that of the thing. What is nearer comes first.
function candidates:add(text, thing, signature, far)
  self.n = self.n + 1
  if self.n > MOST or self.seen[text] then return end
  local fragment = self.fragment
  local head = text:sub(1, #fragment)
  local exact = head == fragment
  if not exact and head:lower() ~= self.lower then return end
  if text:find "^__" and not fragment:find "^_" then return end
  self.seen[text] = true
  self.list[#self.list + 1] = {text = text, exact = exact, thing = thing,
                               signature = signature, far = far or 0}
end

local function new(fragment)
  return setmetatable({fragment = fragment, lower = fragment:lower(), n = 0,
                       seen = {}, list = {}}, candidates)
end

-- Fills in type and signature of a match.
local function describe(match)
  local thing = match.thing
  if type(thing) == "string" then
    match.type, match.signature = thing, match.signature or ""
    return
  end
  local kind = members.type(thing) or "instance"
  if kind == "instance" and match.field then kind = "property" end
  match.type = kind
end

local function before(a, b)
  if a.exact ~= b.exact then return a.exact end
  local hidden = a.text:find "^_" ~= nil
  if hidden ~= (b.text:find "^_" ~= nil) then return not hidden end
  if a.far ~= b.far then return a.far < b.far end
  local x, y = order[a.type] or 99, order[b.type] or 99
  if x ~= y then return x < y end
  return a.text < b.text
end

--- The best matches, in order.
function candidates:matches()
  for _, match in ipairs(self.list) do
    match.field = self.fields
    local ok = pcall(describe, match)
    if not ok then match.type, match.signature = "instance", "" end
  end
  table.sort(self.list, before)
  for i = #self.list, MOST_MATCHES + 1, -1 do self.list[i] = nil end
  for _, match in ipairs(self.list) do
    if not match.signature then
      local ok, text = pcall(members.signature, match.thing)
      match.signature = ok and text or ""
    end
  end
  return self.list
end

-- ---- names ----------------------------------------------------------------

local function add_names(source, list)
  for _, l in ipairs(source:locals()) do
    list:add(l.name, infer.local_thing(source, l), nil, 1)
  end
  for name in pairs(source.assigned) do
    list:add(name, infer.named(source, name), nil, 2)
  end
  for _, t in ipairs(infer.globals(source)) do
    for name, x in next, t do
      if type(name) == "string" then
        local thing = infer.of_value(x, infer.public(x, name))
        local own = library[name] or members.is_library(x)
        list:add(name, thing, nil, own and 3 or 2)
      end
    end
  end
  for _, word in ipairs(keywords.list) do list:add(word, "keyword", nil, 4) end
end

-- ---- what is asked for ----------------------------------------------------

-- After a dot or colon, word i: the fields of what is before.
local function add_members(source, list, i)
  local thing = infer.ending(source, i - 1)
  if not thing then return end
  list.fields = not thing.module
  members.each(thing, source.words[i] == ":", function(name, more)
    if name:find "^[%a_][%w_]*$" then list:add(name, more) end
  end)
end

-- The words up to the cursor: candidates for the last one, and where it begins.
local function of_source(source, text)
  local n, kind = source.n, source.kinds[source.n]
  local stop = source.last_stop
  if source.last_kind == "comment" and stop == #source.text
     and not text:find "\n$" then
    return nil
  end
  local inside = within.string(source, new)
  if inside ~= nil then return inside or nil end
  local touching = n > 0 and source.stops[n] == #source.text
  local typed = touching and (kind == "name" or kind == "keyword")
  if touching and (kind == "number" or kind == "broken" or kind == "open") then
    return nil
  end
  local list = new(typed and source.words[n] or "")
  local at = typed and n - 1 or n
  local word = source.kinds[at] == "symbol" and source.words[at]
  if (word == "." or word == ":") and source:ends_operand(at - 1) then
    add_members(source, list, at)
    return list
  end
  if typed and source.words[at] == "function" then return nil end
  options.add(source, at, list)
  add_names(source, list)
  return list
end

-- The candidates at the end of a text.
local function candidates_at(text, after)
  local list = escapes.complete(text, new)
  if list then return list end
  local source = parse.read(text, text:find "%s$" ~= nil)
  source.env, source.after = cell.env, after
  return of_source(source, text)
end

-- ---- the reply ------------------------------------------------------------

local function reply(list, text, at)
  local stop = cursor.points(text, at)
  local start = list and list.fragment and cursor.points(text,
    at - #list.fragment) or stop
  local matches, types = {}, {}
  for i, match in ipairs(list and list:matches() or {}) do
    matches[i] = match.text
    types[i] = {start = start, ["end"] = stop, text = match.text,
                type = match.type, signature = match.signature}
  end
  return {status = "ok", matches = json.array(matches), cursor_start = start,
          cursor_end = stop, metadata = json.object{
            _jupyter_types_experimental = json.array(types)}}
end

--- {matches =, cursor_start =, cursor_end =, metadata =} of request.code at
-- request.cursor_pos.
return function(request)
  local text = cursor.sound(type(request.code) == "string" and request.code
                            or "")
  local at = cursor.bytes(text, request.cursor_pos)
  local ok, list = pcall(candidates_at, text:sub(1, at), text:sub(at + 1))
  return reply(ok and list or nil, text, at)
end
