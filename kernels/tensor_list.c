/* tensor_list.c - lists of tensors, and the ops of one element.
 *
 * Those of many are in tensor_list_whole.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tensor_list.h"

#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"

enum { MOST = 1 << 24 }; /* elements: no size may ask for all memory */

static td_status *zeros_of(td_kernel_ctx *c, const td_variant *v,
                           td_variant **out);
static td_status *sum_of(td_kernel_ctx *c, const td_variant *a,
                         const td_variant *b, td_variant **out);

static const td_variant_class list_class = {
    .name = "list", .zeros = zeros_of, .sum = sum_of};

/* ---- life ---------------------------------------------------------------- */

static void list_free(td_object *o) {
  td_tensor_list *l = (td_tensor_list *)o;
  for (size_t i = 0; i < l->list.len; i++) td_tensor_release(&l->list.at[i]);
  td_vec_free(&l->list);
  td_free(l);
}

static td_status *check_size(td_kernel_ctx *c, int64_t n) {
  td_shape bytes = td_shape_matrix(n, sizeof(td_tensor) / 16 + 1);
  if (n > MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "a list would have %lld elements; %d are allowed",
                    (long long)n, MOST);
  return td_array_fits(c, &bytes);
}

td_status *td_tensor_list_new(td_kernel_ctx *c, td_dtype dtype,
                              const td_shape *each, int64_t room,
                              td_tensor_list **out) {
  TD_TRY(check_size(c, room));
  td_tensor_list *l = td_calloc(1, sizeof *l);
  if (!l) return td_oom();
  l->variant.object =
      (td_object){.refs = 1, .type = td_variant_type, .free = list_free};
  l->variant.of = &list_class;
  l->dtype = dtype;
  l->each = *each;
  l->most = -1;
  if (!td_vec_reserve(&l->list, room)) {
    td_tensor_list_release(l);
    return td_oom();
  }
  *out = l;
  return NULL;
}

static td_status *check_dtype(const td_tensor_list *l, td_dtype dtype) {
  if (dtype == TD_INVALID || dtype == l->dtype) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "the list holds %s, not %s",
                  td_dtype_name(l->dtype), td_dtype_name(dtype));
}

td_status *td_tensor_list_of(td_object *o, td_dtype dtype,
                             const td_tensor_list **out) {
  const td_variant *v = NULL;
  TD_TRY(td_variant_of(o, &list_class, "the handle", &v));
  *out = (const td_tensor_list *)v;
  return check_dtype(*out, dtype);
}

td_status *td_tensor_list_in(const td_kernel_ctx *c, int i, td_dtype dtype,
                             const td_tensor_list **out) {
  return td_tensor_list_of(td_tensor_get_object(td_in(c, i)), dtype, out);
}

/* ---- changing ------------------------------------------------------------ */

static td_status *copy(td_kernel_ctx *c, const td_tensor_list *l,
                       td_tensor_list **out) {
  td_tensor_list *n = NULL;
  TD_TRY(td_tensor_list_new(c, l->dtype, &l->each, (int64_t)l->list.len, &n));
  n->most = l->most;
  n->variant.depth = l->variant.depth;
  for (size_t i = 0; i < l->list.len; i++)
    td_tensor_retain(&l->list.at[i], &n->list.at[n->list.len++]);
  *out = n;
  return NULL;
}

td_status *td_tensor_list_open(td_kernel_ctx *c, int i, td_dtype dtype,
                               td_tensor_list_edit *e) {
  const td_tensor_list *l = NULL;
  *e = (td_tensor_list_edit){.fresh = !td_variant_sole(c, i)};
  TD_TRY(td_tensor_list_in(c, i, dtype, &l));
  if (e->fresh) return copy(c, l, &e->list);
  e->list = (td_tensor_list *)l;
  return NULL;
}

