"""Variables: reading, assigning, scattering, gathering.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (EXACT, MODULUS, Unset, Var, Zeros, bad, case, f32, i32, i64,
                   op, sweep)

V = [[1, 2], [3, 4], [5, 6]]
D = [[0.5, -1], [2, 3], [-4, 0.25]]

op("ReadVariableOp",
   sweep(Var(V)), case(Var(7)), case(Var([])),
   bad("initialised", Unset(), dtype="float32"),
   bad("", Var(V, "float32"), dtype="float64"))
op("AssignVariableOp",
   sweep(Var(V), D), case(Var(7), 8), case(Unset("float32"), f32([1, 2])),
   case(Var([]), []),
   bad("", Var([1, 2], "float32"), f32([1, 2, 3]), validate_shape=True),
   bad("", Var(V, "float64"), f32(1)))
for name in ("AssignAddVariableOp", "AssignSubVariableOp"):
    op(name,
       sweep(Var(V), D), case(Var(7), 8), case(Var([]), []),
       bad("initialised", Unset(), f32([1])),
       bad("", Var([1, 2], "float32"), f32([1, 2, 3])),
       bad("", Var([1, 2], "float64"), f32([1, 2])))
op("VarIsInitializedOp", case(Var(V, "float32")), case(Unset()))
op("VariableShape",
   case(Var(V, "float32")), case(Var([], "int32"), out_type="int64"),
   bad("initialised", Unset()))
op("DestroyResourceOp", case(Var(V, "float32")))
op("ResourceGather",
   sweep(Var(V), i32([2, 0, 0])), case(Var(V), i64([[0], [1]])),
   case(Var(V), i32(1)), case(Var(V), i32([])),
   case(Var([V, V]), i32([[0, 2], [1, 1]]), batch_dims=1),
   bad("3", Var(V, "float32"), i32([3]), dtype="float32"),
   bad("-1", Var(V, "float32"), i32([-1]), dtype="float32"),
   bad("initialised", Unset(), i32([0]), dtype="float32"))
op("ResourceGatherNd",
   sweep(Var(V), i32([[2, 1], [0, 0]])), case(Var(V), i64([[0], [1]])),
   bad("3", Var(V, "float32"), i32([[3]]), dtype="float32"))
for name in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
    zero = [bad("0", Var([4, 6], "int32"), i32([0]), i32([0]))] \
        if name == "Div" else []
    op("ResourceScatter" + name,
       sweep(Var(V), i32([2, 0]), [[1, 2], [3, 4]]),
       case(Var(V), i64([1]), [[1, 5]]),
       case(Var(V), i32([1]), [[7, -5]]),
       case(Var(V), i32([]), Zeros(0, 2)),
       case(Var([1, 2, 3]), i32(1), 5),
       *([] if name == "Update" else
         [case(Var([1, 2, 3]), i32([[0, 2]]), 2),
          case(Var([2, 2, 3]), i32([0, 0]), [3, 5])]),
       bad("3", Var(V, "float32"), i32([3]), f32([[1, 2]])),
       bad("-1", Var(V, "float32"), i32([-1]), f32([[1, 2]])),
       bad("", Var(V, "float32"), i32([0]), f32([[1, 2, 3]])),
       bad("", Var(V, "float32"), i32([0, 1]), f32([[1, 2]])),
       bad("initialised", Unset(), i32([0]), f32([[1, 2]])),
       *zero,
       near=MODULUS if name == "Div" else EXACT)
for name in ("Add", "Sub", "Update", "Min", "Max"):
    # A difference of bools is not what TensorFlow makes of it.
    bools = {"missing": {"T": "bool"}, "because": "bools have no difference"} \
        if name == "Sub" else {}
    op("ResourceScatterNd" + name,
       sweep(Var(V), i32([[2, 1], [0, 0]]), [7, 8]),
       case(Var(V), i64([[1]]), [[7, 8]]),
       case(Var(V), i32([[1, 1]]), [-7]),
       case(Var(V), i32([]).reshape(0, 1), Zeros(0, 2)),
       bad("3", Var(V, "float32"), i32([[3, 0]]), f32([1])),
       bad("initialised", Unset(), i32([[0, 0]]), f32([1])),
       bad("", Var(V, "float32"), i32([[0, 0]]), f32([1, 2])), **bools)


def assign(op_name, wrap):
    """W["..."] = t."""
    op(op_name,
       sweep(wrap(V), i32([0, 0]), i32([2, 1]), i32([1, 1]), [[7], [8]]),
       case(wrap(V), i64([1]), i64([2]), i64([1]), [7, 8], shrink_axis_mask=1),
       case(wrap(V), i32([-1]), i32([0]), i32([-2]), [[7, 8], [1, 2]],
            end_mask=1),
       case(wrap(V), i32([0, 0]), i32([1, 0]), i32([1, 1]), [7, 8, 9],
            ellipsis_mask=1, shrink_axis_mask=2),
       case(wrap(V), i32([2]), i32([1]), i32([1]), Zeros(0, 2)),
       case(wrap(V), i32([0]), i32([2]), i32([1]), [[7, 8]]),
       case(wrap(V), i32([1, 0]), i32([3, 1]), i32([1, 1]), 9),
       bad("value", wrap(V, "float32"), i32([0]), i32([2]), i32([1]),
           f32([[1, 2, 3]])),
       bad("strides", wrap(V, "float32"), i32([0]), i32([2]), i32([0]),
           f32([[1, 2]])))


assign("ResourceStridedSliceAssign", Var)
assign("TensorStridedSliceUpdate",
       lambda v, dtype=None: f32(v) if dtype else v)
