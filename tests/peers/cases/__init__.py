"""The cases of every op, by family; see base.py.

SPDX-License-Identifier: Apache-2.0
"""

from .base import OPS, RANKS, L, Unset, Var, Zeros, source
from . import array, binary, conv, ctc, image, indexed, linalg, linear, losses
from . import norm, plumbing, pool, random, ranks, recurrent, reduce, sampling
from . import shape, signal, sound, sparse, state, strings, train, unary

__all__ = ["OPS", "RANKS", "L", "Unset", "Var", "Zeros", "source"]
