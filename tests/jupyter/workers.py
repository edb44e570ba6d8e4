"""Workers: attached from a notebook, killed, started again; steps that hang there."""
import contextlib
import os
import subprocess
import tempfile
import time

from kernel import Kernel

GRAPH = """td = require 'tide'
sess = td.session()
sess:attach('%s')
x = td.placeholder('float32', {2}, 'x')
y = td.device('/job:worker/task:0', function() return x * 2 end)
function rows() return require 'tide.remote.table'.text(sess:workers()) end"""
STUCK = """q = td.device('/job:worker/task:0', function()
  return td.fifo_queue(2, 'int32', {})
end)
item = q:dequeue()
put = q:enqueue(7)"""
STEP = "sess:run(y, {[x] = {1, 2}})"


class Worker:
    """`tide worker` at a socket in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory( # pylint: disable=consider-using-with
            prefix="tide-worker-")
        self.address = f"ipc://{self.folder.name}/w"
        self.tide = os.path.join(Kernel.build, "tide")
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen( # pylint: disable=consider-using-with
            [self.tide, "worker", "--listen", self.address],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert "listens on" in self.process.stdout.readline()

    def end(self, kill=False):
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


@contextlib.contextmanager
def worker():
    w = Worker()
    try:
        yield w
    finally:
        if w.process.poll() is None:
            w.end()
        w.folder.cleanup()


PATIENCE = 60  # seconds until a state is there, on a machine that others use, too
SOAK = bool(os.environ.get("TIDE_SOAK"))


def in_time(seconds):
    """Seconds that are promised, where the machine is the test's."""
    return seconds if SOAK else PATIENCE


def must(client, code, timeout=PATIENCE):
    r = client.finish(client.start(code), timeout=timeout)
    assert r.status == "ok", (r.content, r.shown)
    return r


def eventually(ready):
    until = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.1)


def interrupted(client, code):
    """Runs what hangs and interrupts it; the prompt is back within a second."""
    m = client.start_running(code)
    time.sleep(0.2)
    began = time.monotonic()
    client.send("interrupt_request", {}, "control")
    r = client.finish(m, timeout=PATIENCE)
    assert time.monotonic() - began < in_time(1)
    assert r.content["ename"] == "KeyboardInterrupt", r.content


def test_a_worker_is_killed_and_started_again(client):
    with worker() as w:
        must(client, GRAPH % w.address)
        assert "{2, 4}" in must(client, STEP).value()
        shown = must(client, "sess:workers()").of("execute_result")[0]["data"]
        assert "1 worker: 1 up" in shown["text/plain"]
        assert "<table" in shown["text/html"]
        w.end(kill=True)
        began = time.monotonic()
        r = client.finish(client.start(STEP), timeout=PATIENCE)
        assert time.monotonic() - began < in_time(10)
        assert r.status == "error"
        assert "/job:worker/replica:0/task:0" in r.content["evalue"]
        assert "In[" in r.content["evalue"], r.content
        assert "1 dead" in must(client, "print(rows())").text()
        w.start()
        eventually(lambda: client.run(STEP).status == "ok")
        assert "1 up" in must(client, "print(rows())").text()
        must(client, "sess:detach '/job:worker/task:0'")


def test_a_step_that_hangs_there(client):
    with worker() as w:
        must(client, GRAPH % w.address)
        must(client, STUCK)
        for _ in range(3):
            interrupted(client, "sess:run(item)")
        # Nobody of those waits for an item there any more.
        must(client, "sess:run(put)")
        assert must(client, "sess:run(item)").value() == "7"
        must(client, "sess:close()")


JOB = """td = require 'tide'
sess = td.session{target = '%s', outlive = true, name = 'job'}
n = td.variable(td.zeros{}, 'n')
sess:init()
h = sess:loop(n:assign_add(1.0), {log = {n = n * 1}, every = 1000})"""
BACK = """td = require 'tide'
sess = td.session{target = '%s', name = 'job'}
h = sess:loops()[1]"""
STUCK_AT = """sess:as_default(function()
  item = td.fifo_queue(2, 'int32', {}):dequeue()
end)"""
CHART = """h:cancel()
log = h:log().n
c = td.chart{x = 'step', title = 'n'}
for i, step in ipairs(log.steps) do
  if step ~= 1000 * i then error(step) end
  c:log{step = step, n = log.values[i]}
end"""


def test_a_loop_outlives_the_kernel(fresh):
    """Another kernel joins: the loop goes on, its chart is whole, steps are interrupted."""
    k = fresh()
    with worker() as w:
        with k.client() as c:
            must(c, JOB % w.address)
            eventually(lambda: int(must(c, "#h:log().n.steps").value()) >= 3)
            k.process.kill()
            k.wait()
        k.start()
        with k.client() as c:
            must(c, BACK % w.address)
            before = int(must(c, "h:steps()").value())
            eventually(lambda: int(must(c, "h:steps()").value()) > before)
            must(c, STUCK_AT)
            interrupted(c, "sess:run(item)")
            must(c, CHART)
            shown = must(c, "c").of("execute_result")[0]["data"]
            assert any("vega" in form for form in shown), shown.keys()
            must(c, "sess:close()")


def test_completion_knows_devices(client):
    with worker() as w:
        must(client, GRAPH % w.address)
        code = "td.device '/job:wor"
        c = client.request("complete_request",
                           {"code": code, "cursor_pos": len(code)}).content
        assert any(m.startswith("/job:worker") and "task:0" in m
                   for m in c["matches"]), c
        must(client, "sess:close()")


def test_a_table_that_moves(client):
    with worker() as w:
        must(client, GRAPH % w.address)
        r = must(client, "sess:panel{every = 0.2, seconds = 3}")
        assert "1 up" in r.of("display_data")[0]["data"]["text/plain"]
        assert len(r.of("update_display_data")) >= 2, r.types()
        interrupted(client, "sess:panel()")
        must(client, "sess:close()")


def test_a_kernel_that_ends_leaves_nothing(fresh):
    """However it ends: what it had at the worker goes, and others go on."""
    other, k = fresh(), fresh()
    with worker() as w, other.client() as mine:
        must(mine, GRAPH % w.address)
        memory = "sess:workers()[1].memory"
        for how in ("shutdown", "kill"):
            before = float(must(mine, memory).value())
            with k.client() as c:
                must(c, GRAPH % w.address)
                must(c, "v = td.device('/job:worker/task:0', function() "
                        "return td.variable(td.zeros{1000000}, 'v') end)\n"
                        "sess:init()")
                eventually(lambda b=before: float(must(mine, memory).value()) > b + 3e6)
                if how == "shutdown":
                    c.send("shutdown_request", {"restart": False}, "control")
                    k.wait()
                else:
                    k.process.kill()
                    k.wait()
            eventually(lambda b=before: float(must(mine, memory).value()) < b + 1e6)
            assert "{2, 4}" in must(mine, STEP).value()
            k.start()
        assert "1 up" in must(mine, "print(rows())").text()
        must(mine, "sess:close()")
