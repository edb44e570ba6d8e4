--- commands/autoreload.lua - %autoreload: modules as their files are now.
--
-- Before each cell the files of required modules are looked at. One that has
-- changed is loaded again; where the old and the new module are tables, the old
-- one gets the new functions, so that names that hold it need no change.
-- SPDX-License-Identifier: Apache-2.0

local execute = require "tide.services.execute"

local on = false
local known = {} -- module name -> text of its file

local function text_of(name)
  local path = package.searchpath(name, package.path)
  local file <close> = path and io.open(path, "rb")
  return file and file:read "a"
end

-- The old module stays until the new one is whole.
local function load_again(name)
  local loader, path = package.searchers[2](name)
  local old, new = package.loaded[name], loader(name, path)
  if type(old) ~= "table" or type(new) ~= "table" then
    if new ~= nil then package.loaded[name] = new end
    return
  end
  for key in pairs(old) do
    if new[key] == nil then old[key] = nil end
  end
  for key, x in pairs(new) do old[key] = x end
end

local function is_users(name)
  return type(name) == "string" and not package.preload[name]
    and name ~= "_G" and not name:find "^tide%f[%z.]"
end

-- Looks at every module; those that changed are loaded again.
local function look()
  if not on then return end
  local names = {}
  for name in pairs(package.loaded) do
    if is_users(name) then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local text = text_of(name)
    local ok, why = true, nil
    if text and known[name] and known[name] ~= text then
      ok, why = pcall(load_again, name)
    end
    known[name] = text
    if not ok then error(why, 0) end
  end
end

table.insert(execute.before, look)

--- %autoreload [on | off]: loads required modules again when their files have
-- changed, before each cell.
return function(text)
  if text ~= "" and text ~= "on" and text ~= "off" then
    error("%autoreload takes on or off", 0)
  end
  on = text ~= "off"
  look()
end
