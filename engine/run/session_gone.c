/* session_gone.c - sessions watch their runtime for devices that go.
 *
 * The index of such a device is closed for new plans first, then what was
 * planned for it leaves the cache, and the steps that run on it are cancelled
 * with the reason. A step that began just before sees the device's mark when it
 * enters the session's list, or is found there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/session_devices.h"
#include "engine/run/session_impl.h"

/* A running step that `d` has a part of and that goes on, retained; or NULL. */
static td_session_step *find_step(td_session *s, const td_device *d) {
  pthread_mutex_lock(&s->lock);
  td_session_step *step = s->running;
  while (step && (!td_compiled_uses(step->compiled, d) ||
                  td_cancelled(&step->cancelled)))
    step = step->next;
  if (step) __atomic_fetch_add(&step->refs, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&s->lock);
  return step;
}

void td_session_stop_device(td_session *s, const td_device *d) {
  td_session_forget_device(s, d);
  for (td_session_step *step; (step = find_step(s, d));) {
    td_session_step_cancel(step, td_compiled_unavailable(s, d));
    td_session_step_release(step);
  }
}

static void gone(void *arg, td_device *d, bool drop) {
  td_session *s = arg;
  pthread_mutex_lock(&s->plan_lock);
  int32_t i = td_session_devices_find(s, d);
  if (i >= 0) td_session_devices_close(s, i, drop);
  pthread_mutex_unlock(&s->plan_lock);
  td_session_stop_device(s, d);
  td_participant *here = td_members_here(&s->members);
  if (drop) here->ops->drop(here, d);
}

static void lives(void *arg, const td_device *d, td_str *names) {
  td_participant *here = td_members_here(&((td_session *)arg)->members);
  here->ops->lives(here, d, names);
}

static void release(void *arg) {
  td_session_release(arg);
}

/* What went after the session looked and before it watches is marked. */
static void watch(td_session *s) {
  s->watcher = (td_device_watcher){.arg = s,
                                   .refs = &s->refs,
                                   .release = release,
                                   .lives = lives,
                                   .gone = gone};
  td_device_list_watch(td_runtime_device_list(s->runtime), &s->watcher);
  pthread_mutex_lock(&s->plan_lock);
  td_session_devices_sweep(s);
  pthread_mutex_unlock(&s->plan_lock);
}

td_status *td_session_new(td_runtime *rt, td_graph *g,
                          const td_session_options *options, td_session **out) {
  TD_TRY(td_session_begin(rt, g, options, out));
  watch(*out);
  return NULL;
}
