"""Convolutions and their gradients.

TensorFlow's CPU kernels take neither channels first nor the gradients of groups
and dilations: those, and most of what is refused, are tests/kernels/conv.c's.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .base import (CLOSE, Zeros, bad, case, floats, i32, i64, no_grad, of, op,
                   sweep)


def fill(*shape, step=7, size=11):
    """Small numbers, no two neighbours alike."""
    n = int(np.prod(shape))
    return (np.arange(n) * step % size - size // 2).reshape(shape).tolist()


ONE = dict(strides=[1, 1, 1, 1])
SAME = dict(strides=[1, 1, 1, 1], padding="SAME")
VALID = dict(strides=[1, 1, 1, 1], padding="VALID")
STEPS = dict(strides=[1, 2, 3, 1], padding="SAME")
PADS = dict(padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 3, 0, 0, 0])
HOLES = dict(dilations=[1, 2, 3, 1])
IMAGE = fill(1, 2, 4, 2)
FILTER = fill(2, 3, 2, 1, step=5, size=9)
IN, KERNEL = i32([1, 2, 4, 2]), i32([2, 3, 2, 1])
DOT, DOT_FILTER = fill(1, 3, 4, 1), fill(2, 2, 1, 1)

op("Conv2D",
   sweep(IMAGE, FILTER, **SAME), case(IMAGE, FILTER, **STEPS),
   case(fill(2, 3, 2, 1), fill(2, 2, 1, 2), strides=[1, 2, 1, 1],
        padding="VALID"),
   case(DOT, DOT_FILTER, strides=[1, 3, 2, 1], **PADS),
   case(DOT, DOT_FILTER, **SAME, **HOLES),
   case(DOT, DOT_FILTER, padding="SAME", strides=[1, 2, 2, 1], **HOLES),
   case(fill(1, 2, 1, 4), fill(2, 1, 2, 2), **SAME),
   case(IMAGE, fill(1, 1, 2, 1), **SAME), case(DOT, fill(5, 7, 1, 1), **SAME),
   case(Zeros(0, 4, 4, 2), fill(1, 2, 2, 1), **SAME),
   case(DOT, Zeros(2, 2, 1, 0), **SAME),
   bad("rank", [[[1]]], DOT_FILTER, **SAME),
   bad("channels", fill(1, 1, 1, 4), fill(1, 1, 3, 6), **SAME),
   bad("groups", fill(1, 1, 1, 4), fill(1, 1, 2, 5), **SAME),
   bad("channels", Zeros(1, 4, 4, 0), Zeros(2, 2, 0, 3), **SAME),
   bad("empty", DOT, Zeros(0, 2, 1, 1), **SAME),
   bad("negative", DOT, fill(5, 1, 1, 1), **VALID),
   near=CLOSE, scaled=True)
op("Conv2DBackpropInput",
   sweep(IN, FILTER, fill(1, 2, 4, 1), **SAME),
   case(IN, FILTER, fill(1, 1, 2, 1), **STEPS),
   case(i32([1, 3, 4, 1]), DOT_FILTER, fill(1, 2, 3, 1),
        strides=[1, 3, 2, 1], **PADS),
   case(i32([3, 4]), DOT_FILTER, fill(2, 2, 3, 1), **VALID),
   case(i32([1, 3, 4, 2]), fill(1, 1, 2, 1), DOT, **SAME),
   case(i32([1, 3, 3, 2]), fill(1, 1, 2, 1), fill(1, 2, 2, 1), padding="SAME",
        strides=[1, 2, 2, 1]),
   case(i32([0, 4, 4, 1]), DOT_FILTER, Zeros(0, 4, 4, 1), **SAME),
   case(i32([1, 4, 4, 1]), Zeros(2, 2, 1, 0), Zeros(1, 4, 4, 0), **SAME),
   bad("-3", i32([1, -3, 4, 1]), DOT_FILTER, DOT, **SAME),
   bad("out_backprop", i32([2, 3, 4, 1]), DOT_FILTER, DOT, **SAME),
   bad("input_sizes", i32([3, 4, 1]), DOT_FILTER, DOT, **SAME),
   bad("channels", i32([1, 3, 4, 0]), Zeros(2, 2, 0, 1), DOT, **SAME),
   near=CLOSE, scaled=True)
op("Conv2DBackpropFilter",
   sweep(IMAGE, KERNEL, fill(1, 2, 4, 1), **SAME),
   case(IMAGE, KERNEL, fill(1, 1, 2, 1), **STEPS),
   case(DOT, i32([2, 2, 1, 1]), fill(1, 2, 3, 1), strides=[1, 3, 2, 1],
        **PADS),
   case(fill(2, 3, 2, 2), i32([1, 1, 2, 3]), fill(2, 3, 2, 3), **SAME),
   case(DOT, i32([2, 2, 1, 1]), fill(1, 2, 3, 1), **VALID),
   case(Zeros(0, 4, 4, 1), i32([2, 2, 1, 1]), Zeros(0, 4, 4, 1), **SAME),
   case(DOT, i32([2, 2, 1, 0]), Zeros(1, 3, 4, 0), **SAME),
   bad("filter_sizes", DOT, i32([3, 2, 3]), DOT, **SAME),
   bad("-3", DOT, i32([-3, 2, 1, 1]), DOT, **SAME),
   bad("out_backprop", DOT, i32([3, 2, 1, 1]), fill(1, 3, 3, 1), **SAME),
   bad("channels", Zeros(1, 3, 4, 0), i32([2, 2, 0, 1]), DOT, **SAME),
   near=CLOSE, scaled=True)

# Of an empty batch TensorFlow leaves the filter's gradient as memory was.
DEEP = fill(2, 2, 2, 2, step=5, size=9)
TWO = dict(padding="SAME", strides=[1, 2, 2, 1])

op("DepthwiseConv2dNative",
   sweep(fill(1, 3, 3, 2), DEEP, **SAME), case(fill(1, 3, 3, 2), DEEP, **TWO),
   case(fill(2, 3, 2, 3), fill(2, 1, 3, 1), **VALID),
   case(fill(1, 3, 4, 1), fill(2, 2, 1, 2), strides=[1, 2, 2, 1], **PADS),
   case(Zeros(0, 3, 3, 2), DEEP, **SAME),
   case(Zeros(1, 3, 3, 0), Zeros(2, 2, 0, 2), **SAME),
   case(fill(1, 2, 2, 2), Zeros(2, 2, 2, 0), **SAME),
   bad("channels", fill(1, 3, 3, 2), fill(2, 2, 3, 1), **SAME),
   bad("rank", fill(3, 3, 2), DEEP, **SAME),
   bad("negative", fill(1, 2, 2, 1), fill(4, 1, 1, 1), **VALID),
   near=CLOSE, scaled=True)
op("DepthwiseConv2dNativeBackpropInput",
   sweep(i32([1, 3, 3, 2]), DEEP, fill(1, 3, 3, 4), **SAME),
   case(i32([1, 3, 3, 2]), DEEP, fill(1, 2, 2, 4), **TWO),
   case(i32([2, 3, 2, 3]), fill(2, 1, 3, 1), fill(2, 2, 2, 3), **VALID),
   no_grad(case(i32([0, 3, 3, 2]), DEEP, Zeros(0, 3, 3, 4), **SAME)),
   bad("out_backprop", i32([1, 3, 3, 2]), DEEP, fill(1, 3, 3, 2), **SAME),
   bad("input_sizes", i32([3, 3]), DEEP, fill(1, 3, 3, 4), **SAME),
   near=CLOSE, scaled=True)
op("DepthwiseConv2dNativeBackpropFilter",
   sweep(fill(1, 3, 3, 2), i32([2, 2, 2, 2]), fill(1, 3, 3, 4), **SAME),
   case(fill(1, 3, 3, 2), i32([2, 2, 2, 2]), fill(1, 2, 2, 4), **TWO),
   case(fill(2, 3, 2, 3), i32([2, 1, 3, 1]), fill(2, 2, 2, 3), **VALID),
   bad("out_backprop", fill(1, 3, 3, 2), i32([2, 2, 2, 2]), fill(1, 2, 3, 4),
       **SAME),
   bad("filter_sizes", fill(1, 3, 3, 2), i32([2, 2, 2]), fill(1, 3, 3, 4),
       **SAME),
   near=CLOSE, scaled=True)

SAME3 = dict(strides=[1] * 5, padding="SAME")
STEPS3 = dict(strides=[1, 2, 1, 2, 1], padding="SAME")
VALID3 = dict(strides=[1, 1, 2, 1, 1], padding="VALID")
VOLUME = fill(1, 2, 3, 3, 2)
CUBE = fill(2, 3, 2, 2, 1, step=5, size=9)
IN3, KERNEL3 = i32([1, 2, 3, 3, 2]), i32([2, 3, 2, 2, 1])

op("Conv3D",
   floats(VOLUME, CUBE, **SAME3), case(VOLUME, CUBE, **STEPS3),
   case(VOLUME, CUBE, **VALID3), case(VOLUME, fill(1, 1, 1, 2, 2), **SAME3),
   case(Zeros(0, 2, 2, 2, 1), fill(1, 2, 1, 1, 1), **SAME3),
   bad("rank", [[[[1]]]], CUBE, **SAME3),
   bad("channels", VOLUME, fill(1, 1, 1, 3, 1), **SAME3),
   bad("strides", VOLUME, CUBE, padding="SAME", strides=[1, 1, 1, 0, 1]),
   bad("negative", VOLUME, fill(9, 1, 1, 2, 1), padding="VALID",
       strides=[1] * 5),
   near=CLOSE, scaled=True)
op("Conv3DBackpropInputV2",
   floats(IN3, CUBE, fill(1, 2, 3, 3, 1), **SAME3),
   case(i64(IN3), CUBE, fill(1, 1, 3, 2, 1), **STEPS3),
   case(IN3, CUBE, fill(1, 1, 1, 2, 1), **VALID3),
   bad("out_backprop", IN3, CUBE, fill(1, 2, 3, 2, 1), **SAME3),
   bad("input_sizes", i32([1, 4, 5, 3]), CUBE, [[[[[1]]]]], **SAME3),
   near=CLOSE, scaled=True)
op("Conv3DBackpropFilterV2",
   floats(VOLUME, KERNEL3, fill(1, 2, 3, 3, 1), **SAME3),
   case(VOLUME, KERNEL3, fill(1, 1, 3, 2, 1), **STEPS3),
   case(VOLUME, KERNEL3, fill(1, 1, 1, 2, 1), **VALID3),
   bad("out_backprop", VOLUME, KERNEL3, fill(1, 2, 3, 2, 1), **SAME3),
   bad("filter_sizes", VOLUME, i32([2, 3, 2]), [[[[[1]]]]], **SAME3),
   near=CLOSE, scaled=True)
