/* infer_cost.c - what a run of a node is estimated to take.
 *
 * Numbers are doubles: no product of sizes overflows one, and NaN, for what is
 * not known, stays NaN through all that is computed from it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "engine/graph/infer_impl.h"

/* ---- what cost functions ask --------------------------------------------- */

const td_shape *td_infer_out_shape(const td_infer *c, int i) {
  return c->out_shape ? &c->out_shape[i] : &c->out[i].shape;
}

double td_infer_size(const td_shape *s, int axis) {
  if (!s || s->rank < 0) return NAN;
  if (axis < 0) axis += s->rank;
  if (axis < 0 || axis >= s->rank || s->dim[axis] < 0) return NAN;
  return (double)s->dim[axis];
}

static double count(const td_shape *s) {
  double n = s && s->rank >= 0 ? 1 : NAN;
  for (int axis = 0; s && axis < s->rank; axis++) n *= td_infer_size(s, axis);
  return n;
}

static double bytes(const td_shape *s, td_dtype t) {
  if (t == TD_RESOURCE || t == TD_VARIANT) return 0;
  if (t == TD_STRING) return count(s) * (double)sizeof(uint64_t);
  return count(s) * (double)td_dtype_size(t);
}

double td_infer_in_count(const td_infer *c, int i) {
  return i < c->n_in ? count(td_infer_in(c, i)) : NAN;
}
double td_infer_out_count(const td_infer *c, int i) {
  return i < c->n_out ? count(td_infer_out_shape(c, i)) : NAN;
}
double td_infer_in_bytes(const td_infer *c, int i) {
  return i < c->n_in ? bytes(td_infer_in(c, i), td_infer_in_type(c, i)) : NAN;
}
double td_infer_out_bytes(const td_infer *c, int i) {
  return i < c->n_out ? bytes(td_infer_out_shape(c, i), td_infer_out_type(c, i))
                      : NAN;
}

/* ---- the usual ----------------------------------------------------------- */

static bool computes(const td_infer *c) {
  td_dtype t = c->n_out > 0 ? c->out[0].dtype : TD_INVALID;
  return td_dtype_is_float(t) || td_dtype_is_complex(t);
}

static td_cost usual(const td_infer *c) {
  td_cost cost = {0, 0};
  if (c->op->kind != TD_OP_PLAIN) return cost;
  if (computes(c)) cost.flops = td_infer_out_count(c, 0);
  for (int i = 0; i < c->n_in; i++) cost.bytes += td_infer_in_bytes(c, i);
  for (int i = 0; i < c->n_out; i++) cost.bytes += td_infer_out_bytes(c, i);
  return cost;
}

void td_infer_cost(const td_node *n, const td_shape *in, const td_shape *out,
                   td_cost *cost) {
  int budget;
  td_infer c = {.op = n->op,
                .attr = n->attr,
                .note = n->note,
                .n_note = n->n_note,
                .in = n->in,
                .n_in = n->n_in,
                .out = n->out,
                .n_out = n->n_out,
                .in_shape = in,
                .out_shape = out};
  td_infer_budget(&c, &budget);
  *cost = usual(&c);
  if (n->op->def->cost) n->op->def->cost(&c, cost);
}
