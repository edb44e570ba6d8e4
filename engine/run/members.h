/* members.h - who takes part in a session, and whose devices are whose.
 *
 * This process is a member as long as the session is there. Others join, leave,
 * are lost and come back while steps run and plans are made. A member is found
 * by its participant, a participant by a device.
 *
 * Who changes the list (session_members.c) holds the session's plan lock, so
 * that it changes between plans only. A loss is no change: it is noted at any
 * time, the devices are marked, the placer hears of it before the next plan.
 * The list's own lock is held for a look; nothing is called meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MEMBERS_H
#define TD_MEMBERS_H

#include <pthread.h>

#include "engine/run/participant.h"

typedef struct td_members_device_entry {
  td_device *device; /* retained */
  td_status *why;    /* the list's lock: why it is lost; NULL: it is there */
} td_members_device_entry;

typedef struct td_members_entry td_members_entry;
struct td_members_entry {
  td_participant *who; /* retained */
  uint64_t number;     /* the list's: grows from member to member */
  td_status *lost;     /* the list's lock: why; NULL: it is there */
  bool closed;         /* the list's lock: `who` was closed, or is being */
  td_members_entry *next;     /* the list's */
  int n;               /* of: */
  td_members_device_entry at[]; /* none for this process: its devices change */
};

/* Embedded in its session. */
typedef struct td_members {
  pthread_mutex_t lock;
  td_members_entry *first; /* lock: lock. This process */
  uint64_t number;  /* lock: lock. Of the last that came */
  bool closed;      /* lock: lock. Nobody comes any more */
  uint64_t losses;  /* atomic: grows with each */
} td_members;

void td_members_init(td_members *m);
void td_members_deinit(td_members *m); /* lets all participants go */

/* Retains participant and devices; has room for `more` devices. Caller owns the
 * result. */
td_status *td_members_entry_new(td_participant *who,
                                td_device *const *devices, int n, int more,
                                td_members_entry **out) TD_MUST_USE;
/* One more of its devices, which is lost, in the room that it has. Retains
 * both. */
void td_members_entry_add_lost(td_members_entry *of, td_device *d,
                               td_status *why);
void td_members_entry_free(td_members_entry *of);

/* Takes ownership of `of`; the first is this process. False: nobody comes any
 * more. */
bool td_members_add(td_members *m, td_members_entry *of) TD_MUST_USE;
/* The member, or NULL. Borrowed; valid under the plan lock. */
const td_members_entry *td_members_find(td_members *m,
                                        const td_participant *who);
/* Out of the list, with its devices marked as gone; NULL: it is not in it, or
 * all is closed. Caller owns the result. */
td_members_entry *td_members_take(td_members *m, const td_participant *who);
/* Puts `fresh` in the place of a member, which is returned as by take; then
 * `fresh` is the list's, else it is not. */
td_members_entry *td_members_swap(td_members *m, const td_participant *was,
                           td_members_entry *fresh);
/* Marks its devices as gone, for `why`, which those that are not lost already
 * retain. False: it is not in the list. */
bool td_members_lose(td_members *m, const td_participant *who, td_status *why);

/* This process. Borrowed; valid while the list is. */
td_participant *td_members_here(const td_members *m);
/* Who has the device, retained; NULL: nobody any more. */
td_participant *td_members_of(td_members *m, const td_device *d);
/* Is it a device of another member? *why, retained: why it is lost. */
bool td_members_has(td_members *m, const td_device *d, td_status **why);
/* Its device `i`, retained; NULL: it has no more. */
td_device *td_members_device(td_members *m, const td_participant *who, int i);
/* The member after the one that *number says (0: the first), retained, and its
 * number; NULL: that was the last. *lost, retained, says why it is lost; where
 * `lost` is NULL those that are lost are passed over. */
td_participant *td_members_next(td_members *m, uint64_t *number,
                                td_status **lost);
/* From now on nobody comes; one that is to be closed, retained, each once. */
td_participant *td_members_close(td_members *m);

#endif
