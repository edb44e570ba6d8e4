--- remote/check.lua - are all tasks of a cluster there, and how good are the
-- ways between them?
--
-- Each task is looked at from the outside in: its host's name, its port, what
-- listens there, the keys, who it is, its port for data. What is wrong comes
-- with what to do about it. Then each task measures its way to each other one,
-- and this process its own to all; what they run goes on meanwhile.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local address = require "tide.remote.address"
local attach = require "tide.remote.attach"
local autoload = require "tide.base.autoload"

local keys = autoload "tide.remote.keys"

local check = {}

local ROUNDS = 20
local BYTES, FEW = 8 << 20, 1 << 20 -- of a way; where there are many ways
local MANY = 100   -- ways
local SLOW = 0.25  -- of what is usual goes through
local LATE = 10    -- times the usual round trip ...
local LATE_AT = 1e-3 -- ... and at least so many seconds
local APART = 1    -- seconds between two wall clocks

local HERE = "here"

-- ---- what is wrong ---------------------------------------------------------

-- By what the knock found: what is wrong, and what to do. `at` is the port of a
-- host, or a path.
local knocked = {
  unknown = function(a, _, what)
    return ("the name \"%s\" has no address (%s)"):format(a.host, what),
      "mend the name, or give the machine's number"
  end,
  refused = function(a, at, what)
    return ("nothing listens at %s (%s)"):format(at, what),
      "start `tide worker` there, or mend the " .. (a.port and "port" or "path")
  end,
  unreachable = function(a, at, what)
    return ("there is no way to %s (%s)"):format(a.host or at, what),
      "is the machine up, and in this network?"
  end,
  ["timed out"] = function(_, at)
    return at .. " does not answer", "open the port in the firewall between "
      .. "here and there, or start the machine"
  end,
  silent = function(_, at)
    return at .. " takes a connection and says nothing",
      "its process is stopped or hangs, or it is no worker of Tide"
  end,
  stranger = function(a, at)
    return ("what listens at %s is no worker of Tide"):format(at),
      "mend the " .. (a.port and "port" or "path")
  end,
  plain = function(_, at)
    return ("what listens at %s speaks without keys"):format(at),
      "mend the port: over tcp a worker of Tide takes keys"
  end,
}

-- What the knock says against an address; nil where it says nothing.
local function knock_problem(text, seconds)
  local found, what = core.knock(text, seconds)
  local a = address.parse(text)
  if found == (a.scheme == "ipc" and "plain" or "keys") then return nil end
  return knocked[found](a, a.port and ("port %d of %s"):format(a.port, a.host)
    or a.path, what)
end

local function allow_advice()
  local ok, key = pcall(keys.public)
  if ok then
    return ("put %s on the list that the worker has by --allow"):format(key)
  end
  return "make a pair with `tide keygen`, and put the line of tide.pub on the "
    .. "list that the worker has by --allow"
end

-- The error of a handshake: what is wrong, and what to do.
local function refused(e)
  local text = type(e) == "table" and e.message or tostring(e)
  if text:find("not on the list", 1, true) then
    return "it does not let this process in: its key is not on the list there",
      allow_advice()
  end
  if text:find("in the handshake", 1, true) then
    return "it is there, and has another key than the one given",
      "give the key that the worker prints when it starts (--key)"
  end
  if type(e) == "table" and e.code == "failed_precondition" then
    return text, text:find("protocol", 1, true)
      and "install the same version of Tide on both"
      or "give the key that the worker prints when it starts (--key)"
  end
  return text, "look at what the worker writes there"
end

-- ---- one task --------------------------------------------------------------

local function fault(row, problem, advice)
  row.ok, row.problem, row.advice = false, problem, advice
  return row
end

