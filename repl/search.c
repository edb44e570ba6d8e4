/* search.c - incremental search in the history (^R, ^S).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/search.h"

#include <string.h>

#include "repl/text.h"

void td_edit_search_init(td_edit_search *s) {
  *s = (td_edit_search){0};
  td_str_init(&s->query);
}

void td_edit_search_deinit(td_edit_search *s) {
  td_str_deinit(&s->query);
}

void td_edit_search_begin(td_edit_search *s, const td_edit_history *h) {
  s->active = true;
  s->failed = false;
  s->at = h->entries.len;
  s->found = 0;
  td_str_clear(&s->query);
}

/* The last place of the query: there the cursor is nearest to the end. */
static const char *last_in(const char *entry, const td_str *query) {
  const char *last = NULL;
  for (const char *p = entry; (p = strstr(p, td_str_c(query))); p++) last = p;
  return last;
}

static const char *look_at(td_edit_search *s, const td_edit_history *h,
                           size_t i) {
  const char *entry = h->entries.at[i], *place = last_in(entry, &s->query);
  if (!place) return NULL;
  s->at = i;
  s->found = (size_t)(place - entry);
  s->failed = false;
  return entry;
}

/* From entry `from` - 1 down. One that equals the text shown is passed over
 * when `other` is wanted. */
static const char *down(td_edit_search *s, const td_edit_history *h,
                        size_t from, bool other) {
  const char *now = s->at < h->entries.len ? h->entries.at[s->at] : NULL;
  if (!s->query.len) return NULL;
  for (size_t i = from; i-- > 0;) {
    if (other && now && !strcmp(h->entries.at[i], now)) continue;
    const char *entry = look_at(s, h, i);
    if (entry) return entry;
  }
  s->failed = true;
  return NULL;
}

const char *td_edit_search_add(td_edit_search *s, const td_edit_history *h,
                               const char *text, size_t len) {
  td_str_addn(&s->query, text, len);
  size_t n = h->entries.len;
  return down(s, h, s->at < n ? s->at + 1 : n, false);
}

const char *td_edit_search_shorten(td_edit_search *s,
                                   const td_edit_history *h) {
  td_str *q = &s->query;
  if (!q->len) return NULL;
  q->len = td_edit_text_prev(td_str_c(q), q->len, q->len);
  q->at[q->len] = '\0';
  s->failed = false;
  return down(s, h, h->entries.len, false);
}

const char *td_edit_search_older(td_edit_search *s, const td_edit_history *h) {
  return down(s, h, s->at, true);
}

const char *td_edit_search_newer(td_edit_search *s, const td_edit_history *h) {
  if (!s->query.len) return NULL;
  for (size_t i = s->at + 1; i < h->entries.len; i++) {
    if (!strcmp(h->entries.at[i], h->entries.at[s->at])) continue;
    const char *entry = look_at(s, h, i);
    if (entry) return entry;
  }
  s->failed = true;
  return NULL;
}
