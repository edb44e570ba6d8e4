/* nearest.c - the nearest of several words.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/nearest.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

enum { MAX_WORD = 64 };

static int least(int a, int b) {
  return a < b ? a : b;
}

/* Optimal string alignment (insertions, deletions, changes, swaps): three rows
 * of the table of Damerau's distance. INT_MAX for words over 64 bytes. */
static int distance(const char *a, const char *b) {
  int rows[3][MAX_WORD + 1];
  size_t la = strnlen(a, MAX_WORD + 1), lb = strnlen(b, MAX_WORD + 1);
  if (la > MAX_WORD || lb > MAX_WORD) return INT_MAX;
  for (size_t j = 0; j <= lb; j++) rows[0][j] = (int)j;
  for (size_t i = 1; i <= la; i++) {
    int *now = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
    now[0] = (int)i;
    for (size_t j = 1; j <= lb; j++) {
      int d = up[j - 1] + (a[i - 1] != b[j - 1]);
      d = least(d, least(up[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d = least(d, up2[j - 2] + 1);
      now[j] = d;
    }
  }
  return rows[la % 3][lb];
}

td_nearest td_nearest_to(const char *word) {
  size_t len = strlen(word);
  int limit = len < 4 ? 2 : len < 9 ? 3 : (int)(len < 64 ? len / 3 : 22) + 1;
  return (td_nearest){.word = word, .len = len, .distance = limit};
}

void td_nearest_try(td_nearest *n, const char *candidate) {
  size_t len = strlen(candidate);
  size_t gap = len > n->len ? len - n->len : n->len - len;
  if (gap >= (size_t)n->distance) return;
  int d =
      strcasecmp(n->word, candidate) == 0 ? 0 : distance(n->word, candidate);
  if (d >= n->distance) return;
  n->distance = d;
  n->best = candidate;
}

const char *td_nearest_hint(const td_nearest *n, td_hint *hint) {
  hint->text[0] = '\0';
  if (n->best && strlen(n->best) < 100) {
    char *p = stpcpy(hint->text, " (did you mean \"");
    stpcpy(stpcpy(p, n->best), "\"?)");
  }
  return hint->text;
}
