/* random_call.h - functions of random graphs, and all pieces together.
 *
 * A body is a graph of its own, whose root takes some values and the handles of
 * the variables. Its updates commute, wherever it is called.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_CALL_H
#define TEST_RANDOM_CALL_H

#include "engine/graphdef/function.h"
#include "tests/engine/run/random_flow.h"

enum { MOST_ARGS = 2, MOST_RESULTS = 2 };

typedef struct function {
  char name[24];
  td_edge arg[MOST_ARGS + MOST_VARIABLES]; /* of the body */
  int n_args;
  td_dtype type[MOST_RESULTS];
  td_shape shape[MOST_RESULTS];
  int n_results;
  bool updates;
} function;

static inline td_edge draw_arg(drawn *d, context *body, function *f,
                               td_edge like, bool keep) {
  td_build b;
  td_build_init(&b, d->graph, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(td_edge_dtype(like)));
  td_build_attr(&b, "shape", td_attr_shape(td_edge_shape(like)));
  return f->arg[f->n_args++] = finish(d, body, &b, keep);
}

/* Puts what was drawn in the body into the library of `to`. */
static inline void make_function(drawn *d, const context *body, function *f,
                                 const td_edge *result, td_graph *to) {
  const char *name[MOST_ARGS + MOST_VARIABLES];
  for (int i = 0; i < f->n_args; i++) name[i] = f->arg[i].node->name;
  td_function_spec spec = {.name = f->name,
                           .args = f->arg,
                           .arg_names = name,
                           .n_args = f->n_args,
                           .results = result,
                           .n_results = f->n_results,
                           .controls = body->inner,
                           .n_controls = body->n_inner};
  td_graph_lock(d->graph);
  td_status *s = td_function_make(d->graph, &spec, to);
  td_graph_unlock(d->graph);
  OK(s);
}

static inline void draw_body(drawn *d, int depth, const td_edge *like, int n,
                             function *f) {
  drawn outer = *d;
  context *body = context_new(NULL, 'r');
  td_edge result[MOST_RESULTS];
  OK(td_graph_new(&d->graph));
  d->is_body = true;
  snprintf(f->name, sizeof f->name, "f%d", d->functions++);
  for (int i = 0; i < n; i++) draw_arg(d, body, f, like[i], true);
  for (int i = 0; i < d->variables; i++)
    d->handle[i] = draw_arg(d, body, f, outer.handle[i], false);
  int ops = 1 + draw(d, 5);
  draw_ops(d, body, body, ops, depth + 1);
  f->updates = d->updates > outer.updates;
  f->n_results = 1 + draw(d, MOST_RESULTS);
  for (int i = 0; i < f->n_results; i++) {
    td_edge e = pick(d, body, TD_INVALID);
    result[i] = after_inner(d, body, e);
    f->type[i] = td_edge_dtype(e);
    f->shape[i] = *td_edge_shape(e);
  }
  make_function(d, body, f, result, outer.graph);
  td_graph_release(d->graph);
  d->graph = outer.graph;
  d->is_body = outer.is_body;
  memcpy(d->handle, outer.handle, sizeof d->handle);
  free(body);
}

static inline void add_call(drawn *d, context *c, context *root,
                            const function *f, const td_edge *given, int n) {
  td_build b;
  td_func_attr func = {.name = (char *)f->name};
  td_attr name = {.kind = TD_ATTR_FUNC, .func = &func};
  td_edge in[MOST_ARGS + MOST_VARIABLES];
  memcpy(in, given, (size_t)n * sizeof *in);
  for (int i = 0; i < d->variables; i++)
    in[n + i] = bring(d, c, root, d->handle[i]);
  const char *op = f->updates ? "StatefulPartitionedCall" : "PartitionedCall";
  td_build_init(&b, d->graph, op, NULL);
  td_build_list(&b, in, f->n_args);
  td_build_attr(&b, "Tout", td_attr_types(f->type, f->n_results));
  td_build_attr(&b, "f", name);
  for (int i = 0; in_order(d, c) && i < d->variables; i++)
    if (d->last[i]) td_build_control(&b, d->last[i]);
  td_node *call = finish(d, c, &b, false).node;
  OK(td_function_infer(call));
  for (int i = 0; i < f->n_results; i++) {
    OK(td_node_set_shape(call, i, &f->shape[i]));
    if (c->n < MOST_VALUES) c->value[c->n++] = (td_edge){call, i};
  }
  fence(d, c, call);
}

/* Once, or twice with other values. */
static inline void draw_call(drawn *d, context *c, context *root, int depth) {
  function f = {.n_args = 0};
  td_edge given[MOST_ARGS];
  int n = 1 + draw(d, MOST_ARGS);
  for (int i = 0; i < n; i++) given[i] = pick(d, c, TD_INVALID);
  draw_body(d, depth, given, n, &f);
  add_call(d, c, root, &f, given, n);
  if (draw(d, 2)) return;
  for (int i = 0; i < n; i++) given[i] = OP(d, c, "Neg", given[i]);
  add_call(d, c, root, &f, given, n);
}

/* ---- everything ---- */

static inline void draw_nested(drawn *d, context *c, context *root, int depth) {
  switch (draw(d, 5)) {
  case 0:
    draw_cond(d, c, root, depth);
    break;
  case 1:
    draw_map(d, c, root, depth);
    break;
  case 2:
    draw_call(d, c, root, depth);
    break;
  default:
    draw_while(d, c, root, depth);
  }
}

static inline void draw_ops(drawn *d, context *c, context *root, int n,
                            int depth) {
  for (int i = 0; i < n; i++) {
    int k = draw(d, 21);
    if (k < 4)
      draw_unary(d, c);
    else if (k < 9)
      draw_binary(d, c);
    else if (k < 13)
      draw_array(d, c);
    else if (k < 15)
      draw_misc(d, c);
    else if (k < 16)
      draw_elements(d, c);
    else if (k < 18 && c == root) {
      td_node *state = draw_state(d, c, root);
      if (d->is_body && state) fence(d, c, state);
    } else if (depth < MOST_DEPTH)
      draw_nested(d, c, root, depth);
  }
}

#endif
