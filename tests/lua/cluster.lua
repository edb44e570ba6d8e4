-- cluster.lua - td.cluster: from tables, files, TF_CONFIG and the variables of
-- launchers; addresses; what is wrong with them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local address = require "tide.remote.address"
local bundle = require "tide.show.bundle"
local cluster = require "tide.remote.cluster"
local folder = require "shared.folder"
local helper = require "helper"
local hosts = require "tide.remote.hosts"
local markup = require "shared.markup"

local contains, raises = helper.contains, helper.raises
local tests = {}

-- "ps0=tcp://a:1 worker0=..." of all tasks.
local function listed(c)
  local parts = {}
  for _, job in ipairs(c:jobs()) do
    for _, task in ipairs(c:tasks(job)) do
      parts[#parts + 1] = ("%s%d=%s"):format(job, task, c:address(job, task))
    end
  end
  return table.concat(parts, " "):gsub("tcp://", "")
end

local function from(env, o)
  return cluster.from_environment(function(name) return env[name] end, o or {})
end

-- ---- tables ----------------------------------------------------------------

function tests.a_table()
  local c = td.cluster{ps = {"a:1"}, worker = {"B.example:2", "tcp://b:3"},
                       job = "worker", task = 1}
  lu.assertEquals(c:jobs(), {"ps", "worker"})
  lu.assertEquals(c:tasks "worker", {0, 1})
  lu.assertEquals(c:address("worker", 0), "tcp://b.example:2")
  lu.assertEquals({c.job, c.task}, {"worker", 1})
  lu.assertEquals(tostring(c), "Cluster of 3 tasks: ps 1, worker 2; this is "
    .. "/job:worker/task:1")
  lu.assertTrue(cluster.is(c) and not cluster.is{} and td.cluster(c) == c)
  local none = td.cluster{worker = {"a:1"}}
  lu.assertTrue(none.job == nil and none.task == nil)
  lu.assertEquals(tostring(none), "Cluster of 1 task: worker 1")
end

function tests.sparse_tasks()
  local rows = {
    {{[0] = "a:1", [3] = "b:1"}, {0, 3}}, {{["1"] = "a:1"}, {1}},
    {{"a:1"}, {0}}, {{[5] = "a:1", [7] = "b:1"}, {5, 7}},
    {{[0] = "a:1", "b:1"}, {0, 1}}, {{["2"] = "a:1", [3] = "b:1"}, {2, 3}},
  }
  for i, row in ipairs(rows) do
    lu.assertEquals(td.cluster{worker = row[1]}:tasks "worker", row[2],
                    "row " .. i)
  end
end

function tests.equal_by_content()
  local a = td.cluster{ps = {"H:1"}, worker = {"a:1", "b:1"}}
  local same = {
    {ps = {"tcp://h:1"}, worker = {[0] = "a:1", [1] = "b:1"}},
    {ps = {"h:1"}, worker = {"a:1", "b:1"}, job = "ps", task = 0}}
  for _, t in ipairs(same) do lu.assertTrue(a == td.cluster(t)) end
  for i, t in ipairs{
    {ps = {"h:1"}, worker = {"a:1"}}, {worker = {"a:1", "b:1"}},
    {ps = {"h:1"}, worker = {"a:1", "c:1"}},
    {ps = {"h:1"}, worker = {"a:1", "b:1"}, more = {"x:1"}},
    {ps = {"h:1"}, worker = {[0] = "a:1", [2] = "b:1"}}} do
    lu.assertFalse(a == td.cluster(t), "row " .. i)
  end
  lu.assertFalse(a == {})
end

tests.wrong_tables = helper.each{
  {"it has no job", function() td.cluster{} end},
  {"it has no job", function() td.cluster{job = "worker", task = 0} end},
  {"job \"worker\" has no task; leave it out",
   function() td.cluster{worker = {}} end},
  {"job \"worker\" is \"a:1\", not a list of addresses",
   function() td.cluster{worker = "a:1"} end},
  {"options are the second argument, td.cluster(nil, {port = 8888})",
   function() td.cluster{port = 9000} end},
  {"a list with a hole; if its keys are tasks, write them as text",
   function() td.cluster{worker = {"a:1", nil, "b:1"}} end},
  {"has task 1 twice",
   function() td.cluster{worker = {[0] = "x:1", ["1"] = "a:1",
                                   ["01"] = "b:1"}} end},
  {"has a task \"-1\"; tasks are numbers from 0",
   function() td.cluster{worker = {["-1"] = "a:1"}} end},
  {"has a task 1.5", function() td.cluster{worker = {[1.5] = "a:1"}} end},
  {"\"a-b\" is no name of a job",
   function() td.cluster{["a-b"] = {"a:1"}} end},
  {"is no name of a job", function() td.cluster{[("x"):rep(64)] = {"a:1"}} end},
  {"job \"localhost\" is what each process calls its own",
   function() td.cluster{localhost = {"a:1"}} end},
  {"jobs are by name", function() td.cluster{{"a:1"}} end},
  {"no job is called \"task\"", function() td.cluster{task = {"a:1"}} end},
  {"job \"worker\", task 1: the address \"A:1\" is that of "
   .. "/job:worker/task:0 already",
   function() td.cluster{worker = {"a:1", "A:1"}} end},
  {"is that of /job:ps/task:0 already",
   function() td.cluster{worker = {"tcp://a:1"}, ps = {"a:1"}} end},
  {"job \"worker\", task 0: the address 5: it is a number",
   function() td.cluster{worker = {5}} end},
  {"there is no job \"wroker\"; did you mean \"worker\"?; there is worker",
   function() td.cluster{worker = {"a:1"}, job = "wroker", task = 0} end},
  {"job \"worker\" has no task 2; it has 0 to 1",
   function() td.cluster{worker = {"a:1", "b:1"}, job = "worker",
                         task = 2} end},
  {"which task of job \"worker\" is this?",
   function() td.cluster{worker = {"a:1"}, job = "worker"} end},
  {"task 0 of which job is this?",
   function() td.cluster{worker = {"a:1"}, task = 0} end},
  {"it is made of a table, the path of a file, or nil, not of number",
   function() td.cluster(5) end},
  {"cluster has no option \"prot\"; did you mean \"port\"?",
   function() td.cluster(nil, {prot = 1}) end},
  {"cluster: port must be from 1 to 65535, given 0",
   function() td.cluster(nil, {port = 0}) end},
  {"cluster: hosts must be text or a table, not a number",
   function() td.cluster(nil, {hosts = 1}) end},
}

function tests.wrong_questions()
  local c = td.cluster{worker = {[0] = "a:1", [3] = "b:1"}}
  raises("tasks: there is no job \"work\"; did you mean \"worker\"?",
         function() c:tasks "work" end)
  raises("tasks: there is no job nil", function() c:tasks() end)
  raises("address: job \"worker\" has no task 1; it has 0, 3",
         function() c:address("worker", 1) end)
  raises("has no task \"0\"", function() c:address("worker", "0") end)
  raises("no field or method \"tsks\" on a cluster; did you mean \"tasks\"?",
         function() return c.tsks end)
  raises("a cluster does not change", function() c.job = "worker" end)
  raises("tasks is called with a colon",
         function() return c.tasks "worker" end)
end

-- ---- addresses -------------------------------------------------------------

function tests.addresses()
  for text, want in pairs{
    ["h:1"] = "tcp://h:1", ["tcp://H.x:65535"] = "tcp://h.x:65535",
    ["[::1]:80"] = "tcp://[::1]:80", ["127.0.0.1:080"] = "tcp://127.0.0.1:80",
    ["tcp://[fe80::A%eth0]:1"] = "tcp://[fe80::a%eth0]:1",
    ["ipc:///tmp/x y"] = "ipc:///tmp/x y", ["a_b-c.d.:2"] = "tcp://a_b-c.d.:2",
    ["*:0"] = "tcp://*:0"} do
    local a, why = address.parse(text)
    lu.assertEquals(a and address.text(a) or why, want)
    lu.assertEquals(address.parse(address.text(a)), a)
  end
end

function tests.wrong_addresses()
  for text, want in pairs{
    [""] = "no host", h = "no port; write host:port", ["h:"] = "no port",
    [":1"] = "no host", ["h:x"] = "its port is \"x\"",
    ["h:65536"] = "not a number up to 65535", ["h:-1"] = "its port is",
    ["h:1e3"] = "its port is", ["::1:80"] = "write IPv6 in brackets",
    ["[::1:80"] = "its [ has no ]", ["[1]:80"] = "no IPv6 address",
    ["[::g]:80"] = "no IPv6 address", ["[::1]"] = "no port",
    ["1.2.3:4"] = "no IPv4 address", ["256.1.1.1:4"] = "no IPv4 address",
    ["a b:1"] = "no name of a host", ["-a:1"] = "no name of a host",
    ["a..b:1"] = "no name of a host", ["a\0:1"] = "no name of a host",
    [("x"):rep(64) .. ":1"] = "no name of a host",
    [("x."):rep(130) .. ":1"] = "has 260 characters, at most 253",
    ["http://a:1"] = "there is no \"http://\"",
    ["ipc://a"] = "does not begin with /", ["ipc:///a/"] = "names a folder",
    ["ipc:///a\n"] = "control character",
    ["ipc:///" .. ("x"):rep(107)] = "has 108 bytes, at most 107",
    ["tcp:///a:1"] = "no name of a host"} do
    local a, why = address.parse(text)
    lu.assertNil(a, text)
    lu.assertStrContains(why, want)
  end
  for _, text in ipairs{"*:1", "0.0.0.0:1", "[::]:1", "a:0"} do
    raises(text:find ":0$" and "port 0 stands for any" or "no host that others "
      .. "can dial", td.cluster, {worker = {text}})
  end
end

-- Any bytes: an address that can be written again, or a reason.
function tests.random_addresses()
  local words = {"tcp://", "ipc://", "[", "]", ":", "::", ".", "1", "65535",
                 "a", "-", "_", "/", "%", "\0", "\xff", "*", "0", " ", "256"}
  math.randomseed(11)
  for _ = 1, 20000 do
    local parts = {}
    for i = 1, math.random(0, 7) do
      parts[i] = math.random() < 0.1 and string.char(math.random(0, 255))
        or words[math.random(#words)]
    end
    local a, why = address.parse(table.concat(parts))
    if a then
      lu.assertEquals(address.parse(address.text(a)), a)
    else
      lu.assertTrue(utf8.len(why) ~= nil or why:find "[\x80-\xff\0]" ~= nil)
    end
  end
end

-- ---- files and TF_CONFIG ---------------------------------------------------

local CONFIG = [[{"cluster": {"worker": ["a:1", "b:1"], "ps": {"3": "c:1"}},
  "task": {"type": "worker", "index": 1}, "environment": "cloud"}]]

function tests.files()
  local dir <close> = folder.temp()
  local path = dir "cluster.json"
  folder.write(path, CONFIG)
  local whole = td.cluster(path)
  lu.assertEquals(listed(whole), "ps3=c:1 worker0=a:1 worker1=b:1")
  lu.assertEquals({whole.job, whole.task}, {"worker", 1})
  folder.write(path, '{"worker": ["a:1", "b:1"], "ps": {"3": "c:1"}}')
  local plain = td.cluster(path)
  lu.assertTrue(plain == whole and plain.job == nil)
  folder.write(path, '{"worker":\n ["a:1",\n "b:1"')
  raises("cluster.json', line 3: expected , or ]", td.cluster, path)
  folder.write(path, '{"worker": ["a"]}')
  raises("cluster.json': job \"worker\", task 0: the address \"a\": it has no "
    .. "port", td.cluster, path)
  raises("cannot open", td.cluster, dir "none")
end

function tests.tf_config()
  local c = from{TF_CONFIG = CONFIG, SLURM_PROCID = "0"}
  lu.assertEquals(tostring(c), "Cluster of 3 tasks: ps 1, worker 2; this is "
    .. "/job:worker/task:1")
  local function with(task)
    return from{TF_CONFIG = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": '
      .. task .. "}"}
  end
  lu.assertEquals(with '{"type": "worker", "index": "1"}'.task, 1)
  lu.assertEquals(with '{"type": "worker"}'.task, 0)
  lu.assertNil(with '{"type": "evaluator", "index": 0}'.job)
  lu.assertNil(with "{}".job)
  lu.assertNil(with "null".job)
  for _, text in ipairs{"", " ", "{}", '{"cluster": {}}',
                        '{"task": {"type": "worker", "index": 0}}'} do
    local none, why = from{TF_CONFIG = text}
    lu.assertNil(none)
    lu.assertStrContains(why, "TF_CONFIG, SLURM_PROCID, OMPI_COMM_WORLD_RANK, "
      .. "PMI_RANK is set")
  end
end

function tests.wrong_tf_config()
  for text, want in pairs{
    ['{"cluster": {"worker":\n ["a:1"}'] = "TF_CONFIG, line 2: expected , or ]",
    ['{"cluster": 5}\n x'] = "TF_CONFIG, line 2: text behind its end",
    ['{"cluster": 5}'] = "\"cluster\" must be an object",
    ["[1]"] = "TF_CONFIG: it must be an object", ["1"] = "must be an object",
    ['{"cluster": {"worker": ["a:1", null]}}'] = "task 1: the address null",
    ['{"cluster": {"worker": null, "ps": 1}}'] = "job \"ps\" is 1, not a list",
    ['{"cluster": {"worker": {}}}'] = "job \"worker\" has no task",
    ['{"cluster": {"worker": ["a:1"]}, "task": 7}'] = "\"task\" must be an",
    ['{"cluster": {"worker": ["a:1"]}, "task": {"index": 0}}']
      = "task 0 of which job",
    ['{"cluster": {"a": ["a:1"]}, "task": {"type": "a", "index": 7}}']
      = "has no task 7; it has 0",
    ['{"cluster": {"a": ["a:1"]}, "task": {"type": "a", "index": []}}']
      = "has no task",
    ['{"cluster": {"wrk": ["a:1"]}, "task": {"type": "wrx", "index": 0}}']
      = "there is no job \"wrx\"; did you mean \"wrk\"?"} do
    raises(want, from, {TF_CONFIG = text})
  end
end

-- A good text changed at random: a cluster, or an error that says where.
function tests.random_tf_config()
  math.randomseed(12)
  local good = 0
  for _ = 1, 5000 do
    local text = CONFIG
    for _ = 1, math.random(3) do
      local at = math.random(#text)
      text = text:sub(1, at - 1) .. string.char(math.random(0, 255))
        .. text:sub(at + math.random(0, 4))
    end
    local ok, e = pcall(from, {TF_CONFIG = text})
    good = good + (ok and 1 or 0)
    lu.assertTrue(ok or e.code == "invalid_argument" and
      e.message:find "TF_CONFIG" ~= nil, tostring(e))
  end
  lu.assertTrue(good > 100 and good < 4900, "good ones: " .. good)
end

-- ---- Slurm -----------------------------------------------------------------

local function slurm(t)
  local env = {SLURM_STEP_NODELIST = "a[01-02],b", SLURM_STEP_NUM_TASKS = "5",
               SLURM_STEP_TASKS_PER_NODE = "2(x2),1", SLURM_PROCID = "3",
               SLURM_NODEID = "1", SLURM_LOCALID = "1"}
  for key, value in pairs(t) do env[key] = value or nil end
  return env
end

function tests.slurm()
  local c = from(slurm{})
  lu.assertEquals(listed(c), "worker0=a01:8888 worker1=a01:8889 "
    .. "worker2=a02:8888 worker3=a02:8889 worker4=b:8888")
  lu.assertEquals({c.job, c.task}, {"worker", 3})
  local two = from(slurm{}, {job = {ps = 2, worker = 3}, port = 9000})
  lu.assertEquals(listed(two), "ps0=a01:9000 ps1=a01:9001 worker0=a02:9000 "
    .. "worker1=a02:9001 worker2=b:9000")
  lu.assertEquals({two.job, two.task}, {"worker", 1})
  local cyclic = from(slurm{SLURM_DISTRIBUTION = "cyclic:block",
                            SLURM_NODEID = "0"})
  lu.assertEquals(listed(cyclic), "worker0=a01:8888 worker1=a02:8888 "
    .. "worker2=b:8888 worker3=a01:8889 worker4=a02:8889")
end

-- What sbatch's script has is rank 0 of no step.
function tests.slurm_batch_script()
  local env = {SLURM_JOB_NODELIST = "r[1-2]c[1-2]", SLURM_NTASKS = "4",
               SLURM_PROCID = "0"}
  local c = from(env)
  lu.assertEquals(listed(c), "worker0=r1c1:8888 worker1=r1c2:8888 "
    .. "worker2=r2c1:8888 worker3=r2c2:8888")
  lu.assertNil(c.job)
  env.SLURM_PROCID = "2"
  lu.assertEquals(from(env).task, 2)
  lu.assertEquals(from{SLURM_JOB_NODELIST = "x", SLURM_NTASKS = "1",
                       SLURM_PROCID = "0"}.task, 0)
end

function tests.wrong_slurm()
  local rows = {
    {{SLURM_STEP_NODELIST = "a[1-2"}, "SLURM_STEP_NODELIST, \"a[1-2\": a ["},
    {{SLURM_STEP_NODELIST = "a]1["}, "brackets do not match at byte 2"},
    {{SLURM_STEP_NODELIST = "a[[1]]"}, "brackets do not match"},
    {{SLURM_STEP_NODELIST = "a[2-1]"}, "\"2-1\" in brackets is no number"},
    {{SLURM_STEP_NODELIST = "a[]"}, "\"\" in brackets is no number"},
    {{SLURM_STEP_NODELIST = "a[x]"}, "\"x\" in brackets"},
    {{SLURM_STEP_NODELIST = "a[1-999999999]"}, "more than 100000 hosts"},
    {{SLURM_STEP_NODELIST = "a[0-999][0-999]"}, "more than 100000 hosts"},
    {{SLURM_STEP_NODELIST = "a,,b"}, "a name is missing at a comma"},
    {{SLURM_STEP_TASKS_PER_NODE = "2(x2"}, "\"2(x2\" is no number such as 2"},
    {{SLURM_STEP_TASKS_PER_NODE = "0(x3)"}, "is no number such as 2"},
    {{SLURM_STEP_TASKS_PER_NODE = "2(x2)"},
     "\"2(x2)\", 4 processes on 2 hosts; SLURM_STEP_NODELIST names 3 hosts, "
     .. "and there are 5 processes"},
    {{SLURM_STEP_TASKS_PER_NODE = false},
     "5 processes on 3 hosts, and SLURM_STEP_TASKS_PER_NODE is not set"},
    {{SLURM_PROCID = "5"}, "SLURM_PROCID is 5, but SLURM_STEP_NUM_TASKS is 5"},
    {{SLURM_PROCID = "x"}, "SLURM_PROCID is \"x\", not a number"},
    {{SLURM_STEP_NUM_TASKS = false}, "SLURM_NTASKS is not set"},
    {{SLURM_STEP_NODELIST = false},
     "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST"},
    {{SLURM_NODEID = "2"}, "run it with srun --distribution=block"},
  }
  for _, row in ipairs(rows) do
    raises(row[2], from, slurm(row[1]))
  end
  raises("the jobs have 4 tasks together, and 5 processes", from, slurm{},
         {job = {ps = 1, worker = 3}})
  raises("it has 1 task or more", from, slurm{}, {job = {ps = 0, worker = 5}})
  raises("port 65535 + 1 for number 1 of host \"a01\" is above 65535", from,
         slurm{}, {port = 65535})
end

function tests.lists_of_hosts()
  for text, want in pairs{
    a = "a", ["a,b"] = "a b", ["a[1,3]"] = "a1 a3", ["a[08-11]"] =
    "a08 a09 a10 a11", ["a[8-10]x"] = "a8x a9x a10x",
    ["a[1-2]b[3-4],c"] = "a1b3 a1b4 a2b3 a2b4 c", ["[1-2]"] = "1 2",
    ["n-[001-003,7]"] = "n-001 n-002 n-003 n-7"} do
    lu.assertEquals(table.concat(hosts.expand(text, "x"), " "), want)
  end
  lu.assertEquals(hosts.counts("2(x3),1", "x"), {2, 2, 2, 1})
end

function tests.random_lists_of_hosts()
  math.randomseed(13)
  local signs = {"[", "]", ",", "-", "0", "1", "9", "a", "(x", ")", " ", "\0"}
  for _ = 1, 20000 do
    local parts = {}
    for i = 1, math.random(0, 9) do parts[i] = signs[math.random(#signs)] end
    local text = table.concat(parts)
    for _, f in ipairs{hosts.expand, hosts.counts} do
      local ok, e = pcall(f, text, "x")
      lu.assertTrue(ok or e.code == "invalid_argument", tostring(e))
    end
  end
end

-- ---- MPI -------------------------------------------------------------------

local function ompi(rank, size, here, on_host)
  return {OMPI_COMM_WORLD_RANK = rank, OMPI_COMM_WORLD_SIZE = size,
          OMPI_COMM_WORLD_LOCAL_RANK = here,
          OMPI_COMM_WORLD_LOCAL_SIZE = on_host}
end

function tests.mpi()
  local here = from(ompi("1", "3", "1", "3"))
  lu.assertEquals(listed(here), "worker0=localhost:8888 "
    .. "worker1=localhost:8889 worker2=localhost:8890")
  lu.assertEquals(here.task, 1)
  local lines = {"a slots=2 max_slots = 4 # the first", "", "b:1"}
  local c = from(ompi("2", "3", "0", "1"), {hosts = lines, port = 10})
  lu.assertEquals(listed(c), "worker0=a:10 worker1=a:11 worker2=b:10")
  local even = from({PMI_RANK = "1", PMI_SIZE = "4"}, {hosts = {"a", "b"}})
  lu.assertEquals(listed(even), "worker0=a:8888 worker1=a:8889 "
    .. "worker2=b:8888 worker3=b:8889")
  local around = from({PMI_RANK = "1", PMI_SIZE = "4"},
                      {hosts = {"a:1", "b:1"}})
  lu.assertEquals(#around:tasks "worker", 4)
  lu.assertEquals(from{PMI_RANK = "0", PMI_SIZE = "1",
                       MPI_LOCALNRANKS = "1"}:address("worker", 0),
                  "tcp://localhost:8888")
end

function tests.mpi_files_of_hosts()
  local dir <close> = folder.temp()
  local path = dir "hosts"
  folder.write(path, "# two machines\na slots=2\n\nb slots=1\n")
  local want = "worker0=a:8888 worker1=a:8889 worker2=b:8888"
  local env = ompi("2", "3", "0", "1")
  lu.assertEquals(listed(from(env, {hosts = path})), want)
  env.OMPI_MCA_orte_default_hostfile = path
  lu.assertEquals(listed(from(env)), want)
  lu.assertEquals(listed(from{PMI_RANK = "2", PMI_SIZE = "3",
                              HYDRA_HOST_FILE = path}), want)
  folder.write(path, "a slots=2\nb two\n")
  raises("line 2: \"two\" behind host \"b\" is not as in slots=2", from, env)
  folder.write(path, "# none\n")
  raises("names no host", from, env)
  raises("cannot open", from, env, {hosts = dir "none"})
end

-- mpirun within a job of Slurm: its ranks count; srun --mpi=pmi2: both do.
function tests.mpi_within_slurm()
  local env = {PMI_RANK = "1", PMI_SIZE = "4", MPI_LOCALRANKID = "1",
               SLURM_PROCID = "0", SLURM_STEP_NUM_TASKS = "2",
               SLURM_JOB_NODELIST = "n[1-2]"}
  local c = from(env)
  lu.assertEquals(listed(c), "worker0=n1:8888 worker1=n1:8889 worker2=n2:8888 "
    .. "worker3=n2:8889")
  lu.assertEquals(c.task, 1)
  env.PMI_RANK, env.PMI_SIZE, env.SLURM_PROCID = "1", "2", "1"
  lu.assertEquals(listed(from(env)), "worker0=n1:8888 worker1=n2:8888")
end

function tests.wrong_mpi()
  local env = ompi("1", "3", "1", "2")
  raises("Open MPI has started 3 processes and does not tell on which hosts; "
    .. "name them", from, env)
  raises("8888 processes on host \"a\"?", from, env, {hosts = {"a:8888"}})
  raises("rank 1 is number 1 of its host by OMPI_COMM_WORLD_LOCAL_RANK, and "
    .. "number 0 of \"b\"", from, env, {hosts = {"a", "b", "c"}})
  raises("hosts, entry 1: a host is text", from, env, {hosts = {5}})
  raises("hosts names no host", from, env, {hosts = {}})
  env.OMPI_COMM_WORLD_SIZE = nil
  raises("OMPI_COMM_WORLD_SIZE is not set", from, env)
end

-- ---- the process's own environment, displays -------------------------------

local variables = {"TF_CONFIG", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                   "PMI_RANK"}

function tests.environment_of_the_process()
  local before = {}
  for _, name in ipairs(variables) do
    before[name] = os.getenv(name)
    core.setenv(name, nil)
  end
  local none, why = td.cluster()
  core.setenv("TF_CONFIG", CONFIG)
  local c = td.cluster()
  for _, name in ipairs(variables) do core.setenv(name, before[name]) end
  lu.assertNil(none)
  lu.assertEquals(why, "this process is of no cluster: none of TF_CONFIG, "
    .. "SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK is set")
  lu.assertEquals({c.job, c.task}, {"worker", 1})
end

function tests.displays()
  local list = {}
  for i = 1, 100 do list[i] = ("host%03d:1"):format(i) end
  local c = td.cluster{worker = list, ps = {"ipc:///tmp/<&\">"}, job = "ps",
                       task = 0}
  local data = bundle(c).data
  contains(data["text/plain"], "Cluster of 101 tasks: ps 1, worker 100",
           "ipc:///tmp/<&\">  this process", "worker    58  tcp://host059:1",
           "41 tasks more")
  markup.check(data["text/html"])
  contains(data["text/html"], "ipc:///tmp/&lt;&amp;&quot;&gt;", "41 tasks more")
end

return tests
