--- train/checkpoint_files.lua - which checkpoint is meant by a path.
--
-- A checkpoint is known by its prefix, the path without ".index". A folder
-- stands for its newest checkpoint that is whole: those that its file
-- "checkpoint" lists, from the last on, and the others by the number at the end
-- of their names; those with a higher one than the newest listed go first: who
-- saved them ended before they were listed. One that is passed over is said on
-- stderr.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local state = require "tide.train.checkpoint_state"

local checkpoint_files = {}

-- What the folder's state file tells, or nothing where it is damaged.
local function read_state(folder)
  local ok, s = pcall(state.read, folder)
  if ok then return s end
  state.warn("%s; the checkpoints in its folder are taken by their names",
             s.message)
  return {rows = {}}
end

-- All in the folder, the one with the highest number first.
local function by_number(folder)
  local list = {}
  for i, name in ipairs(state.indices(folder)) do
    list[i] = {prefix = state.join(folder, name), step = state.step(name) or -1}
  end
  table.sort(list, function(a, b)
    if a.step ~= b.step then return a.step > b.step end
    return a.prefix > b.prefix
  end)
  return list
end

-- "model-30" -> "model-"
local function stem(prefix) return (prefix:gsub("%d+$", "")) end

-- Is it later than the newest that is listed, of the same name?
local function is_later(row, newest)
  return newest ~= nil and stem(row.prefix) == stem(newest)
    and row.step > (state.step(newest) or math.huge)
end

--- The prefixes of the checkpoints in a folder, newest first; whether they are
-- whole is not looked at.
function checkpoint_files.all(folder)
  local list, seen, s = {}, {}, read_state(folder)
  local function add(prefix)
    if prefix and not seen[prefix] and core.exists(prefix .. ".index") then
      list[#list + 1] = prefix
    end
    if prefix then seen[prefix] = true end
  end
  local listed, found = {}, by_number(folder)
  for _, row in ipairs(s.rows) do listed[row.prefix] = true end
  for _, row in ipairs(found) do
    if not listed[row.prefix] and is_later(row, s.newest) then
      add(row.prefix)
    end
  end
  add(s.newest)
  for i = #s.rows, 1, -1 do add(s.rows[i].prefix) end
  for _, row in ipairs(found) do add(row.prefix) end
  return list
end

--- Is e an error of a checkpoint that is damaged or gone?
function checkpoint_files.is_broken(e)
  return type(e) == "table" and (e.code == "data_loss" or e.code == "not_found")
end

--- Says that the checkpoint before is taken, because of the error e.
function checkpoint_files.pass_over(what, e)
  state.warn("%s: passed over: %s; taking the one before", what, e.message)
end

--- Opens the first checkpoint of a folder that can be: sizes and names hold
-- then, and every file is there. Where there are some and none can be, raises
-- what is wrong with the newest.
-- @return core's reader, to be closed, and the prefix; nil when there is none
function checkpoint_files.newest(folder, what)
  local list, first = checkpoint_files.all(folder), nil
  for i, prefix in ipairs(list) do
    local ok, c = pcall(core.checkpoint, prefix)
    if ok then return c, prefix end
    first = first or c
    if not checkpoint_files.is_broken(c) then error(c, 0) end
    if i == #list then error(first, 0) end
    checkpoint_files.pass_over(what, c)
  end
end

--- A path that may end with ".index" or "/" as prefix or folder; and whether it
-- is a folder. Raises not_found where neither is there.
function checkpoint_files.read_path(path, what)
  args.expect(path, "string", what .. ": the path")
  if path:sub(-6) == ".index" and not core.exists(path .. ".index") then
    path = path:sub(1, -7)
  end
  if #path > 1 and path:sub(-1) == "/" then path = path:sub(1, -2) end
  if core.exists(path .. ".index") then return path, false end
  if core.is_folder(path) then return path, true end
  local folder = state.split(path)
  if folder ~= "" and not core.exists(folder) then
    errors.raise("not_found", "%s: there is no folder '%s'", what, folder)
  end
  return path, false
end

--- Opens what a path means: a prefix, or a folder's newest whole checkpoint.
-- `what` names the caller in messages.
-- @return core's reader, to be closed, and the prefix
function checkpoint_files.open(path, what)
  local is_folder
  path, is_folder = checkpoint_files.read_path(path, what)
  if not is_folder then return core.checkpoint(path), path end
  local c, prefix = checkpoint_files.newest(path, what)
  if c then return c, prefix end
  return errors.raise("not_found", "%s: no checkpoint in '%s'", what, path)
end

return checkpoint_files
