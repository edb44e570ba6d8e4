"""Sparse tensors: indices, values, dense shape.

SPDX-License-Identifier: Apache-2.0
"""

from .base import CLOSE, Zeros, bad, case, i32, i64, of, op, string, sweep

PLACES = [[0, 1], [1, 0], [1, 2]]
B = [[1, 2], [3, 4], [5, -6]]

op("SparseToDense",
   sweep(i32(PLACES), i32([2, 3]), [7, 8, 9], 1),
   case(i64([1, 3]), i64([5]), [7, 8], 0), case(i32(2), i32([4]), 7, -1),
   case(i32([0, 2]), i32([4]), 7, 0), case(i32([]), i32([3]), [], 2),
   case(i32(PLACES), i32([2, 3]), 5, 0),
   case(i32([2, 0, 2]), i32([3]), [1, 2, 3], 0, validate_indices=False),
   of("string", i32([1]), i32([2]), string([b"a"]), string(b"-")),
   bad("order", i32([2, 0]), i32([3]), [1, 2], 0),
   bad("same", i32([1, 1]), i32([3]), [1, 2], 0),
   bad("3", i32([3]), i32([3]), [1], 0), bad("-1", i32([-1]), i32([3]), [1], 0),
   bad("sparse_values", i32([1, 2]), i32([3]), [1], 0),
   bad("sparse_indices", i32(PLACES), i32([3]), [7, 8, 9], 0),
   bad("default_value", i32([1]), i32([3]), [1], [0]),
   bad("output_shape", i32([1]), i32(3), [1], 0),
   dynamic=True)
op("SparseTensorDenseMatMul",
   sweep(i64(PLACES), [7, 8, 9], i64([2, 3]), B),
   case(i64(PLACES), [7, 8, 9], i64([2, 3]), [[1, 2, 3], [4, 5, 6]],
        adjoint_b=True),
   case(i64([[1, 0], [1, 0], [0, 1]]), [7, 8, 9], i64([3, 2]), B,
        adjoint_a=True),
   *[of(t, i64([[1, 0], [2, 1]]), [7, 8], i64([3, 2]), [[1, 2, 5], [3, 4, 6]],
        adjoint_a=True, adjoint_b=True)
     for t in ("float64", "complex64", "complex128")],
   case(i64([]).reshape(0, 2), [], i64([2, 3]), B),
   case(i64([[0, 0]]), [2], i64([1, 3]), Zeros(3, 0)),
   bad("a_indices", i64([[2, 0]]), [1], i64([2, 3]), B),
   bad("a_indices", i64([[0, -1]]), [1], i64([2, 3]), B),
   bad("multiplied", i64([[0, 0]]), [1], i64([2, 2]), B),
   bad("a_indices", i64([[0, 0, 0]]), [1], i64([2, 3]), B),
   bad("a_shape", i64([[0, 0]]), [1], i64([2, 3, 1]), B),
   bad("b a matrix", i64([[0, 0]]), [1], i64([2, 3]), [1, 2, 3]),
   dynamic=True, near=CLOSE, scaled=True)
op("SparseReorder",
   sweep(i64([[1, 2], [0, 1], [1, 0]]), [7, 8, 9], i64([2, 3])),
   case(i64([[2], [0], [2]]), [7, 8, 9], i64([3])),
   case(i64([]).reshape(0, 2), [], i64([2, 3])),
   of("string", i64([[1], [0]]), string([b"a", b"b"]), i64([2])),
   bad("input_indices", i64([[0, 1]]), [7, 8], i64([2, 3])),
   bad("input_shape", i64([[0, 1]]), [7], i64([2])),
   bad("2", i64([[2, 0]]), [7], i64([2, 3])))

AT = i64([[0, 0], [0, 1], [1, 0], [2, 0]])
op("EditDistance",
   sweep(AT, i32([1, 2, 3, 4]), i64([3, 2]),
         i64([[0, 0], [0, 1], [0, 2], [1, 0]]), i32([1, 3, 2, 3]), i64([2, 3])),
   case(AT, i32([1, 2, 3, 4]), i64([3, 2]), i64([[0, 0], [1, 0]]), i32([2, 5]),
        i64([4, 2]), normalize=False),
   case(i64([]).reshape(0, 2), i32([]), i64([2, 0]),
        i64([]).reshape(0, 2), i32([]), i64([1, 0])),
   case(i64([[0, 1, 0], [1, 0, 0]]), i32([1, 2]), i64([2, 2, 2]),
        i64([[0, 1, 0]]), i32([3]), i64([2, 2, 1])),
   of("string", i64([[0, 0], [0, 1], [0, 2]]), string([b"a", b"", b"c"]),
      i64([1, 3]), i64([[0, 0], [0, 1]]), string([b"a", b"c"]), i64([1, 2])),
   of("float32", i64([[0, 0], [0, 1]]), [0, 2], i64([1, 2]),
      i64([[0, 0], [0, 1]]), [0, 1], i64([1, 2])),
   bad("2 sizes", i64([[0]]), i32([1]), i64([2]), i64([[0]]), i32([1]), i64([2])),
   bad("hypothesis_indices", AT, i32([1, 2]), i64([3, 2]), AT,
       i32([1, 2, 3, 4]), i64([3, 2])),
   bad("5", i64([[5, 0]]), i32([1]), i64([2, 1]), i64([[0, 0]]), i32([1]),
       i64([2, 1])),
   bad("no sequences", i64([]).reshape(0, 2), i32([]), i64([0, 0]),
       i64([]).reshape(0, 2), i32([]), i64([0, 0])),
   dynamic=True)
