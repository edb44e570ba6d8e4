--- console/init.lua - what a prompt or a notebook can ask, by one door.
--
-- The C side calls console.call(service, request) with JSON text and gets JSON
-- text; the requests and replies are those of the Jupyter protocol. Each
-- service is a module: a function of the decoded request and
-- the state of the line it came on. What they show goes out by `publish`.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.base.json"

local console = {}

-- The state of each line: its execution count, and what services keep there.
local lines = {}

--- The state of the line `name`; "" is the first one.
function console.line(name)
  local line = lines[name]
  if not line then
    line = {name = name, count = 0}
    lines[name] = line
  end
  return line
end

--- Has f called when the cell that runs now has ended, however it ends. What
-- f raises is dropped. Gives a function that takes this back.
function console.at_end(f)
  local line = console.line(require("tide.frontend").line())
  local list = line.at_end or {}
  line.at_end = list
  table.insert(list, f)
  return function()
    for i = #list, 1, -1 do
      if list[i] == f then return table.remove(list, i) end
    end
  end
end

--- Calls what was left for the end of the cell of `line`.
function console.finish(line)
  local list = line.at_end or {}
  line.at_end = nil
  for _, f in ipairs{table.unpack(list)} do
    require("tide.frontend").protected(f)
  end
end

-- The services, by the module that has them.
local services = {
  execute = "console.execute", complete = "assist.complete",
  inspect = "assist.inspect", is_complete = "console.is_complete",
  history = "console.history", start = "console.start",
  banner = "console.banner", debug = "debug.debugger",
  comm_open = "console.channels", comm_msg = "console.channels",
  comm_close = "console.channels", comm_info = "console.channels",
}

--- Serves one request: JSON in, JSON out. Raises when the request is none.
function console.call(name, text)
  local request, why = json.decode(text)
  if type(request) ~= "table" then
    error("console: " .. (why or "the request is no object"), 0)
  end
  local frontend = require "tide.frontend"
  require("tide.console.start").once()
  local service = require("tide." .. assert(services[name], name))
  if type(service) == "table" then service = service[name] end
  return json.encode(service(request, console.line(frontend.line())))
end

return console
