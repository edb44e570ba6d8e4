#!/usr/bin/env python3
"""notebook.py - the kernel's times, and ipykernel's, as a client sees them.

A contestant of run.py: each line "go" is answered with one measurement.

usage: notebook.py BUILD tide|ipykernel ROW
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "jupyter"))
from kernel import Client, Kernel  # noqa: E402

# What a cell is written like, in either language.
CODE = {
    "tide": {
        "lines": "for i = 1, %d do print(i) end",
        "loop": "while true do end",
        "setup": "td = require 'tide' sess = td.session() "
                 "x = td.while_loop(function(i) return td.greater_equal(i, 0) "
                 "end, function(i) return i * 1 end, {1})",
        "step": "sess:run(x)", "name": "string.re",
    },
    "ipykernel": {
        "lines": "for i in range(%d): print(i)",
        "loop": "while True: pass",
        "setup": "import time",  # steps it has none
        "step": "time.sleep(1)", "name": "str.re",
    },
}


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


class Contestant:
    def __init__(self, which):
        self.which, self.code = which, CODE[which]
        self.kernel = self.client = None

    def make(self):
        """Starts a kernel; seconds until it answers."""
        program = None
        if self.which == "ipykernel":
            program = [sys.executable, "-m", "ipykernel_launcher", "-f"]
        self.kernel = Kernel(program=program, start=False)
        start = time.perf_counter()
        self.kernel.start()
        self.client = Client(self.kernel, ready=False)
        m = self.client.send("kernel_info_request", {})
        self.client.reply_to(m, timeout=60)
        took = time.perf_counter() - start
        while self.client.iopub.poll(300):
            self.client.iopub.recv_multipart()
        return took

    def end(self):
        self.client.close()
        self.kernel.process.kill()
        self.kernel.process.wait()
        self.kernel.stop()
        self.client = None

    def timed(self, f, count=200):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            f()
            times.append(time.perf_counter() - start)
        return times

    # ---- rows ----

    def jupyter_start(self):
        if self.client:
            self.end()
        return self.make()

    def jupyter_rss(self):
        return self.kernel.memory() / (1 << 20)

    def jupyter_execute(self):
        return statistics.median(self.timed(lambda: self.client.run("1")))

    def jupyter_execute_p99(self):
        return percentile(self.timed(lambda: self.client.run("1")), 0.99)

    def complete(self):
        name = self.code["name"]
        self.client.request("complete_request",
                            {"code": name, "cursor_pos": len(name)},
                            timeout=120)

    def jupyter_complete_p99(self):
        return percentile(self.timed(self.complete), 0.99)

    def jupyter_complete_busy_p99(self):
        """While a step runs, whose end the peer waits for: it gets one that
        ends, and is asked once."""
        self.client.run(self.code["setup"])
        m = self.client.start_running(self.code["step"])
        ends = self.which == "ipykernel"
        times = self.timed(self.complete, 1 if ends else 100)
        if not ends:
            self.client.send("interrupt_request", {}, "control")
        self.client.finish(m)
        return percentile(times, 0.99)

    def jupyter_print_million(self):
        start = time.perf_counter()
        self.client.run(self.code["lines"] % 1000000, timeout=300)
        return time.perf_counter() - start

    def jupyter_interrupt(self):
        times = []
        for _ in range(10):
            m = self.client.start_running(self.code["loop"])
            time.sleep(0.02)
            start = time.perf_counter()
            self.client.send("interrupt_request", {}, "control")
            self.client.reply_to(m)
            times.append(time.perf_counter() - start)
            self.client.shown_by(m)
        return statistics.median(times)

    def jupyter_shutdown(self):
        if not self.client:
            self.make()
        start = time.perf_counter()
        self.client.send("shutdown_request", {"restart": False}, "control")
        self.kernel.wait(30)
        took = time.perf_counter() - start
        self.end()
        return took

    def jupyter_idle(self):
        """Ticks of the processor in five seconds."""
        def ticks():
            with open(f"/proc/{self.kernel.process.pid}/stat",
                      encoding="ascii") as f:
                v = f.read().rsplit(")", 1)[1].split()
            return int(v[11]) + int(v[12])
        start = ticks()
        time.sleep(5)
        return ticks() - start


def main():
    Kernel.build = sys.argv[1]
    c = Contestant(sys.argv[2])
    row = getattr(c, sys.argv[3])
    if sys.argv[3] not in ("jupyter_start", "jupyter_shutdown"):
        c.make()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "go":
            print(row(), flush=True)
    if c.client:
        c.end()


if __name__ == "__main__":
    main()