td_status *td_tensor_list_close(td_kernel_ctx *c, int i, td_tensor_list_edit *e,
                                td_status *s) {
  if (!e->list) return s;
  if (td_ok(s) && !e->fresh) td_out_pass(c, 0, i);
  if (!e->fresh) return s;
  if (td_ok(s)) return td_variant_out(c, 0, &e->list->variant);
  td_tensor_list_release(e->list);
  return s;
}

td_status *td_tensor_list_resize(td_kernel_ctx *c, td_tensor_list *l,
                                 int64_t size) {
  size_t n = (size_t)size;
  if (n > l->list.len) TD_TRY(check_size(c, size));
  while (l->list.len > n) td_tensor_release(&l->list.at[--l->list.len]);
  if (n == l->list.len) return NULL;
  if (!td_vec_reserve(&l->list, n - l->list.len)) return td_oom();
  memset(l->list.at + l->list.len, 0, (n - l->list.len) * sizeof *l->list.at);
  l->list.len = n;
  return NULL;
}

td_status *td_tensor_list_put(td_tensor_list *l, int64_t k,
                              const td_tensor *t) {
  td_shape_text have, want;
  if (!td_shape_compatible(&l->each, &t->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "the elements of the list have shape %s: element %lld "
                    "cannot be of %s",
                    td_shape_str(&l->each, &want), (long long)k,
                    td_shape_str(&t->shape, &have));
  TD_TRY(td_variant_holds(&l->variant, t));
  if ((size_t)k == l->list.len) {
    if (l->list.len >= MOST)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "the list has %d elements: no more are allowed", MOST);
    if (!td_vec_push(&l->list, (td_tensor){.dtype = TD_INVALID}))
      return td_oom();
  }
  td_tensor_release(&l->list.at[k]);
  td_tensor_retain(t, &l->list.at[k]);
  return NULL;
}

td_status *td_tensor_list_append(td_tensor_list *l, const td_tensor *t) {
  if (l->most >= 0 && (int64_t)l->list.len >= l->most)
    return td_error(TD_INVALID_ARGUMENT,
                    "the list is full: its max_num_elements is %lld",
                    (long long)l->most);
  return td_tensor_list_put(l, (int64_t)l->list.len, t);
}

/* ---- shapes of elements -------------------------------------------------- */

static td_status *shape_from(const td_small *v, td_shape *out) {
  int64_t dims[TD_SMALL_MAX];
  if (v->rank == 0 && v->known[0] && v->at[0] != -1)
    return td_error(TD_INVALID_ARGUMENT,
                    "element_shape must be a vector of sizes, or -1 when the "
                    "rank is not known, not %lld",
                    (long long)v->at[0]);
  *out = td_shape_unknown();
  if (v->rank == 0) return NULL;
  for (int k = 0; k < v->count; k++) {
    dims[k] = v->known[k] ? v->at[k] : -1;
    if (dims[k] < -1)
      return td_error(TD_INVALID_ARGUMENT,
                      "element_shape[%d] must be a size or -1, is %lld", k,
                      (long long)dims[k]);
  }
  if (v->count > TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "element_shape must have at most %d sizes, has %d",
                    TD_MAX_RANK, v->count);
  *out = td_shape_of(v->count, dims);
  return NULL;
}

td_status *td_tensor_list_shape(const td_tensor *t, td_shape *out) {
  td_small v;
  TD_TRY(td_operand_ints(t, "element_shape", &v));
  return shape_from(&v, out);
}

td_status *td_tensor_list_infer_shape(td_infer *c, int i, td_shape *out) {
  td_small v;
  bool known;
  *out = td_shape_unknown();
  TD_TRY(td_operand_infer_ints(c, i, "element_shape", &v, &known));
  return known ? shape_from(&v, out) : NULL;
}

td_status *td_tensor_list_merge(const td_tensor_list *l, td_shape *each) {
  td_shape_text have, want;
  td_shape both;
  if (!td_shape_merge(&l->each, each, &both))
    return td_error(TD_INVALID_ARGUMENT,
                    "the elements of the list have shape %s: element_shape "
                    "cannot be %s",
                    td_shape_str(&l->each, &have), td_shape_str(each, &want));
  *each = both;
  return NULL;
}

