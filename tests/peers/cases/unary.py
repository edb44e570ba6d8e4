"""Element-wise ops of one operand.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (CLOSE, MODULUS, bad, case, floats, inf, nan, no_grad, of,
                   op, sweep)

SMALL = [[-2.5, -1, -0.25], [0, 0.5, 3]]
EDGES = [nan, inf, -inf, -0.0, 0.0, 1e-4, -1e-4, 88, -88, 20, -20]
COMPLEX = [[1 + 2j, -3 + 0.5j], [-0.25 - 1j, 0.75j]]


# Where formulas lose their digits: tiny and huge numbers, the ends of domains,
# beside poles and zeros.
HARD = [s * x for x in
        (1e-300, 1e-200, 1e-100, 1e-30, 1e-16, 1e-10, 1e-5, 1e-3, 0.75,
         1 - 1e-6, 1 - 1e-13, 1 + 1e-9, 1.5, 2 - 1e-7, 3 + 1e-7, 10 - 1e-9,
         15.7, 24.9, 36.5, 101.25, 1e5, 1e10, 1e25)
        for s in (1, -1)]


def hard(*without):
    """As float64, and what float32 has of it."""
    far = [x for x in HARD if x not in without]
    return no_grad(of("float64", far)), \
        no_grad(of("float32", [x for x in far if 1e-31 < abs(x) < 1e26]))


def unary(name, base=SMALL, edges=EDGES, more=(), **row):
    """Every dtype, the ends of the range, no elements, a scalar."""
    op(name,
       sweep(base),
       *([no_grad(floats(edges))] if edges else []),
       case([[], []]),
       case(0.5),
       *more,
       each=True, **row)


unary("Abs", more=[of("int8", [-128, 127]), of("int32", [-2**31, 2**31 - 1])])
unary("Neg", more=[of("int8", [-128, 127]), of("complex64", COMPLEX)])
unary("Sign", more=[of("complex64 complex128", [0, 3 + 4j, -1j])],
      near=MODULUS)
unary("Reciprocal", [[-2.5, -1, -0.25], [4, 0.5, 3]],
      more=[of("complex64", COMPLEX)],
      near=(0, 0, 1, 0, 4))
unary("Inv", [[-2.5, -1, -0.25], [4, 0.5, 3]],
      near=(0, 0, 1, 0, 4))
unary("Square", more=[of("int32", [70000, -3]), of("complex64", COMPLEX)],
      near=MODULUS)
# Of integers TensorFlow 2.21 makes zeros.
op("Round",
   floats([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 2.4, -2.6]]),
   no_grad(floats(EDGES)), case([[], []]), case(0.5),
   each=True)
unary("Rint", [[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 2.4, -2.6]])
unary("Sqrt", [[0.25, 1, 2], [3, 100, 7.5]], [nan, inf, -1, -0.0, 0, 1e-4, 6e4],
      more=[of("complex64 complex128", COMPLEX)],
      near=MODULUS)
unary("Rsqrt", [[0.25, 1, 2], [3, 100, 7.5]], [nan, inf, -1, 0, 1e-4, 6e4],
      more=[of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Exp", edges=EDGES + [11, -17, 700],
      more=[of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Expm1", edges=EDGES + [11, -17],
      more=[*hard(), no_grad(of("float32", [1.8e-38, -1.5e-38])),
             of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Log", [[0.25, 1, 2], [3, 100, 7.5]], [nan, inf, -1, -0.0, 0, 1e-4, 6e4],
      more=[of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Log1p", [[-0.75, -0.5, 0], [3, 100, 7.5]],
      [nan, inf, -1, -2, -0.0, 0, 1e-4, -1e-4, 6e4],
      more=[*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
ANGLES = [nan, inf, -inf, -0.0, 1e-4, 1.5707964, 3.1415927, -100, 1e4]
unary("Sin", edges=ANGLES, more=[of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Cos", edges=ANGLES, more=[of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Tan", edges=[nan, inf, -inf, -0.0, 1e-4, 1.5, 3.1415927, -100],
      more=[of("complex64 complex128", COMPLEX)],
      near=CLOSE)
UNIT = [[-0.75, -0.5, 0], [0.25, 0.875, 0.5]]
unary("Asin", UNIT, [nan, inf, 1, -1, 1.5, -0.0, 1e-4],
      [*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Acos", UNIT, [nan, inf, 1, -1, 1.5, -0.0, 1e-4],
      [*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Atan", more=[*hard(), of("complex64 complex128", [[1 + 2j, -3 + 0.5j]])],
      near=CLOSE)
unary("Sinh", edges=EDGES + [11],
      more=[*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Cosh", edges=EDGES + [11],
      more=[*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Asinh", more=[*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Acosh", [[1, 1.5, 2], [3, 100, 7.5]], [nan, inf, 1, 0.5, 6e4],
      [*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Atanh", UNIT, [nan, inf, 1, -1, 1.5, -0.0, 1e-4],
      [*hard(), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Tanh", edges=EDGES + [9.5, 0.3],
      more=[*hard(15.7, -15.7), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
unary("Sigmoid", edges=EDGES + [-11, -104],
      more=[*hard(1e-7 - 2), of("complex64 complex128", COMPLEX)],
      near=CLOSE)
# Of infinity TensorFlow's double is NaN.
unary("Erf", edges=[nan, -0.0, 1e-4, 0.84, 1.25, 2.9, 4, -5.5, 20],
      more=[*hard(), of("float32", [inf, -inf])],
      near=CLOSE)
unary("Erfc", edges=EDGES + [0.84, 1.25, 2.9, 4, -5.5],
      more=hard(1 - 1e-13), near=(1, 1, 2, 4, 4))
# Of these TensorFlow's floats are rougher than ours, which are exact.
unary("Erfinv", UNIT, [nan, 1, -1, 1.5, -0.0, 0.01, 0.999],
      near=(1, 1, 64, 64, 0))
unary("Ndtri", [[0.75, 0.5, 0.01], [0.25, 0.875, 0.999]],
      [nan, 1, 0, 1.5, -0.5, 1e-4],
      near=(1, 1, 64, 64, 0))
unary("BesselI0e", edges=[nan, -0.0, 1e-4, 19, 21, 100, -100],
      more=hard(), near=(1, 1, 4, 8, 0))
unary("BesselI1e", edges=[nan, 0.0, 1e-4, 19, 21, 100, -100],
      more=hard(), near=(1, 1, 4, 8, 0))
unary("Lgamma", [[0.25, 1, 2], [3, 100, 7.5]],
      [nan, inf, 0, 0.5, 1e-4, 60, -0.5, -2, -3.25],
      more=hard(), near=(1, 1, 4, 4, 0))
unary("Digamma", [[0.25, 1, 2], [3, 100, 7.5]],
      [nan, inf, 0.5, 60, -0.5, -2, -3.25, 0],
      more=hard(), near=(1, 1, 64, 64, 0))
unary("Floor")
unary("Ceil")
unary("IsNan")
unary("IsInf")
unary("IsFinite")
unary("Relu", edges=[nan, inf, -inf, -0.0, 0, 1e-4],
      zeros=True)
unary("Relu6", edges=[nan, inf, -inf, -0.0, 6, 5.5, 7],
      zeros=True)
unary("Elu", edges=EDGES,
      near=CLOSE, least=1)
unary("Selu", edges=EDGES,
      near=CLOSE, least=1)
unary("Softplus", edges=[nan, inf, -inf, -0.0, 1e-4, 30, -30, 13.9, -14, 4],
      more=hard(), near=(1, 4, 8, 8, 0))
unary("Softsign", edges=[nan, -0.0, 1e-4, 100, -100],
      more=hard(), near=CLOSE)

op("LeakyRelu",
   sweep([[-2.5, -1, -0.25], [0, 0.5, 3]]),
   floats([nan, inf, -inf, -0.0], alpha=0.5),
   case([-1, 2], alpha=1.5),
   case([[], []]))
op("Invert", sweep([0, 1, 5, 120]), of("int8", [-128, 127, -1]),
   of("int32", [[], []]), of("int64", 7),
   each=True)
op("PopulationCount", sweep([0, 1, 5, 127]), of("int8 int16", [-128, -1]),
   of("int64", [-1, 2**40 + 1]), of("uint64", [[], []]), of("uint8", 7),
   each=True)
op("LogicalNot", sweep([[0, 1], [1, 0]]), case(1), case([[], []]),
   each=True)
op("Real", of("complex64 complex128", COMPLEX), of("complex64", [[], []]),
   of("complex128", 1 + 2j, Tout="float64"))
op("Imag", of("complex64 complex128", COMPLEX), of("complex64", [[], []]),
   of("complex128", 1 + 2j, Tout="float64"))
op("Conj", of("complex64 complex128", COMPLEX), of("complex64", [[], []]))
op("ComplexAbs", of("complex64", COMPLEX),
   of("complex128", COMPLEX, Tout="float64"), of("complex64", [[], []]),
   near=CLOSE)
op("Angle", of("complex64", COMPLEX),
   of("complex128", COMPLEX, Tout="float64"), of("complex64", [[], []]),
   near=CLOSE)
for name in ("CheckNumerics", "CheckNumericsV2"):
    op(name,
       floats([[-2.5, -1], [0, 3]], message="why"),
       case([[], []], message="none"),
       bad("NaN", [1, nan, 2], message="here"),
       bad("Inf", [1, -inf, 2], message="here"),
       bad("here", [inf, nan], message="here"))
