/* row_gather.c - rows copied by number; see row_gather.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/row_gather.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/array.h"

typedef struct copy {
  const char *from;
  char *to;
  const int64_t *rows;
  size_t bytes;
} copy;

static void copy_rows(void *arg, int64_t begin, int64_t end) {
  const copy *c = arg;
  for (int64_t i = begin; i < end; i++) {
    char *to = c->to + (size_t)i * c->bytes;
    if (c->rows[i] < 0)
      memset(to, 0, c->bytes);
    else
      memcpy(to, c->from + (size_t)c->rows[i] * c->bytes, c->bytes);
  }
}

void td_row_gather(const td_kernel_ctx *c, const void *from,
                   const int64_t *rows, int64_t n, size_t bytes, void *to) {
  copy job = {.from = from, .to = to, .rows = rows, .bytes = bytes};
  if (bytes == 0) return;
  td_for(c, n, td_grain_of((int64_t)(bytes / 4)), copy_rows, &job);
}

td_status *td_row_gather_kernel(td_kernel_ctx *c, int in, const int64_t *rows,
                                int64_t n, const td_shape *shape) {
  td_array x = {0}, y = {0};
  td_status *s = td_array_in(td_in(c, in), &x);
  if (td_ok(s)) s = td_array_out(c, 0, shape, &y);
  int64_t count = td_ok(s) ? td_shape_count(shape) : 0;
  if (count > 0)
    td_row_gather(c, x.at, rows, n, (size_t)(count / n) * x.size, y.at);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}
