"""The cases of every op, by family; see base.py.

SPDX-License-Identifier: Apache-2.0
"""

from .base import OPS, RANKS, L, Unset, Var, Zeros, source
from . import array, binary, conv, ctc, files, image, indexed, linalg, linear
from . import losses, norm, parsing, plumbing, pool, random, ranks, recurrent
from . import reduce, sampling, shape, signal, sound, sparse, state, strings
from . import train, unary

__all__ = ["OPS", "RANKS", "L", "Unset", "Var", "Zeros", "source"]
