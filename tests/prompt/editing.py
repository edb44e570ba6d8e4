"""editing.py - text, lines, colours and keys of the editor.

SPDX-License-Identifier: Apache-2.0
"""
import os
import tempfile
import unittest

from terminal import Terminal, alt, ctrl, paste

# keys, then the text and the cursor (in code points) that they leave
EMACS = [
    (["hello", "<left>", "<left>", "X"], "helXlo", 4),
    (["hello", ctrl("a"), "X", ctrl("e"), "Y"], "XhelloY", 7),
    (["ab", ctrl("b"), ctrl("b"), ctrl("f"), "X"], "aXb", 2),
    (["one two three", alt("b"), alt("b"), "X"], "one Xtwo three", 5),
    (["one two", "<home>", alt("f"), "X"], "oneX two", 4),
    (["foo_bar", alt("b"), "X"], "foo_Xbar", 5),
    (["abc", "<backspace>", "<home>", "<delete>"], "b", 0),
    (["abc", "<left>", ctrl("d")], "ab", 2),
    (["one two", "<home>", ctrl("k")], "", 0),
    (["one two", "<home>", ctrl("k"), ctrl("y"), ctrl("y")], "one twoone two", 14),
    (["one two", alt("b"), ctrl("u")], "two", 0),
    (["a b.c d", ctrl("w"), ctrl("w"), ctrl("y")], "a b.c d", 7),  # two cuts in a row are one
    (["one", ctrl("w"), "two", ctrl("w"), ctrl("y"), alt("y")], "one", 3),
    (["one", ctrl("w"), "two", ctrl("w"), "x", ctrl("y"), alt("y"), alt("y")], "xtwo", 4),
    (["one", ctrl("w"), "x", alt("y")], "x", 1),  # nothing was put back before
    (["one two", "<home>", alt("d")], " two", 0),
    (["one.two", alt("\x7f")], "one.", 4),
    (["ab", ctrl("t")], "ba", 2),
    (["abc", "<left>", ctrl("t")], "acb", 3),
    (["one two", alt("t")], "two one", 7),
    (["one two", "<home>", alt("u")], "ONE two", 3),
    (["ONE", "<home>", alt("l")], "one", 3),
    (["one", "<home>", alt("c")], "One", 3),
    (["\u00e9t\u00e9", "<home>", alt("u")], "\u00c9T\u00c9", 3),
    (["one two", ctrl("_")], "one ", 4),
    (["one two", ctrl("_"), ctrl("_")], "", 0),
    (["one two", ctrl("_"), alt("_")], "one two", 7),
    (["one", ctrl("w"), ctrl("_")], "one", 3),
    (["one", ctrl("x"), ctrl("u")], "", 0),
    (["one", ctrl("x"), ctrl("u"), ctrl("x"), ctrl("r")], "one", 3),
    (["x", "<alt_enter>", "y", "<up>", "Z"], "xZ\ny", 2),
    (["long", "<alt_enter>", "s", "<alt_enter>", "long", "<up>", "<up>", "X"],
     "longX\ns\nlong", 5),  # up and down keep their column
    (["x", "<alt_enter>", "y", alt("<"), "A", alt(">"), "B"], "Ax\nyB", 5),
    (["<tab>", "x"], "  x", 3),
    (["<tab>", "<tab>", "x", "<backtab>"], "  x", 3),
    (["a\u0301b", "<left>", "<left>", "X"], "Xa\u0301b", 1),  # a letter and its mark are one
    (["a\u0301", "<backspace>"], "", 0),
    (["\u4f60\u597d", "<left>", "X"], "\u4f60X\u597d", 2),
    (["\x1b[27;5;13~"], "\n", 1),
    (["\x1b[1;5D", "\x1b[99;99x", "a"], "a", 1),  # a sequence nobody knows
    (["one two", "\x1b[1;5D", "X"], "one Xtwo", 5),
]

