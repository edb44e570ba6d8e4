/* runtime.c - devices made on demand and the limits of their memory, named
 * containers.
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
#include "engine/base/entropy.h"
#include "engine/base/str.h"
#include "engine/device/alloc.h"
#include "engine/run/device_list.h"
#include "engine/run/plugins.h"

enum { MAX_CPUS = TD_DEVICE_MAX_CPUS };
#define REST INT64_C(5000000000) /* ns between looks */

typedef struct type_limit {
  char type[24];
  size_t bytes;
} type_limit;

struct td_runtime {
  int32_t refs;
  char *place;
  td_alloc_budget *budget; /* of all CPU devices; NULL: the process's */
  pthread_mutex_t lock;
  td_device *cpu[MAX_CPUS]; /* lock: lock. Made on demand, never removed */
  td_device_list others;
  pthread_mutex_t asking;
  bool asked;   /* atomic: the plugins' devices were made */
  size_t limit; /* lock: lock. Of the memory of each device; 0: its own */
  TD_VEC(type_limit) limits; /* lock: lock. Of types, before that */
  td_resources *resources;
  bool watched;          /* atomic: a look is to come */
  bool closing;          /* lock: lock */
  uint64_t timer, fired; /* lock: lock. The next look, the one before */
  int64_t seen;          /* lock: lock. Blocks given out and back by then */
};

bool td_runtime_env_has(const char *variable, const char *word) {
  const char *at = getenv(variable);
  size_t len = strlen(word);
  while (at && *at) {
    size_t n = strcspn(at, ",");
    if (n == len && !memcmp(at, word, n)) return true;
    at += n + (at[n] == ',');
  }
  return false;
}

/* ---- limits of memory ---- */

/* Under the lock. The limit of a type that has one of its own, or NULL. */
static type_limit *limit_of(const td_runtime *rt, const char *type) {
  for (size_t i = 0; i < rt->limits.len; i++)
    if (strcmp(rt->limits.at[i].type, type) == 0) return &rt->limits.at[i];
  return NULL;
}

/* Under the lock. A device that is new has a limit already, and keeps it where
 * nothing else was asked for. */
static void set_limit(const td_runtime *rt, const td_device *d, bool is_new) {
  const type_limit *l = limit_of(rt, d->type);
  size_t bytes = l ? l->bytes : rt->limit;
  if (bytes || !is_new) td_allocator_set_limit(d->memory, bytes);
}

/* Under the lock. */
static td_status *note_limit(td_runtime *rt, const char *type, size_t bytes) {
  if (!type) {
    rt->limit = bytes;
    rt->limits.len = 0;
    return NULL;
  }
  type_limit *l = limit_of(rt, type), new = {.bytes = bytes};
  if (l) {
    l->bytes = bytes;
    return NULL;
  }
  if (strlen(type) >= sizeof new.type)
    return td_error(TD_INVALID_ARGUMENT, "no device is of the type \"%s\"",
                    type);
  strcpy(new.type, type);
  return td_vec_push(&rt->limits, new) ? NULL : td_oom();
}

td_status *td_runtime_limit(td_runtime *rt, const char *type, size_t bytes) {
  td_device_list *l = &rt->others;
  pthread_mutex_lock(&rt->lock);
  td_status *s = note_limit(rt, type, bytes);
  for (int i = 0; td_ok(s) && i < MAX_CPUS; i++)
    if (rt->cpu[i]) set_limit(rt, rt->cpu[i], false);
  pthread_mutex_lock(&l->lock);
  for (size_t i = 0; td_ok(s) && i < l->at.len; i++)
    set_limit(rt, l->at.at[i], false);
  pthread_mutex_unlock(&l->lock);
  pthread_mutex_unlock(&rt->lock);
  return s;
}

/* ---- devices ---- */

static td_status *make(td_runtime *rt, const td_device_factory *f, int index,
                       td_device **out) {
  td_device_options o = {.budget = rt->budget, .seed = td_entropy()};
  return f->make(index, rt->place, &o, out);
}

/* Unless there is one of that type and number. */
static td_status *make_device(td_runtime *rt, const td_device_factory *f,
                              int index) {
  td_device *d = td_device_list_find(&rt->others, f->type, index);
  if (d) {
    td_device_release(d);
    return NULL;
  }
  TD_TRY(make(rt, f, index, &d));
  td_status *s = td_device_list_add(&rt->others, d);
  pthread_mutex_lock(&rt->lock); /* from now on td_runtime_limit sees it */
  set_limit(rt, d, true);
  pthread_mutex_unlock(&rt->lock);
  td_device_release(d);
  return s;
}

td_status *td_runtime_make_devices(td_runtime *rt, const td_device_factory *f) {
  int n;
  TD_TRY(f->count(&n));
  for (int i = 0; i < n; i++) TD_TRY(make_device(rt, f, i));
  return NULL;
}

/* When devices are first asked for. One that cannot be made is no error for who
 * asks: it is not there. */
static void ask_plugins(td_runtime *rt) {
  pthread_mutex_lock(&rt->asking);
  const td_plugin *p;
  for (int i = 0; !rt->asked && (p = td_plugin_at(i)); i++)
    for (int k = 0; p->library && p->library->devices && p->library->devices[k];
         k++)
      td_status_release(td_runtime_make_devices(rt, p->library->devices[k]));
  __atomic_store_n(&rt->asked, true, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&rt->asking);
}

td_status *td_runtime_add_device(td_runtime *rt, td_device *d) {
  return td_device_list_add(&rt->others, d);
}

