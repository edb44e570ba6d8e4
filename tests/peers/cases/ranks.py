"""Tensors of every rank that TensorFlow takes, up to 15, by op.

ranks(op, make) says make(n) for each rank n of `of`; make gives one case or a
list of cases. Few axes are longer than 1, so that all stays small; which ones
they are differs from rank to rank, and so does what can be merged.

SPDX-License-Identifier: Apache-2.0
"""

import random

import numpy as np

from .base import L, Var, case, i32, i64, of, ranks, string

LETTERS = "abcdefghijklmno"
ANY = range(0, 16)
SOME = range(1, 16)


def sizes(n, seed=0, long=2):
    """n sizes: 2 or 3 at `long` places, else 1."""
    draw = random.Random(100 * seed + n)
    s = [1] * n
    for k, at in enumerate(draw.sample(range(n), min(long, n))):
        s[at] = 3 if k == 0 and n % 2 else 2
    return s


def of_shape(s):
    """Distinct small numbers in a nested list."""
    count = int(np.prod(s))
    return (np.arange(count) * 5 % 17 - 6).reshape(s).tolist()


def x(n, seed=0, long=2):
    return of_shape(sizes(n, seed, long))


def words(n):
    s = sizes(n)
    return string([b"w%d" % i for i in range(int(np.prod(s)))]).reshape(s)


def axis(n):
    """An axis, now from the front and now from the end."""
    return n // 2 if n % 2 else -(n // 2)


def long_axis(n):
    return next(k for k, size in enumerate(sizes(n)) if size > 1)


def mixed(n, *inputs, **attrs):
    """The case, and now and then the same in another dtype."""
    other = {5: "float16", 8: "int8", 11: "complex64", 15: "int32"}.get(n)
    more = [of(other, *inputs, **attrs)] if other else []
    return [case(*inputs, **attrs), *more]


def turns(n, *cases):
    """One of several, in turn, that all have to be there at high ranks."""
    return cases[n % len(cases)]


def permutation(n):
    p = list(range(n))
    random.Random(n).shuffle(p)
    return p


# ---- shapes ------------------------------------------------------------------

for name in ("Identity", "StopGradient", "ZerosLike", "OnesLike"):
    ranks(name, ANY, lambda n: mixed(n, x(n)))
for name in ("Shape", "Size", "Rank"):
    ranks(name, ANY, lambda n: case(x(n)))
ranks("ShapeN", ANY, lambda n: case(L(x(n), x(15 - n))))
ranks("Reshape", ANY, lambda n: mixed(
    n, of_shape([int(np.prod(sizes(n)))]), i64(sizes(n))))
