--- ui/channels.lua - channels to a notebook's page.
--
-- What a handler raises goes to stderr: there is no cell to show it in.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local json = require "tide.base.json"

local out = autoload "tide.frontend.publish"

local has_frontend, frontend = pcall(require, "tide.frontend")

local comm = {services = {}}

local targets = {} -- functions by name
local open = {}    -- channels by id

local methods = {}
local meta = {__index = methods, __name = "comm"}

function meta.__tostring(self)
  return ("Comm %s \"%s\"%s"):format(self.id, self.target,
                                     open[self.id] and "" or " (closed)")
end

-- ---- sending ----------------------------------------------------------------

local function publish(type, content, metadata, buffers)
  if has_frontend then out(type, content, metadata, buffers) end
end

local function data_of(data)
  if data == nil then return json.object{} end
  return args.expect(data, "table", "comm: data")
end

-- The metadata and buffers of a message, from options.
local function parts_of(o, what)
  o = args.check(args.options(o, what), {"metadata", "buffers", "id"}, what)
  for _, b in ipairs(o.buffers or {}) do
    args.expect(b, "string", what .. ": a buffer")
  end
  return o.metadata, o.buffers, o.id
end

--- A new id: 32 hexadecimal digits.
function comm.new_id()
  return ("%016x%016x"):format(core.random_bits(), core.random_bits())
end

local function new(id, target)
  local self = setmetatable({id = id, target = target}, meta)
  open[id] = self
  return self
end

--- Opens a channel: see td.comm.open. Option id: that of the channel.
function comm.open(target, data, o)
  args.expect(target, "string", "comm.open: the target")
  local metadata, buffers, id = parts_of(o, "comm.open")
  local self = new(id or comm.new_id(), target)
  publish("comm_open", {comm_id = self.id, target_name = target,
                        data = data_of(data)}, metadata, buffers)
  return self
end

--- Sends a table. Options metadata and buffers.
function methods:send(data, o)
  if not open[self.id] then
    core.error("failed_precondition", tostring(self) .. " takes no messages")
  end
  local metadata, buffers = parts_of(o, "send")
  publish("comm_msg", {comm_id = self.id, data = data_of(data)}, metadata,
          buffers)
end

--- f(data, buffers, metadata) is called for each message from the page.
function methods:on_message(f)
  self.message = args.expect_callable(f, "on_message") or f
end

--- f(data) is called when the page closes the channel.
function methods:on_close(f)
  self.closed = args.expect_callable(f, "on_close") or f
end

--- Closes the channel; nothing is done when it is.
function methods:close(data)
  if not open[self.id] then return end
  open[self.id] = nil
  publish("comm_close", {comm_id = self.id, data = data_of(data)})
end

--- See td.comm.register.
function comm.register(target, f)
  args.expect(target, "string", "comm.register: the target")
  if f ~= nil then args.expect_callable(f, "comm.register: the handler") end
  targets[target] = f
end

-- ---- receiving --------------------------------------------------------------

--- Calls f(...) of the user; what it raises is written to stderr. True when it
-- went through.
function comm.call(what, f, ...)
  local ok, err = frontend.protected(f, ...)
  if ok then return true end
  io.stderr:write(("%s: %s\n"):format(what, tostring(err)))
  io.stderr:flush()
  return false
end

local function buffers_of()
  local list = {}
  for n = 1, math.huge do
    local b = frontend.buffer(n)
    if not b then return list end
    list[n] = b
  end
end

local function metadata_of()
  local metadata = json.decode(frontend.metadata() or "{}")
  return type(metadata) == "table" and metadata or {}
end

local function object(x) return type(x) == "table" and x or {} end

local function refuse(id)
  publish("comm_close", {comm_id = id, data = json.object{}})
  return json.object{}
end

-- ---- services ---------------------------------------------------------------

local services = comm.services

--- The page opens a channel. One to an unknown target is closed.
function services.comm_open(request)
  local id, target = request.comm_id, request.target_name
  if type(id) ~= "string" then return json.object{} end
  local f = targets[target]
  if not f then return refuse(id) end
  local self = new(id, target)
  if not comm.call("comm_open of \"" .. target .. "\"", f, self,
                   object(request.data), buffers_of(), metadata_of()) then
    open[id] = nil
    return refuse(id)
  end
  return json.object{}
end

--- A message on a channel.
function services.comm_msg(request)
  local self = open[request.comm_id or ""]
  if self and self.message then
    comm.call("message of comm \"" .. self.target .. "\"", self.message,
              object(request.data), buffers_of(), metadata_of())
  end
  return json.object{}
end

--- The page closes a channel.
function services.comm_close(request)
  local self = open[request.comm_id or ""]
  if self then
    open[self.id] = nil
    if self.closed then
      comm.call("close of comm \"" .. self.target .. "\"", self.closed,
                object(request.data))
    end
  end
  return json.object{}
end

--- The channels there are, {comms = {[id] = {target_name =}}}; those
-- of one target when it is named.
function services.comm_info(request)
  local list = json.object{}
  for id, self in pairs(open) do
    if type(request.target_name) ~= "string"
       or request.target_name == self.target then
      list[id] = {target_name = self.target}
    end
  end
  return {status = "ok", comms = list}
end

return comm
