--- show/picture.lua - numbers as pictures: td.image_grid, heat maps.
--
-- A picture is drawn into bytes and encoded as PNG by the engine. What is drawn
-- is bounded: of many images the first ones, of large ones every n-th pixel.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local colour = require "tide.show.colour"
local dtypes = require "tide.tensor.dtype"
local html = require "tide.show.html"
local namespace = require "tide.ops"
local autoload = require "tide.base.autoload"

local draw = autoload "tide.show.draw"

local picture = {}

local SIDE = 640      -- pixels of a picture, at most about this
local MOST = 64       -- images of a grid
local HEAT = 96       -- rows and columns of a heat map
local GAP = 3         -- pixels between images

local fail = errors.invalid

local ops = setmetatable({}, {__index = function(_, name)
  return namespace.ops[name]
end})

--- PNG bytes of a uint8 value {height, width, channels}.
local function encode(pixels)
  return core.op "EncodePng"(pixels):item()
end

-- ---- grids of images -------------------------------------------------------

local channels_of = {[1] = true, [3] = true, [4] = true}

-- A value as images {n, height, width, channels}.
local function as_images(x)
  local s = x.shape
  if #s == 4 then return x end
  if #s == 3 and channels_of[s[3]] then
    return ops.reshape(x, {1, s[1], s[2], s[3]})
  end
  if #s == 3 then return ops.reshape(x, {s[1], s[2], s[3], 1}) end
  return ops.reshape(x, {1, s[1], s[2], 1})
end

-- Filters {height, width, in, out} as images: of one or three channels each,
-- else every slice by itself.
local function as_filters(x)
  local s = x.shape
  if #s ~= 4 then
    fail("image_grid: filters have shape {height, width, in, out}, given %s", s)
  end
  if channels_of[s[3]] then return ops.transpose(x, {3, 0, 1, 2}) end
  x = ops.transpose(x, {3, 2, 0, 1})
  return ops.reshape(x, {s[3] * s[4], s[1], s[2], 1})
end

local function every(size, most)
  return (size + most - 1) // most
end

-- The first images, with as many of their pixels as a grid has room for.
local function thinned(x, columns)
  local s = x.shape
  local n = math.min(s[1], MOST)
  local step = every(s[2] * math.ceil(n / columns), SIDE)
  step = math.max(step, every(s[3] * math.min(columns, n), SIDE))
  x = x[("0:%d, ::%d, ::%d"):format(n, step, step)]
  if not channels_of[x.shape[4]] then x = x["..., 0:1"] end
  return x
end

local function bytes_of(x, low, high)
  if x.dtype == "uint8" and low == 0 and high == 255 then return x end
  x = ops.cast(x, "float32")
  x = (x - low) * (255 / math.max(high - low, 1e-30))
  x = ops.where(ops.is_finite(x), x, ops.zeros_like(x))
  return ops.cast(ops.round(ops.clip_by_value(x, 0.0, 255.0)), "uint8")
end

