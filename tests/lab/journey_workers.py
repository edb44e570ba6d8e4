"""journey_workers.py - workers, seen from JupyterLab: attached, killed, back again; a
loop that outlives the kernel; where a step's time went.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import tempfile

import browser

GRAPH = '''
td = require 'tide'
sess = td.session()
sess:attach{"%s", "%s"}
x = td.placeholder("float32", {256, 256}, "x")
h = td.device("/job:worker/task:0", function() return x:matmul(x) end)
y = td.device("/job:worker/task:1", function() return h:matmul(x):mean() end)
'''
STEP = "sess:run(y, {[x] = td.value.ones{256, 256}})"
TABLE = "sess:workers()"
TRACE = '''
local _, profile = sess:run(y, {[x] = td.value.ones{256, 256}}, {trace = true})
profile
'''
JOB = '''
local job = td.session{target = "%s", outlive = true, name = "job", graph = td.graph()}
job:as_default(function()
  local n = td.variable(td.zeros{}, "n")
  job:init()
  loop = job:loop(n:assign_add(1.0), {log = {n = n:read() * 1}, every = 1000})
end)
print "it goes on"
'''
JOIN = '''
td = require 'tide'
local job = td.session{target = "%s", name = "job"}
local loop = job:loops()[1]
loop:cancel()
local log, chart = loop:log().n, td.chart{x = "step", title = "n"}
for i, step in ipairs(log.steps) do
  assert(step == 1000 * i)
  chart:log{step = step, n = log.values[i]}
end
job:close()
print("whole: " .. #log.steps)
'''


class Worker:
    """`tide worker` as a task, at a socket in a folder of its own."""

    def __init__(self, task):
        # pylint: disable-next=consider-using-with
        self.folder = tempfile.TemporaryDirectory(prefix="tide-worker-")
        self.address = f"ipc://{self.folder.name}/w"
        self.task = task
        self.start()

    def start(self):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [os.path.join(browser.BUILD, "tide"), "worker", "--listen",
             self.address, "--job", "worker", "--task", str(self.task)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert "listens on" in self.process.stdout.readline()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        self.kill()
        self.folder.cleanup()


class Workers(browser.Case):
    def setUp(self):
        self.workers = []
        for task in range(2):
            self.workers.append(Worker(task))
            self.addCleanup(self.workers[-1].close)

    def addresses(self):
        return tuple(w.address for w in self.workers)

    def test_a_worker_goes_and_comes_back(self):
        b = self.open(GRAPH % self.addresses(), STEP, TABLE, STEP, TABLE, STEP,
                      TABLE)
        for i in range(3):
            b.run(i)
            b.wait_done(i)
        b.wait_output(1, "65536")
        b.wait_output(2, "2 workers: 2 up")
        b.shot("workers")
        self.workers[1].kill()
        b.run(3)
        b.wait_output(3, "/job:worker/replica:0/task:1")
        b.run(4)
        b.wait_output(4, "1 dead")
        b.shot("worker_killed")
        self.workers[1].start()
        b.wait("the worker", lambda: (
            b.run(5), b.wait_done(5), "65536" in b.output(5))[-1])
        b.run(6)
        b.wait_output(6, "2 up")
        b.shot("worker_back")

    def test_where_the_time_went(self):
        b = self.open(GRAPH % self.addresses(), STEP, TRACE)
        for i in range(3):
            b.run(i)
            b.wait_done(i)
        b.wait_output(2, "lanes of 3 tasks, 3 transfers")
        b.wait("picture", lambda: b.pictures(2) and all(b.pictures(2)))
        b.js("arguments[0].scrollIntoView()", b.cell(2))
        b.shot("workers_trace")

    def test_a_loop_outlives_the_kernel(self):
        address = self.addresses()[0]
        b = self.open("td = require 'tide'", JOB % address, "#loop:log().n.steps > 3",
                      JOIN % address)
        for i in range(2):
            b.run(i)
            b.wait_done(i)
        b.wait("a log", lambda: (
            b.run(2), b.wait_done(2), "true" in b.output(2))[-1])
        b.driver.execute_async_script("""
            const done = arguments[0];
            window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
              .restart().then(done, done);""")
        b.wait("idle kernel", b.idle)
        b.run(3)
        b.wait_output(3, "whole: ")
        b.wait("chart", lambda: b.cell(3).find_elements(
            browser.By.CSS_SELECTOR, ".vega-embed, .jp-RenderedVegaCommon5"))
        b.js("arguments[0].scrollIntoView()", b.cell(3))
        b.shot("loop_joined")
