--- show/value.lua - plain Lua values as text: what a console prints.
--
-- Strings are quoted, tables written as Lua would read them, with their keys
-- sorted, as far as a screen holds; a table met inside of itself is <ring>.
-- Bounded work: of a large table what is printed is looked at, and no more than
-- MOST_KEYS keys are walked.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local style = require "tide.show.style"
local autoload = require "tide.base.autoload"

local functions = autoload "tide.help.functions"

local value = {}

local DEEPEST = 5
local MOST_ITEMS = 100   -- of one table
local MOST_KEYS = 20000  -- looked at in one table
local MOST_TEXT = 20000  -- bytes of a string
local MOST_LINES = 400

-- ---- strings ---------------------------------------------------------------

local escapes = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
                 ["\\"] = "\\\\", ['"'] = '\\"', ["\0"] = "\\0",
                 ["\27"] = "\\27"}

local function escape_control(c)
  return escapes[c] or ("\\x%02x"):format(c:byte())
end

local function escape_bad(s)
  local parts, at = {}, 1
  local _, bad = utf8.len(s)
  while bad do
    parts[#parts + 1] = s:sub(at, bad - 1)
    parts[#parts + 1] = ("\\x%02x"):format(s:byte(bad))
    at = bad + 1
    _, bad = utf8.len(s, at)
  end
  parts[#parts + 1] = s:sub(at)
  return table.concat(parts)
end

--- s in quotes, as Lua reads it, on one line; `most` bytes of it.
-- @usage require("tide.show.value").quote("a\n\"b\"")  --> "a\n\"b\""
function value.quote(s, most)
  local left = 0
  most = most or MOST_TEXT
  if #s > most then
    left = #s - most
    s = s:sub(1, most)
    while left > 0 and #s > most - 4 and not utf8.len(s) do
      s, left = s:sub(1, -2), left + 1
    end
  end
  local text = '"' .. escape_bad((s:gsub('[%c"\\\127]', escape_control))) .. '"'
  if left == 0 then return text end
  return ("%s… %s bytes more"):format(text, style.count(left))
end

-- A text of several lines as Lua's long string, which shows them; nil where it
-- holds what must be escaped.
local function long_string(s)
  if #s > MOST_TEXT or not s:find "\n." or s:find "[^\n\t -~\128-\255]"
     or not utf8.len(s) then
    return nil
  end
  local level = ""
  while s:find("]" .. level .. "]", 1, true) do level = level .. "=" end
  return ("[%s[\n%s]%s]"):format(level, s, level)
end

-- ---- functions, coroutines, userdata ---------------------------------------

local function place(info)
  if info.what == "C" then return "C" end
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

--- "function string.rep(s, n, sep)"; of a user: "function (a, b)  In[3]:1".
function value.func(f)
  local name = functions.name(f)
  local head = name and functions.head(name)
  if head then return "function " .. head end
  local info = debug.getinfo(f, "Su")
  local names = {}
  for i = 1, info.nparams do names[i] = debug.getlocal(f, i) or "?" end
  if info.isvararg then names[#names + 1] = "..." end
  return ("function (%s)  %s"):format(table.concat(names, ", "), place(info))
end

local function coroutine_text(co)
  local info = debug.getinfo(co, 0, "Sl")
  local where = info and info.currentline > 0
    and ("  %s:%d"):format(info.short_src, info.currentline) or ""
  return ("coroutine, %s%s"):format(coroutine.status(co), where)
end

-- An object's own text, nil where it has none; what goes wrong inside is told.
local function own_text(x)
  local meta = debug.getmetatable(x)
  if type(meta) ~= "table" or not rawget(meta, "__tostring") then return nil end
  local ok, text = pcall(tostring, x)
  if ok then return text end
  return ("<error in __tostring: %s>"):format(tostring(text))
end

local function type_name(x)
  local meta = debug.getmetatable(x)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name or type(x)
end

-- ---- tables ----------------------------------------------------------------

local reserved = {}
for word in ("and break do else elseif end false for function goto if in local "
  .. "nil not or repeat return then true until while"):gmatch "%a+" do
  reserved[word] = true
end

local rank = {boolean = 1, number = 2, string = 3}

-- Booleans, numbers, strings, then the others by their texts, taken once:
-- a __tostring may raise, or change its mind.
local function sort_keys(keys)
  local texts = {}
  for _, k in ipairs(keys) do
    if (rank[type(k)] or 1) == 1 then
      texts[k] = type(k) == "boolean" and tostring(k) or own_text(k)
        or ("%p"):format(k)
    end
  end
  table.sort(keys, function(a, b)
    local i, j = rank[type(a)] or 4, rank[type(b)] or 4
    if i ~= j then return i < j end
    if texts[a] then return texts[a] < texts[b] end
    return a < b
  end)
end

-- The keys behind the list 1 .. n, sorted; whether there were too many to see.
local function keys_of(t, n)
  local keys, seen = {}, 0
  for k in next, t do
    seen = seen + 1
    if seen > MOST_KEYS then return keys, true end
    if math.type(k) ~= "integer" or k < 1 or k > n then keys[#keys + 1] = k end
  end
  sort_keys(keys)
  return keys, false
end

local text_of

local function key_text(k, state, depth)
  if type(k) == "string" and k:find "^[%a_][%w_]*$" and not reserved[k] then
    return k
  end
  return "[" .. text_of(k, state, depth) .. "]"
end

-- Items of a table as texts, of which each may have several lines.
local function items_of(t, state, depth)
  local n = rawlen(t)
  local items, keys, many = {}, keys_of(t, n)
  for i = 1, math.min(n, MOST_ITEMS) do
    items[i] = text_of(rawget(t, i), state, depth + 1)
  end
  for i = 1, math.min(#keys, MOST_ITEMS - #items) do
    items[#items + 1] = key_text(keys[i], state, DEEPEST) .. " = "
      .. text_of(rawget(t, keys[i]), state, depth + 1)
  end
  local left = n + #keys - #items
  if many then
    items[#items + 1] = "… more"
  elseif left > 0 then
    items[#items + 1] = ("… %s more"):format(style.count(left))
  end
  return items
end

local function all_short(items)
  local total = 0
  for _, item in ipairs(items) do
    if #item > 12 then return false end
    total = total + #item + 2
  end
  return true, total
end

-- Short items fill lines; others have a line each.
local function lines_of(items, depth, width)
  local indent = ("  "):rep(depth)
  if not all_short(items) then
    return indent .. table.concat(items, ",\n" .. indent)
  end
  local lines, line = {}, ""
  for i, item in ipairs(items) do
    item = item .. (i < #items and "," or "")
    if line ~= "" and #indent + #line + 1 + #item > width then
      lines[#lines + 1] = indent .. line
      line = ""
    end
    line = line .. (line ~= "" and " " or "") .. item
  end
  lines[#lines + 1] = indent .. line
  return table.concat(lines, "\n")
end

local function table_text(t, state, depth)
  if state.inside[t] then return "<ring>" end
  local name = debug.getmetatable(t) and type_name(t) or ""
  name = name ~= "table" and name ~= "" and name .. " " or ""
  if next(t) == nil then return name .. "{}" end
  if depth >= DEEPEST then return name .. "{…}" end
  state.inside[t] = true
  local items = items_of(t, state, depth)
  state.inside[t] = nil
  local line = name .. "{" .. table.concat(items, ", ") .. "}"
  if style.columns(line) + 2 * depth <= state.width and not line:find "\n" then
    return line
  end
  return ("%s{\n%s\n%s}"):format(name, lines_of(items, depth + 1, state.width),
                                 ("  "):rep(depth))
end

-- One object inside of a table: a line of it, and what follows indented.
local function object_text(x, state, depth)
  local text = own_text(x) or type_name(x)
  if depth == 0 then return text end
  if core.kind(x) == "tensor" then
    text = text:gsub("[%c]", " ")
    local most = math.max(24, state.width - 2 * depth - 12)
    return #text <= most and text or text:sub(1, most):gsub(" [^ ]*$", "")
      .. " …"
  end
  return (text:gsub("\n", "\n" .. ("  "):rep(depth)))
end

function text_of(x, state, depth)
  local kind = type(x)
  if kind == "string" then
    return depth == 0 and long_string(x)
      or value.quote(x, depth > 0 and 200 or MOST_TEXT)
  end
  if kind == "function" then return value.func(x) end
  if kind == "thread" then return coroutine_text(x) end
  if kind == "userdata" then return object_text(x, state, depth) end
  if kind == "table" and not own_text(x) then
    return table_text(x, state, depth)
  end
  if kind == "table" then return object_text(x, state, depth) end
  return tostring(x)
end

local function cut_lines(text)
  local at, lines = 0, 0
  repeat
    at = text:find("\n", at + 1, true)
    lines = lines + 1
  until not at or lines == MOST_LINES
  if not at then return text end
  local _, left = text:sub(at):gsub("\n", "")
  return ("%s\n… %s lines more"):format(text:sub(1, at - 1), style.count(left))
end

--- Any value as the text that a console shows of it.
-- @usage require("tide.show.value").text{1, "a", b = {c = 2.5}}
-- --> {1, "a", b = {c = 2.5}}
function value.text(x, width)
  local state = {inside = {}, width = width or style.width()}
  local text = text_of(x, state, 0)
  return type(x) == "string" and text or cut_lines(text)
end

return value
