/* operand.c - operands that hold sizes, axes and bounds; see operand.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/operand.h"

static td_status *check_vector(const td_shape *s, const char *what) {
  td_shape_text text;
  if (s->rank > 1)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a vector, not of shape %s",
                    what, td_shape_str(s, &text));
  if (s->rank == 1 && s->dim[0] > TD_SMALL_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be a vector of at most %d elements, not %lld",
                    what, TD_SMALL_MAX, (long long)s->dim[0]);
  return NULL;
}

static void read_small(const td_tensor *t, td_small *v) {
  *v = (td_small){.rank = t->shape.rank, .count = (int)td_tensor_count(t)};
  for (int k = 0; k < v->count; k++) {
    v->at[k] = td_tensor_get_i(t, k);
    v->known[k] = true;
  }
}

td_status *td_operand_ints(const td_tensor *t, const char *what, td_small *v) {
  TD_TRY(check_vector(&t->shape, what));
  read_small(t, v);
  return NULL;
}

td_status *td_operand_infer_ints(td_infer *c, int i, const char *what,
                                 td_small *v, bool *known) {
  const td_shape *s = td_infer_in(c, i);
  *known = true;
  TD_TRY(check_vector(s, what));
  if (td_infer_small(c, i, v)) return NULL;
  const td_tensor *t = td_infer_const(c, i); /* int8 and int16 too */
  if (t) return td_operand_ints(t, what, v);
  *known = s->rank == 0 || (s->rank == 1 && s->dim[0] >= 0);
  if (*known)
    *v = (td_small){.rank = s->rank, .count = s->rank ? (int)s->dim[0] : 1};
  return NULL;
}

bool td_operand_known(const td_small *v) {
  for (int k = 0; k < v->count; k++)
    if (!v->known[k]) return false;
  return true;
}

td_small td_operand_sizes(const td_shape *s) {
  td_small v = {.rank = 1, .count = s->rank};
  for (int k = 0; k < s->rank; k++) {
    v.at[k] = s->dim[k];
    v.known[k] = s->dim[k] >= 0;
  }
  return v;
}

td_status *td_operand_vector(const td_small *v, const char *what) {
  if (v->rank == 1) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be a vector, not a scalar",
                  what);
}

static td_status *not_one(const td_small *v, const char *what) {
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be a scalar, not a vector of %d elements", what,
                  v->count);
}

td_status *td_operand_single(const td_small *v, const char *what,
                             int64_t *value, bool *known) {
  if (v->rank != 0) return not_one(v, what);
  *value = v->at[0];
  if (known) *known = v->known[0];
  return NULL;
}

td_status *td_operand_scalar(const td_tensor *t, const char *what,
                             int64_t *value) {
  td_small v;
  TD_TRY(td_operand_ints(t, what, &v));
  return td_operand_single(&v, what, value, NULL);
}

td_status *td_operand_axis(const td_tensor *t, int rank, const char *what,
                           int *axis) {
  td_small v;
  TD_TRY(td_operand_ints(t, what, &v));
  if (v.count != 1) return not_one(&v, what);
  return td_infer_axis(v.at[0], rank, what, axis);
}

td_status *td_operand_infer_axis(td_infer *c, int i, int rank, const char *what,
                                 int *axis) {
  td_small v;
  bool known;
  *axis = -1;
  TD_TRY(td_operand_infer_ints(c, i, what, &v, &known));
  if (!known) return NULL;
  if (v.count != 1) return not_one(&v, what);
  if (!v.known[0] || rank < 0) return NULL;
  return td_infer_axis(v.at[0], rank, what, axis);
}

td_status *td_operand_shape(const td_tensor *t, const char *what,
                            td_shape *shape) {
  td_small v;
  td_shape_text text;
  if (t->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be a vector of sizes, not of shape %s", what,
                    td_shape_str(&t->shape, &text));
  TD_TRY(td_shape_check_rank(t->shape.dim[0]));
  read_small(t, &v);
  for (int k = 0; k < v.count; k++)
    if (v.at[k] < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s[%d] must not be negative, is %lld", what, k,
                      (long long)v.at[k]);
  *shape = td_shape_of(v.count, v.at);
  return NULL;
}
