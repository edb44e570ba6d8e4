/* tensor_list_whole.c - lists as one tensor, and back: stack, gather, concat;
 * from a tensor, scatter, split; lists joined.
 *
 * What becomes elements is not copied: they are views of its rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/parts.h"
#include "kernels/tensor_list.h"

/* ---- reading ------------------------------------------------------------- */

static td_status *check_index(const td_tensor_list *l, int64_t i) {
  if (i >= 0 && (size_t)i < l->list.len) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "index %lld is outside the list of %zu elements",
                  (long long)i, l->list.len);
}

/* n elements, `index` (NULL: all in order); those not set are TD_INVALID.
 * Ends with td_parts_drop in any case. */
static td_status *read_parts(const td_tensor_list *l, const int32_t *index,
                             int64_t n, td_parts *p) {
  TD_TRY(td_parts_init(p, n));
  for (int64_t i = 0; i < n; i++) {
    int64_t k = index ? index[i] : i;
    TD_TRY(check_index(l, k));
    td_tensor_retain(&l->list.at[k], &p->at[p->n++]);
  }
  return NULL;
}

/* *each becomes what it and all parts that are set say together. */
static td_status *agree(const td_parts *p, td_shape *each) {
  td_shape_text a, b;
  td_shape both;
  for (int64_t i = 0; i < p->n; i++) {
    if (!td_tensor_valid(&p->at[i])) continue;
    if (!td_shape_merge(each, &p->at[i].shape, &both))
      return td_error(TD_INVALID_ARGUMENT,
                      "elements must have one shape: element %lld is of %s, "
                      "those before it or element_shape %s",
                      (long long)i, td_shape_str(&p->at[i].shape, &a),
                      td_shape_str(each, &b));
    *each = both;
  }
  if (td_shape_known(each)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s, and element_shape, %s, does not say their shape",
                  p->n ? "no element was set" : "there are no elements",
                  td_shape_str(each, &a));
}

/* Those that are not set become zeros of shape `each`. */
static td_status *fill_parts(td_kernel_ctx *c, td_dtype dtype,
                             const td_shape *each, td_parts *p) {
  for (int64_t i = 0; i < p->n; i++) {
    if (td_tensor_valid(&p->at[i])) continue;
    p->at[i].shape = *each;
    if (dtype == TD_VARIANT)
      TD_TRY(td_variant_zeros(c, dtype, each, &p->at[i]));
  }
  return NULL;
}

static td_status *out_stacked(td_kernel_ctx *c, const td_tensor_list *l,
                              td_parts *p, td_shape each) {
  TD_TRY(agree(p, &each));
  TD_TRY(fill_parts(c, l->dtype, &each, p));
  return td_parts_stack(c, 0, p, each);
}

static td_status *check_length(const td_kernel_ctx *c,
                               const td_tensor_list *l) {
  int64_t want = td_node_int(td_ctx_node(c), "num_elements");
  if (want == -1 || want == (int64_t)l->list.len) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the list must have num_elements, %lld, elements, has %zu",
                  (long long)want, l->list.len);
}

static td_status *stack_run(td_kernel_ctx *c) {
  const td_tensor_list *l = NULL;
  td_shape each;
  td_parts p;
  TD_TRY(td_tensor_list_in(c, 0, td_ctx_node(c)->out[0].dtype, &l));
  TD_TRY(check_length(c, l));
  TD_TRY(td_tensor_list_shape(td_in(c, 1), &each));
  TD_TRY(td_tensor_list_merge(l, &each));
  td_status *s = read_parts(l, NULL, (int64_t)l->list.len, &p);
  if (td_ok(s)) s = out_stacked(c, l, &p, each);
  td_parts_drop(&p);
  return s;
}

static td_status *gather_run(td_kernel_ctx *c) {
  const td_tensor *index = td_in(c, 1);
  const td_tensor_list *l = NULL;
  td_shape each;
  td_parts p;
  TD_TRY(td_tensor_list_in(c, 0, td_ctx_node(c)->out[0].dtype, &l));
  TD_TRY(td_tensor_list_shape(td_in(c, 2), &each));
  TD_TRY(td_tensor_list_merge(l, &each));
  td_status *s = read_parts(l, index->data, td_tensor_count(index), &p);
  if (td_ok(s)) s = out_stacked(c, l, &p, each);
  td_parts_drop(&p);
  return s;
}

