--- remote/hosts.lua - the hosts that a launcher names, and who runs where.
--
-- Slurm writes hosts as "a[01-03,7],b" and processes on each as "2(x3),1";
-- launchers of MPI read a file with a host on each line, "a slots=2" or "a:2".
-- Both become rows {host =, slots =}, in the order in which ranks are given
-- out.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"

local hosts = {}

local MOST = 100000 -- hosts, or processes, of a list
local MOST_SLOTS = 4096
local MOST_BYTES = 1 << 22

local function fail(what, text, fmt, ...)
  errors.invalid("%s, \"%s\": %s", what, #text > 200 and text:sub(1, 200)
    .. "..." or text, fmt:format(...))
end

-- ---- Slurm's lists ---------------------------------------------------------

-- The text cut at the commas outside of brackets.
local function split(what, text)
  local parts, depth, from = {}, 0, 1
  for at, c in text:gmatch "()([%[%],])" do
    if c == "," and depth == 0 then
      parts[#parts + 1] = text:sub(from, at - 1)
      from = at + 1
    elseif c == "[" then
      depth = depth + 1
    elseif c == "]" then
      depth = depth - 1
    end
    if depth < 0 or depth > 1 then
      fail(what, text, "its brackets do not match at byte %d", at)
    end
  end
  if depth ~= 0 then fail(what, text, "a [ has no ]") end
  parts[#parts + 1] = text:sub(from)
  return parts
end

-- "01-03,7" as {"01", "02", "03", "7"}: numbers are as long as the first.
local function numbers(what, text, group)
  local list = {}
  for word in (group .. ","):gmatch "([^,]*)," do
    local low, high = word:match "^(%d+)%-(%d+)$"
    low, high = low or word:match "^%d+$", high or word
    if not low or #low > 18 or #high > 18 or tonumber(high) < tonumber(low) then
      fail(what, text, "\"%s\" in brackets is no number and no range such as "
        .. "1-3", word)
    end
    if tonumber(high) - tonumber(low) >= MOST - #list then
      fail(what, text, "more than %d hosts", MOST)
    end
    local form = ("%%0%dd"):format(#low)
    for n = tonumber(low), tonumber(high) do
      list[#list + 1] = form:format(n)
    end
  end
  return list
end

-- Each of `list` with each of `ends` behind it.
local function joined(what, text, list, ends)
  local all = {}
  if #list * #ends > MOST then fail(what, text, "more than %d hosts", MOST) end
  for _, a in ipairs(list) do
    for _, b in ipairs(ends) do all[#all + 1] = a .. b end
  end
  return all
end

--- Slurm's list of hosts as a list of names.
-- @param text such as "a[01-03,7],b"
-- @param what it is, for messages: the name of a variable
-- @usage require("tide.remote.hosts").expand("a[08-10],b", "x")[3]  --> a10
function hosts.expand(text, what)
  local list = {}
  for _, part in ipairs(split(what, text)) do
    local names = {""}
    for literal, group in part:gmatch "([^%[]*)(%[?[^%]]*%]?)" do
      names = joined(what, text, names, {literal})
      if group ~= "" then
        names = joined(what, text, names,
                       numbers(what, text, group:sub(2, -2)))
      end
    end
    if part == "" then fail(what, text, "a name is missing at a comma") end
    if #list + #names > MOST then
      fail(what, text, "more than %d hosts", MOST)
    end
    table.move(names, 1, #names, #list + 1, list)
  end
  return list
end

--- Slurm's numbers of processes on each host, "2(x3),1" as {2, 2, 2, 1}.
function hosts.counts(text, what)
  local list = {}
  for word in (text .. ","):gmatch "([^,]*)," do
    local n, times = word:match "^(%d+)%(x(%d+)%)$"
    n, times = n or word:match "^%d+$", times or "1"
    if not n or #n > 6 or #times > 6 or tonumber(n) * tonumber(times) == 0 then
      fail(what, text, "\"%s\" is no number such as 2 or 2(x3)", word)
    end
    if #list + tonumber(times) > MOST then
      fail(what, text, "more than %d hosts", MOST)
    end
    for _ = 1, tonumber(times) do list[#list + 1] = tonumber(n) end
  end
  return list
end

-- ---- files of hosts --------------------------------------------------------

-- One line as {host =, slots = nil where it does not say}; nil for none.
local function read_line(line, where)
  line = line:gsub("#.*", ""):gsub("%s*=%s*", "=")
  local host, rest = line:match "^%s*(%S+)(.*)$"
  if not host then return nil end
  local slots = rest:match "%f[%w]slots=(%S*)"
  for word in rest:gmatch "%S+" do
    if not word:find "^[%w_-]+=." then
      errors.invalid("%s: \"%s\" behind host \"%s\" is not as in slots=2",
                     where, word, host)
    end
  end
  local name, count = host:match "^([^:]*):(%d+)$"
  host, slots = name or host, count or slots
  local n = slots and #slots <= 9 and slots:find "^%d+$" and tonumber(slots)
  if slots and (not n or n < 1 or n > MOST_SLOTS) then
    errors.invalid("%s: %s processes on host \"%s\"? A line is a host and how "
      .. "many run there, such as \"%s slots=2\"; ports are given by port =",
      where, slots, host, host)
  end
  return {host = host, slots = n or nil}
end

--- Rows of lines, "a slots=2" or "a:2" or "a" each.
-- @param x a list of such lines, or the path of a file of them
-- @param what it is, for messages
function hosts.read(x, what)
  local lines = x
  if type(x) == "string" then
    what = ("%s '%s'"):format(what, x)
    lines = {}
    for line in (core.read_file(x, MOST_BYTES) .. "\n"):gmatch "([^\n]*)\n" do
      lines[#lines + 1] = line
    end
  end
  local rows = {}
  for i, line in ipairs(lines) do
    if type(line) ~= "string" then
      errors.invalid("%s, entry %d: a host is text such as \"a slots=2\", not "
        .. "a %s", what, i, type(line))
    end
    rows[#rows + 1] = read_line(line, ("%s, line %d"):format(what, i))
  end
  if #rows == 0 then errors.invalid("%s names no host", what) end
  return rows
end

-- ---- who runs where --------------------------------------------------------

-- How many a row takes that does not say: where none does, all the same.
local function unsaid(rows, n)
  for _, row in ipairs(rows) do
    if row.slots then return 1 end
  end
  return n % #rows == 0 and n // #rows or 1
end

-- How many of n are on each row, given out row by row, and in circles where
-- there are more than slots.
local function shares(rows, n)
  local list, usual = {}, unsaid(rows, n)
  for i = 1, #rows do list[i] = 0 end
  while n > 0 do
    for i, row in ipairs(rows) do
      local some = math.min(row.slots or usual, n)
      list[i], n = list[i] + some, n - some
    end
  end
  return list
end

--- Of n processes in the order of their ranks, {host =, row =, index =} each:
-- which of that host's it is, from 0.
-- @param rows of hosts.read, or the like
-- @param cyclic one on each row in turn; else all of a row, then the next
function hosts.place(rows, n, cyclic)
  local left, on, list, row = shares(rows, n), {}, {}, 1
  while #list < n do
    if left[row] > 0 then
      local host = rows[row].host
      on[host] = (on[host] or -1) + 1
      list[#list + 1] = {host = host, row = row, index = on[host]}
      left[row] = left[row] - 1
    end
    if cyclic or left[row] == 0 then row = row % #rows + 1 end
  end
  return list
end

return hosts
