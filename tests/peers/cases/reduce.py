"""Reductions, arg-reductions, scans.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (CLOSE, bad, case, floats, i32, i64, inf, nan, no_grad, of,
                   op, sweep)

X = [[1, -2, 3], [0.5, 5, -6]]
CUBE = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 1], [2, 3]]]


def axes():
    return [
        case(X, i32([0])),
        case(X, i32(-1)),
        case(X, i32([0, 1])),
        case(X, i32([])),
        case(CUBE, i32([1]), keep_dims=True),
        case(CUBE, i64([0, -1])),
        case(7, i32([])),
        no_grad(case([[], []], i32([1]))),
        case([[], []], i32([0])),
        bad("reduction_indices", X, i32([2])),
        bad("reduction_indices", X, i32([-3])),
        bad("reduction_indices", X, i32([0, 0])),
    ]


def reduction(name, x=X, edges=((nan, 1), (inf, 2), (-inf, 3)), more=(), **row):
    op(name, sweep(x, i32([1])), *axes(),
       *([no_grad(floats(edges, i32([1])))] if edges else []), *more, **row)


reduction("Sum", more=[floats([0.1] * 40, i32([0])),
                       of("int8", [100, 100, 100], i32([0]))],
          near=CLOSE)
reduction("Mean", more=[floats([0.1] * 40, i32([0])),
                        of("int32 uint8", [7, 8, 8], i32([0]))],
          near=CLOSE)
reduction("Prod", more=[case([[2, 0, 3], [0, 0, 4]], i32([1]))],
          near=CLOSE)
reduction("Max", more=[case([[2, 2, 1], [-1, -1, -1]], i32([1])),
                       of("uint8", [[], []], i32([1]))])
reduction("Min", more=[case([[2, 2, 3], [-1, -1, -1]], i32([1])),
                       of("uint8", [[], []], i32([1]))])
reduction("EuclideanNorm", more=[no_grad(case([[0, 0]], i32([1]))),
                                 of("complex64", [[3 + 4j, 12j]], i32([1]))],
          near=CLOSE)
for name in ("All", "Any"):
    op(name,
       sweep([[1, 0, 1], [1, 1, 1], [0, 0, 0]], i32([1])),
       case([[1, 0], [1, 1]], i32([0])), case([[1, 0], [1, 1]], i64([0, 1])),
       case([[1, 0], [1, 1]], i32([]), keep_dims=True),
       case([[], []], i32([1])), case(1, i32([])),
       bad("reduction_indices", [[1, 0]], i32([2])))
for name in ("ArgMax", "ArgMin"):
    op(name,
       sweep([[1, 5, 5], [4, 4, 2]], i32(1)),
       case(X, i32(0)), case(X, i64(-1)), case(CUBE, i32(1)),
       case([3, 1, 3, 1], i32(0), output_type="int32"),
       no_grad(floats([[nan, 2, 1], [2, nan, 3], [inf, -inf, inf]], i32(1))),
       of("bool", [[0, 1, 1], [1, 0, 1]], i32(1)),
       of("float32", [[], []], i32(0)),
       bad("dimension", X, i32(2)),
       bad("dimension", X, i32(-3)),
       bad("dimension", X, i32([0, 1])),
       bad("empty", [[], []], i32(1)))
for name in ("Cumsum", "Cumprod"):
    op(name,
       sweep([[1, -2, 3], [2, 5, -1]], i32(1)),
       case(CUBE, i32(0)), case(CUBE, i64(-2)),
       case(X, i32(1), exclusive=True),
       case(X, i32(1), reverse=True),
       case(X, i32(0), exclusive=True, reverse=True),
       case([[], []], i32(1)),
       no_grad(floats([1, nan, 2, inf], i32(0))),
       bad("axis", X, i32(2)),
       bad("axis", X, i32([0, 1])),
       near=CLOSE)
op("CumulativeLogsumexp",
   sweep([[1, -2, 3], [2, 5, -1]], i32(1)),
   case(CUBE, i32(0)), case(CUBE, i64(-2)),
   case(X, i32(1), exclusive=True),
   case(X, i32(1), reverse=True),
   case(X, i32(0), exclusive=True, reverse=True),
   case([[], []], i32(1)),
   no_grad(floats([1, -inf, 2, 300, 1e4], i32(0))),
   no_grad(floats([-inf, -inf, inf, nan], i32(0))),
   bad("axis", X, i32(2)),
   bad("axis", X, i32([0, 1])),
   near=(2, 2, 4, 4, 0))
op("L2Loss", floats(X), case([]), case(3), case([nan, 1]), case(CUBE),
   near=CLOSE)
op("Bincount",
   sweep(i32([0, 2, 2, 5]), i32(4), [1, 2, 3, 4]),
   case(i32([0, 2, 2, 5]), i32(3), []),
   case(i32([]), i32(2), []), case(i32([[0, 1], [1, 1]]), i32(2), []),
   case(i32([0, 1]), i32(0), []),
   bad("negative", i32([0, -1]), i32(3), []),
   bad("size", i32([0, 1]), i32(-3), []),
   bad("weights", i32([0, 1]), i32(3), [1]))
op("DenseBincount",
   sweep(i32([0, 2, 2, 5]), i32(4), [1, 2, 3, 4]),
   case(i32([[0, 2, 2], [1, 1, 5]]), i32(4), []),
   case(i64([[0, 2], [1, 1]]), i64(3), [[1, 2], [3, 4]]),
   case(i64([[0, 2], [1, 1]]), i64(3), [], binary_output=True),
   case(i32([]), i32(2), []), case(i32([[], []]), i32(2), []),
   bad("negative", i32([0, -1]), i32(3), []),
   bad("size", i32([0, 1]), i32(-3), []),
   bad("rank", i32([[[0, 1]]]), i32(3), []))
op("HistogramFixedWidth",
   sweep([-1, 0, 1, 2, 5, 15], [0, 5], i32(5)),
   case([[-1, 0, 1.5], [2, 5, 15]], [0, 5], i32(4)),
   case([0.5, 0.25], [0, 1], i32(2), dtype="int64"),
   case([], [0, 1], i32(3)),
   bad("nbins", [1], [0, 5], i32(0)), bad("increasing", [1], [5, 5], i32(2)),
   bad("value_range", [1], [5], i32(2)))
