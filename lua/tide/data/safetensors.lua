--- data/safetensors.lua - named tensors in .safetensors files.
--
-- The format that many other tools read and write: safe, since it holds nothing
-- but numbers, and quick, since a tensor can be used where it lies in the file.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local safetensors = {}

local function names_of(file)
  local names = {}
  for i, e in ipairs(file:list()) do names[i] = e.name end
  return names
end

--- The tensors of a .safetensors file: {name = value}, and its metadata, {key =
-- text}. Options: only, a list of names; mmap = true: values look into the file
-- instead of memory of the process, as far as they lie aligned in it; the file
-- must not be changed meanwhile, but it may be replaced or removed.
-- dtypes F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL C64; F8 and
-- smaller ones raise. Errors name the file and the tensor.
function safetensors.load_safetensors(path, o)
  args.expect(path, "string", "load_safetensors: the path")
  o = args.read(o, {"only", "mmap"}, "load_safetensors")
  args.expect_all(o, {only = "table", mmap = "boolean"})
  if o.only then args.check_list(o.only, "load_safetensors: only") end
  local file <close> = core.safetensors(path)
  local values = {}
  for _, name in ipairs(o.only or names_of(file)) do
    args.expect(name, "string", "load_safetensors: a name of only")
    values[name] = file:read(name, o.mmap)
  end
  return values, file:metadata()
end

--- {key = text} as a list of {key, text}, by key.
function safetensors.pairs_of(metadata, what)
  local list = {}
  for key, text in pairs(metadata or {}) do
    args.expect(key, "string", what .. ": a key of metadata")
    args.expect(text, "string", ("%s: metadata.%s"):format(what, key))
    list[#list + 1] = {key, text}
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

--- Writes {name = value} as a .safetensors file, which replaces the one of
-- before at once or not at all. Option metadata: {key = text}. Strings,
-- complex128 and quantized values raise.
function safetensors.save_safetensors(path, tensors, o)
  args.expect(path, "string", "save_safetensors: the path")
  args.expect(tensors, "table", "save_safetensors: what to save")
  o = args.read(o, {"metadata"}, "save_safetensors")
  args.expect_all(o, {metadata = "table"})
  local names, values, specs = {}, {}, {}
  for name in pairs(tensors) do
    names[#names + 1] = args.expect(name, "string", "save_safetensors: a name")
  end
  table.sort(names)
  for i, name in ipairs(names) do
    local x = tensors[name]
    values[i] = core.kind(x) == "tensor" and x or core.tensor(x)
    specs[i] = {name = name, dtype = values[i].dtype, shape = values[i].shape}
  end
  local w <close> = core.safetensors_writer(path, specs,
    safetensors.pairs_of(o.metadata, "save_safetensors"))
  for i in w.next, w do w:add(values[i]) end
  w:commit()
end

return safetensors
