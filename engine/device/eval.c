/* eval.c - ops computed at once, without a session.
 *
 * td_eval builds the node in a scratch graph with a Const for every operand:
 * the checks, defaults, inferred shapes and messages are then those of a graph,
 * because it is one. Operands stay the caller's: they are held here as well, so
 * that no kernel writes into one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/device/eval.h"
#include "engine/device/kernel_start.h"
#include "engine/graph/build.h"

enum { FEW = 8 };

/* ---- a node -------------------------------------------------------------- */

static void never(td_kernel_ctx *c, td_status *s) {
  (void)c;
  td_status_release(s); /* a plain kernel has no done */
}

static td_status *check_outputs(const td_node *n, const td_tensor *out) {
  for (int i = 0; i < n->n_out; i++)
    if (!td_tensor_valid(&out[i]) && n->op->kind != TD_OP_SWITCH)
      return td_error(TD_INTERNAL, "the kernel did not set output %d", i);
  return NULL;
}

static void release_all(td_tensor *t, int n) {
  for (int i = 0; i < n; i++) td_tensor_release(&t[i]);
}

/* `held` has room for the inputs. */
static td_status *run(const td_kernel *k, int threads, const td_tensor *in,
                      td_tensor *held, td_tensor *out, const int *stop) {
  static const int go_on = 0;
  const td_node *n = k->node;
  td_step step = {.threads = threads, .stop = stop ? stop : &go_on};
  td_kernel_ctx c = {.kernel = k,
                     .step = &step,
                     .in = held,
                     .out = out,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .done = never};
  for (int i = 0; i < n->n_in; i++) td_tensor_retain(&in[i], &held[i]);
  for (int i = 0; i < n->n_out; i++) out[i] = (td_tensor){0};
  td_status *s = td_kernel_run(&c);
  if (td_ok(s) && td_stopped(&c))
    s = td_error(TD_CANCELLED, "the computation was cancelled");
  if (td_ok(s)) s = check_outputs(n, out);
  release_all(held, n->n_in);
  if (!td_ok(s)) release_all(out, n->n_out);
  return s;
}

static td_status *run_with_room(const td_kernel *k, int threads,
                                const td_tensor *in, td_tensor *out,
                                const int *stop) {
  td_tensor few[FEW], *held = few;
  if (!k->plain)
    return td_error(TD_UNIMPLEMENTED,
                    "%s keeps state or waits: it can only run in a session",
                    k->node->op->type);
  if (k->node->n_in > FEW)
    held = td_malloc((size_t)k->node->n_in * sizeof *held);
  if (!held) return td_oom();
  td_status *s = run(k, threads, in, held, out, stop);
  if (held != few) td_free(held);
  return s;
}

td_status *td_eval_node(const td_node *n, td_device *d, int threads,
                        const td_tensor *in, td_tensor *out, const int *stop) {
  td_kernel k;
  TD_TRY(td_kernel_init(&k, n, d, NULL));
  td_status *s = run_with_room(&k, threads, in, out, stop);
  td_kernel_deinit(&k);
  return td_ok(s) ? NULL : td_node_blame(s, n);
}

/* ---- an op --------------------------------------------------------------- */

static td_status *add_const(td_graph *g, const td_tensor *t, td_edge *out) {
  td_build b;
  td_build_init(&b, g, "Const", "x");
  td_build_attr(&b, "value", td_attr_tensor(t));
  td_build_attr(&b, "dtype", td_attr_type(t->dtype));
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

/* What td_eval was given. */
typedef struct call {
  const td_op *op;
  const td_tensor *in;
  const int *groups;
  const td_note *attrs;
  int n_attrs;
} call;

static int count_inputs(const call *c) {
  int n = 0;
  for (int arg = 0; arg < c->op->n_in; arg++) n += c->groups[arg];
  return n;
}

static bool is_list(const td_arg *a) {
  return a->number_attr >= 0 || a->type_list;
}

static td_status *add_inputs(const call *c, td_graph *g, td_build *b,
                             td_edge *edges) {
  const td_tensor *in = c->in;
  for (int arg = 0; arg < c->op->n_in; arg++) {
    int n = c->groups[arg];
    for (int i = 0; i < n; i++) TD_TRY(add_const(g, &in[i], &edges[i]));
    if (n == 1 && !is_list(&c->op->in[arg]))
      td_build_in(b, edges[0]);
    else
      td_build_list(b, edges, n);
    in += n;
    edges += n;
  }
  return NULL;
}

static td_status *build(const call *c, td_graph *g, td_node **out) {
  td_build b;
  td_edge few[FEW], *edges = few;
  int n = count_inputs(c);
  if (n > FEW) edges = td_malloc((size_t)n * sizeof *edges);
  if (!edges) return td_oom();
  td_build_op(&b, g, c->op, NULL);
  td_status *s = add_inputs(c, g, &b, edges);
  for (int i = 0; i < c->n_attrs; i++)
    td_build_attr(&b, c->attrs[i].name, c->attrs[i].value);
  if (td_ok(s))
    s = td_build_node(&b, out);
  else
    td_build_drop(&b);
  if (edges != few) td_free(edges);
  return s;
}

td_status *td_eval(const td_op *op, td_device *d, int threads,
                   const td_tensor *in, const int *groups, const td_note *attrs,
                   int n_attrs, td_tensor *out, int cap, int *n_out,
                   const int *stop) {
  call c = {op, in, groups, attrs, n_attrs};
  td_graph *g;
  td_node *n = NULL;
  *n_out = 0;
  TD_TRY(td_graph_new(&g));
  td_status *s = build(&c, g, &n);
  if (td_ok(s) && n->n_out > cap)
    s = td_error(TD_INVALID_ARGUMENT, "%s has %d outputs, there is room for %d",
                 op->type, n->n_out, cap);
  if (td_ok(s)) s = td_eval_node(n, d, threads, in, out, stop);
  if (td_ok(s)) *n_out = n->n_out;
  td_graph_release(g);
  return s;
}
