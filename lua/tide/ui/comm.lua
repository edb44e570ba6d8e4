--- ui/comm.lua - td.comm: messages between a notebook's page and Lua.
--
-- Either side opens a channel to a named target of the other, then both send
-- tables and bytes. Messages from the page arrive beside a cell whenever a step
-- of its session runs; outside of notebooks nobody answers.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local channels = require "tide.ui.channels"

local comm = {}

--- Opens a channel to a target of the page.
-- @param target its name
-- @param[opt] data a table, sent along
-- @param[optchain] o metadata: a table; buffers: a list of strings, sent as
-- bytes
-- @return the channel: c:send(data, o), c:on_message(f), c:on_close(f),
-- c:close(data)
-- @usage local c = td.comm.open("chart", {points = 3})
-- c:send({x = 1}, {buffers = {"\1\2\3"}})
-- c.target  --> chart
function comm.open(target, data, o)
  o = args.read(o, {"metadata", "buffers"}, "comm.open")
  return channels.open(target, data, o)
end

--- f(c, data, buffers, metadata) is called when the page opens a channel c to
-- `target`; nil takes the name back.
-- @usage td.comm.register("echo", function(c)
--   c:on_message(function(data, buffers) c:send(data, {buffers = buffers}) end)
-- end)
function comm.register(target, f)
  return channels.register(target, f)
end

return comm
