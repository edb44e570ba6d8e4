/* einsum.c - Einstein's sums over one or two tensors.
 *
 * Every subscript is a loop. An operand is brought into the order batch
 * (subscripts of both operands and the result), its own, contracted; what it
 * alone has and the result has not is summed first. One batch of matrix
 * products does the rest, and a last copy brings its axes into the order that
 * was asked for. Moves are left out where the order is there already. A
 * subscript twice in an operand walks along its diagonal; twice in the result,
 * it fills the diagonal of zeros.
 *
 * "..." stands for axes that broadcast; they have subscripts of their own,
 * counted from the last one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/einsum.h"
#include "kernels/cpu.h"
#include "kernels/blas/gemm.h"
#include "kernels/strided_copy.h"
#include "kernels/array.h"

enum { TEMPS = 12 };

/* Temporary tensors, released together. */
typedef struct temps {
  td_kernel_ctx *c;
  td_tensor at[TEMPS];
  int n;
} temps;

/* A dense array of the subscripts in `label`, in the dtype that is computed
 * in. */
typedef struct operand {
  td_dtype dtype;
  const void *data;
  int n, label[TD_MAX_RANK];
} operand;

/* ---- which subscripts there are ------------------------------------------ */

static bool has(const int *labels, int n, int label) {
  for (int i = 0; i < n; i++)
    if (labels[i] == label) return true;
  return false;
}

/* Appends the subscripts of `from` that are in `in` exactly when `wanted`, each
 * once. */
static void take(const td_einsum_axes *from, const td_einsum_axes *in,
                 bool wanted, const td_einsum_axes *also, bool also_wanted,
                 int *labels, int *n) {
  for (int i = 0; i < from->n; i++) {
    int label = from->label[i];
    if (has(in->label, in->n, label) == wanted &&
        has(also->label, also->n, label) == also_wanted &&
        !has(labels, *n, label))
      labels[(*n)++] = label;
  }
}

static int64_t product(const td_einsum *e, const int *labels, int n) {
  int64_t all = 1;
  for (int i = 0; i < n; i++) all *= e->size[labels[i]];
  return all;
}

/* ---- copies -------------------------------------------------------------- */

static td_status *make_temp(temps *t, td_dtype dtype, int64_t count,
                            void **data) {
  td_shape shape = td_shape_vector(count);
  TD_TRY(td_temp(t->c, dtype, &shape, &t->at[t->n]));
  *data = t->at[t->n++].data;
  return NULL;
}

/* Elements between neighbours along each of `labels` in a tensor whose axes
 * have the subscripts `axes`; 0 where it broadcasts. */
static void steps_of(const td_einsum_axes *axes, const td_shape *s,
                     const int *labels, int n, int64_t *step) {
  int64_t dense[TD_MAX_RANK];
  td_shape_strides(s, dense);
  for (int i = 0; i < n; i++) {
    step[i] = 0;
    for (int k = 0; k < axes->n; k++)
      if (axes->label[k] == labels[i] && s->dim[k] != 1) step[i] += dense[k];
  }
}

static void dense_steps(const td_einsum *e, const int *labels, int n,
                        int64_t *step) {
  int64_t at = 1;
  for (int i = n - 1; i >= 0; i--) {
    step[i] = at;
    at *= e->size[labels[i]];
  }
}

/* Would the copy change nothing? */
static bool same_place(const td_einsum *e, const int *labels, int n,
                       const int64_t *from, const int64_t *to) {
  for (int i = 0; i < n; i++)
    if (e->size[labels[i]] != 1 && from[i] != to[i]) return false;
  return true;
}

static void reorder(temps *t, const td_einsum *e, const int *labels, int n,
                    const int64_t *from, const int64_t *to, size_t size,
                    const void *x, void *y) {
  td_strided_copy m;
  td_strided_copy_init(&m);
  for (int i = 0; i < n; i++)
    td_strided_copy_loop(&m, e->size[labels[i]], from[i], to[i]);
  td_strided_copy_run(t->c, &m, size, x, y);
}

/* Input k as a dense array of o->label. */
static td_status *gather(temps *t, const td_einsum *e, int k, operand *o) {
  const td_tensor *x = td_in(t->c, k);
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  int64_t count = product(e, o->label, o->n);
  void *y;
  steps_of(&e->in[k], &x->shape, o->label, o->n, from);
  dense_steps(e, o->label, o->n, to);
  o->data = x->data;
  if (!same_place(e, o->label, o->n, from, to)) {
    TD_TRY(make_temp(t, x->dtype, count, &y));
    reorder(t, e, o->label, o->n, from, to, td_dtype_size(x->dtype), x->data,
            y);
    o->data = y;
  }
  if (!td_is_half(x->dtype)) return NULL;
  TD_TRY(make_temp(t, TD_FLOAT32, count, &y));
  td_half_load(x->dtype, count, o->data, y);
  o->data = y;
  return NULL;
}

