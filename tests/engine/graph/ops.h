/* ops.h - a few ops and short ways to build, for the tests of engine/graph.
 *
 * Registered beside whatever the library has; hence the names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GRAPH_OPS_H
#define TESTS_GRAPH_OPS_H

#include "tests/check.h"

#include <string.h>

#include "engine/graph/build.h"
#include "engine/graph/graph.h"

/* ---- ops ----------------------------------------------------------------- */

static td_status *shape_const(td_infer *c) {
  td_infer_out(c, 0, td_infer_attr(c, "value")->tensor->shape);
  return NULL;
}

static td_status *shape_placeholder(td_infer *c) {
  td_infer_out(c, 0, *td_infer_attr_shape(c, "shape"));
  return NULL;
}

/* What both sides of a Merge have in common; a missing back edge is skipped. */
static td_status *shape_merge(td_infer *c) {
  const td_shape *first = td_infer_in(c, 0);
  td_infer_out(c, 0, first ? *first : td_shape_unknown());
  td_infer_out(c, 1, td_shape_scalar());
  return NULL;
}

static td_status *shape_of_input(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_infer_out(c, 0, td_shape_vector(in->rank));
  return NULL;
}

static bool value_of_shape(td_infer *c, int out, td_small *v) {
  const td_shape *in = td_infer_in(c, 0);
  (void)out;
  if (in->rank < 0) return false;
  v->rank = 1;
  v->count = in->rank;
  for (int i = 0; i < in->rank; i++) {
    v->at[i] = in->dim[i];
    v->known[i] = in->dim[i] >= 0;
  }
  return true;
}

static bool value_of_pack(td_infer *c, int out, td_small *v) {
  (void)out;
  v->rank = 1;
  v->count = td_infer_inputs(c);
  if (v->count > TD_SMALL_MAX) return false;
  for (int i = 0; i < v->count; i++) {
    td_small one;
    v->known[i] = td_infer_small(c, i, &one) && one.known[0];
    if (v->known[i]) v->at[i] = one.at[0];
  }
  return true;
}

static bool value_of_add(td_infer *c, int out, td_small *v) {
  td_small x, y;
  (void)out;
  if (!td_infer_small(c, 0, &x) || !td_infer_small(c, 1, &y) ||
      x.count != y.count)
    return false;
  *v = x;
  for (int i = 0; i < x.count; i++) {
    v->known[i] = x.known[i] && y.known[i];
    v->at[i] += y.at[i];
  }
  return true;
}

