/* runtime.c - devices made on demand, named containers, step numbers.
 *
 * While it is used, a timer looks every few seconds whether the CPU devices
 * still hand out memory. Once they did not, what they keep for later goes back
 * to the system and the timer rests until the next step: an idle prompt holds
 * what its values need and wakes for nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/philox.h"
#include "engine/base/str.h"
#include "engine/device/alloc.h"

enum { MAX_CPUS = 64, MAX_TESTS = 8 };
#define REST INT64_C(5000000000) /* ns between looks */

struct td_runtime {
  int32_t refs;
  char *place;
  size_t memory_limit;
  pthread_mutex_t lock;
  td_device *cpu[MAX_CPUS]; /* lock: lock. Made on demand, never removed */
  td_device *test[MAX_TESTS];
  int n_tests;
  td_resources *resources;
  uint64_t step;         /* atomic */
  bool watched;          /* atomic: a look is to come */
  bool closing;          /* lock: lock */
  uint64_t timer, fired; /* lock: lock. The next look, the one before */
  int64_t seen;          /* lock: lock. Blocks given out and back by then */
};

static int test_devices(const td_runtime_options *o) {
  int n = o ? o->test_devices : 0;
  const char *env = getenv("TIDE_TEST_DEVICES");
  if (n == 0 && env) n = atoi(env);
  return n < 0 ? 0 : n > MAX_TESTS ? MAX_TESTS : n;
}

static td_status *runtime_init(td_runtime *rt, const td_runtime_options *o) {
  const char *place = o && o->place ? o->place : NULL;
  rt->place = td_strdup(place ? place : "/job:localhost/replica:0/task:0");
  if (!rt->place) return td_oom();
  rt->memory_limit = o ? o->memory_limit : 0;
  TD_TRY(td_resources_new(&rt->resources));
  int tests = test_devices(o);
  for (int i = 0; i < tests; i++) {
    TD_TRY(td_device_test_new(rt->place, i, td_philox_entropy(), &rt->test[i]));
    rt->n_tests++;
  }
  return NULL;
}

td_status *td_runtime_new(const td_runtime_options *o, td_runtime **out) {
  td_runtime *rt = td_calloc(1, sizeof *rt);
  if (!rt) return td_oom();
  rt->refs = 1;
  pthread_mutex_init(&rt->lock, NULL);
  td_status *s = runtime_init(rt, o);
  if (!td_ok(s)) {
    td_runtime_release(rt);
    return s;
  }
  *out = rt;
  return NULL;
}

/* ---- rest ---- */

static int64_t count_blocks(td_runtime *rt) {
  int64_t n = 0;
  for (int i = 0; i < MAX_CPUS; i++) {
    if (!rt->cpu[i]) continue;
    td_alloc_stats s = td_alloc_read_stats(rt->cpu[i]->memory);
    n += s.allocs + s.frees;
  }
  return n;
}

static void look(void *arg);

/* The runtime's lock is held. */
static void look_later(td_runtime *rt) {
  rt->timer = td_timer_start(td_clock_now() + REST, look, rt);
  __atomic_store_n(&rt->watched, rt->timer != 0, __ATOMIC_RELAXED);
}

static void look(void *arg) {
  td_runtime *rt = arg;
  pthread_mutex_lock(&rt->lock);
  int64_t n = count_blocks(rt);
  bool rests = n == rt->seen;
  rt->seen = n;
  rt->fired = rt->timer;
  __atomic_store_n(&rt->watched, false, __ATOMIC_RELAXED);
  if (!rests && !rt->closing) look_later(rt);
  for (int i = 0; rests && i < MAX_CPUS; i++)
    if (rt->cpu[i]) td_alloc_trim(rt->cpu[i]->memory, 0);
  pthread_mutex_unlock(&rt->lock);
}

static void watch(td_runtime *rt) {
  if (TD_LIKELY(__atomic_load_n(&rt->watched, __ATOMIC_RELAXED))) return;
  pthread_mutex_lock(&rt->lock);
  if (!rt->watched) look_later(rt);
  pthread_mutex_unlock(&rt->lock);
}

static void stop_looking(td_runtime *rt) {
  pthread_mutex_lock(&rt->lock);
  rt->closing = true;
  pthread_mutex_unlock(&rt->lock);
  td_timer_cancel(rt->timer);
  td_timer_cancel(rt->fired); /* it may be just leaving */
}

/* ---- life ---- */

td_runtime *td_runtime_retain(td_runtime *rt) {
  __atomic_fetch_add(&rt->refs, 1, __ATOMIC_RELAXED);
  return rt;
}

void td_runtime_release(td_runtime *rt) {
  if (!rt || __atomic_fetch_sub(&rt->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  stop_looking(rt);
  td_resources_free(rt->resources);
  for (int i = 0; i < MAX_CPUS; i++) td_device_release(rt->cpu[i]);
  for (int i = 0; i < rt->n_tests; i++) td_device_release(rt->test[i]);
  td_free(rt->place);
  pthread_mutex_destroy(&rt->lock);
  td_free(rt);
}

td_status *td_runtime_cpu(td_runtime *rt, int k, td_device **out) {
  if (k < 0 || k >= MAX_CPUS)
    return td_error(TD_INVALID_ARGUMENT, "there is no CPU:%d; 0 to %d are", k,
                    MAX_CPUS - 1);
  td_status *s = NULL;
  pthread_mutex_lock(&rt->lock);
  if (!rt->watched) look_later(rt);
  if (!rt->cpu[k])
    s = td_device_cpu_new(rt->place, k, rt->memory_limit, &rt->cpu[k]);
  *out = rt->cpu[k];
  pthread_mutex_unlock(&rt->lock);
  return s;
}

td_status *td_runtime_devices(td_runtime *rt, int cpus, td_device ***out,
                              int *count) {
  if (cpus < 1 || cpus > MAX_CPUS)
    return td_error(TD_INVALID_ARGUMENT, "cpu_devices must be 1 to %d, not %d",
                    MAX_CPUS, cpus);
  td_device **d =
      td_calloc((size_t)cpus + (size_t)rt->n_tests, sizeof(td_device *));
  if (!d) return td_oom();
  for (int i = 0; i < cpus; i++) {
    td_status *s = td_runtime_cpu(rt, i, &d[i]);
    if (td_ok(s)) continue;
    td_free(d);
    return s;
  }
  memcpy(d + cpus, rt->test, (size_t)rt->n_tests * sizeof *d);
  *out = d;
  *count = cpus + rt->n_tests;
  return NULL;
}

td_resources *td_runtime_resources(td_runtime *rt) {
  return rt->resources;
}

uint64_t td_runtime_next_step(td_runtime *rt) {
  watch(rt);
  return __atomic_add_fetch(&rt->step, 1, __ATOMIC_RELAXED);
}
