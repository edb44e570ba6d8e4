/* random_graph.h - graphs drawn from a seed: element-wise and array ops, state,
 * on devices drawn for each node. random_flow.h draws cond, while and maps,
 * random_call.h functions, all in each other.
 *
 * A context is the root, a branch or a loop body. A value of an outer context
 * is brought in through Switch or a constant Enter, once per context, as a
 * front end does. Shapes stay small and known; integers wrap, floats may become
 * NaN. What draws stands in a statement of its own: the compiler orders
 * arguments as it likes, and a seed must be the same graph everywhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_GRAPH_H
#define TEST_RANDOM_GRAPH_H

#include <stdlib.h>

#include "tests/engine/run/rig.h"

enum { MOST_VALUES = 160, MOST_VARIABLES = 3, MOST_DEPTH = 3 };

typedef struct context {
  struct context *outer;
  char kind;      /* 'r', 'c', 'w' */
  td_edge pred;   /* of a branch, in the outer context */
  int side;       /* port of the branch's Switches */
  char frame[24]; /* of a loop */
  int parallel;
  td_node *pivot; /* control input of constants */
  td_edge value[MOST_VALUES];
  int n;
  td_edge outside[MOST_VALUES], inside[MOST_VALUES]; /* captured */
  int captured;
  td_node *inner[16]; /* constructs inside: may update, so are waited for */
  int n_inner;
} context;

typedef struct drawn {
  td_graph *graph; /* that is being drawn: of the test, or a body */
  bool is_body;
  unsigned seed;
  int loops, live_loops, frames, functions;
  int updates; /* state ops, in bodies too */
  int edges_in_frames, edges_across;
  td_edge handle[MOST_VARIABLES]; /* int32 variables, in the root */
  td_node *init[MOST_VARIABLES], *read[MOST_VARIABLES];
  td_node *last[MOST_VARIABLES]; /* latest state op in the root */
  int variables;
} drawn;

static inline int draw(drawn *d, int n) {
  d->seed = d->seed * 1664525u + 1013904223u;
  return (int)((d->seed >> 10) % (unsigned)n);
}

/* What nodes ask for; NULL: the first device under test. A test that has others
 * writes them here. */
static const char *drawn_devices[] = {"/device:CPU:0", "/device:CPU:1", NULL,
                                      ""};

static inline const char *draw_device(drawn *d) {
  static char tested[64];
  const char *chosen = drawn_devices[draw(d, 4)];
  if (!tested[0])
    snprintf(tested, sizeof tested, "/device:%s:0", device_type("TEST"));
  return chosen ? chosen : tested;
}

/* Nothing but loop constants as inputs: only the pivot says whether the body
 * runs at all. */
static inline bool only_constants(const td_build *b) {
  for (int i = 0; i < b->n_in; i++) {
    const td_node *in = b->in[i].node;
    if (!in || in->op->kind != TD_OP_ENTER ||
        !td_node_bool(in, "is_constant"))
      return false;
  }
  return true;
}

/* Finishes a node in a context and remembers its first output. */
static inline td_edge finish(drawn *d, context *c, td_build *b, bool keep) {
  td_node *n;
  if (c->pivot && only_constants(b)) td_build_control(b, c->pivot);
  if (!b->device || !*b->device) b->device = draw_device(d);
  OK(td_build_node(b, &n));
  for (int i = 0; c->kind != 'r' && i < n->n_in; i++) {
    d->edges_in_frames++;
    if (n->in[i].node)
      d->edges_across += strcmp(n->in[i].node->device, n->device) != 0;
  }
  td_edge e = {n, 0};
  if (keep && c->n < MOST_VALUES) c->value[c->n++] = e;
  return e;
}

static inline td_edge op_of(drawn *d, context *c, const char *op,
                            const td_edge *in, int n) {
  td_build b;
  td_build_init(&b, d->graph, op, NULL);
  for (int i = 0; i < n; i++) td_build_in(&b, in[i]);
  return finish(d, c, &b, true);
}
#define OP(d, c, op, ...)                                                      \
  op_of(d, c, op, (td_edge[]){__VA_ARGS__},                                    \
        (int)(sizeof((td_edge[]){__VA_ARGS__}) / sizeof(td_edge)))

