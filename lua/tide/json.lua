--- json.lua - Lua tables as JSON text.
--
-- SPDX-License-Identifier: Apache-2.0

local json = {}

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n",
                 ["\r"] = "\\r", ["\t"] = "\\t"}

local function quote(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return escapes[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local encode

local function encode_table(t)
  local parts = {}
  if #t > 0 or next(t) == nil then
    for i, x in ipairs(t) do parts[i] = encode(x) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  for i, k in ipairs(keys) do parts[i] = quote(k) .. ": " .. encode(t[k]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function encode(x)
  local kind = type(x)
  if kind == "table" then return encode_table(x) end
  if kind == "string" then return quote(x) end
  if kind == "boolean" then return tostring(x) end
  if math.type(x) == "integer" then return tostring(x) end
  if kind == "number" and x == x and math.abs(x) ~= math.huge then
    return ("%.17g"):format(x)
  end
  return "null"
end

--- The text of x; an empty table is a list, keys are sorted.
json.encode = encode

return json
