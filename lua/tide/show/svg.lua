--- show/svg.lua - drawings: shapes are added, an SVG file comes out.
--
--   local d = svg.drawing(200, 100)
--   d:rect(0, 0, 20, 10, {fill = "#ff0000"})
--   d:text(4, 8, "a label", {["font-size"] = 10})
--   d:done()
--
-- A drawing names no fonts or files but the system's sans-serif; attributes are
-- strings or numbers.
-- SPDX-License-Identifier: Apache-2.0

local html = require "tide.show.html"

local svg = {}

local drawing = {}
drawing.__index = drawing

--- A number as SVG has it: two decimals at most, no more digits than needed.
function svg.number(v)
  if v ~= v or v == math.huge or v == -math.huge then v = 0 end
  local text = ("%.2f"):format(v):gsub("0+$", ""):gsub("%.$", "")
  return text == "-0" and "0" or text
end

local number = svg.number

--- A drawing of that many pixels, on a white ground unless `ground` is false.
function svg.drawing(width, height, ground)
  local d = setmetatable({width = width, height = height, parts = {}}, drawing)
  if ground ~= false then
    d:rect(0, 0, width, height, {fill = ground or "#ffffff"})
  end
  return d
end

--- Adds markup.
function drawing:add(text)
  self.parts[#self.parts + 1] = text
end

function drawing:rect(x, y, w, h, o)
  self:add(('<rect x="%s" y="%s" width="%s" height="%s"%s/>'):format(number(x),
    number(y), number(math.max(0, w)), number(math.max(0, h)),
    html.attributes(o or {})))
end

function drawing:line(x, y, to_x, to_y, o)
  self:add(('<line x1="%s" y1="%s" x2="%s" y2="%s"%s/>'):format(number(x),
    number(y), number(to_x), number(to_y), html.attributes(o or {})))
end

function drawing:circle(x, y, r, o)
  self:add(('<circle cx="%s" cy="%s" r="%s"%s/>'):format(number(x), number(y),
    number(r), html.attributes(o or {})))
end

-- With one decimal, as short as SVG reads it.
local function coordinate(v)
  local text = ("%.1f"):format(v):gsub("%.0$", "")
  return text == "-0" and "0" or text
end

--- A path: numbers in a list among letters, {"M", 0, 0, "L", 10, 10}.
function drawing:path(list, o)
  local parts, after_number = {}, false
  for _, p in ipairs(list) do
    local is_number = type(p) == "number"
    if is_number and after_number then parts[#parts + 1] = " " end
    parts[#parts + 1] = is_number and coordinate(p) or p
    after_number = is_number
  end
  self:add(('<path d="%s"%s/>'):format(table.concat(parts),
                                       html.attributes(o or {})))
end

--- A text that begins at x; o.title shows when the pointer is over it.
function drawing:text(x, y, text, o)
  self:add(('<text x="%s" y="%s"%s>%s</text>'):format(number(x), number(y),
    html.attributes(o or {}), html.escape(text)))
end

function drawing:open(o)
  self:add("<g" .. html.attributes(o or {}) .. ">")
end

function drawing:close()
  self:add "</g>"
end

--- The drawing as the text of an SVG file.
function drawing:done()
  local w, h = number(self.width), number(self.height)
  return ('<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" '
    .. 'viewBox="0 0 %s %s" font-family="sans-serif" font-size="11">%s</svg>')
    :format(w, h, w, h, table.concat(self.parts))
end

--- The drawing as an <img>.
function drawing:image(alt)
  return html.image("image/svg+xml", self:done(),
    {alt = alt, width = math.ceil(self.width), height = math.ceil(self.height)})
end

return svg
