/* ctc.h - what the ops of connectionist temporal classification share: logits
 * of {times, batch, classes} and how many times each row of the batch has, and
 * sequences of classes as a sparse tensor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CTC_H
#define TD_CTC_H

#include <math.h>

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_ctc {
  const td_tensor *inputs; /* {times, batch, classes}, float or double */
  const int32_t *lengths;  /* {batch}: times of each row */
  int64_t times, batch, classes;
} td_ctc;

/* The shapes of inputs and sequence_length, known in part. */
td_status *td_ctc_check(const td_shape *inputs,
                        const td_shape *lengths) TD_MUST_USE;
/* Rows of the batch, as either of them tells; -1: neither does. */
int64_t td_ctc_batch(const td_shape *inputs, const td_shape *lengths);
/* From operands whose shapes were checked. Borrowed; valid while they are. */
td_ctc td_ctc_of(const td_tensor *inputs, const td_tensor *lengths);
/* Operands 0 and 1 of a decoder, checked as in TensorFlow: neither is empty, and
 * a length below 0 is one of 0. */
td_status *td_ctc_read_decoder(const td_kernel_ctx *c, td_ctc *x) TD_MUST_USE;
/* Is every length in [0, times]? */
td_status *td_ctc_check_lengths(const td_ctc *x) TD_MUST_USE;

static inline double td_ctc_input(const td_ctc *x, int64_t t, int64_t row,
                                  int64_t class) {
  int64_t i = (t * x->batch + row) * x->classes + class;
  return x->inputs->dtype == TD_FLOAT64 ? ((const double *)x->inputs->data)[i]
                                        : (double)((const float *)x->inputs
                                                       ->data)[i];
}
/* The logarithms of the probabilities of all classes at a time. */
void td_ctc_log_softmax(const td_ctc *x, int64_t t, int64_t row, double *y);
/* log(exp(a) + exp(b)) */
static inline double td_ctc_log_add(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  return low == -INFINITY ? high : high + log1p(exp(low - high));
}
/* Element i of a float or double result. */
void td_ctc_put(td_tensor *t, int64_t i, double value);

/* The first of n errors, or NULL; the others are let go. */
td_status *td_ctc_first_error(td_status **errors, int64_t n) TD_MUST_USE;

/* The classes that came out of a row of the batch. */
typedef struct td_ctc_sequence {
  int64_t *classes;
  int64_t n;
} td_ctc_sequence;

/* Makes a sparse tensor of the rows' sequences: indices, values and shape are
 * outputs i, i + each and i + 2 each. */
td_status *td_ctc_write(td_kernel_ctx *c, int i, int each, int64_t batch,
                        const td_ctc_sequence *rows) TD_MUST_USE;

TD_END
#endif
