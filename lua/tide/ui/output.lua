--- ui/output.lua - what is shown while a function runs, into a widget.
--
-- SPDX-License-Identifier: Apache-2.0

local autoload = require "tide.base.autoload"
local json = require "tide.base.json"
local bundle = require "tide.show.bundle"

local lines = autoload "tide.frontend.lines"
local traceback = autoload "tide.console.traceback"

local has_frontend, frontend = pcall(require, "tide.frontend")

local output = {}

local MOST = 1000 -- things an output widget holds

-- A message as an entry of a notebook's outputs; nil for others.
local function entry(type, content)
  if type == "display_data" or type == "execute_result" then
    return {output_type = "display_data", data = content.data,
            metadata = content.metadata or json.object{}}
  elseif type == "error" then
    return {output_type = "error", ename = content.ename,
            evalue = content.evalue, traceback = content.traceback}
  end
end

-- Entries with one more; streams of one name grow together.
local function added(list, one)
  local last = list[#list]
  if last and last.name and last.name == one.name then
    local text = (last.text .. one.text):sub(-1 << 16)
    list[#list] = {output_type = "stream", name = one.name, text = text}
  else
    if #list >= MOST then table.remove(list, 1) end
    list[#list + 1] = one
  end
  return list
end

--- Appends to what the widget shows.
function output.add(self, one)
  local list = json.array(table.move(self.outputs, 1, #self.outputs, 1, {}))
  self.outputs = json.array(added(list, one))
end

local function stream(self, name, text)
  if text == "" then return end
  output.add(self, {output_type = "stream", name = name,
                    text = json.utf8 and json.utf8(text) or text})
end

local function take(self, kept)
  local stdout, stderr = kept:stop()
  stream(self, "stdout", stdout)
  stream(self, "stderr", stderr)
end

-- A message that is not for the widget goes on its way.
local function pass_on(before, type, content, metadata, buffers)
  if before then return before(type, content, metadata, buffers) end
  frontend.publish(type, json.encode(json.object(content)),
                   json.encode(json.object(metadata)), buffers)
end

-- What f printed comes before what it displays: text is taken from the output
-- of the process then.
local function sink_of(self, state, before)
  return function(type, content, metadata, buffers)
    local one = entry(type, content)
    if not one and type ~= "clear_output" then
      return pass_on(before, type, content, metadata, buffers)
    end
    take(self, state.kept)
    state.kept = frontend.capture()
    if one then
      output.add(self, one)
    else
      self.outputs = json.array{}
    end
  end
end

-- Shows the error in the widget, or raises it where there is nobody to see it.
local function finish(self, ok, ...)
  if ok then return ... end
  local name, value, text = traceback.describe(...)
  output.add(self, {output_type = "error", ename = name, evalue = value,
                    traceback = json.array(text)})
end

--- Runs f(...); an error in it is shown in the widget.
function output.capture(self, f, ...)
  if not has_frontend or frontend.kind ~= "notebook" then return f(...) end
  local line = lines.current()
  local before, state = line.sink, {kept = frontend.capture()}
  line.sink = sink_of(self, state, before)
  local got = table.pack(frontend.protected(f, ...))
  line.sink = before
  take(self, state.kept)
  return finish(self, table.unpack(got, 1, got.n))
end

--- Shows x in the widget.
function output.show(self, x)
  local shown = bundle(x)
  output.add(self, {output_type = "display_data", data = shown.data,
                    metadata = shown.metadata})
end

return output
