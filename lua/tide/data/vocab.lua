--- data/vocab.lua - words or characters, and their numbers.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local vocab = {}
local methods = {}

local meta = {__index = methods}

-- Characters of UTF-8 text, bytes of any other.
local function char_pattern(text)
  return utf8.len(text) and utf8.charpattern or "."
end

-- Words between spaces, each line with "<eos>" at its end; or characters.
local function walk(by, text)
  if by == "char" then return text:gmatch(char_pattern(text)) end
  return text:gsub("\n", " <eos> "):gmatch "%S+"
end

local function count(by, text)
  local seen, list = {}, {}
  for token in walk(by, text) do
    if not seen[token] then
      seen[token] = 0
      list[#list + 1] = token
    end
    seen[token] = seen[token] + 1
  end
  return seen, list
end

-- Words: the most frequent first; characters: in the order of their bytes.
local function sort(by, seen, list)
  table.sort(list, function(a, b)
    if by == "word" and seen[a] ~= seen[b] then return seen[a] > seen[b] end
    return a < b
  end)
end

-- "<unk>" stands for what is not kept. It is always among the words.
local function cut(list, limit)
  local has = false
  for _, token in ipairs(list) do has = has or token == "<unk>" end
  local room = (limit or math.huge) - (has and 0 or 1)
  while #list > room do
    local last = table.remove(list)
    if last == "<unk>" then
      list[#list] = last
      break
    end
  end
  if not has then list[#list + 1] = "<unk>" end
end

--- The vocabulary of a text. by: "word" or "char"; limit: most words, the rest
-- being "<unk>".
function vocab.of(text, by, limit)
  local seen, tokens = count(by, text)
  sort(by, seen, tokens)
  if by == "word" then cut(tokens, limit) end
  local self = {by = by, tokens = tokens, ids = {}}
  for i, token in ipairs(tokens) do self.ids[token] = i - 1 end
  return setmetatable(self, meta)
end

-- Text of single bytes goes through a table of 256 numbers, without Lua.
local function encode_bytes(self, text)
  local numbers = {}
  for i = 0, 255 do numbers[i + 1] = self.ids[string.char(i)] or -1 end
  local bytes = core.op "Cast"(core.from_bytes(text, "uint8", {#text}),
                               {DstT = "int32"})
  return core.op "GatherV2"(core.tensor(numbers, "int32"), bytes, 0)
end

local function no_such(token)
  core.error("not_found", ("the character %q is not in the vocabulary")
    :format(token))
end

--- Numbers (int32 {n}) of a text's words, each line ending in "<eos>", or of
-- its characters. A word that is not known is "<unk>"; a character raises.
function methods:encode(text)
  args.expect(text, "string", "encode: the text")
  if self.by == "char" and not text:find "[\128-\255]" then
    local ids = encode_bytes(self, text)
    for token in pairs(count("char", text)) do
      if not self.ids[token] then no_such(token) end
    end
    return ids
  end
  local list, known, unk = {}, self.ids, self.ids["<unk>"]
  for token in walk(self.by, text) do
    list[#list + 1] = known[token] or unk or no_such(token)
  end
  return core.tensor(list, "int32", {#list})
end

--- Text of numbers: a value, or a list. Words are joined by spaces, "<eos>"
-- ends a line.
function methods:decode(ids)
  if core.kind(ids) == "tensor" then ids = ids:table() end
  if type(ids) ~= "table" then ids = {ids} end
  local words = {}
  for i, id in ipairs(ids) do words[i] = self:token(id) end
  if self.by == "char" then return table.concat(words) end
  return (table.concat(words, " "):gsub(" ?<eos> ?", "\n"))
end

--- The word or character of a number, counted from 0.
function methods:token(id)
  return self.tokens[id + 1] or core.error("out_of_range",
    ("no token %s in a vocabulary of %d"):format(tostring(id), #self.tokens))
end

--- The number of a word or character, "<unk>"'s for other words, or nil.
function methods:id(token)
  return self.ids[token] or self.ids["<unk>"]
end

--- How many there are.
function meta:__len() return #self.tokens end

function meta:__tostring()
  return ("Vocabulary of %d %ss"):format(#self.tokens, self.by)
end

return vocab
