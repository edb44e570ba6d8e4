"""Ops about shapes: what a shape is, other shapes, filling, ranges.

SPDX-License-Identifier: Apache-2.0
"""

from .base import L, bad, case, f32, floats, i32, i64, of, op, string, sweep

X = [[1, -2, 3], [4, 5, -6]]
CUBE = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 1], [2, 3]]]

op("Shape", sweep(X), case(3), case([[], []]), case(X, out_type="int64"))
op("ShapeN", sweep(L(X, [1, 2])), case(L(3, [[], []]), out_type="int64"))
op("Size", sweep(X), case(3), case([[], []]), case(X, out_type="int64"))
op("Rank", sweep(X), case(3), case([[], []]))
op("Reshape",
   sweep(X, i32([3, 2])), case(X, i64([-1])), case(X, i32([2, 1, -1])),
   case([3], i32([])), case(3, i32([1, 1])), case([[], []], i32([0, 5])),
   case([[], []], i32([-1, 3])),
   bad("{4}", X, i32([4])),
   bad("{4, -1}", X, i32([4, -1])),
   bad("-1", X, i32([-1, -1])),
   bad("-2", X, i32([-2, 3])),
   bad("shape", X, i32([[3, 2]])),
   bad("", X, i32([2**31 - 1] * 3)))
op("ExpandDims",
   sweep(X, i32(1)), case(X, i32(-1)), case(X, i32(0)), case(X, i64(2)),
   case(3, i32(0)), case([[], []], i32(-3)),
   bad("", X, i32(3)), bad("", X, i32(-4)), bad("", X, i32([0, 1])))
op("Squeeze",
   sweep([[[1], [2]]]), case([[[1], [2]]], squeeze_dims=[0]),
   case([[[1], [2]]], squeeze_dims=[-1, 0]), case([[3]]), case(3),
   case([[[]], [[]]], squeeze_dims=[1]),
   bad("2", [[[1], [2]]], squeeze_dims=[1]),
   bad("", [[[1], [2]]], squeeze_dims=[3]))
op("Fill",
   sweep(i32([2, 3]), 7), case(i64([2]), -1.5), case(i32([]), 2),
   case(i32([0, 3]), 2), of("string", i32([2]), string(b"ab")),
   bad("negative", i32([2, -1]), 1),
   bad("value", i32([2]), [1, 2]),
   bad("", i32([[2]]), 1))
op("ZerosLike", sweep(X), case([[], []]), case(3))
op("OnesLike", sweep(X), case([[], []]), case(3))
op("BroadcastTo",
   sweep([1, 2, 3], i32([2, 3])), case([[1], [2]], i64([2, 2])),
   case(3, i32([2, 2])), case([[1], [2]], i32([3, 2, 2])),
   case([[1]], i32([0, 3])), case([], i32([2, 0])), case(5, i32([])),
   bad("", [1, 2], i32([3])), bad("", [[1, 2]], i32([2])),
   bad("", [1], i32([-2])))
op("BroadcastArgs",
   sweep([2, 1, 3], [4, 1]), case(i32([]), i32([2, 3])),
   case(i64([0, 1]), i64([5])),
   bad("broadcast", i32([2, 3]), i32([3, 3])))
op("BroadcastGradientArgs",
   sweep([2, 1, 3], [4, 1]), case(i32([]), i32([2, 3])),
   case(i64([0, 1]), i64([5])), case(i32([2, 3]), i32([2, 3])),
   case(i32([1, 1]), i32([1])), case(i32([5, 1]), i32([1, 5])),
   bad("broadcast", i32([2, 3]), i32([3, 3])),
   dynamic=True)
op("Range",
   sweep(1, 9, 3), case(i32(5), i32(0), i32(-2)), case(i64(3), i64(3), i64(1)),
   floats(0, 1, 0.25), of("float32 float64", 0, 1, 0.1),
   of("int32", 0, 0, 5),
   bad("delta", i32(1), i32(5), i32(0)),
   bad("start", i32(1), i32(5), i32(-1)),
   bad("start", i32([1, 2]), i32(5), i32(1)))
op("LinSpace",
   sweep(1, 3, i32(5)), case(-2, 7, i64(4)), case(1, 9, i32(1)),
   case(3, -3, i32(2)), floats(0, 1, i32(7)),
   bad("num", f32(1), f32(2), i32(0)), bad("", f32([1]), f32(2), i32(3)),
   near=(1, 1, 1, 1, 4))
op("OneHot",
   sweep([0, 2, 1], i32(3), 1, 0), case(i32([0, -1, 3]), i32(3), 5, -1),
   case(i64([[0, 1], [2, 0]]), i32(3), 1, 0, axis=0),
   case(i64([[0, 1], [2, 0]]), i32(3), 1, 0, axis=1),
   case(i64(1), i32(2), 1, 0), case(i64([]), i32(2), 1, 0),
   case(i64([1]), i32(0), 1, 0),
   of("string", i64([1]), i32(2), string(b"on"), string(b"off")),
   bad("depth", i64([1]), i32(-1), f32(1), f32(0)),
   bad("axis", i64([1]), i32(2), f32(1), f32(0), axis=2),
   bad("depth", i64([1]), i32([2]), f32(1), f32(0)),
   bad("", i64([1]), i32(2), f32([1]), f32(0)))
op("EnsureShape",
   sweep(X, shape=[2, 3]), case(X, shape=[None, 3]), case(X, shape=[2, None]),
   case([[], []], shape=[2, 0]),
   bad("{3, 3}", X, shape=[3, 3]), bad("{2}", X, shape=[2]))
op("InvertPermutation",
   sweep([2, 0, 1, 3]), of("int32", []),
   bad("", i32([0, 0])), bad("", i32([0, 2])), bad("", i32([-1, 0])),
   bad("", i32([[0, 1]])))
op("Diag",
   sweep([1, 2, 3]), case([[1, 2], [3, 4]]), case([]),
   bad("", 1))
op("DiagPart",
   sweep([[1, 2], [3, 4]]),
   case([[[[1, 0], [0, 2]], [[3, 4], [5, 6]]],
         [[[1, 7], [0, 2]], [[3, 4], [8, 9]]]]),
   bad("", [1, 2, 3]), bad("", [[1, 2, 3], [4, 5, 6]]))
