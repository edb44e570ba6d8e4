"""Random numbers: fixed seeds, the first draw of a session.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .base import bad, case, f32, i32, i64, inf, no_grad, of, op, string


def u64(x):
    return np.array(x, np.uint64)


SEEDS = {"seed": 87654321, "seed2": 42}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def draws(n=7):
    return [case(i32([n]), dtype=t, **SEEDS) for t in FLOATS] + [
        case(i64([2, 3]), dtype="float32", seed=1, seed2=0),
        case(i32([]), dtype="float32", seed=-5, seed2=2**40),
        case(i32([0, 3]), dtype="float32", **SEEDS),
        bad("-1", i32([-1]), dtype="float32", **SEEDS),
        bad("", i32([[1]]), dtype="float32", **SEEDS)]


op("RandomUniform", *draws())
op("RandomStandardNormal", *draws(), case(i32([65]), dtype="float32", seed=3,
                                          seed2=4),
   near=(1, 1, 4, 4, 4))
op("TruncatedNormal", *draws(), case(i32([65]), dtype="float32", seed=3,
                                     seed2=4),
   near=(1, 1, 4, 4, 4))
op("RandomUniformInt",
   case(i32([9]), i32(-3), i32(4), **SEEDS),
   case(i64([3, 3]), i64(0), i64(2**40), **SEEDS),
   case(i32([0]), i32(0), i32(1), **SEEDS),
   case(i32([4]), i32(-2**31), i32(2**31 - 1), **SEEDS),
   bad("minval", i32([2]), i32(4), i32(4), **SEEDS),
   bad("", i32([2]), i32([1, 2]), i32(4), **SEEDS),
   bad("", i32([-2]), i32(1), i32(4), **SEEDS))
op("RandomShuffle",
   case(i32([1, 2, 3, 4, 5, 6, 7]), **SEEDS),
   case(f32([[1, 2], [3, 4], [5, 6]]), **SEEDS),
   case(string([b"a", b"bb", b"", b"d"]), **SEEDS),
   case(f32([]), **SEEDS), case(f32(3), **SEEDS),
   case(f32([[[1], [2]], [[3], [4]], [[5], [6]]]), **SEEDS))
op("Multinomial",
   case(f32([[0, 1, 2], [5, -5, 0]]), i32(6), **SEEDS),
   case(f32([[0, 1, 2], [5, -5, 0], [1, 1, 1]]), i32(3), **SEEDS),
   of("float64 float16 bfloat16", [[0, 1, 2]], i32(5), **SEEDS),
   case(f32([[0, 1, -inf]]), i32(3), output_dtype="int32", **SEEDS),
   case(f32([[0, 1]]), i32(0), **SEEDS),
   bad("", f32([0, 1]), i32(3), **SEEDS),
   bad("num_samples", f32([[0, 1]]), i32(-1), **SEEDS),
   bad("class", f32([[]]), i32(2), **SEEDS))


def stateless(*more):
    return [case(i32([7]), i64([3, -4]), dtype=t) for t in FLOATS] + [
        case(i64([2, 3]), i32([1, 0]), dtype="float32"),
        case(i32([]), i64([-5, 2**40]), dtype="float32"),
        case(i32([0, 3]), i64([1, 2]), dtype="float32"), *more,
        bad("-1", i32([-1]), i64([1, 2]), dtype="float32"),
        bad("seed", i32([1]), i64([1]), dtype="float32"),
        bad("", i32([[1]]), i64([1, 2]), dtype="float32")]


MANY = case(i32([65]), i64([3, 4]), dtype="float32")
op("StatelessRandomUniform", *stateless(MANY))
op("StatelessRandomNormal", *stateless(MANY), near=(1, 1, 4, 4, 4))
op("StatelessTruncatedNormal", *stateless(MANY), near=(1, 1, 4, 4, 4))
op("StatelessRandomUniformInt",
   case(i32([9]), i64([3, 4]), i32(-3), i32(4)),
   case(i64([3, 3]), i32([-3, 4]), i64(0), i64(2**40)),
   case(i32([0]), i64([3, 4]), i32(0), i32(1)),
   bad("minval", i32([2]), i64([3, 4]), i32(4), i32(4)),
   bad("seed", i32([2]), i64([3, 4, 5]), i32(4), i32(7)),
   bad("", i32([2]), i64([3, 4]), i32([1, 2]), i32(4)))
ONE, TWO = u64([7]), u64([1, 2**63 + 5])


def keyed(*more):
    """As stateless, of a key and a counter."""
    return [case(i32([7]), ONE, TWO, i32(1), dtype=t) for t in FLOATS] + [
        case(i64([2, 3]), ONE, u64([1, 2, 3]), i32(3), dtype="float32"),
        case(i32([]), ONE, TWO, i32(1), dtype="float32"),
        case(i32([0, 3]), ONE, TWO, i32(1), dtype="float32"),
        case(i32([65]), ONE, TWO, i32(1), dtype="float32"), *more,
        bad("-1", i32([-1]), ONE, TWO, i32(1), dtype="float32"),
        bad("alg", i32([1]), ONE, TWO, i32(2), dtype="float32"),
        bad("alg", i32([1]), ONE, TWO, i32([1]), dtype="float32"),
        bad("key", i32([1]), TWO, TWO, i32(1), dtype="float32"),
        bad("key", i32([1]), u64(1), TWO, i32(1), dtype="float32"),
        bad("counter", i32([1]), ONE, u64([[1, 2]]), i32(1), dtype="float32")]


op("StatelessRandomUniformV2", *keyed())
op("StatelessRandomNormalV2", *keyed(), near=(1, 1, 4, 4, 4))
op("StatelessTruncatedNormalV2", *keyed(), near=(1, 1, 4, 4, 4))
op("StatelessRandomUniformIntV2",
   case(i32([9]), ONE, TWO, i32(1), i32(-3), i32(4)),
   case(i64([3, 3]), ONE, TWO, i32(3), i64(0), i64(2**40)),
   case(i32([0]), ONE, TWO, i32(1), i32(1), i32(0)),
   bad("minval", i32([2]), ONE, TWO, i32(1), i32(4), i32(4)),
   bad("minval", i32([2]), ONE, TWO, i32(1), i32([4]), i32(7)),
   bad("key", i32([2]), TWO, TWO, i32(1), i32(4), i32(7)))
INTEGERS = ("int32", "int64", "uint32", "uint64")
op("StatelessRandomUniformFullIntV2",
   *[case(i32([9]), ONE, TWO, i32(1), dtype=t) for t in INTEGERS],
   bad("key", i32([2]), TWO, TWO, i32(1), dtype="int32"))
op("StatelessRandomUniformFullInt",
   *[case(i32([9]), i32([3, -4]), dtype=t) for t in INTEGERS],
   case(i64([2, 3]), i64([3, 2**40]), dtype="int32"),
   bad("seed", i32([2]), u64([3, 4]), dtype="int32"),
   bad("seed", i32([2]), i32([3]), dtype="int32"))
for name in "StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg":
    op(name, case(i32([3, -4])), case(i64([-1, 2**40])),
       bad("seed", i64([1, 2, 3])), bad("seed", i64(1)))
op("StatelessRandomGetAlg", case())
op("StatelessShuffle",
   case(i32([1, 2, 3, 4, 5, 6, 7]), ONE, TWO, i32(1)),
   case(f32([[1, 2], [3, 4], [5, 6]]), ONE, TWO, i32(3)),
   case(string([b"a", b"bb", b"", b"d"]), ONE, TWO, i32(1)),
   case(f32([]), ONE, TWO, i32(1)), case(f32(3), ONE, TWO, i32(1)),
   bad("key", f32([1, 2]), TWO, TWO, i32(1)),
   bad("alg", f32([1, 2]), ONE, TWO, i32(2)))
KEY = i32([1, 2, 3])
op("RandomIndexShuffle",
   *[case(np.arange(10, dtype=t), KEY, np.array(9, t)) for t in INTEGERS],
   case(i32(3), KEY, i32(9)), case(i32(3), i32([[1, 2, 3]]), i32(9)),
   case(i32([0, 1, 2]), i32([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), i32(9)),
   case(i32([0, 1, 2]), KEY, i32([9, 10, 11])), case(i32(0), KEY, i32([9, 8])),
   case(i32(0), i32([[1, 2, 3], [4, 5, 6]]), i32(9)),
   case(i64([0, 1, 2**40]), i64([1, 2**40, -3]), i64(2**62)),
   case(i64([0, 1, 7]), u64([1, 2, 3]), i64(2**63 - 1), rounds=8),
   case(i64([0, 1, 65536]), KEY, i64(65536)),
   case(u64([0, 1, 2**64 - 1]), KEY, u64(2**64 - 1)),
   case(i64([70000, 3]), KEY, i64(70001), rounds=12), case(i32(0), KEY, i32(0)),
   bad("index", i32(10), KEY, i32(9)), bad("index", i32(-1), KEY, i32(9)),
   bad("index", i32(0), KEY, i32(-9)), bad("seed", i32(0), i32([1, 2]), i32(9)),
   bad("index", i32([0, 1]), KEY, i32([9, 9, 9])),
   bad("index", i32([[0, 1]]), KEY, i32(9)),
   bad("max_index", i32([0, 1]), KEY, i32([9])),
   bad("index", i32([]), KEY, i32(9)),
   bad("seed", i32([1, 2, 3]), i32([[1, 2, 3], [4, 5, 6]]), i32(9)))
op("StatelessMultinomial",
   case(f32([[0, 1, 2], [5, -5, 0]]), i32(6), i64([3, 4])),
   of("float64 float16 bfloat16", [[0, 1, 2]], i32(5), i32([3, 4])),
   case(f32([[0, 1]]), i32(3), i64([3, 4]), output_dtype="int32"),
   bad("", f32([0, 1]), i32(3), i64([3, 4])),
   bad("seed", f32([[0, 1]]), i32(3), i64([3])))
ALPHAS = [0.5, 1, 2.5, 30]
# Its gradient is that of one more draw.
op("RandomGamma",
   no_grad(of("float16 float32 float64", i32([5]), ALPHAS, **SEEDS)),
   no_grad(of("float64", i64([2, 3]), [[0.01, 1], [1.5, 1e6]], **SEEDS)),
   of("float32", i32([]), ALPHAS, **SEEDS), of("float32", i32([4]), 3, **SEEDS),
   of("float32", i32([0]), ALPHAS, **SEEDS),
   of("float32", i32([3]), [], **SEEDS),
   bad("-1", i32([-1]), ALPHAS, **SEEDS), bad("", i32([[1]]), 1, **SEEDS),
   near=(1, 1, 1, 8, 8))
RATES = [0, 0.5, 3, 9.5, 12, 400]
op("RandomPoissonV2",
   of("float16 float32 float64", i32([5]), RATES, **SEEDS),
   of("int32 int64", i32([5]), [1, 20], dtype="float32", **SEEDS),
   of("float64", i64([2, 3]), [[0.01, 1], [11.5, 1e6]], dtype="int32", **SEEDS),
   of("float64", i32([3]), RATES, dtype="float64", **SEEDS),
   of("float32", i32([3]), RATES, dtype="float16", **SEEDS),
   of("float32", i32([]), RATES, **SEEDS), of("float32", i32([3]), [], **SEEDS),
   bad("rate", i32([2]), -1, **SEEDS),
   bad("-1", i32([-1]), RATES, **SEEDS))
WIDE, NARROW, TAIL = (0, 1, -2, 2), (1, 2, 1.5, 2), (0, 1, 3, inf)
op("ParameterizedTruncatedNormal",
   *[of("float16 float32 float64", i32([9]), *p, **SEEDS)
     for p in (WIDE, NARROW, TAIL)],
   of("float32", i64([3, 5]), 1, 2, -inf, -4, **SEEDS),
   of("float32", i32([1, 70]), [0.5], [2], [-1], [7], **SEEDS),
   of("float32", i32([0, 3]), 0, 1, -1, 1, **SEEDS),
   bad("stdevs", i32([2]), 0, -1, -1, 1, **SEEDS),
   bad("minvals", i32([2]), 0, 1, 1, 1, **SEEDS),
   bad("means", i32([2]), [0, 1, 2], 1, -1, 1, **SEEDS),
   bad("shape", i32([]), 0, 1, -1, 1, **SEEDS),
   near=(1, 1, 4, 4, 4), scaled=True)
