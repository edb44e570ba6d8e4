"""live.py - bars and charts of programs on a terminal, and what is printed
beside them: every line whole, at every width.

SPDX-License-Identifier: Apache-2.0
"""
import fcntl
import os
import signal
import struct
import subprocess
import tempfile
import termios
import unittest

import terminal
from terminal import TIDE, Terminal, ctrl

WIDTHS = (40, 80, 200)
BAR = r"^%s\[#+\] %d/%d, \d:\d\d$"
NAP = "local function nap() local t = os.clock() while os.clock() - t < 0.003 do end end\n"

# Everything that writes, while a bar is there.
STREAMS = """
local td = require "tide"
local x = td.print(td.constant(3), "the op says")
io.write "before"
for i in td.progress(%d, {title = "bar"}) do
  if i == 10 then print "by print" end
  if i == 20 then io.write "no newline, " io.stdout:flush() end
  if i == 30 then io.write "then one\\n" end
  if i == 40 then io.stderr:write "on stderr\\n" end
  if i == 50 then x:eval() end
  if i == 60 then os.execute "echo a child; echo its second line; printf 'and no newline'" end
  if i == 70 then io.write(("w"):rep(COLUMNS)) io.write "\\nafter a full row\\n" end
  if i == 75 then io.write(("v"):rep(COLUMNS), "goes on\\n") end
  if i == 80 then print "gr\\u{fc}\\u{df}e \\27[31mred\\27[0m \\u{4f60}\\u{597d}" end
  if i == 85 then warn "@on" warn "of Lua" end
  if i == 90 then io.popen("cat >&2", "w"):write("a pipe\\n"):close() end
  nap()
end
print "behind"
"""


def said(columns):
    rows = ["before", "by print", "no newline, then one", "on stderr", "the op says[3]", "a child",
            "its second line", "and no newline", "w" * columns, "after a full row", "v" * columns,
            "goes on", "gr\u00fc\u00dfe red \u4f60\u597d", "Lua warning: of Lua", "a pipe"]
    return rows


