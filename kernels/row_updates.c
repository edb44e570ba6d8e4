/* row_updates.c - updates of rows that may come more than once.
 *
 * A row belongs to one of a few classes by its low bits, and each class is one
 * piece of work that looks through all indices for its own. So the order of
 * updates of a row does not depend on threads, and no row is written by two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/row_updates.h"

#include "kernels/cpu.h"

enum { CLASSES = 16 };

bool td_row_updates_sees(const td_kernel_ctx *c, const td_tensor *t) {
  return t->buffer &&
         (t->buffer->allocator->touchable || c->kernel->device->map);
}

td_status *td_row_updates_check(const td_kernel_ctx *c,
                                const td_tensor *indices, int64_t rows) {
  int64_t n = td_tensor_count(indices);
  if (n == 0 || !td_row_updates_sees(c, indices)) return NULL;
  for (int64_t i = 0; i < n; i++) {
    int64_t row = td_row_updates_index(indices, i);
    if (TD_UNLIKELY(row < 0 || row >= rows))
      return td_error(TD_INVALID_ARGUMENT,
                      "index %lld is %lld, not in [0, %lld)", (long long)i,
                      (long long)row, (long long)rows);
  }
  return NULL;
}

typedef struct job {
  const td_tensor *indices;
  int64_t n, classes;
  td_row_update fn;
  void *arg;
} job;

static void run_class(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t k = begin; k < end; k++)
    for (int64_t i = 0; i < j->n; i++) {
      int64_t row = td_row_updates_index(j->indices, i);
      if ((row & (j->classes - 1)) == k) j->fn(j->arg, i, row);
    }
}

void td_row_updates_run(const td_kernel_ctx *c, const td_tensor *indices,
                        int64_t each, td_row_update fn, void *arg) {
  job j = {.indices = indices,
           .n = td_tensor_count(indices),
           .classes = 1,
           .fn = fn,
           .arg = arg};
  int64_t pieces = j.n / td_grain_of(each);
  while (j.classes < CLASSES && j.classes * 2 <= pieces) j.classes *= 2;
  td_for(c, j.classes, 1, run_class, &j);
}
