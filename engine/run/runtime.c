/* runtime.c - devices made on demand, named containers, step numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/random.h"
#include "engine/base/str.h"

enum { MAX_CPUS = 64, MAX_TESTS = 8 };

struct td_runtime {
  int32_t refs;
  char *place;
  size_t memory_limit;
  pthread_mutex_t lock;
  td_device *cpu[MAX_CPUS]; /* lock: lock. Made on demand, never removed */
  td_device *test[MAX_TESTS];
  int n_tests;
  td_resources *resources;
  uint64_t step; /* atomic */
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
    TD_TRY(td_device_test_new(rt->place, i, td_random_entropy(), &rt->test[i]));
    rt->n_tests++;
  }
  return NULL;
}

td_status *td_runtime_new(const td_runtime_options *o, td_runtime **out) {
  td_runtime *rt = td_alloc_zero(1, sizeof *rt);
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

td_runtime *td_runtime_retain(td_runtime *rt) {
  __atomic_fetch_add(&rt->refs, 1, __ATOMIC_RELAXED);
  return rt;
}

void td_runtime_release(td_runtime *rt) {
  if (!rt || __atomic_fetch_sub(&rt->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
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
      td_alloc_zero((size_t)cpus + (size_t)rt->n_tests, sizeof(td_device *));
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
  return __atomic_add_fetch(&rt->step, 1, __ATOMIC_RELAXED);
}
