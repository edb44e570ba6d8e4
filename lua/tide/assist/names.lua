--- assist/names.lua - the names a user has made at a console.
--
-- Those that were `local` in cells, and globals beyond those of the start.
-- SPDX-License-Identifier: Apache-2.0

local cell = require "tide.console.cell"

local names = {}

local first = {td = true} -- globals that nobody typed
for name in pairs(_G) do first[name] = true end

--- {{name =, value =}, ...}, by name.
function names.list()
  local list, seen = {}, {}
  local function add(name, value)
    if type(name) ~= "string" or seen[name] or value == nil then return end
    seen[name] = true
    list[#list + 1] = {name = name, value = value}
  end
  for _, name in ipairs(cell.names()) do add(name, rawget(cell.env, name)) end
  for name, value in pairs(_G) do
    if not first[name] then add(name, value) end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- Forgets them all.
function names.reset()
  for _, n in ipairs(names.list()) do
    if not first[n.name] then rawset(_G, n.name, nil) end
  end
  cell.reset()
end

return names
