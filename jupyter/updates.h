/* updates.h - displays that change, at a rate a browser can follow.
 *
 * A server drops everything above a thousand messages a second, and people see
 * ten. Of the update_display_data of one display that come within a tenth of a
 * second only the last is sent; the last of all always is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_UPDATES_H
#define TD_JUPYTER_UPDATES_H

#include "jupyter/wire.h"

/* A message that waits. */
typedef void td_jupyter_updates_sink(void *arg, void *message);

typedef struct td_jupyter_update {
  struct td_jupyter_update *next;
  char *id;     /* of the display */
  int64_t free; /* ns: when the next may go */
  void *waits;  /* the last message, or NULL */
} td_jupyter_update;

typedef struct td_jupyter_updates {
  td_jupyter_update *first; /* the latest used one first */
  int n;
} td_jupyter_updates;

/* The display_id in a message's content; NULL: none. Caller owns it. */
char *td_jupyter_updates_id(td_bytes content);
/* A message of display `id` is there; may it go at once? Else it waits, and
 * *instead is the one it takes the place of (or NULL), for the caller to drop.
 */
bool td_jupyter_updates_admit(td_jupyter_updates *u, const char *id,
                              bool update, int64_t now, void *message,
                              void **instead);
/* Sends what is due (all that waits with `all`); ns until the next is, or -1.
 */
int64_t td_jupyter_updates_send(td_jupyter_updates *u, int64_t now, bool all,
                                td_jupyter_updates_sink *send, void *arg);
void td_jupyter_updates_deinit(td_jupyter_updates *u);

#endif
