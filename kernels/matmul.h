/* matmul.h - what is checked and found out of a product of matrices before it
 * is computed, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MATMUL_H
#define TD_MATMUL_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Do the axes before the last two have to be equal, or may they broadcast? */
typedef enum td_matmul_form {
  TD_MATMUL_PLAIN, /* there are none; attributes are transpose_a and _b */
  TD_MATMUL_EQUAL, /* adj_x and adj_y */
  TD_MATMUL_BROADCAST
} td_matmul_form;

typedef struct td_matmul {
  td_shape out;
  int64_t batch, m, n, k; /* `batch` results of m x n, sums of k */
  bool trans_a, trans_b, conj_a, conj_b;
} td_matmul;

/* Of the inputs of a kernel. */
td_status *td_matmul_of(const td_kernel_ctx *c, td_matmul_form form,
                        td_matmul *p) TD_MUST_USE;

TD_END
#endif
