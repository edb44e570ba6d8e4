-- shared/notebook.lua - a notebook for tests: services by console.call, what is
-- shown caught.
--
-- open() puts the process into a notebook until it is closed; inside,
-- nb:call(service, request) gives the decoded reply, and nb.shown is the list
-- of messages {type =, content =} since, nb.out and nb.err what was written.
-- nb.answers are the lines the user types.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local console = require "tide.console"
local lines = require "tide.frontend.lines"
local json = require "tide.base.json"
local names = require "tide.assist.names"

core.setenv("XDG_CONFIG_HOME", "/nowhere/of/tests") -- no start file

local notebook = {}
notebook.__index = notebook

local methods = getmetatable(io.stdin).__index
local places = {{frontend, "kind"}, {frontend, "publish"}, {frontend, "input"},
                {os, "exit"}, {os, "execute"}, {io, "popen"}, {io, "read"},
                {io, "lines"}, {methods, "read"}, {methods, "lines"}}
local installed -- what the console puts there, once it has

local function values_of(list)
  local out = {}
  for i, p in ipairs(list) do out[i] = p[1][p[2]] end
  return out
end

local function put(values)
  for i, p in ipairs(places) do p[1][p[2]] = values[i] end
end

local function clean(line)
  for key in pairs(line) do line[key] = nil end
  line.name, line.count = "", 0
end

function notebook.open()
  local nb = setmetatable({shown = {}, answers = {}, before =
                           values_of(places)}, notebook)
  if installed then put(installed) end
  frontend.kind = "notebook"
  frontend.publish = function(type, content, metadata)
    assert(utf8.len(content), "a message is UTF-8")
    table.insert(nb.shown, {type = type, content = assert(json.decode(content)),
                            metadata = assert(json.decode(metadata))})
  end
  frontend.input = function(prompt, password)
    nb.asked = {prompt = prompt, password = password}
    local answer = table.remove(nb.answers, 1)
    if answer then return answer end
    return nil, "the input has ended"
  end
  if not installed then
    require "tide.console.system".install()
    installed = values_of(places)
  end
  require "tide.services.history".use(nil)
  names.reset()
  clean(lines.current())
  return nb
end

function notebook:close()
  put(self.before)
  require "tide.run.session".observer = nil
  require "tide.services.history".use(nil)
  names.reset()
  clean(lines.current())
end
notebook.__close = notebook.close

function notebook:call(service, request)
  self.shown = {}
  local text = json.encode(json.object(request))
  local output = frontend.capture()
  local ok, reply = pcall(console.call, service, text)
  self.out, self.err = output:stop()
  assert(ok, reply)
  return assert(json.decode(reply))
end

-- Runs a cell: the reply.
function notebook:run(code, o)
  local request = {code = code}
  for key, x in pairs(o or {}) do request[key] = x end
  return self:call("execute", request)
end

-- The types of what was shown, in order.
function notebook:types()
  local list = {}
  for i, m in ipairs(self.shown) do list[i] = m.type end
  return table.concat(list, " ")
end

-- The first message of a type, or nil.
function notebook:message(type)
  for _, m in ipairs(self.shown) do
    if m.type == type then return m.content end
  end
end

-- The text of the result of the last cell, or nil.
function notebook:result()
  local m = self:message "execute_result"
  return m and m.data["text/plain"]
end

return notebook
