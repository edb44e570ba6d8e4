"""worker_world.py - two workers and who attaches to them, as real processes.

A world has two tasks. In a near one each has a proxy before both of its lanes
(byte_proxy.py), through which the client and the other worker dial it; the two
are of users' namespaces of their own, so that tensors go by sockets, unless the
world shares memory. In a far one worker 1 is in a network of its own, at the end
of a pair of virtual cables.
"""
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time

import byte_proxy

PORT, DATA = 7000, 7001
SHARED = "/dev/shm"
CLIENT = r"""
local td, core = require "tide", require "tide.core"
local stop, size = arg[1], tonumber(arg[2])
local seconds, timeout = tonumber(arg[3]), tonumber(arg[4])
local function tell(...) io.write(table.concat({...}, " "), "\n") io.flush() end
local function on(task, f) return td.device("/job:worker/task:" .. task, f) end
local counts, adds = {}, {}
local x
for task = 0, 1 do
  on(task, function()
    counts[task + 1] = td.variable(td.constant(0, "int64"), "count" .. task)
    adds[task + 1] = counts[task + 1]:assign_add(td.constant(1, "int64"))
    x = x and x * 2 or td.fill({size}, td.cast(adds[1], "float32"))
  end)
end
local sum = x:max()
local fetches = {adds[1], adds[2], sum}
local function open()
  local sess = td.session()
  for i = 5, #arg do
    local address, key = arg[i]:match "^(%S-)=(.*)$"
    sess:attach(address, {key = key ~= "" and key or nil, timeout = seconds})
  end
  for i = 1, 2 do sess:run(counts[i].initializer) end
  return sess
end
local n = 0
local function step(sess, within)
  local got = sess:run(fetches, {}, within > 0 and {timeout = within} or nil)
  n = n + 1
  for i = 1, 3 do
    if got[i] ~= (i == 3 and 2 * n or n) then
      tell("wrong", n, tostring(got[i]), "of", i)
      os.exit(3)
    end
  end
end
local sess
local ok, why = pcall(function()
  sess = open()
  while not core.exists(stop) do
    step(sess, timeout)
    if n == 3 then tell "ready" end
    core.pause(0.005)
  end
  tell("stopped", n)
end)
if not ok then
  tell("error", type(why) == "table" and why.code or "text",
       (tostring(why):gsub("\n", " ")))
end
local began = core.clock()
if sess then sess:close() end
tell("closed", ("%.2f"):format(core.clock() - began))
if io.read() == "again" then
  n = 0
  local later, reason = pcall(function()
    local new = open()
    for _ = 1, 5 do step(new, 0) end
    new:close()
  end)
  tell("again", later and "ok" or tostring(reason))
end
"""


SAVE = r"""
local td = require "tide"
local full, room, seconds = arg[1], arg[2], tonumber(arg[3])
local function tell(...) io.write(table.concat({...}, " "), "\n") io.flush() end
local list = {}
for task = 0, 1 do
  td.device("/job:worker/task:" .. task, function()
    list[task + 1] = td.variable(td.fill({1 << 18}, task + 1.0), "v" .. task)
  end)
end
local plain = td.train.saver{variables = list}
local sharded = td.train.saver{variables = list, sharded = true}
local sess = td.session()
for i = 4, #arg do
  local address, key = arg[i]:match "^(%S-)=(.*)$"
  sess:attach(address, {key = key, timeout = seconds})
end
sess:init()
local function save(who, saver, folder)
  local ok, why = pcall(saver.save, saver, sess, folder .. "/" .. who)
  tell(who, ok and "ok" or type(why) == "table" and why.code or "text",
       ok and "" or (tostring(why):gsub("\n", " ")))
  return ok
end
save("client", plain, full)
save("workers", sharded, full)
local ok = pcall(plain.save, plain, sess, room .. "/plain")
  and pcall(sharded.save, sharded, sess, room .. "/sharded")
tell("room", ok and "ok" or "fails")
local got = sess:run{list[1]:sum(), list[2]:sum()}
tell("steps", got[1] == 1 << 18 and got[2] == 2 << 18 and "ok" or "wrong")
sess:close()
"""


def mount(where, size):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", where], check=True)


class Lines:
    """What a process writes, line by line, with the time each came."""

    def __init__(self, process):
        self.process, self.came, self.all = process, queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.came.put((time.monotonic(), line.rstrip("\n")))
        self.came.put((time.monotonic(), None))

    def next(self, seconds, *firsts):
        """(time, line) of the next that begins with one of these words; None for
        the line when the process has ended, or nothing came in time."""
        end = time.monotonic() + seconds
        while True:
            try:
                at, line = self.came.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                return end, None
            self.all.append(line)
            if line is None or line.split(" ")[0] in firsts:
                return at, line


