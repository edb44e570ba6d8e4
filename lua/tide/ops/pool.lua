--- ops/pool.lua - pooling: windows over images and volumes.
--
-- Sizes are those of the tensors' dimensions as in TensorFlow, {1, 2, 2, 1}, or
-- of height and width, {2, 2}, or one for all of them, 2.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local shapes = require "tide.tensor.shape"
local namespace = require "tide.ops"

local ops = namespace.ops

-- Sizes for every dimension of tensors of that rank.
local function sizes(given, rank, first, what)
  local list = type(given) == "number" and {} or given
  args.check_list(list, what)
  if type(given) == "number" then
    for i = 1, rank - 2 do list[i] = given end
  end
  if #list == rank then return list end
  if #list ~= rank - 2 then
    core.error("invalid_argument", ("%s must be a number or have %d or %d "
      .. "values, not %d"):format(what, rank - 2, rank, #list))
  end
  local all = {1, table.unpack(list)}
  table.insert(all, first and 2 or rank, 1)
  return all
end

-- {1, 1} or {{1, 1}, {0, 2}}: before and after height and width.
local function paddings(given, first)
  local all = {}
  if #given == 8 then return given end
  if #given ~= 2 then
    core.error("invalid_argument", "padding must be \"SAME\", \"VALID\" or "
      .. "{height, width}, each a number or {before, after}")
  end
  for i, p in ipairs(given) do
    local pair = type(p) == "number" and {p, p} or p
    all[2 * i - 1], all[2 * i] = pair[1], pair[2]
  end
  return first and {0, 0, 0, 0, table.unpack(all)}
         or {0, 0, all[1], all[2], all[3], all[4], 0, 0}
end

-- (ksize, strides, padding, o) as attributes; also one table of them.
local function window(ksize, strides, padding, o, rank, what)
  if args.has_names(ksize) then
    o = args.options(ksize, what)
    ksize, strides, padding = o.ksize, o.strides, o.padding
  elseif args.has_names(strides) then
    o = args.options(strides, what)
    strides, padding = o.strides, o.padding
  else
    o = args.options(o, what)
  end
  if ksize == nil then
    core.error("invalid_argument", what .. " needs ksize, the window's size")
  end
  local first = tostring(o.data_format or ""):sub(2, 2) == "C"
  o.ksize = sizes(ksize, rank, first, "ksize")
  o.strides = sizes(strides or ksize, rank, first, "strides")
  o.padding = padding or "VALID"
  if args.plain(o.padding) then
    o.explicit_paddings = paddings(o.padding, first)
    o.padding = "EXPLICIT"
  end
  return o
end

-- The function of an op that pools tensors of that rank.
local function define(name, op, rank)
  ops[name] = function(x, ksize, strides, padding, o)
    return core.op(op)(x, window(ksize, strides, padding, o, rank, name))
  end
end

--- The largest element under each window of an image (NHWC): its size, step
-- (default: its size), and padding: "VALID" (default), "SAME" or {height,
-- width}.
-- @function ops.max_pool(x, ksize, strides, padding, o)
-- @function ops.max_pool2d(x, ksize, strides, padding, o)
-- @usage td.max_pool({{{{1}, {2}}, {{3}, {4}}}}, 2)  --> 4
define("max_pool", "MaxPool", 4)
ops.max_pool2d = ops.max_pool

--- The mean of the elements under each window of an image; padding is not
-- counted.
-- @function ops.avg_pool(x, ksize, strides, padding, o)
-- @function ops.avg_pool2d(x, ksize, strides, padding, o)
-- @usage td.avg_pool({{{{1.0}, {2.0}}, {{3.0}, {4.0}}}}, 2)  --> 2.5
define("avg_pool", "AvgPool", 4)
ops.avg_pool2d = ops.avg_pool

--- max_pool of volumes (NDHWC); "VALID" or "SAME".
-- @function ops.max_pool3d(x, ksize, strides, padding, o)
-- @usage td.max_pool3d({{{{{1.0}, {2.0}}, {{3.0}, {4.0}}}}}, {1, 2, 2})  --> 4
define("max_pool3d", "MaxPool3D", 5)

--- avg_pool of volumes (NDHWC); "VALID" or "SAME".
-- @function ops.avg_pool3d(x, ksize, strides, padding, o)
-- @usage td.avg_pool3d({{{{{1.0}, {2.0}}, {{3.0}, {4.0}}}}}, {1, 2, 2})
--   --> 2.5
define("avg_pool3d", "AvgPool3D", 5)

--- max_pool with the places of what it found: two results. A place counts the
-- elements of the image, or with include_batch_in_index those of the batch.
-- @function ops.max_pool_with_argmax(x, ksize, strides, padding, o)
-- @usage select(2, td.max_pool_with_argmax({{{{1}, {2}}, {{4}, {3}}}}, 2))
--   --> 2
define("max_pool_with_argmax", "MaxPoolWithArgmax", 4)

-- ---- windows with holes ---------------------------------------------------

local fail = errors.invalid

-- A number for each of n axes.
local function each(given, n, what)
  if given == nil then given = 1 end
  if type(given) ~= "number" then
    args.check_list(given, what)
    if #given ~= n then
      fail("%s is a number or %d of them, not %d", what, n, #given)
    end
    return given
  end
  local list = {}
  for i = 1, n do list[i] = given end
  return list
end

-- f, windows of whole cells, on every rate-th cell.
local function with_holes(x, rates, first, f)
  local blocks, around = {}, {}
  if first then blocks[1], around[1] = 1, {0, 0} end
  for i, rate in ipairs(rates) do
    blocks[#blocks + 1] = rate
    around[#around + 1] = {0, (-x:dim(i + (first and 1 or 0))) % rate}
  end
  local y = f(ops.space_to_batch_nd(x, blocks, around))
  return ops.batch_to_space_nd(y, blocks, around)
end

local kinds = {
  MAX = {ops.max_pool, ops.max_pool, ops.max_pool3d},
  AVG = {ops.avg_pool, ops.avg_pool, ops.avg_pool3d},
}

-- What pools tensors with n axes between batch and channels.
local function pooling_of(kind, n, first)
  local f = kinds[kind][n]
  if n > 1 then return f end
  local axis = first and 2 or 1
  return function(x, each_size, strides, padding, o)
    o.data_format = o.data_format and (first and "NCHW" or "NHWC")
    local y = f(ops.expand_dims(x, axis), {1, each_size[1]}, {1, strides[1]},
                padding, o)
    return ops.squeeze(y, {axis})
  end
end

local pool_options = {"strides", "padding", "dilations", "data_format", "name"}

--- max_pool or avg_pool of one, two or three axes between batch and channels.
-- @param x
-- @param window_shape its size along each axis, or one number
-- @param kind "MAX" or "AVG"
-- @param[opt] o strides (1); padding, "VALID" or "SAME"; dilations (1): only
-- every such cell of a window counts, padding is then "VALID" and strides are
-- 1; data_format, such as "NWC", "NHWC", "NCHW"
-- @usage td.pool({{{1.0}, {5.0}, {2.0}, {3.0}}}, 2, "MAX", {dilations = 2})
-- --> 2 5
function ops.pool(x, window_shape, kind, o)
  x, o = args.tensor(x), args.read(o, pool_options, "pool")
  local n = x.shape and #x.shape - 2 or 0
  if n < 1 or n > 3 then
    fail("pool: x has a batch, one, two or three axes and channels, given "
      .. "shape %s", shapes.text(x.shape))
  end
  if not kinds[kind] then
    fail("pool: the kind is \"MAX\" or \"AVG\", not %s", args.what(kind))
  end
  local lengths = each(window_shape, n, "window_shape")
  local strides = each(o.strides, n, "strides")
  local rates = each(o.dilations, n, "dilations")
  local padding = o.padding or "VALID"
  local first = o.data_format ~= nil and o.data_format:sub(2, 2) == "C"
  local pooling = pooling_of(kind, n, first)
  local function plain(t)
    return pooling(t, lengths, strides, padding,
                   {data_format = o.data_format, name = o.name})
  end
  if math.max(table.unpack(rates)) == 1 then return plain(x) end
  if math.max(table.unpack(strides)) > 1 or padding ~= "VALID" then
    fail("pool: with dilations strides are 1 and padding is \"VALID\"; "
      .. "td.pad(x, ..) pads before")
  end
  return with_holes(x, rates, first, plain)
end

--- Grayscale erosion of images by a kernel {height, width, channels}: the
-- smallest of x - kernel under a window, the kernel turned by half a turn. What
-- dilation2d is to the largest.
-- @param x {batch, height, width, channels}
-- @param kernel
-- @param[opt] o strides (1), rates (1): a number, {height, width} or
-- TensorFlow's list of four; padding ("VALID")
-- @usage td.erosion2d({{{{1}, {5}, {2}}}}, {{{0}, {3}}})  --> -2 2
function ops.erosion2d(x, kernel, o)
  o = args.read(o, {"strides", "rates", "padding", "name"}, "erosion2d")
  local function four(given, what)
    return sizes(given or 1, 4, false, what)
  end
  local y = core.op "Dilation2D"(ops.negative(x), ops.reverse(kernel, {0, 1}), {
    strides = four(o.strides, "strides"), rates = four(o.rates, "rates"),
    padding = o.padding or "VALID"})
  return ops.negative(y, o.name)
end
