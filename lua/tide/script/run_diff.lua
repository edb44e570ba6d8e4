--- script/run_diff.lua - in what two runs differ.
--
-- A difference is {area =, name =, was =, is =, text =}; `was` or `is` is nil
-- where one run has no such thing. Whether it can change the bits of a result
-- is told by its area: "script", "modules", "flags", "seed", "versions",
-- "machine", "environment" can; "git", "argv" and "result" only tell.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local flags = require "tide.script.flags"
local value = require "tide.show.value"

local diff = {}

local function shown(x)
  if x == nil then return "nothing" end
  if type(x) == "table" then return shown(table.concat(x, " ")) end
  return type(x) == "string" and value.quote(x, 100) or tostring(x)
end

-- A name from a file, fit for a terminal.
local function plain(name)
  return (name:gsub("[%c\127]", "?"))
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  if #a ~= #b then return false end
  for i, each in ipairs(a) do
    if each ~= b[i] then return false end
  end
  return true
end

-- Adds what differs in one thing.
local function add(found, area, name, was, is)
  if same(was, is) then return end
  local text = ("%s was %s, is %s"):format(plain(name), shown(was), shown(is))
  found[#found + 1] = {area = area, name = name, was = was, is = is,
                       text = text}
end

-- The keys of both, sorted.
local function names_of(a, b)
  local all = {}
  for _, t in ipairs{a or {}, b or {}} do
    for name in pairs(t) do all[name] = true end
  end
  return args.sorted_keys(all)
end

-- The same for all names of two objects of plain values.
local function add_all(found, area, a, b, prefix)
  for _, name in ipairs(names_of(a, b)) do
    add(found, area, prefix .. name, (a or {})[name], (b or {})[name])
  end
end

-- Files by what they hold; where they are does not matter.
local function by_name(list)
  local t = {}
  for _, m in ipairs(list or {}) do t[tostring(m.name)] = m.sha256 end
  return t
end

-- The same for files, of which the start of a long number is enough.
local function add_number(found, area, name, was, is)
  if was == is then return end
  local function short(x)
    return shown(type(x) == "string" and x:sub(1, 12) or x)
  end
  found[#found + 1] = {area = area, name = name, was = was, is = is,
    text = ("%s is another: SHA-256 was %s, is %s"):format(plain(name),
      short(was), short(is))}
end

-- What both must have for the same bits, but flags and seed.
local function add_code(found, a, b)
  local was, is = a.script or {}, b.script or {}
  add_number(found, "script", "the script", was.sha256, is.sha256)
  local before, after = by_name(a.modules), by_name(b.modules)
  for _, name in ipairs(names_of(before, after)) do
    add_number(found, "modules", "module " .. name, before[name], after[name])
  end
  add_all(found, "versions", a.versions, b.versions, "")
  add_all(found, "machine", a.machine, b.machine, "machine: ")
  add_all(found, "environment", a.environment, b.environment, "")
end

local function add_flags(found, a, b)
  for _, d in ipairs(flags.differences(a.flags, b.flags)) do
    d.area = "flags"
    found[#found + 1] = d
  end
  add(found, "seed", "the seed", a.seed, b.seed)
end

--- All in which two records differ, what may change the bits first.
-- @param a, b what runs.read gave
function diff.all(a, b)
  local found = {}
  add_flags(found, a, b)
  add_code(found, a, b)
  add(found, "argv", "the arguments", a.argv, b.argv)
  add_all(found, "git", a.git, b.git, "git: ")
  add(found, "result", "reason", a.reason, b.reason)
  add(found, "result", "step", a.step, b.step)
  add_all(found, "result", a.metrics, b.metrics, "")
  return found
end

-- How many processors there are is no matter, nor is the number of threads,
-- which Tide's results do not depend on.
local harmless = {["machine: processors"] = true, ["machine: threads"] = true}

--- Why a run would not have the bits of record `a` where the facts are `b`: a
-- list as diff.all gives it. The same instruction sets are meant, not the same
-- machine.
function diff.of_bits(a, b)
  local found, list = {}, {}
  add_code(found, a, b)
  for _, d in ipairs(found) do
    if not harmless[d.name] and d.name ~= "machine: processor" then
      list[#list + 1] = d
    end
  end
  return list
end

return diff
