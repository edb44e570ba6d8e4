/* fake_time.c - when events of the fake runtime were reached, and what a card
 * says of itself (fake.h).
 *
 * The clock of a card is not the host's: it began at another time. An event
 * that tells times is a piece of work of its own, so that what comes late
 * before it has it late.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/fake/fake.h"

/* Of one record of an event; it may be destroyed before that is reached. */
typedef struct moment {
  struct moment *next;
  cudaEvent_t of;
  int refs;   /* under the lock, as the rest */
  int64_t ns; /* 0: not reached */
  bool lost;
} moment;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static moment *all; /* under it: the last record of each event that tells */

static int64_t card_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + INT64_C(77000000000);
}

static moment **find(cudaEvent_t v) {
  moment **at = &all;
  while (*at && (*at)->of != v) at = &(*at)->next;
  return at;
}

static void release(moment *m) {
  if (--m->refs == 0) free(m);
}

void td_fake_time_make(cudaEvent_t v, unsigned flags) {
  if (flags & cudaEventDisableTiming) return;
  moment *m = calloc(1, sizeof *m);
  if (!m) return;
  *m = (moment){.of = v, .refs = 1};
  pthread_mutex_lock(&lock);
  m->next = all;
  all = m;
  pthread_mutex_unlock(&lock);
}

void td_fake_time_drop(cudaEvent_t v) {
  pthread_mutex_lock(&lock);
  moment **at = find(v), *m = *at;
  if (m) {
    *at = m->next;
    release(m);
  }
  pthread_mutex_unlock(&lock);
}

static void end(moment *m, int64_t ns) {
  pthread_mutex_lock(&lock);
  m->ns = ns;
  release(m);
  pthread_mutex_unlock(&lock);
}

static void reached(void *arg) {
  end(arg, card_clock());
}

static void never(void *arg) {
  end(arg, 0);
}

/* The record before is forgotten: a new moment. */
cudaError_t td_fake_time_record(cudaEvent_t v, cudaStream_t s) {
  moment *m = calloc(1, sizeof *m);
  pthread_mutex_lock(&lock);
  moment **at = find(v), *old = *at;
  if (old && m) {
    *m = (moment){.next = old->next, .of = v, .refs = 2};
    *at = m;
    release(old);
  }
  pthread_mutex_unlock(&lock);
  if (!old || !m) {
    free(m);
    return old ? td_fake_last(cudaErrorMemoryAllocation) : cudaSuccess;
  }
  cudaError_t e = td_fake_push(s, "event", reached, never, m);
  if (e != cudaSuccess) never(m);
  return e;
}

/* Half a microsecond is the least that a card tells apart. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  cudaError_t e = td_fake_call("cudaEventElapsedTime");
  if (e != cudaSuccess) return e;
  pthread_mutex_lock(&lock);
  const moment *a = *find(from), *b = *find(to);
  if (!a || !b)
    e = cudaErrorInvalidResourceHandle;
  else if (!a->ns || !b->ns)
    e = cudaErrorNotReady;
  else
    *ms = (float)((b->ns - a->ns) / 500) * 0.0005f;
  pthread_mutex_unlock(&lock);
  return td_fake_last(e);
}

/* ---- what a card says of itself ------------------------------------------ */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
  cudaError_t e = td_fake_call("cudaGetDeviceProperties");
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "Fake %d", device);
  out->totalGlobalMem = td_fake_limit();
  return e;
}

/* ---- who watches --------------------------------------------------------- */

/* The tests' libcupti.so.13 (tests/cuda/libraries), once the plugin has it. */
static struct {
  uint32_t (*enqueued)(void);
  uint64_t (*now)(void);
  void (*ran)(uint32_t call, int kernel, uint64_t start, uint64_t end);
} watcher;
static bool watched; /* atomic: the rest is set */

static bool find_watcher(void) {
  if (__atomic_load_n(&watched, __ATOMIC_ACQUIRE)) return true;
  void *l = getenv("TIDE_CUPTI")
                ? dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD)
                : NULL;
  if (!l) return false;
  pthread_mutex_lock(&lock);
  *(void **)&watcher.enqueued = dlsym(l, "td_fake_cupti_enqueued");
  *(void **)&watcher.now = dlsym(l, "td_fake_cupti_now");
  *(void **)&watcher.ran = dlsym(l, "td_fake_cupti_ran");
  bool all_there = watcher.enqueued && watcher.now && watcher.ran;
  __atomic_store_n(&watched, all_there, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&lock);
  return all_there;
}

uint32_t td_fake_enqueued(const char *kind) {
  bool seen = strcmp(kind, "kernel") == 0 || strcmp(kind, "copy") == 0;
  return seen && find_watcher() ? watcher.enqueued() : 0;
}

uint64_t td_fake_begins(uint32_t call) {
  return call ? watcher.now() : 0;
}

void td_fake_ended(uint32_t call, const char *kind, uint64_t began) {
  if (call)
    watcher.ran(call, strcmp(kind, "kernel") == 0, began, watcher.now());
}
