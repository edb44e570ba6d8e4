/* add_n.c - the sum of many tensors of one shape.
 *
 * A block of the result stays in cache while every operand is added to it, in
 * order: one pass over memory, whatever their number. Halves are added in float
 * and rounded once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/binary.h"
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/element.h"
#include "kernels/variant.h"

enum { BLOCK = 1024 };

typedef struct job {
  const td_tensor *in;
  int n;
  td_dtype dtype;
  td_isa isa;
  char *out;
} job;

static void add(const job *j, int64_t n, const void *x, const void *y, void *z,
                td_dtype t) {
  td_binary_apply(TD_BINARY_AddV2, t, j->isa, n, x, y, z);
}

static void add_halves(const job *j, int64_t at, int64_t n) {
  float sum[BLOCK], next[BLOCK];
  td_half_load(j->dtype, n, (const uint16_t *)j->in[0].data + at, sum);
  for (int k = 1; k < j->n; k++) {
    td_half_load(j->dtype, n, (const uint16_t *)j->in[k].data + at, next);
    add(j, n, sum, next, sum, TD_FLOAT32);
  }
  td_half_store(j->dtype, n, sum, (uint16_t *)j->out + at);
}

/* The result may lie where one of the first two operands does. */
static void add_block(const job *j, int64_t at, int64_t n) {
  size_t skip = (size_t)at * td_dtype_size(j->dtype);
  const char *sum = (const char *)j->in[0].data + skip;
  for (int k = 1; k < j->n; k++) {
    add(j, n, sum, (const char *)j->in[k].data + skip, j->out + skip, j->dtype);
    sum = j->out + skip;
  }
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t at = begin; at < end; at += BLOCK) {
    int64_t n = end - at < BLOCK ? end - at : BLOCK;
    if (td_is_half(j->dtype))
      add_halves(j, at, n);
    else
      add_block(j, at, n);
  }
}

td_status *td_add_n_check(const td_kernel_ctx *c) {
  td_shape_text a, b;
  for (int i = 1; i < c->n_in; i++)
    if (!td_shape_equal(&c->in[i].shape, &c->in[0].shape))
      return td_error(TD_INVALID_ARGUMENT,
                      "inputs must have one shape: input 0 is of %s, input %d "
                      "of %s",
                      td_shape_str(&c->in[0].shape, &a), i,
                      td_shape_str(&c->in[i].shape, &b));
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  td_tensor *y;
  TD_TRY(td_add_n_check(c));
  if (c->n_in == 1) {
    td_out_pass(c, 0, 0);
    return NULL;
  }
  TD_TRY(td_out_forward(c, 0, &c->in[0].shape, 0, 1, &y));
  job j = {c->in, c->n_in, y->dtype, td_cpu_isa(), y->data};
  td_for(c, td_tensor_count(y), TD_GRAIN, piece, &j);
  return NULL;
}

static void sum_cost(td_infer *c, td_cost *cost) {
  td_cost_per_output(c, cost, td_infer_inputs(c) - 1, 0);
}

static const td_op_def ops[] = {
    {.type = "AddN",
     .sig = "inputs: N*T -> sum: T; N: int >= 1; T: {" SIG_NUMBERS
            ", qint8, quint8, qint32, qint16, quint16, variant}",
     .shape = td_infer_same_all,
     .cost = sum_cost,
     .doc = "Sum of tensors of one shape.",
     .lua = "add_n",
     .flags = TD_COMMUTATIVE | TD_AGGREGATE | TD_IN_PLACE,
     .example = "td.add_n({td.tensor{1, 2}, td.tensor{3, 4}})  --> 4 6",
     .section = "Element-wise math"},
    {.type = "AccumulateNV2",
     .sig = "inputs: N*T -> sum: T; N: int >= 1; T: {" SIG_NUMBERS
            ", qint8, quint8, qint32, qint16, quint16}; shape: shape",
     .shape = td_infer_same_all,
     .cost = sum_cost,
     .doc = "Sum of tensors of one shape, whatever `shape` says of it.",
     .lua = "",
     .flags = TD_COMMUTATIVE | TD_AGGREGATE | TD_IN_PLACE,
     .section = "Element-wise math"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "AddN", .device = "CPU", .types = TYPES_NUMBERS, .run = run},
    {.op = "AddN",
     .device = "CPU",
     .types = "T=variant",
     .run = td_variant_sum_run},
    {.op = "AccumulateNV2",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run},
    {0},
};

TD_MODULE(add_n, ops, kernels)
