/* fake_stream.c - the fake runtime's streams and events (fake.h).
 *
 * A stream is a thread with a queue; before one piece of work in four it sleeps
 * for a while drawn by chance, so that what nobody waits for comes in any
 * order. An event is a moment of one stream: how many pieces were enqueued
 * there when it was recorded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/cuda/fake/fake.h"

typedef struct work {
  struct work *next;
  const char *kind;
  void (*run)(void *arg);
  void (*drop)(void *arg);
  void *arg;
  uint32_t call; /* a tool's number */
} work;

/* What the plugin has as cudaStream_t. */
struct CUstream_st {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int device;
  work *first, *last;          /* under the lock, as all that follows */
  uint64_t enqueued, complete; /* pieces of work */
  bool quit;
  struct CUstream_st *next; /* under the lock of all: of those that there are */
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t all; /* under it */

struct CUevent_st {
  pthread_mutex_t lock;
  cudaStream_t on; /* under the lock: recorded there; NULL: never was */
  uint64_t number; /* under the lock */
};

/* ---- the thread ---------------------------------------------------------- */

static void nap(unsigned *seed) {
  long most = td_fake_delay_now();
  if (most <= 0 || rand_r(seed) % 4) return;
  struct timespec t = {0, (long)(rand_r(seed) % (unsigned)most) * 1000};
  nanosleep(&t, NULL);
}

static void do_work(cudaStream_t s, work *w) {
  uint64_t began = td_fake_begins(w->call);
  if (td_fake_work(w->kind, s->device) == cudaSuccess)
    w->run(w->arg);
  else
    w->drop(w->arg);
  td_fake_ended(w->call, w->kind, began);
  free(w);
}

static void *serve(void *arg) {
  cudaStream_t s = arg;
  unsigned seed = (unsigned)(uintptr_t)s;
  pthread_mutex_lock(&s->lock);
  while (s->first || !s->quit) {
    work *w = s->first;
    if (!w) {
      pthread_cond_wait(&s->changed, &s->lock);
      continue;
    }
    s->first = w->next;
    if (!s->first) s->last = NULL;
    pthread_mutex_unlock(&s->lock);
    nap(&seed);
    do_work(s, w);
    pthread_mutex_lock(&s->lock);
    s->complete++;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* ---- streams ------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  cudaError_t e = td_fake_call("cudaStreamCreateWithFlags");
  (void)flags;
  if (e != cudaSuccess) return e;
  cudaStream_t s = calloc(1, sizeof *s);
  if (!s) return td_fake_last(cudaErrorMemoryAllocation);
  s->device = td_fake_device();
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (pthread_create(&s->thread, NULL, serve, s) != 0) {
    free(s);
    return td_fake_last(cudaErrorMemoryAllocation);
  }
  pthread_mutex_lock(&all_lock);
  s->next = all;
  all = s;
  pthread_mutex_unlock(&all_lock);
  td_fake_add(&td_fake_there.streams, 1);
  *out = s;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
  pthread_mutex_lock(&all_lock);
  cudaStream_t *at = &all;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  pthread_mutex_unlock(&all_lock);
  td_fake_add(&td_fake_there.streams, -1);
  pthread_mutex_lock(&s->lock);
  s->quit = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
  free(s);
  return cudaSuccess;
}

static void wait_for(cudaStream_t s, uint64_t number) {
  pthread_mutex_lock(&s->lock);
  while (s->complete < number) pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

static uint64_t enqueued(cudaStream_t s) {
  pthread_mutex_lock(&s->lock);
  uint64_t n = s->enqueued;
  pthread_mutex_unlock(&s->lock);
  return n;
}

void td_fake_drain(int device) {
  pthread_mutex_lock(&all_lock);
  for (cudaStream_t s = all; s; s = s->next)
    if (s->device == device) wait_for(s, enqueued(s));
  pthread_mutex_unlock(&all_lock);
}

/* A lost device is its streams' and events', whatever the thread has set. */
static cudaError_t call_on(const char *name, int device) {
  cudaError_t e = td_fake_lost(device);
  return e != cudaSuccess ? td_fake_last(e) : td_fake_call(name);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  wait_for(s, enqueued(s));
  return call_on("cudaStreamSynchronize", s->device);
}

cudaError_t cudaStreamQuery(cudaStream_t s) {
  pthread_mutex_lock(&s->lock);
  bool over = s->complete >= s->enqueued;
  pthread_mutex_unlock(&s->lock);
  cudaError_t e = call_on("cudaStreamQuery", s->device);
  return e != cudaSuccess ? e : over ? cudaSuccess : cudaErrorNotReady;
}

/* The default stream is nobody's: it waits for all others, and they for it. */
cudaError_t td_fake_push(cudaStream_t s, const char *kind,
                         void (*run)(void *arg), void (*drop)(void *arg),
                         void *arg) {
  if (!s) return td_fake_last(cudaErrorInvalidResourceHandle);
  work *w = malloc(sizeof *w);
  if (!w) return td_fake_last(cudaErrorMemoryAllocation);
  *w = (work){NULL, kind, run, drop, arg, td_fake_enqueued(kind)};
  pthread_mutex_lock(&s->lock);
  if (s->last)
    s->last->next = w;
  else
    s->first = w;
  s->last = w;
  s->enqueued++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  return cudaSuccess;
}

cudaError_t td_fake_enqueue(cudaStream_t s, void (*run)(void *arg),
                            void (*drop)(void *arg), void *arg) {
  cudaError_t e = td_fake_push(s, "kernel", run, drop, arg);
  if (e != cudaSuccess) drop(arg);
  return e;
}

cudaError_t td_fake_check_launch(dim3 grid, dim3 block, size_t shared) {
  cudaError_t e = td_fake_call("launch");
  if (e != cudaSuccess) return e;
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 ||
      !block.x || !block.y || !block.z || block.x * block.y * block.z > 1024 ||
      shared > 232448)
    return td_fake_last(cudaErrorInvalidConfiguration);
  return cudaSuccess;
}

/* ---- events -------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  cudaError_t e = td_fake_call("cudaEventCreateWithFlags");
  if (e != cudaSuccess) return e;
  *out = calloc(1, sizeof **out);
  if (!*out) return td_fake_last(cudaErrorMemoryAllocation);
  pthread_mutex_init(&(*out)->lock, NULL);
  td_fake_add(&td_fake_there.events, 1);
  td_fake_time_make(*out, flags);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t v) {
  td_fake_time_drop(v);
  td_fake_add(&td_fake_there.events, -1);
  pthread_mutex_destroy(&v->lock);
  free(v);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t v, cudaStream_t s) {
  cudaError_t e = call_on("cudaEventRecord", s->device);
  if (e == cudaSuccess) e = td_fake_time_record(v, s);
  if (e != cudaSuccess) return e;
  pthread_mutex_lock(&v->lock);
  v->on = s;
  v->number = enqueued(s);
  pthread_mutex_unlock(&v->lock);
  return cudaSuccess;
}

typedef struct moment {
  cudaStream_t on;
  uint64_t number;
} moment;

static moment moment_of(cudaEvent_t v) {
  pthread_mutex_lock(&v->lock);
  moment m = {v->on, v->number};
  pthread_mutex_unlock(&v->lock);
  return m;
}

cudaError_t cudaEventQuery(cudaEvent_t v) {
  moment m = moment_of(v);
  bool over = true;
  if (m.on) {
    pthread_mutex_lock(&m.on->lock);
    over = m.on->complete >= m.number;
    pthread_mutex_unlock(&m.on->lock);
  }
  cudaError_t e = call_on("cudaEventQuery", m.on ? m.on->device : 0);
  return e != cudaSuccess ? e : over ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t v) {
  moment m = moment_of(v);
  if (m.on) wait_for(m.on, m.number);
  return call_on("cudaEventSynchronize", m.on ? m.on->device : 0);
}

static void run_wait(void *arg) {
  moment *m = arg;
  wait_for(m->on, m->number);
  free(m);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t v, unsigned flags) {
  cudaError_t e = td_fake_call("cudaStreamWaitEvent");
  moment now = moment_of(v), *m;
  (void)flags;
  if (e != cudaSuccess || !now.on) return e;
  if (!(m = malloc(sizeof *m))) return td_fake_last(cudaErrorMemoryAllocation);
  *m = now;
  e = td_fake_push(s, "wait", run_wait, free, m);
  if (e != cudaSuccess) free(m);
  return e;
}
