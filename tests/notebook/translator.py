"""translator.py - jupyter/papermill_tide: values as Lua, which Tide reads back.

SPDX-License-Identifier: Apache-2.0
"""
import math
import subprocess
import sys
import unittest

import nbformat
from papermill.exceptions import PapermillException
from papermill.translators import papermill_translators

from settings import TIDE

LUA = papermill_translators.find_translator("tide", "lua")

# Python's value, and Lua's text of it by %q or #.
VALUES = [
    (None, "nil"), (True, "true"), (False, "false"),
    (0, "0"), (-3, "-3"), (2**53 + 1, "9007199254740993"),
    (-2**63, "0x8000000000000000"), (2**63 - 1, "9223372036854775807"),
    (1.5, "0x1.8p+0"), (0.1, "0x1.999999999999ap-4"), (1e300, None),
    (math.inf, "1e9999"), (-math.inf, "-1e9999"), (math.nan, "(0/0)"),
    (2.0, "0x1p+1"), (5e-324, "0x0.0000000000001p-1022"),
    ("", '""'), ("plain", '"plain"'), ('"\\\'', '"\\"\\\\\'"'),
    ("a\nb", '"a\\\nb"'), ("\0" + "1", '"\\0001"'), ("æ漢🌙", '"æ漢🌙"'),
    ("]]--", '"]]--"'), ("\x7f\r\t", None),
]


def lua(code):
    r = subprocess.run([TIDE, "-e", code], capture_output=True, check=True)
    return r.stdout.decode()


class Translator(unittest.TestCase):
    def test_imports(self):
        # Each imports the other.
        for code in ("import papermill_tide", "import papermill",
                     "import papermill_tide.engine"):
            with self.subTest(code):
                subprocess.run([sys.executable, "-c", code], check=True)

    def test_values(self):
        for value, want in VALUES:
            with self.subTest(value=value):
                text = LUA.translate(value)
                if want is not None:
                    got = lua(f'io.write(string.format("%q", {text}))')
                    self.assertEqual(got, want)
                if isinstance(value, str):
                    got = lua(f"io.write(({text}):byte(1, -1))")
                    bytes_of = "".join(str(b) for b in value.encode())
                    self.assertEqual(got, bytes_of)

    def test_integers_stay_integers(self):
        self.assertEqual(lua(f"io.write(math.type({LUA.translate(7)}))"),
                         "integer")
        self.assertEqual(lua(f"io.write(math.type({LUA.translate(7.0)}))"),
                         "float")

    def test_tables(self):
        value = {"sizes": [3, [4, 5]], "a key": {"x": "y"}, "none": None}
        text = LUA.translate(value)
        self.assertEqual(lua(
            f'local t = {text} io.write(t.sizes[1], t.sizes[2][2], '
            't["a key"].x, tostring(t.none))'), "35ynil")
        self.assertEqual(lua(f"io.write(#{LUA.translate([])})"), "0")

    def test_cell(self):
        code = LUA.codify({"steps": 3, "name": "x"}, "two\nlines")
        self.assertEqual(code, '-- two\n-- lines\nsteps = 3\nname = "x"\n')

    def test_names(self):
        for name in ("a-b", "end", "1st", "", "æ"):
            with self.subTest(name=name), self.assertRaises(PapermillException):
                LUA.codify({name: 1})

    def test_inspect(self):
        cell = nbformat.v4.new_code_cell(
            'steps = 10  -- int: how often\nlocal rate = 0.5\n'
            'name = "a -- b" -- a name\nfor i = 1, 3 do end\nx = y --\n'
            "list = {1, -2}")
        got = [(p.name, p.default, p.inferred_type_name, p.help)
               for p in LUA.inspect(cell)]
        self.assertEqual(got, [
            ("steps", "10", "int", "how often"), ("rate", "0.5", "None", ""),
            ("name", '"a -- b"', "None", "a name"), ("x", "y", "None", ""),
            ("list", "{1, -2}", "None", "")])
