/* session_members.c - participants that come, leave, are lost and come back.
 *
 * What a change touches, in this order: under the plan lock the placer and the
 * session's devices, and the list of members; then, without a lock, what was
 * planned and the steps that run. A plan that was made just before finds that
 * nobody has its device; a step that began just before is found, or finds the
 * device's mark (session_gone.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/session_members.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/run/session_devices.h"
#include "engine/run/session_impl.h"

/* ---- names --------------------------------------------------------------- */

static td_status *no_member(const td_participant *p) {
  return td_error(TD_NOT_FOUND, "%s takes no part in this session", p->task);
}

/* A device of `of` that is called so, or NULL. */
static td_device *named(const td_members_entry *of, const char *name) {
  for (int i = 0; of && i < of->n; i++)
    if (strcmp(of->at[i].device->name, name) == 0) return of->at[i].device;
  return NULL;
}

/* Under the plan lock. Only a device of `was` may have the name of a new one.
 */
static td_status *check_names(td_session *s, const td_members_entry *was,
                              td_device *const *devices, int n) {
  for (int i = 0; i < n; i++) {
    const char *name = devices[i]->name;
    bool taken = false;
    for (int k = 0; k < i; k++) taken |= strcmp(devices[k]->name, name) == 0;
    for (int32_t k = 0; k < s->n_devices; k++)
      taken |= s->devices[k] && strcmp(s->devices[k]->name, name) == 0 &&
               s->devices[k] != named(was, name);
    if (taken)
      return td_error(TD_ALREADY_EXISTS, "there is a device %s already", name);
  }
  return NULL;
}

static td_status *check_task(td_session *s, const td_participant *p) {
  uint64_t at = 0;
  td_status *lost;
  for (td_participant *q; (q = td_members_next(&s->members, &at, &lost));) {
    bool same = strcmp(q->task, p->task) == 0;
    td_status_release(lost);
    td_participant_release(q);
    if (same)
      return td_error(TD_ALREADY_EXISTS,
                      "%s takes part in this session already", p->task);
  }
  return NULL;
}

/* ---- coming -------------------------------------------------------------- */

/* Closes the indices from `first` on again. */
static void take_back(td_session *s, int32_t first) {
  for (int32_t i = first; i < s->n_devices; i++)
    td_session_devices_close(s, i, false);
}

/* Under the plan lock. */
static td_status *join(td_session *s, td_members_entry *of,
                       td_device *const *devices) {
  TD_TRY(td_session_devices_refresh(s));
  TD_TRY(check_task(s, of->who));
  TD_TRY(check_names(s, NULL, devices, of->n));
  int32_t first = s->n_devices;
  td_status *st = NULL;
  for (int i = 0; td_ok(st) && i < of->n; i++)
    st = td_session_devices_append(s, of->at[i].device);
  if (td_ok(st) && !td_members_add(&s->members, of))
    st = td_session_closed_error();
  if (!td_ok(st)) take_back(s, first);
  return st;
}

td_status *td_session_join(td_session *s, td_participant *p,
                           td_device *const *devices, int n) {
  td_members_entry *of = NULL;
  td_status *st = td_members_entry_new(p, devices, n, 0, &of);
  pthread_mutex_lock(&s->plan_lock);
  if (td_ok(st)) st = join(s, of, devices);
  pthread_mutex_unlock(&s->plan_lock);
  if (!td_ok(st)) td_members_entry_free(of);
  td_participant_release(p);
  return st;
}

/* ---- going --------------------------------------------------------------- */

/* What is lost has nothing to lose. */
static td_status *check_empty(td_session *s, td_participant *p) {
  td_str names;
  td_str_init(&names);
  td_device *d;
  for (int i = 0; p->ops->lives && (d = td_members_device(&s->members, p, i));
       i++) {
    if (!td_device_gone(d)) p->ops->lives(p, d, &names);
    td_device_release(d);
  }
  td_status *st = NULL;
  if (names.failed)
    st = td_oom();
  else if (names.len)
    st = td_error(TD_FAILED_PRECONDITION,
                  "%s holds variables, which would be lost: %s; save them, or "
                  "detach it with what it holds dropped",
                  p->task, td_str_c(&names));
  td_str_deinit(&names);
  return st;
}

/* It was taken out of the list: what is left of it goes. */
static void dismiss(td_session *s, td_members_entry *of) {
  for (int i = 0; i < of->n; i++) td_session_stop_device(s, of->at[i].device);
  of->who->ops->close(of->who);
  td_members_entry_free(of);
}

static td_members_entry *take_out(td_session *s, td_participant *p, bool drop) {
  pthread_mutex_lock(&s->plan_lock);
  td_members_entry *of = td_members_take(&s->members, p);
  for (int i = 0; of && i < of->n; i++) {
    int32_t at = td_session_devices_find(s, of->at[i].device);
    if (at >= 0) td_session_devices_close(s, at, drop);
  }
  pthread_mutex_unlock(&s->plan_lock);
  return of;
}

