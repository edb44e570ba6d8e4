--- remote/attach.lua - other processes take part in a session: attached,
-- detached, looked at.
--
-- Their devices are the session's then, by name, such as
-- /job:worker/task:1/device:CPU:0. A worker is known by its task, which it says
-- itself, or by the address that was dialled.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local address = require "tide.remote.address"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local cluster = require "tide.remote.cluster"
local errors = require "tide.base.errors"
local session = require "tide.run.session"

local keys = autoload "tide.remote.keys"
local live = autoload "tide.show.live"
local tables = autoload "tide.remote.table"

local attach = {}

local fail = errors.invalid

local TIMEOUT = 10 -- seconds
local LEAST = 0.01 -- that are left for the last of many
local KEY = "^[%w%.%-:+=^!/*?&<>()%[%]{}@%%$#]+$" -- what a key is written with

-- ---- names -----------------------------------------------------------------

local function task_name(job, task)
  return ("/job:%s/replica:0/task:%d"):format(job, task)
end

-- "/job:worker/task:1" of a task's whole name.
local function short(task)
  return (task:gsub("/replica:0", ""))
end
attach.short = short

-- ---- keys ------------------------------------------------------------------

-- The key that stands in a file or in a folder's tide.pub.
local function key_in(path)
  if core.is_folder(path) then path = path .. "/tide.pub" end
  local list = keys.list(path)
  if #list == 1 then return list[1].key end
  return fail("attach: key: '%s' has %d keys, not the one of the worker", path,
              #list)
end

-- The user's own, if there is one: his workers on other machines take it too.
local function own_key()
  local ok, key = pcall(keys.public)
  return ok and key or nil
end

--- The public key of who listens at an address: nil over ipc; what `given` is
-- or holds; what a worker of this machine left; the user's own.
function attach.key_of(text, given)
  if address.parse(text).scheme == "ipc" then return nil end
  if given then
    if #given == 40 and given:find(KEY) and not core.exists(given) then
      return given
    end
    return key_in(given)
  end
  local ok, key = pcall(keys.find, text)
  if ok then return key end
  if key.code ~= "not_found" then error(key, 0) end
  return own_key() or errors.raise("failed_precondition", "attach: the public "
    .. "key of %s is not known; give key =, the text that the worker prints, "
    .. "or a file with it", text)
end

-- ---- whom to attach --------------------------------------------------------

local function checked(text)
  if type(text) ~= "string" then
    fail("attach: an address is text such as \"tcp://host:port\", not %s",
         args.what(text))
  end
  local a, why = address.parse(text)
  why = why or address.undialable(a)
  if why then fail("attach: the address \"%s\": %s", text, why) end
  return address.text(a)
end

-- Is it this process itself?
local function is_own(c, job, task)
  return c.job == job and c.task == task
end

local function of_cluster(c, o)
  local list = {}
  for _, job in ipairs(o.job and {o.job} or c:jobs()) do
    for _, task in ipairs(c:tasks(job)) do
      if not is_own(c, job, task) and (not o.task or o.task == task) then
        list[#list + 1] = {address = c:address(job, task),
                           task = task_name(job, task)}
      end
    end
  end
  if #list == 0 then
    fail("attach: the cluster has no other task%s", o.task
      and (" %d of job \"%s\""):format(o.task, tostring(o.job)) or "")
  end
  return list
end

--- {{address =, task = name that it must have, or nil}, ...} of what attach is
-- given, and its options.
function attach.targets(to, o)
  if cluster.is(to) then return of_cluster(to, o) end
  local list = type(to) == "table" and args.plain(to) and to or {to}
  args.check_list(list, "attach: the list of addresses")
  if #list == 0 then fail("attach: the list of addresses is empty") end
  local out = {}
  for i, text in ipairs(list) do
    local task = o.task or #list == 1 and o.job and 0
    out[i] = {address = checked(text),
              task = task and #list == 1 and task_name(o.job or "worker", task)
                or nil}
  end
  return out
end

-- ---- attaching -------------------------------------------------------------

local function check_name(self, target, task)
  if not target.task or target.task == task then return end
  core.detach(self, task, true)
  errors.raise("failed_precondition", "attach: the worker at %s is %s, not %s; "
    .. "start it with --job and --task", target.address, short(task),
    short(target.task))
end

local function attach_one(self, target, o, seconds)
  local key = attach.key_of(target.address, o.key)
  local task = core.attach(self, target.address, key, seconds,
                           {patience = o.patience})
  check_name(self, target, task)
  return task
end

-- All of them, or none: `done` is filled.
local function attach_all(self, list, o, done)
  local until_ = core.clock() + (o.timeout or TIMEOUT)
  for i, target in ipairs(list) do
    done[i] = attach_one(self, target, o,
                         math.max(until_ - core.clock(), LEAST))
  end
end

local function devices_of(self, tasks)
  local names = {}
  for _, name in ipairs(self:devices()) do
    for _, task in ipairs(tasks) do
      if name:sub(1, #task + 1) == task .. "/" then names[#names + 1] = name end
    end
  end
  return names
end

--- Has other processes (`tide worker`, td.server) run parts of the session's
-- graph. What is placed on their devices runs there, of the graph that is there
-- and of what is added to it.
-- @param to "tcp://host:port", "ipc:///path", a list of them, or a td.cluster:
-- all of its tasks but this process
-- @param[opt] o key: the worker's public key, or a file with it (what a worker
-- of this user left on this machine; else the user's own); timeout: seconds for
-- all (10); job, task: what the worker must be, of a cluster those to attach;
-- patience: how many times as long as 5 s a worker may be silent until it
-- counts as dead, for this process and all its workers from now on
-- (TIDE_PATIENCE, else 1); theirs is `tide worker --patience`
-- @return names of their devices
-- @raise unavailable where nobody answers in time, permission_denied for a
-- wrong key, already_exists for a task that the session has; then none is
-- attached
-- @usage local s <close> = td.server{listen = "tcp://127.0.0.1:0"}
-- local sess <close> = td.session()
-- #sess:attach(s.target)  --> 1
-- @function sess:attach(to, o)
function attach.attach(self, to, o)
  session.graph_of(self, "attach")
  o = args.expect_all(args.read(o, {"job", "task", "key", "timeout",
                                 "patience"}, "attach"),
                      {job = "string", task = "integer", key = "string",
                       timeout = "number", patience = "number"})
  local list, done = attach.targets(to, o), {}
  local ok, why = pcall(attach_all, self, list, o, done)
  if not ok then
    for _, task in ipairs(done) do pcall(core.detach, self, task, true) end
    error(why, 0)
  end
  return devices_of(self, done)
end

-- ---- detaching -------------------------------------------------------------

-- The whole name of the worker that has this task or address.
local function find(self, what)
  if type(what) ~= "string" then
    fail("detach: a worker is named by its task or address, such as "
      .. "\"/job:worker/task:0\", not by %s", args.what(what))
  end
  local names = {}
  for _, row in ipairs(core.remote_rows(self)) do
    if row.task == what or row.task and short(row.task) == what
      or row.address == what then
      return row.task
    end
    names[#names + 1] = row.task and short(row.task)
  end
  return errors.raise("not_found", "detach: no worker \"%s\" is attached%s; "
    .. "there %s", what, errors.did_you_mean(what, names), #names == 0
    and "is none" or (#names == 1 and "is " or "are ")
    .. table.concat(names, ", "))
end

--- A worker takes no part any more.
-- @param what its task, "/job:worker/task:1", or the address that was dialled
-- @param[opt] o drop = true: also where variables live there, which are lost
-- @raise failed_precondition without drop, with the names of these variables
-- @function sess:detach(what, o)
function attach.detach(self, what, o)
  session.graph_of(self, "detach")
  o = args.expect_all(args.read(o, {"drop"}, "detach"), {drop = "boolean"})
  core.detach(self, find(self, what), o.drop == true)
end

-- ---- looking ---------------------------------------------------------------

-- When a worker's steps were looked at: by the session, then what it is.
local looked = setmetatable({}, {__mode = "k"})
local NOBODY = {}

local function set_rate(seen, row)
  local now, was = core.clock(), seen[row.incarnation]
  if was and now - was.at < 0.2 then
    row.step_rate = was.rate
    return
  end
  row.step_rate = was and (row.steps - was.steps) / (now - was.at) or nil
  seen[row.incarnation] = {at = now, steps = row.steps, rate = row.step_rate}
end

--- Rows of workers, with their rates since the last look; of all peers without
-- a session.
function attach.rows(self)
  local rows = core.remote_rows(self)
  local seen = looked[self or NOBODY] or {}
  looked[self or NOBODY] = seen
  for _, row in ipairs(rows) do
    if row.state ~= "dead" then set_rate(seen, row) end
    if self and row.task then row.devices = devices_of(self, {row.task}) end
    if row.devices and #row.devices == 0 then row.devices = nil end
  end
  return tables.of(rows)
end

--- The session's workers: rows of task, address, state ("joining", "up",
-- "suspect", "dead"), heartbeat (seconds since it was heard), steps, step_rate,
-- memory, bytes_in, bytes_out, devices, error (why it is dead), last_error (how
-- a step of this session failed there), round_trip and clock (seconds).
-- The list displays as a table.
-- @usage #td.session():workers()  --> 0
-- @function sess:workers()
function attach.workers(self)
  session.graph_of(self, "workers")
  return attach.rows(self)
end

local function brief(panel)
  return tostring(panel.rows)
end

local panel_meta = {
  __repr_pretty = function(panel) return tables.text(panel.rows) end,
  __repr_html = function(panel) return tables.html(panel.rows) end,
}

--- Shows the workers as a table that is kept up to date, until an interrupt, or
-- for some time.
-- @param[opt] o every: seconds between two looks (1); seconds: how long
-- @function sess:panel(o)
function attach.panel(self, o)
  session.graph_of(self, "panel")
  o = args.expect_all(args.read(o, {"every", "seconds"}, "panel"),
                      {every = "number", seconds = "number"})
  local panel = setmetatable({rows = attach.rows(self)}, panel_meta)
  local view = live.new(panel, brief)
  local until_ = core.clock() + (o.seconds or math.huge)
  view:change()
  while core.clock() < until_ do
    core.pause(math.max(math.min(o.every or 1, until_ - core.clock()), LEAST))
    panel.rows = attach.rows(self)
    view:change()
  end
  view:finish()
end

return attach
