/* binary_string.c - the element-wise ops that take text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/binary.h"

#include <string.h>

#include "engine/base/mem.h"

typedef struct text {
  const char *at;
  size_t len;
} text;

static text text_at(const td_tensor *t, const td_broadcast *plan, int k,
                    int64_t i) {
  text s;
  int64_t from = plan->dense[k] ? i : td_broadcast_index(plan, k, i);
  s.at = td_tensor_str(t, from, &s.len);
  return s;
}

static td_status *total_length(const td_tensor *x, const td_tensor *y,
                               const td_broadcast *plan, size_t *total) {
  *total = 0;
  for (int64_t i = 0; i < plan->count; i++)
    if (!td_add(*total, text_at(x, plan, 0, i).len, total) ||
        !td_add(*total, text_at(y, plan, 1, i).len, total))
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "the joined strings are longer than memory");
  return NULL;
}

td_status *td_binary_join(const td_tensor *x, const td_tensor *y,
                          const td_broadcast *plan, const td_shape *shape,
                          td_tensor *out) {
  size_t total;
  uint64_t *offsets;
  char *to;
  TD_TRY(total_length(x, y, plan, &total));
  TD_TRY(td_tensor_strings_new(shape, total, out, &offsets, &to));
  for (int64_t i = 0; i < plan->count; i++) {
    text a = text_at(x, plan, 0, i), b = text_at(y, plan, 1, i);
    memcpy(to, a.at, a.len);
    memcpy(to + a.len, b.at, b.len);
    to += a.len + b.len;
    offsets[i + 1] = offsets[i] + a.len + b.len;
  }
  return NULL;
}

void td_binary_same(const td_tensor *x, const td_tensor *y,
                    const td_broadcast *plan, bool want, td_tensor *out) {
  uint8_t *to = out->data;
  for (int64_t i = 0; i < plan->count; i++) {
    text a = text_at(x, plan, 0, i), b = text_at(y, plan, 1, i);
    bool equal = a.len == b.len && !memcmp(a.at, b.at, a.len);
    to[i] = equal == want;
  }
}
