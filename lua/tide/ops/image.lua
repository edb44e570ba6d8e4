--- ops/image.lua - pictures turned, cut, filled up and distorted; td.image has
-- what TensorFlow keeps in tf.image.
--
-- A picture is {height, width, channels}, pictures have a batch in front. What
-- is random is drawn for each picture of a batch by itself. Sizes may be graph
-- scalars.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local namespace = require "tide.ops"

local ops = namespace.ops

-- x as a tensor of rank 3 or 4, and its axis of rows.
local function read(x, what)
  x = args.tensor(x)
  if x.rank ~= 3 and x.rank ~= 4 then
    core.error("invalid_argument", ("%s takes {height, width, channels} or "
      .. "{batch, height, width, channels}, not %s"):format(what,
      x.rank and tostring(x.shape) or "an unknown rank"))
  end
  return x, x.rank - 3
end

local function is_float(x) return dtypes.is_float(x.dtype) end

-- A list for all axes: what is given for rows and columns, else `other`.
local function per_axis(x, rows, columns, other)
  local list = x.rank == 4 and {other, rows, columns, other}
               or {rows, columns, other}
  return list
end

-- ---- turning ----------------------------------------------------------------

local function flip(axis_of, what)
  return function(x, o)
    local axis
    x, axis = read(x, what)
    return core.op "ReverseV2"(x, {axis + axis_of},
                               args.read(o, {"name"}, what))
  end
end

--- Left becomes right.
-- @function ops.flip_left_right(x, o)
-- @usage td.image.flip_left_right({{{1}, {2}}})  --> 2 1
ops.flip_left_right = flip(1, "flip_left_right")
--- Top becomes bottom.
-- @function ops.flip_up_down(x, o)
-- @usage td.image.flip_up_down({{{1}}, {{2}}})  --> 2 1
ops.flip_up_down = flip(0, "flip_up_down")

--- Rows become columns.
-- @usage td.image.transpose_image({{{1}, {2}}}).shape  --> {2, 1, 1}
function ops.transpose_image(x, o)
  x = read(x, "transpose_image")
  return core.op "Transpose"(x, x.rank == 4 and {0, 2, 1, 3} or {1, 0, 2},
                             args.read(o, {"name"}, "transpose_image"))
end

--- Turned by k quarters (1), against the clock.
-- @usage td.image.rot90({{{1}, {2}}, {{3}, {4}}})  --> 2 4 1 3
function ops.rot90(x, k, o)
  o = args.read(o, {"name"}, "rot90")
  k = args.expect(k or 1, "integer", "rot90: k") % 4
  x = read(x, "rot90")
  if k == 1 then
    x = ops.flip_up_down(ops.transpose_image(x))
  elseif k == 2 then
    x = ops.flip_up_down(ops.flip_left_right(x))
  elseif k == 3 then
    x = ops.transpose_image(ops.flip_up_down(x))
  end
  return o.name and ops.identity(x, o.name) or x
end

-- ---- what is random ---------------------------------------------------------

-- Uniform numbers, one for each picture, in a shape that broadcasts with x.
local function draw(x, low, high, seed)
  local o = {minval = low, maxval = high, seed = seed}
  if x.rank == 3 then return ops.random_uniform({}, o) end
  return ops.random_uniform({x:dim(0), 1, 1, 1}, o)
end

local function random_flip(name, f)
  return function(x, o)
    o = args.read(o, {"seed", "name"}, name)
    x = read(x, name)
    local chance = ops.less(draw(x, 0.0, 1.0, o.seed), 0.5)
    return ops.where(chance, f(x), x, {name = o.name})
  end
end

--- Flipped, or not, with even chances. Options seed, name.
-- @function ops.random_flip_left_right(x, o)
-- @usage td.image.random_flip_left_right({{{1}, {2}}}).shape  --> {1, 2, 1}
ops.random_flip_left_right =
  random_flip("random_flip_left_right", ops.flip_left_right)
--- Flipped, or not, with even chances. Options seed, name.
-- @function ops.random_flip_up_down(x, o)
-- @usage td.image.random_flip_up_down({{{1}, {2}}}).shape  --> {1, 2, 1}
ops.random_flip_up_down = random_flip("random_flip_up_down", ops.flip_up_down)

-- A float computation on pictures of any dtype: integers go through floats
-- from 0 to 1 and are cut off at their bounds.
local function in_floats(x, f)
  if is_float(x) then return f(x) end
  local y = f(ops.convert_image_dtype(x, "float32"))
  return ops.convert_image_dtype(y, x.dtype, {saturate = true})
end