-- A picture somewhat wider than high, with as few places left empty as may be.
local function columns_of(n, h, w)
  local most = math.max(1, math.min(n, SIDE // w))
  local best = math.min(most, math.ceil(math.sqrt(n * 1.6 * h / w)))
  local least = math.huge
  for k = best + 1, math.max(1, best - 1), -1 do
    local empty = -n % k
    if k <= most and empty < least then best, least = k, empty end
  end
  return best
end

-- Images {n, h, w, c} of bytes, each `scale` times as large.
local function magnify(x, scale)
  local n, h, w, c = table.unpack(x.shape)
  x = ops.tile(ops.reshape(x, {n, h, 1, w, 1, c}), {1, 1, scale, 1, scale, 1})
  return ops.reshape(x, {n, h * scale, w * scale, c})
end

-- The same side by side on white.
local function tile(x, columns, scale)
  if scale > 1 then x = magnify(x, scale) end
  local n, h, w, c = table.unpack(x.shape)
  local rows = math.ceil(n / columns)
  local g = n > 1 and GAP or 0
  x = core.op "PadV2"(x, {{0, rows * columns - n}, {0, g}, {0, g}, {0, 0}},
                      core.tensor(255, "uint8"))
  h, w = h + g, w + g
  x = ops.reshape(x, {rows, columns, h, w, c})
  x = ops.transpose(x, {0, 2, 1, 3, 4})
  x = ops.reshape(x, {rows * h, columns * w, c})
  return x[("0:%d, 0:%d"):format(rows * h - g, columns * w - g)]
end

local function range_of(x, o)
  local low, high = o.low, o.high
  if not low or not high then
    local s = core.statistics(x, 1 << 18)
    local unit = dtypes.is_float(x.dtype) and s.min >= 0 and s.max <= 1
    low = low or (x.dtype == "uint8" or unit) and 0 or s.min
    high = high or x.dtype == "uint8" and 255 or unit and 1 or s.max
  end
  return low, high
end

--- PNG bytes of images side by side, its width and its height.
function picture.grid(x, o)
  local low, high = range_of(x, o)
  local n, h, w = math.min(x.shape[1], MOST), x.shape[2], x.shape[3]
  local columns = o.columns or columns_of(n, h, w)
  x = thinned(x, columns)
  n, h, w = x.shape[1], x.shape[2], x.shape[3]
  local scale = o.scale or math.max(1, math.min(8,
    256 // (h * math.ceil(n / columns)), SIDE // (w * columns)))
  if n == 1 and not o.scale then
    scale = math.max(1, math.min(8, 224 // math.max(h, w)))
  end
  local pixels = tile(bytes_of(x, low, high), columns, scale)
  return encode(pixels), pixels.shape[2], pixels.shape[1]
end

--- Does a value look like images? bytes, or floats from 0 to 1, of shape {n,
-- height, width, channels} or {height, width, channels}. `s` its statistics.
function picture.looks_like_images(x, s)
  local shape = x.shape
  local inside = x.dtype == "uint8" or (dtypes.is_float(x.dtype)
    and s.finite == s.n and s.min >= 0 and s.max <= 1 and s.max > 0)
  if not inside or (#shape ~= 3 and #shape ~= 4) then return false end
  local h, w = shape[#shape - 2], shape[#shape - 1]
  return channels_of[shape[#shape]] and h >= 6 and w >= 6
end

--- The PNG of a value that looks like images.
function picture.images(x)
  return picture.grid(as_images(x), {})
end

-- ---- heat maps -------------------------------------------------------------

local function places(size)
  local n = math.min(size, HEAT)
  local list = {}
  for i = 1, n do list[i] = (i - 1) * size // n end
  return list
end

--- PNG bytes of a matrix in colours, its width and its height.
function picture.heat(x, low, high)
  local rows, columns = places(x.shape[1]), places(x.shape[2])
  local at = {}
  for _, i in ipairs(rows) do
    for _, j in ipairs(columns) do at[#at + 1] = i * x.shape[2] + j end
  end
  local scale, bytes = colour.scale(low, high), {}
  for k, v in ipairs(core.elements(x, at)) do
    local c = scale(v)
    bytes[k] = string.char(c[1], c[2], c[3])
  end
  local h, w = #rows, #columns
  local pixels = core.from_bytes(table.concat(bytes), "uint8", {h, 1, w, 1, 3})
  local by = math.max(1, math.min(16, 240 // math.max(h, w)))
  pixels = ops.reshape(ops.tile(pixels, {1, by, 1, by, 1}), {h * by, w * by, 3})
  return encode(pixels), w * by, h * by
end

-- ---- td.image_grid ---------------------------------------------------------

local grid = {__name = "image grid"}

function grid:__tostring()
  local s = self.images.shape
  return ("Image grid of %d x {%d, %d, %d}"):format(s[1], s[2], s[3], s[4])
end

-- As many images as fit beside each other, in shades of characters.
function grid:__repr_pretty()
  local s = self.images.shape
  local n = math.max(1, math.min(s[1], 76 // (s[3] + 1)))
  local step = every(math.min(s[3], 10000), 76)
  local x = self.images[("0:%d, ::%d, ::%d, 0"):format(n, step, step)]
  local low, high = range_of(self.images, self.options)
  local text = tostring(self) .. (n < s[1] and (", the first %d"):format(n)
                                  or "")
  return text .. "\n" .. draw.draw(ops.cast(x, "float32"),
    {low = low, high = high > low and high or low + 1})
end

function grid:__repr_html()
  local png, w, h = picture.grid(self.images, self.options)
  return html.image("image/png", png, {alt = tostring(self), width = w,
                                       height = h})
end

--- The picture as the bytes of a PNG file.
grid.__index = {png = function(self)
  return (picture.grid(self.images, self.options))
end}

--- Images, or the filters of a convolution, as one picture.
-- @param x a value {n, height, width, channels}, {height, width, channels}, {n,
-- height, width} or {height, width}
-- @param[opt] o filters = true: x is {height, width, in, out}; columns; scale,
-- pixels for each; low and high, what is black and what is white
-- @return what displays as a picture; :png() gives the bytes of a PNG file
-- @usage local x = td.value.zeros{9, 8, 8, 3}
-- td.image_grid(x)  --> Image grid of 9 x {8, 8, 3}
function picture.image_grid(x, o)
  o = args.read(o, {"filters", "columns", "scale", "low", "high"}, "image_grid")
  if core.kind(x) ~= "tensor" then x = core.tensor(x) end
  if x.rank < 2 or x.rank > 4 or x.size == 0 or x.dtype == "string"
     or dtypes.is_complex(x.dtype) then
    fail("image_grid takes numbers of shape {n, height, width, channels}, "
      .. "given %s %s", x.dtype, x.shape)
  end
  args.expect_all(o, {low = "number", high = "number", columns = "integer",
                      scale = "integer"})
  if (o.columns or 1) < 1 or (o.scale or 1) < 1 or (o.scale or 1) > 64 then
    fail("image_grid: columns and scale are 1 or more, scale at most 64")
  end
  local images = o.filters and as_filters(x) or as_images(x)
  return setmetatable({images = images, options = o}, grid)
end

return picture
