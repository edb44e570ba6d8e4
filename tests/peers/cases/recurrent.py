"""Fused recurrent cells.

SPDX-License-Identifier: Apache-2.0
"""

from .base import Zeros, bad, case, i64, no_grad, of, op
from .pool import grid

B, I, N, T = 2, 3, 2, 3
NEAR = dict(near=(4, 0, 64, 0, 0), scaled=True)


def small(*shape, step=37, around=127):
    """Numbers within 1 of 0."""
    def shrink(x):
        return [shrink(y) for y in x] if isinstance(x, list) else x / 45
    return shrink(grid(*shape, step=step, around=around))


def around(*shape, step=5):
    """Numbers between 0 and 1."""
    def squeeze(x):
        return [squeeze(y) for y in x] if isinstance(x, list) else \
            0.5 + x / 130
    return squeeze(grid(*shape, step=step, around=127))


X, H, CS = small(B, I), small(B, N, step=11), small(B, N, step=29)
W, BIAS = small(I + N, 4 * N), small(4 * N, step=17)
PEEP = [small(N, step=s) for s in (3, 51, 91)]
AFTER = (CS, H, W, *PEEP, BIAS)
LONG = small(T, B, I, step=23)
GATES = [around(B, N, step=s) for s in (5, 9, 13, 17, 21, 25)]
LONG_GATES = [around(T, B, N, step=s) for s in (5, 9, 13, 17, 21, 25, 31)]

op("LSTMBlockCell",
   of("float16 float32", X, *AFTER),
   case(X, *AFTER, use_peephole=True, forget_bias=0.5),
   case(X, *AFTER, cell_clip=0.0), no_grad(case(X, *AFTER, cell_clip=0.25)),
   case(Zeros(B, 0), CS, H, W[:N], *PEEP, BIAS),
   bad("cs_prev", X, CS[:1], *AFTER[1:]),
   bad("inputs + cells", X, CS, H, W[1:], *PEEP, BIAS),
   bad("4 cells", X, CS, H, W, *PEEP, BIAS[1:]),
   bad("x must", X[0], *AFTER), **NEAR)
op("LSTMBlockCellGrad",
   of("float16 float32", X, *AFTER, *GATES, CS, H, use_peephole=False),
   case(X, *AFTER, *GATES, CS, H, use_peephole=True),
   bad("co", X, *AFTER, *GATES[:5], [[1]], CS, H, use_peephole=False), **NEAR)

# TensorFlow's gradient of BlockLSTMV2 is that of BlockLSTM, whose gates are in
# another order.
for version in "", "V2":
    all_ = i64(T)
    true = no_grad if version else lambda c: c
    op("BlockLSTM" + version,
       true(of("float16 float32", all_, LONG, *AFTER)),
       true(case(all_, LONG, *AFTER, use_peephole=True)),
       no_grad(case(all_, LONG, *AFTER, cell_clip=0.125)),
       true(case(i64(1), LONG[:1], *AFTER)),
       bad("batch", all_, [LONG[0][:1]] * 3, *AFTER),
       bad("x must", all_, X, *AFTER), **NEAR)
    op("BlockLSTMGrad" + version,
       of("float16 float32", all_, LONG, *AFTER, *LONG_GATES, LONG_GATES[3],
          LONG_GATES[4], use_peephole=False),
       case(all_, LONG, *AFTER, *LONG_GATES, LONG_GATES[3], LONG_GATES[4],
            use_peephole=True),
       case(i64(2), LONG, *AFTER, *LONG_GATES, LONG_GATES[3], LONG_GATES[4],
            use_peephole=True), **NEAR)

RU, C = small(I + N, 2 * N), small(I + N, N, step=7)
GRU = (X, H, RU, C, small(2 * N, step=19), small(N, step=41))
op("GRUBlockCell", case(*GRU), case(Zeros(B, 0), H, RU[:N], C[:N], *GRU[4:]),
   bad("h_prev", X, H[:1], *GRU[2:]), bad("w_ru", X, H, RU[1:], *GRU[3:]),
   bad("b_c", *GRU[:5], [1]), bad("x must", X[0], *GRU[1:]), **NEAR)
op("GRUBlockCellGrad", case(*GRU, *GATES[:3], CS),
   bad("d_h", *GRU, *GATES[:3], [[1]]), **NEAR)
