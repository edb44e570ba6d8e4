--- jupyter/logo.lua - Tide's sign: a moon over water, as SVG and as pixels.
--
-- Both are drawn from the same numbers, in a square of 64 x 64. A wave is a row
-- of parabolas, which SVG has as quadratic curves.
-- SPDX-License-Identifier: Apache-2.0

local logo = {}

local SIDE = 64
local ROUND = 14 -- radius of the corners
local SKY, GLOW = {13, 27, 62}, {36, 84, 140} -- above, and at the water
local MOON = {x = 41, y = 19, r = 10, colour = {255, 241, 193}}
-- From the back to the front: each covers what lies under its line.
local WAVES = {
  {y = 39, high = 2.5, phase = 0, colour = {43, 122, 187}},
  {y = 46, high = 2.5, phase = 10, colour = {79, 163, 219}},
  {y = 54, high = 2.5, phase = 22, colour = {148, 208, 240}},
}
local HALF = 16 -- half a wave is so long

local function hex(c)
  return ("#%02x%02x%02x"):format(c[1], c[2], c[3])
end

local function wave_path(w)
  local x = -w.phase
  local parts = {("M%g %gq%g %g %g 0"):format(x, w.y, HALF / 2, -2 * w.high,
                                              HALF)}
  for at = x + HALF, SIDE, HALF do
    if at < SIDE then parts[#parts + 1] = ("t%g 0"):format(HALF) end
  end
  return table.concat(parts) .. "V64H" .. ("%g"):format(x) .. "Z"
end

--- The text of an SVG file.
function logo.svg()
  local parts = {
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">',
    '<defs><clipPath id="c"><rect width="64" height="64" rx="' .. ROUND
      .. '"/></clipPath>',
    '<linearGradient id="s" x2="0" y2="1"><stop stop-color="' .. hex(SKY)
      .. '"/><stop offset=".7" stop-color="' .. hex(GLOW)
      .. '"/></linearGradient></defs>',
    '<g clip-path="url(#c)"><rect width="64" height="64" fill="url(#s)"/>',
    ('<circle cx="%d" cy="%d" r="%d" fill="%s"/>'):format(MOON.x, MOON.y,
      MOON.r, hex(MOON.colour)),
  }
  for _, w in ipairs(WAVES) do
    parts[#parts + 1] = ('<path fill="%s" d="%s"/>'):format(hex(w.colour),
                                                          wave_path(w))
  end
  parts[#parts + 1] = "</g></svg>\n"
  return table.concat(parts, "\n")
end

-- ---- pixels ----------------------------------------------------------------

-- Inside of the square with round corners?
local function inside(x, y)
  local dx = math.max(ROUND - x, x - (SIDE - ROUND), 0)
  local dy = math.max(ROUND - y, y - (SIDE - ROUND), 0)
  return dx * dx + dy * dy <= ROUND * ROUND
end

-- The line of a wave above x.
local function line(w, x)
  local along = (x + w.phase) / HALF
  local t = along % 1
  local bow = 4 * w.high * t * (1 - t)
  return math.floor(along) % 2 == 0 and w.y - bow or w.y + bow
end

local function colour_at(x, y)
  for i = #WAVES, 1, -1 do
    if y >= line(WAVES[i], x) then return WAVES[i].colour end
  end
  if (x - MOON.x) ^ 2 + (y - MOON.y) ^ 2 <= MOON.r ^ 2 then
    return MOON.colour
  end
  local share = math.min(1, y / (0.7 * SIDE))
  local c = {}
  for i = 1, 3 do c[i] = SKY[i] + (GLOW[i] - SKY[i]) * share end
  return c
end

local FINE = 4 -- samples of a pixel, each way

-- Red, green, blue and opacity of a pixel: what its samples have on average.
local function pixel(px, py, unit)
  local sum, covered = {0, 0, 0}, 0
  for sy = 1, FINE do
    for sx = 1, FINE do
      local x, y = (px + (sx - 0.5) / FINE) * unit,
                   (py + (sy - 0.5) / FINE) * unit
      if inside(x, y) then
        covered = covered + 1
        local c = colour_at(x, y)
        for i = 1, 3 do sum[i] = sum[i] + c[i] end
      end
    end
  end
  local out = {0, 0, 0, math.floor(255 * covered / FINE ^ 2 + 0.5)}
  for i = 1, covered > 0 and 3 or 0 do
    out[i] = math.floor(sum[i] / covered + 0.5)
  end
  return out
end

--- The picture as rows of pixels {red, green, blue, opacity}, 0 to 255.
function logo.pixels(side)
  local rows = {}
  for y = 1, side do
    rows[y] = {}
    for x = 1, side do rows[y][x] = pixel(x - 1, y - 1, SIDE / side) end
  end
  return rows
end

return logo
