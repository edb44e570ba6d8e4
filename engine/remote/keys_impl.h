/* keys_impl.h - what the files of keys share: lines with a key each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KEYS_IMPL_H
#define TD_KEYS_IMPL_H

#include "engine/remote/keys.h"

/* Walks over the lines of a text that say something: not those that are empty
 * or begin with #. */
typedef struct td_keys_line {
  const char *at, *end; /* what is left of the text */
  int number;           /* of this line, from 1 */
  td_bytes word, rest;  /* of this line; `rest` without blanks around it */
} td_keys_line;

/* The next one; false at the end. Bytes are borrowed from the text, and no NUL
 * follows them. */
bool td_keys_next_line(td_keys_line *l);
/* The key that the line begins with. `what` is the text, for messages, which
 * never hold what may be a secret. */
td_status *td_keys_of_line(const td_keys_line *l, const char *what,
                           td_keys_key *out) TD_MUST_USE;

/* Who this process is, for td_keys_owner_gone; "" where that is not known. */
void td_keys_owner_text(td_str *out);
/* Has the process that this text tells of ended? False where nobody can say. */
bool td_keys_owner_gone(const char *text);

#endif
