-- shared/fleet.lua - with TIDE_TEST=worker the tests' sessions run over the
-- workers that TIDE_FLEET asks for, real processes: "worker-ipc" one over ipc,
-- "worker-tcp" one over tcp with keys, "two" one of each; or the address of one
-- that runs, whose public key is in TIDE_FLEET_KEY. They are started for the
-- first session and end with the tests.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local workers = require "shared.workers"

local fleet = {}
local TCP = {listen = "tcp://127.0.0.1:0", args = "--cpu-devices 2"}
local IPC = {args = "--cpu-devices 2"}
local kinds = {["worker-ipc"] = {IPC}, ["worker-tcp"] = {TCP},
               two = {{}, TCP}}

local running -- the workers' addresses

local function start(what)
  running = {}
  if what:find("://", 1, true) then
    running[1] = what
    return
  end
  local rows = assert(kinds[what], "TIDE_FLEET: " .. what)
  for i, row in ipairs(rows) do
    local w = workers.start{listen = row.listen, args = row.args, task = i - 1}
    assert(w.address, w.line or w:errors())
    fleet[i], running[i] = w, w.address
  end
end

local new = core.session

function core.session(...)
  if not running then start(assert(os.getenv "TIDE_FLEET", "TIDE_FLEET")) end
  local s = new(...)
  s:attach(running, {timeout = 60, key = os.getenv "TIDE_FLEET_KEY"})
  return s
end

--- Ends the workers.
function fleet.stop()
  for _, w in ipairs(fleet) do w:stop() end
end

return fleet