/* ---- concat -------------------------------------------------------------- */

/* Shapes of elements that are joined: what is known of all dimensions but the
 * first, and the first where it is said, else -1. */
typedef struct ends {
  td_shape rest;
  int64_t first;
} ends;

static td_status *ends_of(const td_shape *each, ends *e) {
  *e = (ends){.rest = td_shape_unknown(), .first = -1};
  if (each->rank < 0) return NULL;
  e->first = each->rank > 0 ? each->dim[0] : -1;
  return td_parts_rest(each, &e->rest);
}

static td_status *check_part(const td_tensor *t, int64_t i, ends *e) {
  td_shape_text a, b;
  td_shape own, both;
  TD_TRY(td_parts_rest(&t->shape, &own));
  if (!td_shape_merge(&e->rest, &own, &both))
    return td_error(TD_INVALID_ARGUMENT,
                    "elements must agree in all dimensions but the first: "
                    "element %lld is of %s, what is known of them ends with %s",
                    (long long)i, td_shape_str(&t->shape, &a),
                    td_shape_str(&e->rest, &b));
  e->rest = both;
  if (e->first < 0 || e->first == t->shape.dim[0]) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "element %lld is of %s, but element_shape begins with %lld",
                  (long long)i, td_shape_str(&t->shape, &a),
                  (long long)e->first);
}

/* How long an element is that was not set. */
static td_status *length_of(const td_tensor *leading, int64_t i, const ends *e,
                            int64_t *out) {
  *out = e->first;
  if (*out >= 0) return NULL;
  int64_t n = leading ? td_tensor_count(leading) : 0;
  if (i >= n)
    return td_error(TD_INVALID_ARGUMENT,
                    "element %lld was not set, and leading_dims has only %lld "
                    "elements to say how long it is",
                    (long long)i, (long long)n);
  *out = td_tensor_get_i(leading, i);
  if (*out >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "leading_dims[%lld] must not be negative, is %lld",
                  (long long)i, (long long)*out);
}

static td_status *shape_part(td_tensor *t, int64_t n, const ends *e) {
  td_shape_text text;
  if (!td_shape_known(&e->rest))
    return td_error(TD_INVALID_ARGUMENT,
                    "no element was set, and element_shape says only %s of all "
                    "dimensions but the first",
                    td_shape_str(&e->rest, &text));
  if (e->rest.rank == TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT, "the rank of elements is over %d",
                    TD_MAX_RANK);
  t->shape = td_shape_ranked(e->rest.rank + 1);
  t->shape.dim[0] = n;
  for (int k = 0; k < e->rest.rank; k++) t->shape.dim[k + 1] = e->rest.dim[k];
  int64_t count;
  return td_array_count(&t->shape, &count);
}

static td_status *out_concat(td_kernel_ctx *c, td_parts *p,
                             const td_tensor *leading, ends *e) {
  for (int64_t i = 0; i < p->n; i++)
    if (td_tensor_valid(&p->at[i])) TD_TRY(check_part(&p->at[i], i, e));
  for (int64_t i = 0; i < p->n; i++) {
    int64_t n = 0;
    if (td_tensor_valid(&p->at[i])) continue;
    TD_TRY(length_of(leading, i, e, &n));
    TD_TRY(shape_part(&p->at[i], n, e));
  }
  return td_parts_concat(c, p, &e->rest);
}

static td_status *concat(td_kernel_ctx *c, const td_tensor_list *l,
                         const td_shape *each, const td_tensor *leading) {
  td_parts p;
  ends e;
  TD_TRY(ends_of(each, &e));
  td_status *s = read_parts(l, NULL, (int64_t)l->list.len, &p);
  if (td_ok(s)) s = out_concat(c, &p, leading, &e);
  td_parts_drop(&p);
  return s;
}

static td_status *concat_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_tensor_list *l = NULL;
  TD_TRY(td_tensor_list_in(c, 0, n->out[0].dtype, &l));
  return concat(c, l, td_attr_as_shape(td_node_attr(n, "element_shape")), NULL);
}

