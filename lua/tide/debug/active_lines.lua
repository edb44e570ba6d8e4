--- debug/active_lines.lua - the lines of a chunk where a debugger can halt.
--
-- debug.getinfo knows them of functions that exist; those inside a chunk that
-- was not run are found in its binary form. Source: ldump.c of Lua 5.4.
-- SPDX-License-Identifier: Apache-2.0

local HEADER = "\27Lua\x54\0\x19\x93\r\n\x1a\n\4\8\8"
local START = #HEADER + 8 + 8 + 1 -- behind LUAC_INT, LUAC_NUM, upvalues
local ABSOLUTE = -128 -- in lineinfo: see abslineinfo
local NUMBERS = {[0x03] = true, [0x13] = true}
local STRINGS = {[0x04] = true, [0x14] = true}

local reader = {}
reader.__index = reader

function reader:byte()
  self.at = self.at + 1
  return self.text:byte(self.at - 1)
end

function reader:skip(n) self.at = self.at + n end

-- Seven bits a byte; the last one has the eighth set.
function reader:size()
  local x = 0
  while true do
    local b = self:byte()
    x = x << 7 | b & 0x7f
    if b & 0x80 ~= 0 then return x end
  end
end

function reader:string()
  local n = self:size()
  if n > 0 then self:skip(n - 1) end
end

function reader:constant()
  local tag = self:byte()
  if NUMBERS[tag] then self:skip(8) end
  if STRINGS[tag] then self:string() end
end

function reader:each(f)
  for _ = 1, self:size() do f(self) end
end

-- pc = line, where lineinfo does not hold the difference.
function reader:absolute()
  local list = {}
  self:each(function()
    local pc = self:size()
    list[pc] = self:size()
  end)
  return list
end

-- Adds the lines of the code, but that of its first instruction in a function
-- of any number of arguments, which is run before hooks.
function reader:lines(line, vararg)
  local n = self:size()
  local info = self.at
  self:skip(n)
  local absolute = self:absolute()
  for pc = 0, n - 1 do
    local change = ("<i1"):unpack(self.text, info + pc)
    line = change == ABSOLUTE and absolute[pc] or line + change
    if pc > 0 or not vararg then self.active[line] = true end
  end
end

function reader:prototype()
  self:string()
  local line = self:size()
  self:size()
  self:skip(1)
  local vararg = self:byte() ~= 0
  self:skip(1)
  self:skip(4 * self:size())
  self:each(self.constant)
  self:skip(3 * self:size())
  self:each(self.prototype)
  self:lines(line, vararg)
  self:each(function()
    self:string()
    self:size()
    self:size()
  end)
  self:each(self.string)
end

--- {[line] = true} of a chunk and all functions in it; nil where this Lua has
-- another binary form.
return function(chunk)
  local text = string.dump(chunk)
  if text:sub(1, #HEADER) ~= HEADER then return nil end
  local r = setmetatable({text = text, at = START + 1, active = {}}, reader)
  r:prototype()
  return r.active
end
