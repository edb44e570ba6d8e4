--- data/files.lua - arrays, tables and pictures on disk.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local files = {}

local LIMIT = 1 << 30 -- bytes of a picture's file

local function as_value(x)
  return core.kind(x) == "tensor" and x or core.tensor(x)
end

--- The array in an .npy file, as a value. Option mmap: its bytes are the
-- file's, read from the disk when they are looked at, and shared with other
-- processes. As long as the value lives the file must not be cut short: whoever
-- reads behind its end is killed (SIGBUS). One that is replaced by another of
-- its name stays as it was.
-- @raise failed_precondition for what cannot be mapped: big-endian numbers,
-- Fortran order, elements that are not aligned in the file
function files.load_npy(path, o)
  o = args.read(o, {"mmap"}, "load_npy")
  return core.load_npy(path, o.mmap)
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

-- ---- tables -----------------------------------------------------------------

local function expect_map(x, what)
  if x ~= nil and not args.plain(x) then
    core.error("invalid_argument",
      ("load_csv: %s must be a table by column name"):format(what))
  end
  return x or {}
end

-- What comes through a pipe: it cannot be read twice, and an interrupt must end
-- the waiting for it. nil: it is a file.
local function piped(path)
  if core.is_file(path) or not core.exists(path) then return nil end
  local bytes = core.read_file(path, LIMIT)
  return bytes:sub(1, 2) == "\x1f\x8b" and core.gunzip(bytes, LIMIT) or bytes
end

-- types = {price = "float64"}: every name must be a column.
local function check_names(types, names)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(args.sorted_keys(types)) do
    if not known[name] then
      errors.raise("not_found", "load_csv: no column \"%s\"%s", name,
                   errors.did_you_mean(name, names))
    end
  end
end

--- The columns of a table of text, one row a line: {name = vector}, and the
-- list of names in their order. Cells in double quotes may hold separators,
-- line ends and, doubled, quotes. Whole numbers become int64, numbers float32,
-- all else string; an empty cell is NaN among numbers.
-- Options: header (true: the first line names the columns; else they are "c0",
-- "c1", ...), separator (","), types ({name = dtype}), missing (a number for
-- empty cells, or {name = number}).
-- The file, which may be packed (*.gz), is read in pieces, twice: little is
-- held beside the columns. Errors name the file, the line and the column.
function files.load_csv(path, o)
  args.expect(path, "string", "load_csv: the file")
  o = args.read(o, {"header", "separator", "types", "missing"}, "load_csv")
  local separator = o.separator or ","
  if type(separator) ~= "string" or #separator ~= 1 then
    core.error("invalid_argument", "load_csv: separator is one character")
  end
  local table_of = core.csv(path, separator, o.header ~= false, piped(path))
  local names, columns = table_of:names(), {}
  local types = expect_map(o.types, "types")
  local missing = o.missing
  if type(missing) ~= "number" then missing = expect_map(missing, "missing") end
  check_names(types, names)
  local dtypes, fills = {}, {}
  for i, name in ipairs(names) do
    dtypes[i] = types[name] or false
    fills[i] = missing
    if type(missing) == "table" then fills[i] = missing[name] or false end
  end
  for i, value in ipairs(table_of:read(dtypes, fills)) do
    columns[names[i]] = value
  end
  return columns, names
end

-- ---- pictures ---------------------------------------------------------------

--- A PNG, JPEG or BMP picture, or the first frame of a GIF, as a value {height,
-- width, channels}.
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
