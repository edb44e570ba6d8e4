--- base/json.lua - Lua tables as JSON text, and back.
--
-- Lua's empty table is a list unless it was made by json.object; JSON's null is
-- json.null, so that a key with it can be told from a missing one. Text that is
-- not UTF-8 has its bad bytes replaced by U+FFFD; NaN and infinities, which
-- JSON lacks, become null.
-- SPDX-License-Identifier: Apache-2.0

local json = {}

local object_mark, list_mark = {}, {}
local DEEPEST = 200

--- What JSON's null is decoded to, and is encoded as null.
json.null = setmetatable({}, {__tostring = function() return "null" end})

--- Marks t as an object, also when it is empty; returns it.
function json.object(t)
  return setmetatable(t or {}, object_mark)
end

--- Marks t as a list, also when it is empty; returns it.
function json.array(t)
  return setmetatable(t or {}, list_mark)
end

-- ---- encoding --------------------------------------------------------------

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n",
                 ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b",
                 ["\f"] = "\\f"}

--- s with what is not UTF-8 replaced by U+FFFD.
function json.utf8(s)
  local _, bad = utf8.len(s)
  if not bad then return s end
  local parts, at = {}, 1
  while bad do
    parts[#parts + 1] = s:sub(at, bad - 1)
    parts[#parts + 1] = "\u{FFFD}"
    at = bad + 1
    _, bad = utf8.len(s, at)
  end
  parts[#parts + 1] = s:sub(at)
  return table.concat(parts)
end

local function quote(s)
  if not s:find '[^ !#-%[%]-~]' then return '"' .. s .. '"' end
  return '"' .. json.utf8(s):gsub('[%c"\\\127]', function(c)
    return escapes[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local encode

local function is_list(t)
  local meta = getmetatable(t)
  if meta == object_mark then return false end
  return meta == list_mark or #t > 0 or next(t) == nil
end

-- Keys as they are written, of which there are few.
local heads, n_heads = {}, 0

local function head(key)
  local text = heads[key]
  if not text then
    text = quote(key) .. ": "
    if n_heads < 1000 and #key < 40 then
      heads[key], n_heads = text, n_heads + 1
    end
  end
  return text
end

local function encode_list(t, depth, out)
  out[#out + 1] = "["
  for i = 1, #t do
    if i > 1 then out[#out + 1] = ", " end
    encode(t[i], depth, out)
  end
  out[#out + 1] = "]"
end

local function encode_object(t, depth, out)
  local keys = {}
  for k in pairs(t) do
    if type(k) ~= "string" then
      error("json: the key of an object must be a string, not " .. tostring(k))
    end
    keys[#keys + 1] = k
  end
  table.sort(keys)
  out[#out + 1] = "{"
  for i, k in ipairs(keys) do
    if i > 1 then out[#out + 1] = ", " end
    out[#out + 1] = head(k)
    encode(t[k], depth, out)
  end
  out[#out + 1] = "}"
end

local function number_text(x)
  if math.type(x) == "integer" then return tostring(x) end
  if x ~= x or math.abs(x) == math.huge then return "null" end
  local text = ("%.15g"):format(x)
  return tonumber(text) == x and text or ("%.17g"):format(x)
end

-- Appends the text of x to the list of strings `out`.
function encode(x, depth, out)
  local kind, text = type(x), "null"
  if kind == "string" then
    text = quote(x)
  elseif kind == "number" then
    text = number_text(x)
  elseif kind == "boolean" then
    text = tostring(x)
  elseif kind == "table" and x ~= json.null then
    if depth > DEEPEST then
      error "json: tables nested too deeply, or a ring"
    end
    local add = is_list(x) and encode_list or encode_object
    return add(x, depth + 1, out)
  end
  out[#out + 1] = text
end

--- The text of x; an empty table is a list unless marked, keys are sorted.
function json.encode(x)
  local out = {}
  encode(x, 1, out)
  return table.concat(out)
end

-- ---- decoding --------------------------------------------------------------

local unescapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
                   ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}
local decode_value

local function fail(at, what)
  error({json = ("json: %s at byte %d"):format(what, at)}, 0)
end

-- Surrogate pairs are one character; half of one is U+FFFD.
local function unescape(s)
  s = s:gsub("\\\\", "\\u005c") -- so that a \u left is one
  s = s:gsub("\\u([dD][89aAbB]%x%x)\\u([dD][c-fC-F]%x%x)", function(a, b)
    local high, low = tonumber(a, 16) - 0xD800, tonumber(b, 16) - 0xDC00
    return utf8.char(0x10000 + high * 0x400 + low)
  end)
  return (s:gsub("\\(.)(%x?%x?%x?%x?)", function(c, hex)
    if c ~= "u" then return unescapes[c] .. hex end
    local code = tonumber(hex, 16)
    if code >= 0xD800 and code < 0xE000 then code = 0xFFFD end
    return utf8.char(code)
  end))
end

local function decode_string(text, at)
  local stop = at
  while true do
    stop = text:find('["\\%c]', stop + 1)
    if not stop then fail(at, "a string without its end") end
    local c = text:sub(stop, stop)
    if c == '"' then break end
    if c ~= "\\" then fail(stop, "a control character in a string") end
    local e = text:sub(stop + 1, stop + 1)
    if not unescapes[e] and not text:find("^u%x%x%x%x", stop + 1) then
      fail(stop, "a wrong escape")
    end
    stop = stop + (e == "u" and 5 or 1)
  end
  local s = text:sub(at + 1, stop - 1)
  if s:find("\\", 1, true) then s = unescape(s) end
  return s, stop + 1
end

local function skip(text, at)
  return (text:find("[^ \t\r\n]", at)) or #text + 1
end

local function decode_list(text, at, depth)
  local list, n = json.array{}, 0
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return list, at + 1 end
  while true do
    n = n + 1
    list[n], at = decode_value(text, at, depth)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "]" then return list, at + 1 end
    if c ~= "," then fail(at, "expected , or ]") end
    at = skip(text, at + 1)
  end
end

local function decode_object(text, at, depth)
  local object = json.object{}
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return object, at + 1 end
  while true do
    if text:sub(at, at) ~= '"' then fail(at, "expected a key") end
    local key, colon = decode_string(text, at)
    colon = skip(text, colon)
    if text:sub(colon, colon) ~= ":" then fail(colon, "expected :") end
    object[key], at = decode_value(text, skip(text, colon + 1), depth)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "}" then return object, at + 1 end
    if c ~= "," then fail(at, "expected , or }") end
    at = skip(text, at + 1)
  end
end

local words = {["true"] = true, ["false"] = false, null = json.null}

local function decode_other(text, at)
  local word = text:match("^%a+", at)
  if word and words[word] ~= nil then return words[word], at + #word end
  local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = number and not number:find("^-?0%d")
    and not number:find("%.%D") and not number:find("%.$") and tonumber(number)
  if not value then fail(at, "expected a value") end
  return value, at + #number
end

function decode_value(text, at, depth)
  if depth > DEEPEST then fail(at, "nested too deeply") end
  local c = text:sub(at, at)
  if c == "{" then return decode_object(text, at, depth + 1) end
  if c == "[" then return decode_list(text, at, depth + 1) end
  if c == '"' then return decode_string(text, at) end
  return decode_other(text, at)
end

--- The value of a JSON text; nil and why not, where it is none. Lists and
-- objects are marked, numbers integers where they are written so.
-- @usage require("tide.base.json").decode('[1, 2.5, "x"]')[2]  --> 2.5
function json.decode(text)
  local ok, value, at = pcall(function()
    local value, at = decode_value(text, skip(text, 1), 1)
    return value, skip(text, at)
  end)
  if not ok then
    if type(value) == "table" and value.json then return nil, value.json end
    error(value, 0)
  end
  if at <= #text then return nil, ("json: text after byte %d"):format(at) end
  return value
end

return json
