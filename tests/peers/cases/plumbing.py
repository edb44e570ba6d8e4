"""Constants, identities, assertions, and the ops of control flow that can run
alone.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (L, bad, boolean, case, f32, f64, i32, i64, of, op, string,
                   sweep, u8)

X = [[1, -2, 3], [4, 5, -6]]

op("Const",
   case(value=f32(X), dtype="float32"), case(value=f64(X), dtype="float64"),
   case(value=i32(7), dtype="int32"), case(value=i64([]), dtype="int64"),
   case(value=boolean([[True], [False]]), dtype="bool"),
   case(value=string([b"a", b""]), dtype="string"))
for name in ("Identity", "StopGradient"):
    op(name, sweep(X), case(3), case([[], []]))
op("Bitcast",
   of("float32", [1, -2], T="float32", type="int32"),
   of("float32", [1, -2], T="float32", type="uint8"),
   of("float64", [[1], [-2]], T="float64", type="int32"),
   of("float64", [1, -2], T="float64", type="complex64"),
   of("uint8", [[1, 2, 3, 4], [5, 6, 7, 8]], T="uint8", type="float32"),
   of("int16", [[1, 2]], T="int16", type="qint32"),
   of("float16", [], T="float16", type="bfloat16"),
   of("int8", 5, T="int8", type="uint8"),
   bad("", u8([1, 2, 3]), type="float32"),
   bad("", u8(1), type="int16"))
op("Snapshot", sweep(X), case([[], []]))
for name in ("DeepCopy", "GuaranteeConst"):
    op(name, sweep(X), case([[], []]))
op("Empty",
   *[case(i32([2, 3]), dtype=t, init=True) for t in
     ("float32", "int32", "string", "bool", "complex64", "float16")],
   case(i32([]), dtype="float64", init=True), case(i32([0]), dtype="int64"),
   bad("shape", i32(2), dtype="float32"), bad("-1", i32([-1]), dtype="float32"))
op("PreventGradient", sweep(X, message="no"))
op("IdentityN",
   case(L(f32(X), i64([1]), string([b"a"]))), case(L(f64([]))))
op("PlaceholderWithDefault",
   sweep(X, shape=[2, 3]), case(X, shape=[None, 3]), case(X, shape=None),
   bad("", X, shape=[3, 3]),
   dynamic=True)
op("Print",
   sweep(X, L(f32([1, 2]))), case(X, L(), message="x"),
   case([[], []], L(i32(7), string([b"a"])), first_n=0))
op("NoOp", case())
op("ControlTrigger", case())
op("Assert",
   case(boolean(True), L(f32([1, 2]))),
   case(boolean(True), L(f32([1, 2]), string(b"text"), i32([])), summarize=1),
   bad("7", boolean(False), L(i32([7, 8]))),
   bad("text", boolean(False), L(string([b"text"]), f32(1))),
   bad("", boolean([True, True]), L(i32(1))))
op("Switch",
   sweep(X, boolean(True)), case(X, boolean(False)), case([[], []],
                                                          boolean(True)),
   of("string", string([b"a"]), boolean(False)),
   bad("", X, boolean([True])))
op("ToBool",
   sweep(3), sweep(0), sweep([0, 0]), case([]), case([[0]]), case(-0.0),
   case(float("nan")), case(0.5), of("string", string(b"x")),
   of("string", string(b"")), of("string", string([b""])),
   of("bool", boolean(False)))
