--- ops/pool.lua - pooling: windows over images and volumes.
--
-- Sizes are those of the tensors' dimensions as in TensorFlow, {1, 2, 2, 1}, or
-- of height and width, {2, 2}, or one for all of them, 2.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
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
