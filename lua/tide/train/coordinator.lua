--- train/coordinator.lua - td.train.coordinator: when all is to stop, and why.
--
-- It watches the queue runners that were started with it. When one fails, or
-- somebody asks for it, everything stops: queues are closed, with who waits to
-- enqueue cancelled, and the runners' loops are ended. The first cause is what
-- join raises; errors that came after it, and cancelled ones, only follow.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local train = {}
local coordinator = {__name = "coordinator"}

function coordinator.__index(_, key)
  if coordinator[key] ~= nil or key == "cause" then return coordinator[key] end
  return errors.invalid("a coordinator has no \"%s\"; it has "
    .. ":should_stop(), :request_stop(err) and :join(timeout)", tostring(key))
end

local SLICE = 0.05 -- seconds: how soon the end of one of several is seen

--- A coordinator of queue runners.
-- @usage local coord = td.train.coordinator()
-- local q = td.train.range_input_producer(3, {epochs = 1, shuffle = false})
-- local last, next_one = 0, q:dequeue()
-- td.train.start_queue_runners(td.session(), coord)
-- while not coord:should_stop() do
--   local ok, x = pcall(next_one.eval, next_one)
--   if ok then last = x else coord:request_stop(x) end
-- end
-- coord:join()
-- last  --> 2
function train.coordinator()
  return setmetatable({watched = {}, stopping = false}, coordinator)
end

function coordinator.__tostring(self)
  return ("Coordinator of %d queue runners%s"):format(#self.watched,
    self.stopping and ", stopping" or "")
end

-- The error by which a loop ended, or nil. Cancelled loops have none.
local function error_of(loop)
  if not core.failed_at(loop) or not loop:done() then return nil end
  local _, e = pcall(loop.wait, loop, 0)
  return type(e) == "table" and e.code ~= "cancelled" and e or nil
end

-- Of the runners' errors that which came first.
local function first_error(self)
  local cause, when
  for _, w in ipairs(self.watched) do
    local e = error_of(w.loop)
    local at = e and core.failed_at(w.loop)
    if e and (not when or at < when) then cause, when = e, at end
  end
  return cause
end

-- A session that is closed has ended its loops already.
local function cancel_queues(w)
  for _, op in ipairs(w.runner.cancel) do
    pcall(w.session.run, w.session, op)
  end
end

-- Ends what is watched.
local function halt(self)
  for _, w in ipairs(self.watched) do
    if not w.halted then
      w.halted = true
      cancel_queues(w)
    end
  end
  for _, w in ipairs(self.watched) do w.loop:cancel() end
end

-- For start_queue_runners: the loop of runner r in that session.
function coordinator.__watch(self, sess, r, loop)
  table.insert(self.watched, {session = sess, runner = r, loop = loop})
  if self.stopping then halt(self) end
end

--- Asks everything to stop.
-- @param[opt] err why: join raises it, unless a runner's error came first;
-- out_of_range is a normal end
function coordinator:request_stop(err)
  if getmetatable(self) ~= coordinator then
    errors.invalid("request_stop is called with a colon: coord:request_stop(e)")
  end
  local cause = first_error(self)
  if not self.stopping then
    self.stopping = true
    if cause then
      self.cause = cause
    elseif type(err) ~= "table" or err.code ~= "out_of_range" then
      self.cause = err
    end
  end
  halt(self)
end

-- Has a runner failed by now? Then the others stop, too.
local function look(self)
  if not self.stopping and first_error(self) then self:request_stop() end
end

--- Was a stop asked for, or has a runner failed? One that has come to its end
-- is no reason to stop: what it put into the queue is still there.
function coordinator:should_stop()
  look(self)
  return self.stopping
end

local function all_done(self)
  for _, w in ipairs(self.watched) do
    if not w.loop:done() then return false, w end
  end
  return true
end

-- Waits a little for the loop; an interrupt comes through.
local function wait_for(loop, seconds)
  local ok, e = pcall(loop.wait, loop, seconds)
  if ok or loop:done() then return end
  if type(e) == "table" and e.code == "deadline_exceeded" then return end
  error(e, 0)
end

local function late(self, timeout)
  local names = {}
  for _, w in ipairs(self.watched) do
    if not w.loop:done() then names[#names + 1] = tostring(w.runner) end
  end
  errors.raise("deadline_exceeded", "join: not over after %g s: %s%s", timeout,
    table.concat(names, ", "),
    self.stopping and "" or "; nobody asked them to stop")
end

--- Waits until all runners have ended, by themselves or as they were asked to.
-- @param[opt] timeout seconds at most
-- @raise the first cause of the stop, where there is one; deadline_exceeded
function coordinator:join(timeout)
  if timeout ~= nil then args.expect_number(timeout, "join: timeout", 0) end
  local begun = core.clock()
  while true do
    look(self)
    local done, w = all_done(self)
    if done then break end
    local left = timeout and timeout - (core.clock() - begun) or SLICE
    if left <= 0 then late(self, timeout) end
    wait_for(w.loop, math.min(left, SLICE))
  end
  look(self)
  if self.cause then error(self.cause, 0) end
end

return train
