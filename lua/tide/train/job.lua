--- train/job.lua - what a training that can be killed has beside its loop: a
-- folder of checkpoints, times to save at, signals heard.
--
-- td.train.supervisor and td.train.fit are two faces of it. A job is asked
-- between two steps whether a save is due; it saves when it is told what to
-- keep, and says when all is to stop: SIGTERM and SIGUSR1, heard while a job is
-- open, let the step that runs come to its end.
--
-- The folder has model.ckpt-STEP, the file "checkpoint" that lists them, and
-- run.json (script/run_record.lua), which also sees to it that a folder has one
-- job at a time.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local checkpoint_files = require "tide.train.checkpoint_files"
local errors = require "tide.base.errors"
local flags = require "tide.script.flags"
local run_record = require "tide.script.run_record"
local saver = require "tide.train.saver"
local signals = require "tide.script.signals"

local job = {}
job.__index = job

local fail = errors.raise

local NAME = "model.ckpt"
local EVERY = 600 -- seconds between saves, unless told

--- Raises unless the options of saving will do.
-- @param o saver, save_seconds, save_steps; `what` names who was given them
function job.check(o, what)
  if o.saver ~= nil and not saver.is_saver(o.saver) then
    fail("invalid_argument", "%s: saver is what td.train.saver made, not %s",
         what, args.what(o.saver))
  end
  if o.save_seconds ~= nil and o.save_seconds ~= math.huge then
    args.expect_number(o.save_seconds, what .. ": save_seconds", 0)
  end
  if o.save_steps ~= nil
     and (math.type(o.save_steps) ~= "integer" or o.save_steps < 1) then
    fail("invalid_argument", "%s: save_steps is a number of steps, 1 or more, "
      .. "not %s", what, args.what(o.save_steps))
  end
end

--- Has the folder checkpoints, whole or not?
function job.has_checkpoints(dir)
  dir = run_record.folder(dir)
  return core.is_folder(dir) and #checkpoint_files.all(dir) > 0
end

--- Opens the folder, which is made. Raises while another run has it.
-- @param o dir; saver; save_seconds (600), save_steps; flags
function job.open(o)
  flags.resume() -- it is heeded: a job goes on wherever it can
  local record = run_record.open(run_record.folder(o.dir), {flags = o.flags})
  return setmetatable({dir = record.dir, record = record, saver = o.saver,
    save_seconds = o.save_seconds or not o.save_steps and EVERY or math.huge,
    save_steps = o.save_steps, prefix = record.dir .. "/" .. NAME,
    signals = signals.open(), saved_at = os.time()}, job)
end

--- Goes on from the newest checkpoint that is whole, if there is one.
-- @param keep what else is put back, {name = thing}
-- @return its prefix, or nil
function job:restore(sess, keep)
  if not job.has_checkpoints(self.dir) then return nil end
  local found = self.saver:restore(sess, self.dir, {keep = keep})
  for _, difference in ipairs(self.record:differences()) do
    io.stderr:write(("tide: '%s' goes on, but %s\n")
      :format(self.dir, difference.text))
  end
  return found.prefix or self.dir
end

--- Is all to stop? The signal's name, or nil.
function job:asked() return self.signals:asked() end

--- Is a save due after `step` steps?
function job:due(step)
  if step == self.saved_step then return false end
  if self.save_steps and step % self.save_steps == 0 and step > 0 then
    return true
  end
  return os.difftime(os.time(), self.saved_at) >= self.save_seconds
end

--- Saves what is after `step` steps; of one step once only.
-- @return the prefix
function job:save(sess, step, keep, metric)
  if step ~= self.saved_step then
    self.last = self.saver:save(sess, self.prefix,
      {global_step = step, keep = keep, metric = metric})
    self.saved_step, self.saved_at = step, os.time()
    self.record:note{step = step}
  end
  return self.last
end

--- Has the next save be made even if it is of the step that was saved last.
function job:save_again() self.saved_step = nil end

--- Waits for what is being written and lets go of the folder. After a signal
-- the script's exit code will be 75.
-- @param e the error that ends the job, or nil
function job:close(e)
  if self.closed then return end
  self.closed = true
  local ok, late = pcall(self.saver.wait, self.saver)
  e = e or not ok and late or nil
  local signal = self.signals:close()
  if e then
    self.record:__close(e)
  else
    self.record:close(signal or "done")
    if signal then signals.exit_with(signals.AGAIN) end
  end
  if not ok then error(late, 0) end
end

return job
