"""Normalisation: of batches and of neighbouring channels.

SPDX-License-Identifier: Apache-2.0
"""

from .base import OPS, Zeros, bad, case, f32, of, op
from .pool import grid

X = grid(2, 2, 3, 2, step=37, around=127)
ODD = grid(1, 3, 2, 3, step=13, around=37)
VOLUME = grid(1, 2, 2, 2, 2, step=37, around=127)
A, B, C, V = [1.5, -2], [0.5, 3], [0.25, -1], [2, 0.5]
FLOATS = "float16 bfloat16 float32"
NEAR = dict(near=(2, 2, 16, 0, 0), scaled=True)
TYPES = {"FusedBatchNorm": "float32", "FusedBatchNormV2": FLOATS,
         "FusedBatchNormV3": FLOATS}


def vec(*x):
    return f32(list(x))


# The saved moments of inference are left as they were by TensorFlow.
for name, types in TYPES.items():
    none = Zeros(0)
    op(name,
       of(types, X, vec(*A), vec(*B), none, none),
       case(ODD, vec(1, 2, 3), vec(3, -2, 1), none, none, epsilon=0.5),
       case(X, vec(*A), vec(*B), vec(*C), vec(*V),
            exponential_avg_factor=0.25),
       case(X, vec(1, 2), vec(3, -2), none, none, data_format="NCHW"),
       case([[X[0][0][:1]]], vec(*A), vec(*B), none, none),
       bad("scale", X, vec(1), vec(*B), none, none),
       bad("mean", X, vec(*A), vec(*B), none, vec(*V), is_training=False),
       bad("variance", X, vec(*A), vec(*B), vec(*C), vec(1, 2, 3),
           exponential_avg_factor=0.5),
       bad("rank 4", A, vec(*A), vec(*B), none, none),
       **NEAR)

for name, types in TYPES.items():
    end = (vec(),) if name == "FusedBatchNormV3" else ()
    dy = grid(2, 2, 3, 2, step=5, around=17)
    op(name.replace("Norm", "NormGrad"),
       of(types, dy, X, vec(*A), vec(*C), vec(*V), *end),
       of(types, dy, X, vec(*A), vec(*C), vec(*V), *end, is_training=False),
       case(dy, X, vec(*A), vec(*C), vec(*V), *end, data_format="NCHW"),
       bad("shape", [[[[1, 2]]]], X, vec(*A), vec(*C), vec(*V), *end),
       bad("scale", dy, X, vec(1), vec(*C), vec(*V), *end),
       bad("reserve_space_1", dy, X, vec(*A), vec(1), vec(*V), *end),
       **NEAR)

OPS["FusedBatchNormV3"].cases += (
    case(VOLUME, vec(*A), vec(*B), Zeros(0), Zeros(0), data_format="NDHWC"),)
DEEP = grid(1, 1, 2, 9, step=37, around=127)
NORM = dict(depth_radius=2, bias=2.0, alpha=0.5)
op("LRN",
   of("float16 float32", DEEP, **NORM), case(DEEP, beta=0.75, **NORM),
   case(X, depth_radius=0, beta=1.0), case(X, depth_radius=100),
   case(Zeros(0, 2, 2, 3)), bad("rank 4", [[1, 2]]),
   bad("-1", X, depth_radius=-1), near=(2, 0, 16, 0, 0), scaled=True)
op("LRNGrad",
   of("float16 float32", grid(1, 1, 2, 9, step=5, around=17), DEEP,
      grid(1, 1, 2, 9, step=3, around=7), **NORM),
   case(grid(1, 1, 2, 9), DEEP, DEEP, beta=0.75, **NORM),
   bad("shape", X, X, DEEP), near=(4, 0, 16, 0, 0), scaled=True)