ranks("ExpandDims", ANY[:15], lambda n: mixed(n, x(n), i32(-n // 2)))
ranks("Squeeze", ANY, lambda n: case(
    x(n), squeeze_dims=[k - n for k, size in enumerate(sizes(n))
                        if size == 1 and k % 3]))
ranks("PlaceholderWithDefault", ANY, lambda n: case(x(n), shape=sizes(n)))
ranks("BroadcastArgs", ANY,
      lambda n: case(i32(sizes(n)), i32(np.where(i32(sizes(n)) > 1, 1, 2))))
ranks("BroadcastGradientArgs", ANY,
      lambda n: case(i32(sizes(n)), i32(np.where(i32(sizes(n)) > 1, 1, 2))))
ranks("Fill", ANY, lambda n: mixed(n, i32(sizes(n)), 3))

# ---- elements that move ------------------------------------------------------

ranks("Transpose", ANY, lambda n: mixed(
    n, x(n, long=3), i32(permutation(n))))
ranks("BroadcastTo", ANY,
      lambda n: mixed(n, x(n, 0, 1), i32(
          np.maximum(sizes(n, 0, 1), sizes(n, 1, 1)))))
ranks("Tile", ANY, lambda n: mixed(n, x(n), i32(sizes(n, 1, 1))))
ranks("ConcatV2", SOME,
      lambda n: mixed(n, L(x(n, 0, 1), x(n, 0, 1)), i32(axis(n))))
ranks("Concat", SOME,
      lambda n: case(i32(n - 1), L(x(n, 0, 1), x(n, 0, 1))))
ranks("Split", SOME, lambda n: case(
    i32(axis(n)), x(n), num_split=sizes(n)[axis(n)]))
ranks("SplitV", SOME, lambda n: case(
    x(n), i32([1, sizes(n)[long_axis(n)] - 1]), i32(long_axis(n)),
    num_split=2))
ranks("Pack", ANY[:15], lambda n: mixed(
    n, L(x(n, 0, 1), x(n, 0, 1)), axis=n // 2))
ranks("Unpack", SOME,
      lambda n: case(x(n), num=sizes(n)[axis(n)], axis=axis(n)))
ranks("Slice", ANY[:9], lambda n: mixed(
    n, x(n), i32(np.array(sizes(n), int) - 1), i32([1] * (n - 1) + [-1] * (n > 0))))
ranks("StridedSlice", ANY[:9], lambda n: [
    case(x(n), i32([-1] * n), i32([-9] * n), i32([-1] * n)),
    case(x(n), i32([0] * n), i32([1] * n), i32([1] * n),
         shrink_axis_mask=sum(1 << k for k in range(0, n, 2)))])
# TensorFlow answers zeros above rank 8.
ranks("StridedSliceGrad", ANY[:9], lambda n: case(
    i32(sizes(n)), i32([0] * n), i32([9] * n), i32([2] * n),
    of_shape([(s + 1) // 2 for s in sizes(n)])))
ranks("Pad", ANY[:9], lambda n: mixed(
    n, x(n, 0, 1), i32([[k % 6 == 0, k % 5 == 1] for k in range(n)])
    .reshape(n, 2)))
ranks("PadV2", ANY[:9], lambda n: case(
    x(n, 0, 1), i32([[k % 5 == 1, k % 6 == 0] for k in range(n)])
    .reshape(n, 2), 7))
ranks("MirrorPad", ANY[:6], lambda n: case(
    x(n), i32([[1, k % 2] for k in range(n)]).reshape(n, 2),
    mode="SYMMETRIC"))
ranks("ReverseV2", ANY[:9],
      lambda n: mixed(n, x(n), i32(range(0, n, 2))))
ranks("ReverseSequence", range(2, 6), lambda n: case(
    x(n), i32([1] * sizes(n)[0]), seq_dim=n - 1, batch_dim=0))
ranks("Roll", SOME, lambda n: mixed(
    n, x(n), i32([1 + k for k in range(n)]), i32(range(n))))
ranks("SpaceToBatchND", range(2, 16), lambda n: case(
    of_shape([2, *sizes(n)[1:]]), i32([2]),
    i32([[0, -sizes(n)[1] % 2]])))
ranks("BatchToSpaceND", range(2, 16), lambda n: case(
    of_shape([4, *sizes(n)[1:]]), i32([2]), i32([[1, 0]])))

# ---- taking and putting by index ---------------------------------------------

ranks("GatherV2", SOME, lambda n: turns(
    n, case(x(n), i32([0, 0]), i32(axis(n))),
    case([1, 2, 3], i32(np.array(of_shape(sizes(n))) % 3), i32(0)),
    case(x(n), i32(np.zeros(sizes(n)[:-1] + [1])), i32(-1),
         batch_dims=n - 1)))
ranks("Gather", SOME, lambda n: case(x(n), i32([0])))
ranks("GatherNd", SOME, lambda n: turns(
    n, mixed(n, x(n), i32([[0] * min(n, 7)])), case(x(n), i64([0]))))
ranks("ScatterNd", SOME, lambda n: case(
    i32([[0] * min(n, 7)]), of_shape([1, *sizes(n)[7:]]), i32(sizes(n))))
for name in ("TensorScatterUpdate", "TensorScatterAdd"):
    ranks(name, SOME, lambda n: case(
        x(n), i32([[0] * min(n, 5)]), of_shape([1, *sizes(n)[5:]])))
ranks("OneHot", ANY[:15], lambda n: case(
    i32(np.array(x(n)) % 3), i32(3), 1, 0, axis=n // 2))
ranks("Where", ANY[1:9], lambda n: case(x(n)))
ranks("TopKV2", SOME,
      lambda n: of("float64", x(n), i32(sizes(n)[-1]), sorted=True))
ranks("DynamicPartition", SOME, lambda n: case(
    x(n), i32([0] * sizes(n)[0]), num_partitions=2))
ranks("DynamicStitch", SOME, lambda n: case(
    L(i32([1, 0]), i32(2)),
    L(of_shape([2, *sizes(n, 0, 1)[1:]]), of_shape(sizes(n, 0, 1)[1:]))))
for name in ("SegmentSum", "SegmentMax"):
    ranks(name, SOME, lambda n: case(x(n), i32([0] * sizes(n)[0])))
ranks("UnsortedSegmentSum", SOME, lambda n: turns(
    n, case(x(n), i32([1] * sizes(n)[0]), i32(2)),
    case(x(n), i32(np.zeros(sizes(n))), i32(1))))
ranks("SparseToDense", SOME, lambda n: case(
    i32([[0] * n]), i32(sizes(n)), [5], 0))
ranks("InplaceUpdate", SOME, lambda n: case(
    x(n), i32([0]), of_shape([1, *sizes(n)[1:]])))

# ---- element by element ------------------------------------------------------

for name in ("AddV2", "Sub", "Maximum"):
    ranks(name, ANY, lambda n: turns(
        n, case(x(n), x(n)), mixed(n, x(n), 2),
        case(x(n, long=1), x(n, 1, 1)), case(x(n), x(n // 2, 1, 0)),
        case(x(n // 2, 1, 0), x(n))))
for name in ("Less", "Equal"):
    ranks(name, ANY, lambda n: turns(
        n, case(x(n), x(n)), case(x(n, long=1), x(n, 1, 1))))
for name in ("Neg", "Square", "Relu", "Sign"):
    ranks(name, ANY, lambda n: mixed(n, x(n)))
ranks("Cast", ANY, lambda n: case(x(n), SrcT="float64", DstT="int16"))
ranks("Bitcast", ANY[:15], lambda n: case(
    i64(x(n)), T="int64", type="int32"))
ranks("AddN", ANY, lambda n: mixed(n, L(x(n), x(n))))
ranks("Select", ANY, lambda n: case(np.array(x(n)) > 0, x(n), x(n)))
ranks("SelectV2", ANY[:9], lambda n: case(
    np.array(x(n, long=1)) > 0, x(n, 1, 1), x(n, 2, 1)))
ranks("ClipByValue", ANY, lambda n: case(x(n), -2, 3))
ranks("LeakyRelu", ANY, lambda n: case(x(n)))
ranks("ReluGrad", ANY[:9], lambda n: case(x(n), x(n)))
ranks("AsString", ANY, lambda n: of("int32", x(n)))
ranks("StringJoin", ANY, lambda n: case(L(words(n), words(n))))
ranks("Substr", ANY, lambda n: case(words(n), i32(0), i32(1)))
ranks("DecodeRaw", ANY[:15], lambda n: case(
    words(n)[..., None][..., :1].reshape(sizes(n)).astype("S1").astype(object),
    out_type="uint8"))

# ---- along axes --------------------------------------------------------------

for name in ("Sum", "Max", "Mean"):
    ranks(name, ANY, lambda n: turns(
        n, mixed(n, x(n, long=3), i32(range(0, n, 2))),
        case(x(n), i32(range(1, n, 3)), keep_dims=True),
        case(x(n), i64([k - n for k in range(n // 2)]))))
ranks("All", ANY, lambda n: case(
    np.array(x(n)) != 0, i32(range(1, n, 2)), keep_dims=True))
ranks("ReduceJoin", SOME, lambda n: case(words(n), i32(axis(n))))
ranks("ArgMax", ANY[1:8], lambda n: case(x(n), i32(axis(n))))
for name in ("Cumsum", "Cumprod"):
    ranks(name, SOME, lambda n: case(
        x(n), i32(axis(n)), reverse=n % 3 == 0, exclusive=n % 2 == 0))
ranks("LogSoftmax", SOME, lambda n: case(x(n)))
ranks("Softmax", ANY[1:6], lambda n: case(x(n)))
ranks("L2Loss", ANY, lambda n: case(x(n)))
ranks("BiasAdd", range(2, 16), lambda n: turns(
    n, case(x(n), [3] * sizes(n)[-1]),
    case(x(n), [3] * sizes(n)[1], data_format="NCHW")))
ranks("BiasAddGrad", range(2, 16), lambda n: turns(
    n, case(x(n)), case(x(n), data_format="NCHW")))
ranks("Bincount", ANY, lambda n: of(
    "float64", i32(np.array(x(n)) % 3), i32(3), []))

# ---- matrices ----------------------------------------------------------------

MATRICES = range(2, 16)
ranks("BatchMatMulV2", range(2, 13), lambda n: turns(
    n, case(of_shape([*sizes(n - 2, 0, 1), 2, 1]), of_shape([1, 2])),
    case(of_shape([*sizes(n - 2, 0, 1), 2, 1]),
         of_shape([*sizes(n - 2, 1, 1), 1, 2]))))
ranks("BatchMatMul", range(2, 13), lambda n: case(
    of_shape([*sizes(n - 2), 2, 1]), of_shape([*sizes(n - 2), 1, 2])))
ranks("Einsum", ANY, lambda n: turns(
    n, case(L(x(n)), equation=f"{LETTERS[:n]}->{LETTERS[:n][::-1]}"),
    case(L(x(n)), equation="...a->..."),
    case(L(x(n), x(n)), equation=f"{LETTERS[:n]},{LETTERS[:n]}->")))
ranks("MatrixDiag", SOME[:14], lambda n: case(x(n)))
ranks("MatrixDiagPart", MATRICES, lambda n: case(x(n)))
ranks("MatrixDiagV3", SOME[:14], lambda n: case(
    x(n), i32(1), i32(-1), i32(-1), 9))
ranks("MatrixDiagPartV3", MATRICES, lambda n: case(x(n), i32(0), 9))
ranks("MatrixSetDiag", MATRICES, lambda n: case(
    x(n), of_shape(sizes(n)[:-2] + [min(sizes(n)[-2:])])))
ranks("MatrixBandPart", MATRICES, lambda n: case(x(n), i64(0), i64(0)))
ranks("Diag", range(1, 8), lambda n: case(x(n, long=2)))
ranks("DiagPart", range(1, 8), lambda n: case(of_shape(2 * sizes(n, long=2))))
SQUARE = [[4, 1], [1, 3]]
for name in ("Cholesky", "MatrixInverse", "MatrixDeterminant"):
    ranks(name, MATRICES, lambda n: case(np.broadcast_to(
        SQUARE, [*sizes(n - 2, 0, 1), 2, 2]).tolist()))
ranks("MatrixTriangularSolve", MATRICES, lambda n: case(
    np.broadcast_to(SQUARE, [*sizes(n - 2, 0, 1), 2, 2]).tolist(),
    of_shape([*sizes(n - 2, 1, 0), 2, 1])))

# ---- variables ---------------------------------------------------------------

ranks("ReadVariableOp", ANY, lambda n: case(Var(x(n))))
ranks("AssignAddVariableOp", ANY, lambda n: case(Var(x(n)), x(n)))
ranks("ResourceGather", SOME, lambda n: case(
    Var(x(n)), i32(np.zeros(sizes(16 - n)))))
ranks("ResourceScatterAdd", SOME, lambda n: case(
    Var(x(n)), i32([0]), of_shape([1, *sizes(n)[1:]])))
