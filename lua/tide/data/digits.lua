--- data/digits.lua - handwritten digits drawn by code.
--
-- Ten glyphs of strokes, each drawn by a shaky hand: turned, slanted,
-- stretched, shifted, with a pen of some width, on noisy paper. Enough to train
-- on where MNIST cannot be had, in MNIST's form: 28 by 28, white on black.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dataset = require "tide.data.dataset"
local rng = require "tide.base.rng"

local SIZE = 28

-- An arc around (x, y), from angle a to b in quarter turns, as points.
local function arc(x, y, rx, ry, a, b)
  local points = {}
  local n = math.max(3, math.ceil(math.abs(b - a) * 4))
  for i = 0, n do
    local t = (a + (b - a) * i / n) * math.pi / 2
    points[#points + 1] = {x + rx * math.cos(t), y + ry * math.sin(t)}
  end
  return points
end

-- Strokes: lists of points in a square from -1 to 1, y downwards.
local glyphs = {
  [0] = {arc(0, 0, 0.55, 0.9, 0, 4)},
  {{{-0.3, -0.55}, {0.05, -0.9}, {0.05, 0.9}}},
  {arc(0, -0.45, 0.5, 0.45, -2, 0.6), {{0.3, -0.1}, {-0.55, 0.9}, {0.6, 0.9}}},
  {arc(-0.05, -0.45, 0.5, 0.43, -1.9, 1),
   arc(-0.05, 0.44, 0.55, 0.46, -1, 1.9)},
  {{{0.15, -0.9}, {-0.6, 0.25}, {0.6, 0.25}}, {{0.25, -0.3}, {0.25, 0.9}}},
  {{{0.5, -0.9}, {-0.4, -0.9}, {-0.45, -0.1}},
   arc(-0.05, 0.35, 0.55, 0.53, -1.5, 1.8)},
  {{{0.4, -0.85}, {-0.2, -0.4}, {-0.48, 0.3}}, arc(0, 0.42, 0.5, 0.47, -2, 2)},
  {{{-0.55, -0.9}, {0.55, -0.9}, {-0.1, 0.9}}},
  {arc(0, -0.46, 0.42, 0.43, 0, 4), arc(0, 0.44, 0.52, 0.46, 0, 4)},
  {arc(0, -0.42, 0.48, 0.47, 0, 4), {{0.48, -0.42}, {0.42, 0.3}, {0.05, 0.9}}},
}

-- A random map from the square to the image.
local function hand(random)
  local angle = 0.16 * random:normal()
  local slant = 0.18 * random:normal()
  local sx = 9.0 * (1 + 0.12 * random:normal())
  local sy = 9.5 * (1 + 0.08 * random:normal())
  local c, s = math.cos(angle), math.sin(angle)
  local dx = SIZE / 2 + 1.2 * random:normal()
  local dy = SIZE / 2 + 1.2 * random:normal()
  return function(x, y)
    x = x + slant * y
    x, y = c * x - s * y, s * x + c * y
    return dx + sx * x, dy + sy * y
  end
end

-- A dot of the pen: full inside `radius`, fading over one pixel.
local function dot(image, x, y, radius)
  local reach = radius + 1
  for row = math.max(0, y - reach) // 1, math.min(SIZE - 1, y + reach) // 1 do
    local base, ry = row * SIZE, (row + 0.5 - y) ^ 2
    for col = math.max(0, x - reach) // 1, math.min(SIZE - 1, x + reach) // 1 do
      local ink = radius + 0.5 - ((col + 0.5 - x) ^ 2 + ry) ^ 0.5
      if ink > 0 then
        local at = math.tointeger(base + col) + 1
        if ink > 1 then ink = 1 end
        if ink > image[at] then image[at] = ink end
      end
    end
  end
end

local function line(image, x0, y0, x1, y1, radius)
  local steps = math.ceil(((x1 - x0) ^ 2 + (y1 - y0) ^ 2) ^ 0.5)
  for i = 0, steps do
    local t = steps > 0 and i / steps or 0
    dot(image, x0 + (x1 - x0) * t, y0 + (y1 - y0) * t, radius)
  end
end

-- One digit as bytes, a row after the other.
local function draw(digit, random)
  local image, map = {}, hand(random)
  local radius = random:uniform(0.7, 1.5)
  local shake = random:uniform(0.1, 0.4)
  for i = 1, SIZE * SIZE do image[i] = 0 end
  for _, stroke in ipairs(glyphs[digit]) do
    local px, py
    for _, point in ipairs(stroke) do
      local x, y = map(point[1], point[2])
      x, y = x + shake * random:normal(), y + shake * random:normal()
      if px then line(image, px, py, x, y, radius) end
      px, py = x, y
    end
  end
  local ink = random:uniform(200, 255)
  for i = 1, #image do
    image[i] = math.tointeger(image[i] * ink // 1)
  end
  for _ = 1, random:integer(0, 30) do
    local at = random:integer(1, #image)
    image[at] = math.max(image[at], random:integer(10, 90))
  end
  return string.char(table.unpack(image))
end

local function make(n, seed)
  local random, images, labels = rng.new(seed), {}, {}
  for i = 1, n do
    labels[i] = random:integer(0, 9)
    images[i] = draw(labels[i], random)
  end
  local bytes = core.from_bytes(table.concat(images), "uint8",
                                {n, SIZE * SIZE})
  return dataset.new({images = bytes,
                      labels = core.tensor(labels, "int64", {n})},
                     {images = 1 / 255})
end

local digits = {}

--- Drawn digits: {train =, test =} as td.data.mnist gives them.
-- @tparam[opt=10000] integer train  @tparam[opt=2000] integer test examples
-- @tparam[opt=1] integer seed of the drawing
function digits.load(train, test, seed)
  seed = seed or 1
  return {train = make(train or 10000, 2 * seed),
          test = make(test or 2000, 2 * seed + 1)}
end

return digits
