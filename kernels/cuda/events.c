/* events.c - streams, and the thread that hears when their work is over.
 *
 * Whoever waits leaves an event on a stream and goes; one thread asks for the
 * oldest of each stream, for a while again and again, then in sleeps that grow
 * with the wait: no stream is kept waiting for another's. Events are kept and
 * used again.
 *
 * What ends steps happens on this thread only: it hears what kernels told of
 * their data, says that the card is lost, and only then lets those go who
 * settle. So no step is failed that is over. The last share of a device may go
 * on this thread, too: it then cleans up behind itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/base/vec.h"
#include "engine/base/waiter.h"
#include "kernels/cuda/cuda.h"

#define LOOK INT64_C(50000)      /* ns to look again and again */
#define NAP_LEAST INT64_C(20000) /* ns */
#define NAP_MOST INT64_C(500000)

typedef struct lane {
  cudaStream_t stream;
  td_cuda_wait *first, *last; /* under the lock */
} lane;

struct td_cuda_events {
  td_cuda *of;
  lane lanes[TD_CUDA_STREAMS];
  pthread_mutex_t lock;
  td_waiter more; /* the thread sleeps here */
  uint32_t news;  /* atomic: changes with all that it should look at */
  pthread_t thread;
  bool started;
  bool quit;                         /* under the lock */
  td_settling *settle, *settle_last; /* under the lock: by their marks */
  TD_VEC(cudaEvent_t) kept;          /* under the lock */
  uint64_t complete;                 /* atomic; written by the thread */
  void (*orphaned)(void *arg);       /* under the lock: it cleans up */
  void *arg;
};

cudaStream_t td_cuda_stream_of(td_cuda_events *v, td_cuda_stream_name s) {
  return v->lanes[s].stream;
}

uint64_t td_cuda_complete(const td_cuda_events *v) {
  return __atomic_load_n(&v->complete, __ATOMIC_ACQUIRE);
}

void td_cuda_rouse(td_cuda_events *v) {
  __atomic_fetch_add(&v->news, 1, __ATOMIC_RELEASE);
  td_waiter_wake(&v->more);
}

/* ---- events -------------------------------------------------------------- */

static td_status *event_take(td_cuda_events *v, cudaEvent_t *out) {
  pthread_mutex_lock(&v->lock);
  bool kept = v->kept.len > 0;
  if (kept) *out = v->kept.at[--v->kept.len];
  pthread_mutex_unlock(&v->lock);
  if (kept) return NULL;
  return td_cuda_ok(cudaEventCreateWithFlags(out, cudaEventDisableTiming |
                                                      cudaEventBlockingSync),
                    "making an event");
}

static void event_keep(td_cuda_events *v, cudaEvent_t e) {
  pthread_mutex_lock(&v->lock);
  bool kept = td_vec_push(&v->kept, e);
  pthread_mutex_unlock(&v->lock);
  if (!kept) (void)cudaEventDestroy(e);
}

td_status *td_cuda_await(td_cuda_events *v, td_cuda_stream_name s,
                         td_cuda_wait *w) {
  lane *l = &v->lanes[s];
  TD_TRY(event_take(v, &w->event));
  pthread_mutex_lock(&v->lock); /* in the order in which they were recorded */
  cudaError_t e = cudaEventRecord(w->event, l->stream);
  if (e == cudaSuccess) {
    w->next = NULL;
    if (l->last)
      l->last->next = w;
    else
      l->first = w;
    l->last = w;
    td_cuda_rouse(v);
  }
  pthread_mutex_unlock(&v->lock);
  if (e == cudaSuccess) return NULL;
  event_keep(v, w->event);
  return td_cuda_error(e, "recording an event");
}

void td_cuda_settle(td_cuda_events *v, td_settling *of) {
  of->next = NULL;
  pthread_mutex_lock(&v->lock);
  if (v->settle_last)
    v->settle_last->next = of;
  else
    v->settle = of;
  v->settle_last = of;
  td_cuda_rouse(v);
  pthread_mutex_unlock(&v->lock);
}

