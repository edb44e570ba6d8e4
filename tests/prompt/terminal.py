"""terminal.py - a terminal with the prompt in it: a pseudo-terminal, and pyte as
its screen.

Behind each draw the editor tells what it has, as JSON in an escape sequence
(TIDE_EDIT_DUMP), so that nothing here waits by the clock: a key has been dealt
with when its number has come, and all that was drawn for it came before.

SPDX-License-Identifier: Apache-2.0
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
import unicodedata

import pyte
from wcwidth import wcwidth

# By these the editor knows a terminal that wraps its rows anew; pyte does not.
WRAPPING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE",
            "KONSOLE_VERSION", "ITERM_SESSION_ID", "WT_SESSION", "TERM_PROGRAM",
            "GHOSTTY_RESOURCES_DIR")
MARK = b"\x1b]tide;"
TIDE = os.path.join(os.environ.get("TIDE_BUILD", "build"), "tide")

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


class Screen(pyte.Screen):
    """pyte's, which loses marks on a row's last cell and on wide characters."""

    def draw(self, data):
        for char in data:
            if wcwidth(char) != 0:
                super().draw(char)
            elif unicodedata.combining(char) and self.cursor.x > 0:
                row, x = self.buffer[self.cursor.y], self.cursor.x - 1
                if row[x].data == "" and x > 0:
                    x -= 1
                row[x] = row[x]._replace(data=row[x].data + char)


class Terminal:
    """One `tide` in a terminal of its own, with its own home."""

    def __init__(self, columns=80, lines=24, env=None, history=(), args=("-i",)):
        self.home = tempfile.mkdtemp(prefix="tide-prompt-")
        self.columns, self.lines = columns, lines
        self.screen = Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.sent = 0
        self.state = {"keys": -1}
        self.written = b""
        self.keep(history)
        ours = {"TERM": "xterm-256color", "HOME": self.home, "LC_ALL": "C.UTF-8",
                "TIDE_EDIT_DUMP": "1", "XDG_STATE_HOME": self.home + "/state", "XDG_CONFIG_HOME": self.home + "/config"}
        full = {**os.environ, **ours, **(env or {})}
        for name in ("TIDE_EDIT", "INPUTRC", "NO_COLOR", *WRAPPING):
            if name not in (env or {}):
                full.pop(name, None)
        self.tty, inside = pty.openpty()
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.found = self.modes()  # as whoever ran it left it
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.tty)
            os.setsid()
            fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(inside, fd)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)  # ignored in the background
            os.execve(TIDE, [TIDE, *args], full)
        os.close(inside)
        self.pending = b""
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
        if not select.select([self.tty], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.tty, 65536)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        self.pending += data
        self.take()
        return True

    def take(self):
        """Feeds the screen, and takes the editor's state out of it."""
        while (start := self.pending.find(MARK)) >= 0:
            stop = self.pending.find(b"\x07", start)
            self.feed(self.pending[:start])
            self.pending = self.pending[start:]
            if stop < 0:
                return
            self.state = json.loads(self.pending[len(MARK):stop - start])
            self.pending = self.pending[stop - start + 1:]
        keep = next((n for n in range(len(MARK) - 1, 0, -1) if self.pending.endswith(MARK[:n])), 0)
        self.feed(self.pending[:len(self.pending) - keep])
        self.pending = self.pending[len(self.pending) - keep:]

    def feed(self, data):
        self.written += data
        self.stream.feed(data)

    def drain(self):
        """Reads what is left of a process that has ended."""
        try:
            while self.read(0):
                pass
        except EOFError:
            pass

    def wait(self, true, what, timeout=20):
        end = time.monotonic() + timeout
        while not true():
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}; state {self.state}, screen\n"
                                     + "\n".join(self.text()))
            self.read(0.5)

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
        """Resizes the terminal, which signals; waits for the redraw."""
        if (columns, lines) == (self.columns, self.lines):
            return
        self.columns, self.lines = columns, lines
        self.state = {**self.state, "ns": None}
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.wait(lambda: self.state["ns"] is not None, "a redraw")

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
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
