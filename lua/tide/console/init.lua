--- console/init.lua - what a prompt or a notebook can ask, by one door.
--
-- The C side calls console.call(service, request) with JSON text and gets JSON
-- text; the requests and replies are those of the Jupyter protocol. Each
-- service is a module tide.services.NAME: a function of the decoded request and
-- the state of the line it came on, or a table of such functions by name. What
-- they show goes out by tide.frontend.publish.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.base.json"
local lines = require "tide.frontend.lines"
local start = require "tide.services.start"

local console = {}

-- comm_open and its like are all of tide.services.comm.
local function service_of(name)
  local service = require("tide.services." .. name:gsub("^comm_.*", "comm"))
  return type(service) == "table" and service[name] or service
end

--- Serves one request: JSON in, JSON out. Raises when the request is none.
function console.call(name, text)
  local request, why = json.decode(text)
  if type(request) ~= "table" then
    error("console: " .. (why or "the request is no object"), 0)
  end
  start.once()
  return json.encode(service_of(name)(request, lines.current()))
end

return console
