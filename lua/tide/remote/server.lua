--- remote/server.lua - td.server: this process as a task of a cluster.
--
-- It has a runtime of its own, beside the interpreter's: others attach to it,
-- and run parts of their graphs there. `tide worker` is one that waits for a
-- signal.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local address = require "tide.remote.address"
local args = require "tide.base.args"
local cluster = require "tide.remote.cluster"
local errors = require "tide.base.errors"

local server = {}
local methods = {}
local meta = {__name = "server"}

local HELD = {} -- the key of what a server holds

local fail = errors.invalid

local known = {"cluster", "job", "task", "key", "allow", "cpu_devices",
               "threads", "memory_limit", "listen", "advertise", "data_port",
               "metrics", "patience"}
local types = {job = "string", task = "integer", key = "string",
               allow = "string", cpu_devices = "integer", threads = "integer",
               memory_limit = "integer", listen = "string",
               advertise = "string", data_port = "integer",
               metrics = "string", patience = "number"}

local every_host = {["*"] = true, ["0.0.0.0"] = true, ["::"] = true}

-- ---- who it is -------------------------------------------------------------

-- Its job and task: what is given, the cluster's own, or worker 0.
local function identity(o, c)
  local job = o.job or c and c.job or "worker"
  local task = o.task or (c and c.job == job and c.task) or 0
  if not job:find "^%a[%w_]*$" or #job > 63 then
    fail("server: \"%s\" is no name of a job; it is a letter, then letters, "
      .. "digits and _", job)
  end
  if task < 0 or task > 0x7fffffff then
    fail("server: task must be a number from 0, not %d", task)
  end
  return job, task
end

local function parsed(what, text)
  local a, why = address.parse(text)
  return a or fail("%s: the address \"%s\": %s", what, text, why)
end

-- Where it listens: as given, or as the cluster says.
local function listens(o, c, job, task)
  if o.listen then return parsed("server: listen", o.listen) end
  if not c then
    fail("server: nothing says where it listens; give listen = "
      .. "\"tcp://host:port\" or \"ipc:///path\", or a cluster")
  end
  return parsed("server", c:address(job, task))
end

-- What others are told to dial: a host that stands for all of a machine's is
-- none, so its name is told.
local function advertised(o, a)
  if o.advertise then
    local other = parsed("server: advertise", o.advertise)
    local why = address.undialable(other)
    if why then fail("server: advertise: %s", why) end
    return address.text(other)
  end
  if a.scheme == "tcp" and every_host[a.host] then
    return ("tcp://%s:0"):format(core.process().host) -- the port it has
  end
end

-- The address of the lane for data, where its port is given.
local function data_lane(o, a)
  if not o.data_port then return nil end
  args.expect_number(o.data_port, "server: data_port", 1, 65535)
  if a.scheme ~= "tcp" then
    fail("server: data_port is of tcp; %s has no ports", address.text(a))
  end
  return address.text{scheme = "tcp", host = a.host, bracketed = a.bracketed,
                      port = o.data_port}
end

-- The folder of a key pair, which is named by itself or its tide.key.
local function key_folder(key)
  if not key then return nil end
  local folder = key:match "^(.*)/tide%.key$"
  if key == "tide.key" then return "." end
  if folder then return folder == "" and "/" or folder end
  if core.exists(key) and not core.is_folder(key) then
    fail("server: key is a folder with tide.key in it, as tide keygen makes "
      .. "it, or that file; '%s' is another file", key)
  end
  return key
end

-- Where metrics are told: a host and a port; a port alone is this machine's.
local function metrics_at(o)
  if not o.metrics then return nil end
  local text = o.metrics:find "^:?%d+$" and "127.0.0.1:"
    .. o.metrics:gsub("^:", "") or o.metrics
  local a = parsed("server: metrics", text)
  if a.scheme ~= "tcp" then
    fail("server: metrics are told over tcp, at host:port, not at %s", text)
  end
  return a
end

-- ---- the object ------------------------------------------------------------

-- Over tcp who attaches on this machine finds the public key by the address.
local function leave_key(held)
  if not held.key then return end
  local ok, why = pcall(core.keys_leave, held.bound, held.key)
  if not ok then
    errors.warn("the public key of %s is not left for this machine's other "
      .. "processes: %s", held.bound, tostring(why))
  end
