"""A terminal with the prompt in it: a pseudo-terminal, and pyte as its screen.

After each key the editor writes what it has as a line of JSON to a pipe
(TIDE_EDIT_DUMP), so that nothing here waits by the clock: a key has been dealt
with when its line is there and the bytes drawn before it have been read.
"""
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import tempfile
import termios
import time

import pyte

KEYS = {
    "<up>": "\x1b[A", "<down>": "\x1b[B", "<right>": "\x1b[C", "<left>": "\x1b[D",
    "<home>": "\x1b[H", "<end>": "\x1b[F", "<delete>": "\x1b[3~", "<tab>": "\t",
    "<backtab>": "\x1b[Z", "<enter>": "\r", "<escape>": "\x1b", "<backspace>": "\x7f",
    "<page_up>": "\x1b[5~", "<page_down>": "\x1b[6~", "<alt_enter>": "\x1b\r",
}


def ctrl(letter):
    return chr(ord(letter.upper()) ^ 64)


def alt(letter):
    return "\x1b" + letter


def paste(text):
    return "\x1b[200~" + text + "\x1b[201~"


class Terminal:
    """One `tide` in a terminal of its own, with its own home."""

    def __init__(self, tide, columns=80, lines=24, env=None, history=(), args=("-i",),
                 dump=True):
        self.home = tempfile.mkdtemp(prefix="tide-prompt-")
        self.columns, self.lines = columns, lines
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.sent = 0
        self.state = {"keys": -1}
        self.written = b""
        self.keep(history)
        full = dict(os.environ, TERM="xterm-256color", HOME=self.home,
                    XDG_STATE_HOME=self.home + "/state", XDG_CONFIG_HOME=self.home + "/config",
                    LC_ALL="C.UTF-8", **(env or {}))
        for name in ("TIDE_EDIT", "INPUTRC", "NO_COLOR"):
            if name not in (env or {}):
                full.pop(name, None)
        self.door, inside = os.pipe()
        if dump:
            full["TIDE_EDIT_DUMP"] = str(inside)
        self.pid, self.tty = pty.fork()
        if self.pid == 0:
            os.set_inheritable(inside, True)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execve(tide, [tide, *args], full)
        os.close(inside)
        self.lines_of_dump = b""
        self.status = None

    def keep(self, history):
        """Writes a history as an earlier session would have."""
        if not history:
            return
        os.makedirs(self.home + "/state/tide")
        with open(self.home + "/state/tide/history", "w", encoding="utf-8") as f:
            f.write(json.dumps({"s": 1, "t": 1}) + "\n")
            for n, text in enumerate(history):
                f.write(json.dumps({"s": 1, "n": n + 1, "i": text}) + "\n")

    # ---- reading ----

    def read(self, timeout):
        """Reads what there is; false when nothing came within the timeout."""
        ready, _, _ = select.select([self.tty, self.door], [], [], timeout)
        if self.tty in ready:
            try:
                data = os.read(self.tty, 65536)
            except OSError:
                data = b""
            if not data and self.door not in ready:
                raise EOFError
            self.written += data
            self.stream.feed(data)
        elif self.door in ready:
            data = os.read(self.door, 65536)
            if not data:
                self.drain()
                raise EOFError
            self.lines_of_dump += data
            *done, self.lines_of_dump = self.lines_of_dump.split(b"\n")
            for line in done:
                self.state = json.loads(line)
        return bool(ready)

    def drain(self):
        """Reads the terminal up to what was written until now."""
        while select.select([self.tty], [], [], 0)[0]:
            try:
                data = os.read(self.tty, 65536)
            except OSError:
                return
            if not data:
                return
            self.written += data
            self.stream.feed(data)

    def wait(self, true, what, timeout=20):
        end = time.monotonic() + timeout
        while not true():
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}; state {self.state}, screen\n"
                                     + "\n".join(self.text()))
            self.read(0.5)
        self.drain()

    # ---- doing ----

    def start(self):
        self.wait(lambda: self.state["keys"] >= 0, "the prompt")
        return self

    def send(self, *keys):
        """Types keys, each a name of KEYS, a sequence, or characters; waits."""
        for key in keys:
            whole = key in KEYS or key[0] == "\x1b"
            for one in [KEYS.get(key, key)] if whole else key:
                os.write(self.tty, one.encode())
                self.sent += 1
                self.wait(lambda: self.state["keys"] >= self.sent, f"key {one!r}")
        return self

    def enter(self, text=""):
        """Types a text and Enter; waits for the prompt that follows."""
        return self.send(*([text] if text else []), "<enter>")

    def raw(self, data):
        os.write(self.tty, data if isinstance(data, bytes) else data.encode())

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        before = len(self.written)
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)
        self.wait(lambda: len(self.written) > before, "a redraw")
        self.read(0.2)

    # ---- looking ----

    def text(self):
        """The screen's rows, without spaces at their ends."""
        return [row.rstrip() for row in self.screen.display]

    def row(self, part):
        """The number of the last row that holds `part`."""
        found = [i for i, row in enumerate(self.text()) if part in row]
        assert found, f"{part!r} is not on the screen:\n" + "\n".join(self.text())
        return found[-1]

    def cell(self, row, column):
        return self.screen.buffer[row][column]

    def color(self, part):
        """The colour of the first letter of `part`, in its last row."""
        row = self.row(part)
        return self.cell(row, self.text()[row].index(part)).fg

    def modes(self):
        return termios.tcgetattr(self.tty)

    def end(self, timeout=10):
        """Waits for the process to end; its exit code, or minus the signal."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.drain()
                self.status = os.waitstatus_to_exitcode(status)
                return self.status
            try:
                self.read(0.05)
            except EOFError:
                time.sleep(0.01)
        raise AssertionError("it did not end; screen\n" + "\n".join(self.text()))

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.tty)
        os.close(self.door)
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
