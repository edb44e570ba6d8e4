/* random_flow.h - control flow of random graphs: cond, while, and maps over the
 * slices that lie in tensor arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_FLOW_H
#define TEST_RANDOM_FLOW_H

#include "tests/engine/run/random_graph.h"

static inline void draw_ops(drawn *d, context *c, context *root, int n,
                            int depth);

/* The value with a control input, so that what uses it comes after. */
static inline td_edge after(drawn *d, context *c, td_edge e, td_node *before) {
  td_build b;
  if (!before) return e;
  td_build_init(&b, d->graph, "Identity", NULL);
  td_build_in(&b, e);
  td_build_control(&b, before);
  return finish(d, c, &b, false);
}

/* The value once every construct of the context is over. */
static inline td_edge after_inner(drawn *d, context *c, td_edge e) {
  for (int i = 0; i < c->n_inner; i++) e = after(d, c, e, c->inner[i]);
  return e;
}

/* What comes later waits for a construct that may have updated inside. */
static inline void fence(drawn *d, context *c, td_node *n) {
  if (!in_order(d, c) && c->n_inner < 16) c->inner[c->n_inner++] = n;
  for (int i = 0; in_order(d, c) && i < d->variables; i++) d->last[i] = n;
}

/* Its first nodes wait for what came before in the root. */
static inline td_edge fenced(drawn *d, context *c, td_edge e) {
  for (int i = 0; in_order(d, c) && i < d->variables; i++)
    e = after(d, c, e, d->last[i]);
  return e;
}

static inline context *context_new(context *outer, char kind) {
  context *c = calloc(1, sizeof *c);
  c->outer = outer;
  c->kind = kind;
  return c;
}

/* One branch: some ops, then a value like `like`. */
static inline td_edge draw_branch(drawn *d, context *c, context *root,
                                  td_edge pred, int side, td_edge like,
                                  int depth) {
  context *in = context_new(c, 'c');
  in->pred = pred;
  in->side = side;
  td_build b;
  td_build_init(&b, d->graph, "Switch", NULL);
  td_build_in(&b, pred);
  td_build_in(&b, pred);
  td_edge sw = port(finish(d, c, &b, false), side);
  in->pivot = OP(d, in, "Identity", sw).node;
  in->n = 0; /* the pivot is no value */
  td_edge x = bring(d, in, c, like);
  in->value[in->n++] = x;
  int ops = draw(d, 4);
  draw_ops(d, in, root, ops, depth + 1);
  td_node *state = draw(d, 3) == 0 ? draw_state(d, in, root) : NULL;
  td_edge y = pick_scalar(d, in, td_edge_dtype(like));
  const char *op = draw(d, 2) ? "AddV2" : "Mul";
  td_edge z = OP(d, in, op, x, y);
  z = after(d, in, z, state);
  z = after_inner(d, in, z);
  free(in);
  return z;
}

static inline void draw_cond(drawn *d, context *c, context *root, int depth) {
  td_edge like = pick(d, c, TD_INVALID);
  td_edge pred = draw_pred(d, c);
  pred = fenced(d, c, pred);
  td_edge no = draw_branch(d, c, root, pred, 0, like, depth);
  td_edge yes = draw_branch(d, c, root, pred, 1, like, depth);
  td_edge merge = list_op(d, c, "Merge", (td_edge[]){no, yes}, 2, true);
  fence(d, c, merge.node);
}

/* ---- loops ---- */

enum { MOST_LOOP_VARS = 4 };

/* Variable 0 counts from 0 to the limit. */
typedef struct loop {
  context *in;
  int vars;
  td_edge start[MOST_LOOP_VARS], merge[MOST_LOOP_VARS];
  td_edge off[MOST_LOOP_VARS], body[MOST_LOOP_VARS];
} loop;

static inline td_edge enter_var(drawn *d, context *c, const context *in,
                                td_edge e) {
  td_build b;
  td_build_init(&b, d->graph, "Enter", NULL);
  td_build_in(&b, e);
  td_build_attr(&b, "frame_name", td_attr_string(in->frame));
  td_build_attr(&b, "parallel_iterations", td_attr_int(in->parallel));
  return finish(d, c, &b, false);
}

static inline td_edge merge_var(drawn *d, context *in, td_edge enter) {
  td_build b;
  td_build_init(&b, d->graph, "Merge", NULL);
  td_build_flat(&b, (td_edge[]){enter, {NULL, 0}}, 2);
  td_build_attr(&b, "T", td_attr_type(td_edge_dtype(enter)));
  td_build_attr(&b, "N", td_attr_int(2));
  return finish(d, in, &b, false);
}

