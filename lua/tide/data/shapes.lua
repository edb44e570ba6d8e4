--- data/shapes.lua - ten coloured shapes drawn by code.
--
-- Each is turned, scaled and shifted, in a random colour on a background that
-- runs from one colour to another, with noise on it. Enough to train on where
-- CIFAR-10 cannot be had, in its form: 32 by 32 by 3.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dataset = require "tide.data.dataset"
local rng = require "tide.base.rng"

local SIZE = 32
local abs, floor = math.abs, math.floor

-- Is (x, y) part of it? The shape fills the square from -1 to 1.
local inside = {
  function(x, y) return x * x + y * y < 0.8 end,
  function(x, y) local r = x * x + y * y return r < 0.9 and r > 0.35 end,
  function(x, y) return abs(x) < 0.75 and abs(y) < 0.75 end,
  function(x, y) local r = math.max(abs(x), abs(y)) return r < 0.85 and r > 0.5
  end,
  function(x, y) return y < 0.7 and abs(x) < (y + 0.9) * 0.55 end,
  function(x, y)
    return (abs(x) < 0.28 or abs(y) < 0.28) and abs(x) < 0.95 and abs(y) < 0.95
  end,
  function(x, y) return abs(y) < 0.9 and floor((x + 1) * 2.5) % 2 == 0 end,
  function(x, y)
    return (floor((x + 1) * 2) + floor((y + 1) * 2)) % 2 == 0
  end,
  function(x, y) return x * x + y * y < 0.9 and y > -0.1 end,
  function(x, y) return (abs(x) - 0.5) ^ 2 + y * y < 0.16 end,
}

local classes = {"disc", "ring", "square", "frame", "triangle", "cross",
                 "stripes", "checkers", "half disc", "two discs"}

local function colour(random, low, high)
  return {random:uniform(low, high), random:uniform(low, high),
          random:uniform(low, high)}
end

-- One image as bytes: rows of pixels of three channels.
local function draw(label, random)
  local shape, bytes = inside[label + 1], {}
  local angle = random:uniform(-0.5, 0.5)
  local scale = 1 / random:uniform(8, 14)
  local c, s = math.cos(angle) * scale, math.sin(angle) * scale
  local cx, cy = random:uniform(12, 20), random:uniform(12, 20)
  local dark = random:uniform() < 0.5
  local ink = dark and colour(random, 0, 110) or colour(random, 150, 255)
  local top = dark and colour(random, 120, 255) or colour(random, 0, 140)
  local low = dark and colour(random, 120, 255) or colour(random, 0, 140)
  local at = 1
  for row = 0, SIZE - 1 do
    local share = row / (SIZE - 1)
    for col = 0, SIZE - 1 do
      local x, y = col - cx, row - cy
      local full = shape(c * x - s * y, s * x + c * y)
      local noise = 24 * (random:uniform() - 0.5)
      for k = 1, 3 do
        local v = full and ink[k] or top[k] + share * (low[k] - top[k])
        v = v + noise
        bytes[at] = v < 0 and 0 or v > 255 and 255 or v // 1 | 0
        at = at + 1
      end
    end
  end
  return string.char(table.unpack(bytes))
end

local function make(n, seed)
  local random, images, labels = rng.new(seed), {}, {}
  for i = 1, n do
    labels[i] = random:integer(0, #classes - 1)
    images[i] = draw(labels[i], random)
  end
  local bytes = core.from_bytes(table.concat(images), "uint8",
                                {n, SIZE, SIZE, 3})
  return dataset.new({images = bytes,
                      labels = core.tensor(labels, "int64", {n})},
                     {images = 1 / 255})
end

local shapes = {}

--- {train =, test =, classes =}: drawn shapes in CIFAR-10's form.
function shapes.load(train, test, seed)
  return {train = make(train, 2 * seed), test = make(test, 2 * seed + 1),
          classes = classes}
end

return shapes
