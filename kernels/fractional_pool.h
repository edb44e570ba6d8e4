/* fractional_pool.h - the windows of fractional pooling, for it and its
 * gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FRACTIONAL_POOL_H
#define TD_FRACTIONAL_POOL_H

#include "engine/device/kernel.h"
#include "kernels/element.h"

typedef struct td_fractional {
  const void *x; /* {batch, height, width, depth} */
  int64_t height, width, depth;
  int64_t rows, cols;             /* windows */
  const int64_t *row_at, *col_at; /* where each begins, and the end */
  bool overlapping;
} td_fractional;

/* Cells [row[0], row[1]) x [col[0], col[1]) of an image. */
typedef struct td_fractional_box {
  int64_t image, row[2], col[2];
} td_fractional_box;

/* From the shape of what is pooled and the sequences, which are checked: they
 * ascend within it. */
td_status *td_fractional_of(td_fractional *f, const td_shape *in,
                            const td_tensor *row_at, const td_tensor *col_at,
                            bool overlapping) TD_MUST_USE;

static inline td_fractional_box td_fractional_window(const td_fractional *f,
                                                     int64_t image, int64_t row,
                                                     int64_t col) {
  int64_t more = f->overlapping;
  int64_t bottom = f->row_at[row + 1] + more, right = f->col_at[col + 1] + more;
  return (td_fractional_box){
      .image = image,
      .row = {f->row_at[row], bottom < f->height ? bottom : f->height},
      .col = {f->col_at[col], right < f->width ? right : f->width}};
}

/* The first element of a cell. */
static inline int64_t td_fractional_cell(const td_fractional *f,
                                         const td_fractional_box *b,
                                         int64_t row, int64_t col) {
  return ((b->image * f->height + row) * f->width + col) * f->depth;
}

#endif
