/* infer.c - what shape functions ask, and the functions many ops share.
 *
 * Values are looked for in two ways: a Const seen through Identity gives the
 * whole tensor; otherwise the value hooks of rows like Shape and Pack compute
 * small vectors, calling each other down the graph. Hooks may meet the same
 * node along many paths, so that both their depth and their number are bounded:
 * beyond, a value is simply not known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/infer.h"

#include "engine/graph/infer_impl.h"

enum { MAX_DEPTH = 16, MAX_HOOKS = 256, MAX_PASSED = 64 };

/* ---- the node ------------------------------------------------------------ */

int td_infer_inputs(const td_infer *c) {
  return c->n_in;
}
int td_infer_outputs(const td_infer *c) {
  return c->n_out;
}
td_dtype td_infer_in_type(const td_infer *c, int i) {
  td_edge e = c->in[i];
  return e.node ? td_edge_dtype(e) : TD_INVALID;
}
td_dtype td_infer_out_type(const td_infer *c, int i) {
  return c->out[i].dtype;
}
const td_shape *td_infer_in(const td_infer *c, int i) {
  if (c->in_shape) return &c->in_shape[i];
  td_edge e = c->in[i];
  return e.node ? td_edge_shape(e) : NULL;
}
void td_infer_out(td_infer *c, int i, td_shape shape) {
  c->out[i].shape = shape;
}

const td_op *td_infer_op(const td_infer *c) {
  return c->op;
}

const td_attr *td_infer_attr(const td_infer *c, const char *name) {
  return td_attr_find(c->op, c->attr, c->note, c->n_note, name);
}
int64_t td_infer_int(const td_infer *c, const char *name) {
  return td_attr_as_int(td_infer_attr(c, name));
}
bool td_infer_bool(const td_infer *c, const char *name) {
  return td_attr_as_bool(td_infer_attr(c, name));
}
float td_infer_float(const td_infer *c, const char *name) {
  return td_attr_as_float(td_infer_attr(c, name));
}
const char *td_infer_string(const td_infer *c, const char *name) {
  return td_attr_as_string(td_infer_attr(c, name));
}
td_dtype td_infer_type(const td_infer *c, const char *name) {
  return td_attr_as_type(td_infer_attr(c, name));
}
const td_shape *td_infer_attr_shape(const td_infer *c, const char *name) {
  return td_attr_as_shape(td_infer_attr(c, name));
}

void td_infer_budget(td_infer *c, int *budget) {
  if (budget) *budget = MAX_HOOKS;
  c->depth = 0;
  c->budget = budget;
}

td_status *td_infer_run(td_infer *c) {
  int budget;
  td_infer_budget(c, &budget);
  for (int i = 0; i < c->n_out; i++) c->out[i].shape = td_shape_unknown();
  td_status *s = c->op->def->shape(c);
  td_infer_budget(c, NULL);
  return s;
}

/* ---- values -------------------------------------------------------------- */

/* Where the value of an edge comes from: Identities hand it on. */
static td_edge source_of(td_edge e) {
  for (int i = 0; i < MAX_PASSED && e.node; i++) {
    if (e.node->op->kind != TD_OP_IDENTITY || e.port >= e.node->n_in) break;
    e = e.node->in[e.port];
  }
  return e;
}

/* A handle is the same thing on both sides of these. */
static bool passes_handles(td_op_kind kind) {
  return kind == TD_OP_IDENTITY || kind == TD_OP_ENTER || kind == TD_OP_EXIT ||
         kind == TD_OP_SWITCH;
}

td_edge td_infer_handle_source(td_edge e) {
  for (int k = 0; k < MAX_PASSED && e.node; k++) {
    int32_t in = e.node->op->kind == TD_OP_IDENTITY ? e.port : 0;
    if (!passes_handles(e.node->op->kind) || in >= e.node->n_in) break;
    e = e.node->in[in];
  }
  return e;
}

