--- grad/image.lua - gradients of resizing, cropping and patches of pictures.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local rules = require "tide.autodiff.rules"
local ops = require("tide.ops").ops

local grad = {}

local function corners(op)
  return {align_corners = op.attr.align_corners,
          half_pixel_centers = op.attr.half_pixel_centers}
end

-- Pictures of integers have none.
local function is_float(x) return x.dtype:find "float" ~= nil end

local function by_picture(name)
  return function(op, dy)
    local x = op.inputs[1]
    if not is_float(x) then return false, false end
    return core.op(name)(dy, x, corners(op)), false
  end
end

grad.ResizeBilinear = by_picture "ResizeBilinearGrad"
grad.ResizeBicubic = by_picture "ResizeBicubicGrad"

-- What the backward pass says of the gradient, forward again.
function grad.ResizeBilinearGrad(op, g)
  local dy = op.inputs[1]
  return core.op "ResizeBilinear"(g, ops.shape(dy)["1:3"], corners(op)), false
end

function grad.ResizeNearestNeighbor(op, dy)
  local x = op.inputs[1]
  if not is_float(x) then return false, false end
  return core.op "ResizeNearestNeighborGrad"(dy, ops.shape(x)["1:3"],
                                             corners(op)), false
end

function grad.CropAndResize(op, dy)
  local image, boxes, ind = table.unpack(op.inputs)
  local dimage, dboxes = false, false
  if rules.wants(1) and is_float(image) then
    dimage = core.op "CropAndResizeGradImage"(dy, boxes, ind, ops.shape(image),
      {T = image.dtype, method = op.attr.method})
  end
  if rules.wants(2) and op.attr.method == "bilinear" then
    dboxes = core.op "CropAndResizeGradBoxes"(dy, image, boxes, ind)
  end
  return dimage, dboxes, false, false
end

-- The largest channel is the value, so that its derivatives are those of one
-- branch: v, s and h by r, g and b.
function grad.RGBToHSV(op, dy)
  local function channels(x)
    return x["..., 0"], x["..., 1"], x["..., 2"]
  end
  local r, g, b = channels(op.inputs[1])
  local dh, ds, dv = channels(dy)
  local v = ops.maximum(ops.maximum(r, g), b)
  local low = ops.minimum(ops.minimum(r, g), b)
  local range = v - low
  local function flag(x) return ops.cast(x, r.dtype) end
  local red, colour = flag(ops.equal(r, v)), flag(ops.greater(range, 0))
  local green = flag(ops.equal(g, v)) * (1 - red)
  local blue = (1 - red) * (1 - green)
  local is_low = {}
  is_low[1] = flag(ops.equal(r, low))
  is_low[2] = flag(ops.equal(g, low)) * (1 - is_low[1])
  is_low[3] = (1 - is_low[1]) * (1 - is_low[2])
  local safe_range = ops.where(ops.greater(range, 0), range,
                               ops.ones_like(range))
  local safe_v = ops.where(ops.greater(v, 0), v, ops.ones_like(v))
  -- s = 1 - low / v;  h = (difference / range + offset) / 6
  local s_v, s_low = low / (safe_v * safe_v), -1 / safe_v
  local difference = red * (g - b) + green * (b - r) + blue * (r - g)
  local h_range = -difference / (6 * safe_range * safe_range)
  local h_one = 1 / (6 * safe_range)
  local plus = {green * -1 + blue, red - blue, green - red}
  local is_most = {red, green, blue}
  local out = {}
  for i = 1, 3 do
    local hue = h_one * plus[i] + h_range * (is_most[i] - is_low[i])
    local saturation = s_v * is_most[i] + s_low * is_low[i]
    local lit = flag(ops.greater(v, 0))
    out[i] = dv * is_most[i] + ds * saturation * lit + dh * hue * colour
  end
  return ops.stack(out, -1)
end

-- A patch is a convolution with kernels that pick one place each.
function grad.ExtractImagePatches(op, dy)
  local x, a = op.inputs[1], op.attr
  local places = a.ksizes[2] * a.ksizes[3]
  local channels = ops.shape(x)[3]
  local filter = ops.reshape(ops.eye(places * channels, {dtype = x.dtype}),
    {a.ksizes[2], a.ksizes[3], channels, places * channels})
  return core.op "Conv2DBackpropInput"(ops.shape(x), filter, dy,
    {strides = a.strides, dilations = a.rates, padding = a.padding})
end

return grad