static td_status *shape_fill(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_shape_from(c, 0, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

static td_status *shape_pack(td_infer *c) {
  td_infer_out(c, 0, td_shape_vector(td_infer_inputs(c)));
  return NULL;
}

static const td_op_def test_ops[] = {
    {.type = "TestConst",
     .sig = "-> output: dtype; value: tensor; dtype: type",
     .shape = shape_const,
     .kind = TD_OP_CONST},
    {.type = "TestPlaceholder",
     .sig = "-> output: dtype; dtype: type; shape: shape = ?",
     .shape = shape_placeholder,
     .kind = TD_OP_PLACEHOLDER},
    {.type = "TestIdentity",
     .sig = "input: T -> output: T; T: type",
     .shape = td_infer_same,
     .kind = TD_OP_IDENTITY},
    {.type = "TestIdentityN",
     .sig = "input: T -> output: T; T: list(type) >= 1",
     .shape = td_infer_any,
     .kind = TD_OP_IDENTITY},
    {.type = "TestAdd",
     .sig = "x: T, y: T -> z: T; T: {half, float, double, int32, int64}",
     .shape = td_infer_broadcasting,
     .value = value_of_add,
     .flags = TD_COMMUTATIVE},
    {.type = "TestAddN",
     .sig = "inputs: N*T -> sum: T; N: int >= 1; T: {float, int32}",
     .shape = td_infer_same_all},
    {.type = "TestPack",
     .sig = "values: N*T -> output: T; N: int >= 1; T: type; axis: int = 0",
     .shape = shape_pack,
     .value = value_of_pack},
    {.type = "TestSplit",
     .sig = "split_dim: int32, value: T -> output: num_split*T; "
            "num_split: int >= 1; T: type",
     .shape = td_infer_any},
    {.type = "TestShape",
     .sig = "input: T -> output: out_type; T: type; "
            "out_type: {int32, int64} = int32",
     .shape = shape_of_input,
     .value = value_of_shape},
    {.type = "TestFill",
     .sig = "dims: Tdim, value: T -> output: T; T: type; "
            "Tdim: {int32, int64} = int32",
     .shape = shape_fill},
    {.type = "TestTwoLists",
     .sig = "a: N*float, b: N*int32, c: T -> d: N*float, e: T, f: resource; "
            "N: int; T: list({float, int32, string}) >= 1",
     .shape = td_infer_any,
     .flags = TD_STATEFUL},
    {.type = "TestAttrs",
     .sig = "->; i: int >= 2 = 2; f: float = 1.5; b: bool = false; "
            "s: {\"SAME\", \"VALID\"} = \"SAME\"; t: {float, int32} = float; "
            "sh: shape = {2, -1}; li: list(int) >= 1 = {1, 2}; "
            "lf: list(float) = {0.5}; ls: list(string) = {\"a\", \"b\"}; "
            "lt: list(type) = {float}; free: string = \"\"",
     .shape = td_infer_none},
    {.type = "TestMerge",
     .sig =
         "inputs: N*T -> output: T, value_index: int32; T: type; N: int >= 1",
     .shape = shape_merge,
     .kind = TD_OP_MERGE},
    {.type = "TestNext",
     .sig = "data: T -> output: T; T: type",
     .shape = td_infer_same,
     .kind = TD_OP_NEXT},
    {.type = "TestNoOp", .sig = "->", .shape = td_infer_none},
    {.type = "_TestOwn", .sig = "->", .shape = td_infer_none},
    {0}};

static const td_module test_module = {"test_ops", test_ops, NULL};

/* For cmocka's group set-up. */
static inline int register_ops(void **state) {
  (void)state;
  td_status *s = td_op_register(&test_module);
  if (s) print_error("%s\n", td_status_message(s));
  return s ? -1 : 0;
}

/* ---- short ways ---------------------------------------------------------- */

static inline td_graph *new_graph(void) {
  td_graph *g;
  OK(td_graph_new(&g));
  return g;
}

static inline td_edge placeholder(td_graph *g, td_dtype dtype, td_shape shape,
                                  const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestPlaceholder", name);
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* An int32 constant; count -1: a scalar. */
static inline td_edge ints(td_graph *g, const int32_t *v, int count) {
  td_build b;
  td_node *n;
  td_tensor t;
  td_shape shape = count < 0 ? td_shape_scalar() : td_shape_vector(count);
  OK(td_tensor_from(TD_INT32, &shape, v, &t));
  td_build_init(&b, g, "TestConst", NULL);
  td_build_attr(&b, "value", td_attr_tensor(&t));
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  OK(td_build_node(&b, &n));
  td_tensor_release(&t);
  return (td_edge){n, 0};
}

static inline td_edge unary(td_graph *g, const char *op, td_edge x) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, op, NULL);
  td_build_in(&b, x);
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static inline td_edge binary(td_graph *g, const char *op, td_edge x,
                             td_edge y) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, op, NULL);
  td_build_in(&b, x);
  td_build_in(&b, y);
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static inline td_edge pack(td_graph *g, const td_edge *x, int n_x) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestPack", NULL);
  td_build_list(&b, x, n_x);
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static inline void assert_shape(td_edge e, const char *text) {
  td_shape_text buf;
  assert_string_equal(td_shape_str(td_edge_shape(e), &buf), text);
}

/* Runs `run(arg)` with the 1st, 2nd, ... allocation failing until it passes
 * without; once with only that one failing, once with all from there on. Every
 * failure must be out of memory. Returns how many points were tried. */
static inline int64_t fail_each(td_status *(*run)(void *arg), void *arg) {
  int64_t tried = 0;
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    for (int64_t n = 1;; n++, tried++) {
      int64_t before = td_mem_calls();
      td_mem_fail(n, for_ever);
      td_status *s = run(arg);
      td_mem_fail(0, false);
      bool reached = td_mem_calls() - before >= n;
      if (s) {
        assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
        td_status_release(s);
      } else if (!reached) {
        break;
      }
    }
  }
  return tried;
}

#endif
