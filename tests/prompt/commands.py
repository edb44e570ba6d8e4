"""commands.py - help and each command, as they look at the prompt.

What they do is tested in tests/lua; here, that what they show is on the screen
and the prompt comes back below it.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import unittest

from terminal import TIDE, Terminal, ctrl

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# what is typed (a list: cells one after the other), and what the screen shows
CELLS = [
    ("?matmul", "matrix product"), ("string.rep?", "n times"),
    ("!echo $((6 * 7))", "42"),
    ("%autoreload", ""), (["%%capture kept\nprint('hidden')", "kept.stdout"], "hidden"),
    ("%cells", "nodes"), ("%debug", "no error"), ("%devices", "CPU:0"),
    ("%env HOME", "tide-prompt-"), (["%%file a.txt\nsome text", "!cat a.txt"], "some text"),
    ("%graph", "Graph"), ("%help", "Ctrl-C"), (["marked = 1", "%history"], "marked = 1"),
    ("%keys", "Ctrl-R"), ("%ls /", "etc"), ("%lsmagic", "%timeit"), ("%mem", "tensors"),
    ("%profile 5", "no step"), ("%prun 5", "itself"), ("%pwd", "/"), ("%reset -f", ""),
    (["%%file b.lua\nprint('ran')", "%run b.lua"], "ran"),
    (["one = 1", "%save c.lua 1", "!cat c.lua"], "%cd "), ("%seed 7", ""), ("%shell echo hi", "hi"),
    ("%source string.rep", "n times"), ("%time 6 * 7", "processor time"),
    ("%timeit -n 2 -r 1 x = 1", "runs of 2 loops"), ("%tour", "1/11"),
    (["mine = 5", "%who"], "mine"), ("%workers", "No workers"), ("%cd /", "/"),
]


class Commands(unittest.TestCase):
    def test_each(self):
        with Terminal(lines=60, columns=100) as t:
            t.start()
            t.enter("%cd " + t.home)
            for cells, shown in CELLS:
                cells = [cells] if isinstance(cells, str) else cells
                t.send(ctrl("l"))
                with self.subTest(cells=cells):
                    for cell in cells:
                        for line in cell.split("\n"):
                            t.enter(line)
                        if cell.startswith("%%"):
                            t.enter()  # an empty line ends it
                    self.assertIn(shown, "\n".join(t.text()[len(cells[0].split("\n")):]))
                    self.assertRegex(t.state["prompt"], r"^In \[\d+\]: $")
                    self.assertEqual(t.text()[t.screen.cursor.y], t.state["prompt"].rstrip())

    def test_workers(self):
        with Terminal(lines=30, columns=100) as t:
            os.mkdir(t.home + "/workers", 0o700)
            address = f"ipc://{t.home}/workers/w"
            with subprocess.Popen([TIDE, "worker", "--listen", address],
                                  stdout=subprocess.PIPE) as w:
                w.stdout.readline()  # it listens
                t.start().enter(f"sess = td.session() sess:attach '{address}'")
                t.enter("%workers")
                w.terminate()
            self.assertTrue(any("1 worker: 1 up" in row for row in t.text()), t.text())
            self.assertTrue(any("worker 0  ● up" in row for row in t.text()), t.text())

    def test_names_count_from_the_first_cell_on(self):
        with Terminal() as t:
            t.start().enter("mine = 5")
            t.enter("%who")
            self.assertTrue(any(re.match(r"mine +number +5", row) for row in t.text()), t.text())

    def test_all_are_here(self):
        here = set(re.findall(r"%+(\w+)", repr(CELLS)))
        there = {name[:-4] for name in os.listdir(ROOT + "/lua/tide/commands")}
        self.assertEqual(there - here - {"load"}, set())  # load: session.py

    def test_long_help_goes_through_the_pager(self):
        with Terminal(lines=6, env={"PAGER": "cat -n"}) as t:
            t.start().enter("?matmul")
            self.assertRegex(t.written, rb"\n +12\t")


if __name__ == "__main__":
    unittest.main()
