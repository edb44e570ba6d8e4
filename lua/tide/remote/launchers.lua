--- remote/launchers.lua - what started this process, and with how many others:
-- Slurm's, Open MPI's and MPICH's variables.
--
-- Each process has a rank; the hosts are named by Slurm, by a file of hosts, or
-- by the user. A process listens at a port that follows from its place on its
-- host, so that all of them reckon the same addresses without asking. Where a
-- launcher says more than is needed, it is compared: a wrong list of hosts is
-- told, and not dialled.
--
-- Facts: the manual pages of srun and sbatch ("output environment variables"),
-- Open MPI's documentation ("environment variables set for MPI applications"),
-- MPICH's of mpiexec.hydra.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local hosts = require "tide.remote.hosts"

local launchers = {}

local MOST = 100000 -- processes
local MOST_PORT = 65535
local PORT = 8888

-- ---- variables -------------------------------------------------------------

-- A variable that is a whole number; nil where it is not set.
local function number(env, name)
  local text = env(name)
  if not text or text == "" then return nil end
  if not text:find "^%d+$" or #text > 9 then
    errors.invalid("%s is \"%s\", not a number", name, text)
  end
  return tonumber(text)
end

-- The first of the names that is set, and its value.
local function first(env, names)
  for _, name in ipairs(names) do
    local text = env(name)
    if text and text ~= "" then return name, text end
  end
end

-- Rank and size, which must both be there and fit.
local function rank_of(env, rank_name, size_name)
  local rank, size = number(env, rank_name), number(env, size_name)
  if not rank then return nil end
  if not size or size < 1 or size > MOST or rank >= size then
    errors.raise("failed_precondition", "%s is %d, but %s is %s", rank_name,
                 rank, size_name, size and tostring(size) or "not set")
  end
  return rank, size
end

-- ---- Slurm -----------------------------------------------------------------

