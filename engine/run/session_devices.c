/* session_devices.c - the devices of a session, which come and go.
 *
 * What happens to plans and steps when one goes is in session_gone.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/session_devices.h"

#include "engine/base/mem.h"
#include "engine/run/session_impl.h"

int32_t td_session_devices_find(const td_session *s, const td_device *d) {
  for (int32_t i = 0; i < s->n_devices; i++)
    if (s->devices[i] == d) return i;
  return -1;
}

td_status *td_session_devices_append(td_session *s, td_device *d) {
  size_t n = (size_t)s->n_devices;
  td_device **more = td_realloc(s->devices, (n + 1) * sizeof(td_device *));
  if (!more) return td_oom();
  s->devices = more;
  if (s->placer) TD_TRY(td_placer_add_device(s->placer, d));
  s->devices[s->n_devices++] = td_device_retain(d);
  return NULL;
}

/* One that is marked already, from an old copy of the list, stays out. */
static td_status *take_new(td_session *s) {
  td_device **all;
  int n;
  TD_TRY(td_runtime_devices(s->runtime, s->options.cpu_devices, &all, &n));
  td_status *st = NULL;
  for (int i = 0; td_ok(st) && i < n; i++)
    if (!td_device_gone(all[i]) && td_session_devices_find(s, all[i]) < 0)
      st = td_session_devices_append(s, all[i]);
  td_runtime_drop_devices(all, n);
  return st;
}

/* The placer hears of devices that were lost since the last plan. */
static void tell_losses(td_session *s) {
  td_status *why;
  uint64_t losses = __atomic_load_n(&s->members.losses, __ATOMIC_ACQUIRE);
  if (losses == s->losses_told) return;
  for (int32_t i = 0; i < s->n_devices; i++) {
    if (!s->devices[i] || !td_device_gone(s->devices[i])) continue;
    if (!td_members_has(&s->members, s->devices[i], &why) || !why) continue;
    td_placer_lose_device(s->placer, i, why);
    td_status_release(why);
  }
  s->losses_told = losses;
}

td_status *td_session_devices_refresh(td_session *s) {
  tell_losses(s);
  td_device_list *list = td_runtime_device_list(s->runtime);
  uint64_t version = __atomic_load_n(&list->version, __ATOMIC_ACQUIRE);
  if (version == s->devices_version) return NULL;
  TD_TRY(take_new(s));
  td_session_devices_sweep(s);
  s->devices_version = version;
  return NULL;
}

td_status *td_session_list_devices(td_session *s, td_device ***out,
                                   int *count) {
  int n = 0;
  pthread_mutex_lock(&s->plan_lock);
  td_status *st = td_session_devices_refresh(s);
  td_device **all = td_calloc((size_t)s->n_devices + 1, sizeof *all);
  for (int32_t i = 0; all && i < s->n_devices; i++)
    if (s->devices[i] && !td_device_gone(s->devices[i]))
      all[n++] = td_device_retain(s->devices[i]);
  pthread_mutex_unlock(&s->plan_lock);
  if (!all && td_ok(st)) st = td_oom();
  if (td_ok(st)) {
    *out = all;
    *count = n;
  } else if (all) {
    td_runtime_drop_devices(all, n);
  }
  return st;
}

void td_session_devices_close(td_session *s, int32_t i, bool drop) {
  if (s->placer) td_placer_remove_device(s->placer, i, drop);
  td_device_release(s->devices[i]);
  s->devices[i] = NULL;
}

/* What is lost is not gone for good. */
static bool is_lost(td_session *s, const td_device *d) {
  td_status *why;
  bool lost = td_members_has(&s->members, d, &why);
  td_status_release(why);
  return lost;
}

void td_session_devices_sweep(td_session *s) {
  for (int32_t i = 0; i < s->n_devices; i++) {
    td_device *d = s->devices[i];
    if (d && td_device_gone(d) && !is_lost(s, d))
      td_session_devices_close(s, i, false);
  }
}
