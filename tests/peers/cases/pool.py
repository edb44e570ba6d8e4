"""Pooling.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .base import bad, case, f32, floats, i32, i64, inf, nan, no_grad, of, op
from .base import Zeros, sweep


def grid(*shape, step=7, around=11):
    """Numbers in no order, few of them the same."""
    n = int(np.prod(shape))
    x = (np.arange(n) * step % around - around // 3) * 0.5
    return x.reshape(shape).tolist()


def window(k, s=None, padding="VALID", **attrs):
    """Attributes of square windows, or of {height, width}."""
    s = s or k
    size = [1, *(k if isinstance(k, tuple) else (k, k)), 1]
    step = [1, *(s if isinstance(s, tuple) else (s, s)), 1]
    return dict(ksize=size, strides=step, padding=padding, **attrs)


X = grid(2, 3, 2, 2, step=37, around=127)
ODD = grid(1, 5, 4, 1, step=13, around=37)
WIDE = grid(1, 1, 2, 34, step=101, around=337)

SMALL = grid(1, 2, 3, 1)
STEP, LINE = window(2, 1), window((1, 2))

# The windows that every op is tried with, and what TensorFlow makes of them.
WINDOWS = [(X, window(2, padding="SAME")), (ODD, window(3, 2, "SAME")),
           (SMALL, window((2, 3), (1, 2))), (SMALL, window(1, 2, "SAME"))]
EXPLICIT = window((2, 3), 2, "EXPLICIT",
                  explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0])
DEPTH = dict(ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="VALID")
LOOSE = [[[[nan], [1]], [[2], [0]]], [[[1], [nan]], [[2], [0]]],
         [[[nan], [nan]], [[nan], [nan]]], [[[-inf], [-inf]], [[-inf], [-inf]]],
         [[[3], [3]], [[3], [inf]]]]
BAD = [bad("4 values", X, ksize=[1, 2, 2, 1, 1], strides=[1, 2, 2, 1],
           padding="VALID"),
       bad("0", X, ksize=[1, 0, 2, 1], strides=[1, 2, 2, 1], padding="VALID"),
       bad("0", X, ksize=[1, 2, 2, 1], strides=[1, 0, 2, 1], padding="VALID"),
       bad("batch", X, ksize=[2, 1, 1, 1], strides=[2, 1, 1, 1],
           padding="VALID"),
       bad("9", X, **window(9, 1)), bad("rank 4", [[1, 2]], **window(2))]

op("MaxPool",
   sweep(SMALL, **STEP), *[case(x, **w) for x, w in WINDOWS], case(X, **EXPLICIT),
   of("float32", WIDE, **LINE), no_grad(of("float32", X, **DEPTH)), no_grad(of("float16 float32", LOOSE, **window(2))),
   case(Zeros(0, 4, 4, 2), **window(2)),
   *BAD,
   bad("divide", X, ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3],
       padding="VALID"),
   bad("both", X, ksize=[1, 2, 1, 2], strides=[1, 2, 1, 2], padding="VALID"),
   bad("8 values", X, **window(2, 2, "EXPLICIT", explicit_paddings=[1, 1])),
   bad("window", X, **window(2, 2, "EXPLICIT",
                             explicit_paddings=[0, 0, 2, 0, 0, 0, 0, 0])))
op("MaxPoolV2",
   sweep(SMALL, i32([1, 2, 2, 1]), i32([1, 1, 1, 1]),
         padding="VALID"),
   case(X, i32([1, 2, 3, 1]), i32([1, 2, 2, 1]), padding="SAME"),
   bad("4 values", X, i32([1, 2, 2]), i32([1, 1, 1, 1]), padding="VALID"),
   bad("0", X, i32([1, 2, 2, 1]), i32([1, 0, 1, 1]), padding="VALID"))


def pooled(x, w):
    """The maxima that gradient ops are given."""
    x = np.array(x, np.float64)
    (kh, kw), (sh, sw) = w["ksize"][1:3], w["strides"][1:3]
    pads = []
    for k, s, n in ((kh, sh, x.shape[1]), (kw, sw, x.shape[2])):
        out = -(-n // s)
        all_ = max(0, (out - 1) * s + k - n) if w["padding"] == "SAME" else 0
        pads.append((all_ // 2, all_ - all_ // 2))
    if w["padding"] == "EXPLICIT":
        e = w["explicit_paddings"]
        pads = [(e[2], e[3]), (e[4], e[5])]
    x = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=-inf)
    n, h, v, c = x.shape
    y = [[x[:, i:i + kh, j:j + kw].max((1, 2))
          for j in range(0, v - kw + 1, sw)] for i in range(0, h - kh + 1, sh)]
    return np.array(y).transpose(2, 0, 1, 3).tolist()


def triple(x, w, second=False):
    """orig_input, orig_output and grad."""
    y = pooled(x, w)
    return x, y, grid(*np.shape(x if second else y), step=5, around=17)


TIES = [[[[1], [1], [0]], [[1], [1], [1]]]]
TRIPLES = [(x, w) for x, w in WINDOWS] + [(TIES, window(2, 1))]
op("MaxPoolGrad",
   sweep(*triple(SMALL, STEP), **STEP),
   *[of("float32", *triple(x, w), **w) for x, w in TRIPLES],
   no_grad(of("float32", *triple(X, EXPLICIT), **EXPLICIT)),
   of("float32", *triple(WIDE, LINE), **LINE),
   no_grad(of("float16", LOOSE, np.zeros((5, 1, 1, 1)).tolist(),
                  np.ones((5, 1, 1, 1)).tolist(), **window(2))),
   bad("orig_output", X, [[[[1]]]], pooled(X, window(2)), **window(2)),
   bad("grad", X, pooled(X, window(2)), [[[[1]]]], **window(2)),
   near=(1, 1, 2, 2, 0))
op("MaxPoolGradGrad",
   sweep(*triple(SMALL, STEP, True), **STEP),
   *[case(*triple(x, w, True), **w) for x, w in TRIPLES],
   bad("grad", X, pooled(X, window(2)), [[[[1]]]], **window(2)),
   near=(1, 1, 2, 2, 0))
K, S = i32([1, 2, 2, 1]), i32([1, 1, 1, 1])
op("MaxPoolGradV2",
   sweep(*triple(SMALL, STEP), K, S, padding="VALID"),
   case(*triple(X, window(2, 1, "SAME")), K, S, padding="SAME"),
   bad("grad", X, pooled(X, STEP), [[[[1]]]], K, S, padding="VALID"),
   near=(1, 1, 2, 2, 0))
op("MaxPoolGradGradV2",
   sweep(*triple(SMALL, STEP, True), K, S, padding="VALID"),
   case(*triple(X, window(2, 1, "SAME"), True), K, S, padding="SAME"),
   bad("grad", X, pooled(X, STEP), [[[[1]]]], K, S, padding="VALID"),
   near=(1, 1, 2, 2, 0))
op("AvgPool",
   *[case(x, **w) for x, w in WINDOWS],
   floats(SMALL, **STEP), no_grad(floats(LOOSE, **window(2))),
   case(Zeros(0, 4, 4, 2), **window(2)),
   bad("both", X, ksize=[1, 2, 1, 2], strides=[1, 2, 1, 2], padding="VALID"),
   *BAD,
   near=(4, 4, 2, 2, 0), scaled=True)
op("AvgPoolGrad",
   *[case(i32(np.shape(x)), triple(x, w)[2], **w) for x, w in WINDOWS],
   floats(i32([1, 2, 3, 1]), triple(SMALL, STEP)[2], **STEP),
   bad("grad", i32(np.shape(X)), [[[[1]]]], **window(2)),
   bad("negative", i32([1, -3, 4, 2]), [[[[1]]]], **window(2)),
   bad("rank 4", i32([3, 4]), [[[[1]]]], **window(2)),
   near=(4, 4, 2, 2, 0), scaled=True)

op("MaxPoolWithArgmax",
   sweep(SMALL, **STEP), *[case(x, **w) for x, w in WINDOWS],
   case(X, Targmax="int32", include_batch_in_index=True, **window(2)),
   no_grad(of("float16 float32", LOOSE, **window(2))),
   no_grad(case(X, **DEPTH)), bad("9", X, **window(9, 1)),
   bad("divide", X, ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3],
       padding="VALID"))
# A place out of range kills TensorFlow: tests/kernels/pooling.c.
op("MaxPoolGradWithArgmax",
   sweep(SMALL, [[[[1], [2]]]], i64([[[[1], [1]]]]), **STEP),
   case(X, [[[[1, 2]]], [[[3, -4]]]], i64([[[[2, 3]]], [[[12, 23]]]]),
        include_batch_in_index=True, **window(2)),
   case(X, [[[[1, 2]]], [[[3, -4]]]], i64([[[[2, 3]]], [[[0, 11]]]]),
        **window(2)),
   bad("grad", SMALL, [[[[1]]]], i64([[[[1], [1]]]]), **STEP))

# ---- volumes ----


def cube(k, s=None, padding="VALID"):
    s = s or k
    return dict(ksize=[1, k, k, k, 1], strides=[1, s, s, s, 1],
                padding=padding)


V = grid(1, 2, 3, 4, 1, step=37, around=127)
CUBES = [(V, cube(2)), (V, cube(2, 1, "SAME")), (V, cube(3, 2, "SAME"))]
FLAT = dict(ksize=[1, 1, 2, 2, 1], strides=[1, 1, 2, 2, 1], padding="VALID")


def deep(x, w):
    """Maxima of a volume by those of its slices."""
    x = np.array(x, np.float64)
    k, s, n = w["ksize"][1], w["strides"][1], x.shape[1]
    flat = dict(ksize=w["ksize"][1:4] + [1], padding=w["padding"],
                strides=w["strides"][1:4] + [1])
    flat["ksize"][0] = flat["strides"][0] = 1
    y = np.array([pooled(x[:, i], flat) for i in range(n)])
    out = -(-n // s) if w["padding"] == "SAME" else (n - k) // s + 1
    before = max(0, (out - 1) * s + k - n) // 2 if w["padding"] == "SAME" else 0
    at = [i * s - before for i in range(out)]
    y = np.array([y[max(a, 0):a + k].max(0) for a in at])
    return y.transpose(1, 0, 2, 3, 4).tolist()


def triple3(x, w, second=False):
    y = deep(x, w)
    return x, y, grid(*np.shape(x if second else y), step=5, around=17)


op("MaxPool3D",
   *[of("bfloat16 float32", x, **w) for x, w in CUBES],
   no_grad(of("bfloat16 float32", [LOOSE], **FLAT)),
   bad("5", V, **window(2)), bad("9", V, **cube(9, 1)),
   bad("channels", V, ksize=[1, 1, 1, 1, 2], strides=[1, 1, 1, 1, 2],
       padding="VALID"))
op("MaxPool3DGrad",
   *[of("bfloat16 float32", *triple3(x, w), **w) for x, w in CUBES],
   of("float32", [TIES], deep([TIES], FLAT), [[[[[3.0]]]]], **FLAT),
   bad("grad", V, deep(V, cube(2)), [[[[[1]]]]], **cube(2)),
   near=(1, 1, 2, 2, 0))
op("MaxPool3DGradGrad",
   *[of("float32", *triple3(x, w, True), **w) for x, w in CUBES],
   bad("grad", V, deep(V, cube(2)), [[[[[1]]]]], **cube(2)),
   near=(1, 1, 2, 2, 0))
op("AvgPool3D",
   *[of("bfloat16 float32", x, **w) for x, w in CUBES],
   bad("5", V, **window(2)), bad("9", V, **cube(9, 1)),
   near=(4, 4, 4, 4, 0), scaled=True)
op("AvgPool3DGrad",
   *[of("bfloat16 float32", i32(np.shape(x)), triple3(x, w)[2], **w)
     for x, w in CUBES],
   bad("grad", i32(np.shape(V)), [[[[[1]]]]], **cube(2)),
   near=(4, 4, 4, 4, 0), scaled=True)

# Windows at random places, the same in every run when seeds are given.
LARGE = grid(1, 7, 5, 1, step=37, around=127)
RATIO = dict(pooling_ratio=[1.0, 1.5, 1.25, 1.0])
DRAWN = dict(deterministic=True, seed=87654321, seed2=42)
for kind in "Max", "Avg":
    op(f"Fractional{kind}Pool",
       sweep(grid(1, 5, 4, 1, step=13, around=37), **RATIO, **DRAWN),
       case(LARGE, **RATIO, **DRAWN, overlapping=True),
       case(LARGE, **RATIO, **DRAWN, pseudo_random=True),
       case(LARGE, **RATIO, deterministic=True, seed=3, seed2=9,
            pseudo_random=True, overlapping=True),
       case(SMALL, pooling_ratio=[1.0, 1.0, 1.5, 1.0], **DRAWN),
       bad("1, not 2", SMALL, pooling_ratio=[2.0, 1.5, 1.5, 1.0]),
       bad("0.5", SMALL, pooling_ratio=[1.0, 0.5, 1.5, 1.0]),
       bad("9", SMALL, pooling_ratio=[1.0, 1.5, 9.0, 1.0]),
       bad("seed", SMALL, **RATIO, seed=1),
       near=(0, 0, 2, 2, 0), dynamic=True)
ROWS, COLS = i64([0, 2, 3, 5]), i64([0, 1, 3])
DY = grid(1, 3, 2, 2)
BACK = grid(1, 5, 3, 2, step=37, around=127)
CELLS = np.array(BACK)
BEST = [[[[CELLS[0, a:b, c:d, k].max() for k in range(2)]
          for c, d in ((0, 1), (1, 3))] for a, b in ((0, 2), (2, 3), (3, 5))]]
op("FractionalMaxPoolGrad",
   sweep(BACK, BEST, DY, ROWS, COLS),
   case(BACK, BEST, DY, ROWS, COLS, overlapping=False),
   bad("out_backprop", BACK, BEST, DY[0][:1], ROWS, COLS))
op("FractionalAvgPoolGrad",
   sweep(i64([1, 5, 3, 2]), DY, ROWS, COLS),
   case(i64([1, 5, 3, 2]), DY, ROWS, COLS, overlapping=True),
   near=(0, 0, 2, 2, 0))

# ---- dilation ----------------------------------------------------------------


def taps(strides=(1, 1), rates=(1, 1), padding="SAME"):
    return dict(strides=[1, *strides, 1], rates=[1, *rates, 1], padding=padding)


FILTER = [[[0.25, 1]], [[-1.5, 0.75]]]
TAPS = [taps(), taps((2, 1), padding="VALID"), taps((1, 2), (2, 1))]
MISFITS = [
    bad("channels", X, grid(2, 2, 3), **taps()),
    bad("rank 4", [[1, 2]], FILTER, **taps()),
    bad("rank 3", X, [[1, 2]], **taps()),
    bad("strides", X, FILTER, **taps((0, 1))),
    bad("rates", X, FILTER, **taps(rates=(1, 0))),
    bad("does not fit", X, FILTER, **taps(rates=(9, 1), padding="VALID"))]

op("Dilation2D",
   sweep(SMALL, [[[1]], [[2]]], **taps()), *[case(X, FILTER, **t) for t in TAPS],
   floats([[[[nan], [1]], [[-inf], [inf]]]], [[[0], [1]]], **taps()),
   case(Zeros(0, 4, 4, 2), FILTER, **taps()), *MISFITS)


def dilated(t):
    """The shape of X under FILTER."""
    height = {"SAME": 3, "VALID": 2}[t["padding"]]
    up, along = t["strides"][1:3]
    return 2, -(-height // up), -(-2 // along), 2


for which in ["Input", "Filter"]:
    op("Dilation2DBackprop" + which,
       sweep(SMALL, [[[1]], [[2]]], SMALL, **taps()),
       *[no_grad(case(X, FILTER, grid(*dilated(t)), **t)) for t in TAPS],
       bad("out_backprop", X, FILTER, grid(1, 3, 2, 2), **taps()))
