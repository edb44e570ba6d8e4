/* members.c - who takes part in a session, and whose devices are whose.
 *
 * A device is marked as gone under the list's lock, after the reason is noted:
 * who sees the mark finds the reason, or nobody who has the device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/members.h"

#include "engine/base/mem.h"

/* ---- a member ------------------------------------------------------------ */

td_status *td_members_entry_new(td_participant *who, td_device *const *devices,
                                int n, int more, td_members_entry **out) {
  size_t room = (size_t)n + (size_t)more;
  td_members_entry *of = td_calloc(1, sizeof *of + room * sizeof of->at[0]);
  if (!of) return td_oom();
  of->who = td_participant_retain(who);
  for (; of->n < n; of->n++)
    of->at[of->n].device = td_device_retain(devices[of->n]);
  *out = of;
  return NULL;
}

void td_members_entry_add_lost(td_members_entry *of, td_device *d,
                               td_status *why) {
  of->at[of->n++] = (td_members_device_entry){.device = td_device_retain(d),
                                              .why = td_status_retain(why)};
}

void td_members_entry_free(td_members_entry *of) {
  if (!of) return;
  for (int i = 0; i < of->n; i++) {
    td_status_release(of->at[i].why);
    td_device_release(of->at[i].device);
  }
  td_status_release(of->lost);
  td_participant_release(of->who);
  td_free(of);
}

/* ---- the list ------------------------------------------------------------ */

void td_members_init(td_members *m) {
  *m = (td_members){0};
  pthread_mutex_init(&m->lock, NULL);
}

void td_members_deinit(td_members *m) {
  for (td_members_entry *of; (of = m->first);) {
    m->first = of->next;
    td_members_entry_free(of);
  }
  pthread_mutex_destroy(&m->lock);
}

/* Under the lock: where it is linked, or where the list ends. */
static td_members_entry **place_of(td_members *m, const td_participant *who) {
  td_members_entry **at = &m->first;
  while (*at && (*at)->who != who) at = &(*at)->next;
  return at;
}

static void mark_gone(td_device *d) {
  __atomic_store_n(&d->gone, 1, __ATOMIC_SEQ_CST);
}

bool td_members_add(td_members *m, td_members_entry *of) {
  pthread_mutex_lock(&m->lock);
  bool open = !m->closed;
  if (open) {
    of->number = ++m->number;
    *place_of(m, NULL) = of;
  }
  pthread_mutex_unlock(&m->lock);
  return open;
}

const td_members_entry *td_members_find(td_members *m,
                                        const td_participant *who) {
  pthread_mutex_lock(&m->lock);
  const td_members_entry *of = *place_of(m, who);
  pthread_mutex_unlock(&m->lock);
  return of;
}

/* `fresh` comes in its place; NULL: nobody does. */
static td_members_entry *take(td_members *m, const td_participant *who,
                              td_members_entry *fresh) {
  pthread_mutex_lock(&m->lock);
  td_members_entry **at = place_of(m, who), *of = m->closed ? NULL : *at;
  for (int i = 0; of && i < of->n; i++) mark_gone(of->at[i].device);
  if (of && fresh) {
    fresh->number = of->number;
    fresh->next = of->next;
  }
  if (of) *at = fresh ? fresh : of->next;
  pthread_mutex_unlock(&m->lock);
  return of;
}

td_members_entry *td_members_take(td_members *m, const td_participant *who) {
  return take(m, who, NULL);
}

td_members_entry *td_members_swap(td_members *m, const td_participant *was,
                                  td_members_entry *fresh) {
  return take(m, was, fresh);
}

bool td_members_lose(td_members *m, const td_participant *who, td_status *why) {
  pthread_mutex_lock(&m->lock);
  td_members_entry *of = *place_of(m, who);
  for (int i = 0; of && i < of->n; i++) {
    if (!of->at[i].why) of->at[i].why = td_status_retain(why);
    mark_gone(of->at[i].device);
  }
  if (of) {
    if (!of->lost) of->lost = td_status_retain(why);
    __atomic_fetch_add(&m->losses, 1, __ATOMIC_ACQ_REL);
  }
  pthread_mutex_unlock(&m->lock);
  return of != NULL;
}

/* ---- looking ------------------------------------------------------------- */

td_participant *td_members_here(const td_members *m) {
  return m->first->who;
}

/* Under the lock: who has it, with its place there. */
static td_members_entry *owner_of(td_members *m, const td_device *d, int *i) {
  for (td_members_entry *of = m->first; of; of = of->next)
    for (*i = 0; *i < of->n; ++*i)
      if (of->at[*i].device == d) return of;
  return NULL;
}

td_participant *td_members_of(td_members *m, const td_device *d) {
  int i;
  pthread_mutex_lock(&m->lock);
  td_members_entry *of = owner_of(m, d, &i);
  if (!of) of = m->first;
  td_participant *who =
      td_device_gone(d) ? NULL : td_participant_retain(of->who);
  pthread_mutex_unlock(&m->lock);
  return who;
}

bool td_members_has(td_members *m, const td_device *d, td_status **why) {
  int i;
  pthread_mutex_lock(&m->lock);
  td_members_entry *of = owner_of(m, d, &i);
  *why = of ? td_status_retain(of->at[i].why) : NULL;
  pthread_mutex_unlock(&m->lock);
  return of != NULL;
}

td_device *td_members_device(td_members *m, const td_participant *who, int i) {
  pthread_mutex_lock(&m->lock);
  td_members_entry *of = *place_of(m, who);
  td_device *d = of && i < of->n ? td_device_retain(of->at[i].device) : NULL;
  pthread_mutex_unlock(&m->lock);
  return d;
}

td_participant *td_members_next(td_members *m, uint64_t *number,
                                td_status **lost) {
  td_participant *who = NULL;
  pthread_mutex_lock(&m->lock);
  td_members_entry *of = m->first;
  while (of && (of->number <= *number || (of->lost && !lost))) of = of->next;
  if (of) {
    *number = of->number;
    who = td_participant_retain(of->who);
    if (lost) *lost = td_status_retain(of->lost);
  }
  pthread_mutex_unlock(&m->lock);
  return who;
}

td_participant *td_members_close(td_members *m) {
  td_participant *who = NULL;
  pthread_mutex_lock(&m->lock);
  m->closed = true;
  td_members_entry *of = m->first;
  while (of && of->closed) of = of->next;
  if (of) {
    of->closed = true;
    who = td_participant_retain(of->who);
  }
  pthread_mutex_unlock(&m->lock);
  return who;
}
