--- ops/conv.lua - convolutions, also reached as td.nn.
--
-- Images are {batch, height, width, channels}, or {batch, channels, height,
-- width} with data_format "NCHW"; filters {height, width, in, out} in both.
-- Strides and dilations are a number for every axis, a number for each, or
-- TensorFlow's list with 1 for batch and channels. Padding is "SAME" (the
-- result has the input's size, divided by the stride), "VALID" (none), or a
-- list of pairs {before, after}, one for each axis, or for each of the tensor.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local shapes = require "tide.tensor.shape"
local namespace = require "tide.ops"

local ops = namespace.ops

-- ---- arguments ------------------------------------------------------------

local fail = errors.invalid

-- A list for the tensor from one for its `axes`: `fill` for the others.
local function spread(list, axes, first, fill)
  local all = {fill}
  if first then all[2] = fill end
  for i = 1, axes do all[#all + 1] = list[i] end
  if not first then all[#all + 1] = fill end
  return all
end

-- Strides, dilations: a number, one for each axis, or the whole list.
local function steps(given, axes, first, what)
  if given == nil then given = 1 end
  if type(given) == "number" then
    local list = {}
    for i = 1, axes do list[i] = given end
    given = list
  end
  args.check_list(given, what)
  if #given == axes + 2 then return given end
  if #given == axes then return spread(given, axes, first, 1) end
  fail("%s must be a number, %d numbers or %d, not %d", what, axes, axes + 2,
       #given)
end

-- Writes padding and, when it is given as pairs, explicit_paddings into o.
local function read_padding(o, axes, first)
  if o.padding == nil then o.padding = "SAME" end
  if type(o.padding) == "string" then
    o.padding = o.padding:upper()
    return
  end
  local pairs_of = args.check_list(o.padding, "padding")
  if #pairs_of == axes then
    pairs_of = spread(pairs_of, axes, first, {0, 0})
  end
  local flat = {}
  for i, pair in ipairs(pairs_of) do
    if #pairs_of ~= axes + 2 or type(pair) ~= "table" or #pair ~= 2 then
      fail("padding must be \"SAME\", \"VALID\" or %d pairs {before, after}; "
        .. "element %d is not one of them", axes, i)
    end
    flat[2 * i - 1], flat[2 * i] = pair[1], pair[2]
  end
  o.padding, o.explicit_paddings = "EXPLICIT", flat
end

local known = {"strides", "padding", "dilations", "rate", "data_format", "name"}

-- The attributes from what is given by position and by name. Option rate is
-- another word for dilations; `more` is an option that others do not have.
local function read(strides, padding, o, axes, what, more)
  if args.has_names(strides) then strides, o = nil, strides end
  if args.plain(padding) and args.has_names(padding) then
    padding, o = nil, padding
  end
  local all = {table.unpack(known)}
  all[#all + 1] = more
  o = args.read(o, all, what)
  if strides ~= nil then o.strides = strides end
  if padding ~= nil then o.padding = padding end
  local first = o.data_format ~= nil and o.data_format:sub(2, 2) == "C"
  o.strides = steps(o.strides, axes, first, "strides")
  o.dilations = steps(o.rate or o.dilations, axes, first, "dilations")
  o.rate = nil
  read_padding(o, axes, first)
  return o, first
end

-- ---- forward --------------------------------------------------------------

--- Convolution of images with a filter {height, width, in, out}; fewer input
-- channels in the filter than in x make groups. The filter is not flipped.
-- Options strides (1), padding ("SAME"), dilations (1), data_format ("NHWC");
-- the first two also by position.
-- @usage td.conv2d({{{{1.0}, {2.0}, {3.0}}}}, {{{{1.0}}, {{10.0}}}},
--   {padding = "VALID"})  --> 21 32
function ops.conv2d(x, filter, strides, padding, o)
  return core.op "Conv2D"(x, filter, (read(strides, padding, o, 2, "conv2d")))
end

--- The same of volumes {batch, depth, height, width, channels} with a filter
-- {depth, height, width, in, out}; data_format "NDHWC" or "NCDHW".
-- @usage td.conv3d(td.ones{1, 2, 2, 2, 1}, td.ones{2, 2, 2, 1, 1},
--   {padding = "VALID"})  --> 8
function ops.conv3d(x, filter, strides, padding, o)
  return core.op "Conv3D"(x, filter, (read(strides, padding, o, 3, "conv3d")))
end

--- The same of sequences {batch, length, channels} with a filter
-- {length, in, out}. data_format "NWC" or "NCW".
-- @usage td.conv1d({{{1.0}, {2.0}, {4.0}}}, {{{1.0}}, {{-1.0}}},
--   {padding = "VALID"})  --> -1 -2
function ops.conv1d(x, filter, strides, padding, o)
  if args.has_names(strides) then strides, o = nil, strides end
  o = args.read(o, {"strides", "padding", "dilations", "data_format", "name"},
                "conv1d")
  local first = o.data_format == "NCW"
  local axis = first and 2 or 1
  o.data_format = first and "NCHW" or "NHWC"
  for _, key in ipairs{"strides", "dilations"} do
    if o[key] then o[key] = {1, o[key]} end
  end
  local name = o.name
  o.name = nil
  local y = ops.conv2d(ops.expand_dims(x, axis), ops.expand_dims(filter, 0),
                       strides and {1, strides}, padding, o)
  return ops.squeeze(y, {axis}, name)
end

--- conv2d with holes: dilations = rate.
-- @usage td.atrous_conv2d({{{{1.0}, {2.0}, {3.0}}}}, {{{{1.0}}, {{10.0}}}}, 2,
--   "VALID")  --> 31
function ops.atrous_conv2d(x, filter, rate, padding, o)
  o = args.read(o, {"padding", "data_format", "name"}, "atrous_conv2d")
  o.dilations = rate
  return ops.conv2d(x, filter, nil, padding, o)
end

--- Each channel with filters of its own, {height, width, channels, multiplier}:
-- channel c gives those from c * multiplier on. Options as for conv2d.
-- @usage td.depthwise_conv2d({{{{1.0, 2.0}}}}, {{{{3.0, 4.0}, {5.0, 6.0}}}})
--   --> 3 4 10 12
function ops.depthwise_conv2d(x, filter, strides, padding, o)
  return core.op "DepthwiseConv2dNative"(x, filter,
    (read(strides, padding, o, 2, "depthwise_conv2d")))
end

--- depthwise_conv2d, then a convolution with `pointwise`, {1, 1, channels *
-- multiplier, out}. Options as for conv2d.
-- @usage td.separable_conv2d({{{{1.0, 2.0}}}}, {{{{3.0}, {5.0}}}},
--   {{{{1.0}, {1.0}}}})  --> 13
function ops.separable_conv2d(x, depthwise, pointwise, strides, padding, o)
  if args.has_names(strides) then strides, o = nil, strides end
  o = args.read(o, known, "separable_conv2d")
  local name = o.name
  o.name = nil
  local y = ops.depthwise_conv2d(x, depthwise, strides, padding, o)
  return ops.conv2d(y, pointwise, {padding = "VALID", name = name,
                                   data_format = o.data_format})
end

--- conv1d, conv2d or conv3d, by the rank of x. Options strides, padding,
-- dilations (also rate), data_format as theirs.
-- @usage td.convolution({{{1.0}, {2.0}, {4.0}}}, {{{1.0}}, {{-1.0}}},
--   {padding = "VALID"})  --> -1 -2
function ops.convolution(x, filter, o)
  x, o = args.tensor(x), args.read(o, known, "convolution")
  local by_rank = {[3] = ops.conv1d, [4] = ops.conv2d, [5] = ops.conv3d}
  local conv = by_rank[x.shape and #x.shape or 0]
  if not conv then
    fail("convolution: x has a batch, one, two or three axes and channels, "
      .. "given shape %s", shapes.text(x.shape))
  end
  o.dilations, o.rate = o.rate or o.dilations, nil
  if conv ~= ops.conv1d then return conv(x, filter, o) end
  for _, key in ipairs{"strides", "dilations"} do
    if args.plain(o[key]) then o[key] = o[key][1] end
  end
  local strides, padding = o.strides, o.padding
  o.strides, o.padding = nil, nil
  return conv(x, filter, strides, padding, o)
end

-- ---- transposed -----------------------------------------------------------

-- Along an axis, the input's size from the result's.
local function grown(size, k, stride, dilation, padding)
  if size < 0 then return -1 end
  if padding == "SAME" then return size * stride end
  if k < 0 then return -1 end
  return (size - 1) * stride + (k - 1) * dilation + 1
end

-- The shape whose convolution is of the shape of y, by the padding; a tensor
-- where the batch is not known.
local function shape_before(y, filter, o, axes, first, what)
  local shape, k = y.shape, filter.shape
  if not shape or not k or o.padding == "EXPLICIT" then
    fail("%s needs output_shape where the rank is not known or padding is "
      .. "given in numbers", what)
  end
  local sizes, from = {shape[1]}, first and 2 or 1
  sizes[first and 2 or axes + 2] = k[axes + 1]
  for i = 1, axes do
    local at = from + i
    sizes[at] = grown(shape[at], k[i], o.strides[at], o.dilations[at],
                      o.padding)
    if sizes[at] < 0 then
      fail("%s needs output_shape where sizes are not known", what)
    end
  end
  if sizes[axes + 2] < 0 or sizes[2] < 0 then
    fail("%s needs a filter whose channels are known", what)
  end
  if sizes[1] >= 0 then return sizes end
  sizes[1] = ops.shape(y)[0]
  return ops.stack(sizes)
end

local function transpose(op, axes, x, filter, output_shape, strides, padding, o,
                         what)
  if args.has_names(output_shape) then output_shape, o = nil, output_shape end
  local first
  o, first = read(strides, padding, o, axes, what, "output_shape")
  x, filter = args.tensor(x), args.tensor(filter)
  output_shape = output_shape or o.output_shape
  o.output_shape = nil
  if output_shape == nil then
    output_shape = shape_before(x, filter, o, axes, first, what)
  end
  return core.op(op)(output_shape, filter, x, o)
end

--- The transpose of conv2d ("deconvolution"): the images, of output_shape,
-- whose gradient it is. filter {height, width, out, in}. Without output_shape
-- sizes are multiplied by the strides, and grow by the filter if "VALID".
-- Options as for conv2d.
-- @usage td.conv2d_transpose(td.ones{1, 1, 2, 1}, {{{{1.0}}, {{10.0}}}},
--   {strides = {1, 2}})  --> 1 10 1 10
function ops.conv2d_transpose(x, filter, output_shape, strides, padding, o)
  return transpose("Conv2DBackpropInput", 2, x, filter, output_shape, strides,
                   padding, o, "conv2d_transpose")
end

--- The same of conv3d, filter {depth, height, width, out, in}.
function ops.conv3d_transpose(x, filter, output_shape, strides, padding, o)
  return transpose("Conv3DBackpropInputV2", 3, x, filter, output_shape, strides,
                   padding, o, "conv3d_transpose")
end
