--- remote/init.lua - other processes that run parts of a graph.
--
-- A subject is a module, loaded when it is first used: clusters (what reads the
-- launchers' variables is in launchers.lua and hosts.lua), addresses, keys,
-- servers, workers of a session (attach.lua) and the table of them. Names that
-- users type are exported by td.
-- SPDX-License-Identifier: Apache-2.0

local autoload = require "tide.base.autoload"

return {
  address = autoload "tide.remote.address",
  attach = autoload "tide.remote.attach",
  cluster = autoload "tide.remote.cluster",
  far = autoload "tide.remote.far",
  keys = autoload "tide.remote.keys",
  server = autoload "tide.remote.server",
  table = autoload "tide.remote.table",
}
