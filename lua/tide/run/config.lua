--- run/config.lua - what there is on this machine, and what sessions take of
-- it.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local session = require "tide.run.session"

local config = {}

--- Names of the devices that the default session sees, or would see.
function config.devices()
  local sess = session.get_default_session()
  if sess then return sess:devices() end
  return core.devices(session.defaults.cpu_devices or 1)
end

--- This process among those of a session: "/job:localhost/replica:0/task:0".
function config.place()
  return (core.devices(1)[1]:gsub("/device:.*$", ""))
end

--- Defaults for sessions made later: config{threads = 2, cpu_devices = 1,
-- soft_placement = true}. Gives what is set, and the machine's part.
function config.config(o)
  o = args.expect_all(args.read(o, {"threads", "cpu_devices", "soft_placement",
    "passes_off", "cache"}, "config"), session.types)
  for k, v in pairs(o) do session.defaults[k] = v end
  local out = {machine = core.machine()}
  for k, v in pairs(session.defaults) do out[k] = v end
  return out
end

return config
