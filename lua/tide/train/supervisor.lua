--- train/supervisor.lua - td.train.supervisor: a training loop that can be
-- killed and goes on.
--
--   local sv <close> = td.train.supervisor{logdir = dir, keep = {at = batches}}
--   local sess = sv:session()
--   for batch in batches do
--     if sv:should_stop() then break end
--     step(batch.images, batch.labels)
--   end
--
-- should_stop stands between two steps: what is due is saved there, and what is
-- saved is the job after a whole number of steps. A loop as the one above takes
-- a batch before it asks; one such as
--
--   while not sv:should_stop() do local batch = batches() ... end
--
-- asks first. Which one it is shows at the first question: whether it had moved
-- since the session was made. Of what takes first, the place is noted at one
-- question and saved at the next, when the batch in hand has been used; so such
-- a loop ends one step later, too. What had not moved, such as a second loop
-- that is asked within the step, is saved as it is then.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local job = require "tide.train.job"
local keeping = require "tide.train.keep"
local saver = require "tide.train.saver"
local session = require "tide.run.session"

local train = {}
local supervisor = {__name = "supervisor"}

local fail = errors.raise

local known = {"logdir", "is_chief", "saver", "save_seconds", "save_steps",
               "init", "hooks", "keep", "flags"}
local public = {step = true, resumed = true, logdir = true}
local OWN = "supervisor" -- where it stands, among what is kept
local events = {begin = true, step = true, save = true, finish = true}

function supervisor.__index(self, key)
  if supervisor[key] ~= nil then return supervisor[key] end
  if public[key] then return self.at[key] end
  return fail("invalid_argument", "a supervisor has no \"%s\"; it has "
    .. ":session(), :should_stop(), :save(), :stop(), :close(), .step, "
    .. ".resumed and .logdir", tostring(key))
end

function supervisor.__tostring(self)
  local at = self.at
  return ("Supervisor of %s: %d steps%s"):format(at.logdir, at.step,
    at.closed and ", closed" or at.resumed and ", resumed" or "")
end

-- ---- what is kept ---------------------------------------------------------

local has_state = keeping.has_state

local function check_keep(keep)
  if keep ~= nil and not args.plain(keep) then
    fail("invalid_argument", "supervisor: keep is a table {name = what to "
      .. "keep}, not %s", args.what(keep))
  end
  for name, x in pairs(keep or {}) do
    args.expect(name, "string", "supervisor: a name of keep")
    if name == OWN then
      fail("invalid_argument", "supervisor: \"%s\" of keep is the name of its "
        .. "own place; take another", OWN)
    end
    if not has_state(x) then keeping.encode(x, name) end -- raises
  end
  return keep or {}
end

-- A thing whose state is what it was when it was noted.
local function frozen(x)
  local s = keeping.decode(keeping.encode(x:state()))
  return setmetatable({}, {__index = {
    state = function() return s end,
    restore = function(_, to) x:restore(to) end,
  }})
end

-- What has one of these names, as it is now.
local function noted(keep, names)
  local now = {}
  for name in pairs(names) do
    now[name] = has_state(keep[name]) and frozen(keep[name]) or nil
  end
  return now
end

-- `keep`, with what was noted in its place.
local function with_noted(keep, now)
  local all = {}
  for name, x in pairs(keep) do all[name] = now[name] or x end
  return all
end

-- States as texts, to be compared.
local function states_of(keep)
  local states = {}
  for name, x in pairs(keep) do
    states[name] = has_state(x) and keeping.encode(x:state(), name) or nil
  end
  return states
end

-- The names of what has moved since its states were these.
local function moved(keep, before)
  local names = {}
  for name, state in pairs(states_of(keep)) do
    names[name] = state ~= before[name] or nil
  end
  return names
end

-- ---- opening --------------------------------------------------------------

