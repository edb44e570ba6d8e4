/* updates.c - displays that change, at a rate a browser can follow.
 *
 * Used by one thread alone, iopub's. A list of the displays used last holds for
 * each when the next message may go, and the one that waits for then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/updates.h"

#include <jansson.h>
#include <string.h>

#include "engine/base/mem.h"

enum { EVERY_NS = 100000000, MOST = 256 };

char *td_jupyter_updates_id(td_bytes content) {
  json_t *c = json_loadb(content.at, content.len, JSON_ALLOW_NUL, NULL);
  json_t *transient = json_object_get(c, "transient");
  const char *id = json_string_value(json_object_get(transient, "display_id"));
  char *own = id ? td_strdup(id) : NULL;
  json_decref(c);
  return own;
}

/* Forgets the display used longest ago that has nothing to send. */
static void forget_one(td_jupyter_updates *u) {
  td_jupyter_update **idle = NULL;
  for (td_jupyter_update **p = &u->first; *p; p = &(*p)->next)
    if (!(*p)->waits) idle = p;
  if (!idle) return;
  td_jupyter_update *d = *idle;
  *idle = d->next;
  u->n--;
  td_free(d->id);
  td_free(d);
}

/* The display, moved to the front; NULL when there is no memory. */
static td_jupyter_update *find(td_jupyter_updates *u, const char *id) {
  td_jupyter_update **p = &u->first;
  while (*p && strcmp((*p)->id, id)) p = &(*p)->next;
  td_jupyter_update *d = *p;
  if (d) {
    *p = d->next;
  } else {
    if (u->n >= MOST) forget_one(u);
    d = td_calloc(1, sizeof *d);
    char *own = td_strdup(id);
    if (!d || !own) {
      td_free(d);
      td_free(own);
      return NULL;
    }
    d->id = own;
    u->n++;
  }
  d->next = u->first;
  u->first = d;
  return d;
}

bool td_jupyter_updates_admit(td_jupyter_updates *u, const char *id,
                              bool update, int64_t now, void *message,
                              void **instead) {
  td_jupyter_update *d = find(u, id);
  *instead = NULL;
  if (!d) return true;
  bool at_once = !update || (now >= d->free && !d->waits);
  *instead = d->waits;
  d->waits = at_once ? NULL : message;
  if (at_once) d->free = now + EVERY_NS;
  return at_once;
}

int64_t td_jupyter_updates_send(td_jupyter_updates *u, int64_t now, bool all,
                                td_jupyter_updates_sink *send, void *arg) {
  int64_t soonest = -1;
  for (td_jupyter_update *d = u->first; d; d = d->next) {
    if (!d->waits) continue;
    if (all || now >= d->free) {
      void *message = d->waits;
      d->waits = NULL;
      d->free = now + EVERY_NS;
      send(arg, message);
    } else if (soonest < 0 || d->free - now < soonest) {
      soonest = d->free - now;
    }
  }
  return soonest;
}

void td_jupyter_updates_deinit(td_jupyter_updates *u) {
  for (td_jupyter_update *d = u->first, *next; d; d = next) {
    next = d->next;
    td_free(d->id);
    td_free(d);
  }
}
