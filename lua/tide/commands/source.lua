--- commands/source.lua - what ??name shows: the source of a function.
--
-- SPDX-License-Identifier: Apache-2.0

local cell = require "tide.console.cell"
local pager = require "tide.console.pager"
local paint = require "tide.console.paint"
local sources = require "tide.console.sources"
local help = require "tide.commands.help"

-- The value of a name like "model.step"; metamethods may raise.
local function value_of(name)
  local chunk = load("return " .. name:gsub(":", "."), "=name", "t", cell.env)
  if not chunk then return nil end
  local ok, x = pcall(chunk)
  if ok then return x end
end

-- A function's own lines and where they are.
local function source_of(f)
  local info = debug.getinfo(f, "S")
  if info.linedefined < 1 then return nil end
  local lines = sources.lines(info.source, info.linedefined,
                              info.lastlinedefined)
  if not lines then return nil end
  local where = ("%s:%d"):format(info.short_src, info.linedefined)
  return paint.place(where) .. "\n" .. paint.lua(table.concat(lines, "\n"))
end

--- ??name: the source of a function, else all that is known of a name.
return function(name, state)
  local x = value_of(name)
  local text = type(x) == "function" and source_of(x)
  if not text then
    return help(name, state, 1)
  end
  pager.show(state.line, {["text/plain"] = text})
end
