-- shared/workers.lua - real `tide worker` processes for tests.
--
--   local w <close> = workers.start()          over ipc, in a folder of its own
--   sess:attach(w.address)
--   w:kill()                                   kill -9
--   local all <close> = workers.cluster(2)     all.session has both
--   workers.on(1, function() .. end)           what is built there is on task 1
--
-- A worker is started by a shell that tells its number, and is ready when it
-- has said so: nothing sleeps. Closing it asks it to end and waits for that.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local td = require "tide"

local workers = {}
local worker = {}
worker.__index = worker

--- The program that runs these tests.
workers.binary = io.popen("readlink /proc/$PPID/exe"):read()

local folder -- of all sockets, mode 0700
local started = 0

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- A new path in the tests' folder.
function workers.path(name)
  folder = folder or io.popen("mktemp -d /tmp/tide-workers-XXXXXX"):read()
  started = started + 1
  return ("%s/%s%d"):format(folder, name, started)
end

-- The user's own keys, and what other workers have left, are not for tests.
core.setenv("XDG_CONFIG_HOME", "/nowhere/of/tests")
core.setenv("XDG_RUNTIME_DIR", workers.path("run"):match "^(.*)/")

setmetatable(workers, {__gc = function()
  if folder then os.execute("rm -r " .. folder) end
end})

-- The lines that a worker's start has: its number, what it says when it is
-- ready, the public key where it has one.
local function read_start(self)
  self.pid = assert(math.tointeger(tonumber(self.pipe:read())))
  self.line = self.pipe:read()
  if not self.line then
    local _, _, code = self.pipe:close()
    self.pipe, self.code = nil, code
    return
  end
  self.address = self.line:match "listens on (%S+)$"
  if self.address and self.address:find "^tcp" then
    self.key = self.pipe:read():match "^public key (.*)$"
  end
end

--- Starts a worker.
-- @param o task (0), job ("worker"), listen (an ipc address of its own), args:
-- more words; env: variables before it, "A=1 B=2"
-- @return {address =, key =, task =, pid =, line =}; without `line` it ended at
-- once, with .code and what it said in .errors()
function workers.start(o)
  o = o or {}
  local listen = o.listen or "ipc://" .. workers.path "w"
  local self = setmetatable({error_path = workers.path "err",
    task = ("/job:%s/replica:0/task:%d"):format(o.job or "worker",
                                                o.task or 0)}, worker)
  self.pipe = assert(io.popen(("echo $$; exec env XDG_CONFIG_HOME=%s %s %s "
    .. "worker --listen %s --job %s --task %d %s 2> %s"):format(
    quote(workers.path "config"), o.env or "",
    quote(workers.binary), quote(listen), o.job or "worker", o.task or 0,
    o.args or "", self.error_path)))
  read_start(self)
  return self
end

--- What it has written to its stderr.
function worker:errors()
  local file <close> = assert(io.open(self.error_path))
  return file:read "a"
end

function worker:signal(name)
  os.execute(("kill -%s %d 2> /dev/null"):format(name, self.pid))
end

-- Its pipe ends when it has ended.
local function wait(self)
  if not self.pipe then return self.code end
  self.pipe:read "a"
  local _, how, code = self.pipe:close()
  self.pipe, self.how, self.code = nil, how, code
  return code
end

--- Asks it to end; its exit code.
function worker:stop()
  if self.pipe then self:signal "TERM" end
  return wait(self)
end

--- kill -9.
function worker:kill()
  if self.pipe then self:signal "KILL" end
  wait(self)
end

worker.__close = worker.stop

--- f, with what it builds on task n.
function workers.on(n, f)
  return td.device("/job:worker/task:" .. n, f)
end

--- Workers of tasks 0 to n - 1, attached to .session; closing it ends all.
-- @param args (optional) more words for the last of them
function workers.cluster(n, args)
  local list, addresses = {session = td.session()}, {}
  for i = 1, n do
    list[i] = workers.start{task = i - 1, args = i == n and args or nil}
    addresses[i] = list[i].address
  end
  assert(#list.session:attach(addresses) >= n)
  return setmetatable(list, {__close = function()
    list.session:close()
    for _, w in ipairs(list) do w:stop() end
  end})
end

return workers
