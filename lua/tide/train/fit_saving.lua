--- train/fit_saving.lua - fit{checkpoint = dir}: what of a fit goes into
-- checkpoints, and how it goes on from one.
--
-- A fit is saved between two steps only: variables and random streams by the
-- saver; and here the epoch, the place of the loop over its batches, the sums
-- of the epoch so far, the history, and what hooks remember. So the fit that
-- goes on ends with the same bits as one that was never stopped, if its data
-- have a seed.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local flags = require "tide.script.flags"
local job = require "tide.train.job"
local saver = require "tide.train.saver"

local saving = {}
saving.__index = saving

local fail = errors.raise

local needs_folder = {"resume", "save_seconds", "save_steps", "saver", "flags"}

--- Raises unless the options of saving will do.
function saving.check(o)
  for _, name in ipairs(needs_folder) do
    if o[name] ~= nil and o.checkpoint == nil then
      fail("invalid_argument", "fit: %s is for checkpoint = a folder", name)
    end
  end
  if o.checkpoint == nil then return end
  args.expect(o.checkpoint, "string", "fit: checkpoint, a folder,")
  if o.resume ~= nil then args.expect(o.resume, "boolean", "fit: resume") end
  job.check(o, "fit")
end

--- Opens the folder; nil without checkpoint = dir. A folder that has
-- checkpoints already is for resume = true.
function saving.open(o)
  if o.checkpoint == nil then return nil end
  local s, resume = o.saver or saver.saver{}, o.resume
  if resume == nil then resume = flags.resume() end
  if not resume and job.has_checkpoints(o.checkpoint) then
    fail("failed_precondition", "fit: '%s' has checkpoints already: resume = "
      .. "true goes on from them, or give another folder", o.checkpoint)
  end
  return setmetatable({place = {}, job = job.open{dir = o.checkpoint, saver = s,
    flags = o.flags, save_seconds = o.save_seconds,
    save_steps = o.save_steps}}, saving)
end

-- ---- where a fit stands ---------------------------------------------------

local function states_of(hooks)
  local list = {}
  for i, hook in ipairs(hooks) do
    list[i] = hook.state and hook:state() or false
  end
  return list
end

-- `loop` is that of an epoch that is not over.
local function note(place, run, loop)
  place.epoch, place.step = run.epoch, run.step
  place.in_epoch = loop ~= nil
  place.sum, place.examples = run.sum, run.examples
  place.loop = loop and loop:state()
    or run.training.loop and run.training.loop:state()
  place.validation = run.validation.loop and run.validation.loop:state()
  place.history, place.hooks = run.history, states_of(run.hooks)
end

--- Saves what is due. True when the fit is to end, by a signal.
-- @param loop of an epoch that is not over, else nil
function saving:between(run, loop)
  local stop = self.job:asked() ~= nil
  if stop or self.job:due(run.step) then self:save(run, loop) end
  return stop
end

-- For a saver with best: the loss of the last epoch that was over; in the first
-- one the loss so far.
local function metric_of(run)
  local row = run.history[#run.history]
  if row then return row.loss end
  return run.examples > 0 and run.sum / run.examples or nil
end

--- Saves, wherever the fit is between two steps.
function saving:save(run, loop)
  local ended = self.place.in_epoch and not loop -- since the step was saved
  if ended then self.job:save_again() end
  note(self.place, run, loop)
  self.job:save(run.session, run.step, {fit = self.place}, metric_of(run))
end

--- Goes on from the newest whole checkpoint, if there is one.
-- @return the epoch that was not over, {loop = state}, or nil
function saving:restore(run)
  local place = self.place
  if not self.job:restore(run.session, {fit = place}) then return nil end
  run.epoch, run.step, run.history = place.epoch, place.step, place.history
  run.resumed = true
  for i, hook in ipairs(run.hooks) do
    if hook.restore and place.hooks[i] then
      hook:restore(place.hooks[i], run)
    end
  end
  self.job.saved_step = run.step
  return place
end

-- Lets go of the folder, whatever ended the fit.
function saving:__close(e) self.job:close(e) end

return saving
