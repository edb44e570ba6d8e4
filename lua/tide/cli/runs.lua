--- cli/runs.lua - `tide runs DIR [A B] [--json]`: the runs below a folder.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local diff = require "tide.script.run_diff"
local errors = require "tide.base.errors"
local flags = require "tide.script.flags"
local json = require "tide.base.json"
local runs = require "tide.script.run_record"
local style = require "tide.show.style"
local tables = require "tide.show.tables"
local value = require "tide.show.value"

local USAGE = [[
usage: tide runs DIR [--json]
       tide runs DIR A B [--json]

Lists the runs below DIR: folders with a run.json, as td.train.supervisor and
td.train.fit{checkpoint =} leave them. Of the flags those are shown that differ
between the runs. With A and B, names in the list or folders: in what these two
differ.

  --json   the same for programs
]]

local DEEPEST = 8 -- folders below DIR that are looked into

-- ---- finding ---------------------------------------------------------------

-- Calls f(folder) for `dir` and those below it, once each.
local function walk(dir, f, depth, seen)
  local real = core.real_path(dir)
  if not real or seen[real] then return end
  seen[real] = true
  f(dir)
  if depth == 0 then return end
  local ok, names = pcall(core.list, dir)
  if not ok then
    io.stderr:write("tide: ", tostring(names), "\n")
    return
  end
  for name in names:gmatch "%Z+" do
    local below = dir:gsub("/$", "") .. "/" .. name
    if core.is_folder(below) then walk(below, f, depth - 1, seen) end
  end
end

-- The runs, {name, dir, state, data}, the oldest first; what is no record is
-- said and passed over.
local function find(dir)
  local list, root = {}, #dir:gsub("/+$", "") + 2
  walk(dir, function(folder)
    if not core.exists(folder .. "/run.json") then return end
    local data, why = runs.read(folder)
    if not data then
      io.stderr:write("tide: ", why, "\n")
      return
    end
    local name = folder:sub(root)
    list[#list + 1] = {name = name ~= "" and name or ".", dir = folder,
                       state = runs.state(folder, data), data = data}
  end, DEEPEST, {})
  table.sort(list, function(a, b)
    local x, y = a.data.created, b.data.created
    if x ~= y then return x < y end
    return a.name < b.name
  end)
  return list
end

-- ---- one run in words ------------------------------------------------------

-- Text from a file, fit for a terminal.
local function clean(text)
  if not text:find "[%c\127]" and utf8.len(text) then return text end
  return value.quote(text):sub(2, -2)
end

-- "2026-01-31 23:59" of its UTC time; as it stands where it is none.
local function time(text)
  local day, minute = text:match "^(%d+%-%d+%-%d+)T(%d+:%d+)"
  return day and day .. " " .. minute or clean(text)
end

local function duration(seconds)
  if seconds - seconds ~= 0 or seconds < 0 then return "?" end
  if seconds < 60 then return ("%.1f s"):format(seconds) end
  local s = seconds // 1
  if s < 3600 then return ("%d:%02d min"):format(s // 60, s % 60) end
  return ("%.0f:%02d h"):format(s // 3600, s // 60 % 60)
end

-- Of all its processes together.
local function seconds_of(data)
  local sum = data.seconds or 0
  for _, row in ipairs(data.attempts or {}) do
    if type(row.seconds) == "number" then sum = sum + row.seconds end
  end
  return sum
end

local function plain(x)
  if math.type(x) == "float" then return ("%.6g"):format(x) end
  return clean(tostring(x))
end

local function pairs_text(t, names)
  local parts = {}
  for _, name in ipairs(names) do
    if t[name] ~= nil then
      parts[#parts + 1] = ("%s=%s"):format(clean(name), plain(t[name]))
    end
  end
  return table.concat(parts, " ")
end

-- ---- the list --------------------------------------------------------------

-- A flag's value; one that names the run's own folder tells nothing.
local function flag_of(r, name)
  local x = r.data.flags[name]
  local own = type(x) == "string"
    and (x == r.name or x:sub(-#r.name - 1) == "/" .. r.name)
  return not own and x or nil
end

-- The names of flags that are not the same in all runs.
local function differing(list)
  local all, names = {}, {}
  for _, r in ipairs(list) do
    for name in pairs(r.data.flags) do all[name] = true end
  end
  for _, name in ipairs(args.sorted_keys(all)) do
    local first = flag_of(list[1], name)
    for _, r in ipairs(list) do
      if flag_of(r, name) ~= first then
        names[#names + 1] = name
        break
      end
    end
  end
  return names
end

local COLUMNS = {"name", "state", "begun (UTC)", "took", "steps", "seed",
                 "flags", "metrics"}
local RIGHT = {[4] = true, [5] = true, [6] = true}

local function print_list(list)
  local names, rows = differing(list), {}
  for i, r in ipairs(list) do
    local d = r.data
    rows[i] = {clean(r.name), clean(r.state), time(d.created),
               duration(seconds_of(d)), d.step and tostring(d.step) or "",
               d.seed and tostring(d.seed) or "", pairs_text(d.flags, names),
               pairs_text(d.metrics or {}, args.sorted_keys(d.metrics or {}))}
  end
  local width = core.isatty(1) and style.terminal_width() or math.huge
  print(tables.layout(rows, COLUMNS, width, RIGHT))
end

local function print_json(list)
  local rows = {}
  for i, r in ipairs(list) do
    rows[i] = json.encode{name = r.name, dir = r.dir, state = r.state,
                          run = r.data}
  end
  print("[" .. table.concat(rows, ",\n") .. "]")
end

-- ---- two of them -----------------------------------------------------------

-- The run of that name in the list, or in that folder.
local function pick(dir, name)
  for _, folder in ipairs{dir:gsub("/+$", "") .. "/" .. name, name} do
    if core.exists(folder .. "/run.json") then
      local data, why = runs.read(folder)
      if not data then errors.raise("data_loss", "%s", why) end
      return data
    end
  end
  local names = {}
  for i, r in ipairs(find(dir)) do names[i] = r.name end
  return errors.raise("not_found", "no run \"%s\" below '%s'%s", name, dir,
                      errors.did_you_mean(name, names))
end

local function compare(dir, a, b, as_json)
  local found = diff.all(pick(dir, a), pick(dir, b))
  if as_json then
    print(json.encode(json.array(found)))
    return
  end
  if #found == 0 then print "They do not differ." end
  local area
  for _, d in ipairs(found) do
    if d.area ~= area then
      area = d.area
      print(area)
    end
    print("  " .. d.text)
  end
end

-- ---- the command -----------------------------------------------------------

local function act(f)
  local dir = f[1]
  if not core.is_folder(dir) then
    errors.raise("not_found", "there is no folder '%s'", dir)
  end
  if f[2] then return compare(dir, f[2], f[3], f.json) end
  local list = find(dir)
  if f.json then return print_json(list) end
  if #list == 0 then
    print(("No runs below '%s': none of its folders has a run.json."):format(
      clean(dir)))
    return
  end
  print_list(list)
end

--- Runs the command; returns its exit code.
return function(words)
  if args.holds(words, "--help") or args.holds(words, "-h") then
    io.write(USAGE)
    return 0
  end
  local ok, f = pcall(flags.flags, {json = false}, words)
  if not ok or #f ~= 1 and #f ~= 3 then
    if not ok then io.stderr:write("tide: ", f.message, "\n\n") end
    io.stderr:write(USAGE)
    return 2
  end
  local done, why = pcall(act, f)
  if done then return 0 end
  io.stderr:write("tide: ", tostring(why), "\n")
  return 1
end