static inline td_edge list_op(drawn *d, context *c, const char *op,
                              const td_edge *in, int n, bool keep) {
  td_build b;
  td_build_init(&b, d->graph, op, NULL);
  td_build_list(&b, in, n);
  return finish(d, c, &b, keep);
}

static inline td_edge constant_of(drawn *d, context *c, const td_tensor *t,
                                  bool keep) {
  td_build b;
  td_build_init(&b, d->graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(t->dtype));
  td_build_attr(&b, "value", td_attr_tensor(t));
  return finish(d, c, &b, keep);
}

static inline td_edge int_scalar(drawn *d, context *c, int v) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT32, v, &t));
  td_edge e = constant_of(d, c, &t, false);
  td_tensor_release(&t);
  return e;
}

static inline td_edge int_vector(drawn *d, context *c, const int *v, int n) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_from(TD_INT32, &shape, v, &t));
  td_edge e = constant_of(d, c, &t, false);
  td_tensor_release(&t);
  return e;
}

static inline td_edge fresh_value(drawn *d, context *c, td_dtype dtype) {
  td_tensor t;
  if (dtype == TD_INVALID) dtype = draw(d, 3) ? TD_FLOAT32 : TD_INT32;
  int rank = draw(d, 3);
  int64_t dims[2];
  for (int i = 0; i < 2; i++) dims[i] = 1 + draw(d, 3);
  td_shape shape = td_shape_of(rank, dims);
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++) {
    if (dtype == TD_INT32)
      td_tensor_set_i(&t, i, draw(d, 19) - 9);
    else
      td_tensor_set_f(&t, i, (draw(d, 2001) - 1000) / 256.0);
  }
  td_edge e = constant_of(d, c, &t, true);
  td_tensor_release(&t);
  return e;
}

/* ---- bringing values in ---- */

static inline td_edge bring(drawn *d, context *c, context *owner, td_edge e);

static inline td_edge bring_one(drawn *d, context *c, td_edge e) {
  td_build b;
  if (c->kind == 'c') {
    td_build_init(&b, d->graph, "Switch", NULL);
    td_build_in(&b, e);
    td_build_in(&b, c->pred);
    return port(finish(d, c->outer, &b, false), c->side);
  }
  td_build_init(&b, d->graph, "Enter", NULL);
  td_build_in(&b, e);
  td_build_attr(&b, "frame_name", td_attr_string(c->frame));
  td_build_attr(&b, "is_constant", td_attr_bool(true));
  td_build_attr(&b, "parallel_iterations", td_attr_int(c->parallel));
  return finish(d, c->outer, &b, false);
}

static inline td_edge bring(drawn *d, context *c, context *owner, td_edge e) {
  if (c == owner) return e;
  for (int i = 0; i < c->captured; i++)
    if (c->outside[i].node == e.node && c->outside[i].port == e.port)
      return c->inside[i];
  td_edge at = bring(d, c->outer, owner, e);
  td_edge in = bring_one(d, c, at);
  if (c->captured < MOST_VALUES) {
    c->outside[c->captured] = e;
    c->inside[c->captured++] = in;
  }
  return in;
}

/* Some value of dtype (TD_INVALID: float32 or int32), brought into `c`. */
static inline td_edge pick(drawn *d, context *c, td_dtype dtype) {
  for (int tries = 0; tries < 40; tries++) {
    context *at = c;
    while (at->outer && draw(d, 3) == 0) at = at->outer;
    if (at->n == 0) continue;
    td_edge e = at->value[draw(d, at->n)];
    td_dtype t = td_edge_dtype(e);
    if (dtype == TD_INVALID ? t == TD_FLOAT32 || t == TD_INT32 : t == dtype)
      return bring(d, c, at, e);
  }
  return fresh_value(d, c, dtype);
}

static inline td_edge all_axes(drawn *d, context *c, td_edge e) {
  int axes[TD_MAX_RANK], n = td_edge_shape(e)->rank;
  for (int i = 0; i < n; i++) axes[i] = i;
  return int_vector(d, c, axes, n);
}

