/* cross_entropy.c - softmax cross entropy with dense and with sparse labels.
 *
 * Both give the loss of each row and its gradient, softmax - label, which
 * takes the memory of the logits where it may: within a row, everything that
 * needs a logit reads it before the gradient is written over it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cross_entropy.h"

#include <math.h>
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/strided_copy.h"
#include "kernels/softmax.h"
#include "kernels/array.h"

typedef struct xent {
  td_softmax_row row;      /* x is where the first begins */
  const void *labels;      /* dense: of the logits' dtype */
  const td_tensor *sparse; /* or a class for each row */
  char *loss, *back;
} xent;

/* ---- one row, dense ------------------------------------------------------ */

static double dense_doubles(const td_softmax_row *r, const double *labels,
                            double *back) {
  const double *x = r->x;
  double log_sum = log(r->sum), scale = 1.0 / r->sum, loss = 0;
  for (int64_t i = 0; i < r->n; i++) {
    double z = x[i] - r->max, l = labels[i];
    loss += l * (log_sum - z);
    back[i] = exp(z) * scale - l;
  }
  return loss;
}

static float dense_floats(const td_softmax_row *r, int64_t n, const float *x,
                          const float *labels, float *back) {
  float sum = (float)r->sum;
  return r->table->xent(n, x, labels, (float)r->max, 1.0f / sum, logf(sum),
                        back);
}

static float dense_halves(const td_softmax_row *r, const uint16_t *labels,
                          uint16_t *back) {
  const uint16_t *x = r->x;
  float a[TD_HALF_BLOCK], b[TD_HALF_BLOCK], loss = 0;
  for (int64_t i = 0; i < r->n; i += TD_HALF_BLOCK) {
    int64_t some = r->n - i < TD_HALF_BLOCK ? r->n - i : TD_HALF_BLOCK;
    td_half_load(r->dtype, some, x + i, a);
    td_half_load(r->dtype, some, labels + i, b);
    loss += dense_floats(r, some, a, b, a);
    td_half_store(r->dtype, some, a, back + i);
  }
  return loss;
}

/* ---- one row, sparse ----------------------------------------------------- */

static double sparse_doubles(const td_softmax_row *r, int64_t label,
                             double *back) {
  const double *x = r->x;
  double scale = 1.0 / r->sum, loss = log(r->sum) - (x[label] - r->max);
  for (int64_t i = 0; i < r->n; i++) back[i] = exp(x[i] - r->max) * scale;
  back[label] -= 1;
  return loss;
}

static float sparse_floats(const td_softmax_row *r, int64_t label,
                           float *back) {
  const float *x = r->x;
  float max = (float)r->max, sum = (float)r->sum;
  float loss = logf(sum) - (x[label] - max);
  r->table->exp(r->n, x, max, 1.0f / sum, back);
  back[label] -= 1;
  return loss;
}

/* The label's element is put right before it is rounded. */
static float sparse_halves(const td_softmax_row *r, int64_t label,
                           uint16_t *back) {
  const uint16_t *x = r->x;
  float max = (float)r->max, sum = (float)r->sum, block[TD_HALF_BLOCK], z;
  td_half_load(r->dtype, 1, x + label, &z);
  for (int64_t i = 0; i < r->n; i += TD_HALF_BLOCK) {
    int64_t some = r->n - i < TD_HALF_BLOCK ? r->n - i : TD_HALF_BLOCK;
    td_half_load(r->dtype, some, x + i, block);
    r->table->exp(some, block, max, 1.0f / sum, block);
    if (label >= i && label < i + some) block[label - i] -= 1;
    td_half_store(r->dtype, some, block, back + i);
  }
  return logf(sum) - (z - max);
}

/* ---- rows ---------------------------------------------------------------- */