bool td_infer_handle(const td_infer *c, int i, td_dtype *dtype,
                     td_shape *shape) {
  td_edge e = td_infer_handle_source(c->in[i]);
  if (!e.node || td_edge_dtype(e) != TD_RESOURCE) return false;
  /* The attributes of a stand-in are its own; notes say what it stands for. */
  bool stands = e.node->op->kind == TD_OP_PLACEHOLDER;
  const td_attr *type =
      td_node_attr(e.node, stands ? "_handle_dtype" : "dtype");
  const td_attr *size =
      td_node_attr(e.node, stands ? "_handle_shape" : "shape");
  if (!type || type->kind != TD_ATTR_TYPE || !size || size->is_list ||
      size->kind != TD_ATTR_SHAPE)
    return false;
  *dtype = type->type;
  *shape = *size->shape;
  return true;
}

const char *td_infer_maker(const td_infer *c, int i) {
  td_edge e = td_infer_handle_source(c->in[i]);
  return e.node && td_edge_dtype(e) == TD_RESOURCE ? e.node->op->type : NULL;
}

const td_attr *td_infer_maker_attr(const td_infer *c, int i, const char *name) {
  td_edge e = td_infer_handle_source(c->in[i]);
  if (!e.node || td_edge_dtype(e) != TD_RESOURCE) return NULL;
  return td_node_attr(e.node, name);
}

static const td_tensor *const_of(td_edge source) {
  if (!source.node || source.node->op->kind != TD_OP_CONST) return NULL;
  const td_attr *a = td_node_attr(source.node, "value");
  return a && a->kind == TD_ATTR_TENSOR && !a->is_list ? a->tensor : NULL;
}

const td_tensor *td_infer_const(td_infer *c, int i) {
  return const_of(source_of(c->in[i]));
}

static bool small_from_tensor(const td_tensor *t, td_small *v) {
  int64_t n = td_tensor_count(t);
  if (t->shape.rank > 1 || n > TD_SMALL_MAX || !td_tensor_touchable(t))
    return false;
  v->rank = t->shape.rank;
  v->count = (int32_t)n;
  for (int i = 0; i < v->count; i++) {
    v->at[i] = td_tensor_get_i(t, i);
    v->known[i] = true;
  }
  return true;
}

/* A vector whose length alone is known is a td_small too. */
static bool small_from_shape(const td_shape *s, td_small *v) {
  if (s->rank != 1 || s->dim[0] < 0 || s->dim[0] > TD_SMALL_MAX) return false;
  *v = (td_small){.rank = 1, .count = (int32_t)s->dim[0]};
  return true;
}

static bool small_from_hook(const td_infer *c, td_edge e, td_small *v) {
  td_node *n = e.node;
  if (!n->op->def->value || c->depth >= MAX_DEPTH || !c->budget ||
      *c->budget <= 0)
    return false;
  --*c->budget;
  td_infer inner = {.op = n->op,
                    .attr = n->attr,
                    .note = n->note,
                    .n_note = n->n_note,
                    .in = n->in,
                    .n_in = n->n_in,
                    .out = n->out,
                    .n_out = n->n_out,
                    .depth = c->depth + 1,
                    .budget = c->budget};
  *v = (td_small){0};
  return n->op->def->value(&inner, e.port, v) && v->count >= 0 &&
         v->count <= TD_SMALL_MAX &&
         (v->rank == 1 || (v->rank == 0 && v->count == 1));
}

bool td_infer_small(td_infer *c, int i, td_small *v) {
  td_edge e = source_of(c->in[i]);
  if (!e.node) return false;
  td_dtype dtype = td_edge_dtype(e);
  if (dtype != TD_INT32 && dtype != TD_INT64) return false;
  const td_tensor *t = const_of(e);
  if (t) return small_from_tensor(t, v);
  return small_from_hook(c, e, v) || small_from_shape(td_edge_shape(e), v) ||
         small_from_shape(td_edge_shape(c->in[i]), v);
}

bool td_infer_edge_small(const td_edge *e, td_small *v) {
  int budget = MAX_HOOKS;
  td_infer c = {.in = e, .n_in = 1, .budget = &budget};
  return td_infer_small(&c, 0, v);
}

static td_status *shape_from_small(const td_small *v, td_shape *out) {
  td_shape shape = {.rank = v->count};
  TD_TRY(td_shape_check_rank(v->count));
  for (int k = 0; k < v->count; k++) {
    shape.dim[k] = v->known[k] ? v->at[k] : -1;
    if (shape.dim[k] < -1)
      return td_error(TD_INVALID_ARGUMENT,
                      "size %d of a shape must not be negative, is %lld", k,
                      (long long)shape.dim[k]);
  }
  *out = shape;
  return NULL;
}

