/* nearest_impl.h - the word somebody probably meant, for messages.
 *
 * Inside engine/graph only: operation types, attributes and nodes are offered
 * the same way.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NEAREST_H
#define TD_NEAREST_H

#include <string.h>

#include "engine/base/str.h"

typedef struct td_nearest {
  const char *word; /* as it was written */
  size_t len;
  const char *best; /* the nearest so far, or NULL */
  int distance;     /* below this a word is near enough */
} td_nearest;

static inline td_nearest td_nearest_to(const char *word) {
  size_t len = strlen(word);
  int limit = len < 4 ? 2 : len < 9 ? 3 : (int)(len < 64 ? len / 3 : 22) + 1;
  return (td_nearest){.word = word, .len = len, .distance = limit};
}

static inline void td_nearest_try(td_nearest *n, const char *candidate) {
  size_t len = strlen(candidate);
  size_t gap = len > n->len ? len - n->len : n->len - len;
  if (gap >= (size_t)n->distance) return;
  int d = strcasecmp(n->word, candidate) == 0
              ? 0
              : td_str_distance(n->word, candidate);
  if (d >= n->distance) return;
  n->distance = d;
  n->best = candidate;
}

/* " (did you mean \"x\"?)" or "". */
typedef struct td_hint {
  char text[128];
} td_hint;

static inline const char *td_nearest_hint(const td_nearest *n, td_hint *hint) {
  hint->text[0] = '\0';
  if (n->best && strlen(n->best) < 100) {
    char *p = stpcpy(hint->text, " (did you mean \"");
    stpcpy(stpcpy(p, n->best), "\"?)");
  }
  return hint->text;
}

#endif
