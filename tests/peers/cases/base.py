"""How a case is written.

    op("Add",
       sweep([1, -2], [[3], [4]]),        # every dtype of the CPU kernels
       case([], [1]),                     # float64, else float32
       floats([nan, inf], [1, 2]),        # the four floats
       bad("broadcast", [1, 2], [1, 2, 3]))  # refused; the message says so

Inputs are nested lists, made into the dtype at hand; a NumPy array keeps its
own. Attributes are keywords. A sweep varies one type attribute at a time.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

OPS = {}
RANKS = {}

nan, inf = float("nan"), float("inf")

# How far results may be apart: units in the last place of float16, bfloat16,
# float32, float64, and of the modulus of complex numbers.
EXACT = (0, 0, 0, 0, 0)
MODULUS = (0, 0, 0, 0, 4)
CLOSE = (1, 1, 2, 2, 4)


class Case:
    """One set of inputs and attributes."""

    def __init__(self, inputs, attrs, types=None):
        self.inputs, self.attrs, self.types = inputs, attrs, types
        self.grad, self.fails, self.says = True, False, ""


class L:
    """The tensors of one list argument."""

    def __init__(self, *items):
        self.items = items

    def __repr__(self):
        return f"L{self.items}"


class Zeros:
    """Zeros of a shape that a nested list cannot say, such as (0, 2)."""

    def __init__(self, *shape):
        self.shape = shape

    def __repr__(self):
        return f"Zeros{self.shape}"


class Var:
    """A variable holding a value; dtype None: that of the attribute."""

    def __init__(self, value, dtype=None):
        self.value, self.dtype = value, dtype

    def __repr__(self):
        return f"Var({self.value})"


class Unset:
    """A variable that nothing was assigned to."""

    def __init__(self, dtype="float32"):
        self.dtype = dtype

    def __repr__(self):
        return f"Unset({self.dtype})"


def sweep(*inputs, **attrs):
    return Case(inputs, attrs, "sweep")


def case(*inputs, **attrs):
    return Case(inputs, attrs)


def of(types, *inputs, **attrs):
    """A case for the named dtypes of the first attribute that has them."""
    return Case(inputs, attrs, types)


def floats(*inputs, **attrs):
    return Case(inputs, attrs, "float16 bfloat16 float32 float64")


def no_grad(c):
    """The case without its gradient (where TensorFlow's is arbitrary)."""
    c.grad = False
    return c


def bad(says, *inputs, **attrs):
    """Must be refused, with these words in the message; "": any message that
    names an argument or shows a number."""
    c = Case(inputs, attrs)
    c.fails, c.says = True, says
    return c


class Row:
    """The cases of an op, and how near to TensorFlow its results must be."""

    def __init__(self, cases, near, scaled=False, least=0, zeros=False,
                 each=False, dynamic=False, missing=None, because=""):
        self.cases, self.near = cases, near
        self.scaled, self.least, self.zeros = scaled, least, zeros
        self.each, self.dynamic = each, dynamic
        self.missing, self.because = missing or {}, because


def op(name, *cases, near=EXACT, **row):
    """One op. What else can be said of it is in golden.proto, GoldenRow:
    near, least, scaled, zeros, each, dynamic, missing={"T": "string"},
    because=why they are missing."""
    OPS[name] = Row(cases, near, **row)


def ranks(name, of_ranks, make):
    """Cases make(n) of one op for each rank n; how near, the op's row says."""
    cases = []
    for n in of_ranks:
        made = make(n)
        cases += made if isinstance(made, list) else [made]
    RANKS[name] = Row(cases, ())


def source(row):
    """What the cases of a row are, for the hash in its file."""
    return repr(dict(vars(row), cases=[vars(c) for c in row.cases]))


def i32(x):
    return np.array(x, np.int32)


def i64(x):
    return np.array(x, np.int64)


def f32(x):
    return np.array(x, np.float32)


def f64(x):
    return np.array(x, np.float64)


def u8(x):
    return np.array(x, np.uint8)


def boolean(x):
    return np.array(x, np.bool_)


def string(x):
    """Strings as an array of Python objects."""
    return np.array(x, dtype=object)
