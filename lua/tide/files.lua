--- files.lua - arrays and pictures on disk.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"

local files = {}

local LIMIT = 1 << 30 -- bytes of a picture's file

local function as_value(x)
  return core.kind(x) == "tensor" and x or core.tensor(x)
end

--- The array in an .npy file, as a value.
function files.load_npy(path)
  return core.load_npy(path)
end

--- Writes a value as an .npy file.
function files.save_npy(path, x)
  core.save_npy(path, as_value(x))
end

--- The arrays of an .npz file: {name = value}.
function files.load_npz(path)
  return core.load_npz(path)
end

--- Writes {name = value} as an .npz file. Option compress.
function files.save_npz(path, arrays, o)
  o = args.read(o, {"compress"}, "save_npz")
  local names, values = {}, {}
  for name in pairs(arrays) do
    names[#names + 1] = args.expect(name, "string", "save_npz: a name")
  end
  table.sort(names)
  for i, name in ipairs(names) do values[i] = as_value(arrays[name]) end
  core.save_npz(path, names, values, o.compress)
end

-- ---- pictures ---------------------------------------------------------------

--- A PNG, JPEG or BMP picture as a value {height, width, channels}.
-- Options: channels (1 gray, 3 RGB, 4 RGBA; 0, the default: as it has), dtype
-- ("uint8"; "uint16"; "float32": from 0 to 1).
function files.load_image(path, o)
  o = args.read(o, {"channels", "dtype"}, "load_image")
  local bytes = core.tensor(core.read_file(path, LIMIT), "string", {})
  return (core.op "DecodeImage"(bytes, {channels = o.channels, dtype = o.dtype,
                                        expand_animations = false}))
end

-- Floats from 0 to 1 as bytes, rounded to the nearest.
local function as_bytes(x)
  if x.dtype == "uint8" or x.dtype == "uint16" then return x end
  if not x.dtype:find "^b?float" then
    core.error("invalid_argument", "save_image: a picture is uint8, uint16 or "
      .. "float from 0 to 1, not " .. x.dtype)
  end
  local y = core.op "Cast"(x, {DstT = "float32"}) * 255 + 0.5
  y = core.op "Maximum"(core.op "Minimum"(y, 255.0), 0.0)
  return core.op "Cast"(y, {DstT = "uint8"})
end

--- Writes a value {height, width, channels} (uint8, or floats from 0 to 1;
-- uint16 as PNG only) as .png or .jpg, by the name. Option quality of a JPEG
-- (95).
function files.save_image(path, x, o)
  o = args.read(o, {"quality"}, "save_image")
  x = as_bytes(as_value(x))
  local kind = tostring(path):lower():match "%.(%w+)$"
  local bytes
  if kind == "png" then
    bytes = core.op "EncodePng"(x)
  elseif kind == "jpg" or kind == "jpeg" then
    bytes = core.op "EncodeJpeg"(x, {quality = o.quality})
  else
    core.error("invalid_argument", ("save_image: \"%s\" does not end in .png, "
      .. ".jpg or .jpeg"):format(tostring(path)))
  end
  core.write_file(path, bytes:item())
end

return files