local function note(row, fmt, ...)
  row.notes[#row.notes + 1] = fmt:format(...)
end

local function compare_build(row, known)
  if known.build ~= core.version then
    note(row, "it is Tide %s and this process %s: run the same one on all",
         known.build, core.version)
  end
  if not known.same_ops then
    note(row, "its ops are not those of this process: what it lacks cannot be "
      .. "placed there")
  end
  if known.isa ~= core.machine().isa then
    note(row, "it computes with %s and this process with %s: last bits may "
      .. "differ", known.isa, core.machine().isa)
  end
end

-- Who it is, as it should be; seen: those before it, by incarnation.
local function compare(row, target, known, seen)
  local name = attach.short(known.task)
  if seen[known.incarnation] then
    return fault(row, ("it is the same process as at %s"):format(
      seen[known.incarnation]), "give each task an address of its own")
  end
  seen[known.incarnation] = target.address
  if target.task and target.task ~= known.task then
    return fault(row, ("who answers is %s, not %s"):format(name,
      attach.short(target.task)), "start it with that --job and --task, or "
      .. "mend the list")
  end
  for _, other in pairs(seen.rows) do
    if other.task == name and other ~= row then
      return fault(row, ("%s is there already, at %s"):format(name,
        other.address), "start it with another --task")
    end
  end
  row.task = name
end

local function check_data(row, known, seconds)
  if known.data == "" or known.data:sub(1, 4) ~= "tcp:" then return end
  local problem = knock_problem(known.data, seconds)
  if problem then
    fault(row, "of its two ports the one for data cannot be used: " .. problem,
          "open it, or say by tide worker --data-port which it is, and by "
          .. "--advertise on which host")
  end
end

--- Looks at one task.
-- @param target {address =, task = its whole name, where it is known}
-- @param o key =, seconds =
-- @param seen what was found before
function check.task(target, o, seen)
  local row = {address = target.address, ok = true, notes = {},
               task = target.task and attach.short(target.task)}
  seen.rows[#seen.rows + 1] = row
  local problem, advice = knock_problem(target.address, o.seconds)
  if problem then return fault(row, problem, advice) end
  local ok, known = pcall(function()
    return core.reach(target.address, attach.key_of(target.address, o.key),
                      o.seconds)
  end)
  if not ok then
    if type(known) == "table" and known.code == "cancelled" then
      error(known, 0)
    end
    return fault(row, refused(known))
  end
  for _, key in ipairs{"build", "isa", "devices", "memory", "pid",
                       "same_host", "same_ops", "incarnation"} do
    row[key] = known[key]
  end
  compare(row, target, known, seen)
  if row.ok then check_data(row, known, o.seconds) end
  if row.ok then compare_build(row, known) end
  return row
end

-- ---- ways ------------------------------------------------------------------

local function measure(from, to, o)
  local way = {from = from and from.task or HERE, to = to.task}
  local ok, m = pcall(core.measure, {
    from = from and from.incarnation or 0, to = to.incarnation,
    rounds = ROUNDS, bytes = o.bytes, seconds = o.seconds})
  if not ok then
    if type(m) == "table" and m.code == "cancelled" then error(m, 0) end
    way.problem = type(m) == "table" and m.message or tostring(m)
    return way
  end
  way.round_trip, way.median = m.least, m.median
  way.clock, way.clock_error, way.wall = m.clock, m.least / 2, m.wall
  if m.took > 0 then way.rate = m.bytes / m.took end
  return way
end

-- Every two of them, both ways.
local function measure_all(rows, o, each)
  local ways, n = {}, #rows * #rows
  o.bytes = o.bytes or (n > MANY and FEW or BYTES)
  local function go(from, to)
    local way = measure(from, to, o)
    ways[#ways + 1] = way
    each(way)
  end
  for _, to in ipairs(rows) do go(nil, to) end
  for _, from in ipairs(rows) do
    for _, to in ipairs(rows) do
      if from ~= to then go(from, to) end
    end
  end
  return ways
end

local function middle(ways, key)
  local list = {}
  for _, way in ipairs(ways) do list[#list + 1] = way[key] end
  table.sort(list)
  return list[#list // 2 + 1]
end

-- What stands out.
local function judge(ways)
  local rate, trip = middle(ways, "rate"), middle(ways, "median")
  for _, way in ipairs(ways) do
    if way.rate and way.rate < SLOW * rate then
      way.note = ("slow: %.0f MB/s, where %.0f is usual here"):format(
        way.rate / 1e6, rate / 1e6)
    elseif way.median and way.median > LATE_AT and way.median > LATE * trip then
      way.note = ("late: %.1f ms, where %.2f is usual here"):format(
        way.median * 1e3, trip * 1e3)
    elseif way.wall and math.abs(way.wall) > APART then
      way.note = ("its wall clock is %.1f s %s: set the time there, or times "
        .. "in logs do not agree"):format(math.abs(way.wall),
        way.wall > 0 and "ahead" or "behind")
    end
  end
end

-- A way that does not work is the fault of its tasks.
local function is_well(rows, ways)
  for _, row in ipairs(rows) do
    if not row.ok then return false end
  end
  for _, way in ipairs(ways) do
    if way.problem then return false end
  end
  return true
end

--- Checks a list of tasks.
-- @param targets of check.task
-- @param o key =, seconds = for each task and way (5), bytes = that each way is
-- measured with, ways = false: none is; task(row), way(row): called with each
-- that is known
-- @return {tasks = rows, ways = rows, ok = are all well}
function check.run(targets, o)
  local seen, here = {rows = {}}, {}
  for _, target in ipairs(targets) do
    local row = check.task(target, o, seen)
    o.task(row)
    if row.ok then here[#here + 1] = row end
  end
  local ways = o.ways == false and {} or measure_all(here, o, o.way)
  judge(ways)
  return {tasks = seen.rows, ways = ways, ok = is_well(seen.rows, ways)}
end

return check