class Live(unittest.TestCase):
    def run_text(self, text, columns=80, args=(), code=0, lines=60, env=None):
        """The rows that a program leaves on the screen."""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as f:
            f.write(NAP + text)
            f.flush()
            with Terminal(columns, lines, args=(f.name, *args), env=env) as t:
                self.assertEqual(t.end(60), code, "\n".join(t.text()))
                self.assertEqual(t.screen.cursor.x, 0)
                return [row for row in t.text() if row]

    def test_all_that_writes(self):
        for columns in WIDTHS:
            with self.subTest(columns):
                text = STREAMS.replace("COLUMNS", str(columns)) % 100
                rows = self.run_text(text, columns)
                wide = [row.replace("\u4f60 \u597d", "\u4f60\u597d") for row in rows]
                self.assertEqual(wide[:-2], said(columns))
                self.assertRegex(rows[-2], BAR % ("bar ", 100, 100))
                self.assertEqual(rows[-1], "behind")

    def test_a_hundred_times_the_prints(self):
        rows = self.run_text("""
            local td = require "tide"
            for i in td.progress(1000) do print(i) io.stderr:write("e", i, "\\n") end
        """, 40, lines=40)
        self.assertRegex(rows[-1], BAR % ("", 1000, 1000))
        self.assertEqual(rows[-3:-1], ["1000", "e1000"])
        self.assertTrue(all(row.lstrip("e").isdigit() for row in rows[:-1]), rows)

    def test_demo(self):
        for columns in WIDTHS:
            with self.subTest(columns), Terminal(
                    columns, 30, args=("tutorials/mnist_mlp.lua", "--smoke", "--epochs", "3")) as t:
                self.assertEqual(t.end(60), 0, t.text())
                rows = [row for row in t.text() if row]
                self.assertEqual(len(rows), 5, rows)
                self.assertRegex(rows[0], r"^epoch 1: loss \d\.\d{4}$")
                self.assertRegex(rows[1], r"^epoch 2: loss \d\.\d{4}$")
                self.assertRegex(rows[2], BAR % ("training ", 30, 30))
                self.assertRegex(rows[3], r"^epoch 3: loss \d\.\d{4}$")
                self.assertRegex(rows[4], r"^test_accuracy: \d\.\d{4}$")

    def test_fit_and_chart(self):
        text = """
            local td = require "tide"
            local x = td.placeholder("float32", {-1}, "x")
            local w = td.variable(0.0, "w")
            local loss = ((x * w - x * 3) ^ 2):mean()
            local c = td.chart{title = "loss"}
            local told = {}
            function told:step_end(run)
              nap()
              c:log{loss = run.loss}
              if run.step % 20 == 0 then print("step", run.step) end
            end
            td.train.fit{loss = loss, train = td.train.sgd(0.1):minimize(loss), epochs = 2,
              batch = 1, data = td.data.of{x = td.value.ones{40}}, hooks = {told}}
        """
        for columns in WIDTHS:
            with self.subTest(columns):
                rows = self.run_text(text, columns)
                self.assertEqual(len(rows), 9, rows)
                self.assertEqual(rows[:2], ["step    20", "step    40"])
                self.assertRegex(rows[2], BAR % ("epoch 1 ", 40, 40))
                self.assertRegex(rows[3], r"^epoch 1: loss \d\.\d{4}$")
                self.assertRegex(rows[6], BAR % ("epoch 2 ", 40, 40))
                self.assertRegex(rows[8], r"^loss:  loss \d\S+ \S+$")

    def test_several(self):
        rows = self.run_text("""
            local td = require "tide"
            for i in td.progress(3, {title = "outer"}) do
              for j in td.progress(5, {title = "inner"}) do print(i, j) nap() end
            end
        """, 80)
        self.assertEqual(len(rows), 3 * 6 + 1, rows)
        for i in range(3):
            self.assertEqual(rows[6 * i], f"{i + 1}       1")
            self.assertRegex(rows[6 * i + 5], BAR % ("inner ", 5, 5))
        self.assertRegex(rows[-1], BAR % ("outer ", 3, 3))

    def test_more_than_fit(self):
        rows = self.run_text("""
            local td = require "tide"
            local function nest(n)
              if n > 12 then print "deep" return nap() end
              for _ in td.progress(1, {title = "n" .. n}) do nest(n + 1) end
            end
            nest(1)
        """, lines=6)
        self.assertRegex(rows[-1], r"^n1 \[#+\] 1/1")

    def test_how_bars_end(self):
        rows = self.run_text("""
            local td = require "tide"
            for i in td.progress(9, {title = "left"}) do if i == 4 then break end end
            local left = 2
            local function two() left = left - 1 return left >= 0 or nil end
            for _ in td.progress(two, {title = "fewer", total = 7}) do nap() end
            print(pcall(function() for i in td.progress(5) do print "in" error("no", 0) end end))
            local step = td.progress(4, {title = "nobody ends it"})
            step() step()
            error("at the end", 0)
        """, code=1)
        self.assertRegex(rows[0], r"^left \[#+\.+\] 3/9, \d:\d\d left$")
        self.assertRegex(rows[1], BAR % ("fewer ", 2, 2))
        self.assertEqual(rows[2], "in")
        self.assertRegex(rows[3], r"^\[\.+\] 0/5, \? left$")
        self.assertEqual(rows[4], "false   no")
        self.assertRegex(rows[5], r"^nobody ends it \[#+\.+\] 1/4, \d:\d\d left$")
        self.assertEqual(rows[6], "tide: at the end")

    def test_leaving(self):
        for call in ("os.exit(3)", "os.exit(3, true)"):
            rows = self.run_text(f"""
                local td = require "tide"
                for i in td.progress(9) do io.write "x" if i == 4 then {call} end end
            """, code=3)
            self.assertEqual(rows[0], "xxxx")
            self.assertRegex(rows[1], r"^\[#*\.+\] \d/9, \S+ left$")

    def test_titles(self):
        for title in ("\u4f60\u597d" * 30, "two\\nrows", "\\27[31mred", "\\xff\\xfe", "long " * 50):
            rows = self.run_text(f"""
                local td = require "tide"
                for i in td.progress(9, {{title = "{title}"}}) do print "p" end
            """, 40)
            self.assertEqual(rows[:-1], ["p"] * 9, title)

    def test_interrupt(self):
        with Terminal(args=("-e", "local td = require 'tide' for i in td.progress(1e9) do "
                            "if i == 1 then print 'on' end end")) as t:
            t.wait(lambda: "on" in t.text() and any("[" in row for row in t.text()), "the bar")
            t.raw(ctrl("c"))
            self.assertEqual(t.end(), 130)
            rows = [row for row in t.text() if row]
            self.assertEqual(rows[0], "on")
            self.assertEqual(rows[1], "^C")
            self.assertRegex(rows[2], r"^\[\.+\] \d+/1000000000, \S+ left$")
            self.assertEqual(rows[3:], ["interrupted"])

    def test_newlines_behind_a_full_row(self):
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as f:
            f.write("""
                local td = require "tide"
                for i in td.progress(1) do
                  io.stderr:write(("w"):rep(40))
                  for _ = 1, 3 do io.stderr:write "\\n" end
                  io.stderr:write "after\\n"
                end
            """)
            f.flush()
            with Terminal(40, 20, args=(f.name,)) as t:
                self.assertEqual(t.end(60), 0)
                self.assertEqual(t.text()[:4], ["w" * 40, "", "", "after"])

    def test_a_child_that_does_not_start(self):
        with Terminal(args=("-e", "local td = require 'tide' for i in td.progress(1e9) do "
                            "if i == 1 then pcall(io.popen, 'true', 'no mode') print 'on' end "
                            "end")) as t:
            t.wait(lambda: "on" in t.text() and any("[" in row for row in t.text()), "the bar")
            t.raw(ctrl("c"))
            self.assertEqual(t.end(), 130)

    def test_another_size(self):
        with Terminal(80, 20, args=("-e", "local td = require 'tide' for i in td.progress(200) do "
                                    "print(i) io.read() end")) as t:
            for n, size in enumerate(((40, 20), (120, 8), (60, 30))):
                t.wait(lambda n=n: str(n + 1) in t.text(), "a number")
                t.columns, t.lines = size
                t.screen.resize(size[1], size[0])
                fcntl.ioctl(t.tty, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
                t.raw("\n")
            t.wait(lambda: "4" in t.text(), "a number")
            t.raw(b"\n" * 197)
            self.assertEqual(t.end(30), 0)
            rows = [row for row in t.text() if row]
            self.assertRegex(rows[-1], BAR % ("", 200, 200))
            self.assertEqual(len(rows[-1]), 59)

    def test_at_the_prompt(self):
        for columns in WIDTHS:
            with self.subTest(columns), Terminal(columns) as t:
                t.start().enter("for i in td.progress(30) do if i % 10 == 0 then print(i) end end")
                row = t.row("In [2]")
                shown = t.text()
                self.assertEqual(shown[row - 4:row - 1], ["10", "20", "30"])
                self.assertRegex(shown[row - 1], BAR % ("", 30, 30))
                t.enter("c = td.chart() for i = 1, 9 do c:log{a = i} print(i) end")
                row = t.row("In [3]")
                self.assertEqual(t.text()[row - 2], "9")
                self.assertRegex(t.text()[row - 1], "^a 9 ")

    def run_plain(self, text, code=0):
        """The same with the module in somebody else's lua5.4; a build with
        sanitizers has none, the plain one above it has."""
        was = terminal.TIDE
        folder = os.path.dirname(was)
        if not os.path.exists(f"{folder}/tide.so"):
            folder = os.path.dirname(folder)
        path = f'package.cpath = "{folder}/?.so;" .. package.cpath\n'
        try:
            terminal.TIDE = "/usr/bin/lua5.4"
            return self.run_text(path + text, code=code)
        finally:
            terminal.TIDE = was

    def test_a_chart_that_nobody_ends(self):
        chart = """
            local c = require("tide").chart{title = "t"}
            for i = 1, 30 do c:log{a = i} print(i) end
        """
        for run in (self.run_text, self.run_plain):
            rows = run(chart + "print 'behind'")
            self.assertEqual(rows[:-1], [*map(str, range(1, 31)), "behind"])
            self.assertRegex(rows[-1], r"^t:  a 30 \S+$")
            rows = run(chart + "error('no', 0)", code=1)
            self.assertEqual(sum(row.startswith("t:  a 30 ") for row in rows), 1)
            self.assertTrue(any(row.endswith(": no") for row in rows))

    def test_a_plain_lua(self):
        rows = self.run_plain("""
            local td = require "tide"
            for i in td.progress(50, {title = "bar"}) do
              if i % 10 == 0 then print(i) io.stderr:write("e", i, "\\n") end
            end
            print "behind"
        """)
        self.assertEqual(rows[:4], ["10", "e10", "20", "e20"])
        self.assertRegex(rows[-2], BAR % ("bar ", 50, 50))
        self.assertEqual(rows[-1], "behind")

    def test_no_terminal(self):
        """Not one escape sequence, and no bar, goes into files and pipes."""
        text = NAP + STREAMS.replace("COLUMNS", "80") % 100
        env = {**os.environ, "TERM": "xterm-256color"}
        both = subprocess.run([TIDE, "-e", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=env, timeout=60, check=True).stdout
        self.assertEqual(both.count(b"\x1b"), 2)
        self.assertNotIn(b"bar", both)
        rows = self.run_text(text, env={"TERM": "dumb"})
        self.assertFalse([row for row in rows if row.startswith("bar")])

    def test_one_stream_is_a_file(self):
        with tempfile.TemporaryDirectory() as d:
            for to, bars in ((">", 1), ("2>", 0)):
                rows = self.run_text(f"""
                    local td = require "tide"
                    os.execute("{TIDE} -e 'local td = require [[tide]] for i in td.progress(9) do "
                      .. "print(i) io.stderr:write(i, string.char(10)) end' {to} {d}/f")
                """, 80)
                self.assertEqual(rows[:9], [str(i) for i in range(1, 10)])
                self.assertEqual(len(rows), 9 + bars)
                with open(d + "/f", "rb") as f:
                    self.assertEqual(f.read(), b"".join(b"%d\n" % i for i in range(1, 10)))

    def test_killed(self):
        with Terminal(args=("-e", "local td = require 'tide' for i in td.progress(1e9) do "
                            "end")) as t:
            t.wait(lambda: any("[" in row for row in t.text()), "the bar")
            os.kill(t.pid, signal.SIGTERM)
            self.assertEqual(t.end(), -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
