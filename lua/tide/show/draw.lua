--- show/draw.lua - pictures as text, for the terminal.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local draw = {}

local shades = {" ", ".", ":", "+", "#", "@"}

local function shade(x, low, high)
  local share = (x - low) / (high - low)
  if share ~= share then return "?" end
  share = math.max(0, math.min(1, share))
  return shades[1 + math.floor(share * (#shades - 1) + 0.5)]
end

-- Every second row: a character is twice as high as wide.
local function lines_of(pictures, o)
  local lines = {}
  for y = 1, #pictures[1], 2 do
    local line = {}
    for _, picture in ipairs(pictures) do
      for x = 1, #picture[y] do
        line[#line + 1] = shade(picture[y][x], o.low, o.high)
      end
      line[#line + 1] = " "
    end
    lines[#lines + 1] = (table.concat(line):gsub("%s+$", ""))
  end
  return table.concat(lines, "\n")
end

--- A picture as lines of text, darker characters for larger numbers.
-- @param x a value {height, width}, or {n, height, width}: n side by side
-- @param[opt] o low (0) and high (1), the numbers of the lightest and darkest
-- @usage td.draw({{0.0, 0.5, 1.0}})  -->  +@
function draw.draw(x, o)
  o = args.read(o, {"low", "high"}, "draw")
  o.low, o.high = o.low or 0, o.high or 1
  if core.kind(x) ~= "tensor" then x = core.tensor(x) end
  if x.dtype == "string" or (x.rank ~= 2 and x.rank ~= 3) or x.size == 0 then
    core.error("invalid_argument", ("draw takes numbers of shape {height, "
      .. "width} or {n, height, width}, given %s %s"):format(x.dtype,
      tostring(x.shape)))
  end
  local list = core.op "Cast"(x, {DstT = "float64"}):table()
  return lines_of(x.rank == 2 and {list} or list, o)
end

return draw