td_status *td_session_leave(td_session *s, td_participant *p, bool drop) {
  if (p == td_members_here(&s->members))
    return td_error(TD_INVALID_ARGUMENT, "%s is this process itself", p->task);
  if (!drop) TD_TRY(check_empty(s, p));
  td_members_entry *of = take_out(s, p, drop);
  if (!of) return no_member(p);
  dismiss(s, of);
  return NULL;
}

void td_session_lose(td_session *s, td_participant *p, td_status *why) {
  if (p != td_members_here(&s->members) &&
      td_members_lose(&s->members, p, why)) {
    td_device *d;
    for (int i = 0; (d = td_members_device(&s->members, p, i)); i++) {
      td_session_stop_device(s, d);
      td_device_release(d);
    }
  }
  td_status_release(why);
}

/* ---- coming back --------------------------------------------------------- */

/* Those of `was` that did not come back. */
static void keep_missing(const td_members_entry *was, td_members_entry *fresh) {
  for (int i = 0; i < was->n; i++) {
    td_device *d = was->at[i].device;
    if (named(fresh, d->name)) continue;
    td_status *why =
        td_error(TD_UNAVAILABLE, "%s did not come back with its task", d->name);
    td_members_entry_add_lost(fresh, d, why);
    td_status_release(why);
  }
}

/* The placer has the new devices in the places of the old; the session's list
 * is not touched but for those that are appended. */
static td_status *place(td_session *s, const td_members_entry *was,
                        td_members_entry *fresh) {
  td_status *st = NULL;
  for (int i = 0; td_ok(st) && i < fresh->n; i++) {
    td_device *d = fresh->at[i].device, *old = named(was, d->name);
    int32_t at = old ? td_session_devices_find(s, old) : -1;
    if (fresh->at[i].why)
      td_placer_lose_device(s->placer, at, fresh->at[i].why);
    else if (old)
      st = td_placer_replace_device(s->placer, at, d);
    else
      st = td_session_devices_append(s, d);
  }
  return st;
}

/* As it was: all of them are lost. */
static void take_places_back(td_session *s, const td_members_entry *was,
                             int32_t first) {
  for (int i = 0; i < was->n; i++)
    td_placer_lose_device(s->placer,
                          td_session_devices_find(s, was->at[i].device),
                          was->at[i].why);
  take_back(s, first);
}

static void put_devices(td_session *s, const td_members_entry *was,
                        const td_members_entry *fresh) {
  for (int i = 0; i < was->n; i++) {
    td_device *old = was->at[i].device, *d = named(fresh, old->name);
    int32_t at = td_session_devices_find(s, old);
    s->devices[at] = td_device_retain(d);
    td_device_release(old);
  }
}

/* Under the plan lock. */
static td_status *rejoin(td_session *s, const td_members_entry *was,
                         td_members_entry *fresh, td_members_entry **old) {
  int32_t first = s->n_devices;
  td_status *st = place(s, was, fresh);
  if (td_ok(st)) {
    *old = td_members_swap(&s->members, was->who, fresh);
    if (!*old) st = td_session_closed_error();
  }
  if (td_ok(st))
    put_devices(s, was, fresh);
  else
    take_places_back(s, was, first);
  return st;
}

static td_status *come_back(td_session *s, const td_members_entry *was,
                            td_participant *p, td_device *const *devices, int n,
                            td_members_entry **old) {
  td_members_entry *fresh;
  if (strcmp(was->who->task, p->task) != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s cannot come back as %s",
                    was->who->task, p->task);
  TD_TRY(td_session_devices_refresh(s));
  TD_TRY(check_names(s, was, devices, n));
  TD_TRY(td_members_entry_new(p, devices, n, was->n, &fresh));
  keep_missing(was, fresh);
  td_status *st = rejoin(s, was, fresh, old);
  if (!td_ok(st)) td_members_entry_free(fresh);
  return st;
}

td_status *td_session_rejoin(td_session *s, td_participant *was,
                             td_participant *p, td_device *const *devices,
                             int n) {
  td_members_entry *old = NULL;
  td_session_lose(s, was, td_error(TD_UNAVAILABLE, "%s restarted", was->task));
  pthread_mutex_lock(&s->plan_lock);
  const td_members_entry *now = was == td_members_here(&s->members)
                                    ? NULL
                                    : td_members_find(&s->members, was);
  td_status *st = now ? come_back(s, now, p, devices, n, &old) : no_member(was);
  pthread_mutex_unlock(&s->plan_lock);
  if (old) dismiss(s, old);
  td_participant_release(p);
  return st;
}