static td_status *concat2_run(td_kernel_ctx *c) {
  const td_tensor_list *l = NULL;
  td_shape each;
  TD_TRY(td_tensor_list_in(c, 0, td_ctx_node(c)->out[0].dtype, &l));
  TD_TRY(td_tensor_list_shape(td_in(c, 1), &each));
  TD_TRY(td_tensor_list_merge(l, &each));
  return concat(c, l, &each, td_in(c, 2));
}

/* ---- writing ------------------------------------------------------------- */

/* Rows of the tensor t, one for each of n. */
static td_status *check_rows(const td_tensor *t, int64_t n) {
  td_shape_text text;
  if (t->shape.rank < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor must be at least a vector, not of %s",
                    td_shape_str(&t->shape, &text));
  if (n < 0 || t->shape.dim[0] == n) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "tensor must have a row for each of %lld indices, has %lld",
                  (long long)n, (long long)t->shape.dim[0]);
}

/* Elements index[i] (NULL: i) become rows i of `t`. */
static td_status *put_rows(td_tensor_list *l, const int32_t *index,
                           const td_tensor *t) {
  for (int64_t i = 0; i < t->shape.dim[0]; i++) {
    td_tensor row;
    TD_TRY(td_parts_row(t, i, &row));
    td_status *s = td_tensor_list_put(l, index ? index[i] : i, &row);
    td_tensor_release(&row);
    if (!td_ok(s)) return s;
  }
  return NULL;
}

/* One more than the highest of the indices. */
static td_status *needed(const td_tensor *index, int64_t *out) {
  const int32_t *at = index->data;
  *out = 0;
  for (int64_t i = 0; i < td_tensor_count(index); i++) {
    if (at[i] < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "indices[%lld] must not be negative, is %d", (long long)i,
                      at[i]);
    if (at[i] >= *out) *out = (int64_t)at[i] + 1;
  }
  return NULL;
}

/* Is the shape of a row what the elements of a list of shape `each` are? */
static td_status *check_each(const td_tensor *t, const td_shape *each) {
  td_shape_text a, b;
  td_shape row;
  TD_TRY(td_parts_rest(&t->shape, &row));
  if (td_shape_compatible(each, &row)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the rows of tensor are of %s, but element_shape is %s",
                  td_shape_str(&row, &a), td_shape_str(each, &b));
}

/* Output 0: a list of n elements, of which those at `index` are rows of input
 * 0. */
static td_status *out_rows(td_kernel_ctx *c, const td_shape *each,
                           const int32_t *index, int64_t n) {
  const td_tensor *t = td_in(c, 0);
  td_tensor_list *l = NULL;
  TD_TRY(check_each(t, each));
  TD_TRY(td_tensor_list_new(c, t->dtype, each, n, &l));
  td_status *s = td_tensor_list_resize(c, l, n);
  if (td_ok(s)) s = put_rows(l, index, t);
  if (td_ok(s)) return td_variant_out(c, 0, &l->variant);
  td_tensor_list_release(l);
  return s;
}

static td_status *from_run(td_kernel_ctx *c) {
  const td_tensor *t = td_in(c, 0);
  td_shape each;
  TD_TRY(check_rows(t, -1));
  TD_TRY(td_tensor_list_shape(td_in(c, 1), &each));
  return out_rows(c, &each, NULL, t->shape.dim[0]);
}

/* `said`: num_elements, -1: as many as the indices need. */
static td_status *scatter(td_kernel_ctx *c, int64_t said) {
  const td_tensor *index = td_in(c, 1);
  int64_t n = 0;
  td_shape each;
  TD_TRY(check_rows(td_in(c, 0), td_tensor_count(index)));
  TD_TRY(td_tensor_list_shape(td_in(c, 2), &each));
  TD_TRY(needed(index, &n));
  if (said < -1)
    return td_error(TD_INVALID_ARGUMENT,
                    "num_elements must be a size or -1, is %lld",
                    (long long)said);
  if (said >= 0 && n > said)
    return td_error(TD_INVALID_ARGUMENT,
                    "index %lld is outside the list of num_elements, %lld, "
                    "elements",
                    (long long)n - 1, (long long)said);
  return out_rows(c, &each, index->data, said < 0 ? n : said);
}

static td_status *scatter_run(td_kernel_ctx *c) {
  return scatter(c, -1);
}

