/* batch_norm.h - the loops of batch normalisation, and how a tensor is seen by
 * them.
 *
 * Loops go over lines of lanes; a lane belongs to one channel. With the
 * channels last a line is a row of channels, or several rows where there are
 * few: with 3 channels the lanes of a line are 0 1 2 0 1 2 .... With the
 * channels first the elements of one channel are divided into lines of LINE
 * lanes, all of that channel. What belongs to a channel, such as its mean and
 * scale, is given once for each lane of a line. Lines are summed in pieces, the
 * same for any number of threads, whose totals are added in order, in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BATCH_NORM_H
#define TD_BATCH_NORM_H

#include "kernels/cpu.h"

TD_BEGIN

enum { TD_BATCH_NORM_LINE = 64 };

/* n lines of `width` lanes, one after the other. */
typedef struct td_batch_norm_loops {
  /* sum += x */
  void (*sum)(int64_t n, int64_t width, const float *x, float *sum);
  /* sum += (x - mean)^2 */
  void (*squares)(int64_t n, int64_t width, const float *x, const float *mean,
                  float *sum);
  /* sum += dy, dot += dy (x - mean) */
  void (*dots)(int64_t n, int64_t width, const float *dy, const float *x,
               const float *mean, float *sum, float *dot);
  /* y = (x - mean) scale + offset */
  void (*apply)(int64_t n, int64_t width, const float *x, const float *mean,
                const float *scale, const float *offset, float *y);
  /* dx = scale (dy - shift - (x - mean) slope) */
  void (*back)(int64_t n, int64_t width, const float *dy, const float *x,
               const float *mean, const float *scale, const float *shift,
               const float *slope, float *dx);
} td_batch_norm_loops;

extern const td_batch_norm_loops td_batch_norm_scalar, td_batch_norm_avx2,
    td_batch_norm_avx512;
const td_batch_norm_loops *td_batch_norm_loops_of(td_isa isa);

/* A tensor as {outer, channels, inner}; channels last: inner is 1. */
typedef struct td_batch_norm_view {
  int64_t outer, channels, inner;
} td_batch_norm_view;

/* What is kept for each channel, and how a lane finds it. */
enum { TD_BATCH_NORM_FIELDS = 4 };
typedef struct td_batch_norm {
  const td_batch_norm_loops *loops;
  td_batch_norm_view v;
  const float *x, *dy;
  float *to;
  double *sum[2];                    /* totals of each channel */
  float *lane[TD_BATCH_NORM_FIELDS]; /* of a line; channels first: of all */
  int64_t width;                     /* lanes of a whole line */
  td_tensor memory;
} td_batch_norm;

/* Takes working memory; end it with td_batch_norm_end. */
td_status *td_batch_norm_begin(td_kernel_ctx *c, const td_batch_norm_view *v,
                               td_batch_norm *b) TD_MUST_USE;
void td_batch_norm_end(td_batch_norm *b);
/* Field k of a channel, for all its lanes. */
void td_batch_norm_set(td_batch_norm *b, int k, int64_t channel, float value);

/* Totals of channels into b->sum: of x; of (x - field 0)^2; of dy and
 * dy (x - field 0). */
td_status *td_batch_norm_sums(td_kernel_ctx *c, td_batch_norm *b) TD_MUST_USE;
td_status *td_batch_norm_squares(td_kernel_ctx *c,
                                 td_batch_norm *b) TD_MUST_USE;
td_status *td_batch_norm_dots(td_kernel_ctx *c, td_batch_norm *b) TD_MUST_USE;
/* to = (x - field 0) field 1 + field 2;
 * to = field 1 (dy - field 2 - (x - field 0) field 3) */
void td_batch_norm_apply(td_kernel_ctx *c, td_batch_norm *b);
void td_batch_norm_back(td_kernel_ctx *c, td_batch_norm *b);

TD_END
#endif
