"""Updates of optimizers.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (CLOSE, Unset, Var, Zeros, bad, case, f32, i32, i64, nan, op,
                   sweep)

W = [[1, 2], [3, -4], [0.5, 6]]
S = [[0.25, 0.5], [1, 2], [0.125, 4]]
M = [[0.5, -0.25], [1, -2], [0.125, 3]]
G = [[0.5, -1], [2, 3], [-4, 0.25]]
ROWS = [[0.5, -1], [2, 3]]
ROUGH = (64, 64, 16, 16, 16)
BAD = f32([[1, 2, 3]])


def update(name, variables, scalars, flags=(), sparse=False,
           near=CLOSE, rough=None, lost=False):
    """`variables`: values of the variables after the first; `scalars`: the
    hyper-parameters, "g" among them stands for the gradient. `rough`: how
    near rows must be where TensorFlow rounds every step of theirs. `lost`: a
    value that is NaN must not become a number."""
    def args(grad, wrap=lambda v: v):
        return [wrap(s) if not isinstance(s, str) else wrap(grad)
                for s in scalars]

    vs = [Var(v) for v in variables]
    fs = [Var(v, "float32") for v in variables]
    wrong = [bad("", Var(W, "float32"), *fs, *args(BAD, f32)),
             bad("initialised", Unset(), *fs, *args(G, f32)),
             bad("", Var(W, "float32"), *fs,
                 *[f32([1, 2]) if i == 0 and not isinstance(s, str) else
                   f32(G if isinstance(s, str) else s)
                   for i, s in enumerate(scalars)])]
    if isinstance(scalars[0], str):
        wrong.pop()
    op("ResourceApply" + name,
       sweep(Var(W), *vs, *args(G)),
       *[case(Var(W), *vs, *args(G), **{f: True}) for f in flags],
       case(Var([]), *[Var([]) for _ in vs], *args([])),
       *[case(Var([[nan, 2], [3, -4], [0.5, nan]]), *vs, *args(G))
         for _ in range(lost)],
       *wrong, near=near)
    if not sparse:
        return
    n = scalars.index("g") + 1

    def rows(grad, indices, wrap=lambda v: v):
        a = args(grad, wrap)
        return [*a[:n], indices, *a[n:]]
    op("ResourceSparseApply" + name,
       sweep(Var(W), *vs, *rows(ROWS, i32([2, 0]))),
       *[case(Var(W), *vs, *rows(ROWS, i64([1, 0])), **{f: True})
         for f in flags],
       case(Var(W), *vs, *rows(Zeros(0, 2), i32([]))),
       bad("3", Var(W, "float32"), *fs, *rows(ROWS, i32([3, 0]), f32)),
       bad("-1", Var(W, "float32"), *fs, *rows(ROWS, i32([-1, 0]), f32)),
       bad("", Var(W, "float32"), *fs, *rows(ROWS, i32([0]), f32)),
       bad("", Var(W, "float32"), *fs, *rows(BAD, i32([0]), f32)),
       bad("initialised", Unset(), *fs, *rows(ROWS, i32([1, 0]), f32)),
       near=rough or near)


update("GradientDescent", [], [0.5, "g"])
update("Momentum", [M], [0.5, "g", 0.875], ["use_nesterov"], True)
update("KerasMomentum", [M], [0.5, "g", 0.875], ["use_nesterov"], True)
update("Adagrad", [S], [0.5, "g"], (), True)
update("AdagradV2", [S], [0.5, 0.125, "g"], (), True)
update("Adadelta", [S, M], [0.5, 0.875, 0.25, "g"], (), True, (2, 2, 2, 2, 4),
       ROUGH)
update("Adam", [M, S], [0.5, 0.25, 0.125, 0.875, 0.75, 0.0625, "g"],
       ["use_nesterov"])
update("RMSProp", [S, M], [0.5, 0.875, 0.25, 0.125, "g"], (), True,
       rough=ROUGH)
update("CenteredRMSProp", [M, S, M], [0.5, 0.875, 0.25, 20, "g"], (), True)
update("AdaMax", [M, S], [0.5, 0.25, 0.875, 0.75, 0.0625, "g"])
update("AdamWithAmsgrad", [M, S, S],
       [0.5, 0.25, 0.125, 0.875, 0.75, 0.0625, "g"])
update("Ftrl", [S, M], ["g", 0.5, 0.25, 0.125, -0.5],
       ["multiply_linear_by_lr"], True, rough=ROUGH)
update("FtrlV2", [S, M], ["g", 0.5, 0.25, 0.125, 0.0625, -0.5],
       ["multiply_linear_by_lr"], True, rough=ROUGH)
update("ProximalAdagrad", [S], [0.5, 0.25, 0.125, "g"], (), True, lost=True)
update("ProximalGradientDescent", [], [0.5, 0.25, 0.125, "g"], (), True,
       lost=True)
update("AddSign", [M], [0.5, 1, 0.5, 0.875, "g"])
update("PowerSign", [M], [0.5, 2, 0.5, 0.875, "g"], near=ROUGH)
