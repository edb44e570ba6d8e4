/* nearest.h - the word somebody probably meant, for "did you mean".
 *
 *   td_nearest near = td_nearest_to("sofmax");
 *   for (int i = 0; i < n; i++) td_nearest_try(&near, names[i]);
 *   if (near.best) ...
 *
 * Near is what differs by few letters (put in, left out, changed or swapped): 1
 * in a word of up to 3 letters, 2 up to 8, a third of a longer one; or only in
 * upper and lower case. Of equally near words the first is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NEAREST_H
#define TD_NEAREST_H

#include "engine/base/base.h"

TD_BEGIN

typedef struct td_nearest {
  const char *word; /* as it was written */
  size_t len;
  const char *best; /* the nearest so far, or NULL. Borrowed */
  int distance;     /* below this a word is near enough */
} td_nearest;

/* " (did you mean \"x\"?)" or "". */
typedef struct td_hint {
  char text[128];
} td_hint;

/* Borrows `word`. */
td_nearest td_nearest_to(const char *word);
/* Borrows `candidate` when it is nearer than those before. */
void td_nearest_try(td_nearest *n, const char *candidate);
/* The hint for an error message, written into `hint`. */
const char *td_nearest_hint(const td_nearest *n, td_hint *hint);

TD_END
#endif
