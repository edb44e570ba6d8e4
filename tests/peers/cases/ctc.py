"""Connectionist temporal classification.

SPDX-License-Identifier: Apache-2.0
"""

from .base import bad, case, i32, i64, no_grad, of, op
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