/* ---- products ------------------------------------------------------------ */

/* `batch` products of m x k by k x n. */
static td_status *multiply(temps *t, td_dtype dtype, int64_t batch, int64_t m,
                           int64_t n, int64_t k, const void *a, const void *b,
                           void *y) {
  td_product p = {.dtype = dtype,
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = a,
                  .b = b,
                  .c = y,
                  .lda = k,
                  .ldb = n,
                  .ldc = n};
  void *places = NULL;
  if (batch > 1) {
    TD_TRY(make_temp(t, TD_INT64, 3 * batch, &places));
    int64_t *at = places;
    for (int64_t i = 0; i < batch; i++, at += 3) {
      at[0] = i * m * k;
      at[1] = i * k * n;
      at[2] = i * m * n;
    }
  }
  return td_gemm(t->c, &p, batch, places);
}

/* Sums over the last `alone` subscripts: a product with ones. */
static td_status *sum_alone(temps *t, const td_einsum *e, operand *o,
                            int alone) {
  int kept = o->n - alone;
  int64_t m = product(e, o->label, kept);
  int64_t k = product(e, o->label + kept, alone);
  void *ones, *y;
  if (alone == 0) return NULL;
  TD_TRY(make_temp(t, o->dtype, k, &ones));
  td_tensor *one = &t->at[t->n - 1];
  for (int64_t i = 0; i < k; i++) td_tensor_set_i(one, i, 1);
  TD_TRY(make_temp(t, o->dtype, m, &y));
  if (m > 0) TD_TRY(multiply(t, o->dtype, 1, m, 1, k, o->data, ones, y));
  o->data = y;
  o->n = kept;
  return NULL;
}

/* Input k in the order first, second, then what is to be summed. */
static td_status *prepare(temps *t, const td_einsum *e, int k,
                          const operand *order, operand *o) {
  static const td_einsum_axes none = {.n = 0};
  const td_einsum_axes *other = e->n_in == 2 ? &e->in[1 - k] : &none;
  td_dtype dtype = td_in(t->c, k)->dtype;
  int kept = order->n;
  *o = *order;
  o->dtype = td_is_half(dtype) ? TD_FLOAT32 : dtype;
  take(&e->in[k], &e->out, false, other, false, o->label, &o->n);
  TD_TRY(gather(t, e, k, o));
  return sum_alone(t, e, o, o->n - kept);
}

/* The result in any order; its subscripts in r->label. */
static td_status *contract(temps *t, const td_einsum *e, operand *r) {
  const td_einsum_axes *a = &e->in[0], *b = &e->in[1], *y = &e->out;
  operand left = {0}, right = {0}, x, z;
  int batch = 0, contracted[TD_MAX_RANK], k = 0;
  void *to;
  take(a, b, true, y, true, r->label, &batch);
  take(a, b, true, y, false, contracted, &k);
  memcpy(left.label, r->label, sizeof left.label);
  memcpy(right.label, r->label, sizeof right.label);
  left.n = right.n = batch;
  take(a, b, false, y, true, left.label, &left.n);
  memcpy(left.label + left.n, contracted, (size_t)k * sizeof *contracted);
  memcpy(right.label + batch, contracted, (size_t)k * sizeof *contracted);
  int free_a = left.n - batch;
  left.n += k;
  right.n += k;
  take(b, a, false, y, true, right.label, &right.n);
  int free_b = right.n - batch - k;
  TD_TRY(prepare(t, e, 0, &left, &x));
  TD_TRY(prepare(t, e, 1, &right, &z));
  memcpy(r->label + batch, left.label + batch, (size_t)free_a * sizeof(int));
  memcpy(r->label + batch + free_a, right.label + batch + k,
         (size_t)free_b * sizeof(int));
  r->n = batch + free_a + free_b;
  r->dtype = x.dtype;
  TD_TRY(make_temp(t, r->dtype, product(e, r->label, r->n), &to));
  r->data = to;
  return multiply(t, r->dtype, product(e, r->label, batch),
                  product(e, left.label + batch, free_a),
                  product(e, right.label + batch + k, free_b),
                  product(e, contracted, k), x.data, z.data, to);
}

/* ---- running ------------------------------------------------------------- */

