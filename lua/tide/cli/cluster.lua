--- cli/cluster.lua - `tide cluster check ..`: is all of a cluster there?
-- `tide cluster bench`: what are the ways of values between processes worth?
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local attach = require "tide.remote.attach"
local autoload = require "tide.base.autoload"
local check = require "tide.remote.check"
local cluster = require "tide.remote.cluster"
local flags = require "tide.script.flags"
local json = require "tide.base.json"
local style = require "tide.show.style"
local tables = require "tide.show.tables"

local bench = autoload "tide.remote.bench"

local USAGE = [[
usage: tide cluster check FILE [options]
       tide cluster check ADDRESS.. [options]
       tide cluster bench [--steps N] [--json]

check looks whether the tasks of a cluster can be attached: name, port, keys,
version, and the ways between each two of them: round trip (the least, the
median), how far their clocks are apart, MB/s. FILE is JSON, as td.cluster
takes it; ADDRESS is tcp://HOST:PORT or ipc:///PATH. What runs there goes on.
The exit code is 1 where something is wrong.

  --key KEY     the workers' public key, or a file with it
  --seconds N   that each may take to answer (5)
  --bytes N     that each way is measured with (8388608; 1048576 of many ways)
  --no-ways     only the tasks
  --json        the same for programs

bench starts workers of its own on this machine and runs one step over two of
them, with each way of values between them left out: time of a step, memory of
tensors in both, bytes and messages that they sent, each with what it is beside
the first line's.

  --steps N     of each way (20)
]]

local MOST_WAYS = 40 -- that are shown
local WIDE = 96 -- columns, which the numbers of values need
local DEFAULTS = {key = "", seconds = 5.0, bytes = 0, no_ways = false,
                  json = false, steps = 20}

-- ---- whom ------------------------------------------------------------------

local function is_address(word)
  return word:find("://", 1, true) or not core.exists(word)
end

-- The tasks that the words mean.
local function targets_of(words)
  if #words == 1 and not is_address(words[1]) then
    return attach.targets(cluster.cluster(words[1]), {})
  end
  return attach.targets(words, {})
end

-- ---- tasks -----------------------------------------------------------------

local function plural(n, word)
  return ("%s %s%s"):format(style.count(n), word, n == 1 and "" or "s")
end

local function print_task(row)
  local name = row.task and row.task .. " at " .. row.address or row.address
  if row.ok then
    print(("ok     %s: Tide %s, %s, %s, %s"):format(name, row.build, row.isa,
      plural(row.devices, "device"), style.bytes(row.memory)))
  else
    print(style.paint("red", "wrong") .. ("  %s: %s; %s"):format(name,
      row.problem, row.advice))
  end
  for _, text in ipairs(row.notes) do print("       " .. text) end
end

-- ---- ways ------------------------------------------------------------------

local function ms(x) return x and ("%.2f ms"):format(x * 1e3) or "" end

-- "worker 1" of "/job:worker/task:1".
local function brief(task)
  local job, n = task:match "^/job:([%w_]+)/task:(%d+)$"
  return job and job .. " " .. n or task
end

local function clock_text(way)
  if not way.clock then return "" end
  local far = math.abs(way.clock) >= 1
  return (far and "%+.1f s ± %.2f ms" or "%+.2f ms ± %.2f"):format(
    far and way.clock or way.clock * 1e3, way.clock_error * 1e3)
end

local function cells_of(way)
  return {brief(way.from), brief(way.to), ms(way.round_trip), ms(way.median),
          clock_text(way),
          way.rate and ("%.0f MB/s"):format(way.rate / 1e6) or ""}
end

