"""vi.py - the keys of vi.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import unittest

from terminal import Terminal, ctrl, paste

# a text, the keys typed after Escape, then the text and the cursor
COMMANDS = [
    ("one two", "0x", "ne two", 0),
    ("one two", "X", "one to", 5),
    ("one two", "0dw", "two", 0),
    ("one two three", "02dw", "three", 0),
    ("one two three", "0d2w", "three", 0),
    ("one two", "0wD", "one ", 3),
    ("one two", "0cwxy", "xy two", 2),
    ("one.two x", "02cwxy", "xytwo x", 2),
    ("one two", "0wCxy", "one xy", 6),
    ("one two", "bi_", "one _two", 5),
    ("one two", "ba_", "one t_wo", 6),
    ("one two", "I_", "_one two", 1),
    ("one two", "0A_", "one two_", 8),
    ("one two", "0elx", "onetwo", 3),
    ("one two", "0fwx", "one to", 5),
    ("one two", "0dtw", "wo", 0),
    ("one two", "Fwd0", "wo", 0),
    ("a,b,c", "0f,;x", "a,bc", 3),
    ("a,b,c", "0f,;,x", "ab,c", 1),
    ("f(a[1])", "0%x", "f(a[1]", 5),
    ("f(a[1])", "0ld%", "f", 0),
    ("one.two", "0dW", "", 0),
    ("one two", "0~~", "ONe two", 2),
    ("one two", "0rX", "Xne two", 0),
    ("one two", "0sXY", "XYne two", 2),
    ("one two", "0yw$p", "one twoone ", 10),
    ("one two", "0xp", "noe two", 1),
    ("one two", "0dwP", "one two", 3),
    ("one two", "0dwu", "one two", 0),
    ("a\nb\nc", "dd", "a\nb", 2),
    ("a\nb\nc", "ggdd", "b\nc", 0),
    ("a\nb\nc", "gg2dd", "c", 0),
    ("a\nb\nc", "ggddp", "b\na\nc", 2),
    ("a\nb\nc", "ggyyGP", "a\nb\na\nc", 4),
    ("a\nb\nc", "ggjdk", "c", 0),
    ("a\nb", "kJ", "a b", 1),
    ("a\nb", "ggoc", "a\nc\nb", 3),
    ("a\nb", "Oc", "a\nc\nb", 3),
    ("a\nb", "gg>j", "  a\n  b", 2),
    ("  a\n  b", "gg<<", "a\n  b", 0),
    ("  a\n  b", "cc-", "  a\n  -", 7),
    ("one", "hhhhhx", "ne", 0),
    ("one", "lllllx", "on", 1),
    ("", "dwxXpuJ%", "", 0),
    ("one two three", "0wdiw", "one  three", 4),
    ("one two three", "0wdaw", "one three", 4),
    ("f('a b', c)", "0fbdi'", "f('', c)", 3),
    ("f('a b', c)", "0di'", "f('', c)", 3),
    ("f('a b', c)", "0da'", "f(, c)", 2),
    ("f(a, g(b))", "0fadi(", "f()", 2),
    ("f(a, g(b))", "0fbci(x", "f(a, g(x))", 8),
    ("f(a, g(b))", "0fbda)", "f(a, g)", 6),
    ("x = {1, 2}", "0f1yi{Ap", "x = {1, 2}p", 11),
    ("x", "di(", "x", 0),
    ("one two three", "0dw.", "three", 0),
    ("a b c", "0cwxy\x1bw.w.", "xy xy xy", 7),
    ("aaaa", "0x2l.", "aa", 1),
    ("a\nb", "ggA;\x1bj.", "a;\nb;", 4),
    ("one two three", "0dwu.", "two three", 0),
]


class Vi(unittest.TestCase):
    def test_commands(self):
        with Terminal(env={"TIDE_EDIT": "vi"}) as t:
            t.start()
            for text, keys, left, cursor in COMMANDS:
                with self.subTest(text=text, keys=keys):
                    t.send(*([paste(text)] if text else []), "<escape>")
                    for part in re.findall("\x1b|[^\x1b]+", keys):
                        t.send(part)
                    self.assertEqual((t.state["text"], t.state["cursor"]), (left, cursor))
                t.send(ctrl("c"))

    def test_history(self):
        with Terminal(env={"TIDE_EDIT": "vi"}, history=["one", "two"]) as t:
            t.start().send("<escape>", "kk")
            self.assertEqual(t.state["text"], "one")
            t.send("j")
            self.assertEqual(t.state["text"], "two")
            t.send("/", "on", "<enter>")
            self.assertEqual(t.state["prompt"], "In [2]: ")

    def test_modes_are_shown(self):
        with Terminal(env={"TIDE_EDIT": "vi"}) as t:
            t.start().send("x")
            self.assertTrue(t.written.endswith(b"\x1b[6 q"))
            t.send("<escape>")
            self.assertTrue(t.written.endswith(b"\x1b[2 q"))

    def test_inputrc(self):
        with Terminal() as probe:
            rc = os.path.join(probe.home, "rc")
            with open(rc, "w", encoding="utf-8") as f:
                f.write("# mine\nset editing-mode vi\n")
            with Terminal(env={"INPUTRC": rc}) as t:
                t.start().send("abc", "<escape>", "x")
                self.assertEqual(t.state["text"], "ab")


if __name__ == "__main__":
    unittest.main()