static void do_row(const td_softmax_row *r, const void *labels, int64_t label,
                   void *loss, void *back) {
  if (r->dtype == TD_FLOAT64) {
    double x = labels ? dense_doubles(r, labels, back)
                      : sparse_doubles(r, label, back);
    memcpy(loss, &x, sizeof x);
  } else if (td_is_half(r->dtype)) {
    float x =
        labels ? dense_halves(r, labels, back) : sparse_halves(r, label, back);
    td_half_store(r->dtype, 1, &x, loss);
  } else {
    float x = labels ? dense_floats(r, r->n, r->x, labels, back)
                     : sparse_floats(r, label, back);
    memcpy(loss, &x, sizeof x);
  }
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
  const xent *e = arg;
  size_t size = td_dtype_size(e->row.dtype), bytes = (size_t)e->row.n * size;
  for (int64_t i = begin; i < end; i++) {
    td_softmax_row r = e->row;
    const void *labels = NULL;
    r.x = (const char *)e->row.x + (size_t)i * bytes;
    if (e->labels) labels = (const char *)e->labels + (size_t)i * bytes;
    td_softmax_read(&r);
    do_row(&r, labels, e->sparse ? td_tensor_get_i(e->sparse, i) : 0,
           e->loss + (size_t)i * size, e->back + (size_t)i * bytes);
  }
}

/* Makes both outputs of rows of logits of `shape`, which are those of `x`. */
static td_status *run_rows(td_kernel_ctx *c, const td_tensor *x,
                           const td_shape *shape, xent *e) {
  td_shape losses = td_shape_vector(shape->dim[0]);
  td_tensor *loss, *back;
  e->row = (td_softmax_row){.table = td_softmax_table_of(td_cpu_isa()),
                            .dtype = x->dtype,
                            .x = x->data,
                            .n = shape->dim[1]};
  TD_TRY(td_out(c, 0, &losses, &loss));
  bool own = td_shape_equal(&td_in(c, 0)->shape, shape);
  TD_TRY(td_out_forward(c, 1, shape, own ? 0 : -1, -1, &back));
  e->loss = loss->data;
  e->back = back->data;
  if (shape->dim[1] > 0)
    td_for(c, shape->dim[0], td_grain_of(4 * shape->dim[1]), do_rows, e);
  else if (shape->dim[0] > 0)
    memset(e->loss, 0, (size_t)shape->dim[0] * td_dtype_size(x->dtype));
  return NULL;
}

/* ---- SoftmaxCrossEntropyWithLogits --------------------------------------- */

static td_status *dense_shape(const td_shape *features, const td_shape *labels,
                              td_shape *both) {
  td_shape_text a, b;
  td_shape matrix = td_shape_ranked(2);
  if (td_shape_broadcast(features, labels, both) &&
      td_shape_merge(both, &matrix, both))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "features and labels must be matrices of one shape, or "
                  "broadcast to such, not %s and %s",
                  td_shape_str(features, &a), td_shape_str(labels, &b));
}

static td_status *dense_infer(td_infer *c) {
  td_shape both;
  TD_TRY(dense_shape(td_infer_in(c, 0), td_infer_in(c, 1), &both));
  td_infer_out(c, 0, td_shape_of(1, both.dim));
  td_infer_out(c, 1, both);
  return NULL;
}

/* *t becomes input i, repeated to `shape` where it has another. */
static td_status *repeated(td_kernel_ctx *c, int i, const td_shape *shape,
                           td_tensor *t) {
  const td_tensor *x = td_in(c, i);
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  td_strided_copy m;
  td_strided_copy_init(&m);
  if (td_shape_equal(&x->shape, shape)) {
    td_tensor_retain(x, t);
    return NULL;
  }
  TD_TRY(td_temp(c, x->dtype, shape, t));
  td_shape_strides(&x->shape, from);
  td_shape_strides(shape, to);
  for (int k = 0; k < 2; k++) {
    int axis = k - (2 - x->shape.rank);
    bool once = axis < 0 || x->shape.dim[axis] == 1;
    td_strided_copy_loop(&m, shape->dim[k], once ? 0 : from[axis], to[k]);
  }
  td_strided_copy_run(c, &m, td_dtype_size(x->dtype), x->data, t->data);
  return NULL;
}

td_status *td_cross_entropy_dense(const td_kernel_ctx *c, td_shape *shape) {
  TD_TRY(dense_shape(&td_in(c, 0)->shape, &td_in(c, 1)->shape, shape));
  return td_array_count(shape, NULL);
}

