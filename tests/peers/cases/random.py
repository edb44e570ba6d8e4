"""Random numbers: fixed seeds, the first draw of a session.

SPDX-License-Identifier: Apache-2.0
"""

from .base import bad, case, f32, i32, i64, inf, no_grad, of, op, string

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
