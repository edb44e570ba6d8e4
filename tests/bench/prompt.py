"""prompt.py - the prompt's times, through a pseudo-terminal.

Behind each draw the editor writes its state to the terminal (TIDE_EDIT_DUMP):
then a key has been dealt with and what it changed is drawn.
"""
import os
import pty
import select
import shutil
import signal
import statistics
import tempfile
import time

# What is in the editor when keys are timed: an ordinary chunk.
CHUNK = "\n".join(f"  local y{i} = td.matmul(x, w{i}) + b{i} -- layer {i}" for i in range(20))


class Prompt:
    def __init__(self, tide):
        self.home = tempfile.mkdtemp(prefix="tide-bench-")
        env = dict(os.environ, TERM="xterm", HOME=self.home, TIDE_EDIT_DUMP="1",
                   XDG_STATE_HOME=self.home, XDG_CONFIG_HOME=self.home)
        self.start = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(tide, [tide], env)
        self.wait()

    def wait(self):
        """Seconds since the start when the next draw has arrived."""
        seen = b""
        while b"\x1b]tide;" not in seen or not seen.endswith(b"\x07"):
            if not select.select([self.fd], [], [], 10)[0]:
                raise RuntimeError("the prompt says nothing")
            seen += os.read(self.fd, 65536)
        return time.perf_counter() - self.start

    def key(self, data):
        """Seconds from a key to its draw."""
        begun = time.perf_counter() - self.start
        os.write(self.fd, data)
        return self.wait() - begun

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        shutil.rmtree(self.home)


def prompt_start(tide):
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        p = Prompt(tide)
        times.append(time.perf_counter() - begun)
        p.end()
    return statistics.median(times)


def prompt_key(tide):
    p = Prompt(tide)
    p.key(b"\x1b[200~do\n" + CHUNK.encode() + b"\x1b[201~")
    keys = list(b" z = relu(y19) + (1)") + [127] * 20
    times = [p.key(bytes([k])) for _ in range(10) for k in keys]
    p.end()
    return statistics.median(times)


ROWS = {"prompt_start": prompt_start, "prompt_key": prompt_key}
