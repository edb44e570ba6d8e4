--- data/example.lua - Examples as bytes: what files of records hold.
--
-- An Example is a map from keys to lists of strings, of floats (float32) or of
-- integers (int64); a SequenceExample has lists of such lists besides. Keys are
-- written in their order, so that the same table gives the same bytes.
-- td.parse_example reads them.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local example = {}

-- ---- protobuf -------------------------------------------------------------

local function varint(n)
  if n >= 0 and n < 128 then return string.char(n) end
  local bytes = {}
  repeat
    local rest = n >> 7
    bytes[#bytes + 1] = string.char(n & 127 | (rest ~= 0 and 128 or 0))
    n = rest
  until n == 0
  return table.concat(bytes)
end

local function field(number, bytes)
  return string.char(number << 3 | 2) .. varint(#bytes) .. bytes
end

-- ---- lists ----------------------------------------------------------------

local function strings(list)
  local parts = {}
  for i, s in ipairs(list) do parts[i] = field(1, s) end
  return field(1, table.concat(parts))
end

local function floats(list)
  local parts = {}
  for i, x in ipairs(list) do parts[i] = string.pack("<f", x) end
  return field(2, #list > 0 and field(1, table.concat(parts)) or "")
end

local function integers(list)
  local parts = {}
  for i, n in ipairs(list) do parts[i] = varint(n) end
  return field(3, #list > 0 and field(1, table.concat(parts)) or "")
end

local function kind_of(x)
  if type(x) == "string" then return "string" end
  return type(x) == "boolean" and "integer" or math.type(x)
end

-- The kind of list that all its elements fit in.
local function common(list, key)
  local found
  for i, x in ipairs(list) do
    local kind = kind_of(x)
    if not kind or found and kind ~= found
                   and (kind == "string" or found == "string") then
      errors.invalid("feature \"%s\": element %d is a %s%s", key, i,
        args.what(x), kind and ("; the others are %ss"):format(
          found == "string" and "string" or "number")
        or "; a feature has strings or numbers, in one list")
    end
    found = (kind == "float" or found == "float") and "float" or kind
  end
  return found
end

-- The elements of a tensor; without any its dtype tells what it is a list of.
local function elements(t)
  local list = t:reshape{-1}:table()
  if t.dtype == "string" then return list, "string" end
  local whole = t.dtype == "bool" or t.dtype:find "int"
  return list, whole and "integer" or "float"
end

local writers = {string = strings, float = floats, integer = integers}

local function feature(x, key)
  local list, kind = x, nil
  if args.is_tensor(x) then
    if core.kind(x) ~= "tensor" then
      errors.invalid("feature \"%s\" is a %s: what a run gives can be written",
        key, args.what(x))
    end
    list, kind = elements(x)
  elseif not args.plain(x) then
    list = {x}
  end
  args.check_list(list, ("feature \"%s\""):format(key))
  kind = kind or common(list, key)
  if kind == "integer" then
    for i, n in ipairs(list) do
      if type(n) == "boolean" then
        if list == x then list = table.move(x, 1, #x, 1, {}) end
        list[i] = n and 1 or 0
      end
    end
  end
  return kind and writers[kind](list) or ""
end

-- ---- messages -------------------------------------------------------------

-- A map as field 1s of a message: write(x, key) gives each value's bytes.
local function map(t, what, write)
  if not args.plain(t) then
    errors.invalid("%s: a table by key is needed, not a %s", what, args.what(t))
  end
  for key in pairs(t) do
    if type(key) ~= "string" then
      errors.invalid("%s: keys are strings, not %s", what, tostring(key))
    end
  end
  local parts = {}
  for i, key in ipairs(args.sorted_keys(t)) do
    parts[i] = field(1, field(1, key) .. field(2, write(t[key], key)))
  end
  return table.concat(parts)
end

local function steps(list, key)
  local parts = {}
  args.check_list(list, ("feature list \"%s\""):format(key))
  for i, x in ipairs(list) do parts[i] = field(1, feature(x, key)) end
  return table.concat(parts)
end

--- An Example as bytes, for a record of a file.
-- @param features a table by key: a string, a number, a list of either, or a
-- tensor's elements in their order. Strings stay bytes, integers are int64, a
-- list with one float is of float32.
-- @return a string
-- @usage local bytes = td.example{label = 3, size = {0.5, 2}, name = "moon"}
-- local x = td.parse_example({bytes}, {
--   size = td.fixed_len_feature({2}, "float32")})
-- x.size  --> 0.5 2
function example.example(features)
  return field(1, map(features, "example", feature))
end

--- A SequenceExample as bytes: features of the whole, and lists of features
-- with one for each step.
-- @param o context, a table as td.example's; feature_lists, a table by key of
-- lists of such features
-- @return a string
-- @usage #td.sequence_example{context = {id = 7},
--   feature_lists = {words = {"a", "moon"}}}  --> 45
function example.sequence_example(o)
  o = args.read(o, {"context", "feature_lists"}, "sequence_example")
  return field(1, map(o.context or {}, "sequence_example: context", feature))
    .. field(2, map(o.feature_lists or {}, "sequence_example: feature_lists",
                    steps))
end

return example