--- x + delta; integers count their largest number as 1, and are cut off.
-- @usage td.image.adjust_brightness({{{0.5}}}, 0.25)  --> 0.75
function ops.adjust_brightness(x, delta, o)
  o = args.read(o, {"name"}, "adjust_brightness")
  x = read(x, "adjust_brightness")
  local y = in_floats(x, function(z) return ops.add(z, delta) end)
  return o.name and ops.identity(y, o.name) or y
end

--- Adds a random number from -most to most. Options seed, name.
-- @usage td.image.random_brightness({{{0.5}}}, 0.25).shape  --> {1, 1, 1}
function ops.random_brightness(x, most, o)
  o = args.read(o, {"seed", "name"}, "random_brightness")
  if args.expect(most, "number", "random_brightness: most") < 0 then
    core.error("invalid_argument", "random_brightness: most is 0 or above")
  end
  x = read(x, "random_brightness")
  return ops.adjust_brightness(x, draw(x, -most, most, o.seed), {name = o.name})
end

--- Contrast by a random factor from `lower` to `upper`: (x - mean) * factor +
-- mean, in each channel. Options seed, name.
-- @usage td.image.random_contrast({{{0.5}}}, 0.5, 2).shape  --> {1, 1, 1}
function ops.random_contrast(x, lower, upper, o)
  o = args.read(o, {"seed", "name"}, "random_contrast")
  if not (args.expect(lower, "number", "random_contrast: lower") >= 0
          and args.expect(upper, "number", "random_contrast: upper") > lower)
  then
    core.error("invalid_argument",
      "random_contrast: 0 <= lower < upper is needed")
  end
  local axis
  x, axis = read(x, "random_contrast")
  local factor = draw(x, lower, upper, o.seed)
  local y = in_floats(x, function(z)
    local mean = ops.mean(z, {axis, axis + 1}, {keep_dims = true})
    return (z - mean) * factor + mean
  end)
  return o.name and ops.identity(y, o.name) or y
end

-- A factor or turn drawn for all of x: colour ops take a scalar.
local function random_color(name, op, check)
  return function(x, a, b, o)
    if args.plain(b) or type(b) == "string" then b, o = nil, b end
    o = args.read(o, {"seed", "name"}, name)
    local low, high = check(a, b)
    x = read(x, name)
    local by = ops.random_uniform({}, {minval = low, maxval = high,
                                       seed = o.seed})
    local y = in_floats(x, function(z) return core.op(op)(z, by) end)
    return o.name and ops.identity(y, o.name) or y
  end
end

--- Turns the hue by a random part of the circle from -most to most (at most
-- 0.5), the same for a batch. Options seed, name.
-- @function ops.random_hue(x, most, o)
-- @usage td.image.random_hue({{{0.5, 0, 1}}}, 0.1).shape  --> {1, 1, 3}
ops.random_hue = random_color("random_hue", "AdjustHue", function(most)
  if not (args.expect(most, "number", "random_hue: most") >= 0
          and most <= 0.5) then
    core.error("invalid_argument", "random_hue: most is from 0 to 0.5")
  end
  return -most, most
end)

--- Multiplies the saturation by a random factor from `lower` to `upper`, the
-- same for a batch. Options seed, name.
-- @function ops.random_saturation(x, lower, upper, o)
-- @usage td.image.random_saturation({{{0.5, 0, 1}}}, 1, 2).shape  --> {1, 1, 3}
ops.random_saturation = random_color("random_saturation", "AdjustSaturation",
  function(lower, upper)
    if not (args.expect(lower, "number", "random_saturation: lower") >= 0
            and args.expect(upper, "number", "random_saturation: upper")
                > lower) then
      core.error("invalid_argument",
        "random_saturation: 0 <= lower < upper is needed")
    end
    return lower, upper
  end)

-- Random starts of windows of `size` in [0, whole - size], one each.
local function starts(n, whole, size, seed)
  return ops.random_uniform({n}, {minval = 0, maxval = whole - size + 1,
                                  dtype = "int32", seed = seed})
end

-- Pictures {batch, h, w, c}, a window of each, by one gather.
local function crop_each(x, size, o)
  local batch, rows, columns = x:dim(0), size[1], size[2]
  local second = o.seed and o.seed + 1
  local top = ops.reshape(starts(batch, x:dim(1), rows, o.seed), {-1, 1, 1})
  local left = ops.reshape(starts(batch, x:dim(2), columns, second),
                           {-1, 1, 1})
  local zero = ops.zeros_like(top) * ops.zeros_like(left)
  local grid = zero + ops.zeros({1, rows, columns}, {dtype = "int32"})
  local y = grid + top + ops.reshape(ops.range(0, rows, 1), {1, -1, 1})
  local z = grid + left + ops.reshape(ops.range(0, columns, 1), {1, 1, -1})
  local b = grid + ops.reshape(ops.range(0, batch, 1), {-1, 1, 1})
  return ops.gather_nd(x, ops.stack({b, y, z}, -1), {name = o.name})
