--- remote/far.lua - sessions whose master is another process: made, joined,
-- listed.
--
-- A `tide worker` or td.server keeps such a session under a name; what stands
-- for it here is a session like any other.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local address = require "tide.remote.address"
local args = require "tide.base.args"
local adopt = require "tide.variables.adopt"
local attach = require "tide.remote.attach"
local errors = require "tide.base.errors"

local far = {}

local TIMEOUT = 10 -- seconds

local function checked(what, text)
  if type(text) ~= "string" then
    errors.invalid("%s: the target is an address such as \"tcp://host:port\", "
      .. "not %s", what, args.what(text))
  end
  local a, why = address.parse(text)
  why = why or address.undialable(a)
  if why then errors.invalid("%s: the target \"%s\": %s", what, text, why) end
  return address.text(a)
end

local function random_name()
  return ("session-%012x"):format(core.random_bits() >> 16)
end

--- Has the server at o.target keep a session for s, or joins one that it has:
-- a name alone joins, outlive = true or false makes one.
function far.open(s, g, o)
  local target = checked("session", o.target)
  local join = o.name ~= nil and o.outlive == nil
  core.far_open(s, g, target, attach.key_of(target, o.key),
                o.timeout or TIMEOUT,
                {name = o.name or random_name(), join = join,
                 outlive = o.outlive, threads = o.threads,
                 cpu_devices = o.cpu_devices})
  if join then adopt.all(g) end
end

--- Would these options join a session?
function far.joins(o)
  return o.target ~= nil and o.target ~= "" and o.name ~= nil
    and o.outlive == nil
end

--- The sessions that a server keeps.
-- @param target its address, "tcp://host:port" or "ipc:///path"
-- @param[opt] o key: its public key, or a file with it (as for attach);
-- timeout: seconds (10)
-- @return list of {name =, steps =, loops = those that go on, age = seconds,
-- outlive =}
-- @raise unavailable where nobody answers in time
-- @usage local s <close> = td.server{listen = "tcp://127.0.0.1:0"}
-- #td.sessions(s.target)  --> 0
function far.sessions(target, o)
  o = args.expect_all(args.read(o, {"key", "timeout"}, "sessions"),
                      {key = "string", timeout = "number"})
  local text = checked("sessions", target)
  return core.far_list(text, attach.key_of(text, o.key), o.timeout or TIMEOUT)
end

return far