/* ---- zeros and sums ------------------------------------------------------ */

static td_status *fill_zeros(td_kernel_ctx *c, const td_tensor_list *from,
                             td_tensor_list *to) {
  for (size_t i = 0; i < from->list.len; i++) {
    td_tensor *t = &to->list.at[to->list.len++];
    *t = (td_tensor){.dtype = TD_INVALID};
    if (td_tensor_valid(&from->list.at[i]))
      TD_TRY(td_variant_zeros_like(c, &from->list.at[i], t));
  }
  return NULL;
}

static td_status *zeros_of(td_kernel_ctx *c, const td_variant *v,
                           td_variant **out) {
  const td_tensor_list *from = (const td_tensor_list *)v;
  td_tensor_list *l = NULL;
  TD_TRY(td_tensor_list_new(c, from->dtype, &from->each,
                            (int64_t)from->list.len, &l));
  l->variant.depth = v->depth;
  *out = &l->variant;
  td_status *s = fill_zeros(c, from, l);
  if (!td_ok(s)) td_tensor_list_release(l);
  return s;
}

/* An element that one of them did not set is the other's. */
static td_status *fill_sums(td_kernel_ctx *c, const td_tensor_list *a,
                            const td_tensor_list *b, td_tensor_list *to) {
  for (size_t i = 0; i < a->list.len; i++) {
    const td_tensor *x = &a->list.at[i], *y = &b->list.at[i];
    td_tensor *t = &to->list.at[to->list.len++];
    *t = (td_tensor){.dtype = TD_INVALID};
    if (!td_tensor_valid(x) || !td_tensor_valid(y))
      td_tensor_retain(td_tensor_valid(x) ? x : y, t);
    else
      TD_TRY(td_variant_sum(c, x, y, t));
  }
  return NULL;
}

static td_status *check_summands(const td_tensor_list *a,
                                 const td_tensor_list *b) {
  if (a->dtype != b->dtype)
    return td_error(TD_INVALID_ARGUMENT,
                    "a list of %s cannot be added to one of %s",
                    td_dtype_name(b->dtype), td_dtype_name(a->dtype));
  if (a->list.len != b->list.len)
    return td_error(TD_INVALID_ARGUMENT,
                    "a list of %zu elements cannot be added to one of %zu",
                    b->list.len, a->list.len);
  return NULL;
}

static td_status *sum_of(td_kernel_ctx *c, const td_variant *v,
                         const td_variant *w, td_variant **out) {
  const td_tensor_list *a = (const td_tensor_list *)v;
  const td_tensor_list *b = (const td_tensor_list *)w;
  td_shape each = b->each;
  td_tensor_list *l = NULL;
  TD_TRY(check_summands(a, b));
  TD_TRY(td_tensor_list_merge(a, &each));
  TD_TRY(td_tensor_list_new(c, a->dtype, &each, (int64_t)a->list.len, &l));
  l->most = a->most;
  l->variant.depth = v->depth > w->depth ? v->depth : w->depth;
  *out = &l->variant;
  td_status *s = fill_sums(c, a, b, l);
  if (!td_ok(s)) td_tensor_list_release(l);
  return s;
}

/* ---- making -------------------------------------------------------------- */

static td_status *scalar_in(const td_kernel_ctx *c, int i, const char *what,
                            int64_t *out) {
  td_shape_text text;
  const td_tensor *t = td_in(c, i);
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                    what, td_shape_str(&t->shape, &text));
  return td_operand_scalar(t, what, out);
}

static td_status *empty_run(td_kernel_ctx *c) {
  td_dtype dtype = td_node_type(td_ctx_node(c), "element_dtype");
  td_tensor_list *l = NULL;
  td_shape each;
  int64_t most = 0;
  TD_TRY(scalar_in(c, 1, "max_num_elements", &most));
  TD_TRY(td_tensor_list_shape(td_in(c, 0), &each));
  TD_TRY(td_tensor_list_new(c, dtype, &each, 0, &l));
  l->most = most < 0 ? -1 : most;
  return td_variant_out(c, 0, &l->variant);
}

