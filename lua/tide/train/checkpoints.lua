--- train/checkpoints.lua - what is in a checkpoint, looked at from outside.
--
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local files = require "tide.train.checkpoint_files"

local train = {}

--- What a checkpoint holds: a list by name of {name =, dtype =, shape =}. path:
-- its prefix, or a folder, whose newest whole checkpoint counts. Entries of
-- Tide's own, such as random streams, begin with "_tide/".
function train.list_variables(path)
  local c <close> = files.open(path, "list_variables")
  local list = {}
  for i, e in ipairs(c:list()) do
    list[i] = {name = e.name, dtype = e.dtype, shape = e.shape}
  end
  return list
end

--- The value that a checkpoint has under a name. path: as of list_variables.
-- Option mmap = true: it looks into the file instead of memory of the process,
-- if it lies aligned and in one piece there; the file must not be changed
-- meanwhile, but it may be replaced or removed.
-- Raises not_found, with the nearest name, and data_loss where it is damaged.
function train.load_variable(path, name, o)
  args.expect(name, "string", "load_variable: the name")
  o = args.read(o, {"mmap"}, "load_variable")
  args.expect_all(o, {mmap = "boolean"})
  local c <close> = files.open(path, "load_variable")
  if o.mmap then return c:map(name) end
  return c:read(name)
end

--- Reads every byte of a checkpoint and compares it with its checks; raises
-- data_loss with the tensor and the file that are damaged. path: as of
-- list_variables.
-- @return the prefix that was verified
function train.verify_checkpoint(path)
  local c <close>, prefix = files.open(path, "verify_checkpoint")
  c:verify()
  return prefix
end

return train
