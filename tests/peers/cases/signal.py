"""Fourier transforms.

Gradients of complex numbers are in tests/lua/gradients.lua.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .base import Zeros, bad, case, i32, inf, nan, of, op

COMPLEX = "complex64 complex128"
REAL = "float32 float64"


def wave(*shape):
    """Numbers in [-1, 1) without a period."""
    n = int(np.prod(shape))
    return (np.mod(np.arange(n) * 0.754877666 + 0.3, 1) * 2 - 1) \
        .reshape(shape)


def spectrum(*shape):
    return wave(*shape) + 1j * wave(*shape[::-1]).reshape(shape)


def lengths(*ns):
    """Transforms of these lengths, each length in one precision."""
    return [of("complex64" if i % 2 else "complex128", spectrum(n).tolist())
            for i, n in enumerate(ns)]


def both(x):
    return of(COMPLEX, x.tolist())


NEAR = dict(near=(0, 0, 4, 4, 4), scaled=True)
SOME = [both(spectrum(1)), both(spectrum(8)), both(spectrum(3, 2, 6)),
        case(Zeros(0)), case(Zeros(3, 0)), case(Zeros(0, 3)),
        both(np.array([1, nan, 2, 3 + 4j])),
        bad("input", 1j)]
op("FFT", *SOME, *lengths(2, 3, 4, 5, 7, 11, 13, 16, 17, 30, 49), **NEAR)
op("IFFT", *SOME, *lengths(2, 5, 12, 19, 27, 60), **NEAR)
TWO = [both(spectrum(1, 1)), both(spectrum(4, 3)), both(spectrum(2, 5, 8)),
       both(spectrum(1, 17)), both(spectrum(17, 2)), case(Zeros(0, 3)),
       case(Zeros(2, 0, 3)), bad("axes", [1j, 2])]
op("FFT2D", *TWO, **NEAR)
op("IFFT2D", *TWO, **NEAR)
THREE = [both(spectrum(1, 1, 1)), both(spectrum(4, 3, 2)),
         both(spectrum(2, 2, 3, 5)), case(Zeros(2, 0, 3)),
         bad("axes", [[1j, 2]])]
op("FFT3D", *THREE, **NEAR)
op("IFFT3D", *THREE, **NEAR)


def pairs(real, x, *length):
    """One transform in both precisions."""
    kinds = [("float32", "complex64"), ("float64", "complex128")]
    return [case(x.astype(t[0] if real else t[1]), i32(length),
                 Treal=t[0], Tcomplex=t[1]) for t in kinds]


def forth(*shape):
    """Of all of it."""
    return pairs(True, wave(*shape), *shape[-1:])


ONES = np.ones(4, np.float32)
HALF = np.array([1 + 1j, 2 - 1j, 3 + 2j], np.complex64)
op("RFFT",
   *[c for n in (1, 2, 3, 4, 9, 16, 34) for c in forth(n)],
   *forth(3, 2, 4), *pairs(True, wave(3, 6), 5), *pairs(True, wave(2, 8), 4),
   *forth(0, 4), *pairs(True, wave(2, 0), 0),
   bad("fft_length[0]", ONES, i32([-1])),
   bad("needs 8", ONES, i32([8])), bad("2147483647", ONES, i32([2**31 - 1])),
   bad("vector", ONES, i32([3, 3])), bad("fft_length", ONES, i32(3)),
   bad("vector", ONES, i32([])), bad("input", ONES[0], i32([1])),
   bad("complex128", ONES, i32([4]), Tcomplex="complex128"),
   bad("complex64", np.ones(4), i32([4]), Tcomplex="complex64"), **NEAR)
op("IRFFT",
   *[c for n in (1, 2, 3, 4, 5, 16, 17)
     for c in pairs(False, spectrum(n // 2 + 1), n)],
   *pairs(False, spectrum(3, 2, 4), 6),
   *pairs(False, spectrum(3, 5), 4), *pairs(False, spectrum(0, 3), 4),
   *pairs(False, spectrum(2, 0), 0),
   bad("fft_length[0]", HALF, i32([-1])), bad("needs 4", HALF, i32([6])),
   bad("vector", HALF, i32([3, 3])), bad("input", HALF[0], i32([1])),
   bad("complex64", HALF, i32([4]), Treal="float64"), **NEAR)
SQUARE = np.ones((2, 4), np.float32)
op("RFFT2D",
   *pairs(True, wave(2, 4), 2, 4), *pairs(True, wave(3, 5), 3, 5),
   *pairs(True, wave(2, 3, 6), 3, 6), *pairs(True, wave(3, 6), 2, 5),
   *pairs(True, wave(3, 6), 0, 5),
   bad("fft_length[0]", SQUARE, i32([-1, 3])),
   bad("needs 3", SQUARE, i32([3, 3])), bad("vector", SQUARE, i32([4])),
   bad("axes", SQUARE[0], i32([1, 1])), **NEAR)
op("IRFFT2D",
   *pairs(False, spectrum(2, 3), 2, 4), *pairs(False, spectrum(3, 3), 3, 5),
   *pairs(False, spectrum(2, 3, 4), 3, 6), *pairs(False, spectrum(3, 6), 2, 5),
   *pairs(False, spectrum(3, 6), 0, 5),
   bad("needs 3", HALF[None], i32([3, 3])),
   bad("needs 4", HALF[None], i32([1, 6])), **NEAR)
op("RFFT3D",
   *pairs(True, wave(2, 3, 4), 2, 3, 4), *pairs(True, wave(2, 3, 3, 5), 2, 1, 4),
   bad("needs 3", SQUARE[None], i32([1, 3, 3])),
   bad("axes", SQUARE, i32([1, 1, 1])), **NEAR)
op("IRFFT3D",
   *pairs(False, spectrum(2, 3, 3), 2, 3, 4),
   *pairs(False, spectrum(2, 3, 3, 4), 2, 1, 5),
   bad("needs 3", HALF[None, None], i32([1, 3, 3])), **NEAR)
