--- train/checkpoint_state.lua - the file `checkpoint` of a folder: which there
-- are, the newest of them, when they were made.
--
-- TensorFlow's file of that name: each reads the other's. Paths in it are
-- relative to its folder, so that the folder can be moved; one from the root
-- that is no longer there is looked for in the folder, too.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"

local state = {}

local LIMIT = 1 << 24 -- bytes of such a file

--- A path that is told relative to a folder; "" is the current one.
function state.join(folder, path)
  if folder == "" or path:sub(1, 1) == "/" or path:find "^%w+://" then
    return path
  end
  return (folder:sub(-1) == "/" and folder or folder .. "/") .. path
end

--- "a/b" -> "a", "b"; "b" -> "", "b"; "/b" -> "/", "b"
function state.split(path)
  local folder, name = path:match "^(.*)/([^/]*)$"
  if not folder then return "", path end
  return folder == "" and "/" or folder, name
end

-- The prefix that `path`, as it stands in a folder's file, means.
local function resolve(folder, path)
  local prefix = state.join(folder, path)
  local _, name = state.split(path)
  local beside = state.join(folder, name)
  if prefix ~= beside and not core.exists(prefix .. ".index")
     and core.exists(beside .. ".index") then
    return beside
  end
  return prefix
end

-- How a prefix stands in a folder's file.
local function relative(folder, prefix)
  local of, name = state.split(prefix)
  return of == folder and name or prefix
end

--- Reads a folder's file: {newest = prefix or nil, rows = list of {prefix =,
-- time =}, the oldest first, preserved = time or 0}; empty where there is none.
-- Raises data_loss for one that is damaged.
function state.read(folder, name)
  local path = state.join(folder, name or "checkpoint")
  local s = {rows = {}, preserved = 0.0}
  if not core.exists(path) then return s end
  local text = core.read_file(path, LIMIT)
  local ok, raw = pcall(core.checkpoint_state_parse, text)
  if not ok then
    errors.raise("data_loss", "'%s' is damaged: %s", path, raw.message)
  end
  for i, each in ipairs(raw.paths) do
    s.rows[i] = {prefix = resolve(folder, each), time = raw.times[i]}
  end
  s.newest = raw.newest and resolve(folder, raw.newest)
  s.preserved = raw.preserved
  return s
end

--- Writes what read gives, in one act.
function state.write(folder, s, name)
  local raw = {paths = {}, times = {}, preserved = s.preserved,
               newest = s.newest and relative(folder, s.newest)}
  for i, row in ipairs(s.rows) do
    raw.paths[i], raw.times[i] = relative(folder, row.prefix), row.time or 0.0
  end
  core.write_file(state.join(folder, name or "checkpoint"),
                  core.checkpoint_state_print(raw))
end

--- The number at the end of a prefix, or nil.
function state.step(prefix)
  local digits = prefix:match "%-(%d+)$"
  return digits and math.tointeger(tonumber(digits))
end

--- Goes over the names in a folder, in no order.
function state.names(folder)
  return core.list(folder == "" and "." or folder):gmatch "([^\0]+)\0"
end

--- Names of the checkpoints whose indices are in a folder, in no order.
function state.indices(folder)
  local list = {}
  for name in state.names(folder) do
    list[#list + 1] = name:match "^(.+)%.index$"
  end
  return list
end

--- Tells on stderr what a script must not miss, and goes on after.
function state.warn(fmt, ...)
  io.stderr:write("warning: ", fmt:format(...), "\n")
  io.stderr:flush()
end

return state
