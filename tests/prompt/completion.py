"""completion.py - Tab and the menu.

SPDX-License-Identifier: Apache-2.0
"""
import unittest

from terminal import Terminal, alt, ctrl

SETUP = "thing = {first = 1, second = 'two', seventh = print, [4] = 5}"


class Completion(unittest.TestCase):
    def start(self, t):
        t.start().enter(SETUP)

    def test_one(self):
        with Terminal() as t:
            self.start(t)
            t.send("thing.fi", "<tab>")
            self.assertEqual((t.state["text"], t.state["menu"]), ("thing.first", 0))

    def test_menu(self):
        with Terminal() as t:
            self.start(t)
            t.send("print(thing.s", "<tab>")
            self.assertEqual((t.state["text"], t.state["menu"]), ("print(thing.se", 2))
            row = t.row("In [2]")
            menu = t.text()[row + 1:row + 3]
            self.assertEqual([line.split()[0] for line in menu], ["second", "seventh"])
            self.assertIn("string", menu[0])
            self.assertIn("function", menu[1])
            self.assertTrue(t.cell(row + 1, 1).reverse)
            t.send("<tab>")
            self.assertTrue(t.cell(row + 2, 1).reverse)
            self.assertFalse(t.cell(row + 1, 1).reverse)
            t.send("<down>", "<up>", "<backtab>", "<up>", "<enter>")
            self.assertEqual((t.state["text"], t.state["menu"]), ("print(thing.seventh", 0))
            self.assertEqual(t.text()[row + 1:], [""] * (24 - row - 1))

    def test_escape_leaves(self):
        with Terminal() as t:
            self.start(t)
            t.send("thing.s", "<tab>", "<escape>")
            self.assertEqual((t.state["text"], t.state["menu"]), ("thing.se", 0))
            self.assertEqual(t.text()[t.row("In [2]") + 1], "")

    def test_typing_narrows(self):
        with Terminal() as t:
            self.start(t)
            t.send("thing.", "<tab>")
            self.assertEqual(t.state["menu"], 3)
            t.send("s")
            self.assertEqual(t.state["menu"], 2)
            t.send("<backspace>")
            self.assertEqual(t.state["menu"], 3)
            t.send("f", "<enter>")
            self.assertEqual(t.state["text"], "thing.first")
            t.send(ctrl("c"), "thing.", "<tab>", " ")
            self.assertEqual((t.state["text"], t.state["menu"]), ("thing. ", 0))

    def test_long_menu_scrolls(self):
        with Terminal() as t:
            t.start().send("string.", "<tab>")
            n = t.state["menu"]
            row = t.row("In [1]")
            self.assertGreater(n, 10)
            self.assertEqual(t.text()[row + 8].split(), ["1", "of", str(n)])
            t.send("<up>")
            self.assertEqual(t.text()[row + 8].split(), [str(n), "of", str(n)])
            self.assertTrue(t.cell(row + 7, 1).reverse)
            self.assertIn("upper", t.text()[row + 7])

    def test_menu_at_the_bottom(self):
        with Terminal(lines=10) as t:
            t.start()
            for i in range(8):
                t.enter(f"x{i} = {i}")
            t.send("string.", "<tab>")
            row = t.row("In [9]")
            self.assertEqual(row, 4)  # what was above has gone up
            self.assertEqual(t.text()[row - 1], "In [8]: x7 = 7")
            t.send("<escape>", "x")
            self.assertEqual(t.text()[row:], ["In [9]: string.x"] + [""] * 5)

    def test_narrow_terminal(self):
        with Terminal(columns=14) as t:
            t.start().send("string.", "<tab>", "<down>", "<enter>")
            self.assertEqual(t.state["text"], "string.char")

    def test_ctrl_c_ends_a_completion(self):
        with Terminal() as t:
            t.start().enter("package.loaded['tide.services.complete'] = function() "
                            "print 'asked' while true do end end")
            t.send("x")
            t.raw("\t")
            t.sent += 1
            t.wait(lambda: any("asked" in row for row in t.text()[-20:]), "the question")
            t.raw(ctrl("c"))
            t.wait(lambda: t.state["keys"] >= t.sent, "the answer")
            self.assertEqual((t.state["text"], t.state["menu"]), ("x", 0))
            t.send("y")
            self.assertEqual(t.state["text"], "xy")

    def test_help_below(self):
        with Terminal() as t:
            t.start().send("x = string.rep(", alt("h"))
            row = t.row("In [1]")
            self.assertEqual(t.text()[row + 1], "string.rep(s, n, sep)")
            self.assertEqual(t.screen.cursor.y, row)
            t.send("a")
            self.assertEqual(t.text()[row:row + 2], ["In [1]: x = string.rep(a", ""])
            t.send(ctrl("c"), "td.matmul", "\x1bOP")
            self.assertIn("The matrix product", t.text()[t.row("In [1]") + 2])
        with Terminal(lines=8) as t:
            t.start().send("td.matmul", alt("h"))
            row = t.row("In [1]")
            self.assertEqual(t.text()[row + 4], "\u2026")
            self.assertEqual(t.text()[row + 5:], [""] * (3 - row))

    def test_tab_indents(self):
        with Terminal() as t:
            t.start().send("<tab>", "x", "<alt_enter>", "<tab>", "y")
            self.assertEqual(t.state["text"], "  x\n    y")


if __name__ == "__main__":
    unittest.main()