end

--- A window of `size` at a random place: of any tensor, size naming every axis;
-- or {height, width, channels} of pictures {batch, height, width, channels},
-- each having its own place. Options seed, name.
-- @usage td.random_crop({{1, 2}, {3, 4}}, {1, 1}).shape  --> {1, 1}
function ops.random_crop(x, size, o)
  o = args.read(o, {"seed", "name"}, "random_crop")
  x = args.tensor(x)
  args.check_list(size, "random_crop: size")
  if x.rank == 4 and #size == 3 then return crop_each(x, size, o) end
  if x.rank ~= #size then
    core.error("invalid_argument", ("random_crop: size has %d numbers for %s")
      :format(#size, x.rank and tostring(x.shape) or "an unknown rank"))
  end
  local begin = {}
  for i, n in ipairs(size) do
    local whole = x:dim(i - 1)
    if math.type(whole) == "integer" and math.type(n) == "integer"
       and n > whole then
      core.error("invalid_argument", ("random_crop: %d of %d along axis %d")
        :format(n, whole, i - 1))
    end
    begin[i] = starts(1, whole, n, o.seed and o.seed + i - 1)
  end
  return core.op "Slice"(x, ops.concat(begin, 0), size, {name = o.name})
end

-- ---- cutting and filling up -------------------------------------------------

--- Rows [top, top + height) and columns [left, left + width).
-- @usage td.image.crop_to_bounding_box({{{1}, {2}, {3}}}, 0, 1, 1, 2)  --> 2 3
function ops.crop_to_bounding_box(x, top, left, height, width, o)
  o = args.read(o, {"name"}, "crop_to_bounding_box")
  x = read(x, "crop_to_bounding_box")
  return core.op "Slice"(x, per_axis(x, top, left, 0),
                         per_axis(x, height, width, -1), {name = o.name})
end

--- Zeros around, so that it is `height` by `width` with x at (top, left).
-- @usage td.image.pad_to_bounding_box({{{1}}}, 0, 1, 1, 3)  --> 0 1 0
function ops.pad_to_bounding_box(x, top, left, height, width, o)
  o = args.read(o, {"name"}, "pad_to_bounding_box")
  local axis
  x, axis = read(x, "pad_to_bounding_box")
  local below = height - top - x:dim(axis)
  local right = width - left - x:dim(axis + 1)
  local pads = per_axis(x, {top, below}, {left, right}, {0, 0})
  return core.op "Pad"(x, pads, {name = o.name})
end

--- The middle: a share of the height and of the width.
-- @usage td.image.central_crop({{{1}, {2}, {3}, {4}}}, 0.5)  --> 2 3
function ops.central_crop(x, share, o)
  o = args.read(o, {"name"}, "central_crop")
  local axis
  x, axis = read(x, "central_crop")
  if not (args.expect(share, "number", "central_crop: share") > 0
          and share <= 1) then
    core.error("invalid_argument", "central_crop: 0 < share <= 1 is needed")
  end
  local begin, size = {}, {}
  for i = 1, 2 do
    local n = x:dim(axis + i - 1)
    if math.type(n) ~= "integer" then
      core.error("invalid_argument", "central_crop needs known sizes")
    end
    begin[i] = math.tointeger((n - n * share) // 2)
    size[i] = n - 2 * begin[i]
  end
  return ops.crop_to_bounding_box(x, begin[1], begin[2], size[1], size[2], o)
end

-- What to cut and to add, before and in all, to get from n to `want`.
local function fit(n, want)
  if want <= n then return (n - want) // 2, want, 0 end
  return 0, n, (want - n) // 2
end

--- Cut or filled up with zeros in the middle, to height by width; x's sizes
-- are known.
-- @usage td.resize_image_with_crop_or_pad({{{1}, {2}}}, 1, 4)  --> 0 1 2 0
function ops.resize_image_with_crop_or_pad(x, height, width, o)
  local what = "resize_image_with_crop_or_pad"
  o = args.read(o, {"name"}, what)
  local axis
  x, axis = read(x, what)
  local rows, columns = x:dim(axis), x:dim(axis + 1)
  if math.type(rows) ~= "integer" or math.type(columns) ~= "integer" then
    core.error("invalid_argument", what .. " needs known sizes")
  end
  args.expect(height, "integer", what .. ": height")
  args.expect(width, "integer", what .. ": width")
  local top, h, above = fit(rows, height)
  local left, w, before = fit(columns, width)
  local y = ops.crop_to_bounding_box(x, top, left, h, w)
  return ops.pad_to_bounding_box(y, above, before, height, width, o)
end

-- ---- size -------------------------------------------------------------------

local resizers = {
  bilinear = "ResizeBilinear", nearest = "ResizeNearestNeighbor",
  bicubic = "ResizeBicubic", area = "ResizeArea",
}

--- Pictures in the size {height, width}. Options method ("bilinear"; "nearest",
-- "bicubic", "area"), align_corners, half_pixel_centers, name.
-- @usage td.image.resize_images({{{1}, {3}}}, {1, 4})  --> 1 2 3 3
function ops.resize_images(x, size, o)
  o = args.read(o, {"method", "align_corners", "half_pixel_centers", "name"},
                "resize_images")
  local method = o.method or "bilinear"
  if not resizers[method] then
    core.error("invalid_argument", ("resize_images: method \"%s\" is none of "
      .. "bilinear, nearest, bicubic, area"):format(tostring(method)))
  end
  local axis
  x, axis = read(x, "resize_images")
  if axis == 0 then x = ops.expand_dims(x, 0) end
  local attrs = {align_corners = o.align_corners,
                 half_pixel_centers = o.half_pixel_centers}
  if axis == 1 then attrs.name = o.name end
  local y = core.op(resizers[method])(x, size, attrs)
  return axis == 0 and ops.squeeze(y, {0}, {name = o.name}) or y
end

-- ---- colours and numbers ----------------------------------------------------

--- (x - mean) / max(deviation, 1 / sqrt(elements)) of each picture, as float32.
-- @usage td.image.per_image_standardization({{{1}, {3}}})  --> -1 1
function ops.per_image_standardization(x, o)
  o = args.read(o, {"name"}, "per_image_standardization")
  local axis
  x, axis = read(x, "per_image_standardization")
  if not is_float(x) then x = ops.cast(x, "float32") end
  local axes = {axis, axis + 1, axis + 2}
  local mean = ops.mean(x, axes, {keep_dims = true})
  local variance = ops.mean(ops.squared_difference(x, mean), axes,
                            {keep_dims = true})
  local count = 1
  for _, a in ipairs(axes) do count = count * x:dim(a) end
  local least = args.is_tensor(count) and ops.rsqrt(ops.cast(count, x.dtype))
                or 1 / math.sqrt(math.max(count, 1))
  return ops.truediv(x - mean, ops.maximum(ops.sqrt(variance), least),
                     {name = o.name})
end

-- The number that stands for 1.
local largest = {
  int8 = 0x7f, uint8 = 0xff, int16 = 0x7fff, uint16 = 0xffff,
  int32 = 0x7fffffff, uint32 = 0xffffffff, int64 = 0x7fffffffffffffff,
}

--- Pictures of another dtype in the same range: integers from 0 to their
-- largest number, floats from 0 to 1. Option saturate cuts floats beyond off.
-- @usage td.convert_image_dtype(td.cast({51}, "uint8"), "float32")  --> 0.2
function ops.convert_image_dtype(x, dtype, o)
  o = args.read(o, {"saturate", "name"}, "convert_image_dtype")
  x = args.tensor(x)
  local from, to = is_float(x), dtypes.is_float(dtype)
  if x.dtype == dtype or from == to and from then
    return ops.cast(x, dtype, {name = o.name})
  end
  local top = largest[from and dtype or x.dtype]
  if not top or not (to or largest[dtype]) then
    core.error("invalid_argument", ("convert_image_dtype: no pictures of %s as "
      .. "%s"):format(x.dtype, tostring(dtype)))
  end
  if from then
    local y = x * (top + 0.5)
    if o.saturate then y = ops.clip_by_value(y, 0.0, top + 0.0) end
    return ops.cast(y, dtype, {name = o.name})
  end
  if to then
    return ops.multiply(ops.cast(x, dtype), 1 / top, {name = o.name})
  end
  local scaled = ops.cast(x, "float64") * (largest[dtype] / top)
  return ops.cast(scaled, dtype, {name = o.name})
end

--- One channel of three: 0.2989 r + 0.587 g + 0.114 b.
-- @usage td.image.rgb_to_grayscale({{{1.0, 1.0, 1.0}}})  --> 0.9999
function ops.rgb_to_grayscale(x, o)
  o = args.read(o, {"name"}, "rgb_to_grayscale")
  x = args.tensor(x)
  local y = is_float(x) and x or ops.convert_image_dtype(x, "float32")
  local weights = core.tensor({0.2989, 0.587, 0.114}, y.dtype)
  y = ops.sum(y * weights, {-1}, {keep_dims = true})
  if not is_float(x) then y = ops.convert_image_dtype(y, x.dtype) end
  return o.name and ops.identity(y, o.name) or y
end

--- Three equal channels of one.
-- @usage td.image.grayscale_to_rgb({{{7}}})  --> 7 7 7
function ops.grayscale_to_rgb(x, o)
  o = args.read(o, {"name"}, "grayscale_to_rgb")
  x = args.tensor(x)
  return ops.concat({x, x, x}, -1, {name = o.name})
end
