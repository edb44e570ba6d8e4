--- files.lua - arrays on disk: .npy and .npz.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"

local files = {}

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

return files