td_status *td_cuda_order(td_cuda_events *first, td_cuda_stream_name a,
                         td_cuda_events *later, td_cuda_stream_name b) {
  cudaEvent_t event;
  TD_TRY(event_take(first, &event));
  td_status *s = td_cuda_ok(cudaEventRecord(event, first->lanes[a].stream),
                            "recording an event");
  if (td_ok(s))
    s = td_cuda_ok(cudaStreamWaitEvent(later->lanes[b].stream, event, 0),
                   "having a stream wait");
  event_keep(first, event); /* who waits has what was recorded by now */
  return s;
}

/* ---- the thread: what is over -------------------------------------------- */

/* Is it? An error is believed when it is told twice: what it says is that the
 * card is lost. */
static cudaError_t ask(cudaEvent_t event) {
  cudaError_t e = cudaEventQuery(event);
  if (e != cudaSuccess && e != cudaErrorNotReady)
    e = cudaEventSynchronize(event);
  if (e != cudaSuccess) (void)cudaGetLastError();
  return e;
}

/* What the oldest of a stream came to; it is taken out. */
static td_cuda_wait *take(td_cuda_events *v, td_cuda_stream_name s,
                          cudaError_t *e) {
  lane *l = &v->lanes[s];
  pthread_mutex_lock(&v->lock);
  td_cuda_wait *w = l->first;
  pthread_mutex_unlock(&v->lock);
  if (!w || (*e = ask(w->event)) == cudaErrorNotReady) return NULL;
  pthread_mutex_lock(&v->lock);
  l->first = w->next;
  if (!l->first) l->last = NULL;
  pthread_mutex_unlock(&v->lock);
  return w;
}

/* Kernels up to `number` are complete, or the card is lost. */
static void advance(td_cuda_events *v, uint64_t number, cudaError_t e) {
  if (e != cudaSuccess) td_cuda_lose(v->of, e);
  td_cuda_hear(v->of, number);
  if (number > v->complete)
    __atomic_store_n(&v->complete, number, __ATOMIC_RELEASE);
}

/* Whoever enqueued it has left the lock: the device may go with what follows.
 */
static void pass_lock(td_cuda *d) {
  pthread_mutex_lock(&d->lock);
  pthread_mutex_unlock(&d->lock);
}

/* The streams by turns, so that none is kept from its own. */
static bool end_some(td_cuda_events *v) {
  bool any = false;
  for (int s = 0; s < TD_CUDA_STREAMS; s++) {
    cudaError_t e = cudaSuccess;
    td_cuda_wait *w = take(v, (td_cuda_stream_name)s, &e);
    if (!w) continue;
    any = true;
    if (s == TD_CUDA_COMPUTE)
      advance(v, w->number, e);
    else if (e != cudaSuccess)
      advance(v, 0, e);
    event_keep(v, w->event);
    pass_lock(v->of);
    w->over(w, e);
  }
  return any;
}

/* The first who settles, when it may go. `*mark`: what it waits for where no
 * event was left for it. */
static td_settling *take_settled(td_cuda_events *v, uint64_t *mark) {
  pthread_mutex_lock(&v->lock);
  td_settling *of = v->settle;
  if (of && of->mark[0] > v->complete) {
    if (!v->lanes[TD_CUDA_COMPUTE].first) *mark = of->mark[0];
    of = NULL;
  }
  if (of) {
    v->settle = of->next;
    if (!v->settle) v->settle_last = NULL;
  }
  pthread_mutex_unlock(&v->lock);
  return of;
}

static bool settle_some(td_cuda_events *v) {
  uint64_t mark = 0;
  td_settling *of = take_settled(v, &mark);
  if (mark) {
    cudaStream_t compute = v->lanes[TD_CUDA_COMPUTE].stream;
    cudaError_t e = cudaStreamSynchronize(compute);
    if (e != cudaSuccess) e = cudaStreamSynchronize(compute);
    advance(v, mark, e);
    return true;
  }
  if (!of) return false;
  pass_lock(v->of);
  td_cuda_trace_due(v->of);
  of->over(of);
  return true;
}

/* ---- the thread: sleeping ------------------------------------------------ */