end

-- Nothing is left of a server whose metrics cannot be told.
local function tell_metrics(self, a)
  local held = self[HELD]
  local host = a.host == "*" and "0.0.0.0" or a.host
  local ok, port = pcall(held.raw.metrics, held.raw, host, a.port)
  if not ok then
    held.raw:stop()
    error(port, 0)
  end
  held.metrics = ("http://%s:%d/metrics"):format(a.bracketed
    and "[" .. host .. "]" or host, port)
end

--- A task that runs parts of graphs for those who attach to it.
-- @param o cluster: says where task `task` of `job` listens; or listen:
-- "tcp://host:port" (port 0: any that is free), "ipc:///path" in a folder of
-- mode 0700; advertise: the address that others dial, where it is another;
-- data_port: the second port, for bulk (any); key: the folder of its key pair
-- (the user's, else a fresh one); allow: a file of public keys, those who may
-- attach (whoever knows the server's); cpu_devices (1), threads of a step
-- (all), memory_limit in bytes; metrics: "host:port", or a port of 127.0.0.1
-- (0: any), where its numbers are told to Prometheus; patience: how many times
-- as long as 5 s others may be silent until they count as dead (TIDE_PATIENCE,
-- else 1)
-- @return a server: .target is its address; .public_key (nil over ipc); .job
-- and .task; .metrics, the address of its numbers
-- @raise unavailable where another listens; permission_denied for files that
-- others may read
-- @usage local s <close> = td.server{listen = "tcp://127.0.0.1:0", job = "ps"}
-- s.job  --> ps
function server.server(o)
  o = args.expect_all(args.read(o, known, "server"), types)
  local c = o.cluster ~= nil and cluster.cluster(o.cluster) or nil
  local job, task = identity(o, c)
  local a = listens(o, c, job, task)
  if a.host == "*" then a.host = "0.0.0.0" end
  local where, told = address.text(a), metrics_at(o)
  local raw = core.server{
    place = ("/job:%s/replica:0/task:%d"):format(job, task), listen = where,
    listen_data = data_lane(o, a), advertise = advertised(o, a),
    key = key_folder(o.key), allow = o.allow, cpu_devices = o.cpu_devices,
    threads = o.threads, memory_limit = o.memory_limit,
    patience = o.patience}
  local held = {raw = raw, target = raw:address(), key = raw:key(), job = job,
                task = task}
  held.bound = raw:bound()
  local self = setmetatable({[HELD] = held}, meta)
  if told then tell_metrics(self, told) end
  leave_key(held)
  return self
end

local function held_by(self, what)
  if getmetatable(self) ~= meta then
    fail("%s is called with a colon: server:%s(); given %s where the server "
      .. "should be", what, what, args.what(self))
  end
  return self[HELD]
end

--- Waits until the server is stopped, or the program interrupted.
function methods:join() held_by(self, "join").raw:join() end

--- Ends it: those attached to it are told, what it runs for them ends.
function methods:stop()
  local held = held_by(self, "stop")
  if held.key then pcall(core.keys_remove, held.bound, held.key) end
  held.key = nil
  held.raw:stop()
end

--- Calls f, then waits for SIGINT or SIGTERM, and stops: for a program that is
-- a server and no more.
function server.serve(self, f)
  local held = held_by(self, "serve")
  local _ <close> = self
  held.raw:serve(f)
end

local fields = {target = true, job = true, task = true, metrics = true}

function meta.__index(self, key)
  if methods[key] then return methods[key] end
  local held = rawget(self, HELD)
  if fields[key] then return held[key] end
  if key == "public_key" then return held.raw:key() end
  local names = args.sorted_keys(methods)
  table.move({"target", "public_key", "job", "task", "metrics"}, 1, 5,
             #names + 1, names)
  fail("no field or method \"%s\" on a server%s", tostring(key),
       errors.did_you_mean(tostring(key), names))
end

meta.__close = methods.stop

function meta.__tostring(self)
  local held = self[HELD]
  return ("Server /job:%s/task:%d at %s"):format(held.job, held.task,
    held.raw:address() or held.target .. " (stopped)")
end

return server
