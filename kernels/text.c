/* text.c - string tensors, string by string.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text.h"

#include <string.h>

#include "engine/base/mem.h"

bool td_text_reserve(td_text *t, int64_t count) {
  size_t bytes;
  if (count <= t->room) return true;
  uint64_t *ends = NULL;
  if (td_mul((size_t)count, sizeof *ends, &bytes))
    ends = td_realloc(t->ends, bytes);
  if (!ends) {
    t->failed = true;
    return false;
  }
  t->ends = ends;
  t->room = count;
  return true;
}

void td_text_end(td_text *t) {
  bool room = t->count < t->room || td_text_reserve(t, 2 * t->count + 16);
  if (room && !t->failed && !t->all.failed) t->ends[t->count++] = t->all.len;
  t->failed |= t->all.failed;
}

td_status *td_text_out(td_kernel_ctx *c, int i, const td_shape *shape,
                       const td_text *t) {
  uint64_t *offsets;
  char *text;
  td_tensor y;
  if (t->failed || t->all.failed) return td_oom();
  TD_TRY(td_tensor_strings_new(shape, t->all.len, &y, &offsets, &text));
  if (t->all.len) memcpy(text, t->all.at, t->all.len);
  for (int64_t k = 0; k < t->count; k++)
    offsets[k + 1] = offsets[0] + t->ends[k];
  td_out_set(c, i, &y);
  td_tensor_release(&y);
  return NULL;
}

void td_text_drop(td_text *t) {
  td_str_deinit(&t->all);
  td_free(t->ends);
}

void td_text_append(td_text *t, const td_text *from) {
  size_t before = t->all.len;
  t->failed |= from->failed || from->all.failed;
  if (t->failed || !td_text_reserve(t, t->count + from->count)) return;
  td_str_addn(&t->all, td_str_c(&from->all), from->all.len);
  for (int64_t i = 0; i < from->count; i++)
    t->ends[t->count++] = before + from->ends[i];
}

td_bytes td_text_at(const td_tensor *t, int64_t i) {
  td_bytes s;
  s.at = td_tensor_str(t, i, &s.len);
  return s;
}

td_status *td_text_map(td_kernel_ctx *c, td_text_fn fn, const void *arg) {
  const td_tensor *x = td_in(c, 0);
  td_text t = {0};
  td_status *s = NULL;
  int64_t count = td_tensor_count(x);
  if (!td_text_reserve(&t, count)) return td_oom();
  for (int64_t i = 0; i < count && td_ok(s); i++) {
    s = fn(arg, td_text_at(x, i), &t.all);
    td_text_end(&t);
  }
  if (td_ok(s)) s = td_text_out(c, 0, &x->shape, &t);
  td_text_drop(&t);
  return s;
}

td_bytes td_text_strip(td_bytes s) {
  while (s.len && td_text_space(s.at[0])) s.at++, s.len--;
  while (s.len && td_text_space(s.at[s.len - 1])) s.len--;
  return s;
}
