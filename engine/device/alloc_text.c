/* alloc_text.c - sizes and names of blocks, for people. See alloc_text.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/alloc_text.h"

#include <string.h>

void td_alloc_rank(void *ranking, size_t size, const char *tag) {
  td_alloc_ranking *r = ranking;
  if (r->n == r->cap && (r->cap == 0 || r->at[r->n - 1].size >= size)) return;
  size_t i = r->n < r->cap ? r->n++ : r->n - 1;
  for (; i > 0 && r->at[i - 1].size < size; i--) {
    r->at[i] = r->at[i - 1];
    if (r->of) r->of[i] = r->of[i - 1];
  }
  r->at[i].size = size;
  memcpy(r->at[i].tag, tag, sizeof r->at[i].tag);
  if (r->of) r->of[i] = r->now;
}

void td_alloc_add_size(td_str *s, size_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  unsigned u = 0;
  double v = (double)bytes;
  for (; v >= 1024 && u + 1 < TD_COUNT(units); u++) v /= 1024;
  td_str_addf(s, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

void td_alloc_add_largest(td_str *s, const td_alloc_ranking *r) {
  for (size_t i = 0; i < r->n; i++) {
    const char *tag = r->at[i].tag;
    td_str_addf(s, "%s%s ",
                i ? ", " : "; the largest: ", tag[0] ? tag : "(unnamed)");
    td_alloc_add_size(s, r->at[i].size);
    if (r->of) td_str_addf(s, " (%s)", r->of[i]);
  }
}

td_status *td_alloc_refused(td_str *s) {
  td_status *st =
      s->failed ? td_oom() : td_error(TD_RESOURCE_EXHAUSTED, "%s", td_str_c(s));
  td_str_deinit(s);
  return st;
}