static td_status *scatter2_run(td_kernel_ctx *c) {
  const td_tensor *said = td_in(c, 3);
  td_shape_text text;
  if (said->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "num_elements must be a scalar, not of %s",
                    td_shape_str(&said->shape, &text));
  return scatter(c, *(const int32_t *)said->data);
}

/* A list that is too short grows. */
static td_status *into(td_kernel_ctx *c, td_tensor_list *l, int64_t n) {
  if (n > (int64_t)l->list.len) TD_TRY(td_tensor_list_resize(c, l, n));
  return put_rows(l, td_in(c, 2)->data, td_in(c, 1));
}

static td_status *into_run(td_kernel_ctx *c) {
  const td_tensor *t = td_in(c, 1), *index = td_in(c, 2);
  td_tensor_list_edit e;
  int64_t n = 0;
  TD_TRY(check_rows(t, td_tensor_count(index)));
  TD_TRY(needed(index, &n));
  TD_TRY(td_tensor_list_open(c, 0, t->dtype, &e));
  return td_tensor_list_close(c, 0, &e, into(c, e.list, n));
}

/* ---- split --------------------------------------------------------------- */

static td_status *check_lengths(const td_tensor *t, const td_tensor *lengths) {
  td_shape_text text;
  int64_t left = t->shape.dim[0];
  if (lengths->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "lengths must be a vector, not of %s",
                    td_shape_str(&lengths->shape, &text));
  for (int64_t i = 0; i < lengths->shape.dim[0]; i++) {
    int64_t n = td_tensor_get_i(lengths, i);
    if (n < 0 || n > left)
      return td_error(TD_INVALID_ARGUMENT,
                      "lengths[%lld] is %lld, of the %lld rows that are left",
                      (long long)i, (long long)n, (long long)left);
    left -= n;
  }
  if (left == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "lengths must sum to the %lld rows of tensor: %lld are left",
                  (long long)t->shape.dim[0], (long long)left);
}

static td_status *put_pieces(td_tensor_list *l, const td_tensor *t,
                             const td_tensor *lengths) {
  int64_t at = 0;
  for (int64_t i = 0; i < lengths->shape.dim[0]; i++) {
    int64_t n = td_tensor_get_i(lengths, i);
    td_tensor rows;
    TD_TRY(td_tensor_rows(t, at, n, &rows));
    td_status *s = td_tensor_list_put(l, i, &rows);
    td_tensor_release(&rows);
    if (!td_ok(s)) return s;
    at += n;
  }
  return NULL;
}

/* All dimensions but the first are those of `t`; TensorFlow does not look at
 * the first either. */
static td_status *check_split(const td_tensor *t, const td_shape *each) {
  td_shape_text a, b;
  td_shape rest, own;
  if (each->rank < 0) return NULL;
  if (each->rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "element_shape must be of rank 1 at least: what is split "
                    "is no scalar");
  TD_TRY(td_parts_rest(each, &rest));
  TD_TRY(td_parts_rest(&t->shape, &own));
  if (td_shape_compatible(&rest, &own)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "tensor is of %s, which element_shape %s does not allow",
                  td_shape_str(&t->shape, &a), td_shape_str(each, &b));
}

static td_status *split_run(td_kernel_ctx *c) {
  const td_tensor *t = td_in(c, 0), *lengths = td_in(c, 2);
  td_shape any = td_shape_unknown(), each;
  td_tensor_list *l = NULL;
  TD_TRY(check_rows(t, -1));
  TD_TRY(td_tensor_list_shape(td_in(c, 1), &each));
  TD_TRY(check_split(t, &each));
  TD_TRY(check_lengths(t, lengths));
  int64_t n = lengths->shape.dim[0];
  TD_TRY(td_tensor_list_new(c, t->dtype, &any, n, &l));
  td_status *s = td_tensor_list_resize(c, l, n);
  if (td_ok(s)) s = put_pieces(l, t, lengths);
  l->each = each;
  if (td_ok(s)) return td_variant_out(c, 0, &l->variant);
  td_tensor_list_release(l);
  return s;
}

/* ---- lists of lists ------------------------------------------------------ */

static td_status *list_at(const td_tensor *t, int64_t i, td_dtype dtype,
                          const td_tensor_list **out) {
  return td_tensor_list_of(((td_object *const *)t->data)[i], dtype, out);
}

