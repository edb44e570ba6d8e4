-- opfuzz.lua - random calls of every op from Lua: opfuzz.lua CALLS SEED
--
-- Random inputs (dtypes, shapes, empty and huge), random attributes. Whatever
-- comes back must be a value or an error object; a crash or a sanitizer's
-- finding ends the process. Prints how many were accepted, by op.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"

local calls, seed = tonumber(arg[1] or "20000"), tonumber(arg[2] or "1")
math.randomseed(seed)
local random = math.random

local dtypes = {"float32", "float32", "float32", "int32", "int32", "int64", "float64", "bool",
  "string", "uint8", "int8", "int16", "float16", "bfloat16", "complex64", "uint16"}
local sizes = {0, 1, 1, 2, 2, 3, 4, 5, 17}
local integers = {-2147483648, -9, -2, -1, -1, 0, 0, 1, 1, 2, 3, 5, 100, 2147483647,
  9223372036854775807}
local floats = {0.0, -0.0, 1.0, -1.5, 0.5, 3.25, 1e30, -1e-30, 1 / 0, -1 / 0, 0 / 0}

local function pick(list) return list[random(#list)] end

-- A dtype the op takes for this argument, most of the time.
local function dtype_of(info, arg, chosen)
  local name = arg.type:match("%*(.+)$") or arg.type
  for _, a in ipairs(info.attrs) do
    if a.name == name then
      if not chosen[name] then
        chosen[name] = a.allowed and pick(a.allowed) or pick(dtypes)
      end
      return random(20) == 1 and pick(dtypes) or chosen[name]
    end
  end
  return name
end

local function shape(like)
  if like and random(3) > 1 then return like end
  local s = {}
  for i = 1, pick{0, 1, 1, 2, 2, 3, 4, 8} do s[i] = pick(sizes) end
  local n = 1
  for _, d in ipairs(s) do n = n * d end
  return n > 5000 and {2, 3} or s
end

local function element(dtype)
  if dtype == "string" then return pick{"", "a", "tide", "\0x"} end
  if dtype == "bool" then return random(2) == 1 end
  if dtype:find("float") or dtype:find("complex") then return pick(floats) end
  local v = pick(integers)
  local low, high = -128, 127
  if dtype:find("^u") then low = 0 end
  if dtype == "int32" then low, high = -2147483648, 2147483647 end
  if dtype == "int64" then return v end
  return math.max(low, math.min(high, v))
end

local function value(dtype, s)
  local n = 1
  for _, d in ipairs(s) do n = n * d end
  local flat = {}
  for i = 1, n do flat[i] = element(dtype) end
  return core.tensor(flat, dtype, s)
end

local function attribute(a)
  if a.type == "bool" then return random(2) == 1 end
  if a.type == "int" then return pick(integers) end
  if a.type == "float" then return pick(floats) end
  if a.type == "type" then return a.allowed and pick(a.allowed) or pick(dtypes) end
  if a.type == "shape" then return shape() end
  if a.type == "string" then return a.allowed and pick(a.allowed) or pick{"", "NHWC", "x"} end
  if a.type == "list(int)" then return {pick(integers), pick(integers)} end
end

local names, infos, functions = core.op_names(), {}, {}
local skip = {Print = true, Assert = true}
local usable = {}
for _, name in ipairs(names) do
  infos[name], functions[name] = core.op_info(name), core.op(name)
  local plain = #infos[name].inputs > 0 and name:sub(1, 1) ~= "_" and not skip[name]
  for _, a in ipairs(infos[name].inputs) do
    if a.type == "resource" or a.type == "variant" then plain = false end
  end
  if plain then usable[#usable + 1] = name end
end

local taken, refused, strange = {}, {}, 0
local accepted = 0

local function call(name)
  local info, args, chosen = infos[name], {}, {}
  local like = shape()
  for i, a in ipairs(info.inputs) do
    if a.list then
      local list, s = {}, shape(like)
      for k = 1, random(0, 4) do list[k] = value(dtype_of(info, a, chosen), shape(s)) end
      args[i] = list
    else
      args[i] = value(dtype_of(info, a, chosen), shape(like))
    end
  end
  local options = {}
  for _, a in ipairs(info.attrs) do
    if not a.deduced and (not a.default or random(3) == 1) then
      options[a.name] = attribute(a)
    end
  end
  args[#args + 1] = options
  return functions[name](table.unpack(args))
end

-- Nodes that must not be computed at once are built into a graph of their own.
for i = 1, calls do
  if i % 2000 == 1 then td.reset() end
  local name = usable[(i - 1) % #usable + 1]
  local made, ok, err = pcall(pcall, call, name)
  if not made then ok, err = false, ok end
  if ok then
    accepted = accepted + 1
    taken[name] = (taken[name] or 0) + 1
  else
    refused[name] = (refused[name] or 0) + 1
    if type(err) ~= "table" or not err.code or err.code == "internal" then
      strange = strange + 1
      if strange <= 20 then print("strange error of " .. name .. ": " .. tostring(err)) end
    end
  end
end

local never, always = {}, {}
for _, name in ipairs(usable) do
  if not taken[name] then never[#never + 1] = name end
  if not refused[name] then always[#always + 1] = name end
end
print(("%d calls of %d ops, %.0f %% accepted, seed %d"):format(calls, #usable,
  100 * accepted / calls, seed))
print("never accepted: " .. table.concat(never, " "))
print("never refused: " .. table.concat(always, " "))
print(("%d passed, %d failed, 0 skipped"):format(strange == 0 and 1 or 0, strange == 0 and 0 or 1))
os.exit(strange == 0 and 0 or 1)
