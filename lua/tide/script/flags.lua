--- script/flags.lua - settings of a script from its command line.
--
--   local flags = td.flags{lr = 1e-3, epochs = 5, data = ""}
--
-- reads `--lr 0.01 --epochs=3`. A default fixes the type; --help is made.
--
-- `--resume` is a flag of every script: whoever keeps the state of a run
-- (td.train.supervisor, fit{checkpoint =}) asks for it by flags.resume(). That
-- may be opened long after the flags were read, so nobody knows then whether it
-- will be; where it never was, that is said at the end. A script that has a
-- flag `resume` of its own keeps it.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local redirect = require "tide.script.redirect"

local fail = errors.invalid
local flags = {}

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

local RESUME = "  --resume           boolean  (false; with scripts that save "
  .. "their state: go on)"

local function usage(defaults, own)
  local lines = {"flags:"}
  for _, name in ipairs(args.sorted_keys(defaults)) do
    local value = defaults[name]
    lines[#lines + 1] = ("  --%-16s %-8s (%s)"):format(name, kind_of(value),
      value == "" and "none" or tostring(value))
  end
  if own and defaults.resume == nil then lines[#lines + 1] = RESUME end
  return table.concat(lines, "\n")
end

local function set(values, defaults, name, text)
  local kind = kind_of(defaults[name])
  local value = parsers[kind](text)
  if value == nil then
    fail("flag --%s is %s %s, given \"%s\"", name,
         kind == "integer" and "an" or "a", kind, text)
  end
  values[name] = value
end

local function unknown(defaults, name, own)
  local list = args.sorted_keys(defaults)
  if own then list[#list + 1] = "resume" end
  fail("no flag --%s%s\n%s", name, errors.did_you_mean(name, list, "--%s"),
       usage(defaults, own))
end

-- Reads list[i]; returns how many words it took.
local function read_one(values, defaults, list, i, own)
  local name, text = list[i]:match("^%-%-([^=]+)=?(.*)$")
  local inline = list[i]:find("=", 1, true) ~= nil
  name = flag_name(name)
  local off = name:match("^no_(.+)$")
  if defaults[name] == nil and off and type(defaults[off]) == "boolean"
     and not inline then
    values[off] = false
    return 1
  end
  if defaults[name] == nil then unknown(defaults, name, own) end
  if inline then
    set(values, defaults, name, text)
    return 1
  end
  if type(defaults[name]) == "boolean" then
    values[name] = true
    return 1
  end
  if list[i + 1] == nil then fail("flag --%s needs a value", name) end
  set(values, defaults, name, list[i + 1])
  return 2
end

-- ---- --resume --------------------------------------------------------------

local read_last -- what td.flags gave last, of the script's own words
local resume = {given = false, asked = false}

-- Asked for, and nobody was there who could: said when the interpreter ends.
function resume.__gc()
  if resume.given and not resume.asked then
    io.stderr:write("tide: --resume changed nothing: the script opened "
      .. "nothing that keeps its state (td.train.supervisor, "
      .. "fit{checkpoint =})\n")
  end
end
setmetatable(resume, resume)

--- Was `--resume` given? Says that somebody heeds it. A script that does not
-- call td.flags is asked by its arguments.
function flags.resume()
  resume.asked = true
  if resume.given then return true end
  if read_last then return read_last.resume == true end
  return args.holds(rawget(_G, "arg") or {}, "--resume")
end

-- ---- reading ---------------------------------------------------------------

local function read_defaults(defaults)
  local values = {}
  for name, value in pairs(defaults) do
    if not parsers[kind_of(value)] then
      fail("flag --%s: the default must be a number, boolean or string", name)
    end
    values[name] = value
  end
  return values
end

local function is_resume(word, defaults, own)
  return own and word == "--resume" and defaults.resume == nil
end

--- Values of the flags: those of the command line over the defaults.
-- @param defaults {name = value}; numbers, booleans, strings
-- @param[opt] list of words, the script's arguments by default
-- @return table of values; what is no flag is in its list part
-- @raise invalid_argument for an unknown flag or a value of another type
function flags.flags(defaults, list)
  local words = rawget(_G, "arg") or {}
  local own = list == nil or list == words
  list = list or words
  local values = read_defaults(defaults)
  if own then resume.given = false end -- until it is found
  local i = 1
  while list[i] do
    if list[i] == "--help" or list[i] == "-h" then
      print(usage(defaults, own))
      os.exit(0, true)
    elseif is_resume(list[i], defaults, own) then
      resume.given = true
      i = i + 1
    elseif list[i]:match("^%-%-.") then
      i = i + read_one(values, defaults, list, i, own)
    else
      values[#values + 1] = list[i]
      i = i + 1
    end
  end
  for name, value in pairs(values) do
    if type(value) == "string" then values[name] = redirect.path(value) end
  end
  if own then read_last = values end
  return values
end

-- ---- what was read ---------------------------------------------------------

--- What td.flags gave last from the script's own command line, or nil.
function flags.last()
  return read_last
end

--- Flags in a fixed order: a list of {name =, value =}, sorted. The script's
-- other words are left out, and so is `resume`, which says nothing about what
-- is computed.
-- @param values what td.flags gave, or another table of named settings
function flags.list(values)
  local list = {}
  for _, name in ipairs(args.sorted_keys(values)) do
    local value = values[name]
    if name ~= "resume" and parsers[kind_of(value)] then
      list[#list + 1] = {name = name, value = value}
    end
  end
  return list
end

local function text(value)
  if type(value) == "string" then
    return (("%q"):format(value):gsub("\\\n", "\\n"))
  end
  return tostring(value)
end

-- What became of one flag; nil where nothing did.
local function difference(name, was, is)
  if was == is or was ~= was and is ~= is then return nil end
  local d = {name = name, was = was, is = is}
  local word = name:gsub("[%c\127]", "?") -- one of a file may hold anything
  if was == nil then
    d.text = ("--%s was not there, is %s"):format(word, text(is))
  elseif is == nil then
    d.text = ("--%s was %s, is not there"):format(word, text(was))
  else
    d.text = ("--%s was %s, is %s"):format(word, text(was), text(is))
  end
  return d
end

--- Which flags differ between two tables of them, sorted by name: a list of
-- {name =, was =, is =, text = "--lr was 0.001, is 0.01"}. An integer and a
-- float of the same value are equal, NaN equals NaN.
-- @usage local flags = require "tide.script.flags"
-- flags.differences({lr = 0.001}, {lr = 0.01})[1].text
-- --> --lr was 0.001, is 0.01
function flags.differences(was, is)
  local found, all = {}, {}
  for _, values in ipairs{was, is} do
    for _, row in ipairs(flags.list(values)) do all[row.name] = true end
  end
  for _, name in ipairs(args.sorted_keys(all)) do
    found[#found + 1] = difference(name, was[name], is[name])
  end
  return found
end

return flags
