--- script/flags.lua - settings of a script from its command line.
--
--   local flags = td.flags{lr = 1e-3, epochs = 5, data = ""}
--
-- reads `--lr 0.01 --epochs=3`. A default fixes the type; --help is made.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"

local fail = errors.invalid

local parsers = {
  integer = function(text) return math.tointeger(tonumber(text)) end,
  float = function(text)
    local n = tonumber(text)
    return n and n + 0.0
  end,
  boolean = function(text)
    return ({["true"] = true, ["1"] = true, yes = true, ["false"] = false,
             ["0"] = false, no = false})[text:lower()]
  end,
  string = function(text) return text end,
}

local function kind_of(x)
  return math.type(x) or type(x)
end

-- "--batch_size" and "--batch-size" are one.
local function flag_name(text) return (text:gsub("-", "_")) end

local function usage(defaults)
  local lines = {"flags:"}
  for _, name in ipairs(args.sorted_keys(defaults)) do
    local value = defaults[name]
    lines[#lines + 1] = ("  --%-16s %-8s (%s)"):format(name, kind_of(value),
      value == "" and "none" or tostring(value))
  end
  return table.concat(lines, "\n")
end

local function set(flags, defaults, name, text)
  local kind = kind_of(defaults[name])
  local value = parsers[kind](text)
  if value == nil then
    fail("flag --%s is %s %s, given \"%s\"", name,
         kind == "integer" and "an" or "a", kind, text)
  end
  flags[name] = value
end

local function unknown(defaults, name)
  fail("no flag --%s%s\n%s", name,
       errors.did_you_mean(name, args.sorted_keys(defaults), "--%s"),
       usage(defaults))
end

-- Reads list[i]; returns how many words it took.
local function read_one(flags, defaults, list, i)
  local name, text = list[i]:match("^%-%-([^=]+)=?(.*)$")
  local inline = list[i]:find("=", 1, true) ~= nil
  name = flag_name(name)
  local off = name:match("^no_(.+)$")
  if defaults[name] == nil and off and type(defaults[off]) == "boolean"
     and not inline then
    flags[off] = false
    return 1
  end
  if defaults[name] == nil then unknown(defaults, name) end
  if inline then
    set(flags, defaults, name, text)
    return 1
  end
  if type(defaults[name]) == "boolean" then
    flags[name] = true
    return 1
  end
  if list[i + 1] == nil then fail("flag --%s needs a value", name) end
  set(flags, defaults, name, list[i + 1])
  return 2
end

--- Values of the flags: those of the command line over the defaults.
-- @param defaults {name = value}; numbers, booleans, strings
-- @param[opt] list of words, the script's arguments by default
-- @return table of values; what is no flag is in its list part
-- @raise invalid_argument for an unknown flag or a value of another type
return function(defaults, list)
  list = list or rawget(_G, "arg") or {}
  local flags = {}
  for name, value in pairs(defaults) do
    if not parsers[kind_of(value)] then
      fail("flag --%s: the default must be a number, boolean or string", name)
    end
    flags[name] = value
  end
  local i = 1
  while list[i] do
    if list[i] == "--help" or list[i] == "-h" then
      print(usage(defaults))
      os.exit(0, true)
    elseif list[i]:match("^%-%-.") then
      i = i + read_one(flags, defaults, list, i)
    else
      flags[#flags + 1] = list[i]
      i = i + 1
    end
  end
  return flags
end