local function check_hooks(hooks)
  args.check_list(hooks or {}, "supervisor: hooks")
  for i, hook in ipairs(hooks or {}) do
    if type(hook) ~= "table" then
      fail("invalid_argument", "supervisor: hook %d is a table of functions, "
        .. "not %s", i, args.what(hook))
    end
    for event in pairs(hook) do
      if type(hook[event]) == "function" and not events[event] then
        fail("invalid_argument", "supervisor: hook %d has a function \"%s\"%s",
             i, tostring(event),
             errors.did_you_mean(tostring(event), args.sorted_keys(events)))
      end
    end
  end
  return hooks or {}
end

local function check_saver(s)
  if s ~= nil and s.rule.best then
    fail("invalid_argument", "supervisor: the saver has best = \"%s\", and a "
      .. "supervisor knows no metric; call saver:save(sess, path, {metric = "
      .. "x}) beside it, with a saver of its own", s.rule.best)
  end
end

--- A supervisor of a training loop: it initialises or restores, saves by time
-- and steps, and stops when it is told to.
-- @param o logdir: a folder, made where there is none; saver (one of all
-- variables); save_seconds (600), save_steps: how often; init: an op, or a
-- function of the session, run where nothing is restored; hooks: list of tables
-- of functions begin, step, save, finish (hook, supervisor); keep: {name = x},
-- what goes into checkpoints beside variables: loops and pipelines (anything
-- with :state() and :restore(s)), plain tables; one loop over all epochs, as of
-- d:batches(n, {epochs = 3}), goes on within its epoch, one made anew for each
-- does not; flags: what td.flags gave;
-- is_chief = false: another one initialises, restores and saves
-- @return it closes by <close> or :close(), which saves, unless by an error
-- @usage local dir = os.tmpname() .. ".d"
-- local n = td.variable(0, {name = "n", trainable = false})
-- local count = n:assign_add(1)
-- local sv = td.train.supervisor{logdir = dir}
-- local sess = sv:session()
-- while not sv:should_stop() and sv.step < 3 do sess:run(count) end
-- sv:close()
-- td.train.load_variable(dir, "n"):item()  --> 3
function train.supervisor(o)
  o = args.read(o, known, "supervisor")
  args.expect(o.logdir, "string", "supervisor: logdir, a folder,")
  job.check(o, "supervisor")
  check_saver(o.saver)
  local keep, hooks = check_keep(o.keep), check_hooks(o.hooks)
  local self = {at = {step = 0, logdir = o.logdir, keep = keep, hooks = hooks,
    init = o.init, chief = o.is_chief ~= false, place = {step = 0}}}
  self.at.job = job.open{dir = o.logdir, flags = o.flags,
    saver = o.saver or saver.saver{}, save_seconds = o.save_seconds,
    save_steps = o.save_steps}
  return setmetatable(self, supervisor)
end

local function check_open(at, what)
  if at.closed then
    fail("failed_precondition", "%s: the supervisor of '%s' is closed", what,
         at.logdir)
  end
end

local function call(self, event)
  for _, hook in ipairs(self.at.hooks) do
    if hook[event] then
      hook[event](hook, self)
      self.at.ran = true
    end
  end
end

local function initialise(at, sess)
  sess:init()
  if type(at.init) == "function" then
    at.init(sess)
  elseif at.init ~= nil then
    sess:run(at.init)
  end
end

-- What is saved: what the user keeps, and where the supervisor stands.
local function kept(at, of)
  local all = {}
  for name, x in pairs(of) do all[name] = x end
  at.place.step = at.step
  all[OWN] = at.place
  return all
end

--- The session of the job, which is the default one from now on: initialised,
-- or as the newest whole checkpoint of the folder has it.
-- @param[opt] target of td.session; or a table of its options
function supervisor:session(target)
  local at = self.at
  check_open(at, "session")
  if at.session then return at.session end
  if type(target) == "string" then target = {target = target} end
  local sess = session.session(target)
  at.session = sess
  if at.chief then
    initialise(at, sess)
    at.resumed = at.job:restore(sess, kept(at, at.keep)) ~= nil
    at.step = at.place.step
    at.job.saved_step = at.resumed and at.step or nil
  end
  at.before = states_of(at.keep)
  call(self, "begin")
  return sess