static inline td_edge as_scalar(drawn *d, context *c, td_edge e) {
  if (td_edge_shape(e)->rank == 0) return e;
  const char *op = draw(d, 2) ? "Max" : "Min";
  td_edge axes = all_axes(d, c, e);
  return OP(d, c, op, e, axes);
}

static inline td_edge pick_scalar(drawn *d, context *c, td_dtype dtype) {
  td_edge e = pick(d, c, dtype);
  return as_scalar(d, c, e);
}

/* ---- plain ops ---- */

static inline void draw_unary(drawn *d, context *c) {
  static const char *const any[] = {"Neg", "Abs", "Sign", "Square"};
  static const char *const real[] = {"Tanh",  "Sigmoid", "Exp",   "Floor",
                                     "Round", "Relu",    "Rsqrt", "Reciprocal"};
  td_edge e = pick(d, c, TD_INVALID);
  bool is_real = td_edge_dtype(e) == TD_FLOAT32 && draw(d, 2);
  const char *op = is_real ? real[draw(d, 8)] : any[draw(d, 4)];
  OP(d, c, op, e);
}

static inline void draw_binary(drawn *d, context *c) {
  static const char *const ops[] = {"AddV2",   "Sub",     "Mul",
                                    "Maximum", "Minimum", "SquaredDifference"};
  td_edge a = pick(d, c, TD_INVALID), b = pick(d, c, td_edge_dtype(a));
  td_shape both;
  if (!td_shape_broadcast(td_edge_shape(a), td_edge_shape(b), &both))
    b = as_scalar(d, c, b);
  const char *op = ops[draw(d, 6)];
  OP(d, c, op, a, b);
}

/* Two of `e` behind each other. */
static inline void draw_concat(drawn *d, context *c, td_edge e) {
  const td_shape *s = td_edge_shape(e);
  if (s->rank == 0 || td_shape_count(s) >= 64) return;
  td_edge axis = int_scalar(d, c, s->rank - 1);
  td_build b;
  td_build_init(&b, d->graph, "ConcatV2", NULL);
  td_build_list(&b, (td_edge[]){e, e}, 2);
  td_build_in(&b, axis);
  finish(d, c, &b, true);
}

static inline void draw_gather(drawn *d, context *c, td_edge e) {
  int row = draw(d, (int)td_edge_shape(e)->dim[0]);
  td_edge index = int_scalar(d, c, row);
  td_edge axis = int_scalar(d, c, 0);
  OP(d, c, "GatherV2", e, index, axis);
}

/* An array op with its second argument, a constant. */
static inline void with_ints(drawn *d, context *c, const char *op, td_edge e,
                             const int *v, int n) {
  td_edge ints = int_vector(d, c, v, n);
  OP(d, c, op, e, ints);
}

static inline void draw_array(drawn *d, context *c) {
  td_edge e = pick(d, c, TD_INVALID), second;
  const td_shape *s = td_edge_shape(e);
  int n = (int)td_shape_count(s);
  const char *op;
  switch (draw(d, 9)) {
  case 0:
    with_ints(d, c, "Reshape", e, &n, 1);
    break;
  case 1:
    list_op(d, c, "Pack", (td_edge[]){e, e}, s->rank < 3 ? 2 : 1, true);
    break;
  case 2:
    if (s->rank == 2) with_ints(d, c, "Transpose", e, (int[]){1, 0}, 2);
    break;
  case 3:
    draw_concat(d, c, e);
    break;
  case 4:
    op = draw(d, 2) ? "Sum" : "Mean";
    second = all_axes(d, c, e);
    OP(d, c, op, e, second);
    break;
  case 5:
    if (s->rank >= 1) draw_gather(d, c, e);
    break;
  case 6:
    e = as_scalar(d, c, e);
    second = int_scalar(d, c, 0);
    OP(d, c, "ExpandDims", e, second);
    break;
  case 7:
    OP(d, c, "ZerosLike", e);
    break;
  default:
    if (s->rank == 1 && n < 16) with_ints(d, c, "Tile", e, (int[]){2}, 1);
  }
}