static td_status *dense_run(td_kernel_ctx *c) {
  td_shape shape;
  td_tensor features = {0}, labels = {0};
  xent e = {0};
  TD_TRY(td_cross_entropy_dense(c, &shape));
  td_status *s = repeated(c, 1, &shape, &labels);
  bool own = td_shape_equal(&td_in(c, 0)->shape, &shape);
  if (td_ok(s) && !own) s = repeated(c, 0, &shape, &features);
  e.labels = labels.data;
  if (td_ok(s)) s = run_rows(c, own ? td_in(c, 0) : &features, &shape, &e);
  td_tensor_release(&features);
  td_tensor_release(&labels);
  return s;
}

/* ---- SparseSoftmaxCrossEntropyWithLogits --------------------------------- */

static td_status *sparse_shape(const td_shape *features, const td_shape *labels,
                               td_shape *out) {
  td_shape_text a, b;
  td_shape matrix = td_shape_ranked(2), rows = td_shape_ranked(1);
  *out = matrix;
  if (td_shape_merge(&matrix, features, out) &&
      td_shape_merge(&rows, labels, &rows) &&
      (out->dim[0] < 0 || rows.dim[0] < 0 || out->dim[0] == rows.dim[0])) {
    if (out->dim[0] < 0) out->dim[0] = rows.dim[0];
    if (out->dim[1] != 0) return NULL;
    return td_error(TD_INVALID_ARGUMENT,
                    "features must have at least one class, not shape %s",
                    td_shape_str(features, &a));
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "features must be a matrix and labels a vector with an "
                  "element for each of its rows, not %s and %s",
                  td_shape_str(features, &a), td_shape_str(labels, &b));
}

static td_status *sparse_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(sparse_shape(td_infer_in(c, 0), td_infer_in(c, 1), &shape));
  td_infer_out(c, 0, td_shape_of(1, shape.dim));
  td_infer_out(c, 1, shape);
  return NULL;
}

td_status *td_cross_entropy_sparse(const td_kernel_ctx *c, td_shape *shape) {
  return sparse_shape(&td_in(c, 0)->shape, &td_in(c, 1)->shape, shape);
}

static td_status *sparse_run(td_kernel_ctx *c) {
  const td_tensor *labels = td_in(c, 1);
  td_shape shape;
  xent e = {.sparse = labels};
  TD_TRY(td_cross_entropy_sparse(c, &shape));
  for (int64_t i = 0; i < shape.dim[0]; i++) {
    int64_t label = td_tensor_get_i(labels, i);
    if (label < 0 || label >= shape.dim[1])
      return td_error(TD_INVALID_ARGUMENT,
                      "labels[%lld] is %lld, which is not in [0, %lld)",
                      (long long)i, (long long)label, (long long)shape.dim[1]);
  }
  return run_rows(c, td_in(c, 0), &shape, &e);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Softmax, and a product, a sum and a difference with the labels. */
TD_COST_INPUT(dense_cost, 8, 0)
TD_COST_INPUT(sparse_cost, 6, 0)

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "SoftmaxCrossEntropyWithLogits",
     .sig = "features: T, labels: T -> loss: T, backprop: T; "
            "T: {half, bfloat16, float, double}",
     .shape = dense_infer,
     .cost = dense_cost,
     .doc = "The cross entropy of each row of labels with softmax(features), "
            "and its gradient, softmax(features) - labels.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {.type = "SparseSoftmaxCrossEntropyWithLogits",
     .sig = "features: T, labels: Tlabels -> loss: T, backprop: T; "
            "T: {half, bfloat16, float, double}; "
            "Tlabels: {int32, int64} = int64",
     .shape = sparse_infer,
     .cost = sparse_cost,
     .doc = "The cross entropy of each row's class with softmax(features), "
            "and its gradient.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SoftmaxCrossEntropyWithLogits", .device = "CPU", .run = dense_run},
    {.op = "SparseSoftmaxCrossEntropyWithLogits",
     .device = "CPU",
     .run = sparse_run},
    {0},
};

TD_MODULE(cross_entropy, ops, kernels)
