--- assist/parse.lua - what Lua source says up to a cursor, finished or not.
--
-- One pass over the words keeps the brackets and blocks that are open at the
-- end, the local names visible there with the expressions they were given, and
-- the globals assigned on the way. Nothing is compiled, nothing fails: source
-- that is being typed is seldom whole. syntax.lua, the other reader of these
-- words, is a grammar and ends at the first word that is wrong; here none is,
-- `end` closes whatever is open: nothing but the lexer is common to both.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"

local parse = {}
parse.__index = parse

-- Texts beyond that are read from a statement near their end, or from anywhere
-- within three times as much; of what is before, not all, the names are known
-- that its lines begin to define.
local MOST, MOST_BEFORE = 12000, 200000
local MOST_BRACKETS = 20 -- open ones that are told, the innermost

local closers = {[")"] = "(", ["]"] = "[", ["}"] = "{"}
local blocks = {["function"] = true, ["do"] = true, ["then"] = true,
                ["else"] = true, ["repeat"] = true, ["until"] = true,
                ["for"] = true, ["while"] = true}
local ended = {["function"] = true, ["do"] = true, ["then"] = true,
               ["else"] = true, ["for"] = true, ["while"] = true}
local statements = {}
for word in ("local if for while repeat return goto break function end until "
             .. "else elseif"):gmatch "%a+" do
  statements[word] = true
end

-- ---- words ----------------------------------------------------------------

