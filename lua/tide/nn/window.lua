--- nn/window.lua - sizes, strides and padding of layers that go over images.
--
-- Images are {batch, height, width, channels}, or {batch, channels, height,
-- width} with data_format = "channels_first".
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local affine = require "tide.nn.affine"
local layer = require "tide.nn.layer"
local ops = require("tide.ops").ops

local window = {}

-- Is x a whole number of at least 1?
local function is_size(x)
  return math.type(x) == "integer" and x >= 1
end

-- What was given in place of sizes.
local function in_words(x)
  if not args.plain(x) then
    return type(x) == "number" and tostring(x) or args.what(x)
  end
  local parts = {}
  for i, each in ipairs(x) do parts[i] = tostring(each) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- Option `key` as {rows, columns}; one number stands for both.
function window.pair(self, key, default)
  local x = self[key]
  if x == nil then x = default end
  if is_size(x) then x = {x, x} end
  if not args.plain(x) or #x ~= 2 or not is_size(x[1]) or not is_size(x[2])
  then
    layer.fail(self, "%s is a size of at least 1, or {rows, columns}, not %s",
               key, in_words(x))
  end
  self[key] = {x[1], x[2]}
end

local paddings = {valid = "VALID", same = "SAME"}
local formats = {channels_last = "NHWC", channels_first = "NCHW",
                 NHWC = "NHWC", NCHW = "NCHW"}

--- Reads strides, padding ("valid" or "same") and data_format.
function window.check(self, strides)
  window.pair(self, "strides", strides)
  self.padding = paddings[tostring(self.padding or "valid"):lower()]
    or layer.fail(self, "padding is \"valid\" or \"same\", not %s",
                  tostring(self.padding))
  self.format = formats[self.data_format or "channels_last"]
    or layer.fail(self, "data_format is \"channels_last\" or "
                  .. "\"channels_first\", not %s", tostring(self.data_format))
end

--- {rows, columns} as what ops take for all four axes.
function window.four(self, pair)
  if self.format == "NHWC" then return {1, pair[1], pair[2], 1} end
  return {1, 1, pair[1], pair[2]}
end

--- The axis of channels.
function window.channels(self)
  return self.format == "NHWC" and 3 or 1
end

--- y + bias, through the activation.
function window.finish(self, y, w)
  if w.bias then
    y = ops.bias_add(y, w.bias,
                                         {data_format = self.format})
  end
  return affine.activate(self, y)
end

return window