typedef struct nap {
  td_cuda_events *of;
  uint32_t news;
} nap;

static uint32_t news_of(const td_cuda_events *v) {
  return __atomic_load_n(&v->news, __ATOMIC_ACQUIRE);
}

static bool has_news(void *arg) {
  const nap *n = arg;
  return news_of(n->of) != n->news;
}

/* Does anybody wait? `*quit`: nobody does, nor ever will. */
static bool is_waited_for(td_cuda_events *v, bool *quit) {
  pthread_mutex_lock(&v->lock);
  bool any = v->settle != NULL;
  for (int s = 0; s < TD_CUDA_STREAMS; s++) any |= v->lanes[s].first != NULL;
  *quit = v->quit && !any;
  pthread_mutex_unlock(&v->lock);
  return any;
}

/* Nothing is over yet. `*since`: when that was first so. */
static void wait_a_little(td_cuda_events *v, uint32_t news, int64_t *since) {
  int64_t now = td_clock_now();
  nap n = {v, news};
  if (!*since) *since = now;
  int64_t length = (now - *since) / 8;
  if (now - *since < LOOK) {
    sched_yield();
    return;
  }
  if (length < NAP_LEAST) length = NAP_LEAST;
  if (length > NAP_MOST) length = NAP_MOST;
  (void)!td_waiter_wait(&v->more, now + length, NULL, has_news, &n);
}

static void *listen(void *arg) {
  td_cuda_events *v = arg;
  int64_t since = 0;
  (void)cudaSetDevice(v->of->ordinal);
  for (bool quit = false; !quit;) {
    nap n = {v, news_of(v)};
    td_cuda_tell(v->of);
    if (end_some(v) || settle_some(v)) {
      since = 0;
    } else if (is_waited_for(v, &quit)) {
      wait_a_little(v, n.news, &since);
    } else if (!quit) {
      (void)!td_waiter_wait(&v->more, INT64_MAX, NULL, has_news, &n);
      since = 0;
    }
  }
  if (v->orphaned) {
    pthread_detach(pthread_self());
    v->orphaned(v->arg);
  }
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

static td_status *make_streams(td_cuda_events *v) {
  for (int s = 0; s < TD_CUDA_STREAMS; s++)
    TD_CUDA(
        cudaStreamCreateWithFlags(&v->lanes[s].stream, cudaStreamNonBlocking));
  return NULL;
}

td_status *td_cuda_events_new(td_cuda *d, td_cuda_events **out) {
  td_cuda_events *v = td_calloc(1, sizeof *v);
  if (!v) return td_oom();
  v->of = d;
  pthread_mutex_init(&v->lock, NULL);
  td_status *s = make_streams(v);
  if (!td_ok(s)) {
    td_cuda_events_free(v);
    return s;
  }
  *out = v;
  return NULL;
}

td_status *td_cuda_events_start(td_cuda_events *v) {
  v->started = td_thread_start(&v->thread, "cuda-events", -1, listen, v);
  if (v->started) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED, "there is no thread to be had for %s",
                  v->of->base.name);
}

bool td_cuda_events_end(td_cuda_events *v, void (*orphaned)(void *arg),
                        void *arg) {
  if (!v->started) return true;
  bool self = pthread_equal(v->thread, pthread_self());
  pthread_mutex_lock(&v->lock);
  v->quit = true;
  if (self) {
    v->orphaned = orphaned;
    v->arg = arg;
  }
  td_cuda_rouse(v);
  pthread_mutex_unlock(&v->lock);
  if (!self) pthread_join(v->thread, NULL);
  return !self;
}

void td_cuda_events_free(td_cuda_events *v) {
  if (!v) return;
  for (int s = 0; s < TD_CUDA_STREAMS; s++)
    if (v->lanes[s].stream) (void)cudaStreamDestroy(v->lanes[s].stream);
  for (size_t i = 0; i < v->kept.len; i++)
    (void)cudaEventDestroy(v->kept.at[i]);
  td_vec_free(&v->kept);
  pthread_mutex_destroy(&v->lock);
  td_free(v);
}
