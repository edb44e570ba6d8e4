"""Candidate samplers: fixed seeds, two runs.

SPDX-License-Identifier: Apache-2.0
"""

from .base import bad, case, i64, op

SEEDS = {"seed": 87654321, "seed2": 42}
T = i64([[0, 3], [9, 1], [2, 2]])


def some(n, unique, **attrs):
    return dict(num_true=2, num_sampled=n, unique=unique, **attrs, **SEEDS)


BAD = [bad("10", i64([[0, 10]]), **some(3, True, range_max=10)),
       bad("-1", i64([[0, -1]]), **some(3, True, range_max=10)),
       bad("num_true", i64([[0], [1]]), **some(3, True, range_max=10)),
       bad("num_true", i64([0, 1]), **some(3, True, range_max=10)),
       bad("unique", T, **some(11, True, range_max=10))]
NEAR = dict(near=(0, 0, 4, 0, 0))
for name in ("Uniform", "LogUniform", "LearnedUnigram"):
    op(name + "CandidateSampler",
       case(T, **some(9, False, range_max=10)),
       case(T, **some(10, True, range_max=10)),
       case(T, **some(33, False, range_max=16)),
       case(T, **some(20, True, range_max=1000)), *BAD, **NEAR)
op("AllCandidateSampler",
   case(T, **some(10, True)), bad("3", T, **some(3, False)),
   bad("num_true", i64([[0], [1]]), **some(3, True)))
WEIGHTS = [0.5, 3, 1, 7.25, 0, 2, 2, 1e-3, 4, 9]
op("FixedUnigramCandidateSampler",
   case(T, **some(9, False, range_max=10, unigrams=WEIGHTS)),
   case(T, **some(8, True, range_max=10, unigrams=WEIGHTS, distortion=0.5)),
   case(T, **some(5, True, range_max=12, unigrams=WEIGHTS,
                  num_reserved_ids=2)),
   case(i64([[0, 3]]), **some(5, False, range_max=5, unigrams=WEIGHTS,
                              num_shards=2, shard=1)),
   bad("range_max", T, **some(3, False, range_max=9, unigrams=WEIGHTS)),
   bad("unigrams", T, **some(3, False, range_max=9)),
   **NEAR)
op("ComputeAccidentalHits",
   case(T, i64([4, 9, 2, 0]), num_true=2), case(T, i64([2, 2, 5]), num_true=2),
   case(T, i64([]), num_true=2), case(T, i64([7, 8]), num_true=2),
   bad("num_true", T, i64([1]), num_true=3), bad("vector", T, T, num_true=2), dynamic=True)