static void add_resource(void *arg, const td_resource *r) {
  td_str_addf(arg, "%s%s", ((td_str *)arg)->len ? ", " : "", r->name);
}

td_status *td_runtime_remove_device(td_runtime *rt, td_device *d, bool drop) {
  td_str names;
  if (d->index < MAX_CPUS && d == rt->cpu[d->index])
    return td_error(TD_INVALID_ARGUMENT,
                    "%s cannot be removed: CPU devices are made on demand",
                    d->name);
  td_str_init(&names);
  td_resources_list_on(rt->resources, d->incarnation, add_resource, &names);
  td_status *s = names.failed ? td_oom()
                              : td_device_list_remove(&rt->others, d, drop,
                                                      td_str_c(&names));
  td_str_deinit(&names);
  if (td_ok(s)) td_resources_drop_on(rt->resources, d->incarnation);
  return s;
}

td_device_list *td_runtime_device_list(td_runtime *rt) {
  return &rt->others;
}

void td_runtime_drop_devices(td_device **list, int count) {
  for (int i = 0; i < count; i++) td_device_release(list[i]);
  td_free(list);
}

static td_status *copy_cpus(td_runtime *rt, int cpus, td_device **out) {
  for (int i = 0; i < cpus; i++) {
    TD_TRY(td_runtime_cpu(rt, i, &out[i]));
    td_device_retain(out[i]);
  }
  return NULL;
}

td_status *td_runtime_devices(td_runtime *rt, int cpus, td_device ***out,
                              int *count) {
  size_t n = (size_t)cpus, room = 0;
  if (cpus < 1 || cpus > MAX_CPUS)
    return td_error(TD_INVALID_ARGUMENT, "cpu_devices must be 1 to %d, not %d",
                    MAX_CPUS, cpus);
  if (TD_UNLIKELY(!__atomic_load_n(&rt->asked, __ATOMIC_ACQUIRE)))
    ask_plugins(rt);
  for (td_device **d = NULL;; td_runtime_drop_devices(d, (int)(n + room))) {
    room = td_device_list_copy(&rt->others, NULL, 0);
    d = td_calloc(n + room + 1, sizeof *d);
    if (!d) return td_oom();
    td_status *s = copy_cpus(rt, cpus, d);
    size_t others = td_device_list_copy(&rt->others, d + n, room);
    if (td_ok(s) && others > room) continue; /* one came meanwhile */
    if (others > room) others = room;
    *out = d;
    *count = (int)(n + others);
    if (!td_ok(s)) td_runtime_drop_devices(d, *count);
    return s;
  }
}

static td_status *make_test_devices(td_runtime *rt, int n) {
  if (n == 0) TD_TRY(td_device_factory_test.count(&n));
  if (n == 0 && td_runtime_env_has("TIDE_TEST", "test")) n = 1;
  for (int i = 0; i < n; i++)
    TD_TRY(make_device(rt, &td_device_factory_test, i));
  return NULL;
}

static td_status *runtime_init(td_runtime *rt, const td_runtime_options *o) {
  const char *place = o && o->place ? o->place : NULL;
  rt->place = td_strdup(place ? place : "/job:localhost/replica:0/task:0");
  if (!rt->place) return td_oom();
  if (o && o->memory_limit)
    TD_TRY(td_alloc_budget_new(o->memory_limit, &rt->budget));
  TD_TRY(td_resources_new(&rt->resources));
  TD_TRY(make_test_devices(rt, o ? o->test_devices : 0));
  const td_library *l;
  for (int i = 0; (l = td_library_loaded(i)); i++)
    for (int k = 0; l->devices && l->devices[k]; k++)
      TD_TRY(td_runtime_make_devices(rt, l->devices[k]));
  return NULL;
}

td_status *td_runtime_new(const td_runtime_options *o, td_runtime **out) {
  td_runtime *rt = td_calloc(1, sizeof *rt);
  if (!rt) return td_oom();
  rt->refs = 1;
  pthread_mutex_init(&rt->lock, NULL);
  pthread_mutex_init(&rt->asking, NULL);
  td_device_list_init(&rt->others);
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
    td_allocator_stats s = td_allocator_read_stats(rt->cpu[i]->memory);
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
    if (rt->cpu[i]) td_allocator_trim(rt->cpu[i]->memory, 0);
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
  td_device_list_deinit(&rt->others);
  td_vec_free(&rt->limits);
  td_alloc_budget_release(rt->budget);
  td_free(rt->place);
  pthread_mutex_destroy(&rt->lock);
  pthread_mutex_destroy(&rt->asking);
  td_free(rt);
}

td_status *td_runtime_cpu(td_runtime *rt, int k, td_device **out) {
  if (k < 0 || k >= MAX_CPUS)
    return td_error(TD_INVALID_ARGUMENT, "there is no CPU:%d; 0 to %d are", k,
                    MAX_CPUS - 1);
  td_status *s = NULL;
  pthread_mutex_lock(&rt->lock);
  if (!rt->watched) look_later(rt);
  if (!rt->cpu[k]) {
    s = make(rt, &td_device_factory_cpu, k, &rt->cpu[k]);
    if (td_ok(s)) set_limit(rt, rt->cpu[k], true);
  }
  *out = rt->cpu[k];
  pthread_mutex_unlock(&rt->lock);
  return s;
}

td_resources *td_runtime_resources(td_runtime *rt) {
  return rt->resources;
}

const char *td_runtime_place(const td_runtime *rt) {
  return rt->place;
}

void td_runtime_used(td_runtime *rt) {
  watch(rt);
}