static td_status *check_count(int64_t n, const char *what) {
  if (n >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must not be negative, is %lld", what,
                  (long long)n);
}

static td_status *reserve_run(td_kernel_ctx *c) {
  td_dtype dtype = td_node_type(td_ctx_node(c), "element_dtype");
  td_tensor_list *l = NULL;
  td_shape each;
  int64_t n = 0;
  TD_TRY(td_tensor_list_shape(td_in(c, 0), &each));
  TD_TRY(scalar_in(c, 1, "num_elements", &n));
  TD_TRY(check_count(n, "num_elements"));
  TD_TRY(td_tensor_list_new(c, dtype, &each, n, &l));
  td_status *s = td_tensor_list_resize(c, l, n);
  if (td_ok(s)) return td_variant_out(c, 0, &l->variant);
  td_tensor_list_release(l);
  return s;
}

static td_status *resize_run(td_kernel_ctx *c) {
  td_tensor_list_edit e;
  int64_t n = 0;
  TD_TRY(scalar_in(c, 1, "size", &n));
  TD_TRY(check_count(n, "size"));
  TD_TRY(td_tensor_list_open(c, 0, TD_INVALID, &e));
  return td_tensor_list_close(c, 0, &e, td_tensor_list_resize(c, e.list, n));
}

/* ---- looking ------------------------------------------------------------- */

static td_status *length_run(td_kernel_ctx *c) {
  const td_tensor_list *l = NULL;
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_tensor_list_in(c, 0, TD_INVALID, &l));
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(int32_t *)y->data = (int32_t)l->list.len;
  return NULL;
}

static td_status *shape_run(td_kernel_ctx *c) {
  const td_tensor_list *l = NULL;
  td_shape to = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_tensor_list_in(c, 0, TD_INVALID, &l));
  if (l->each.rank >= 0) to = td_shape_vector(l->each.rank);
  TD_TRY(td_out(c, 0, &to, &y));
  if (l->each.rank < 0) td_tensor_set_i(y, 0, -1);
  for (int k = 0; k < l->each.rank; k++)
    TD_TRY(td_array_put(y, k, l->each.dim[k], "the size"));
  return NULL;
}

static td_status *check_index(const td_tensor_list *l, int64_t i) {
  if (i >= 0 && (size_t)i < l->list.len) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "index %lld is outside the list of %zu elements",
                  (long long)i, l->list.len);
}

/* What is not set is of the shape of those that are, where nothing else says.
 */
static void guess_shape(const td_tensor_list *l, td_shape *each) {
  for (size_t i = 0; i < l->list.len && !td_shape_known(each); i++)
    if (td_tensor_valid(&l->list.at[i])) {
      td_shape both;
      if (td_shape_merge(each, &l->list.at[i].shape, &both)) *each = both;
    }
}

