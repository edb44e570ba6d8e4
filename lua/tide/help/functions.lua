--- help/functions.lua - the functions of Tide and of Lua: what they are called.
--
-- A public name is one of td without "td.", such as "conv2d" or "train.sgd",
-- that of a method ("sess:run"), or one of Lua's own libraries ("_G.print").
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local help = require "tide.help.help"
local library = require "tide.help.lua_library"
local reference = require "tide.help.reference"
local ops = require("tide.ops").ops
local td = require "tide"

local functions = {}

-- Is the function written in C, or part of Tide?
local function own(f)
  local info = debug.getinfo(f, "S")
  return info.what == "C" or info.source:find "^=%[tide%]" ~= nil
end

-- Names found before.
local names = setmetatable({}, {__mode = "k"})

-- Looks for a function in td and in Lua's libraries; one of two names there is
-- known by that which the manual has.
local function look(f)
  local found
  for _, place in ipairs{td, ops} do
    for name, x in next, place do
      if rawequal(x, f) then return name end
    end
  end
  for name, file in pairs(getmetatable(td).__modules) do
    local module = package.loaded[file]
    for key, x in next, type(module) == "table" and module or {} do
      if rawequal(x, f) then return name .. "." .. tostring(key) end
    end
  end
  for _, name in ipairs{"_G", "string", "table", "math", "io", "os", "utf8",
                        "coroutine", "debug"} do
    for key, x in next, package.loaded[name] do
      if rawequal(x, f) then
        found = name .. "." .. tostring(key)
        if library.find(found) then return found end
      end
    end
  end
  return found
end

--- The public name of a function of Tide or Lua that somebody holds, such as
-- "conv2d" or "_G.print"; nil for others. `hint`: what it may be called.
function functions.name(f, hint)
  if type(f) ~= "function" then return nil end
  if hint and library[hint] and rawequal(rawget(_G, hint), f) then
    return "_G." .. hint
  end
  if not names[f] and own(f) then names[f] = look(f) end
  return names[f]
end

--- The record of the op behind a function, or nil.
function functions.op(name)
  if name:find ":" and name:sub(1, 2) ~= "x:" then return nil end
  local type = reference.op_of(name)
  if type then return core.op_info(type) end
  name = name:gsub("^raw%.", ""):gsub("^x:", "")
  return not name:find "[.:]" and core.op_info(name) or nil
end

--- How the function of a public name is called: "td.matmul(a, b, o)"; or nil.
function functions.head(name)
  local row, op = reference.rows()[name], functions.op(name)
  if row then return (name:find ":" and name or "td." .. name) .. row.call end
  if op then return "td." .. name .. help.call(op) end
  local known = library.find(name)
  return known and name:gsub("^_G%.", "") .. known.call
end

return functions
