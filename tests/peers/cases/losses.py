"""Softmax, cross entropies, top-k tests.

SPDX-License-Identifier: Apache-2.0
"""

from .base import bad, case, f32, floats, i32, i64, inf, nan, no_grad, of, op

X = [[1, -2, 3], [0.5, 5, -6]]
P = [[0.25, 0.5, 0.25], [1, 0, 0]]

for name in ("Softmax", "LogSoftmax"):
    op(name,
       floats(X), case([1, 2, 3, 4]), case([X, X]), case([[1000, -1000, 999]]),
       no_grad(floats([[inf, 1, 2], [-inf, 0, 1], [nan, 0, 0]])),
       no_grad(of("float32", [[-inf, -inf]])), case([[7]]), case([[], []]),
       of("float32 float64", [[i * 0.37 % 5 for i in range(37)]]),
       bad("", 3),
       near=(1, 1, 4, 4, 0), scaled=True)
# TensorFlow's gradient of labels leaves out what comes through backprop.
op("SoftmaxCrossEntropyWithLogits",
   *map(no_grad, [
       floats(X, P), case(X, [P[0]]), case([X[0]], P),
       case([[1000, -1000, 999]], [[0, 0.5, 0.5]]), case([[], []], [[], []])]),
   bad("", X, [[1, 2]]), bad("", [1, 2], [1, 2]),
   near=(1, 1, 4, 4, 4), scaled=True)
op("SparseSoftmaxCrossEntropyWithLogits",
   floats(X, i64([2, 0])), case(X, i32([1, 1])),
   case([[1000, -1000, 999]], i64([1])),
   bad("3", X, i64([0, 3])), bad("-1", X, i64([-1, 0])),
   bad("", X, i64([0])), bad("", [1, 2], i64([0])), bad("", X, i64([[0, 1]])),
   near=(2, 2, 4, 4, 4), scaled=True)
op("InTopK",
   case(f32(X), i32([2, 0]), k=1), case(f32(X), i32([0, 0]), k=2),
   case(f32(X), i64([1, 1]), k=3), case(f32([[1, 1, 1]]), i32([2]), k=1),
   case(f32([[nan, 1, 2], [inf, 1, 2], [1, inf, 2]]), i32([1, 0, 0]), k=2),
   case(f32(X), i32([3, -1]), k=1), case(f32(X), i32([0, 1]), k=0),
   bad("", f32(X), i32([0]), k=1), bad("", f32([1, 2]), i32([0]), k=1))
op("InTopKV2",
   case(f32(X), i32([2, 0]), i32(1)), case(f32(X), i64([1, 1]), i64(3)),
   case(f32([[1, 1, 1]]), i32([2]), i32(1)),
   bad("", f32(X), i32([0]), i32(1)), bad("", f32([1, 2]), i32([0]), i32(1)))