static inline loop new_loop(drawn *d, context *c) {
  loop l = {.in = context_new(c, 'w'), .vars = 1};
  snprintf(l.in->frame, sizeof l.in->frame, "loop%d", d->frames++);
  l.in->parallel = 1 + draw(d, 4) * 3;
  td_edge zero = int_scalar(d, c, 0);
  l.start[0] = fenced(d, c, zero);
  return l;
}

/* From the Enters to the body, whose values the variables are. */
static inline void open_loop(drawn *d, context *c, loop *l, int limit) {
  context *in = l->in;
  for (int i = 0; i < l->vars; i++) {
    td_edge enter = enter_var(d, c, in, l->start[i]);
    l->merge[i] = merge_var(d, in, enter);
  }
  td_edge bound = int_scalar(d, c, limit);
  bound = enter_var(d, c, in, bound);
  td_node *be = bound.node; /* a constant Enter */
  ((td_attr *)td_node_attr(be, "is_constant"))->b = true;
  td_edge less = OP(d, in, "Less", l->merge[0], bound);
  td_edge cond = OP(d, in, "LoopCond", less);
  in->n = 0;
  for (int i = 0; i < l->vars; i++) {
    td_build b;
    td_build_init(&b, d->graph, "Switch", NULL);
    td_build_in(&b, l->merge[i]);
    td_build_in(&b, cond);
    l->off[i] = finish(d, in, &b, false);
  }
  for (int i = 0; i < l->vars; i++)
    l->body[i] = OP(d, in, "Identity", port(l->off[i], 1));
  in->pivot = l->body[0].node;
  d->loops++;
  d->live_loops += limit > 0;
}

/* What the i-th variable becomes, once what is inside is over. */
static inline void close_var(drawn *d, loop *l, int i, td_edge next,
                             td_node *state) {
  next = after(d, l->in, next, state);
  next = after_inner(d, l->in, next);
  td_edge back = OP(d, l->in, "NextIteration", next);
  l->in->n--; /* it feeds the Merge and nothing else */
  OK(td_node_set_back_edge(l->merge[i].node, 1, back));
}

/* The counter one more, others as drawn. */
static inline void draw_next(drawn *d, loop *l, int i, td_node *state) {
  const char *op = "AddV2";
  td_edge by;
  if (i == 0)
    by = int_scalar(d, l->in, 1);
  else {
    by = pick_scalar(d, l->in, td_edge_dtype(l->body[i]));
    if (draw(d, 2)) op = "Maximum";
  }
  td_edge next = OP(d, l->in, op, l->body[i], by);
  close_var(d, l, i, next, state);
}

static inline td_edge exit_var(drawn *d, const loop *l, int i) {
  td_build b;
  td_build_init(&b, d->graph, "Exit", NULL);
  td_build_in(&b, port(l->off[i], 0));
  return finish(d, l->in, &b, false);
}

static inline void draw_while(drawn *d, context *c, context *root, int depth) {
  loop l = new_loop(d, c);
  int more = 1 + draw(d, MOST_LOOP_VARS - 1), limit = draw(d, 6) - 1;
  while (more-- > 0) l.start[l.vars++] = pick(d, c, TD_INVALID);
  open_loop(d, c, &l, limit);
  int ops = draw(d, 5);
  draw_ops(d, l.in, root, ops, depth + 1);
  td_node *state = draw(d, 3) == 0 ? draw_state(d, l.in, root) : NULL;
  for (int i = 0; i < l.vars; i++) draw_next(d, &l, i, state);
  td_edge exit = {NULL, 0};
  for (int i = 0; i < l.vars; i++) {
    exit = exit_var(d, &l, i);
    if (c->n < MOST_VALUES) c->value[c->n++] = exit;
  }
  fence(d, c, exit.node);
  free(l.in);
}

/* ---- tensor arrays ---- */

typedef struct array {
  td_edge handle, flow;
  td_dtype dtype;
} array;

static inline array make_array(drawn *d, context *c, td_dtype dtype, int n) {
  td_build b;
  td_edge size = int_scalar(d, c, n);
  td_build_init(&b, d->graph, "TensorArrayV3", NULL);
  td_build_in(&b, size);
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  td_edge handle = finish(d, c, &b, false);
  return (array){handle, port(handle, 1), dtype};
}

