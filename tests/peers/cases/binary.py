"""Element-wise ops of two operands, and of three.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (CLOSE, L, MODULUS, bad, case, f32, f64, floats, i32, inf,
                   nan, no_grad, of, op, string, sweep)

X = [[-2.5, -1, 0.25], [3, 0.5, 7]]
Y = [[2, -3, 0.5], [-1, 4, 1.5]]
POSITIVE = [[2.5, 1, 0.25], [3, 0.5, 7]]
EDGE_X = [nan, 1, inf, -inf, inf, 0.0, -0.0, 1, -1, 0, 5]
EDGE_Y = [1, nan, inf, inf, -inf, -0.0, 0.0, 0, 0, 0, inf]


def shapes(says="broadcast"):
    """Broadcasting both ways, scalars, no elements, and what does not fit."""
    return [
        case([[1], [2]], [[3, 4, 5]]),
        case([[[1, 2]], [[3, 4]]], [[5], [6]]),
        case(2, [3, 4]),
        case([[1, 2]], 3),
        case([], [1]),
        case([[], []], 4),
        bad(says, [1, 2], [1, 2, 3]),
        bad(says, [[1, 2], [3, 4]], [[1, 2, 3]]),
    ]


WHOLES = [[2, -3, 1.5], [-1, 4, 1.5]]


def binary(name, x=X, y=Y, edges=True, more=(), **row):
    op(name,
       sweep(x, y),
       *([no_grad(floats(EDGE_X, EDGE_Y))] if edges else []),
       *shapes(),
       *more,
       each=True, **row)


binary("Add", more=[of("string", string([b"a", b"\0b"]), string(b"c"))])
binary("AddV2", more=[of("int8", [127], [1]),
                      of("string", string([b"a", b""]), string([[b"c"]]))])
binary("Sub", more=[of("uint8", [1], [2])])
binary("Mul", more=[of("int32", [2**30], [4]),
                    of("complex64", [1 + 2j, 3j], [2 - 1j, 4])],
       near=MODULUS)
binary("Div", y=WHOLES, more=[of("int32", [7, -7, 7, -7], [2, 2, -2, -2]),
                    of("complex64", [1 + 2j, 3j], [2 - 1j, 4]),
                    bad("zero", [1, 2], [1, 0], T="int32")],
       near=MODULUS)
binary("RealDiv", more=[of("complex64", [1 + 2j, 3j], [2 - 1j, 4])],
       near=MODULUS)
WHOLE = of("int8 int32 int64", [7, -7, 7, -7, 6, -6], [2, 2, -2, -2, -3, 3])
PARTS = floats([7, -7, 7, -7, 5.5, -5.5], [2, 2, -2, -2, -1.5, 1.5])
binary("FloorDiv", y=WHOLES, more=[no_grad(WHOLE), PARTS,
                         bad("zero", [1, 2], [1, 0], T="int32"),
                         bad("zero", [1, 2], 0, T="uint8")])
binary("TruncateDiv", y=WHOLES, more=[no_grad(WHOLE),
                            bad("zero", [1, 2], [1, 0], T="int64")])
binary("FloorMod", y=WHOLES, more=[no_grad(WHOLE), PARTS,
                         bad("zero", [1, 2], [1, 0], T="int32")])
binary("Mod", y=WHOLES, more=[no_grad(WHOLE), PARTS,
                    bad("zero", [1, 2], [1, 0], T="int32")])
binary("TruncateMod", y=WHOLES, more=[no_grad(WHOLE), PARTS,
                            bad("zero", [1, 2], [1, 0], T="int64")])
TIES = case([1, 2, -0.0], [1, 3, 0.0])
binary("Maximum", more=[TIES],
       zeros=True)
binary("Minimum", more=[TIES],
       zeros=True)
binary("Pow", POSITIVE, [[2, 3, 0.5], [1, 4, 1.5]], edges=False, more=[
    no_grad(floats([nan, 1, 2, 0, 0, -2, -2, inf, -8, 4],
                   [0, nan, inf, 0, 1, 2, 3, -1, 0.5, -0.5])),
    of("int32 int64", [0, -2, 3, 10], [0, 3, 4, 9]),
    case([0, -1, 2], [2, 2, 0]),
    bad("negative", [2, 3], [1, -1], T="int32")],
       near=CLOSE)
binary("SquaredDifference", more=[of("complex64", [1 + 2j], [3 - 1j])],
       near=MODULUS)
binary("DivNoNan", more=[of("complex64", [1 + 2j, 3j], [2 - 1j, 0])],
       near=MODULUS)
binary("Xdivy", edges=False, more=[case([0, 0, 2], [0, nan, 4])],
       near=MODULUS)
binary("Xlogy", POSITIVE, [[2, 3, 0.5], [1, 4, 1.5]],
       more=[case([0, 0, 2], [0, nan, 4])],
       near=CLOSE)
binary("Xlog1py", POSITIVE, [[2, 3, 0.5], [1, 4, 1.5]], edges=False,
       more=[case([0, 0, 2], [-1, nan, 4])],
       near=CLOSE)
binary("MulNoNan", more=[case([nan, inf, 2], [0, 0, 4])],
       near=MODULUS)
binary("NextAfter", edges=False,
       more=[floats([nan, 1, 1, 2], [1, nan, inf, 2])])
# TensorFlow's floats are rougher than ours, which come from doubles.
ROUGH = (1, 1, 256, 256, 0)
SHAPE = [[0.5, 2, 7], [1, 3.5, 0.25]]
# Zeros, infinity, tiny and large orders.
HARD_GAMMA = ([0, -1, 0.5, 0, inf, inf, 1e-30, 1e-20, 1e-10, 1e-5, 30, 0.5, 3,
               28, 1e5],
              [0, 0, 0, 1, inf, 1, 2.5, 3, 1.5, 2, 20, 1e-10, 1e-5, 1e9, 1e9])
for name in ("Igamma", "Igammac"):
    binary(name, SHAPE, [[0.25, 2, 4], [6, 3.5, 9]], edges=False, more=[
        no_grad(floats([nan, 1, 0, -1, 2, 2, 1, 30],
                       [1, nan, 1, 1, 0, -1, inf, 25])),
        no_grad(of("float64 float32", *HARD_GAMMA))],
           near=ROUGH)
binary("IgammaGradA", SHAPE, [[0.25, 2, 4], [6, 3.5, 9]], edges=False,
       more=[no_grad(of("float64 float32", *HARD_GAMMA))],
       near=ROUGH)
binary("RandomGammaGrad", SHAPE, [[0.25, 2, 4], [6, 3.5, 9]], edges=False,
       more=[no_grad(of("float64 float32", *HARD_GAMMA))],
       near=ROUGH)
binary("Zeta", [[2, 3, 1.5], [10, 4, 2]], [[1, 2, 0.5], [3, 20, 7.5]],
       edges=False,
       more=[floats([1, 0.5, 2, 3, 2, 3, 2.5, 2], [2, 2, -1, -1, -1.5, -1.5,
                                                   -0.5, 0]),
             floats([1, inf, inf, inf, 4, 1e5], [nan, -0.5, 0.5, 3, -0.001, 2]),
             of("float64", [1.0001, 40, 7, 3], [1e8, 0.1, -3.0001, -1e-5])],
       near=ROUGH)
binary("Polygamma", [[0, 1, 2], [3, 1, 0]], [[1, 2, 0.5], [3, 20, 7.5]],
       edges=False,
       more=[floats([0.5, -1, 1, 2], [2, 2, -0.5, -1.5]),
             no_grad(of("float64", [0, 0, 1, 2, 12, 1e30, 3],
                        [-1e-10, -1e-200, 1e-10, -1e-5, 0.5, 0.5, 1e6]))],
       near=ROUGH)
binary("Atan2",
       near=CLOSE)
for name in ("Equal", "NotEqual"):
    op(name,
       sweep([[1, 2], [3, 0]], [[1, 5], [0, 0]]),
       no_grad(floats(EDGE_X, EDGE_Y)),
       of("string", string([b"a", b"", b"a\0b"]), string([b"a", b"b", b"a\0"])),
       of("float32", [1, 2], [1, 2, 3], incompatible_shape_error=False),
       *shapes(),
       each=True)
for name in ("Less", "LessEqual", "Greater", "GreaterEqual"):
    binary(name, [[1, 2], [3, 0]], [[1, 5], [0, 0]],
           more=[of("uint64", [2.0**63, 1], [1, 2.0**63])])
for name in ("LogicalAnd", "LogicalOr"):
    op(name, case([0, 0, 1, 1], [0, 1, 0, 1]), case([[0], [1]], [1, 0]),
       case([], 1), bad("broadcast", [1, 0], [1, 0, 1]),
       each=True)
for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    op(name, sweep([0, 5, 12, 127], [3, 6, 10, 85]),
       of("int8", [-128, -1], [-1, 5]), of("int32", [[1], [2]], [3, 4]),
       of("int64", [], 1),
       bad("broadcast", [1, 2], [1, 2, 3], T="int32"),
       each=True)
for name in ("LeftShift", "RightShift"):
    op(name, sweep([1, 5, 12, 127], [3, 1, 0, 2]),
       of("int8 int32 int64", [-128, -1, 100], [1, 3, 2]),
       of("int32", [[1], [2]], [3, 4]), of("int64", [], 1),
       bad("broadcast", [1, 2], [1, 2, 3], T="int32"),
       each=True)

# ---- gradients of element-wise ops: no broadcasting ----

ONE = [[-0.75, -0.5, 0.25], [0.5, 0.125, 0.875]]


def slope(name, first=ONE, second=Y, edges=True, **row):
    op(name,
       sweep(first, second),
       *([no_grad(floats([1, nan, 2, -3, 0.5], [nan, 1, 0.0, -0.0, 6])),
          no_grad(floats([nan, nan, inf, -inf], [-1, 7, -1, 7])),
          no_grad(floats([0.0, -0.0, nan, inf, -inf, 4],
                         [0.0, 0.0, 0.0, -0.0, 0.0, 0.0])),
          no_grad(floats([0.0, 0.0, -0.0, 0.0, 0.0, 0.0],
                         [0.0, -0.0, nan, inf, -inf, 4]))]
         if edges else []),
       case([[], []], [[], []]),
       case(0.5, 2),
       bad("shape", [1, 2], [1, 2, 3]),
       each=True, **row)


slope("SigmoidGrad",
      near=CLOSE)
slope("TanhGrad",
      near=CLOSE)
slope("SqrtGrad", POSITIVE,
      near=CLOSE)
slope("RsqrtGrad", POSITIVE,
      near=CLOSE)
slope("ReciprocalGrad",
      near=CLOSE)
slope("InvGrad",
      near=CLOSE)
slope("ReluGrad", X, Y)
slope("Relu6Grad", X, [[2, -3, 0], [6, 7, 5.5]])
# TensorFlow's alpha is of the dtype: ours is a float.
slope("LeakyReluGrad", X, Y,
      near=(1, 1, 0, 0, 0))
slope("EluGrad", X, ONE,
      near=CLOSE)
slope("SeluGrad", X, ONE,
      near=CLOSE)
slope("SoftplusGrad", X, Y,
      near=CLOSE)
slope("SoftsignGrad", X, Y,
      near=CLOSE)

# ---- three operands, and many ----

op("Select",
   sweep([[1, 0], [0, 1]], [[1, 2], [3, 4]], [[5, 6], [7, 8]]),
   case(True, [1, 2], [3, 4]),
   case(False, [[1, 2]], [[3, 4]]),
   case([1, 0], [[1, 2], [3, 4]], [[5, 6], [7, 8]]),
   case([], [], []),
   of("string", [1, 0], string([b"a", b"b"]), string([b"c", b"d"])),
   bad("shape", [1, 0], [1, 2], [1, 2, 3]),
   bad("shape", [1, 0, 1], [1, 2], [3, 4]),
   each=True)
op("SelectV2",
   sweep([[1, 0], [0, 1]], [[1, 2], [3, 4]], [[5, 6], [7, 8]]),
   case(True, [1, 2], [[3], [4]]),
   case([[1], [0]], [1, 2, 3], 0),
   case([], [], 1),
   bad("broadcast", [1, 0], [1, 2], [1, 2, 3]),
   each=True)
op("ClipByValue",
   sweep([[-2.5, 1, 3], [0, 5, 9]], 0, 4),
   case([1, 5, 3], [2, 2, 2], [4, 4, 4]),
   case([], 0, 1),
   case([1, 5, 3], 2, [4, 4, 0]), case([1, 5, 3], 4, 2), no_grad(floats([nan, 1], 0, 5)),
   no_grad(floats([-1, 1, 7], [nan, 2, 0], [3, nan, nan])),
   no_grad(of("complex64 complex128", [1 + 2j, 3 - 1j, -1 - 1j, 9j],
              1j, 2 + 3j)),
   no_grad(of("complex64", [1 + 2j, nan], [2 + 1j] * 2, [3, 1 - 1j])),
   bad("shape", [1, 5, 3], [2, 2], 4))
op("Betainc",
   sweep([[0.5, 2], [3, 4]], [[1, 3], [0.25, 7]], [[0.25, 0.5], [0.75, 1]]),
   case(2, [1, 3.5], [0.5, 0]), case([[], []], 1, 2),
   floats([nan, -1, 1, 1, 2], [1, 1, 0, 1, 3], [0.5, 0.5, 0.5, 2, 1]),
   no_grad(of("float64", [1e209, 1, 1e-10],
              [0.9, 1e224, 2],
              [0.75, 0.25, 0.5])),
   bad("shape", [1, 2], [1, 2, 3], 0.5),
   near=ROUGH)
op("ApproximateEqual",
   sweep([1, 2, 3], [1.5, 2.25, 3], tolerance=0.5), case([1, 1], [1 + 1e-6, 2]),
   floats([nan, inf], [nan, inf]), case([[], []], [[], []]),
   bad("shape", [1, 2], [1]))
op("Bucketize",
   sweep([[1, 5, 2], [-3, 9, 5]], boundaries=[2, 5]),
   case([1, 2], boundaries=[]), floats([nan, inf, -inf], boundaries=[0]),
   case([[], []], boundaries=[1]),
   bad("sorted", [1, 2], boundaries=[2, 1]))
for name in ("LowerBound", "UpperBound"):
    op(name,
       sweep([[1, 3, 3, 7], [0, 2, 4, 6]], [[3, 0, 8], [2, 5, 6]]),
       case([[]], [[1, 2]]), case([[1, 2]], [[]]),
       case([[1, 3]], [[2]], out_type="int64"),
       bad("row", [[1, 2]], [[1], [2]]), bad("", [1, 2], [1]))
op("AccumulateNV2",
   case(L(f64([1, 2]), f64([3, 4]), f64([5, -6])), shape=[2]),
   case(L(f32([[1.5]])), shape=[1, 1]), case(L(i32(3), i32(4)), shape=[]),
   bad("shape", L(f32([1, 2]), f32([1, 2, 3])), shape=[2]))
op("AddN",
   sweep(L([1, 2], [3, 4], [5, -6])),
   case(L([[1.5]])),
   case(L([], [])),
   case(L(1, 2, 3, 4, 5, 6, 7, 8, 9)),
   bad("shape", L([1, 2], [1, 2, 3])),
   each=True)
op("Complex",
   of("float32", [1, 2], [3, -4]),
   of("float64", [[1], [2]], [3, -4], Tout="complex128"),
   case([], 1, T="float32"),
   bad("broadcast", [1, 2], [1, 2, 3], T="float32"))
op("Cast",
   *[of(t, [-2.5, 0, 1.5, 100], SrcT=t, DstT="float32") for t in
     "float16 bfloat16 float64 int8 int16 int32 int64 uint8 uint16 uint32 "
     "uint64 bool complex64 complex128".split()],
   *[of("float32", [-2.5, 0, 1.5, 100], DstT=t) for t in
     "float16 bfloat16 float64 int8 int16 int32 int64 bool complex64 "
     "complex128".split()],
   *[of("float32", [2.5, 0, 1.5, 100], DstT=t) for t in
     "uint8 uint16 uint32 uint64".split()],
   *[of("int64", [-1, 300, 65536, 2**40], SrcT="int64", DstT=t) for t in
     "int8 int16 int32 uint8 uint16 uint32 uint64 float16 float64".split()],
   of("float64", [1e-3, 1 / 3, 65519, 65520, nan, inf], DstT="float16"),
   of("float32", [1 / 3, nan, inf, 3.4e38], DstT="bfloat16"),
   of("float64", [1 / 3, 1e300, nan, -inf], DstT="float32"),
   of("float16", [1 / 3, nan, inf, 6e-8], DstT="float64"),
   of("float64", [1 / 3, 2.5], DstT="bfloat16"),
   of("uint64", [2.0**63, 2.0**53 + 2], DstT="float64"),
   of("float64", [1 / 3, 1 + 2**-30, 1 + 3 * 2.0**-24], DstT="float32",
      Truncate=True),
   of("complex128", [1 + 2j], DstT="complex64"),
   of("bool", [1, 0], DstT="int32"),
   of("bool", [[], []], DstT="float16"),
   of("int32", 7, DstT="int32"),
   each=True)
