"""Products of matrices, and what goes with them.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .base import (CLOSE, L, Zeros, bad, case, f64, inf, no_grad, of, op,
                   sweep)

A = [[1, -2, 3], [0.5, 5, -6]]
B = [[2, 1], [-1, 4], [3, 0.25]]
BIG = [[((7 * i + 3 * j) % 11 - 5) / 4 for j in range(9)] for i in range(5)]
WIDE = [[((5 * i + 2 * j) % 13 - 6) / 8 for j in range(6)] for i in range(9)]
STACK = [A, [[2, 0, 1], [1, 1, 1]]]
STACK_B = [B, [[1, 2], [3, 4], [-5, 6]]]
SMALL = [[[1, -2], [3, 0.5]], [[2, 1], [0, 4]]]
COMPLEX = [[1 + 2j, 3], [-1j, 2 - 1j]]


op("MatMul",
   sweep(A, B),
   case(A, A, transpose_b=True), case(A, A, transpose_a=True),
   case(B, A, transpose_a=True, transpose_b=True),
   of("float32", BIG, WIDE), of("float64", BIG, WIDE),
   of("complex64", COMPLEX, COMPLEX, transpose_a=True),
   case(Zeros(2, 0), Zeros(0, 3)), case(Zeros(0, 3), Zeros(3, 2)),
   no_grad(of("float32", [[inf, 0]], [[0], [1]])),
   bad("{2, 3}", A, A), bad("rank", [1, 2], [3, 4]),
   bad("{3, 2}", A, B, transpose_b=True),
   near=CLOSE, scaled=True)
for name in ("BatchMatMul", "BatchMatMulV2"):
    EXTRA = [] if name == "BatchMatMul" else [
        case(SMALL, B[:2]), case(B, SMALL), case([SMALL], [[B[:2]]] * 2),
        bad("", STACK, [B, B, B])]
    op(name,
       sweep([[[1, -2, 3]], [[2, 0, 1]]], STACK_B),
       case(SMALL, SMALL, adj_y=True), case(STACK, STACK, adj_x=True),
       case(SMALL, SMALL, adj_x=True, adj_y=True), case(A, B),
       of("complex64 complex128", COMPLEX, COMPLEX, adj_x=True),
       of("complex64", COMPLEX, COMPLEX, adj_y=True),
       case(Zeros(2, 0, 3), Zeros(2, 3, 4)),
       case(Zeros(2, 2, 0), Zeros(2, 0, 2)),
       *EXTRA,
       bad("", STACK, STACK), bad("", [1, 2], [3, 4]),
       near=CLOSE, scaled=True)
NAMES = ("float32", "float64", "int16", "int32", "int64", "complex64",
         "complex128")
SHORT = [[3, -2, 1], [100, 4, -100]]


def both(ta, tb, to, x=SHORT, y=SHORT, **attrs):
    x, y = np.array(x).astype(ta), np.array(y).astype(tb)
    return case(x, y, Ta=ta, Tb=tb, Tout=to, **attrs)


op("BatchMatMulV3",
   *[both(t, t, t, adj_y=True) for t in NAMES],
   *[both(t, u, "int32", adj_x=True) for t in ("int8", "uint8")
     for u in ("int8", "uint8")],
   both("float64", "float64", "float64", STACK, B),
   both("float64", "float64", "float64", B, SMALL),
   both("float64", "float64", "float64", SMALL, [SMALL, SMALL], adj_x=True),
   bad("", f64(STACK), f64([B, B, B]), Tout="float64"),
   bad("", f64(STACK), f64(STACK), Tout="float64"),
   bad("", f64([1, 2]), f64([3, 4]), Tout="float64"),
   near=CLOSE, scaled=True)
op("BiasAdd",
   sweep([[1, 2], [3, 4]], [10, 20]),
   case([[[1, 2]], [[3, 4]]], [0.5, -1]),
   of("float32", [[[[1]], [[2]]]], [10, 20], data_format="NCHW"),
   case([[], []], []), case([[[1, 2], [3, 4]]], [1, 2], data_format="NCHW"),
   bad("bias", [[1, 2]], [1, 2, 3]), bad("", [1, 2], [1, 2]),
   bad("", [[1, 2]], [[1, 2]]),
   near=CLOSE, scaled=True)
op("BiasAddV1",
   sweep([[1, 2], [3, 4]], [10, 20]), bad("bias", [[1, 2]], [1, 2, 3]))
op("BiasAddGrad",
   sweep([[1, 2], [3, 4], [5, 6]]), case([[[1, 2]], [[3, 4]]]),
   case([[[[1, 3]], [[2, 4]]]], data_format="NCHW"), case([[], []]),
   case(Zeros(0, 3)), bad("", [1, 2]),
   near=CLOSE, scaled=True)


def sums(equation, *inputs, types=None):
    f = of if types else case
    first = [types] if types else []
    return f(*first, L(*inputs), equation=equation)


Q = [[1, 2, -1], [3, 0.5, 4]]
R = [[1, 0.25], [-2, 1], [3, 5]]
T3 = [[[1, 2], [3, 4]], [[5, -6], [7, 8]]]
S = [[2, 1], [-1, 3]]
op("Einsum",
   sums("ij,jk->ik", Q, R, types="float16 bfloat16 float32 float64"),
   *[sums("ij,j->i", np.array([[1, 2]], t), np.array([2, -1], t))
     for t in ("int32", "int64", "complex64", "complex128")],
   sums("ij->ji", Q), sums("ij->j", Q), sums("ii->", S), sums("i->ii", [1, 2]),
   sums("i,j->ij", [1, 2], [3, 4]), sums("ij,k->ki", Q, [1, 2]),
   sums("ij,ij->j", S, S), sums("bij,kj->ibk", T3, S),
   sums("...ij,...jk->...ik", [T3], T3), sums("...i,...->...i", T3, [[1, 2]]),
   sums("i...->...i", T3), sums("iij,jk->ik", T3, S), sums("->", 3),
   sums("ij,jk->ik", Zeros(2, 0), Zeros(0, 3)), sums("ij->i", Zeros(2, 0)),
   bad("rank", L([1, 2], S), equation="ij,jk->ik"),
   bad("size", L(Q, S), equation="ij,jk->ik"),
   bad("lacks", L(Q, R), equation="ij,jk"),
   bad("fewer", L(Q, R), equation="ij->ij"),
   bad("broadcast", L(Q, S), equation="...,...->..."),
   bad("lacks", L(Q), equation="...->"),
   near=(2, 2, 4, 4, 8), scaled=True)
