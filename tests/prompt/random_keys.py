"""random_keys.py - any keys: the screen shows what the editor has.

Its rows are computed here once more, from the editor's text and cursor and the
widths of a library of others, and compared with the emulator's after each key.
TIDE_SOAK=1: 10,000 keys instead of 300; TIDE_SEED repeats a run.

SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import unittest

from wcwidth import wcwidth

from terminal import KEYS, Terminal, alt, ctrl, paste

WORDS = ["for i = 1, 3 do", "local x = ", "if a then", "end", "print(", "string.", "'text'", "[[",
         "]]", "--", "1e3", "\u4f60\u597d", "e\u0301a\u0308", "\U0001f600", "\u0418", " ", "  ",
         ")", "}", "x", "th", "%time ", "\"\\", "\t", "td."]
KEPT = ["thing = {1, 2}", "for i = 1, 2 do\n  print('\u4f60', i)\nend", "x = " + "1 + " * 60 + "1",
        "if x then\n\n  y()\nend"]
EMACS = [*(ctrl(c) for c in "abefhkpnrstuwy_"), *(alt(c) for c in "bfdyulct_<>pnh"),
         alt("\x7f"), ctrl("x") + ctrl("u"), ctrl("x") + ctrl("r"), ctrl("g"), ctrl("c")]
VI = list("hjklwbeWBE0^$GxXDCYpPrJuiaIAoO~;,%dcy><123.fFtTSs/") + ["diw", "ci(", "da'"] + [ctrl("r"), "\x1b"]


def clusters(text):
    """Letters with their marks."""
    found = []
    for char in text:
        if found and wcwidth(char) == 0 and found[-1] != "\n":
            found[-1] += char
        else:
            found.append(char)
    return found


def drawn(cluster):
    if cluster == "\t":
        return "  ", 2
    width = sum(wcwidth(c) for c in cluster)
    return (cluster, width) if width else (f"<{ord(cluster[0]):04x}>", len(f"{ord(cluster[0]):04x}") + 2)


class Layout:
    """The rows of a text behind its prompt, and where the cursor is."""

    def __init__(self, state, columns):
        self.columns, self.rows, self.widths, self.cursor = columns, [""], [0], None
        for char in state["prompt"]:
            self.put(char, 1)
        more = (len(state["prompt"]) - 5) * " " + "...: "
        at = 0
        for cluster in clusters(state["text"]):
            text, width = (" ", 1) if cluster == "\n" else drawn(cluster)
            if self.cursor is None and at >= state["cursor"]:
                self.place(width)
            at += len(cluster)
            if cluster == "\n":
                self.newline()
                for char in more:
                    self.put(char, 1)
            else:
                self.put(text, width)
        if self.cursor is None:
            self.place(1)
        rest, _, hidden = state["suggestion"].partition("\n")
        for cluster in clusters(rest + ("\u2026" if hidden else "")):
            self.put(*drawn(cluster))

    def newline(self):
        self.rows.append("")
        self.widths.append(0)

    def put(self, text, width):
        if self.widths[-1] + width > self.columns and self.widths[-1]:
            self.newline()
        self.rows[-1] += text
        self.widths[-1] += width

    def place(self, width):
        if self.widths[-1] + width > self.columns:
            self.newline()
        self.cursor = (len(self.rows) - 1, self.widths[-1])


def disagreement(t):
    """What the screen shows otherwise, or None."""
    want, shown = Layout(t.state, t.columns), t.text()
    row, column = want.cursor
    if t.screen.cursor.x != column:
        return f"the cursor is in column {t.screen.cursor.x}, not {column}"
    more = t.state["menu"] or t.state["search"] or t.state["note"]  # rows below, which may push others out
    firsts = range(len(want.rows)) if len(want.rows) > t.lines or more else [0]
    why = "no window fits"
    for first in firsts:
        top = t.screen.cursor.y - (row - first)
        if top < 0 or top + len(want.rows) - first > t.lines and len(firsts) == 1:
            continue
        part = [r.rstrip() for r in want.rows[first:first + t.lines - top]]
        below = shown[top + len(part):]
        if shown[top:top + len(part)] != part:
            why = f"rows {shown[top:top + len(part)]} are not {part}"
        elif any(below) and not more:
            why = f"rows below are left: {below}"
        else:
            return None
    return why


class RandomKeys(unittest.TestCase):
    keys = 10000 if os.environ.get("TIDE_SOAK") else 300

    def pick(self, rng, vi):
        kind = rng.random()
        if kind < 0.45:
            return rng.choice(WORDS)
        if kind < 0.5:
            return paste(rng.choice(WORDS) + "\n" + rng.choice(WORDS))
        if kind < 0.75:
            return rng.choice([*KEYS, "<backspace>", "<up>", "<left>"])
        return rng.choice(VI if vi and rng.random() < 0.7 else EMACS)

    def press(self, t, key):
        """A key by itself, though some are two."""
        if key[0] in "\x18" and len(key) > 1:
            t.send(*key)
        else:
            t.send(key)

    def run_keys(self, vi, columns, lines, count, seed):
        rng = random.Random(seed)
        with Terminal(columns=columns, lines=lines, history=KEPT,
                      env={"TIDE_EDIT": "vi" if vi else "emacs"}) as t:
            t.start()
            log = []
            for n in range(count):
                key = self.pick(rng, vi)
                if key == "<enter>" and rng.random() < 0.7:
                    key = "<alt_enter>"
                if len(t.state["text"]) > 1500:
                    key = ctrl("c")
                if n % 97 == 96:
                    t.resize(rng.randint(12, 90), t.lines)
                    log.append(f"resize {t.columns}")
                log.append(key)
                self.press(t, key)
                why = disagreement(t)
                if why:
                    self.fail(f"{why}\nseed {seed}, key {n}, {columns}x{lines}; the last keys: "
                              f"{log[-12:]}\nstate {t.state}\n" + "\n".join(t.text()))

    def test_keys(self):
        seed = int(os.environ.get("TIDE_SEED", "1"))
        runs = [(False, 80, 24), (False, 30, 8), (True, 60, 20), (True, 25, 6)]
        for i, (vi, columns, lines) in enumerate(runs):
            with self.subTest(vi=vi, columns=columns):
                self.run_keys(vi, columns, lines, self.keys // len(runs), seed * 100 + i)


if __name__ == "__main__":
    unittest.main()