static td_status *append_all(td_tensor_list *l, const td_tensor_list *from) {
  for (size_t i = 0; i < from->list.len; i++) {
    const td_tensor *t = &from->list.at[i];
    if (td_tensor_valid(t))
      TD_TRY(td_tensor_list_put(l, (int64_t)l->list.len, t));
    else
      l->list.at[l->list.len++] = (td_tensor){.dtype = TD_INVALID};
  }
  return NULL;
}

/* A list of the elements of `a`, then those of `b` (may be NULL), then `more`
 * (may be NULL). */
static td_status *joined(td_kernel_ctx *c, const td_tensor_list *a,
                         const td_tensor_list *b, const td_tensor *more,
                         td_object **out) {
  int64_t n = (int64_t)(a->list.len + (b ? b->list.len : 0)) + (more != NULL);
  td_shape each = a->each;
  td_tensor_list *l = NULL;
  if (b) TD_TRY(td_tensor_list_merge(b, &each));
  TD_TRY(td_tensor_list_new(c, a->dtype, &each, n, &l));
  l->most = a->most;
  td_status *s = append_all(l, a);
  if (td_ok(s) && b) s = append_all(l, b);
  if (td_ok(s) && more) s = td_tensor_list_append(l, more);
  if (td_ok(s))
    *out = &l->variant.object;
  else
    td_tensor_list_release(l);
  return s;
}

/* Object i of output 0, for each of the lists in input 0. */
typedef td_status *join_fn(td_kernel_ctx *c, int64_t i, td_object **out);

static td_status *join_each(td_kernel_ctx *c, join_fn *join) {
  const td_tensor *a = td_in(c, 0);
  int64_t n = td_tensor_count(a), made = 0;
  td_object **to = td_calloc((size_t)n + 1, sizeof *to);
  td_status *s = to ? NULL : td_oom();
  td_tensor y;
  while (td_ok(s) && made < n) {
    s = join(c, made, &to[made]);
    if (td_ok(s)) made++;
  }
  if (td_ok(s)) s = td_tensor_objects(TD_VARIANT, &a->shape, to, &y);
  while (made-- > 0) td_object_release(to[made]);
  td_free(to);
  if (!td_ok(s)) return s;
  td_out_set(c, 0, &y);
  td_tensor_release(&y);
  return NULL;
}

static td_status *join_lists(td_kernel_ctx *c, int64_t i, td_object **out) {
  td_dtype dtype = td_node_type(td_ctx_node(c), "element_dtype");
  const td_tensor_list *a, *b;
  TD_TRY(list_at(td_in(c, 0), i, dtype, &a));
  TD_TRY(list_at(td_in(c, 1), i, dtype, &b));
  return joined(c, a, b, NULL, out);
}

static td_status *lists_run(td_kernel_ctx *c) {
  const td_shape *a = &td_in(c, 0)->shape, *b = &td_in(c, 1)->shape;
  td_shape_text x, y;
  if (!td_shape_equal(a, b))
    return td_error(TD_INVALID_ARGUMENT,
                    "input_a and input_b must have one shape: they are of %s "
                    "and %s",
                    td_shape_str(a, &x), td_shape_str(b, &y));
  return join_each(c, join_lists);
}

/* Row i of `t`, whose first dimensions are those of the lists; all of it when
 * they are one. Caller owns *out. */
static td_status *row_of(const td_tensor *t, const td_shape *lists, int64_t i,
                         td_tensor *out) {
  int n = lists->rank;
  td_shape flat;
  td_tensor rows;
  if (n == 0) {
    td_tensor_retain(t, out);
    return NULL;
  }
  flat = td_shape_ranked(t->shape.rank - n + 1);
  flat.dim[0] = td_shape_count(lists);
  for (int k = n; k < t->shape.rank; k++) flat.dim[k - n + 1] = t->shape.dim[k];
  TD_TRY(td_tensor_reshape(t, &flat, &rows));
  td_status *s = td_parts_row(&rows, i, out);
  td_tensor_release(&rows);
  return s;
}

