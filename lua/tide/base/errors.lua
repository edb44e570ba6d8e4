--- base/errors.lua - what an error object looks like as text.
--
-- Errors are tables {code, message, op, node, where, device, task, applied,
-- derived, traceback}; pcall gives them as they are, print and .. as one line.
-- `where` is the line that made the node, `traceback` the user's frames where
-- it was raised: of an error of a step, who ran it. `applied` tells of a step
-- over several tasks where it may have changed variables, "unknown at
-- /job:worker/task:1; all at /job:worker/task:0"; nil: nowhere.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local HERE = "^/job:localhost/replica:0/task:0/device:"
local meta = debug.getregistry()["tide.error"]
local has_console = pcall(require, "tide.frontend")
local print_like = {[tostring] = true, [print] = true, [string.format] = true}

-- Asks the message handler of a stock lua5.4, which prints what this gives? It
-- is a C function that nobody's code has called.
local function is_last_word()
  local caller = not has_console and debug.getinfo(3, "fnS")
  return caller and caller.what == "C" and caller.namewhat == ""
    and not print_like[caller.func]
end

-- The device, without the task where that is this one, or the message names it.
local function device_of(e)
  local task = e.device:match("^(/job:.*)/device:")
  if e.device:find(HERE) then return (e.device:gsub(HERE, "")) end
  return task and e.message and e.message:find(task, 1, true)
    and e.device:sub(#task + #"/device:" + 1) or e.device
end

--- "message (MatMul, node "y", train.lua:12)"
function meta.__tostring(e)
  local parts = {}
  parts[#parts + 1] = e.op
  if e.node then parts[#parts + 1] = ("node \"%s\""):format(e.node) end
  if e.device then parts[#parts + 1] = device_of(e) end
  parts[#parts + 1] = e.where
  local text = e.message or e.code
  if #parts > 0 then
    text = ("%s (%s)"):format(text, table.concat(parts, ", "))
  end
  if e.applied then text = text .. "; applied: " .. e.applied end
  local last = e.traceback and is_last_word()
  return last and text .. "\n" .. e.traceback or text
end

function meta.__concat(a, b)
  return tostring(a) .. tostring(b)
end

local errors = {}

--- Raises an error of that code; the message is fmt with what follows it.
function errors.raise(code, fmt, ...)
  core.error(code, fmt:format(...))
end

--- The same for a wrong argument.
function errors.invalid(fmt, ...)
  core.error("invalid_argument", fmt:format(...))
end

--- Tells on stderr what is no error and yet to be known.
function errors.warn(fmt, ...)
  io.stderr:write("tide: warning: ", fmt:format(...), "\n")
end

--- The end of a message about an unknown word: `; did you mean "x"?` with the
-- nearest of a list, or "" when none is near. `form` ("--%s") is how words of
-- the list are written.
function errors.did_you_mean(word, list, form)
  local near = core.nearest(tostring(word), list)
  if not near or near == "" then return "" end
  return "; did you mean " .. (form or "\"%s\""):format(near) .. "?"
end

--- The codes of errors, and when each is raised.
errors.codes = {
  cancelled = "the step was stopped: by Ctrl-C, h:cancel(), or its session "
    .. "was closed",
  unknown = "an error without a code, such as one of Lua inside a hook",
  invalid_argument = "a wrong argument: shape, dtype, name, option or value",
  deadline_exceeded = "the step took longer than its timeout; the message "
    .. "names the nodes that waited",
  not_found = "a file, an op, a variable or a gradient that does not exist",
  already_exists = "a name that is taken: a variable, a gradient",
  permission_denied = "a file that may not be read or written",
  resource_exhausted = "no memory left, or a limit reached",
  failed_precondition = "the state does not allow it: a variable without a "
    .. "value, a closed session, a final graph",
  aborted = "a step that met another one and should be tried again",
  out_of_range = "the end of the data: how a reader or a queue ends",
  unimplemented = "no kernel of the op for these dtypes or this device",
  internal = "a mistake in Tide itself; worth a report",
  unavailable = "another process that cannot be reached for now",
  data_loss = "a file that is damaged or cut short",
  unauthenticated = "a process that does not say who it is",
}

return errors