end

-- ---- between two steps ----------------------------------------------------

local function save(self, keep)
  local at = self.at
  if not at.chief then return nil end
  local prefix = at.job:save(at.session, at.step, kept(at, keep))
  at.ran = true
  at.noted = nil
  call(self, "save")
  return prefix
end

-- The place was noted at the question before: the batch has been used now.
local function save_noted(self)
  local at = self.at
  local stop = at.noted.stop
  save(self, with_noted(at.keep, at.noted.keep))
  return stop
end

local function begin_asking(at)
  at.asking = true
  at.takes_first = moved(at.keep, at.before)
  at.before = nil
end

local function look(self)
  local at = self.at
  if at.noted and save_noted(self) then return true end
  local stop = at.stopping or at.job:asked() ~= nil
  if not stop and not at.job:due(at.step) then return false end
  if next(at.takes_first) then
    at.noted = {keep = noted(at.keep, at.takes_first), stop = stop}
    return false
  end
  save(self, at.keep)
  return stop
end

-- What each step runs: of the signatures that ran since the question before,
-- those that ran in every step so far. Three steps show it.
local function learn_step(at)
  if at.seen == 3 then return end
  at.seen = (at.seen or 0) + 1
  for signature, last in pairs(at.session:core_ran()) do
    local ran = last > at.runs
    if at.seen == 1 and ran then
      at.each = at.each or {}
      at.each[signature] = true
    elseif not ran and at.each then
      at.each[signature] = nil
    end
  end
end

-- Did a whole step run since the last question? A loop may have ended before,
-- and something else have run since, such as an evaluation.
local function ran_step(at)
  if at.session:stats().steps == at.runs then return false end
  local each, any = at.each or {}, false
  for signature, last in pairs(at.session:core_ran()) do
    local ran = last > at.runs
    if each[signature] and not ran then return false end
    any = any or ran
  end
  return any or next(each) ~= nil -- one that left the cache may have run
end

-- A step of the job is what ran since the question before; a loop that ended by
-- itself after it asked ran nothing.
local function count_step(at, runs)
  if runs == at.runs then return false end
  learn_step(at)
  at.step = at.step + 1
  return true
end

--- To be asked before each step: true when the loop is to end. Saves what is
-- due.
function supervisor:should_stop()
  local at = self.at
  if not at.session then
    fail("failed_precondition", "should_stop: first sv:session() is needed, "
      .. "which initialises or restores")
  end
  if at.stopped or at.closed then return true end
  local runs = at.session:stats().steps
  at.ran = false -- nothing of ours yet
  if not at.asking then
    begin_asking(at)
  elseif count_step(at, runs) then
    call(self, "step")
  end
  at.stopped = look(self)
  at.runs = at.ran and at.session:stats().steps or runs
  return at.stopped
end

--- Has should_stop say true soon.
function supervisor:stop() self.at.stopping = true end

--- Saves now, wherever the loop is: what is kept as it is.
-- @return the checkpoint's prefix
function supervisor:save()
  check_open(self.at, "save")
  if not self.at.session then
    fail("failed_precondition", "save: first sv:session() is needed")
  end
  self.at.job:save_again()
  return save(self, self.at.keep)
end

--- Saves, unless that was done since the last step, and lets go of the folder.
-- The session stays open. After SIGTERM or SIGUSR1 the script's exit code will
-- be 75.
function supervisor:close(e)
  local at = self.at
  if at.closed then return end
  at.closed = true
  local ok, err = true, nil
  if at.session and e == nil then
    if at.asking and not at.stopped and ran_step(at) then
      at.step = at.step + 1
    end
    ok, err = pcall(function()
      if not at.stopped then save(self, at.keep) end
      call(self, "finish")
    end)
  end
  at.job:close(e or not ok and err or nil)
  if not ok then error(err, 0) end
end

function supervisor.__close(self, e) self:close(e) end

return train
