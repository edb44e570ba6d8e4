"""Ops that move elements: joining, cutting, slicing, padding, turning.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (CLOSE, L, Zeros, bad, case, i32, i64, nan, no_grad, of, op,
                   string, sweep)

X = [[1, -2, 3], [4, 5, -6]]
CUBE = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 1], [2, 3]]]
BOX = [[[1, 2]], [[3, 4]]]
Q = [[1, 2], [3, 4]]
WORDS = string([b"a", b"", b"long \0 enough", b"d"])

op("ConcatV2",
   sweep(L([[1, 2], [3, 4]], [[5], [6]]), i32(1)),
   case(L(X, [[7, 8, 9]]), i32(0)), case(L(X, X, X), i64(-1)),
   case(L([[], []], [[1], [2]]), i32(1)), case(L(CUBE, CUBE), i32(1)),
   of("string", L(WORDS, string([b"x"])), i32(0)),
   bad("", L(X, [[1, 2]]), i32(1)), bad("", L(X, [1, 2]), i32(0)),
   bad("axis", L(X, X), i32(2)), bad("", L(1, 2), i32(0)),
   bad("", L(X, X), i32([0, 1])))
op("Concat",
   sweep(i32(1), L([[1, 2], [3, 4]], [[5], [6]])),
   case(i32(0), L(X, [[7, 8, 9]])),
   bad("", i32(1), L(X, [[1, 2]])), bad("", i32(5), L(X, X)))
op("ConcatOffset",
   sweep(i32(1), L(i32([2, 1]), i32([2, 5]), i32([2, 3]))),
   case(i32(-1), L(i64([2, 1]), i64([2, 5]))),
   bad("", i32(0), L(i32([2, 1]), i32([2, 5]))),
   bad("", i32(2), L(i32([2, 1]), i32([2, 1]))),
   bad("", i32(0), L(i32([2, 1]), i32([2]))))
op("Pack",
   sweep(L([1, 2], [3, 4], [5, 6])), case(L(X, X), axis=1),
   case(L(X, X), axis=-1), case(L(1, 2, 3)), case(L([], [])),
   case(L(X)), of("string", L(WORDS, WORDS), axis=1),
   bad("", L([1, 2], [1, 2, 3])), bad("axis", L(X, X), axis=3),
   bad("axis", L(X, X), axis=-4))
op("Unpack",
   sweep([[1, 2], [3, 4]], num=2), case(X, num=3, axis=1),
   case(CUBE, num=2, axis=-2), case([[], []], num=2), case([[], []], num=0,
                                                           axis=1),
   of("string", WORDS, num=4),
   bad("num", X, num=3), bad("axis", X, num=2, axis=2), bad("", 3, num=1))
op("Split",
   sweep(i32(1), [[1, 2, 3, 4], [5, 6, 7, 8]], num_split=2),
   case(i32(0), CUBE, num_split=3), case(i32(-1), X, num_split=3),
   case(i32(0), X, num_split=1), case(i32(0), [[], []], num_split=2),
   of("string", i32(0), WORDS, num_split=2),
   bad("num_split", i32(1), X, num_split=2),
   bad("", i32(2), X, num_split=1), bad("", i32([0, 1]), X, num_split=1))
op("SplitV",
   sweep([[1, 2, 3, 4], [5, 6, 7, 8]], i64([1, 3]), i32(1), num_split=2),
   case(X, i32([-1, 1]), i32(1), num_split=2),
   case(CUBE, i64([0, 3]), i32(0), num_split=2),
   of("string", WORDS, i64([1, 2, 1]), i32(0), num_split=3),
   bad("", X, i64([1, 1]), i32(1), num_split=2),
   bad("", X, i64([-1, -1]), i32(1), num_split=2),
   bad("", X, i64([-2, 5]), i32(1), num_split=2),
   bad("", X, i64([3]), i32(1), num_split=2),
   bad("", X, i64([1, 2]), i32(2), num_split=2))
op("Slice",
   sweep(X, i32([0, 1]), i32([2, 2])), case(X, i64([1, 0]), i64([-1, -1])),
   case(CUBE, i32([1, 0, 1]), i32([2, 1, 1])), case(X, i32([2, 0]),
                                                    i32([0, 3])),
   case(3, i32([]), i32([])), case([[], []], i32([0, 0]), i32([1, 0])),
   of("string", WORDS, i32([1]), i32([2])),
   bad("", X, i32([0, 1]), i32([2, 3])), bad("", X, i32([0, -1]), i32([1, 1])),
   bad("", X, i32([0, 0]), i32([-2, 1])), bad("", X, i32([0]), i32([1])),
   bad("", X, i32([3, 0]), i32([-1, 1])),
   bad("", X, i32([0, 0]), i32([1])), bad("vector", [1, 2], i32(0), i32(1)))


def ss(x, begin, end, strides, **masks):
    return case(x, i32(begin), i32(end), i32(strides), **masks)


def ss_bad(x, begin, end, strides, says="", **masks):
    return bad(says, x, i32(begin), i32(end), i32(strides), **masks)


op("StridedSlice",
   sweep([1, 2, 3], i32([0]), i32([2]), i32([1])),
   ss(X, [0, -1], [2, -4], [1, -1]),
   ss([[1, 2, 3]], [0, 0], [0, 0], [1, 2], begin_mask=3, end_mask=3),
   ss(Q, [1, 0], [2, 3], [1, 1], shrink_axis_mask=1),
   ss(Q, [-1, -1], [0, 0], [1, 1], shrink_axis_mask=3),
   ss(Q, [0, 0], [0, 2], [1, 1], new_axis_mask=1),
   ss(BOX, [0, 1], [0, 2], [1, 1], ellipsis_mask=1),
   ss(BOX, [1, 0, 0], [3, 0, 1], [1, 1, 1], ellipsis_mask=2),
   ss(BOX, [0, 0, 1, 0], [0, 0, 2, 2], [1, 1, 1, 2], ellipsis_mask=1,
      new_axis_mask=2),
   no_grad(ss(Q, [5, -9], [9, 9], [1, 1])),
   no_grad(ss(Q, [1, 2], [0, 0], [-1, -2], end_mask=3)),
   ss([[], []], [0, 0], [1, 5], [1, 1]),
   ss([1, 2, 3, 4, 5], [4], [0], [-2], end_mask=1),
   of("string", WORDS, i32([0]), i32([4]), i32([2])),
   ss_bad(Q, [0, 0], [1, 1], [0, 1]),
   ss_bad(Q, [2], [3], [1], shrink_axis_mask=1),
   ss_bad(Q, [0], [1], [-1], shrink_axis_mask=1),
   ss_bad([1], [0, 0], [1, 1], [1, 1]),
   ss_bad([1], [0, 0], [1, 1], [1]),
   ss_bad(BOX, [0, 0, 0], [1, 1, 1], [1, 1, 1], "ellipsis", ellipsis_mask=3),
   ss_bad([1], [[0]], [[1]], [[1]]))
op("StridedSliceGrad",
   sweep(i32([2, 3]), i32([0, 1]), i32([2, 3]), i32([1, 1]), [[1, 2], [3, 4]]),
   case(i64([3]), i64([2]), i64([-4]), i64([-2]), [5, 6]),
   case(i32([2, 3]), i32([1, 0]), i32([2, 3]), i32([1, 1]), [7, 8, 9],
        shrink_axis_mask=1),
   case(i32([2, 3]), i32([0, 0]), i32([0, 2]), i32([1, 1]),
        [[[1, 2, 3], [4, 5, 6]]], new_axis_mask=1, end_mask=2),
   bad("", i32([2, 3]), i32([0, 1]), i32([2, 3]), i32([1, 1]), [[1, 2, 3]]),
   bad("", i32([2, 3]), i32([0, 1]), i32([2, 3]), i32([1, 0]),
       [[1, 2], [3, 4]]))
op("Tile",
   sweep([[1, 2], [3, 4]], i32([1, 2])), case([[1, 2]], i64([3, 1])),
   case([[1, 2]], i32([0, 2])), case(3, i32([])), case([[], []], i32([2, 2])),
   case(CUBE, i32([1, 2, 2])), of("string", WORDS, i32([2])),
   bad("multiples", X, i32([2])), bad("multiples", X, i32([2, -1])),
   bad("", X, i32([[1, 2]])), bad("vector", [1, 2], i32(2)))
op("Pad",
   sweep([[1, 2], [3, 4]], i32([[0, 1], [1, 0]])),
   case([[1, 2]], i64([[1, 1], [0, 2]])), case(3, i32([[]]).reshape(0, 2)),
   case([[], []], i32([[0, 1], [1, 1]])), case(CUBE, i32([[0, 0]] * 3)),
   bad("paddings", X, i32([[0, -1], [0, 0]])),
   bad("paddings", X, i32([[1, 1]])),
   bad("paddings", X, i32([1, 1])), bad("paddings", X, i32([[1], [1]])))
op("PadV2",
   sweep([[1, 2], [3, 4]], i32([[0, 1], [1, 0]]), 9),
   case([[1, 2]], i64([[1, 1], [0, 2]]), -1),
   case([[], []], i32([[0, 1], [1, 1]]), 5),
   bad("paddings", X, i32([[0, -1], [0, 0]]), 1),
   bad("", X, i32([[0, 1], [0, 0]]), [1, 2]))
op("MirrorPad",
   sweep([[1, 2, 3], [4, 5, 6]], i32([[0, 1], [2, 0]]), mode="REFLECT"),
   case(X, i64([[1, 2], [3, 0]]), mode="SYMMETRIC"),
   case(X, i32([[1, 0], [0, 0]]), mode="REFLECT"),
   case(X, i32([[0, 0], [0, 0]]), mode="REFLECT"),
   case(CUBE, i32([[2, 1], [0, 0], [1, 1]]), mode="SYMMETRIC"),
   case(3, i32([[]]).reshape(0, 2), mode="REFLECT"),
   bad("", X, i32([[0, 2], [0, 0]]), mode="REFLECT"),
   bad("", X, i32([[0, 3], [0, 0]]), mode="SYMMETRIC"),
   bad("paddings", X, i32([[0, -1], [0, 0]]), mode="SYMMETRIC"),
   bad("paddings", X, i32([[1, 1]]), mode="SYMMETRIC"))
op("MirrorPadGrad",
   sweep([[1, 2, 3, 4, 5], [4, 5, 6, 7, 8], [0, 1, 2, 3, 4]],
         i32([[0, 1], [2, 0]]), mode="REFLECT"),
   case([[1, 2, 3, 4, 5], [4, 5, 6, 7, 8]], i64([[0, 0], [1, 1]]),
        mode="SYMMETRIC"),
   case(X, i32([[0, 0], [0, 0]]), mode="REFLECT"),
   bad("", X, i32([[0, 1], [0, 0]]), mode="REFLECT"),
   bad("paddings", X, i32([[0, 0], [-1, 1]]), mode="REFLECT"),
   near=CLOSE)
op("ReverseSequence",
   sweep([[1, 2, 3], [4, 5, 6]], i64([2, 3]), seq_dim=1),
   case(CUBE, i32([2, 1]), seq_dim=0, batch_dim=1),
   case(CUBE, i64([0, 2, 1]), seq_dim=2, batch_dim=0),
   case([[], []], i64([0, 0]), seq_dim=1),
   bad("4", X, i64([4, 1]), seq_dim=1), bad("", X, i64([1]), seq_dim=1),
   bad("-1", X, i64([-1, 1]), seq_dim=1),
   bad("seq_dim", X, i64([1, 1]), seq_dim=2),
   bad("batch_dim", X, i64([1, 1]), seq_dim=0))
op("Roll",
   sweep([1, 2, 3, 4], i32(1), i32(0)),
   case(X, i32([1, -1]), i32([0, 1])), case(X, i64(-5), i64(-1)),
   case(X, i32([1, 2]), i32([1, 1])), case(CUBE, i32([2, 1]), i32([0, 2])),
   case([[], []], i32(1), i32(1)),
   bad("axis", X, i32(1), i32(2)), bad("", X, i32([1, 2]), i32([0])),
   bad("rank", 1, i32(1), i32(0)))
GRID = [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]
for name in ("SpaceToDepth", "DepthToSpace"):
    op(name,
       sweep([[[[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 3, 5, 7], [2, 4, 6, 8]]]],
             block_size=2),
       case(Zeros(1, 2, 0, 4), block_size=2),
       of("float32", [[[list(range(9))] * 3] * 3], block_size=3),
       bad("multiple", [[[[1, 2, 3]] * 3] * 3], block_size=2),
       bad("rank", X, block_size=2))
op("SpaceToBatchND",
   sweep(GRID, i32([2, 2]), i32([[0, 0], [0, 0]])),
   case(X, i64([3]), i64([[0, 0]])), case(X, i32([2]), i32([[1, 0]])),
   case(CUBE, i32([2, 3]), i32([[1, 1], [0, 4]])),
   case([[], []], i32([2]), i32([[0, 2]])), case(X, i32([]),
                                                i32([]).reshape(0, 2)),
   bad("multiple", X, i32([2]), i32([[0, 0]])),
   bad("negative", X, i32([3]), i32([[-1, 1]])),
   bad("block_shape", X, i32([0]), i32([[0, 0]])),
   bad("paddings", X, i32([3]), i32([[0, 0], [0, 0]])),
   bad("rank", [1, 2], i32([1, 1]), i32([[0, 0], [0, 0]])))
FOUR = [[[[1, 2]]], [[[3, 4]]], [[[5, 6]]], [[[7, 8]]]]
op("BatchToSpaceND",
   sweep(FOUR, i32([2, 2]), i32([[0, 0], [0, 0]])),
   case(X, i64([2]), i64([[0, 0]])), case(X, i32([2]), i32([[1, 2]])),
   case(X, i32([]), i32([]).reshape(0, 2)),
   bad("multiple", X, i32([3]), i32([[0, 0]])),
   bad("negative", X, i32([2]), i32([[-1, 1]])),
   bad("crops", X, i32([2]), i32([[4, 4]])),
   bad("block_shape", X, i32([0]), i32([[0, 0]])))
op("SpaceToBatch",
   sweep(GRID, i32([[0, 0], [0, 0]]), block_size=2),
   case(GRID, i64([[1, 1], [2, 0]]), block_size=2),
   bad("multiple", GRID, i32([[0, 1], [0, 0]]), block_size=2),
   bad("paddings", GRID, i32([[0, 0]]), block_size=2))
op("BatchToSpace",
   sweep(FOUR, i32([[0, 0], [0, 0]]), block_size=2),
   case(FOUR, i64([[1, 0], [0, 1]]), block_size=2),
   bad("multiple", GRID, i32([[0, 0], [0, 0]]), block_size=2),
   bad("crops", FOUR, i32([[0, 0]]), block_size=2))
op("Transpose",
   sweep(X, i32([1, 0])), case(CUBE, i32([2, 0, 1])),
   case(CUBE, i64([0, 2, 1])),
   case(3, i32([])), case([[], []], i32([1, 0])),
   of("string", string([[b"a", b"b"], [b"", b"d"]]), i32([1, 0])),
   case([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]], i32([3, 1, 0, 2])),
   bad("perm", X, i32([0])), bad("perm", X, i32([0, 0])),
   bad("perm", X, i32([0, 2])), bad("perm", X, i32([0, -3])),
   bad("perm", X, i32([[0, 1]])))
op("ConjugateTranspose",
   sweep(X, i32([1, 0])), of("complex64", [[1 + 2j, 3j]], i32([1, 0])),
   of("complex128", [[[1 + 2j], [3j]]], i64([2, 0, 1])),
   of("complex64", [[1 + 2j], [3j]], i32([0, 1])),
   of("complex128", 2 - 1j, i32([])), of("complex64", [1j, nan], i32([0])),
   of("string", string([[b"a", b"b"]]), i32([1, 0])),
   of("complex64", Zeros(0, 2), i32([1, 0])),
   bad("perm", X, i32([0])), bad("perm", X, i32([0, 0])))
op("ReverseV2",
   sweep(X, i32([1])), case(CUBE, i32([0, -1])), case(CUBE, i64([1])),
   case(X, i32([])), case([[], []], i32([0])), case(3, i32([])),
   bad("axis", X, i32([2])), bad("axis", X, i32([0, 0])),
   bad("axis", X, i32([0, -2])), bad("", X, i32([[0]])))