# what is pasted, and what is left of it
PASTES = [
    ("x = 1\ny = 2", "x = 1\ny = 2"),
    ("x = 1\ry = 2\r", "x = 1\ny = 2"),
    ("> x = 1\n> y = 2\n", "x = 1\ny = 2"),
    ("> f = function()\n>> return 1\n>> end\n> f()\n1\n", "f = function()\nreturn 1\nend\nf()"),
    ("In [3]: x = 1\n\nIn [4]: x\nOut[4]: 1\n", "x = 1\nx"),
    ("In [3]: for i = 1, 2 do\n   ...:   print(i)\n   ...: end\n1\n2\n",
     "for i = 1, 2 do\n  print(i)\nend"),
    (">>> x\n... y\n", "x\ny"),
    ("a > b\n> c", "a > b\n> c"),  # no transcript
    ("print '\x07tick\x1b'", "print 'tick'"),
    ("\u4f60\u597d\n\tx", "\u4f60\u597d\n\tx"),
]


class Editing(unittest.TestCase):
    def test_emacs_keys(self):
        with Terminal() as t:
            t.start()
            for keys, text, cursor in EMACS:
                with self.subTest(keys=keys):
                    t.send(*keys)
                    self.assertEqual((t.state["text"], t.state["cursor"]), (text, cursor))
                t.send(ctrl("c"))

    def test_pastes(self):
        with Terminal() as t:
            t.start()
            for text, left in PASTES:
                with self.subTest(text=text):
                    t.send(paste(text))
                    self.assertEqual(t.state["text"], left)
                    t.send(ctrl("_"))
                    self.assertEqual(t.state["text"], "")  # one step

    def test_enter_continues_what_is_not_complete(self):
        with Terminal() as t:
            t.start().send("for i = 1, 2 do", "<enter>", "if i > 1 then", "<enter>", "print(i)",
                           "<enter>", "end", "<enter>", "end")
            self.assertEqual(t.state["text"],
                             "for i = 1, 2 do\n  if i > 1 then\n    print(i)\n  end\nend")
            row = t.row("In [1]")
            self.assertEqual(t.text()[row:row + 5],
                             ["In [1]: for i = 1, 2 do", "   ...:   if i > 1 then",
                              "   ...:     print(i)", "   ...:   end", "   ...: end"])
            t.send("<enter>")
            self.assertEqual(t.text()[row + 5:row + 7], ["2", "In [2]:"])

    def test_enter_above_the_last_line_is_a_newline(self):
        with Terminal() as t:
            t.start().send("x = 1", "<alt_enter>", "y = 2", "<up>", "<end>", "<enter>")
            self.assertEqual(t.state["text"], "x = 1\n\ny = 2")
            self.assertEqual(t.state["prompt"], "In [1]: ")

    def test_colors(self):
        with Terminal() as t:
            t.start().send("local x = 'text' -- note")
            self.assertEqual([t.color(w) for w in ("local", "x =", "'text'")],
                             ["magenta", "default", "brown"])
            t.send(ctrl("c"), "y = 12 return 3x")
            self.assertEqual([t.color(w) for w in ("12", "return", "3x")],
                             ["cyan", "magenta", "red"])
            t.send(ctrl("c"), "%time f()")
            self.assertEqual([t.color(w) for w in ("%time", "f()")], ["blue", "default"])

    def test_no_color(self):
        with Terminal(env={"NO_COLOR": "1"}) as t:
            t.start().send("local x")
            self.assertEqual(t.color("local"), "default")

    def test_brackets(self):
        with Terminal() as t:
            t.start().send("f(a[1], ')')")
            row, start = t.row("f(a"), len("In [1]: ")
            marked = [c for c in range(80) if t.cell(row, c).underscore]
            self.assertEqual([c - start for c in marked], [1, 11])
            t.send("<left>", "<left>", "<left>")  # in the string: none of its own
            self.assertFalse(any(t.cell(row, c).underscore for c in range(80)))
            t.send("<end>", ")")
            self.assertEqual(t.cell(row, start + 12).fg, "red")

    def test_wide_and_combining(self):
        with Terminal(columns=19) as t:
            t.start().send("x='\u4f60\u597de\u0301\U0001f600'")
            row = t.row("In [1]")
            self.assertEqual(t.text()[row], "In [1]: x='\u4f60\u597de\u0301\U0001f600'")
            self.assertEqual((t.screen.cursor.y, t.screen.cursor.x), (row + 1, 0))
            t.send("<left>", "<left>", "<left>")
            self.assertEqual((t.screen.cursor.y, t.screen.cursor.x), (row, 8 + 3 + 4))
            t.send("y")
            self.assertEqual(t.text()[row:row + 2],
                             ["In [1]: x='\u4f60\u597dye\u0301\U0001f600", "'"])
            t.send("z")  # what is wide and does not fit goes to the next row
            self.assertEqual(t.text()[row:row + 2],
                             ["In [1]: x='\u4f60\u597dyze\u0301", "\U0001f600'"])

    def test_what_is_invisible_is_shown(self):
        with Terminal() as t:
            t.start().send("a\u200bb")
            self.assertEqual(t.text()[t.row("In [1]")], "In [1]: a<200b>b")

    def test_long_lines_and_resize(self):
        with Terminal(columns=30) as t:
            t.start().send("a" * 50)
            row = t.row("In [1]")
            self.assertEqual(t.text()[row:row + 2], ["In [1]: " + "a" * 22, "a" * 28])
            t.resize(60, 24)
            row = t.row("In [1]")
            self.assertEqual(t.text()[row:row + 2], ["In [1]: " + "a" * 50, ""])
            t.resize(25, 24)
            row = t.row("In [1]")
            self.assertEqual(t.text()[row:row + 3],
                             ["In [1]: " + "a" * 17, "a" * 25, "a" * 8])
            t.send("b")
            self.assertEqual(t.text()[row + 2], "a" * 8 + "b")

    def test_more_lines_than_the_terminal(self):
        with Terminal(lines=6) as t:
            text = "\n".join(f"x{i} = {i}" for i in range(20))
            t.start().send(paste(text))
            self.assertEqual(t.text()[5], "   ...: x19 = 19")
            for _ in range(19):
                t.send("<up>")
            self.assertEqual(t.text()[0], "In [1]: x0 = 0")
            t.send(alt(">"), "<enter>")
            self.assertEqual(t.text()[4:], ["   ...: x19 = 19", "In [2]:"])

    def test_dedent(self):
        with Terminal() as t:
            t.start().send("if x then", "<enter>", "y()", "<enter>", "else", "<enter>", "z()",
                           "<enter>", "end")
            self.assertEqual(t.state["text"], "if x then\n  y()\nelse\n  z()\nend")

    def test_outside_editor(self):
        with Terminal(env={"VISUAL": "", "EDITOR": "sed -i s/one/two/"}) as t:
            t.start().send("print('one')", ctrl("x"), ctrl("e"))
            self.assertEqual(t.state["text"], "print('two')")
            t.send("<enter>")
            self.assertIn("two", t.text())

    def test_outside_editor_file(self):
        with tempfile.TemporaryDirectory(prefix="it's ") as folder, \
             Terminal(env={"VISUAL": "sed -i s/one/two/", "TMPDIR": folder}) as t:
            t.start().send("-- one", ctrl("x"), ctrl("e"))
            self.assertEqual(t.state["text"], "-- two")
            self.assertEqual(os.listdir(folder), [])
        with Terminal(env={"VISUAL": "sed -i s/one/two/", "TMPDIR": folder}) as t:
            t.start().send("-- one", ctrl("x"), ctrl("e"))
            self.assertEqual(t.state["text"], "-- one")  # the folder is gone

    def test_clear_screen(self):
        with Terminal() as t:
            t.start().enter("x = 1")
            t.send("abc", ctrl("l"))
            self.assertEqual(t.text()[0], "In [2]: abc")
            self.assertEqual(t.text()[1:], [""] * 23)


if __name__ == "__main__":
    unittest.main()
