/* history.c - what was typed before, and the way through it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/history.h"

#include <limits.h>
#include <string.h>

#include "engine/base/mem.h"

void td_edit_history_init(td_edit_history *h) {
  *h = (td_edit_history){.before = INT_MAX};
  td_str_init(&h->draft);
  td_str_init(&h->prefix);
}

void td_edit_history_deinit(td_edit_history *h) {
  for (size_t i = 0; i < h->entries.len; i++) td_free(h->entries.at[i]);
  td_vec_free(&h->entries);
  td_str_deinit(&h->draft);
  td_str_deinit(&h->prefix);
}

/* A copy in the last place, which is not that of `neighbour`; false: none. */
static bool push(td_edit_history *h, size_t neighbour, const char *text,
                 size_t len) {
  if (!len || strlen(text) < len) return false;
  if (h->entries.len) {
    const char *next = h->entries.at[neighbour];
    if (strlen(next) == len && !memcmp(next, text, len)) return false;
  }
  char *copy = td_strndup(text, len);
  if (!copy) return false;
  if (td_vec_push(&h->entries, copy)) return true;
  td_free(copy);
  return false;
}

void td_edit_history_add(td_edit_history *h, const char *text, size_t len) {
  if (push(h, h->entries.len - 1, text, len)) h->at = h->entries.len;
}

void td_edit_history_add_older(td_edit_history *h, const char *text,
                               size_t len) {
  if (!push(h, 0, text, len)) return;
  char **at = h->entries.at, *oldest = at[h->entries.len - 1];
  memmove(at + 1, at, (h->entries.len - 1) * sizeof *at);
  at[0] = oldest;
  h->at++;
}

/* ---- walking ---- */

static void copy(td_str *to, const char *text, size_t len) {
  td_str_clear(to);
  td_str_addn(to, text, len);
}

static bool fits(const td_edit_history *h, size_t i, const td_str *shown) {
  const char *e = h->entries.at[i];
  return !strncmp(e, td_str_c(&h->prefix), h->prefix.len) &&
         strcmp(e, td_str_c(shown)) != 0;
}

const char *td_edit_history_older(td_edit_history *h, const td_str *shown,
                                  size_t cursor) {
  if (h->at == h->entries.len) {
    copy(&h->draft, td_str_c(shown), shown->len);
    copy(&h->prefix, td_str_c(shown), cursor);
    h->draft_cursor = cursor;
  }
  if (h->draft.failed || h->prefix.failed) return NULL;
  for (size_t i = h->at; i-- > 0;)
    if (fits(h, i, shown)) {
      h->at = i;
      return h->entries.at[i];
    }
  return NULL;
}

const char *td_edit_history_newer(td_edit_history *h, const td_str *shown,
                                  size_t *cursor) {
  *cursor = SIZE_MAX;
  if (h->at == h->entries.len) return NULL;
  for (size_t i = h->at + 1; i < h->entries.len; i++)
    if (fits(h, i, shown)) {
      h->at = i;
      return h->entries.at[i];
    }
  h->at = h->entries.len;
  *cursor = h->draft_cursor;
  return td_str_c(&h->draft);
}

void td_edit_history_leave(td_edit_history *h) {
  h->at = h->entries.len;
}

const char *td_edit_history_suggest(const td_edit_history *h,
                                    const td_str *text) {
  if (!text->len) return NULL;
  for (size_t i = h->entries.len; i-- > 0;) {
    const char *e = h->entries.at[i];
    if (!strncmp(e, td_str_c(text), text->len) && e[text->len]) return e;
  }
  return NULL;
}