/* An op that takes the array, `in` and the flow. */
static inline td_edge array_op(drawn *d, context *c, const char *op,
                               const array *a, const td_edge *in, int n) {
  td_build b;
  td_build_init(&b, d->graph, op, NULL);
  td_build_in(&b, a->handle);
  for (int i = 0; i < n; i++) td_build_in(&b, in[i]);
  td_build_in(&b, a->flow);
  if (n == 1) td_build_attr(&b, "dtype", td_attr_type(a->dtype));
  return finish(d, c, &b, false);
}

/* What op takes out of the array, a value of `c`. */
static inline td_edge take(drawn *d, context *c, const char *op, const array *a,
                           td_edge at, const td_shape *shape) {
  td_edge e = array_op(d, c, op, a, &at, 1);
  OK(td_node_set_shape(e.node, 0, shape));
  if (c->n < MOST_VALUES) c->value[c->n++] = e;
  return e;
}

static inline td_edge all_indices(drawn *d, context *c, int n) {
  int at[TD_MAX_RANK];
  for (int i = 0; i < n; i++) at[i] = i;
  return int_vector(d, c, at, n);
}

static inline array brought(drawn *d, context *in, context *c, array a) {
  a.handle = bring(d, in, c, a.handle);
  a.flow = bring(d, in, c, a.flow);
  return a;
}

static inline td_shape without_first(const td_shape *s) {
  return td_shape_of(s->rank - 1, s->dim + 1);
}

/* Some value with a few slices. */
static inline td_edge pick_slices(drawn *d, context *c) {
  td_edge e = pick(d, c, TD_INVALID);
  const td_shape *s = td_edge_shape(e);
  if (s->rank > 0 && s->dim[0] <= 4) return e;
  e = as_scalar(d, c, e);
  td_edge other = pick_scalar(d, c, td_edge_dtype(e));
  return list_op(d, c, "Pack", (td_edge[]){e, other}, 2, true);
}

/* The array is read slice by slice; what each iteration gives is written to
 * another. */
static inline void draw_map(drawn *d, context *c, context *root, int depth) {
  td_edge xs = pick_slices(d, c);
  td_shape row = without_first(td_edge_shape(xs));
  int n = (int)td_edge_shape(xs)->dim[0];
  array from = make_array(d, c, td_edge_dtype(xs), n);
  td_edge all = all_indices(d, c, n);
  from.flow =
      array_op(d, c, "TensorArrayScatterV3", &from, (td_edge[]){all, xs}, 2);
  array to = make_array(d, c, draw(d, 2) ? TD_FLOAT32 : TD_INT32, n);
  loop l = new_loop(d, c);
  l.start[l.vars++] = to.flow;
  l.start[l.vars++] = pick(d, c, TD_INVALID);
  open_loop(d, c, &l, n);
  l.in->value[1] = l.in->value[--l.in->n]; /* a flow is no value */
  array inside = brought(d, l.in, c, from);
  take(d, l.in, "TensorArrayReadV3", &inside, l.body[0], &row);
  int ops = draw(d, 5);
  draw_ops(d, l.in, root, ops, depth + 1);
  td_node *state = draw(d, 3) == 0 ? draw_state(d, l.in, root) : NULL;
  td_edge y = pick_scalar(d, l.in, to.dtype);
  inside = brought(d, l.in, c, to);
  inside.flow = l.body[1];
  td_edge written = array_op(d, l.in, "TensorArrayWriteV3", &inside,
                             (td_edge[]){l.body[0], y}, 2);
  draw_next(d, &l, 0, state);
  close_var(d, &l, 1, written, state);
  draw_next(d, &l, 2, state);
  to.flow = exit_var(d, &l, 1);
  td_edge last = exit_var(d, &l, 2);
  if (c->n < MOST_VALUES) c->value[c->n++] = last;
  td_shape stacked = td_shape_vector(n);
  td_edge ys = take(d, c, "TensorArrayGatherV3", &to, all, &stacked);
  fence(d, c, ys.node);
  free(l.in);
}

/* Some elements, one of which is read. */
static inline void draw_elements(drawn *d, context *c) {
  td_edge e = pick(d, c, TD_INVALID);
  td_shape shape = *td_edge_shape(e);
  int n = 1 + draw(d, 3);
  array a = make_array(d, c, td_edge_dtype(e), n);
  for (int i = 0; i < n; i++) {
    td_edge at = int_scalar(d, c, i);
    e = OP(d, c, i ? "Neg" : "Identity", e);
    a.flow = array_op(d, c, "TensorArrayWriteV3", &a, (td_edge[]){at, e}, 2);
  }
  int k = draw(d, n);
  td_edge at = int_scalar(d, c, k);
  take(d, c, "TensorArrayReadV3", &a, at, &shape);
}

#endif
