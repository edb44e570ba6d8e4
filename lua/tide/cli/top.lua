--- cli/top.lua - `tide top ADDRESS..`: workers, looked at each second.
--
-- It attaches as a session does, one session for each address, so that those
-- that are there are shown whoever is not.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local attach = require "tide.remote.attach"
local flags = require "tide.script.flags"
local graph = require "tide.graph.graph"
local session = require "tide.run.session"
local tables = require "tide.remote.table"

local USAGE = [[
usage: tide top ADDRESS.. [--every 1] [--key KEY] [--once]

Shows the workers at these addresses (tcp://HOST:PORT, ipc:///PATH) as a table,
each second, until Ctrl-C.

  --every N    seconds between two looks
  --key KEY    their public key, or a file with it
  --once       one look; the exit code is 1 unless all are up
]]

local WAIT = 2     -- seconds for each to answer
local AGAIN = 0.5  -- the same of one that did not
local LEAST = 5    -- rows of a table, however low the terminal is
local AROUND = 6   -- lines of a table that are no rows, and an error's

local function attach_one(entry, key, seconds)
  local s = entry.session
  local ok, why = pcall(s.attach, s, entry.address, {key = key,
                                                     timeout = seconds})
  if not ok and type(why) == "table" and why.code == "cancelled" then
    error(why, 0)
  end
  entry.error = not ok and tostring(why) or nil
end

local function given(key)
  if key ~= "" then return key end
end

-- {address =, session =, error =} of each address.
local function attach_all(addresses, key)
  local list = {}
  for i, address in ipairs(addresses) do
    list[i] = {address = address, session = session.session{
      graph = graph.graph()}}
    attach_one(list[i], key, WAIT)
  end
  return list
end

-- One that was not there may have come: of several the next one each time.
local function try_again(list, key, at)
  for k = 1, #list do
    local entry = list[(at + k - 1) % #list + 1]
    if entry.error then
      attach_one(entry, key, AGAIN)
      return (at + k - 1) % #list + 1
    end
  end
  return at
end

-- A row for each address; where nobody was, what was wrong.
local function look(list)
  local rows, n_up = {}, 0
  for i, entry in ipairs(list) do
    local row = attach.rows(entry.session)[1]
    rows[i] = row or {task = entry.address, state = "dead",
                      error = entry.error}
    if rows[i].state == "up" then n_up = n_up + 1 end
  end
  return tables.of(rows), n_up == #list
end

-- Over what was there: the terminal's lines go, not those above them.
local function show(text, before)
  if before and core.isatty(1) then
    local _, lines = before:gsub("\n", "")
    io.write(("\27[%dA\27[J"):format(lines + 1))
  end
  io.write(text, "\n")
  io.flush()
end

-- As many rows as the terminal has lines for; it is written over each time.
local function rows_most()
  local lines = core.isatty(1) and core.terminal_size()
  return lines and math.max(lines - AROUND, LEAST) or nil
end

local function watch(list, f)
  local before, at = nil, 0
  while true do
    local rows, all_up = look(list)
    local text = tables.text(rows, {rows = rows_most()})
    show(text, before)
    before = text
    if f.once then return all_up and 0 or 1 end
    core.pause(f.every)
    at = try_again(list, given(f.key), at)
  end
end

--- Runs the command; returns its exit code.
return function(words)
  if args.holds(words, "--help") or args.holds(words, "-h") then
    io.write(USAGE)
    return 0
  end
  local ok, f = pcall(flags.flags, {every = 1.0, key = "", once = false}, words)
  if not ok or #f == 0 or f.every <= 0 then
    if not ok then io.stderr:write("tide: ", f.message, "\n\n") end
    io.stderr:write(USAGE)
    return 2
  end
  local list = attach_all({table.unpack(f)}, given(f.key))
  local done, code = pcall(watch, list, f)
  for _, entry in ipairs(list) do entry.session:close() end
  if done then return code end
  if type(code) == "table" and code.code == "cancelled" then return 0 end
  error(code, 0)
end
