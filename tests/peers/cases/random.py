"""Random numbers: fixed seeds, the first draw of a session.

SPDX-License-Identifier: Apache-2.0
"""

from .base import bad, case, f32, i32, i64, of, op, string

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
   of("float64 float16 bfloat16", [[0, 1, 2]], i32(5), **SEEDS),
   case(f32([[0, 1]]), i32(3), output_dtype="int32", **SEEDS),
   case(f32([[0, 1]]), i32(0), **SEEDS),
   bad("", f32([0, 1]), i32(3), **SEEDS),
   bad("num_samples", f32([[0, 1]]), i32(-1), **SEEDS))