static td_status *join_row(td_kernel_ctx *c, int64_t i, td_object **out) {
  const td_tensor *lists = td_in(c, 0), *t = td_in(c, 1);
  const td_tensor_list *l;
  td_tensor row;
  TD_TRY(list_at(lists, i, t->dtype, &l));
  TD_TRY(row_of(t, &lists->shape, i, &row));
  td_status *s = joined(c, l, NULL, &row, out);
  td_tensor_release(&row);
  return s;
}

static td_status *batch_run(td_kernel_ctx *c) {
  const td_shape *lists = &td_in(c, 0)->shape, *t = &td_in(c, 1)->shape;
  td_shape_text x, y;
  bool fits = lists->rank < TD_MAX_RANK && t->rank >= lists->rank;
  for (int k = 0; fits && k < lists->rank; k++)
    fits = lists->dim[k] == t->dim[k];
  if (!fits)
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor must begin with the shape of input_handles: they "
                    "are of %s, tensor of %s",
                    td_shape_str(lists, &x), td_shape_str(t, &y));
  return join_each(c, join_row);
}

/* ---- shapes -------------------------------------------------------------- */

/* n elements (-1: unknown) of shape `each` side by side. */
static void infer_stacked(td_infer *c, int64_t n, const td_shape *each) {
  td_shape out = td_shape_unknown();
  if (each->rank >= 0 && each->rank < TD_MAX_RANK) {
    out = td_shape_ranked(each->rank + 1);
    out.dim[0] = n;
    for (int k = 0; k < each->rank; k++) out.dim[k + 1] = each->dim[k];
  }
  td_infer_out(c, 0, out);
}

static td_status *stack_infer(td_infer *c) {
  td_shape each;
  TD_TRY(td_infer_rank(c, 0, 0, "the handle", NULL));
  TD_TRY(td_tensor_list_infer_shape(c, 1, &each));
  infer_stacked(c, td_infer_int(c, "num_elements"), &each);
  return NULL;
}

static td_status *gather_infer(td_infer *c) {
  td_shape each;
  TD_TRY(td_infer_rank(c, 0, 0, "the handle", NULL));
  TD_TRY(td_tensor_list_infer_shape(c, 2, &each));
  infer_stacked(c, td_shape_count(td_infer_in(c, 1)), &each);
  return NULL;
}

static void infer_concat(td_infer *c, td_shape each) {
  if (each.rank > 0) each.dim[0] = -1;
  td_infer_out(c, 0, each.rank > 0 ? each : td_shape_unknown());
  td_infer_out(c, 1, td_shape_ranked(1));
}

static td_status *concat_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "the handle", NULL));
  infer_concat(c, *td_infer_attr_shape(c, "element_shape"));
  return NULL;
}

static td_status *concat2_infer(td_infer *c) {
  td_shape each;
  TD_TRY(td_infer_rank(c, 0, 0, "the handle", NULL));
  TD_TRY(td_tensor_list_infer_shape(c, 1, &each));
  TD_TRY(td_infer_rank(c, 2, 1, "leading_dims", NULL));
  infer_concat(c, each);
  return NULL;
}

static td_status *from_infer(td_infer *c) {
  td_shape each;
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "tensor"));
  TD_TRY(td_tensor_list_infer_shape(c, 1, &each));
  return td_infer_scalars(c);
}

static td_status *scatter_infer(td_infer *c) {
  td_shape each;
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "tensor"));
  TD_TRY(td_tensor_list_infer_shape(c, 2, &each));
  if (td_infer_inputs(c) > 3)
    TD_TRY(td_infer_rank(c, 3, 0, "num_elements", NULL));
  return td_infer_scalars(c);
}

static td_status *into_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "the handle", NULL));
  TD_TRY(td_infer_rank_at_least(c, 1, 1, "tensor"));
  return td_infer_scalars(c);
}

