--- train/checkpoint_files.lua - which checkpoint is meant by a path.
--
-- A checkpoint is known by its prefix, the path without ".index". A folder
-- stands for its newest checkpoint that is whole: those that its file
-- "checkpoint" lists, from the last on, then the others by the number at the
-- end of their names. One that is passed over is said on stderr.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local checkpoint_files = {}

local STATE_LIMIT = 1 << 24 -- bytes of a folder's state file

local function join(folder, path)
  if path:sub(1, 1) == "/" or path:find "^%w+://" then return path end
  return (folder:sub(-1) == "/" and folder or folder .. "/") .. path
end

-- The prefixes that the folder's state file lists, newest first. It is a hint:
-- a damaged one is passed over.
local function listed(folder)
  local path = join(folder, "checkpoint")
  local list = {}
  if not core.exists(path) then return list end
  local ok, state = pcall(core.checkpoint_state_parse,
                          core.read_file(path, STATE_LIMIT))
  if not ok then return list end
  list[1] = state.newest and join(folder, state.newest)
  for i = #state.paths, 1, -1 do
    list[#list + 1] = join(folder, state.paths[i])
  end
  return list
end

-- All in the folder, the one with the highest number first.
local function found(folder)
  local list = {}
  for name in core.list(folder):gmatch "([^\0]+)\0" do
    local prefix = name:match "^(.+)%.index$"
    if prefix then
      list[#list + 1] = {prefix = join(folder, prefix),
                         step = tonumber(prefix:match "%-(%d+)$") or -1}
    end
  end
  table.sort(list, function(a, b)
    if a.step ~= b.step then return a.step > b.step end
    return a.prefix > b.prefix
  end)
  return list
end

--- The prefixes of the checkpoints in a folder, newest first; whether they are
-- whole is not looked at.
function checkpoint_files.all(folder)
  local list, seen = {}, {}
  local function add(prefix)
    if not seen[prefix] and core.exists(prefix .. ".index") then
      list[#list + 1] = prefix
    end
    seen[prefix] = true
  end
  for _, prefix in ipairs(listed(folder)) do add(prefix) end
  for _, each in ipairs(found(folder)) do add(each.prefix) end
  return list
end

-- The first that opens: sizes and names hold then, and every file is there.
-- When none does, what is wrong with the newest is the error.
local function newest(folder, what)
  local list, first = checkpoint_files.all(folder), nil
  for i, prefix in ipairs(list) do
    local ok, c = pcall(core.checkpoint, prefix)
    if ok then return c, prefix end
    local is_broken = type(c) == "table" and (c.code == "data_loss"
                                              or c.code == "not_found")
    if not is_broken then error(c, 0) end
    first = first or c
    if i < #list then
      io.stderr:write(("warning: %s: passed over: %s; taking the one before\n")
        :format(what, c.message))
    end
  end
  if first then error(first, 0) end
  return errors.raise("not_found", "%s: no checkpoint in '%s'", what, folder)
end

--- Opens what a path means: a prefix, or a folder's newest whole checkpoint.
-- `what` names the caller in messages.
-- @return core's reader, to be closed, and the prefix
function checkpoint_files.open(path, what)
  args.expect(path, "string", what .. ": the path")
  if path:sub(-6) == ".index" then path = path:sub(1, -7) end
  if not core.exists(path .. ".index") and core.is_folder(path) then
    return newest(path, what)
  end
  return core.checkpoint(path), path
end

return checkpoint_files
