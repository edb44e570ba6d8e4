"""Connectionist temporal classification.

SPDX-License-Identifier: Apache-2.0
"""

from .base import Zeros, bad, case, i32, i64, no_grad, of, op
from .pool import grid

X = grid(4, 2, 3)
TWO = i64([[0, 0], [0, 1], [1, 0]])
FOUR = i64([[0, 0], [0, 1], [0, 2], [1, 0]])
AGAIN = i32([0, 0, 0, 1])

# TensorFlow is right to seven digits even in float64.
op("CTCLoss",
   of("float32", X, TWO, i32([0, 1, 1]), i32([4, 4])),
   of("float32", X, TWO, i32([0, 1, 1]), i32([3, 1])),
   of("float32", X, TWO, i32([0, 1, 1]), i32([1, 4]),
      ignore_longer_outputs_than_inputs=True),
   no_grad(of("float64", X, FOUR, AGAIN, i32([4, 4]))),
   no_grad(of("float64", X, TWO, i32([0, 1, 1]), i32([4, 3]))),
   of("float32", X, FOUR, AGAIN, i32([4, 4]), ctc_merge_repeated=False),
   of("float32", X, FOUR, AGAIN, i32([4, 4]),
      preprocess_collapse_repeated=True),
   of("float32", grid(5, 2, 4), FOUR, i32([2, 0, 2, 1]), i32([5, 3])),
   bad("0 rows", Zeros(3, 0, 2), i64([]).reshape(0, 2), i32([]), i32([])),
   bad("no labels", X, TWO[:2], i32([0, 1]), i32([4, 4])),
   bad("only 1", X, TWO, i32([0, 1, 1]), i32([1, 4])),
   bad("-1", X, TWO, i32([0, -1, 1]), i32([4, 4])),
   bad("5", X, TWO, i32([0, 1, 1]), i32([5, 4])),
   bad("order", X, TWO[::-1].copy(), i32([0, 1, 1]), i32([4, 4])),
   bad("outside", X, i64([[0, 0], [2, 0]]), i32([0, 1]), i32([4, 4])),
   bad("label", X, TWO, i32([0, 1]), i32([4, 4])),
   bad("batch", X, TWO, i32([0, 1, 1]), i32([4])),
   near=(0, 0, 64, 2e9, 0), scaled=True)
op("CTCGreedyDecoder",
   of("float32 float64", X, i32([4, 4])),
   case(X, i32([4, 3]), merge_repeated=True),
   case(X, i32([4, 3]), blank_index=0), case(X, i32([4, 2]), blank_index=-3),
   case(X, i32([0, 0])), case([[[1, 1, 0]], [[1, 1, 2]]], i32([2])),
   bad("9", X, i32([4, 4]), blank_index=9), bad("5", X, i32([5, 3])),
   bad("batch", X, i32([5])), dynamic=True)
LONG, TINY = grid(6, 2, 4, step=37, around=127), grid(1, 2, 3)


def beam(width, paths, **attrs):
    return dict(beam_width=width, top_paths=paths, **attrs)


def narrow(x):
    """The same in steps of a tenth: many sequences are likely."""
    return [narrow(y) if isinstance(y, list) else y / 20 for y in x]


op("CTCBeamSearchDecoder",
   of("float32 float64", LONG, i32([6, 5]), **beam(8, 2)),
   case(narrow(LONG), i32([6, 4]), **beam(16, 3, merge_repeated=False)),
   case(narrow(LONG), i32([6, 6]), **beam(3, 3, merge_repeated=False)),
   case(narrow(grid(7, 1, 3, step=23, around=101)), i32([7]),
        **beam(5, 4, merge_repeated=False)),
   case(narrow(grid(7, 1, 3, step=23, around=101)), i32([7]), **beam(100, 2)),
   case(LONG, i32([3, 0]), **beam(1, 1)), case(TINY, i32([0, 0]), **beam(4, 1)),
   bad("top_paths", TINY, i32([1, 1]), **beam(2, 3)),
   bad("fewer", TINY, i32([0, 0]), **beam(4, 2)),
   bad("7", TINY, i32([7, 1]), **beam(4, 2)),
   bad("batch", TINY, i32([1]), **beam(4, 2)),
   bad("times", TINY[0], i32([1, 1]), **beam(4, 2)),
   near=(0, 0, 64, 2e9, 0), scaled=True, dynamic=True)
