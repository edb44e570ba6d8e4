"""Gathering, scattering, segments, partitions, unique, where.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (CLOSE, L, Zeros, bad, case, floats, i32, i64, inf, nan, of,
                   op, string, sweep)

X = [[1, -2, 3], [4, 5, -6], [7, 8, 9]]
CUBE = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 1], [2, 3]]]
BOX = [[[1, 2]], [[3, 4]]]
WORDS = string([b"a", b"", b"long \0 enough", b"d"])

op("GatherV2",
   sweep([1, 2, 3, 4], i32([3, 0, 0]), i32(0)),
   case(X, i64([[0, 2], [1, 1]]), i32(0)),
   case(X[:2], i32([2, 0]), i32(1)),
   case(BOX, i32([1]), i64(-1)), case(X, i32(1), i32(0)),
   case(BOX, i32([]), i32(0)), case([[], []], i32([1]), i32(0)),
   case(X[:2], i32([[0, 2], [1, 1]]), i32(1), batch_dims=1),
   case(BOX, i32([[0, 1], [1, 1]]), i32(2), batch_dims=-1),
   of("string", WORDS, i32([2, 0]), i32(0)),
   bad("3", X, i32([0, 3]), i32(0)), bad("-1", X, i32([-1]), i32(0)),
   bad("axis", X, i32([0]), i32(2)), bad("", 3, i32([0]), i32(0)),
   bad("", X, i32([0]), i32([0, 1])),
   bad("", X, i32([0]), i32(0), batch_dims=1),
   bad("batch_dims", X, i32([[0], [0], [0]]), i32(1), batch_dims=3),
   bad("", X, i32([[0, 1], [1, 0]]), i32(1), batch_dims=1))
op("Gather",
   sweep([1, 2, 3, 4], i32([3, 0, 0])), case(X, i64([[0, 2], [1, 1]])),
   case(X, i32(1)), case(X, i32([])),
   bad("3", X, i32([0, 3])), bad("-1", X, i32([-1])), bad("", 3, i32([0])))
op("GatherNd",
   sweep([[1, 2], [3, 4]], i32([[0, 1], [1, 0]])), case(X, i64([[2], [0]])),
   case(CUBE, i32([[[0, 1], [2, 0]]])), case(X, i32([[]])),
   case(X, i32([[[], []]])), case(X, i32([[0, 1]]).reshape(1, 2)),
   case(X, i32([]).reshape(0, 2)), of("string", WORDS, i32([[2], [1]])),
   bad("3", X, i32([[3, 0]])), bad("-1", X, i32([[0, -1]])),
   bad("", X, i32([[0, 0, 0]])), bad("", X, i32(0)))
op("ScatterNd",
   sweep(i32([[3], [0], [3]]), [1, 2, 4], i32([5])),
   case(i64([[0, 1], [2, 2]]), [5, 6], i64([3, 3])),
   case(i32([[2], [0]]), [[1, 2], [3, 4]], i32([3, 2])),
   case(i32([]).reshape(0, 1), [], i32([2])),
   case(i32([[1]]), [[5, 6]], i32([2, 2])),
   bad("5", i32([[5]]), [1], i32([5])), bad("-1", i32([[-1]]), [1], i32([5])),
   bad("", i32([[0]]), [1, 2], i32([5])), bad("", i32([[0, 0]]), [1], i32([5])),
   bad("", i32([[0]]), [1], i32([-1])), bad("", i32([[0]]), [1], i32([0])),
   of("string", i32([[1], [0], [1], [3]]), WORDS, i32([4])),
   of("string", i64([[1], [1]]), string([[b"a", b"b"], [b"", b"c"]]),
      i64([2, 2])),
   bad("shape", i32([]).reshape(0, 0), [], i32([])))
for name in ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub",
             "TensorScatterMax", "TensorScatterMin", "ScatterNdNonAliasingAdd"):
    op(name,
       sweep([1, 2, 3, 4], i32([[3], [0]]), [7, 1]),
       case(X, i64([[0, 1], [2, 2]]), [5, 9]),
       case(X, i32([[2], [0]]), [[1, 9, 3], [3, 4, 5]]),
       case(X, i32([]).reshape(0, 1), Zeros(0, 3)),
       *([] if name == "TensorScatterUpdate" else
         [case([1, 2], i32([[1], [1]]), [1, 3])]),
       bad("5", [1, 2], i32([[5]]), [1]), bad("-1", [1, 2], i32([[-1]]), [1]),
       bad("updates", [1, 2], i32([[0]]), [1, 2]),
       bad("", [1, 2], i32([[0, 0]]), [1]),
       near=CLOSE)
op("UnsortedSegmentSum",
   sweep([[1, 2], [3, 4], [5, 6]], i32([1, 0, 1]), i32(3)),
   case([1, 2, 3, 4], i64([0, -1, 2, 0]), i64(3)),
   case(CUBE, i32([[0, 1], [1, 0], [1, 1]]), i32(2)),
   case([], i32([]), i32(2)), case([[], []], i32([0, 1]), i32(2)),
   case(5, i32(1), i32(2)), case([1, 2], i32([-1, -1]), i32(0)),
   bad("3", [1, 2], i32([0, 3]), i32(3)), bad("", [1, 2], i32([0]), i32(3)),
   bad("num_segments", [1, 2], i32([0, 0]), i32(-1)),
   bad("", [1, 2], i32([[0, 0]]), i32(1)),
   bad("num_segments", [1, 2], i32([0, 0]), i32([1, 2])),
   bad("num_segments", [1, 2], i32([0, 0]), i32([1])))
for name in ("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"):
    op(name,
       sweep([[1, 2], [3, 4], [5, 6]], i32([1, 0, 1]), i32(3)),
       case([1, 2, 3, 4], i64([0, -1, 2, 0]), i64(3)),
       case(CUBE, i32([[0, 1], [1, 0], [1, 1]]), i32(2)),
       case([2, 2, 0, 3], i32([0, 0, 1, 1]), i32(2)),
       case([], i32([]), i32(2)),
       floats([inf, 1, -3, 2], i32([0, 0, 1, 1]), i32(2)),
       bad("3", [1, 2], i32([0, 3]), i32(3)),
       bad("", [1, 2], i32([0]), i32(3)),
       bad("num_segments", [1, 2], i32([0, 0]), i32(-1)))
for name in ("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax",
             "SegmentMin"):
    op(name,
       sweep([[1, 2], [3, 4], [5, 6]], i32([0, 0, 2])),
       case([1, 2, 3, 4], i64([0, 1, 1, 3])), case([], i32([])),
       case([2, 2, 0, 3], i32([0, 0, 1, 1])), case(CUBE, i32([0, 1, 1])),
       bad("sorted", [1, 2], i32([1, 0])), bad("", [1, 2], i32([0])),
       bad("", [1, 2], i32([-1, 0])),
       near=CLOSE, dynamic=True)
# Where there are no indices TensorFlow's gradients are whatever was in memory.
for name in ("Sum", "Mean", "SqrtN"):
    op("SparseSegment" + name,
       sweep([[1, 2], [3, 4], [5, 6]], i32([2, 0, 2]), i32([0, 0, 2])),
       case([1, 2, 3], i64([0, 1]), i64([1, 1])),
       case(CUBE, i32([1, 1, 0]), i32([0, 1, 1])), case(X, i32([]), i32([])),
       bad("3", X, i32([0, 3]), i32([0, 0])),
       bad("-1", X, i32([-1, 2]), i32([0, 0])),
       bad("sorted", X, i32([0, 1]), i32([1, 0])),
       bad("size", X, i32([0, 1]), i32([0])), bad("rank", 1, i32([0]), i32([0])),
       near=CLOSE, dynamic=True)
    op("SparseSegment" + name + "WithNumSegments",
       sweep([[1, 2], [3, 4], [5, 6]], i32([2, 0, 2]), i32([0, 0, 2]), i32(4)),
       case([1, 2, 3], i64([0, 1]), i64([1, 1]), i64(2)),
       case(X, i32([]), i32([]), i32(2)),
       bad("3", X, i32([0, 3]), i32([0, 0]), i32(1)),
       bad("segment_ids", X, i32([0, 1]), i32([0, 1]), i32(1)),
       bad("sorted", X, i32([0, 1]), i32([1, 0]), i32(2)),
       bad("num_segments", X, i32([0, 1]), i32([0, 1]), i32(-1)),
       near=CLOSE)
    op("SparseSegment" + name + "Grad",
       sweep([[1, 2], [3, 4], [5, 6]], i32([2, 0, 2]), i32([0, 0, 2]), i32(4)),
       case([1, 2], i64([0, 1]), i64([1, 1]), i32(3)),
       bad("3", X, i32([0, 3]), i32([0, 0]), i32(3)),
       bad("segment_ids", X, i32([0, 1]), i32([0, 3]), i32(3)),
       bad("output_dim0", X, i32([0, 1]), i32([0, 0]), i32(-1)),
       near=CLOSE)
op("DynamicPartition",
   sweep([[1, 2], [3, 4], [5, 6]], i32([1, 0, 1]), num_partitions=2),
   case([1, 2, 3], i32([0, 0, 0]), num_partitions=3),
   case(CUBE, i32([[0, 1], [1, 0], [1, 1]]), num_partitions=2),
   case(5, i32(1), num_partitions=2), case([], i32([]), num_partitions=2),
   of("string", WORDS, i32([1, 0, 1, 1]), num_partitions=2),
   bad("2", [1, 2], i32([0, 2]), num_partitions=2),
   bad("-1", [1, 2], i32([0, -1]), num_partitions=2),
   bad("", [1, 2], i32([0]), num_partitions=2),
   dynamic=True)
op("DynamicStitch",
   sweep(L(i32([2, 0]), i32([1])), L([[1, 2], [3, 4]], [[5, 6]])),
   case(L(i32([0, 1]), i32([1, 0])), L([1, 2], [3, 4])),
   case(L(i32(1), i32([[0, 2]])), L([1, 2], [[[3, 4], [5, 6]]])),
   case(L(i32([])), L([])), case(L(i32([1, 0])), L([7, 8])),
   bad("", L(i32([0, 1])), L([1])), bad("-1", L(i32([-1])), L([1])),
   bad("", L(i32([0]), i32([1])), L([1], [[1, 2]])),
   dynamic=True)
op("ParallelDynamicStitch",
   sweep(L(i32([2, 0]), i32([1])), L([[1, 2], [3, 4]], [[5, 6]])),
   case(L(i32(1), i32([[0, 2]])), L([1, 2], [[[3, 4], [5, 6]]])),
   case(L(i32([])), L([])),
   bad("", L(i32([0, 1])), L([1])), bad("-1", L(i32([-1])), L([1])),
   dynamic=True)
for name in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
    op(name,
       sweep(X, i32([2, 0]), [[1, 2, 3], [4, 5, 6]]),
       case([1, 2, 3], i32([1, 1]), [5, 6]), case(X, i32([]), Zeros(0, 3)),
       case([1, 2, 3], i32([-1, 4]), [5, 6]), case(CUBE, i32([1]), [CUBE[0]]),
       bad("x", 3, i32([0]), 1), bad("i", X, i32(0), X[0]),
       bad("v", X, i32([0]), X), bad("v", X, i32([0]), [[1, 2]]),
       missing={"T": "string qint8 quint8 qint16 quint16 qint32"
                     + (" bool" if name != "InplaceUpdate" else "")},
       because="TensorFlow refuses them when it runs")
op("NthElement",
   sweep([[3, 1, 2], [5, 9, 7]], i32(1)), case([3, 1, 2], i32(0), reverse=True),
   case([4, 4, 1], i32(2)), case(CUBE, i32(1)), case(Zeros(0, 2), i32(0)),
   bad("n must", [1, 2], i32(2)), bad("n must", [1, 2], i32(-1)),
   bad("", 3, i32(0)), bad("", [1, 2], i32([0, 1])))
op("Unique",
   sweep([3, 1, 3, 2, 1]), of("float32", []), of("int32", [2], out_idx="int64"),
   of("string", string([b"b", b"a", b"b", b""])),
   of("float32", [0.0, -0.0, 1]),
   bad("", [[1, 2]]), bad("", 1),
   dynamic=True)
op("UniqueWithCounts",
   sweep([3, 1, 3, 2, 1]), of("float32", []), of("int32", [2], out_idx="int64"),
   of("string", string([b"b", b"a", b"b", b""])),
   bad("", [[1, 2]]), bad("", 1),
   dynamic=True)
for name in ("UniqueV2", "UniqueWithCountsV2"):
    op(name,
       sweep([[3, 1, 3], [2, 2, 2], [3, 1, 3]], i64([0])),
       case([[3, 1, 3], [2, 2, 2]], i32([1])), case([3, 1, 3], i64([])),
       case(CUBE, i64([-1])), case([[], []], i64([0])),
       of("string", string([[b"b", b"a"], [b"b", b"a"]]), i64([0])),
       bad("axis", X, i64([2])), bad("axis", X, i64([0, 1])),
       bad("", X, i64([])),
       dynamic=True)
op("ListDiff",
   sweep([3, 1, 3, 2, 1, 5], [1, 2]), case([1, 2], []), case([], [1]),
   case([1, 1], [1], out_idx="int64"), floats([nan, 1, 2], [nan, 1]),
   bad("x", [[1]], [1]), bad("y", [1], 1),
   dynamic=True)
op("Where",
   sweep([[1, 0, 3], [0, 0, -6]]), case([0, 1, 1]), case([[[1, 0]]]),
   case([]), case([[], []]), floats([nan, -0.0, 0, inf]),
   bad("scalar", 1), dynamic=True)
op("TopKV2",
   sweep([[1, 5, 2, 5], [4, 4, 3, 9]], i32(2)),
   case([3, 1, 2], i32(3)), case([3, 1, 2], i32(0)),
   case([[1, 2, 3]], i32(1)), case([3, 1, 2, 7], i32(3)),
   case([[[1, 2], [4, 3]]], i32(2)), case([-0.0, 0.0, -1], i32(2)),
   bad("k", [3, 1, 2], i32(4)), bad("k", [3, 1, 2], i32(-1)),
   bad("", 3, i32(0)), bad("k", [3, 1, 2], i32([1, 2])))
