"""papermill_tide: papermill runs Tide's notebooks with parameters.

    papermill in.ipynb out.ipynb -p steps 100 -p rate 0.1

papermill writes the parameters into a cell of their own, after the one that is
tagged "parameters", in the notebook's language. This is Lua for it: parameters
are globals, lists and dictionaries are tables, None is nil.

SPDX-License-Identifier: Apache-2.0
"""
import math
import re

from papermill.exceptions import PapermillException
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators

__version__ = "0.1"

KEYWORDS = frozenset(
    "and break do else elseif end false for function goto if in local nil not "
    "or repeat return then true until while".split())
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}

# A line `name = value  -- type: what it is for`; the comment may be absent.
LINE = re.compile(
    r"""\s*(?:local\s+)?([A-Za-z_]\w*)(?:\s*<const>)?\s*=\s*
        ((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|-(?!-)|[^"'-])+?)\s*
        (?:--\s*(?:(\w+)\s*:\s*)?(.*?)\s*)?""", re.VERBOSE)


def quote(text):
    """A Lua string; what no line of code should hold becomes an escape."""
    return '"' + "".join(
        ESCAPES.get(c) or (f"\\{ord(c):03d}" if ord(c) < 32 or ord(c) == 127
                           else c) for c in text) + '"'


class LuaTranslator(Translator):
    """Values of JSON and YAML as Lua."""

    @classmethod
    def translate_escaped_str(cls, str_val):
        return quote(str(str_val))

    @classmethod
    def translate_none(cls, val):
        return "nil"

    @classmethod
    def translate_int(cls, val):
        # Lua reads the digits first, and then the sign.
        return "math.mininteger" if val == -2**63 else str(val)

    @classmethod
    def translate_float(cls, val):
        if math.isnan(val):
            return "0/0"
        if math.isinf(val):
            return "math.huge" if val > 0 else "-math.huge"
        return repr(val)

    @classmethod
    def translate_list(cls, val):
        return "{" + ", ".join(cls.translate(v) for v in val) + "}"

    @classmethod
    def translate_dict(cls, val):
        return "{" + ", ".join(f"[{cls.translate(k)}] = {cls.translate(v)}"
                               for k, v in val.items()) + "}"

    @classmethod
    def comment(cls, cmt_str):
        return "".join(f"-- {line}".strip() + "\n"
                       for line in cmt_str.splitlines()).rstrip("\n")

    @classmethod
    def assign(cls, name, str_val):
        if not NAME.fullmatch(name) or name in KEYWORDS:
            raise PapermillException(
                f"a parameter cannot be called {name!r} in Lua: letters, "
                "digits and _, no keyword")
        return f"{name} = {str_val}"

    @classmethod
    def inspect(cls, parameters_cell):
        """What `papermill --help-notebook` tells of the parameters."""
        found = []
        for line in parameters_cell["source"].splitlines():
            if m := LINE.fullmatch(line):
                name, value, kind, text = m.groups()
                found.append(Parameter(name=name, default=value.strip(),
                                       inferred_type_name=kind or "None",
                                       help=text or ""))
        return found


papermill_translators.register("lua", LuaTranslator)