-- Commands of the console and ?name are no Lua: spaces stand for them.
local function without_commands(text)
  if not text:find "[%%!?]" then return text end
  local function blank(line) return (" "):rep(#line) end
  text = ("\n" .. text):gsub("\n[ \t]*[%%!?][^\n]*", function(line)
    return "\n" .. blank(line:sub(2))
  end)
  return text:sub(2)
end

-- The words of a text, comments apart.
local function read(self, text)
  local flat = frontend.words(text)
  local words, kinds, starts, stops = {}, {}, {}, {}
  local n = 0
  for k = 1, #flat, 3 do
    local kind, start, stop = flat[k], flat[k + 1], flat[k + 2]
    if kind == "comment" then
      self.comments[n] = self.comments[n] or {}
      table.insert(self.comments[n], {start, stop})
    else
      n = n + 1
      words[n], kinds[n] = text:sub(start, stop), kind
      starts[n], stops[n] = start, stop
    end
  end
  self.words, self.kinds, self.n = words, kinds, n
  self.starts, self.stops = starts, stops
  self.last_kind, self.last_start = flat[#flat - 2], flat[#flat - 1]
  self.last_stop = flat[#flat]
end

--- Can word i end an operand: what an operator or call may follow?
function parse:ends_operand(i)
  local kind, word = self.kinds[i], self.words[i]
  if kind == "name" or kind == "number" or kind == "string" then return true end
  if kind == "keyword" then
    return word == "end" or word == "nil" or word == "true" or word == "false"
  end
  return word == ")" or word == "]" or word == "}" or word == "..."
end

-- Does a statement begin with word i?
local function begins(self, i)
  local word, kind = self.words[i], self.kinds[i]
  if word == ";" or word == "::" then return true end
  if kind == "keyword" then
    return statements[word] and (word ~= "function" or self:ends_operand(i - 1))
  end
  return kind == "name" and self:ends_operand(i - 1)
end

-- ---- scopes ---------------------------------------------------------------

-- Everything here takes a time that does not depend on how much is open: what
-- is open is counted by what would close it, and each frame knows its block.

local function top(self) return self.stack[#self.stack] end

-- What closes a frame counts `by` more or less of them.
local function count(self, open, by)
  self.opened[open] = (self.opened[open] or 0) + by
  if ended[open] then self.opened["end"] = (self.opened["end"] or 0) + by end
end

local function push(self, open, at)
  local frame = {open = open, at = at, first = at + 1, commas = 0,
                 locals = blocks[open] and {} or nil}
  frame.block = frame.locals and frame or top(self).block
  self.stack[#self.stack + 1] = frame
  count(self, open, 1)
  return frame
end

-- Another word would close it from here on.
local function become(self, frame, open)
  count(self, frame.open, -1)
  count(self, open, 1)
  frame.open = open
end

local function drop(self)
  local frame = table.remove(self.stack)
  count(self, frame.open, -1)
  for _, l in ipairs(frame.locals or {}) do
    table.remove(self.visible[l.name])
  end
end

-- Drops what is inside of the innermost frame that `open` (or "end") stands
-- for, and returns that.
local function inner(self, open)
  if (self.opened[open] or 0) == 0 then return nil end
  while not (top(self).open == open or open == "end" and ended[top(self).open])
  do
    drop(self)
  end
  return top(self)
end

-- Closes it, and all inside it.
local function pop(self, open)
  local frame = inner(self, open)
  if frame then drop(self) end
  return frame
end

-- The innermost block.
local function block(self) return top(self).block end

-- A local of the innermost block.
local function declare(self, name, at, from, part)
  local frame = block(self)
  local l = {name = name, at = at, from = from, part = part,
             outer = frame.at == 0}
  frame.locals[#frame.locals + 1] = l
  local visible = self.visible[name] or {}
  self.visible[name] = visible
  visible[#visible + 1] = l
end

-- The names of a `local` become visible with the statement after it.
local function settle(self, frame)
  local p = frame.pending
  if not p then return end
  frame.pending = nil
  for k, name in ipairs(p.names) do
    local last = #p.exprs
    declare(self, name.name, name.at, p.exprs[math.min(k, last)],
            k > last and k - last + 1 or 1)
  end
end

-- ---- keywords -------------------------------------------------------------

local on = {}

-- Parameters from the bracket at i on, into a frame; the bracket is no call.
local function parameters(self, frame, i)
  if self.words[i] ~= "(" then return end
  self.is_head[i] = true
  frame.head = i
  for j = i + 1, self.n do
    local word = self.words[j]
    if self.kinds[j] == "name" then
      declare(self, word, j)
    elseif word ~= "," and word ~= "..." then
      break
    end
  end
end

on["function"] = function(self, i)
  local outer, j = block(self), i + 1
  local named = self.kinds[j] == "name"
  local path = {}
  while self.kinds[j] == "name" or self.words[j] == "."
        or self.words[j] == ":" do
    path[#path + 1] = self.words[j]
    j = j + 1
  end
  if named and self.words[i - 1] == "local" then
    outer.pending = nil
    declare(self, path[1], i + 1, i)
  elseif named and #path == 1 then
    self.assigned[path[1]] = i
  elseif #path == 3 then
    self:extend(path[1], path[3], i)
  end
  local frame = push(self, "function", i)
  if path[#path - 1] == ":" then declare(self, "self", i) end
  parameters(self, frame, j)
end

on["local"] = function(self, i)
  local frame = block(self)
  local names, j = {}, i + 1
  while self.kinds[j] == "name" do
    names[#names + 1] = {name = self.words[j], at = j}
    j = j + 1
    if self.words[j] == "<" then j = j + 3 end
    if self.words[j] ~= "," then break end
    j = j + 1
  end
  local given = self.words[j] == "="
  frame.pending = {names = names, exprs = given and {j + 1} or {},
                   given = given and j}
end

on["for"] = function(self, i)
  local frame = push(self, "for", i)
  local j, k = i + 1, 1
  frame.heads = {}
  while self.kinds[j] == "name" do
    frame.heads[k] = {name = self.words[j], at = j}
    if self.words[j + 1] ~= "," then break end
    j, k = j + 2, k + 1
  end
  frame.walks = self.words[j + 1] == "in" and j + 2 or nil
end

on["while"] = function(self, i) push(self, "while", i) end
on["then"] = function(self, i) push(self, "then", i) end
on["repeat"] = function(self, i) push(self, "repeat", i) end

on["do"] = function(self, i)
  local frame = top(self)
  if frame.open ~= "for" and frame.open ~= "while" then
    if frame.locals then settle(self, frame) end
    push(self, "do", i)
    return
  end
  become(self, frame, "do")
  for k, head in ipairs(frame.heads or {}) do
    declare(self, head.name, head.at, frame.walks and -frame.walks, k)
  end
end

on["else"] = function(self, i)
  pop(self, "then")
  push(self, "else", i)
end

on["elseif"] = function(self)
  pop(self, "then")
end

on["end"] = function(self, i)
  local closed = pop(self, "end")
  if closed then self.match[closed.at], self.match[i] = i, closed.at end
end

-- The locals of the block are visible in its condition.
on["until"] = function(self)
  local frame = inner(self, "repeat")
  if frame then become(self, frame, "until") end
end

-- ---- symbols --------------------------------------------------------------

local function separate(self, i)
  local frame = top(self)
  if frame.locals then
    local p = frame.pending
    if p and p.given and self.words[i] == "," then
      p.exprs[#p.exprs + 1] = i + 1
    end
    return
  end
  frame.commas = frame.commas + 1
  frame.first, frame.key = i + 1, nil
end

-- Notes that the text gives the table of that name a field.
function parse:extend(name, field, at)
  local fields = self.fields[name] or {}
  self.fields[name] = fields
  fields[field] = at
end

-- `name.field =`, a statement.
local function is_field(self, i)
  return self.words[i - 2] == "." and self.kinds[i - 3] == "name"
    and self.words[i - 4] ~= "." and self.words[i - 4] ~= ":"
end

-- `name =`: an assignment, or a key of a constructor.
local function equals(self, i)
  local frame = top(self)
  if frame.open == "{" then
    if frame.first == i - 1 then
      frame.key = self.words[i - 1]
    elseif self.words[i - 1] == "]" and self.match[i - 1] == frame.first then
      frame.key = false
    end
  elseif frame.locals and not frame.pending and is_field(self, i) then
    self:extend(self.words[i - 3], self.words[i - 1], i + 1)
  elseif frame.locals and not frame.pending and frame.open ~= "for"
         and self.kinds[i - 1] == "name"
         and not (self.words[i - 2] or ""):find "^[.,]$" then
    local known = self:find(self.words[i - 1])
    if known then
      known.from, known.part = i + 1, 1
    else
      self.assigned[self.words[i - 1]] = i + 1
    end
  end
end

local function symbol(self, i, word)
  if word == "(" or word == "[" or word == "{" then
    push(self, word, i)
  elseif closers[word] then
    local opened = pop(self, closers[word])
    if opened then self.match[opened.at], self.match[i] = i, opened.at end
  elseif word == "," or word == ";" then
    separate(self, i)
  elseif word == "=" then
    equals(self, i)
  end
end

-- What the beginning of a statement ends.
local function boundary(self)
  while top(self).open == "until" do drop(self) end
  if top(self).locals then settle(self, top(self)) end
end

local function scan(self)
  local typed = self.stops[self.n] == #self.text and self.n -- may go on
  for i = 1, self.n do
    if begins(self, i) then boundary(self) end
    local word, kind = self.words[i], self.kinds[i]
    if kind == "keyword" then
      if on[word] and i ~= typed then on[word](self, i) end
    elseif kind == "symbol" then
      symbol(self, i, word)
    end
  end
end

-- ---- asking ---------------------------------------------------------------

-- Where to begin a text: a line before its last MOST bytes that is not indented
-- and looks like a statement. Where there is none, one line may be the whole
-- text: then anywhere, but at a word's end.
local function beginning(text)
  if #text <= MOST then return 1 end
  local from = 1
  local before = math.max(#text - 3 * MOST, 0)
  for at, word in text:sub(before + 1, -MOST):gmatch "\n()([%a_][%w_]*)" do
    if word ~= "end" and word ~= "else" and word ~= "until" then from = at end
  end
  if from > 1 then return from + before end
  return before > 0 and text:find("[^%w_]", before) or 1
end

-- The names that unindented lines of a text define.
local function names_before(self, text)
  text = ("\n" .. text):sub(-MOST_BEFORE)
  for _, pattern in ipairs{"\n([%a_][%w_]*) *=[^=]", "\nlocal ([%a_][%w_]*)",
                           "\nfunction ([%a_][%w_]*) *%("} do
    for name in text:gmatch(pattern) do
      self.assigned[name] = self.assigned[name] or 0
    end
  end
  self.assigned["function"] = nil
end

--- What `text` says. `fresh`: another word is to come at its end.
function parse.read(text, fresh)
  local from = beginning(text)
  local self = setmetatable({text = text:sub(from), comments = {}, stack = {},
    match = {}, is_head = {}, assigned = {}, fields = {}, opened = {},
    visible = {}}, parse)
  if from > 1 then names_before(self, text:sub(1, from - 1)) end
  text = self.text
  read(self, without_commands(text))
  push(self, "do", 0)
  self.opened = {} -- nothing closes the text
  scan(self)
  if fresh and self.n > 0 and self:ends_operand(self.n) then boundary(self) end
  return self
end

--- The local of that name that is visible at the end, or nil: {name =, at =,
-- from = the word where its value begins, part = which of its results}.
function parse:find(name, before)
  before = before or math.huge
  local visible = self.visible[name] or {}
  for k = #visible, 1, -1 do
    if visible[k].at < before then return visible[k] end
  end
end

--- The names of visible locals, the innermost first.
function parse:locals()
  local list, seen = {}, {}
  for k = #self.stack, 1, -1 do
    local locals = self.stack[k].locals or {}
    for j = #locals, 1, -1 do
      if not seen[locals[j].name] then
        seen[locals[j].name] = true
        list[#list + 1] = locals[j]
      end
    end
  end
  return list
end

--- The word at which the expression that ends with word j begins: a name or
-- bracket with all its fields, keys and calls. nil: there is none.
function parse:back(j)
  while j and j >= 1 do
    local word, before = self.words[j], self.words[j - 1]
    if self.kinds[j] == "name" then
      if before ~= "." and before ~= ":" then return j end
      j = j - 2
    elseif closers[word] then
      local open = self.match[j]
      if not open then return nil end
      if not self:is_callee(open - 1) then
        return word ~= "]" and open or nil
      end
      if self.is_head[open] then return nil end
      j = open - 1
    elseif self.kinds[j] == "string" then
      if not self:is_callee(j - 1) then return j end
      j = j - 1
    else
      return nil
    end
  end
end

--- Can what ends with word i be called or indexed?
function parse:is_callee(i)
  if self.kinds[i] == "string" then
    i = i - 1 -- f "text"
  elseif self.words[i] == "}" then
    i = (self.match[i] or 0) - 1 -- f{...}
  end
  return self.kinds[i] == "name" or self.words[i] == ")"
    or self.words[i] == "]" or false
end

--- The open brackets at the end, the innermost first, some of them and as far
-- as they are in one function: {open =, at =, commas =, key =, first =, callee
-- = its last word}.
function parse:brackets()
  local list = {}
  for k = #self.stack, math.max(2, #self.stack - MOST_BRACKETS), -1 do
    local frame = self.stack[k]
    if frame.locals then break end
    frame.callee = nil
    if not self.is_head[frame.at] and self:is_callee(frame.at - 1) then
      frame.callee = frame.at - 1
    end
    list[#list + 1] = frame
  end
  return list
end

return parse
