--- remote/cluster.lua - td.cluster: which jobs there are, their tasks, and
-- where each listens.
--
-- A cluster is known alike to all its processes: from a table, a file, or what
-- launched them. It does not change, and two are equal when all their jobs,
-- tasks and addresses are; `job` and `task` say which of them this process is,
-- and are nil where it is none.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local address = require "tide.remote.address"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local json = require "tide.base.json"
local launchers = require "tide.remote.launchers"

local cluster = {}
local methods = {}
local meta = {__name = "cluster", __forms = "cluster"}

local MOST_BYTES = 1 << 24 -- of a file
local MOST_TASK = 0x7fffffff
local MOST_JOB = 63        -- characters of a job's name, as devices have it
local HELD = {} -- the key of {jobs = {job = {task = address}}, job =, task =}

local fail = errors.invalid

-- Text from outside, as a message shows it.
local function quoted(x)
  if type(x) ~= "string" then return tostring(x) end
  return ('"%s"'):format(json.utf8(#x > 100 and x:sub(1, 100) .. "..." or x)
    :gsub("%c", "?"))
end

-- ---- jobs ------------------------------------------------------------------

local function check_job(where, name)
  if not name:find "^%a[%w_]*$" or #name > MOST_JOB then
    fail("%s: %s is no name of a job; it is a letter, then letters, digits and "
      .. "_, at most %d", where, quoted(name), MOST_JOB)
  end
  if name == "localhost" then
    fail("%s: job \"localhost\" is what each process calls its own devices; "
      .. "take another name", where)
  end
end

local function check_task(where, name, key)
  local given = key
  if type(key) == "string" then key = key:find "^%d+$" and tonumber(key) end
  local n = type(key) == "number" and math.tointeger(key)
  if not n or n < 0 or n > MOST_TASK then
    fail("%s: job \"%s\" has a task %s; tasks are numbers from 0", where, name,
         quoted(given))
  end
  return n
end

-- Is it a list, of tasks from 0? Else its keys are tasks.
local function is_list(where, name, t)
  local n, zero, one = 0, t[0] ~= nil, t[1] ~= nil
  for key in pairs(t) do
    n = n + 1
    if type(key) == "string" then zero = true end
  end
  if n == 0 then
    fail("%s: job \"%s\" has no task; leave it out or give it an address",
         where, name)
  end
  if zero or not one then return false end
  if n ~= #t then
    fail("%s: job \"%s\" is a list with a hole; if its keys are tasks, write "
      .. "them as text, as in {[\"1\"] = \"host:port\"}", where, name)
  end
  return true
end

-- {task = address as given} of what stands for a job.
local function tasks_of(where, name, t)
  if type(t) ~= "table" or t == json.null then
    fail("%s: job \"%s\" is %s, not a list of addresses such as {\"host:port\"}"
      .. "%s", where, name, quoted(t), (name == "port" or name == "hosts")
      and "; options are the second argument, td.cluster(nil, {port = 8888})"
      or "")
  end
  local list, tasks = is_list(where, name, t), {}
  for key, text in pairs(t) do
    local n = list and key - 1 or check_task(where, name, key)
    if tasks[n] ~= nil then
      fail("%s: job \"%s\" has task %d twice", where, name, n)
    end
    tasks[n] = text
  end
  return tasks
end

local function sorted_numbers(t)
  local list = {}
  for n in pairs(t) do list[#list + 1] = n end
  table.sort(list)
  return list
end

-- The task's address in one way of writing; `seen` has those before it.
local function checked_address(where, name, task, text, seen)
  local a, why = address.parse(text)
  why = why or address.undialable(a)
  if why then
    fail("%s: job \"%s\", task %d: the address %s: %s", where, name, task,
         quoted(text), why)
  end
  local normal = address.text(a)
  if seen[normal] then
    fail("%s: job \"%s\", task %d: the address %s is that of %s already; each "
      .. "process has one of its own", where, name, task, quoted(text),
      seen[normal])
  end
  seen[normal] = ("/job:%s/task:%d"):format(name, task)
  return normal
end

-- {job = {task = address}}, checked, of such a table as the user writes it.
local function jobs_of(where, t)
  local jobs, seen = {}, {}
  for name in pairs(t) do
    if type(name) ~= "string" then
      fail("%s: jobs are by name, as in {worker = {\"host:port\"}}, given %s",
           where, tostring(name))
    end
  end
  for _, name in ipairs(args.sorted_keys(t)) do
    check_job(where, name)
    local given, tasks = tasks_of(where, name, t[name]), {}
    for _, n in ipairs(sorted_numbers(given)) do
      tasks[n] = checked_address(where, name, n, given[n], seen)
    end
    jobs[name] = tasks
  end
  if not next(jobs) then
    fail("%s: it has no job; write td.cluster{worker = {\"host:port\"}}", where)
  end
  return jobs
end

-- ---- this process ----------------------------------------------------------

local function numbers_text(list)
  if #list > 1 and list[#list] - list[1] == #list - 1 then
    return ("%d to %d"):format(list[1], list[#list])
  end
  local text = table.concat(list, ", ", 1, math.min(#list, 8))
  return #list > 8 and text .. ", ..." or text
end

-- The tasks of a job; raises where there is no such job.
local function find_job(where, jobs, name)
  if jobs[name] then return jobs[name] end
  local names = args.sorted_keys(jobs)
  return fail("%s: there is no job %s%s; there is %s", where, quoted(name),
    errors.did_you_mean(name, names), table.concat(names, ", "))
end

local function find_address(where, jobs, name, task)
  local tasks = find_job(where, jobs, name)
  local n = type(task) == "number" and math.tointeger(task)
  if n and tasks[n] then return tasks[n], n end
  return fail("%s: job \"%s\" has no task %s; it has %s", where, name,
              quoted(task), numbers_text(sorted_numbers(tasks)))
end

local function new(where, jobs, job, task)
  if job ~= nil and task == nil then
    fail("%s: which task of job %s is this? Give task =", where, quoted(job))
  end
  if task ~= nil and job == nil then
    fail("%s: task %s of which job is this? Give job =", where, quoted(task))
  end
  if job ~= nil then task = select(2, find_address(where, jobs, job, task)) end
  return setmetatable({[HELD] = {jobs = jobs, job = job, task = task}}, meta)
end

-- ---- TF_CONFIG and files ---------------------------------------------------

-- An object's fields, without its mark and what is null.
local function plain(where, what, t)
  if type(t) ~= "table" or t == json.null or #t > 0 then
    fail("%s: %s must be an object", where, what)
  end
  local copy = {}
  for key, value in pairs(t) do
    if value ~= json.null then copy[key] = value end
  end
  return copy
end

-- The evaluator of TensorFlow's trainings is no task of the cluster.
local function from_config(where, t)
  local jobs = jobs_of(where, plain(where, "\"cluster\"", t.cluster))
  if t.task == nil then return new(where, jobs) end
  local own = plain(where, "\"task\"", t.task)
  local job, task = own.type, own.index
  if job == nil and task == nil then return new(where, jobs) end
  if type(task) == "string" then task = tonumber(task) or task end
  if job == "evaluator" and not jobs[job] then return new(where, jobs) end
  return new(where, jobs, job, task or 0)
end

local function decode(where, text)
  local t, why = json.decode(text)
  if t == nil then
    local what, at = why:match "^json: (.*) at byte (%d+)$"
    at = at or why:match "after byte (%d+)$"
    local line = 1
    for _ in text:sub(1, (tonumber(at) or 1) - 1):gmatch "\n" do
      line = line + 1
    end
    fail("%s, line %d: %s", where, line, what or "text behind its end")
  end
  return plain(where, "it", t)
end

local function from_text(where, text)
  local t = decode(where, text)
  if t.cluster then return from_config(where, t) end
  return new(where, jobs_of(where, t))
end

local function from_table(t)
  local jobs = {}
  for key, value in pairs(t) do
    if key ~= "job" and key ~= "task" then jobs[key] = value end
  end
  for _, name in ipairs{"job", "task"} do
    if type(t[name]) == "table" then
      fail("cluster: no job is called \"%s\", for job = and task = say which "
        .. "of them this process is", name)
    end
  end
  return new("cluster", jobs_of("cluster", jobs), t.job, t.task)
end

-- ---- the environment -------------------------------------------------------

--- The cluster that a process's variables tell of; nil and why, where none do.
-- @param env a function of a variable's name, such as os.getenv
-- @param o as td.cluster's
function cluster.from_environment(env, o)
  local text = env "TF_CONFIG"
  if text and text:find "%S" then
    local t = decode("TF_CONFIG", text)
    if t.cluster and (type(t.cluster) ~= "table" or next(t.cluster)) then
      return from_config("TF_CONFIG", t)
    end
  end
  local found, why = launchers.find(env, o)
  if found then
    local where = "cluster of " .. found.by
    return new(where, jobs_of(where, found.jobs), found.job, found.task)
  end
  table.insert(why, 1, text and text:find "%S" and "\"cluster\" in TF_CONFIG"
    or "TF_CONFIG")
  return nil, "this process is of no cluster: none of "
    .. table.concat(why, ", ") .. " is set"
end

local function check_options(o)
  if o.port ~= nil then
    args.expect_number(args.expect(o.port, "integer", "cluster: port"),
                       "cluster: port", 1, 65535)
  end
  for _, name in ipairs{"job", "hosts"} do
    local kind = type(o[name])
    if kind ~= "nil" and kind ~= "string" and kind ~= "table" then
      fail("cluster: %s must be text or a table, not a %s", name, kind)
    end
  end
end

--- The processes that train together.
--
-- From a table: jobs by name, each a list of addresses, "host:port" or
-- "ipc:///path"; job and task say which of them this process is. Tasks count
-- from 0. Where only some are to be known, their numbers are keys,
-- {worker = {[0] = "a:1", [3] = "b:1"}}, or text, {worker = {["1"] = "a:1"}}.
-- From the path of a JSON file: the same, or all of a TF_CONFIG.
-- From nil: TF_CONFIG in the environment, else the variables of Slurm, Open MPI
-- and MPICH, whose tasks listen at `port` and those behind it.
-- @param[opt] from table, path or nil
-- @param[opt] o for launchers: port of the first task of each host (8888); job:
-- the name of all tasks' job ("worker"), or how many each has,
-- {ps = 1, worker = 3}; hosts: lines "a slots=2", or a file of them, where
-- MPI's launcher does not tell
-- @return the cluster; nil and why, where the environment tells of none
-- @usage local c = td.cluster{ps = {"a:1"}, worker = {"b:1", "c:1"}}
-- #c:tasks "worker"  --> 2
function cluster.cluster(from, o)
  if getmetatable(from) == meta then return from end
  o = args.read(o, {"port", "job", "hosts"}, "cluster")
  check_options(o)
  if type(from) == "string" then
    return from_text(("'%s'"):format(from), core.read_file(from, MOST_BYTES))
  end
  if from == nil then return cluster.from_environment(os.getenv, o) end
  if not args.plain(from) then
    fail("cluster: it is made of a table, the path of a file, or nil, not of "
      .. "%s", args.what(from))
  end
  return from_table(from)
end

-- ---- the object ------------------------------------------------------------

local function checked(self, what)
  if getmetatable(self) ~= meta then
    fail("%s is called with a colon: c:%s(...); given %s where the cluster "
      .. "should be", what, what, args.what(self))
  end
  return self[HELD].jobs
end

--- The names of the jobs, sorted.
function methods:jobs()
  return args.sorted_keys(checked(self, "jobs"))
end

--- The numbers of a job's tasks, in order.
-- @usage local c = td.cluster{worker = {[0] = "a:1", [3] = "b:1"}}
-- c:tasks "worker"  --> 0 3
function methods:tasks(job)
  return sorted_numbers(find_job("tasks", checked(self, "tasks"), job))
end

--- Where a task listens, "tcp://host:port" or "ipc:///path".
-- @usage td.cluster{worker = {"a:1"}}:address("worker", 0)  --> tcp://a:1
function methods:address(job, task)
  return (find_address("address", checked(self, "address"), job, task))
end

function meta.__index(self, key)
  if methods[key] then return methods[key] end
  if key == "job" or key == "task" then return self[HELD][key] end
  local known = args.sorted_keys(methods)
  table.move({"job", "task"}, 1, 2, #known + 1, known)
  fail("no field or method \"%s\" on a cluster%s", tostring(key),
       errors.did_you_mean(tostring(key), known))
end

function meta.__newindex(_, key)
  fail("a cluster does not change; \"%s\" cannot be set", tostring(key))
end

-- Are all tasks of the jobs y in x, at the same addresses?
local function holds(x, y)
  for job, tasks in pairs(y) do
    for task, text in pairs(tasks) do
      if not x[job] or x[job][task] ~= text then return false end
    end
  end
  return true
end

function meta.__eq(a, b)
  if getmetatable(a) ~= getmetatable(b) then return false end
  local x, y = a[HELD].jobs, b[HELD].jobs
  return holds(x, y) and holds(y, x)
end

function meta.__tostring(self)
  local parts, n = {}, 0
  for _, job in ipairs(self:jobs()) do
    local tasks = #self:tasks(job)
    n, parts[#parts + 1] = n + tasks, ("%s %d"):format(job, tasks)
  end
  local text = ("Cluster of %d task%s: %s"):format(n, n == 1 and "" or "s",
                                                   table.concat(parts, ", "))
  if not self.job then return text end
  return ("%s; this is /job:%s/task:%d"):format(text, self.job, self.task)
end

--- Is x a cluster?
function cluster.is(x)
  return type(x) == "table" and getmetatable(x) == meta
end

return cluster
