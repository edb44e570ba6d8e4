--- train/all_or_none.lua - a restore that fails half way leaves no mix.
--
-- No variable is assigned before the values of all are where their variables
-- are (save_nodes.lua). What goes wrong later, a worker that dies or a step
-- that is cancelled, finds variables of some tasks restored and others as they
-- were: then none is left with a value, so that no step goes on with both. The
-- error of the step tells which tasks may have begun (base/errors.lua); a task
-- that is lost has nothing any more, and does not count.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local TRIES = 5 -- each as long as a question waits for its answer

-- Did a task that lives on change variables?
local function is_mixed(sess, e)
  local touched = type(e) == "table" and e.applied
  if not touched then return false end
  touched = touched:gsub("nothing at .*$", "")
  if touched:find " more" then return true end
  local lost = {}
  for _, row in ipairs(sess:workers()) do
    lost[row.task] = row.state == "dead"
  end
  for task in touched:gmatch "/job:[^,; ]+" do
    if not lost[task] then return true end
  end
  return false
end

-- The variable has no value any more, wherever it is. Who does not answer is
-- asked again, until it does or is lost with all that it had.
local function forget(sess, v)
  local shared = v.handle.op.attr.container ~= ""
  local drop = shared
    and core.add("DestroyResourceOp", {v.handle}, nil, "save/forget")
  for _ = 1, TRIES do
    local ok, e = pcall(function()
      if drop then sess:run(drop) else sess:core_rename(v.name) end
    end)
    if ok or e.code == "unavailable" then return end
  end
end

--- Runs ops that restore variables: all of them, or none has a value.
-- @param sess a session
-- @param items a list of {variable =}
-- @param ops what assigns to them
-- @param feeds as of sess:run
-- @raise what the step raises
return function(sess, items, ops, feeds)
  local ok, e = pcall(sess.run, sess, ops, feeds)
  if ok then return end
  if is_mixed(sess, e) then
    for _, item in ipairs(items) do forget(sess, item.variable) end
    e.message = e.message .. "; only some variables were restored, so that "
      .. "none has a value now: restore again"
  end
  error(e, 0)
end