-- Rows of hosts from two variables; `n` processes are on them.
local function slurm_rows(env, list_names, count_names, n)
  local list_name, list = first(env, list_names)
  if not list then return nil end
  local rows = {}
  for i, host in ipairs(hosts.expand(list, list_name)) do
    rows[i] = {host = host}
  end
  local count_name, text = first(env, count_names)
  local counts, sum = text and hosts.counts(text, count_name), 0
  for i, count in ipairs(counts or {}) do
    sum = sum + count
    if rows[i] then rows[i].slots = count end
  end
  if counts and (#counts ~= #rows or sum ~= n) then
    return nil, ("%s is \"%s\", %d processes on %d hosts; %s names %d hosts, "
      .. "and there are %d processes"):format(count_name, text, sum, #counts,
      list_name, #rows, n)
  end
  if not counts and n % #rows ~= 0 then
    return nil, ("%d processes on %d hosts, and %s is not set"):format(n, #rows,
      count_names[1])
  end
  return rows, list_name
end

-- Is this process where the list says?
local function check_slurm(env, places, rank)
  local node, here = number(env, "SLURM_NODEID"), number(env, "SLURM_LOCALID")
  local place = places[rank + 1]
  if node and here and (place.row ~= node + 1 or place.index ~= here) then
    errors.raise("failed_precondition", "task %d is number %d of host %d by "
      .. "SLURM_LOCALID and SLURM_NODEID, and number %d of host %d by the list "
      .. "of hosts; run it with srun --distribution=block", rank, here, node,
      place.index, place.row - 1)
  end
end

-- The script of a batch job has rank 0, and is none of the tasks.
local function is_batch_script(env, rank, size)
  return rank == 0 and size > 1
    and not first(env, {"SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"})
end

local function from_slurm(env)
  local size_name = first(env, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                                "SLURM_NPROCS"})
  local rank, size = rank_of(env, "SLURM_PROCID", size_name or "SLURM_NTASKS")
  if not rank then return nil, "SLURM_PROCID is not set" end
  local rows, why = slurm_rows(env,
    {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"},
    {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}, size)
  if not rows then
    errors.raise("failed_precondition", "%s", why or "SLURM_PROCID is set, and "
      .. "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST")
  end
  local cyclic = (env "SLURM_DISTRIBUTION" or ""):find "^cyclic" ~= nil
  local places = hosts.place(rows, size, cyclic)
  local is_task = not is_batch_script(env, rank, size)
  if is_task then check_slurm(env, places, rank) end
  return {places = places, rank = is_task and rank or nil, by = "Slurm"}
end

-- ---- MPI -------------------------------------------------------------------

local kinds = {
  {by = "Open MPI", rank = "OMPI_COMM_WORLD_RANK",
   size = "OMPI_COMM_WORLD_SIZE", local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
   local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
   files = {"OMPI_MCA_orte_default_hostfile",
            "PRTE_MCA_prte_default_hostfile"}},
  {by = "MPICH", rank = "PMI_RANK", size = "PMI_SIZE",
   local_rank = "MPI_LOCALRANKID", local_size = "MPI_LOCALNRANKS",
   files = {"HYDRA_HOST_FILE"}},
}

-- Rows of hosts: the user's, a file's, Slurm's, or this machine alone.
local function mpi_rows(env, kind, size, given)
  if given then return hosts.read(given, "hosts") end
  if size == number(env, kind.local_size) then
    return {{host = "localhost", slots = size}}
  end
  local name, path = first(env, kind.files)
  if path then return hosts.read(path, name) end
  local rows = slurm_rows(env, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"},
                          {"SLURM_TASKS_PER_NODE"}, size)
  if rows then return rows end
  return errors.raise("failed_precondition", "%s has started %d processes "
    .. "and does not tell on which hosts; name them in the order of ranks, "
    .. "td.cluster(nil, {hosts = {\"a slots=2\", \"b slots=2\"}}), or the file "
    .. "of hosts, {hosts = path}", kind.by, size)
end

local function from_mpi(env, kind, given)
  local rank, size = rank_of(env, kind.rank, kind.size)
  if not rank then return nil, kind.rank .. " is not set" end
  local rows = mpi_rows(env, kind, size, given)
  local places, here = hosts.place(rows, size), number(env, kind.local_rank)
  local place = places[rank + 1]
  if here and here ~= place.index then
    errors.raise("failed_precondition", "rank %d is number %d of its host by "
      .. "%s, and number %d of \"%s\" by the list of hosts; list hosts in the "
      .. "order of ranks, with slots=", rank, here, kind.local_rank,
      place.index, place.host)
  end
  return {places = places, rank = rank, by = kind.by}
end

-- Under srun --mpi=pmi2 both count alike. Where mpirun runs inside of a job of
-- Slurm, Slurm's rank is that of mpirun's helper on the host.
local function is_within(env, kind)
  local rank = number(env, kind.rank)
  return rank and not (rank == number(env, "SLURM_PROCID")
    and number(env, kind.size) == number(env, "SLURM_STEP_NUM_TASKS"))
end

-- ---- jobs and ports --------------------------------------------------------

-- The name of each rank's job, and its task there. `job` is a name, or how many
-- tasks each job has, {ps = 1, worker = 3}: the first by name has the first.
local function jobs_of(job, n)
  local list, sum = {}, 0
  if type(job) == "string" then job = {[job] = n} end
  for _, name in ipairs(args.sorted_keys(job)) do
    local count = job[name]
    if math.type(count) ~= "integer" or count < 1 then
      errors.invalid("cluster: job = {%s = %s}: it has 1 task or more", name,
                     tostring(count))
    end
    sum = sum + count
    for task = 0, math.min(count, n - #list) - 1 do
      list[#list + 1] = {job = name, task = task}
    end
  end
  if sum ~= n then
    errors.invalid("cluster: the jobs have %d tasks together, and %d processes "
      .. "were started", sum, n)
  end
  return list
end

local function spread(found, o)
  local base, jobs = o.port or PORT, jobs_of(o.job or "worker", #found.places)
  local all = {}
  for i, place in ipairs(found.places) do
    local own = jobs[i]
    if base + place.index > MOST_PORT then
      errors.invalid("cluster: port %d + %d for number %d of host \"%s\" is "
        .. "above %d", base, place.index, place.index, place.host, MOST_PORT)
    end
    all[own.job] = all[own.job] or {}
    all[own.job][tostring(own.task)] = ("%s:%d"):format(place.host,
                                                        base + place.index)
  end
  local own = found.rank and jobs[found.rank + 1] or {}
  return {jobs = all, job = own.job, task = own.task, by = found.by}
end

--- What the variables say: {jobs = {name = {task = address}}, job =, task =, by
-- = the launcher}; nil and why nothing.
-- @param env a function of a variable's name, such as os.getenv
-- @param o port of the first process of a host (8888); job: a name ("worker"),
-- or how many tasks each has; hosts: lines or a file, for launchers of MPI that
-- do not tell
function launchers.find(env, o)
  local why = {}
  for _, kind in ipairs(kinds) do
    if is_within(env, kind) then
      return spread(from_mpi(env, kind, o.hosts), o)
    end
    why[#why + 1] = kind.rank
  end
  local found = from_slurm(env)
  if found then return spread(found, o) end
  table.insert(why, 1, "SLURM_PROCID")
  return nil, why
end

return launchers
