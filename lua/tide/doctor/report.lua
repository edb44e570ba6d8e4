--- doctor/report.lua - what `tide doctor` found, as text and as JSON.
--
-- A finding is ok, a note (something that is not there, and need not be), or
-- bad; the latter two may come with what to do about it.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.base.json"
local methods = {}
local meta = {__index = methods}

local report = {}

--- An empty report.
function report.new()
  return setmetatable({findings = {}, bad = 0}, meta)
end

local function add(self, state, name, text, remedy)
  local f = {area = self.area, state = state, name = name, text = text,
             remedy = remedy}
  self.findings[#self.findings + 1] = f
  if state == "bad" then self.bad = self.bad + 1 end
end

--- The following findings belong to `area`.
function methods:begin(area)
  self.area = area
end

--- All is well with `name`.
function methods:ok(name, text)
  add(self, "ok", name, text)
end

--- Something about `name` that is worth to know.
function methods:note(name, text, remedy)
  add(self, "note", name, text, remedy)
end

--- `name` does not work.
function methods:problem(name, text, remedy)
  add(self, "bad", name, text, remedy)
end

--- One line a finding, its remedy under it.
function methods:text()
  local lines, area = {}, nil
  for _, f in ipairs(self.findings) do
    if f.area ~= area then
      area = f.area
      lines[#lines + 1] = (#lines > 0 and "\n" or "") .. area
    end
    lines[#lines + 1] = ("  %-4s  %-12s  %s"):format(
      f.state == "ok" and "ok" or f.state == "bad" and "BAD" or "note", f.name,
      f.text)
    if f.remedy then lines[#lines + 1] = (" "):rep(22) .. "-> " .. f.remedy end
  end
  return table.concat(lines, "\n")
end

--- {"ok": whether nothing is bad, "findings": [{area, state, name, text,
-- remedy}]}.
function methods:json()
  return json.encode{ok = self.bad == 0, findings = json.array(self.findings)}
end

return report
