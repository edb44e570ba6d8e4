"""history.py - what was typed before: walking, searching, suggesting.

SPDX-License-Identifier: Apache-2.0
"""
import unittest

from terminal import Terminal, alt, ctrl

KEPT = ["alpha = 1", "beta = 2", "for i = 1, 2 do\n  print(i)\nend", "alpine = 3"]


class History(unittest.TestCase):
    def test_walking(self):
        with Terminal(history=KEPT) as t:
            t.start()
            seen = []
            for key in ["<up>", "<up>", "<up>", "<up>", "<up>", "<up>", "<up>", "<down>", "<down>"]:
                t.send(key)
                seen.append((t.state["text"], t.state["cursor"]))
            loop = KEPT[2]
            self.assertEqual(seen[:2], [("alpine = 3", 10), (loop, len(loop))])
            # up moves inside what has several lines, then on
            self.assertEqual(seen[2:4], [(loop, 19), (loop, 3)])
            self.assertEqual([text for text, _ in seen[4:7]], ["beta = 2", "alpha = 1", "alpha = 1"])
            self.assertEqual([text for text, _ in seen[7:]], ["beta = 2", loop])

    def test_prefix(self):
        with Terminal(history=KEPT) as t:
            t.start().send("al", "<up>")
            self.assertEqual(t.state["text"], "alpine = 3")
            t.send("<up>")
            self.assertEqual(t.state["text"], "alpha = 1")
            t.send("<up>")
            self.assertEqual(t.state["text"], "alpha = 1")
            t.send("<down>", "<down>")
            self.assertEqual((t.state["text"], t.state["cursor"]), ("al", 2))

    def test_a_long_history(self):
        many = ["first = 0", *(f"x{n} = {n}" for n in range(1200)), "last = 1"]
        for keys in (["fir", "<up>"], [ctrl("r"), "first"],
                     [*["<up>"] * 3, ctrl("c"), "fir", "<up>"]):
            with Terminal(history=many) as t:
                t.start().send(*keys)
                self.assertEqual(t.state["text"], "first = 0", keys)
        with Terminal(history=many) as t:
            t.start().send("<enter>", "new = 1", "<enter>", "<up>", "<up>")
            self.assertEqual(t.state["text"], "last = 1")

    def test_an_edit_ends_the_walk(self):
        with Terminal(history=KEPT) as t:
            t.start().send("<up>", "0", "<up>")
            self.assertEqual(t.state["text"], "alpine = 30")
            t.send("<home>", "<up>", "<up>", "<up>", "<up>", "<up>")
            self.assertEqual(t.state["text"], "beta = 2")
            t.send(alt("n"), alt("n"), alt("n"))
            self.assertEqual(t.state["text"], "alpine = 30")

    def test_suggestion(self):
        with Terminal(history=KEPT) as t:
            t.start().send("alp")
            self.assertEqual(t.state["suggestion"], "ine = 3")
            row = t.row("In [1]")
            self.assertEqual(t.text()[row], "In [1]: alpine = 3")
            self.assertEqual(t.color("ine = 3"), "brightblack")
            self.assertEqual(t.screen.cursor.x, len("In [1]: alp"))
            t.send("h")
            self.assertEqual(t.text()[row], "In [1]: alpha = 1")
            t.send("<right>")
            self.assertEqual(t.state["text"], "alpha = 1")
            t.send(ctrl("c"), "alp", alt("f"))
            self.assertEqual(t.state["text"], "alpine")
            t.send("<end>")
            self.assertEqual(t.state["text"], "alpine = 3")
            t.send(ctrl("c"), "for")  # of several lines the first is shown
            self.assertEqual(t.text()[t.row("In [1]")], "In [1]: for i = 1, 2 do\u2026")
            t.send(ctrl("e"))
            self.assertEqual(t.state["text"], KEPT[2])

    def test_search(self):
        with Terminal(history=KEPT) as t:
            t.start().send("draft", ctrl("r"), "= ")
            self.assertEqual(t.state["text"], "alpine = 3")
            row = t.row("In [1]")
            self.assertEqual(t.text()[row + 1], "search: =")
            self.assertTrue(t.cell(row, 8 + 7).underscore)
            t.send(ctrl("r"))
            self.assertEqual(t.state["text"], KEPT[2])
            t.send(ctrl("r"), ctrl("r"), ctrl("r"))
            self.assertEqual(t.state["text"], "alpha = 1")
            self.assertIn("not found: =", t.text()[row + 1])
            t.send(ctrl("s"))
            self.assertEqual(t.state["text"], "beta = 2")
            t.send("2", "<backspace>")
            self.assertEqual(t.state["text"], "alpine = 3")
            t.send(ctrl("g"))
            self.assertEqual((t.state["text"], t.state["search"]), ("draft", False))
            self.assertEqual(t.text()[row + 1], "")
            t.send(ctrl("r"), "bet", "<escape>", "X")
            self.assertEqual(t.state["text"], "Xbeta = 2")
            t.send(ctrl("c"), ctrl("r"), "beta", "<enter>")
            self.assertEqual(t.state["prompt"], "In [2]: ")

    def test_kept_on_disk(self):
        with Terminal(history=KEPT) as t:
            t.start().enter("x = 'kept'")
            t.enter("x = 'kept'")
            t.raw(ctrl("d"))
            self.assertEqual(t.end(), 0)
            with open(t.home + "/state/tide/history", encoding="utf-8") as f:
                text = f.read()
            self.assertIn("x = 'kept'", text)


if __name__ == "__main__":
    unittest.main()
