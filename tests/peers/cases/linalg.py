"""Linear algebra: equations, determinants, factors, eigenvalues.

Vectors of singular and eigenvalues are what they are but for their sign; the
cases are some where TensorFlow and LAPACK choose the same.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .base import (Zeros, bad, case, f32, f64, floats, i32, i64, inf, nan,
                   no_grad, of, op, sweep)

A = [[4, 1, -2], [1, 3, 0.5], [-1, 2, 5]]
B = [[1, 2], [3, -4], [0.5, 6]]
PAIR = [[[2, 1], [1, 3]], [[1, -1], [2, 4]]]
SINGULAR = [[1, 2], [2, 4]]
POSITIVE = [[4, 2, -1], [2, 5, 1], [-1, 1, 3]]
COMPLEX = [[1 + 2j, 3], [-1j, 2 - 1j]]
HERMITIAN = [[4, 1 + 1j], [1 - 1j, 3]]
TALL = [[1, 2], [3, 4], [5, -6]]
WIDE = [[1, 2, 3], [4, -5, 6]]
BOTH = "complex64 complex128"
# Matrices that hold NaN or infinity.
WILD = [[[1, nan], [2, 4]], [[inf, 1], [1, 4]]]
# By columns the largest by |z|, by |re| + |im| another.
PIVOTS = [[((7 * i + 3 * j) % 11 + 0.1 * i + 1) * np.exp(1j * (i + 2 * j * j))
           for j in range(11)] for i in range(11)]
NEAR = dict(near=(8, 8, 32, 32, 32), scaled=True)

op("MatrixInverse",
   sweep(A), case(A, adjoint=True), case(PAIR),
   of(BOTH, COMPLEX), of("complex64", COMPLEX, adjoint=True),
   case([[2]]), case(Zeros(0, 0)), case(Zeros(2, 0, 0)), case(Zeros(0, 2, 2)),
   *[no_grad(case(m)) for m in WILD], no_grad(of(BOTH, WILD[0])),
   bad("invertible", SINGULAR), bad("1 of 2", [PAIR[0], SINGULAR]),
   bad("invertible", [[0]]), bad("invertible", [[nan, 1], [1, 2]]),
   bad("invertible", np.array(SINGULAR, np.complex64)),
   bad("square", TALL), bad("rank", [1, 2]),
   **NEAR)
op("MatrixSolve",
   sweep(A, B), case(A, B, adjoint=True),
   case(PAIR, [[[1], [2]], [[3], [4]]]),
   of(BOTH, COMPLEX, [[1j], [2]], adjoint=True),
   case(Zeros(0, 0), Zeros(0, 2)), case(A, Zeros(3, 0)),
   *[no_grad(case(m, [[1], [2]])) for m in WILD],
   case(Zeros(0, 2, 2), Zeros(0, 2, 1)), case(Zeros(2, 0, 0), Zeros(2, 0, 1)),
   case([[3]], [[6]]),
   bad("invertible", SINGULAR, [[1], [2]]),
   bad("invertible", [[nan, 1], [1, 2]], [[1], [2]]),
   bad("invertible", [[0]], [[1]]), bad("rows", A, [[1], [2]]),
   bad("equal", PAIR, [[[1], [2]]]), bad("square", TALL, B),
   **NEAR)
op("MatrixTriangularSolve",
   sweep(A, B), case(A, B, lower=False), case(A, B, adjoint=True),
   case(A, B, lower=False, adjoint=True),
   case(PAIR, [[1], [2]]), case(PAIR[0], [[[1], [2]], [[3], [4]]]),
   case([PAIR], [[[[1], [2]]], [[[3], [4]]]]),
   of(BOTH, COMPLEX, [[1j], [2]], lower=False, adjoint=True),
   case(Zeros(0, 0), Zeros(0, 2)), case(Zeros(3, 0, 0), Zeros(3, 0, 1)),
   case(Zeros(0, 2, 2), Zeros(0, 2, 1)), case(A, Zeros(3, 0)),
   case([[3]], [[6]]), no_grad(sweep([[0]], [[1]])),
   no_grad(floats([[1, 2], [3, 0]], [[1], [2]])),
   *[no_grad(case([[0, 0], [3, 0]], [[1, 0], [3, 4]], adjoint=a, lower=l))
     for a in (False, True) for l in (False, True)],
   *[no_grad(case(m, [[1], [2]], lower=False)) for m in WILD],
   bad("rows", A, [[1], [2]]), bad("square", TALL, B),
   bad("broadcast", PAIR, [[[1], [2]]] * 3),
   **NEAR)
BANDS = [[2, 3, 4], [9, 1, 5]]
op("BandedTriangularSolve",
   sweep(BANDS, B),
   *[case(BANDS, B, lower=l, adjoint=a) for l, a in
     ((True, True), (False, False), (False, True))],
   case([BANDS], [B, B]), case([BANDS, BANDS], B), case([[[2, 4]]], PAIR),
   no_grad(case([[3]], [[6]])),
   of(BOTH, COMPLEX, [[1j], [2]], lower=False, adjoint=True),
   no_grad(case([[1, nan], [0, 2]], [[1], [2]])),
   no_grad(case([[1, 2], [0, inf]], [[1], [2]])),
   bad("not invertible", [[1, 0], [2, 2]], [[1], [2]]),
   bad("matrix must not be empty", Zeros(0, 2), [[1], [2]]),
   bad("rhs must not be empty", [[1, 2]], Zeros(2, 0)),
   bad("matrix must not be empty", Zeros(0, 1, 2), Zeros(0, 2, 1)),
   bad("more diagonals", [[2, 3], [1, 4], [5, 6]], PAIR[0]),
   bad("row for each column", BANDS, [[1], [2]]), bad("rank", [1, 2], [[1]]),
   bad("broadcast", [BANDS] * 2, [B] * 3),
   **NEAR)
TWO = [[1, 2], [3, -4], [0.5, 6]]
op("MatrixSolveLs",
   *[no_grad(of(t, TALL, TWO, f64(0.5))) for t in
     ("float32", "float64", "complex64", "complex128")],
   *[no_grad(case(a, b, f64(r), fast=f)) for f in (True, False)
     for a, b, r in ((TALL, TWO, 0), (WIDE, TWO[:2], 0),
                     ([WIDE, WIDE], [[[1], [2]], [[3], [4]]], 0.25))],
   no_grad(of("complex128", COMPLEX, COMPLEX, f64(0), fast=False)),
   no_grad(case([[1, 2], [2, 4]], [[1], [2]], f64(0), fast=False)),
   *[no_grad(case(m, [[1], [2]], f64(0))) for m in WILD],
   no_grad(case(Zeros(2, 0, 0), Zeros(2, 0, 1), f64(0))),
   no_grad(case([[0]], [[1]], f64(0), fast=False)),
   no_grad(case(Zeros(0, 2), Zeros(0, 1), f64(0))),
   no_grad(case(TALL, Zeros(3, 0), f64(0))),
   bad("deficient", [[0, 0], [0, 0]], [[1], [2]], f64(0)),
   bad("rows", TALL, [[1], [2]], f64(0)),
   bad("l2_regularizer", TALL, TWO, f64(-1)),
   near=(8, 8, 64, 64, 64), scaled=True)
op("MatrixDeterminant",
   sweep(A), case(PAIR), case(SINGULAR), of(BOTH, COMPLEX),
   case([[-2.5]]), case(Zeros(0, 0)), case(Zeros(2, 0, 0)),
   no_grad(floats([[nan, 1], [1, 2]])), no_grad(floats([[inf, 1], [1, 2]])),
   no_grad(case(Zeros(0, 2, 2))), no_grad(case([[0]])),
   bad("square", TALL), bad("rank", [1, 2]),
   near=(0, 0, 16, 16, 16), scaled=True, least=1)
op("LogMatrixDeterminant",
   sweep(A), case(PAIR), case(SINGULAR), of(BOTH, COMPLEX),
   case([[-2.5]]), case(Zeros(0, 0)), case(Zeros(2, 0, 0)),
   case([[1e200, 0], [0, -1e200]]), no_grad(case(Zeros(0, 2, 2))),
   no_grad(case([[0]])),
   no_grad(floats([[nan, 1], [1, 2]])), no_grad(floats([[inf, 1], [1, 2]])),
   bad("square", TALL), bad("rank", [1, 2]),
   near=(0, 0, 16, 16, 16), scaled=True, least=1)
op("Lu",
   sweep(A), case(PAIR), case([[0, 1], [2, 3]]), of(BOTH, COMPLEX),
   of(BOTH, [[3 + 3j, 1], [5, 2j]]), of(BOTH, [[3 + 4j, 1], [5, 2]]),
   of("complex128", PIVOTS),
   case(A, output_idx_type="int64"), case(Zeros(0, 0)), case([[3]]),
   case(Zeros(2, 0, 0)), case(Zeros(0, 2, 2)),
   *[no_grad(case(m)) for m in WILD],
   bad("invertible", [[0, 0], [0, 0]]), bad("invertible", [[0]]),
   bad("invertible", [[nan, 1], [1, 2]]), bad("square", WIDE),
   **NEAR)
op("Cholesky",
   sweep(POSITIVE), case([POSITIVE, [[1, 0, 0], [0, 2, 0], [0, 0, 3]]]),
   case([[4, 9], [2, 5]]), of(BOTH, HERMITIAN), case(Zeros(0, 0)),
   case(Zeros(2, 0, 0)), case(Zeros(0, 2, 2)), case([[9]]),
   no_grad(floats([[[4]], [[-1]], [[0]], [[nan]], [[inf]]])),
   bad("square", TALL), bad("rank", [1, 2]),
   **NEAR)
op("Qr",
   sweep(TALL), no_grad(case(TALL, full_matrices=True)), case(WIDE),
   no_grad(case(WIDE, full_matrices=True)), case(PAIR), of(BOTH, COMPLEX),
   case(A), case(Zeros(0, 2)), case(Zeros(2, 0)), case(Zeros(0, 2, 2)),
   case(Zeros(2, 0, 0)), case([[-3]]), no_grad(case([[nan]])),
   bad("rank", [1, 2]),
   **NEAR)
op("Svd",
   sweep([[1, 2], [2, -4], [0, -4]]), case([[5, -4, 0], [-4, 3, 1]]),
   case([[[5, -4, 0], [-4, 3, 1]], [[-4, -4, -4], [-5, 4, 4]]]),
   of("complex128", [[1 + 1j, -2 + 1j], [3 - 2j, -3 + 1j]]),
   no_grad(case([[-5, 2], [3, -4], [1, -1]], full_matrices=True)),
   no_grad(case([[1, -5, 5], [-3, -2, 2]], full_matrices=True)),
   case([[2, 1], [0, 1]]), case(Zeros(0, 2)), case(Zeros(2, 0)),
   case(Zeros(0, 2, 2)), case(Zeros(2, 0, 0)), case([[-3]]), case([[0]]),
   *[no_grad(floats(m)) for m in WILD],
   no_grad(case([[nan, 1, 2], [1, 2, 3]], full_matrices=True)),
   bad("rank", [1, 2]),
   **NEAR)
op("SelfAdjointEigV2",
   sweep([[-6, -2, -7], [-2, -2, -3], [-7, -3, 4]]),
   case([[[-6, 7], [-6, -4]], [[-8, 0.5], [1, -2]]]),
   of(BOTH, [[-2, -3 + 2j], [-3 - 2j, -1]]), case(Zeros(0, 0)),
   case(Zeros(0, 2, 2)), case(Zeros(2, 0, 0)), case([[-3]]),
   no_grad(case([[1, nan], [0, 4]])), bad("NaN", [[nan, 1], [1, 2]]),
   bad("square", TALL), bad("rank", [1, 2]),
   **NEAR)

op("Eig",
   *[of(t, [[2, 1], [0, 3]], Tout=o) for t, o in
     (("float32", "complex64"), ("float64", "complex128"))],
   *[of(t, [[1 + 2j, 2 - 3j], [0, 3 - 1j]], Tout=t) for t in BOTH.split()],
   of("float64", [[[2, 0], [0, 3]], [[1, 2], [0, -1]]], Tout="complex128"),
   *[of("float64", Zeros(*s), Tout="complex128") for s in
     ((0, 0), (2, 0, 0), (0, 2, 2))], of("float64", [[-3]], Tout="complex128"),
   *[bad("NaN", f32([[x, 1], [1, 2]]), Tout="complex64") for x in (nan, inf)],
   bad("square", f32(TALL), Tout="complex64"),
   bad("rank", f32([1, 2]), Tout="complex64"),
   **NEAR)

# ---- diagonals ---------------------------------------------------------------

M = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
op("MatrixDiag",
   sweep([1, 2, 3]), case([[1, 2], [3, 4], [5, 6]]))
op("MatrixDiagPart",
   sweep([[1, 2], [3, 4]]), case(M), case([M, M]), case(Zeros(0, 3)),
   bad("rank", [1, 2]))
op("MatrixSetDiag",
   sweep([[1, 2], [3, 4]], [7, 8]), case(M, [7, 8, 9]),
   case([M, M], [[7, 8, 9], [-1, -2, -3]]), case(Zeros(0, 3), []),
   bad("diagonal", M, [1, 2]), bad("rank", [1, 2], [1]),
   bad("diagonal", [M, M], [1, 2, 3]))
op("MatrixDiagV3",
   sweep([1, 2, 3], i32(0), i32(-1), i32(-1), 0),
   case([1, 2], i32(1), i32(-1), i32(-1), 9),
   case([1, 2], i32(-1), i32(3), i32(4), 9),
   case([[0, 8, 9], [1, 2, 3], [4, 5, 0]], i32([-1, 1]), i32(-1), i32(-1), 0),
   case([[8, 9, 0], [1, 2, 3], [0, 4, 5]], i32([-1, 1]), i32(3), i32(3), -1,
        align="LEFT_RIGHT"),
   case([[[8, 9], [1, 2]], [[1, 2], [3, 4]]], i32([0, 1]), i32(-1), i32(3), 0,
        align="LEFT_LEFT"),
   case([[8, 9], [1, 2]], i32([-1, 0]), i32(3), i32(-1), 0,
        align="RIGHT_RIGHT"),
   case([[1, 2], [3, 4]], i32([1]), i32(-1), i32(-1), 0),
   bad("k", [1, 2], i32([1, 0]), i32(-1), i32(-1), 0),
   bad("k", [1, 2], i32([1, 0, 2]), i32(-1), i32(-1), 0),
   bad("num_rows", [1, 2], i32(0), i32(1), i32(-1), 0),
   bad("num_rows", [1, 2], i32(0), i32(3), i32(3), 0))
op("MatrixDiagPartV3",
   sweep(M, i32(0), 0), case(M, i32(1), 9), case(M, i32([-2]), 9),
   case(M, i32([-1, 2]), 9), case([M, M], i32([-2, 3]), -1, align="LEFT_RIGHT"),
   case(M, i32([0, 2]), 9, align="LEFT_LEFT"),
   case(M, i32([-2, -1]), 9, align="RIGHT_RIGHT"), case(Zeros(0, 3), i32(0), 0),
   bad("k", M, i32(4), 0), bad("k", M, i32([-3, 0]), 0),
   bad("rank", [1, 2], i32(0), 0), bad("k", M, i32([2, 1]), 0))
op("MatrixSetDiagV3",
   sweep(M, [7, 8, 9], i32(0)), case(M, [7, 8, 9], i32(1)),
   case(M, [[7, 8, 9], [-1, -2, -3]], i32([0, 1])),
   case(M, [[7, 8, 0], [-1, -2, -3]], i32([-1, 0]), align="LEFT_RIGHT"),
   case([M, M], [[7], [8]], i32([-2])),
   bad("diagonal", M, [1, 2], i32(0)), bad("k", M, [1], i32(7)),
   bad("diagonal", M, [[1, 2, 3]], i32([0, 1])))
op("MatrixBandPart",
   sweep([[1, 2, 3], [4, 5, 6], [7, 8, 9]], i32(1), i32(0)),
   case([[1, 2, 3], [4, 5, 6]], i32(-1), i32(1)),
   case([M, M], i32(0), i32(-1)), case(M, i64(-1), i64(-1)),
   case(Zeros(0, 3), i32(0), i32(0)),
   bad("rank", [1, 2], i32(0), i32(0)), bad("num_lower", M, i32(5), i32(0)))

V, W = [[1, 2, 3], [4, -5, 6]], [[7, 8, 10], [2, 0, -1]]
op("Cross",
   sweep(V, W), case(V[0], W[1]), case(Zeros(0, 3), Zeros(0, 3)),
   of("int8", [100, 100, 1], [1, 2, 100]),
   bad("3", [1, 2], [3, 4]), bad("shape", V, V[0]), bad("", 1, 2),
   near=(1, 1, 1, 1, 0))