-- Those in trouble, then the slowest.
local function shown(ways)
  local list = table.move(ways, 1, #ways, 1, {})
  if #ways <= MOST_WAYS then return list end
  local at = {}
  for i, way in ipairs(ways) do
    at[way] = {(way.problem and 0) or (way.note and 1) or 2, way.rate or 0, i}
  end
  table.sort(list, function(x, y)
    local a, b = at[x], at[y]
    if a[1] ~= b[1] then return a[1] < b[1] end
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[3] < b[3]
  end)
  return table.move(list, 1, MOST_WAYS, 1, {})
end

local function print_ways(ways)
  local cells, list = {}, shown(ways)
  if #ways == 0 then return end
  for i, way in ipairs(list) do cells[i] = cells_of(way) end
  print("\n" .. tables.layout(cells, {"from", "to", "round trip", "median",
    "clock", "through"}, style.width(), {false, false, true, true, true, true}))
  if #ways > #list then
    print(("%s more, which are quicker"):format(style.count(#ways - #list)))
  end
  for _, way in ipairs(list) do
    local text = way.problem or way.note
    if text then
      print(("%s  %s to %s: %s"):format(way.problem
        and style.paint("red", "wrong") or "note ", brief(way.from),
        brief(way.to), text))
    end
  end
end

-- ---- the whole -------------------------------------------------------------

local function count_bad(list, key, value)
  local n = 0
  for _, row in ipairs(list) do
    if (row[key] ~= nil) == value then n = n + 1 end
  end
  return n
end

local function summary(report)
  local bad = count_bad(report.tasks, "problem", true)
  local lost = count_bad(report.ways, "problem", true)
  if report.ok then
    return plural(#report.tasks, "task") .. (#report.ways > 0
      and ", " .. plural(#report.ways, "way") or "") .. ": all well"
  end
  local parts = {}
  if bad > 0 then
    parts[1] = ("%d of %s cannot be used"):format(bad,
      plural(#report.tasks, "task"))
  end
  if lost > 0 then
    parts[#parts + 1] = ("%d of %s cannot be gone"):format(lost,
      plural(#report.ways, "way"))
  end
  return table.concat(parts, "; ")
end

-- ---- ways of values --------------------------------------------------------

local function beside(x, all, text)
  return all and ("%s %5.2f"):format(text, x / all) or text .. "      "
end

local function print_host(rows)
  local cells, all = {}, rows[1]
  for i, row in ipairs(rows) do
    local to = i > 1 and all or {}
    local with = i == 1 and "" or row.adds and "with " or "no "
    cells[i] = {with .. row.way,
                beside(row.seconds, to.seconds, ms(row.seconds)),
                beside(row.memory, to.memory, style.bytes(row.memory)),
                beside(row.bytes, to.bytes, style.bytes(row.bytes // 1)),
                beside(row.messages, to.messages,
                       ("%.0f"):format(row.messages))}
  end
  print(rows.title .. "\n" .. tables.layout(cells, {"", "time", "memory",
    "sent", "messages"}, math.max(style.width(), WIDE)))
  print()
end

local function nothing() end

local function run_bench(f)
  local out = bench.run{steps = f.steps,
                        host = f.json and nothing or print_host}
  if not f.json then return 0 end
  for i, rows in ipairs(out) do
    out[i] = {title = rows.title,
              rows = json.array(table.move(rows, 1, #rows, 1, {}))}
  end
  print(json.encode(json.array(out)))
  return 0
end

local function act(f)
  local words = table.move(f, 2, #f, 1, {})
  local report = check.run(targets_of(words), {
    key = f.key ~= "" and f.key or nil, seconds = f.seconds,
    bytes = f.bytes > 0 and f.bytes or nil, ways = not f.no_ways,
    task = f.json and nothing or print_task, way = nothing})
  if f.json then
    for _, row in ipairs(report.tasks) do
      json.array(row.notes)
      row.incarnation = nil -- more digits than many programs keep
    end
    json.array(report.tasks)
    json.array(report.ways)
    print(json.encode(report))
  else
    print_ways(report.ways)
    print(summary(report))
  end
  return report.ok and 0 or 1
end

--- Runs the command; returns its exit code.
return function(words)
  if args.holds(words, "--help") or args.holds(words, "-h") then
    io.write(USAGE)
    return 0
  end
  local ok, f = pcall(flags.flags, DEFAULTS, words)
  local is_bench = ok and f[1] == "bench" and #f == 1 and f.steps > 0
  if not ok or not is_bench and (f[1] ~= "check" or #f < 2 or f.seconds <= 0)
  then
    if not ok then io.stderr:write("tide: ", f.message, "\n\n") end
    io.stderr:write(USAGE)
    return 2
  end
  local done, code = pcall(is_bench and run_bench or act, f)
  if done then return code end
  if type(code) == "table" and code.code == "cancelled" then return 130 end
  io.stderr:write("tide: ", tostring(code), "\n")
  return 1
end