/* An element must be what element_shape says, which the graph relies on. */
static td_status *out_set(td_kernel_ctx *c, const td_tensor *t, int64_t k,
                          const td_shape *each, int to) {
  td_shape_text have, want;
  if (!td_shape_compatible(each, &t->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "element %lld of the list is of shape %s, but "
                    "element_shape says %s",
                    (long long)k, td_shape_str(&t->shape, &have),
                    td_shape_str(each, &want));
  td_out_set(c, to, t);
  return NULL;
}

/* Output `to` is element k; zeros when it is not set. */
static td_status *out_element(td_kernel_ctx *c, const td_tensor_list *l,
                              int64_t k, bool guess, int to) {
  const td_tensor *t = &l->list.at[k];
  td_shape_text text;
  td_shape each;
  td_tensor zeros;
  TD_TRY(td_tensor_list_shape(td_in(c, c->n_in - 1), &each));
  if (td_tensor_valid(t)) return out_set(c, t, k, &each, to);
  TD_TRY(td_tensor_list_merge(l, &each));
  if (guess) guess_shape(l, &each);
  if (!td_shape_known(&each))
    return td_error(TD_INVALID_ARGUMENT,
                    "element %lld of the list was not set, and is of shape %s: "
                    "which zeros to give is not known",
                    (long long)k, td_shape_str(&each, &text));
  TD_TRY(td_variant_zeros(c, l->dtype, &each, &zeros));
  td_out_set(c, to, &zeros);
  td_tensor_release(&zeros);
  return NULL;
}

static td_status *get_run(td_kernel_ctx *c) {
  const td_tensor_list *l = NULL;
  int64_t i = 0;
  TD_TRY(td_tensor_list_in(c, 0, td_ctx_node(c)->out[0].dtype, &l));
  TD_TRY(td_operand_scalar(td_in(c, 1), "index", &i));
  TD_TRY(check_index(l, i));
  return out_element(c, l, i, true, 0);
}

/* ---- changing elements --------------------------------------------------- */

static td_status *set(td_kernel_ctx *c, td_tensor_list *l, int64_t i,
                      bool grows) {
  if (i >= (int64_t)l->list.len && grows)
    TD_TRY(td_tensor_list_resize(c, l, i + 1));
  TD_TRY(check_index(l, i));
  return td_tensor_list_put(l, i, td_in(c, 2));
}

static td_status *set_run(td_kernel_ctx *c) {
  bool grows = td_node_bool(td_ctx_node(c), "resize_if_index_out_of_bounds");
  td_tensor_list_edit e;
  int64_t i = 0;
  TD_TRY(td_operand_scalar(td_in(c, 1), "index", &i));
  TD_TRY(td_tensor_list_open(c, 0, td_in(c, 2)->dtype, &e));
  return td_tensor_list_close(c, 0, &e, set(c, e.list, i, grows));
}

static td_status *push_run(td_kernel_ctx *c) {
  td_tensor_list_edit e;
  TD_TRY(td_tensor_list_open(c, 0, td_in(c, 1)->dtype, &e));
  return td_tensor_list_close(c, 0, &e,
                              td_tensor_list_append(e.list, td_in(c, 1)));
}

static td_status *check_last(const td_kernel_ctx *c) {
  const td_tensor_list *l = NULL;
  TD_TRY(td_tensor_list_in(c, 0, td_ctx_node(c)->out[1].dtype, &l));
  if (l->list.len > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the list is empty: it was popped more often than pushed");
}

/* The list lets go of the element, so that who takes it may hold it alone. */
static td_status *pop_run(td_kernel_ctx *c) {
  td_tensor_list_edit e;
  TD_TRY(check_last(c));
  TD_TRY(td_tensor_list_open(c, 0, TD_INVALID, &e));
  int64_t last = (int64_t)e.list->list.len - 1;
  td_status *s = out_element(c, e.list, last, false, 1);
  if (td_ok(s)) s = td_tensor_list_resize(c, e.list, last);
  return td_tensor_list_close(c, 0, &e, s);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *scalar_at(td_infer *c, int i, const char *what) {
  return td_infer_rank(c, i, 0, what, NULL);
}

static td_status *make_infer(td_infer *c) {
  bool empty = strcmp(td_infer_op(c)->type, "EmptyTensorList") == 0;
  td_shape each;
  TD_TRY(td_tensor_list_infer_shape(c, 0, &each));
  TD_TRY(scalar_at(c, 1, empty ? "max_num_elements" : "num_elements"));
  return td_infer_scalars(c);
}

static td_status *list_infer(td_infer *c) {
  TD_TRY(scalar_at(c, 0, "the handle"));
  return td_infer_scalars(c);
}

static td_status *resize_infer(td_infer *c) {
  TD_TRY(scalar_at(c, 1, "size"));
  return list_infer(c);
}

static td_status *shape_infer(td_infer *c) {
  TD_TRY(scalar_at(c, 0, "the handle"));
  td_infer_out(c, 0, td_shape_unknown());
  return NULL;
}

static td_status *get_infer(td_infer *c) {
  TD_TRY(scalar_at(c, 0, "the handle"));
  td_shape each;
  TD_TRY(td_tensor_list_infer_shape(c, 2, &each));
  td_infer_out(c, 0, each);
  return NULL;
}

static td_status *pop_infer(td_infer *c) {
  TD_TRY(scalar_at(c, 0, "the handle"));
  td_shape each;
  TD_TRY(td_tensor_list_infer_shape(c, 1, &each));
  td_infer_out(c, 0, td_shape_scalar());
  td_infer_out(c, 1, each);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators",                \
  .cost = td_cost_none, .host = "*", .lua = ""
#define MAKES                                                                  \
  "-> handle: variant; element_dtype: type; shape_type: {int32, int64}"

static const td_op_def ops[] = {
    {.type = "EmptyTensorList",
     .sig = "element_shape: shape_type, max_num_elements: int32 " MAKES,
     .shape = make_infer,
     .doc = "A list without elements, to be appended to.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "TensorListReserve",
     .sig = "element_shape: shape_type, num_elements: int32 " MAKES,
     .shape = make_infer,
     .doc = "A list of num_elements elements that are not set.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "TensorListResize",
     .sig = "input_handle: variant, size: int32 -> output_handle: variant",
     .shape = resize_infer,
     .doc = "The list with size elements: cut off, or more that are not set.",
     SECTION},
    {.type = "TensorListLength",
     .sig = "input_handle: variant -> length: int32",
     .shape = list_infer,
     .doc = "The number of elements of a list.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "TensorListElementShape",
     .sig = "input_handle: variant -> element_shape: shape_type; "
            "shape_type: {int32, int64}",
     .shape = shape_infer,
     .doc = "What is known of the shape of a list's elements; -1: nothing.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "TensorListGetItem",
     .sig = "input_handle: variant, index: int32, element_shape: Tshape -> "
            "item: element_dtype; element_dtype: type; "
            "Tshape: {int32, int64} = int32",
     .shape = get_infer,
     .doc = "An element of a list; zeros where none was set.",
     SECTION},
    {.type = "TensorListSetItem",
     .sig = "input_handle: variant, index: int32, item: element_dtype -> "
            "output_handle: variant; element_dtype: type; "
            "resize_if_index_out_of_bounds: bool = false",
     .shape = list_infer,
     .doc = "The list with item for the element at index.",
     SECTION},
    {.type = "TensorListPushBack",
     .sig = "input_handle: variant, tensor: element_dtype -> "
            "output_handle: variant; element_dtype: type",
     .shape = list_infer,
     .doc = "The list with tensor behind its last element.",
     SECTION},
    {.type = "TensorListPopBack",
     .sig = "input_handle: variant, element_shape: int32 -> "
            "output_handle: variant, tensor: element_dtype; "
            "element_dtype: type",
     .shape = pop_infer,
     .doc = "The list without its last element, and that element.",
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "EmptyTensorList", .device = "CPU", .run = empty_run},
    {.op = "TensorListReserve", .device = "CPU", .run = reserve_run},
    {.op = "TensorListResize", .device = "CPU", .run = resize_run},
    {.op = "TensorListLength", .device = "CPU", .run = length_run},
    {.op = "TensorListElementShape", .device = "CPU", .run = shape_run},
    {.op = "TensorListGetItem", .device = "CPU", .run = get_run},
    {.op = "TensorListSetItem", .device = "CPU", .run = set_run},
    {.op = "TensorListPushBack", .device = "CPU", .run = push_run},
    {.op = "TensorListPopBack", .device = "CPU", .run = pop_run},
    {0},
};

TD_MODULE(tensor_list, ops, kernels)
