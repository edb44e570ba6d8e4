--- train/tensor_files.lua - named tensors in a file of any kind, one at a time.
--
-- A path that ends in .npz or .safetensors is such a file; any other file is a
-- checkpoint of version 1, and the rest a checkpoint's prefix or a folder with
-- checkpoints. All are read through one face, and written tensor by tensor:
-- what is held of them at any time is one. (Version 1 is read whole.)
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local checkpoint_files = require "tide.train.checkpoint_files"
local safetensors = require "tide.data.safetensors"

local tensor_files = {}

local GARBAGE = 1 << 24 -- bytes of values that may wait for the collector

--- What a path's ending says: "npz", "safetensors" or "checkpoint".
function tensor_files.kind_of(path)
  local ending = path:lower():match "%.(%w+)$"
  if ending == "npz" or ending == "safetensors" then return ending end
  return "checkpoint"
end

--- Opens a file to be read: r:list() gives {name =, dtype =, shape =, bytes =}
-- each, r:read(name) a value; close it, or declare it `<close>`. `what` names
-- the caller in messages.
-- @return the reader, and what was opened (of a folder, the prefix)
function tensor_files.open(path, what)
  local kind = tensor_files.kind_of(path)
  if kind ~= "checkpoint" then return core[kind](path), path end
  local is_old = core.exists(path) and not core.is_folder(path)
    and path:sub(-6) ~= ".index" and not core.exists(path .. ".index")
  if is_old then return core.checkpoint_v1(path), path end
  return checkpoint_files.open(path, what)
end

-- Writes the tensors of `list` in the order that the file wants them.
local write = {}

function write.safetensors(path, list, read, metadata)
  local w <close> = core.safetensors_writer(path, list,
    safetensors.pairs_of(metadata, "metadata"))
  for i in w.next, w do w:add(read(list[i].name)) end
  w:commit()
end

local function in_turn(w, list, read)
  for _, e in ipairs(list) do w:add(e.name, read(e.name)) end
  w:commit()
end

function write.npz(path, list, read)
  local w <close> = core.npz_writer(path)
  in_turn(w, list, read)
end

function write.checkpoint(path, list, read)
  local w <close> = core.checkpoint_writer(path)
  in_turn(w, list, read)
end

--- A function of a name that reads from `r`, of whose list() `list` is a part,
-- and sees to it that values which nobody keeps do not pile up.
function tensor_files.reading(r, list)
  local bytes_of, waiting = {}, GARBAGE -- what was before goes, too
  for _, e in ipairs(list) do bytes_of[e.name] = e.bytes end
  return function(name)
    local bytes = bytes_of[name] or 0
    waiting = waiting + bytes
    if waiting > GARBAGE then
      collectgarbage()
      waiting = bytes
    end
    return r:read(name)
  end
end

--- Writes tensors to a file of the kind that the path's ending says. `list` has
-- {name =, dtype =, shape =} each; read(name) gives a value. Metadata go into
-- .safetensors files only.
function tensor_files.write(path, list, read, metadata)
  write[tensor_files.kind_of(path)](path, list, read, metadata)
end

return tensor_files
