"""session.py - the prompt and the programs in it: Ctrl-C, Ctrl-D, signals.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pty
import signal
import subprocess
import termios
import time
import unittest

from terminal import TIDE, Terminal, ctrl


class Session(unittest.TestCase):
    def test_banner(self):
        with Terminal() as t:
            t.start()
            self.assertRegex(t.text()[0], r"^Tide \d+\.\d+, Lua 5\.4, on CPU:0")
            self.assertIn("%tour", t.text()[1])
            self.assertEqual(t.text()[2], "In [1]:")

    def test_numbers(self):
        with Terminal() as t:
            t.start().enter("1 + 1")
            t.enter()
            t.enter("error 'no'")
            t.send("x")
            self.assertEqual(t.state["prompt"], "In [3]: ")

    def test_ctrl_c_clears_the_line(self):
        with Terminal() as t:
            t.start().send("some text", ctrl("c"))
            row = t.row("In [1]: some text^C")
            self.assertEqual(t.text()[row + 1], "In [1]:")
            self.assertEqual(t.state["text"], "")

    def test_ctrl_c_interrupts(self):
        with Terminal() as t:
            t.start().send("print('on') while true do end")
            t.raw("\r")
            t.wait(lambda: "on" in t.text(), "the loop")
            t.raw(ctrl("c"))
            t.sent += 1
            t.wait(lambda: t.state["keys"] >= t.sent and not t.state["text"], "the prompt")
            self.assertTrue(any("interrupt" in line.lower() for line in t.text()))
            self.assertEqual(t.state["prompt"], "In [2]: ")

    # In a function of a step, and where such a function waits for another step.
    def test_ctrl_c_interrupts_a_function_of_a_step(self):
        start = ("td.lua_op(function() print('on') %s end, {})():run()",
                 "td.lua_op(function() print('on') pcall(function() %s end) return end, {})():run()")
        wait = "td.while_loop(function() return true end, function(i) return i + 1 end, {td.random_uniform{}}):eval()"
        for line in start[0] % "while true do end", start[1] % wait:
            with self.subTest(line), Terminal() as t:
                t.start().send("td = require 'tide'\r")
                t.send(line)
                t.raw("\r")
                t.wait(lambda: "on" in t.text(), "the function")
                t.raw(ctrl("c"))
                t.sent += 1
                t.wait(lambda: t.state["keys"] >= t.sent and not t.state["text"], "the prompt")
                self.assertTrue(any("interrupt" in row.lower() for row in t.text()))
                t.send("print(6 * 7)\r")
                self.assertTrue(any("42" in row for row in t.text()))

    def test_ctrl_c_ends_a_dequeue(self):
        with Terminal() as t:
            t.start().enter("q = td.fifo_queue(2, 'int32', {}) s = td.session()")
            t.send("print('on') s:run(q:dequeue())")
            t.raw("\r")
            t.wait(lambda: "on" in t.text(), "the dequeue")
            t.raw(ctrl("c"))
            t.sent += 1
            t.wait(lambda: t.state["keys"] >= t.sent and not t.state["text"], "the prompt")
            self.assertTrue(any("interrupt" in line.lower() for line in t.text()))
            t.enter("s:run(q:enqueue(42)) s:run(q:dequeue())")
            self.assertTrue(any(line.endswith("42") for line in t.text()))

    # Of each the thread that reads comes back: all are interrupted more often than
    # there are threads for that, and then what is written is read.
    def test_ctrl_c_ends_the_reading_of_a_pipe(self):
        with Terminal() as t:
            pipe = t.home + "/pipe"
            os.mkfifo(pipe)
            t.start().enter(f"pipe = '{pipe}' s = td.session() q = td.fifo_queue(2, 'string', {{}})")
            t.enter("lines = td.data.lines(pipe):batches() s:run(q:enqueue(pipe))")
            t.enter("key, line = td.reader.text_lines():read(q) whole = td.read_file(pipe)")
            codes = ["s:run(whole)"] * 10 + ["td.load_csv(pipe)"] * 10 + ["s:run(line)"] * 3 + ["lines()"] * 3
            for n, code in enumerate(codes):
                t.send(f"print('on {n}') print({code})")
                t.raw("\r")
                t.wait(lambda: f"on {n}" in t.text(), "the reading") # pylint: disable=cell-var-from-loop
                time.sleep(0.02)
                begun = time.monotonic()
                t.raw(ctrl("c"))
                t.sent += 1
                t.wait(lambda: t.state["keys"] >= t.sent and not t.state["text"], "the prompt")
                self.assertLess(time.monotonic() - begun, 1)
            t.send("print(lines().line:item())")
            t.raw("\r")
            with open(pipe, "w", encoding="utf-8") as f:
                f.write("moon\n")
            t.sent += 1
            t.wait(lambda: t.state["keys"] >= t.sent and not t.state["text"], "the prompt")
            self.assertTrue(any("moon" in row for row in t.text()), t.text())

    def test_ctrl_d_leaves(self):
        with Terminal() as t:
            t.start().send("x", "<backspace>")
            self.assertNotEqual(t.modes(), t.found)
            t.raw(ctrl("d"))
            self.assertEqual(t.end(), 0)
            self.assertEqual(t.modes(), t.found)
            self.assertTrue(t.written.rstrip().endswith(b"\x1b[?2004l"))

    def test_signals_restore_the_terminal(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT):
            with self.subTest(number), Terminal() as t:
                t.start().send("x")
                os.kill(t.pid, number)
                self.assertEqual(t.end(), -number)
                self.assertEqual(t.modes(), t.found)
                self.assertTrue(t.written.endswith(b"\x1b[?2004l"))

    def test_sigint_from_outside(self):
        with Terminal() as t:
            t.start().send("text")
            os.kill(t.pid, signal.SIGINT)
            t.sent += 1
            t.wait(lambda: t.state["keys"] >= t.sent, "the interrupt")
            self.assertEqual(t.state["text"], "")

    def test_load(self):
        with Terminal() as t:
            path = t.home + "/some.lua"
            with open(path, "w", encoding="utf-8") as f:
                f.write("print(6 *\n  7)\n")
            t.start().enter("%load " + path)
            self.assertEqual(t.state["text"].rstrip(), "print(6 *\n  7)")
            t.enter()
            self.assertIn("42", t.text())

    def test_exit(self):
        with Terminal() as t:
            t.start().send("exit")
            t.raw("\r")
            self.assertEqual(t.end(), 0)

    def test_exit_in_code(self):
        with Terminal() as t:
            t.start().send("os.exit(3)")
            t.raw("\r")
            self.assertEqual(t.end(), 3)
            self.assertEqual(t.modes(), t.found)

    def test_code_has_a_terminal_as_it_was(self):
        with Terminal() as t:
            t.start().send("name = io.read()")
            t.raw("\r")
            t.sent += 1
            t.wait(lambda: t.modes()[3] & termios.ICANON, "the terminal of the code")
            t.raw("Ada\n")
            t.wait(lambda: t.state["keys"] >= t.sent, "the next prompt")
            self.assertIn("Ada", t.text())
            t.enter("print('hello ' .. name)")
            self.assertIn("hello Ada", t.text())

    def test_end_of_input_in_code(self):
        with Terminal() as t:
            t.start().send("print(io.read())")
            t.raw("\r")
            t.sent += 1
            t.wait(lambda: t.modes()[3] & termios.ICANON, "the terminal of the code")
            t.raw(ctrl("d"))
            t.wait(lambda: t.state["keys"] >= t.sent, "the next prompt")
            self.assertIn("nil", t.text())
            t.enter("print(1 + 1)")
            self.assertIn("2", t.text())

    def test_questions_of_code(self):
        with Terminal() as t:
            t.start().send("print('<' .. td.input('who? ') .. '>', '<' .. td.getpass('word? ') .. '>')")
            t.raw("\r")
            t.sent += 1
            t.wait(lambda: any(row.startswith("who?") for row in t.text()), "the question")
            t.raw("Ada\n")
            t.wait(lambda: any(row.startswith("word?") for row in t.text()), "the second")
            t.wait(lambda: not t.modes()[3] & termios.ECHO, "silence")
            t.raw("secret\n")
            t.wait(lambda: t.state["keys"] >= t.sent, "the next prompt")
            self.assertIn("who? Ada", t.text())
            self.assertIn("word?", t.text())
            self.assertTrue(any(row.startswith("<Ada>") and "<secret>" in row for row in t.text()))

    def test_output_without_a_newline_stays(self):
        with Terminal(columns=20) as t:
            t.start().enter("do io.write('abc') end")
            row = t.row("abc")
            self.assertEqual(t.text()[t.row("In [2]") - 1], "abc\u23ce")
            t.enter("do io.write(('x'):rep(20)) end")
            self.assertEqual(t.text()[t.row("In [3]") - 1], "x" * 20)
            self.assertGreater(t.row("In [3]"), row)

    def test_typed_ahead(self):
        with Terminal() as t:
            t.start().send("for i = 1, 2e7 do end")
            t.raw("\rprint(6 * 7)\r")
            t.sent += 14
            t.wait(lambda: t.state["keys"] >= t.sent, "both")
            self.assertIn("42", t.text())

    def test_typed_ahead_for_the_code(self):
        with Terminal() as t:
            t.start()
            t.raw("name = io.read()\rAda\rprint('hello ' .. name)\r")
            t.sent += 17 + 23
            t.wait(lambda: t.state["keys"] >= t.sent, "all of it")
            self.assertIn("hello Ada", t.text())

    def test_stop_and_continue(self):
        with Terminal() as t:
            t.start().send("text")
            t.state["ns"] = None
            os.kill(t.pid, signal.SIGSTOP)
            os.kill(t.pid, signal.SIGCONT)
            t.wait(lambda: t.state["ns"] is not None, "a redraw")
            t.send("s")
            self.assertEqual(t.state["text"], "texts")
            self.assertEqual(t.text()[t.row("In [1]")], "In [1]: texts")

    def test_dumb_terminal_reads_lines(self):
        with Terminal(env={"TERM": "dumb"}) as t:
            t.wait(lambda: ">" in t.text(), "the prompt")
            t.raw("print(6 * 7)\n")
            t.wait(lambda: "42" in t.text(), "the result")
            t.raw("for i = 1, 1 do\n")
            t.wait(lambda: any(">>" in row for row in t.text()), "the second prompt")
            t.raw("end\n" + ctrl("d"))
            self.assertEqual(t.end(), 0)
            self.assertNotIn(b"\x1b", t.written)

    def test_pipe_reads_lines(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.execv("/bin/sh", ["sh", "-c", f"echo 'print(6 * 7)' | {TIDE} -i | cat"])
        seen = b""
        while True:
            try:
                data = os.read(fd, 4096)
            except OSError:
                break
            if not data:
                break
            seen += data
        os.waitpid(pid, 0)
        os.close(fd)
        self.assertEqual(seen, b"> 42\r\n> \r\n")

    def test_pipe_that_ends_inside_of_a_chunk(self):
        out = subprocess.run([TIDE, "-i"], input="print(6 * 7)\nif x then\n",
                             capture_output=True, text=True, check=True).stdout
        self.assertEqual(out.split("\n")[:3], [
            "> 42", "> >> ", "SyntaxError: In[2]:1: 'end' expected near <eof>"])


if __name__ == "__main__":
    unittest.main()