static td_status *split_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 2, 1, "lengths", NULL));
  return from_infer(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .host = "*",   \
  .lua = ""

static const td_op_def ops[] = {
    {.type = "TensorListStack",
     .sig = "input_handle: variant, element_shape: int32 -> "
            "tensor: element_dtype; element_dtype: type; "
            "num_elements: int = -1",
     .shape = stack_infer,
     .cost = td_cost_take,
     .doc = "All elements of a list side by side along a new axis.",
     SECTION},
    {.type = "TensorListGather",
     .sig = "input_handle: variant, indices: int32, element_shape: int32 -> "
            "values: element_dtype; element_dtype: type",
     .shape = gather_infer,
     .cost = td_cost_take,
     .doc = "Elements of a list side by side along a new axis.",
     SECTION},
    {.type = "TensorListConcat",
     .sig = "input_handle: variant -> tensor: element_dtype, lengths: int64; "
            "element_dtype: type; element_shape: shape = ?",
     .shape = concat_infer,
     .cost = td_cost_take,
     .doc = "All elements of a list one after the other, and how long each "
            "is.",
     SECTION},
    {.type = "TensorListConcatV2",
     .sig = "input_handle: variant, element_shape: shape_type, "
            "leading_dims: int64 -> tensor: element_dtype, lengths: int64; "
            "element_dtype: type; shape_type: {int32, int64}",
     .shape = concat2_infer,
     .cost = td_cost_take,
     .doc = "The same; leading_dims says how long those are that are not set.",
     SECTION},
    {.type = "TensorListFromTensor",
     .sig = "tensor: element_dtype, element_shape: shape_type -> "
            "output_handle: variant; element_dtype: type; "
            "shape_type: {int32, int64}",
     .shape = from_infer,
     .cost = td_cost_none,
     .doc = "A list of the rows of tensor.",
     SECTION},
    {.type = "TensorListScatter",
     .sig = "tensor: element_dtype, indices: int32, "
            "element_shape: shape_type -> output_handle: variant; "
            "element_dtype: type; shape_type: {int32, int64}",
     .shape = scatter_infer,
     .cost = td_cost_none,
     .doc = "A list with the rows of tensor at indices.",
     SECTION},
    {.type = "TensorListScatterV2",
     .sig = "tensor: element_dtype, indices: int32, "
            "element_shape: shape_type, num_elements: int32 -> "
            "output_handle: variant; element_dtype: type; "
            "shape_type: {int32, int64}",
     .shape = scatter_infer,
     .cost = td_cost_none,
     .doc = "A list of num_elements with the rows of tensor at indices.",
     SECTION},
    {.type = "TensorListScatterIntoExistingList",
     .sig = "input_handle: variant, tensor: element_dtype, indices: int32 -> "
            "output_handle: variant; element_dtype: type",
     .shape = into_infer,
     .cost = td_cost_none,
     .doc = "The list with the rows of tensor at indices.",
     SECTION},
    {.type = "TensorListSplit",
     .sig = "tensor: element_dtype, element_shape: shape_type, "
            "lengths: int64 -> output_handle: variant; element_dtype: type; "
            "shape_type: {int32, int64}",
     .shape = split_infer,
     .cost = td_cost_none,
     .doc = "A list of parts of tensor, of those lengths.",
     SECTION},
    {.type = "TensorListConcatLists",
     .sig = "input_a: variant, input_b: variant -> output: variant; "
            "element_dtype: type",
     .shape = td_infer_same_all,
     .cost = td_cost_none,
     .doc = "Lists of the elements of those in a, then those in b.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "TensorListPushBackBatch",
     .sig = "input_handles: variant, tensor: element_dtype -> "
            "output_handles: variant; element_dtype: type",
     .shape = td_infer_any,
     .cost = td_cost_none,
     .doc = "Lists, each with a row of tensor behind its last element.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "TensorListStack", .device = "CPU", .run = stack_run},
    {.op = "TensorListGather", .device = "CPU", .run = gather_run},
    {.op = "TensorListConcat", .device = "CPU", .run = concat_run},
    {.op = "TensorListConcatV2", .device = "CPU", .run = concat2_run},
    {.op = "TensorListFromTensor", .device = "CPU", .run = from_run},
    {.op = "TensorListScatter", .device = "CPU", .run = scatter_run},
    {.op = "TensorListScatterV2", .device = "CPU", .run = scatter2_run},
    {.op = "TensorListScatterIntoExistingList",
     .device = "CPU",
     .run = into_run},
    {.op = "TensorListSplit", .device = "CPU", .run = split_run},
    {.op = "TensorListConcatLists", .device = "CPU", .run = lists_run},
    {.op = "TensorListPushBackBatch", .device = "CPU", .run = batch_run},
    {0},
};

TD_MODULE(tensor_list_whole, ops, kernels)