/* Brings the result into the order of the output's axes. */
static td_status *put(temps *t, const td_einsum *e, const operand *r,
                      td_tensor *y) {
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  int64_t count = product(e, r->label, r->n);
  const void *x = r->data;
  void *half;
  dense_steps(e, r->label, r->n, from);
  steps_of(&e->out, &y->shape, r->label, r->n, to);
  if (td_is_half(y->dtype)) {
    TD_TRY(make_temp(t, y->dtype, count, &half));
    td_half_store(y->dtype, count, x, half);
    x = half;
  }
  size_t size = td_dtype_size(y->dtype);
  if (r->n < e->out.n) memset(y->data, 0, (size_t)td_tensor_count(y) * size);
  reorder(t, e, r->label, r->n, from, to, size, x, y->data);
  return NULL;
}

static td_status *compute(temps *t, const td_einsum *e, td_tensor *y) {
  operand r = {0}, order = {0};
  if (e->n_in == 2) {
    TD_TRY(contract(t, e, &r));
  } else {
    take(&e->in[0], &e->out, true, &e->out, true, order.label, &order.n);
    TD_TRY(prepare(t, e, 0, &order, &r));
  }
  return put(t, e, &r, y);
}

/* Sizes of what is made on the way must be countable. */
static td_status *check_sizes(const td_einsum *e) {
  for (int k = 0; k < e->n_in; k++) {
    td_shape s = td_shape_ranked(e->in[k].n);
    for (int i = 0; i < s.rank; i++) s.dim[i] = e->size[e->in[k].label[i]];
    TD_TRY(td_array_count(&s, NULL));
  }
  return NULL;
}

td_status *td_einsum_read(td_kernel_ctx *c, td_einsum *e, td_shape *out) {
  const td_attr *equation = td_node_attr(td_ctx_node(c), "equation");
  const td_shape *shapes[2];
  TD_TRY(td_einsum_parse(e, equation->s, c->n_in));
  for (int k = 0; k < c->n_in; k++) shapes[k] = &td_in(c, k)->shape;
  TD_TRY(td_einsum_bind(e, shapes, out));
  TD_TRY(td_array_count(out, NULL));
  return check_sizes(e);
}

static td_status *run(td_kernel_ctx *c) {
  td_einsum e;
  td_shape out;
  td_tensor *y;
  temps t = {.c = c};
  TD_TRY(td_einsum_read(c, &e, &out));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return NULL;
  td_status *s = compute(&t, &e, y);
  while (t.n > 0) td_tensor_release(&t.at[--t.n]);
  return s;
}

static td_status *infer(td_infer *c) {
  const td_shape *shapes[2];
  td_einsum e;
  td_shape out;
  TD_TRY(
      td_einsum_parse(&e, td_infer_attr(c, "equation")->s, td_infer_inputs(c)));
  for (int k = 0; k < e.n_in; k++) shapes[k] = td_infer_in(c, k);
  TD_TRY(td_einsum_bind(&e, shapes, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- cost -----------------------------------------------------------------
 */

/* Of two operands, a multiply-add for each element of their product before it
 * is summed; of one, an addition for each of its own. */
static void einsum_cost(td_infer *c, td_cost *cost) {
  td_einsum e;
  td_shape out;
  int n = td_infer_inputs(c);
  const td_shape *shapes[2] = {td_infer_in(c, 0),
                               n > 1 ? td_infer_in(c, 1) : NULL};
  bool seen[TD_EINSUM_LABELS] = {false};
  td_status *s = td_einsum_parse(&e, td_infer_attr(c, "equation")->s, n);
  if (td_ok(s)) s = td_einsum_bind(&e, shapes, &out);
  cost->flops = td_ok(s) ? n : NAN;
  for (int k = 0; td_ok(s) && k < n; k++) {
    if (shapes[k]->rank < 0) cost->flops = NAN;
    for (int i = 0; i < e.in[k].n; i++) {
      int label = e.in[k].label[i];
      if (seen[label]) continue;
      seen[label] = true;
      cost->flops *= e.size[label] < 0 ? NAN : (double)e.size[label];
    }
  }
  td_status_release(s);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Einsum",
     .sig = "inputs: N*T -> output: T; equation: string; N: int >= 1; T: type",
     .shape = infer,
     .cost = einsum_cost,
     .doc = "Products of elements summed over every subscript that the result "
            "lacks: \"ij,jk->ik\" is the product of matrices.",
     .lua = "",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Einsum",
     .device = "CPU",
     .types = "T=half|bfloat16|float|double|int32|int64|complex64|complex128",
     .run = run},
    {0},
};

TD_MODULE(einsum, ops, kernels)
