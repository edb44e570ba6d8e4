/* softmax.c - softmax and log-softmax over the last dimension.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/softmax.h"

#include <math.h>

#include "kernels/cpu.h"
#include "kernels/cross_entropy.h"

typedef struct softmax {
  td_softmax_row row; /* of the input; x is where the first begins */
  char *to;
  bool log;
} softmax;

/* ---- one row ------------------------------------------------------------- */

static void finish_floats(const softmax *s, const td_softmax_row *r, int64_t n,
                          const float *x, float *to) {
  float max = (float)r->max, sum = (float)r->sum;
  if (s->log)
    r->table->log(n, x, max, logf(sum), to);
  else
    r->table->exp(n, x, max, 1.0f / sum, to);
}

static void finish_halves(const softmax *s, const td_softmax_row *r,
                          uint16_t *to) {
  const uint16_t *x = r->x;
  float block[TD_HALF_BLOCK];
  for (int64_t i = 0; i < r->n; i += TD_HALF_BLOCK) {
    int64_t some = r->n - i < TD_HALF_BLOCK ? r->n - i : TD_HALF_BLOCK;
    td_half_load(r->dtype, some, x + i, block);
    finish_floats(s, r, some, block, block);
    td_half_store(r->dtype, some, block, to + i);
  }
}

static void finish_doubles(const softmax *s, const td_softmax_row *r,
                           double *to) {
  const double *x = r->x;
  double log_sum = log(r->sum), scale = 1.0 / r->sum;
  for (int64_t i = 0; i < r->n; i++) {
    double z = x[i] - r->max;
    to[i] = s->log ? z - log_sum : exp(z) * scale;
  }
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
  const softmax *s = arg;
  size_t bytes = (size_t)s->row.n * td_dtype_size(s->row.dtype);
  for (int64_t i = begin; i < end; i++) {
    td_softmax_row r = s->row;
    void *to = s->to + (size_t)i * bytes;
    r.x = (const char *)s->row.x + (size_t)i * bytes;
    td_softmax_read(&r);
    if (r.dtype == TD_FLOAT64)
      finish_doubles(s, &r, to);
    else if (td_is_half(r.dtype))
      finish_halves(s, &r, to);
    else
      finish_floats(s, &r, r.n, r.x, to);
  }
}

/* ---- the ops ------------------------------------------------------------- */

static td_status *softmax_infer(td_infer *c) {
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "logits"));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

td_status *td_softmax_size(const td_kernel_ctx *c, int64_t *rows, int64_t *n) {
  const td_shape *x = &td_in(c, 0)->shape;
  int last = x->rank - 1;
  if (last < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "logits must be of rank 1 or more, not a scalar");
  *rows = td_shape_span(x, 0, last);
  *n = x->dim[last];
  return NULL;
}

static td_status *run(td_kernel_ctx *c, bool log) {
  const td_tensor *x = td_in(c, 0);
  int64_t rows = 0;
  td_tensor *y;
  softmax s = {.row = {.table = td_softmax_table_of(td_cpu_isa()),
                       .dtype = x->dtype,
                       .x = x->data},
               .log = log};
  TD_TRY(td_softmax_size(c, &rows, &s.row.n));
  TD_TRY(td_out_like(c, 0, 0, &y));
  s.to = y->data;
  if (s.row.n > 0) td_for(c, rows, td_grain_of(4 * s.row.n), do_rows, &s);
  return NULL;
}

static td_status *softmax_run(td_kernel_ctx *c) {
  return run(c, false);
}

static td_status *log_softmax_run(td_kernel_ctx *c) {
  return run(c, true);
}

/* The largest, a difference, exp, a sum, a quotient. */
TD_COST_OUTPUT(softmax_cost, 5, 0)

static const td_op_def ops[] = {
    {.type = "Softmax",
     .sig = "logits: T -> softmax: T; T: {half, bfloat16, float, double}",
     .shape = softmax_infer,
     .cost = softmax_cost,
     .doc = "exp(x) / sum(exp(x)) over the last dimension.",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {.type = "LogSoftmax",
     .sig = "logits: T -> logsoftmax: T; T: {half, bfloat16, float, double}",
     .shape = softmax_infer,
     .cost = softmax_cost,
     .doc = "x - log(sum(exp(x))) over the last dimension.",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Softmax", .device = "CPU", .run = softmax_run},
    {.op = "LogSoftmax", .device = "CPU", .run = log_softmax_run},
    {0},
};

TD_MODULE(softmax, ops, kernels)
