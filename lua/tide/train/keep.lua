--- train/keep.lua - things of a script in a checkpoint: what is kept as text.
--
-- A thing is an object with :state() and :restore(s), such as a pipeline; plain
-- data, which is numbers, strings, booleans and tables of them; or a value. It
-- becomes a text that is read back by this file alone and never run:
--
--   i12;  d0x1.8p+0;  s3:abc  T  F  {key value key value}  v9:a TensorProto
--
-- before it a letter says which of the three it is. Tables are in a fixed order
-- of their keys: the same data give the same text.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local ops = require("tide.ops").ops
local variables = require "tide.variables.variables"

local keep = {}

local fail = errors.invalid
local DEEPEST = 100

-- ---- writing --------------------------------------------------------------

local write

local function by_key(a, b)
  local ta, tb = math.type(a) or type(a), math.type(b) or type(b)
  if ta ~= tb then return ta < tb end
  if ta == "boolean" then return not a and b end
  return a < b
end

local function write_table(x, path, depth, out)
  if depth == DEEPEST then
    fail("keep: %s is nested too deeply, or holds itself", path)
  end
  local keys = {}
  for k in pairs(x) do
    if type(k) ~= "string" and type(k) ~= "number" and type(k) ~= "boolean" then
      fail("keep: a key of %s is %s; keys are strings, numbers and booleans",
           path, args.what(k))
    end
    keys[#keys + 1] = k
  end
  table.sort(keys, by_key)
  out[#out + 1] = "{"
  for _, k in ipairs(keys) do
    write(k, path, depth + 1, out)
    write(x[k], ("%s[%q]"):format(path, k), depth + 1, out)
  end
  out[#out + 1] = "}"
end

local function write_bytes(letter, s, out)
  out[#out + 1] = ("%s%d:"):format(letter, #s)
  out[#out + 1] = s
end

-- Appends the text of x, which is found at `path`, to a list of strings.
function write(x, path, depth, out)
  local kind = math.type(x) or type(x)
  if kind == "integer" then
    out[#out + 1] = ("i%d;"):format(x)
  elseif kind == "float" then
    out[#out + 1] = x ~= x and "dnan;" or ("d%a;"):format(x)
  elseif kind == "boolean" then
    out[#out + 1] = x and "T" or "F"
  elseif kind == "string" then
    write_bytes("s", x, out)
  elseif core.kind(x) == "tensor" then
    write_bytes("v", ops.serialize_tensor(x):item(), out)
    write_bytes("s", x.dtype, out)
  elseif variables.is_variable(x) then
    fail("keep: %s is a variable; the saver saves those, they need no keeping",
         path)
  elseif args.plain(x) then
    write_table(x, path, depth, out)
  else
    fail("keep: %s is %s; kept are objects with :state() and :restore(s), "
      .. "values, numbers, strings, booleans and plain tables of these", path,
      args.what(x))
  end
end

-- ---- reading --------------------------------------------------------------

local read

local function damaged(at)
  errors.raise("data_loss", "what was kept is damaged at byte %d of its text",
               at)
end

-- "3:abc" -> "abc"
local function read_bytes(text, at)
  local digits, start = text:match("^(%d+):()", at)
  local n = digits and #digits < 16 and math.tointeger(tonumber(digits))
  if not n or n > #text - start + 1 then damaged(at) end
  return text:sub(start, start + n - 1), start + n
end

local function read_tensor(text, at)
  local proto, dtype
  proto, at = read_bytes(text, at)
  dtype, at = read(text, at, 0)
  return ops.parse_tensor(core.tensor(proto, "string"), dtype), at
end

local function read_table(text, at, depth)
  if depth == DEEPEST then damaged(at) end
  local t = {}
  while text:sub(at, at) ~= "}" do
    local key
    key, at = read(text, at, depth + 1)
    if type(key) == "table" or key ~= key or core.kind(key) then damaged(at) end
    t[key], at = read(text, at, depth + 1)
  end
  return t, at + 1
end

local numbers = {["inf"] = math.huge, ["-inf"] = -math.huge, ["nan"] = 0 / 0}

local function read_number(text, at, letter)
  local digits, stop = text:match("^([^;]*);()", at)
  local x = digits and (letter == "d" and numbers[digits] or tonumber(digits))
  if not x then damaged(at) end
  if math.type(x) ~= (letter == "d" and "float" or "integer") then
    damaged(at)
  end
  return x, stop
end

-- The value that begins at byte `at`, and where the next does.
function read(text, at, depth)
  local letter = text:sub(at, at)
  if letter == "i" or letter == "d" then
    return read_number(text, at + 1, letter)
  end
  if letter == "s" then return read_bytes(text, at + 1) end
  if letter == "v" then return read_tensor(text, at + 1) end
  if letter == "T" or letter == "F" then return letter == "T", at + 1 end
  if letter == "{" then return read_table(text, at + 1, depth) end
  return damaged(at)
end

--- Plain data as text.
function keep.encode(x, name)
  local out = {}
  write(x, name or "it", 0, out)
  return table.concat(out)
end

--- The data of such a text.
function keep.decode(text)
  local x, at = read(text, 1, 0)
  if at ~= #text + 1 then damaged(at) end
  return x
end

-- ---- things ---------------------------------------------------------------

local function method(x, name)
  local ok, f = pcall(function() return x[name] end)
  return ok and type(f) == "function" and f or nil
end

--- Is x an object that tells and takes its own state?
function keep.has_state(x)
  if type(x) ~= "table" and type(x) ~= "userdata" or core.kind(x) then
    return false
  end
  return method(x, "state") ~= nil and method(x, "restore") ~= nil
end
local has_state = keep.has_state

local function save_one(name, x)
  if has_state(x) then return "o" .. keep.encode(x:state(), name) end
  return (args.plain(x) and "t" or "d") .. keep.encode(x, name)
end

--- Names, sorted, and texts of a table of things: two lists.
function keep.save(things)
  if not args.plain(things) then
    fail("keep is a table {name = thing}, not %s", args.what(things))
  end
  local names, texts = {}, {}
  for k in pairs(things) do
    names[#names + 1] = args.expect(k, "string", "keep: a name")
  end
  table.sort(names)
  for i, name in ipairs(names) do texts[i] = save_one(name, things[name]) end
  return names, texts
end

-- The content of table `from` comes in place of t's.
local function fill(t, from)
  for k in pairs(t) do t[k] = nil end
  for k, v in pairs(from) do t[k] = v end
  return t
end

local kinds = {o = "an object with a state", t = "a table", d = "a value"}

local function kind_of(x)
  if has_state(x) then return "o" end
  return args.plain(x) and "t" or "d"
end

--- Reads the text of thing x, and gives what puts it in place: a function, to
-- be called when all is read, that returns the thing as it is then. An object
-- is restored, a table filled; of a number, a string or a value there is only
-- what is returned.
function keep.restore(name, x, text)
  local was = text:sub(1, 1)
  if not kinds[was] then damaged(1) end
  if was ~= kind_of(x) then
    fail("keep: \"%s\" was saved as %s and is %s now", name, kinds[was],
         kinds[kind_of(x)])
  end
  local data = keep.decode(text:sub(2))
  return function()
    if was == "o" then
      x:restore(data)
      return x
    end
    return was == "t" and fill(x, data) or data
  end
end

return keep