static inline td_edge draw_pred(drawn *d, context *c) {
  td_edge a = pick_scalar(d, c, TD_INVALID);
  td_edge b = pick_scalar(d, c, td_edge_dtype(a));
  const char *op = draw(d, 2) ? "Less" : "GreaterEqual";
  return OP(d, c, op, a, b);
}

static inline void draw_cast(drawn *d, context *c, td_edge a) {
  if (td_edge_dtype(a) != TD_INT32) a = OP(d, c, "Sign", a);
  td_dtype to = draw(d, 2) ? TD_FLOAT32 : TD_INT32;
  td_build b;
  td_build_init(&b, d->graph, "Cast", NULL);
  td_build_in(&b, a);
  td_build_attr(&b, "DstT", td_attr_type(to));
  finish(d, c, &b, true);
}

static inline void draw_misc(drawn *d, context *c) {
  td_edge a = pick(d, c, TD_INVALID), pred;
  switch (draw(d, 4)) {
  case 0:
    OP(d, c, "Identity", a);
    break;
  case 1:
    pred = draw_pred(d, c);
    OP(d, c, "SelectV2", pred, a, a);
    break;
  case 2:
    draw_cast(d, c, a);
    break;
  default:
    list_op(d, c, "AddN", (td_edge[]){a, a, a}, 3, true);
  }
}

/* ---- state ---- */

static inline td_node *state_op(drawn *d, context *c, const char *op,
                                td_edge handle, const td_edge *value,
                                td_node *after) {
  td_build b;
  td_build_init(&b, d->graph, op, NULL);
  td_build_in(&b, handle);
  if (value) td_build_in(&b, *value);
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  if (after) td_build_control(&b, after);
  return finish(d, c, &b, value == NULL).node;
}

static inline void make_variables(drawn *d, context *root) {
  d->variables = 1 + draw(d, MOST_VARIABLES);
  for (int i = 0; i < d->variables; i++) {
    td_build b;
    char name[16];
    td_shape scalar = td_shape_scalar();
    snprintf(name, sizeof name, "v%d", i);
    td_build_init(&b, d->graph, "VarHandleOp", name);
    td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
    td_build_attr(&b, "shape", td_attr_shape(&scalar));
    d->handle[i] = finish(d, root, &b, false);
    td_edge start = int_scalar(d, root, i + 1);
    d->init[i] =
        state_op(d, root, "AssignVariableOp", d->handle[i], &start, NULL);
    d->read[i] = state_op(d, root, "ReadVariableOp", d->handle[i], NULL, NULL);
    d->last[i] = NULL;
    root->n--; /* the check reads it by itself, in a run of its own */
  }
}

/* Are updates drawn here in an order? Elsewhere they commute: bodies of
 * functions run in any place. */
static inline bool in_order(const drawn *d, const context *c) {
  return c->kind == 'r' && !d->is_body;
}

/* Root: in the order drawn. Inside: additions, which commute; the caller makes
 * what follows wait for the returned node. */
static inline td_node *draw_state(drawn *d, context *c, context *root) {
  if (d->variables == 0) return NULL;
  d->updates++;
  int i = draw(d, d->variables);
  td_edge by = pick_scalar(d, c, TD_INT32);
  td_edge handle = bring(d, c, root, d->handle[i]);
  if (!in_order(d, c))
    return state_op(d, c, "AssignAddVariableOp", handle, &by, NULL);
  if (draw(d, 3) == 0) { /* twins: both count */
    td_build b;
    td_node *one =
        state_op(d, c, "AssignAddVariableOp", handle, &by, d->last[i]);
    td_node *two =
        state_op(d, c, "AssignAddVariableOp", handle, &by, d->last[i]);
    td_build_init(&b, d->graph, "NoOp", NULL);
    td_build_control(&b, one);
    td_build_control(&b, two);
    d->last[i] = finish(d, c, &b, false).node;
  } else if (draw(d, 2)) {
    bool add = draw(d, 4) == 0;
    const char *op = add ? "AssignAddVariableOp" : "AssignSubVariableOp";
    d->last[i] = state_op(d, c, op, handle, &by, d->last[i]);
  } else
    d->last[i] = state_op(d, c, "ReadVariableOp", handle, NULL, d->last[i]);
  return d->last[i];
}

#endif
