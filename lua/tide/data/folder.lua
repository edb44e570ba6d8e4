--- data/folder.lua - pictures in folders, one for each class.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local files = require "tide.data.files"

local folder = {}

local kinds = {png = true, jpg = true, jpeg = true, bmp = true}

-- Sorted names in a folder.
local function list(dir)
  local names = {}
  for name in core.list(dir):gmatch "[^\0]+" do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- {path, class number} of every picture, and the classes' names.
function folder.find(dir)
  local found, classes = {}, {}
  for _, name in ipairs(list(dir)) do
    local sub = dir .. "/" .. name
    local ok, names = pcall(list, sub)
    if ok then
      classes[#classes + 1] = name
      for _, file in ipairs(names) do
        if kinds[(file:match "%.(%w+)$" or ""):lower()] then
          found[#found + 1] = {sub .. "/" .. file, #classes - 1}
        end
      end
    end
  end
  if #found == 0 then
    core.error("not_found", ("no pictures in %s: it holds folders, one for "
      .. "each class, of .png, .jpg or .bmp files"):format(dir))
  end
  return found, classes
end

local function resize(image, size)
  local y = core.op "ResizeBilinear"(core.op "ExpandDims"(image, 0), size)
  return core.op "Cast"(core.op "Squeeze"(y + 0.5, {squeeze_dims = {0}}),
                        {DstT = "uint8"})
end

-- All pictures as one value of bytes.
local function read(found, o)
  local images, first = {}, nil
  for i, entry in ipairs(found) do
    local image = files.load_image(entry[1], {channels = o.channels or 3})
    if o.size then image = resize(image, o.size) end
    first = first or image.shape
    if tostring(image.shape) ~= tostring(first) then
      core.error("invalid_argument", ("%s is %s, the first picture %s: give a "
        .. "size"):format(entry[1], tostring(image.shape), tostring(first)))
    end
    images[i] = image
  end
  return core.op "Pack"(images)
end

--- The columns of all pictures in the folders of `dir` for a data set, their
-- scales, and the classes.
function folder.load(dir, o)
  args.expect(dir, "string", "data.images: the folder")
  local found, classes = folder.find(dir)
  local labels = {}
  for i, entry in ipairs(found) do labels[i] = entry[2] end
  return {images = read(found, o),
          labels = core.tensor(labels, "int64", {#labels})},
          {images = 1 / 255}, classes
end

return folder