td_status *td_infer_shape_from(td_infer *c, int i, td_shape *out) {
  td_small v;
  td_shape_text text;
  const td_shape *in = td_infer_in(c, i);
  *out = td_shape_unknown();
  if (!in) return NULL;
  if (in->rank >= 0 && in->rank != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "a shape must be a vector of sizes, not of shape %s",
                    td_shape_str(in, &text));
  if (in->rank == 1) TD_TRY(td_shape_check_rank(in->dim[0]));
  if (!td_infer_small(c, i, &v) || v.rank != 1) return NULL;
  return shape_from_small(&v, out);
}

/* ---- checks -------------------------------------------------------------- */

td_status *td_infer_rank(td_infer *c, int i, int rank, const char *what,
                         td_shape *out) {
  td_shape want = {.rank = rank};
  td_shape_text text;
  const td_shape *in = td_infer_in(c, i);
  for (int k = 0; k < rank; k++) want.dim[k] = -1;
  if (in && in->rank >= 0 && in->rank != rank)
    return td_error(TD_INVALID_ARGUMENT, "%s must be of rank %d, not %s", what,
                    rank, td_shape_str(in, &text));
  if (out) *out = in && in->rank >= 0 ? *in : want;
  return NULL;
}

td_status *td_infer_rank_at_least(td_infer *c, int i, int rank,
                                  const char *what) {
  td_shape_text text;
  const td_shape *in = td_infer_in(c, i);
  if (in && in->rank >= 0 && in->rank < rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be of rank %d or more, not %s", what, rank,
                    td_shape_str(in, &text));
  return NULL;
}

td_status *td_infer_axis(int64_t axis, int rank, const char *what, int *out) {
  if (axis < -(int64_t)rank || axis >= rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be in [%d, %d) for rank %d, is %lld", what, -rank,
                    rank, rank, (long long)axis);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

/* ---- shared shape functions ---------------------------------------------- */

td_status *td_infer_none(td_infer *c) {
  (void)c;
  return NULL;
}

static void set_all(td_infer *c, td_shape shape) {
  for (int i = 0; i < c->n_out; i++) td_infer_out(c, i, shape);
}

td_status *td_infer_same(td_infer *c) {
  const td_shape *in = c->n_in > 0 ? td_infer_in(c, 0) : NULL;
  set_all(c, in ? *in : td_shape_unknown());
  return NULL;
}

td_status *td_infer_same_all(td_infer *c) {
  td_shape shape = td_shape_unknown();
  td_shape_text a, b;
  for (int i = 0; i < c->n_in; i++) {
    const td_shape *in = td_infer_in(c, i);
    if (in && !td_shape_merge(&shape, in, &shape))
      return td_error(TD_INVALID_ARGUMENT,
                      "all inputs must have one shape: input %d is %s, those "
                      "before it %s",
                      i, td_shape_str(in, &a), td_shape_str(&shape, &b));
  }
  set_all(c, shape);
  return NULL;
}

/* Could x and y be matrices to be multiplied? */
static bool chain(const td_shape *x, const td_shape *y) {
  return x->rank >= 2 && y->rank >= 2 &&
         x->dim[x->rank - 1] == y->dim[y->rank - 2];
}

td_status *td_infer_broadcasting(td_infer *c) {
  td_shape shape;
  td_shape_text a, b;
  const td_shape *x = td_infer_in(c, 0), *y = td_infer_in(c, 1);
  if (!td_shape_broadcast(x, y, &shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "shapes %s and %s do not broadcast: from the last, sizes "
                    "must be equal or 1%s",
                    td_shape_str(x, &a), td_shape_str(y, &b),
                    chain(x, y) ? "; the matrix product is x:matmul(y)" : "");
  set_all(c, shape);
  return NULL;
}

td_status *td_infer_any(td_infer *c) {
  set_all(c, td_shape_unknown());
  return NULL;
}

td_status *td_infer_scalars(td_infer *c) {
  set_all(c, td_shape_scalar());
  return NULL;
}