class Worker:
    def __init__(self, world, task):
        self.world, self.task, self.process, self.base = world, task, None, None
        self.leaves = False  # it was told to end
        self.env = {}
        self.name, self.extra, self.key = f"/job:worker/replica:0/task:{task}", [], ""

    @property
    def address(self):
        return f"tcp://{self.world.dialled(self.task)}:{PORT}"

    def command(self):
        host = self.world.host(self.task)
        return [*self.world.prefix(self.task), self.world.tide, "worker", "--listen",
                f"tcp://{host}:{PORT}", "--data-port", str(DATA), "--advertise", self.address,
                "--task", str(self.task), "--key", self.world.keys(self.task), *self.extra]

    def start(self, wait=True):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env={**self.world.env, **self.env})
        self.lines, self.base, self.leaves = Lines(self.process), None, False
        if wait:
            said = self.lines.next(60, "tide")[1]
            if not said or "listens" not in said:
                raise RuntimeError(f"worker {self.task} did not start: {self.lines.all}")

    def send(self, number):
        self.leaves |= number == signal.SIGTERM
        self.process.send_signal(number)

    def end(self, number=signal.SIGKILL):
        """Sends the signal; how it ended."""
        if self.process.poll() is None:
            self.send(number)
            self.send(signal.SIGCONT)
        return self.process.wait(20)

    def holds(self):
        """Descriptors, threads and KiB of memory."""
        proc = f"/proc/{self.process.pid}"
        with open(f"{proc}/status") as f:
            status = f.read()
        return (len(os.listdir(f"{proc}/fd")), int(re.search(r"Threads:\s*(\d+)", status)[1]),
                int(re.search(r"VmRSS:\s*(\d+)", status)[1]))


class World:
    def __init__(self, number, tide, shares=False):
        self.number, self.tide, self.shares = number, tide, shares
        self.busy = []  # processes that take the cores' time
        self.folder = tempfile.TemporaryDirectory(prefix="tide-world-")
        self.env = {**os.environ, "XDG_CONFIG_HOME": self.path("config"),
                    "XDG_RUNTIME_DIR": self.path("run")}
        os.makedirs(self.path("run"), 0o700)
        self.public = [self.make_key(f"key{i}") for i in (0, 1)]
        self.prepare()
        self.workers = [Worker(self, task) for task in (0, 1)]
        for name, text in (("client", CLIENT), ("save", SAVE)):
            with open(self.path(f"{name}.lua"), "w", encoding="utf-8") as f:
                f.write(text)
        self.disk = self.path("disk")
        for folder in (self.disk, self.path("room")):
            os.mkdir(folder)
        mount(self.disk, "300k")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def keys(self, task):
        return self.path(f"key{task}")

    def make_key(self, name):
        subprocess.run([self.tide, "keygen", self.path(name)], check=True, env=self.env,
                       stdout=subprocess.DEVNULL)
        with open(self.path(f"{name}/tide.pub"), encoding="utf-8") as f:
            return f.read()[:40]

    # What differs in a world whose worker 1 is far.
    def prepare(self):
        self.proxies = [[byte_proxy.Proxy((self.dialled(t), port), (self.host(t), port))
                         for port in (PORT, DATA)] for t in (0, 1)]

    def host(self, task):
        return f"127.1.{self.number}.{task + 1}"

    def dialled(self, task):
        return f"127.2.{self.number}.{task + 1}"

    def prefix(self, task):
        return [] if self.shares else ["unshare", "-r"]

    def heal(self):
        for proxy in (p for pair in self.proxies for p in pair):
            proxy.heal()

    # Both workers are there, and go on.
    def ready(self):
        for w in self.workers:
            if w.process and w.leaves:
                w.process.wait(20)
            if not w.process or w.process.poll() is not None:
                w.extra, w.env = [], {}
                w.start()
            w.send(signal.SIGCONT)

    def client(self, size=65536, seconds=30, timeout=0, keys=None, addresses=None,
               script="client", places=None, env=None):
        if os.path.exists(self.path("stop")):
            os.remove(self.path("stop"))
        addresses = addresses or [w.address for w in self.workers]
        words = [f"{a}={k}" for a, k in zip(addresses, keys or self.public)]
        first = [*places, str(seconds)] if places else [
            self.path("stop"), str(size), str(seconds), str(timeout)]
        p = subprocess.Popen([self.tide, self.path(f"{script}.lua"), *first, *words],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True,
                             env={**self.env, **(env or {})})
        return p, Lines(p)

    def close(self):
        for p in self.busy:
            p.kill()
        for w in self.workers:
            if w.process:
                w.end()
        subprocess.run(["umount", self.disk], check=False)
        self.folder.cleanup()


def ip(*words, pid=None):
    inside = ["nsenter", "-t", str(pid), "-n"] if pid else []
    subprocess.run([*inside, *words], check=True, stdout=subprocess.DEVNULL)


class FarWorld(World):
    def prepare(self):
        n = self.number
        self.proxies, self.cable = [], f"v{n}"
        self.other = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 100000"],
                                      stdout=subprocess.PIPE)
        self.other.stdout.readline()
        pid = self.other.pid
        ip("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "w", "netns", str(pid))
        ip("ip", "addr", "add", f"10.9.{n}.1/24", "dev", self.cable)
        ip("ip", "addr", "add", f"10.9.{n}.2/24", "dev", "w", pid=pid)
        ip("ip", "link", "set", "w", "up", pid=pid)
        ip("ip", "link", "set", self.cable, "up")

    def host(self, task):
        return f"10.9.{self.number}.{task + 1}"

    dialled = host

    def prefix(self, task):
        there = ["nsenter", "-t", str(self.other.pid), "-n"] if task else []
        return [*there, *super().prefix(task)]

    def close(self):
        super().close()
        self.other.kill()
        self.other.wait()
