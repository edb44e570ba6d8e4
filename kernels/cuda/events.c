/* events.c - streams, and the thread that hears when their work is over.
 *
 * Whoever waits leaves an event on a stream and goes; one thread asks for the
 * oldest of each stream, briefly by looking again and again, then asleep until
 * it comes. Events are kept and used again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "kernels/cuda/cuda.h"

#define LOOK INT64_C(50000) /* ns to look again and again */

typedef struct lane {
  cudaStream_t stream;
  td_cuda_wait *first, *last; /* under the lock */
} lane;

struct td_cuda_events {
  td_cuda *of;
  lane lanes[TD_CUDA_STREAMS];
  pthread_mutex_t lock;
  pthread_cond_t more;
  pthread_t thread;
  bool started, quit; /* under the lock */
  TD_VEC(cudaEvent_t) kept; /* under the lock */
  uint64_t complete; /* atomic */
};

cudaStream_t td_cuda_stream_of(td_cuda_events *v, td_cuda_stream_name s) {
  return v->lanes[s].stream;
}

uint64_t td_cuda_complete(const td_cuda_events *v) {
  return __atomic_load_n(&v->complete, __ATOMIC_ACQUIRE);
}

/* ---- events -------------------------------------------------------------- */

static td_status *event_take(td_cuda_events *v, cudaEvent_t *out) {
  pthread_mutex_lock(&v->lock);
  bool kept = v->kept.len > 0;
  if (kept) *out = v->kept.at[--v->kept.len];
  pthread_mutex_unlock(&v->lock);
  if (kept) return NULL;
  return td_cuda_ok(cudaEventCreateWithFlags(
                        out, cudaEventDisableTiming | cudaEventBlockingSync),
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
    pthread_cond_signal(&v->more);
  }
  pthread_mutex_unlock(&v->lock);
  if (e == cudaSuccess) return NULL;
  event_keep(v, w->event);
  return td_cuda_error(e, "recording an event");
}

td_status *td_cuda_order(td_cuda_events *v, td_cuda_stream_name first,
                         td_cuda_stream_name later) {
  cudaEvent_t event;
  TD_TRY(event_take(v, &event));
  td_status *s = td_cuda_ok(cudaEventRecord(event, v->lanes[first].stream),
                            "recording an event");
  if (td_ok(s))
    s = td_cuda_ok(cudaStreamWaitEvent(v->lanes[later].stream, event, 0),
                   "having a stream wait");
  event_keep(v, event); /* who waits has what was recorded by now */
  return s;
}

/* ---- the thread ---------------------------------------------------------- */

/* What the oldest of a stream came to. Under the lock. */
static td_cuda_wait *take(td_cuda_events *v, td_cuda_stream_name *of,
                          cudaError_t *e) {
  for (int s = 0; s < TD_CUDA_STREAMS; s++) {
    lane *l = &v->lanes[s];
    td_cuda_wait *w = l->first;
    if (!w) continue;
    *e = cudaEventQuery(w->event);
    if (*e == cudaErrorNotReady) {
      (void)cudaGetLastError();
      continue;
    }
    l->first = w->next;
    if (!l->first) l->last = NULL;
    *of = (td_cuda_stream_name)s;
    return w;
  }
  return NULL;
}

static bool is_idle(const td_cuda_events *v) {
  for (int s = 0; s < TD_CUDA_STREAMS; s++)
    if (v->lanes[s].first) return false;
  return true;
}

static void end(td_cuda_events *v, td_cuda_stream_name s, td_cuda_wait *w,
                cudaError_t e) {
  td_cuda *d = v->of;
  if (e != cudaSuccess) {
    (void)cudaGetLastError();
    td_cuda_lose(d, e);
  }
  if (s == TD_CUDA_COMPUTE) {
    __atomic_store_n(&v->complete, w->number, __ATOMIC_RELEASE);
    if (e == cudaSuccess) td_cuda_hear(d, w->number);
  }
  event_keep(v, w->event);
  w->over(w, e);
}

/* Nothing was over for a while: sleeps until the oldest of some stream is. The
 * event stays where it is meanwhile: only this thread takes it away. */
static void sleep_for_one(td_cuda_events *v) {
  cudaEvent_t event = NULL;
  for (int s = TD_CUDA_STREAMS; s-- > 0;)
    if (v->lanes[s].first) event = v->lanes[s].first->event;
  pthread_mutex_unlock(&v->lock);
  if (event) (void)cudaEventSynchronize(event);
  (void)cudaGetLastError();
  pthread_mutex_lock(&v->lock);
}

static void *listen(void *arg) {
  td_cuda_events *v = arg;
  int64_t since = 0;
  (void)cudaSetDevice(v->of->ordinal);
  pthread_mutex_lock(&v->lock);
  while (!v->quit || !is_idle(v)) {
    td_cuda_stream_name s;
    cudaError_t e;
    td_cuda_wait *w = take(v, &s, &e);
    if (w) {
      pthread_mutex_unlock(&v->lock);
      end(v, s, w, e);
      pthread_mutex_lock(&v->lock);
      since = 0;
    } else if (is_idle(v)) {
      if (!v->quit) pthread_cond_wait(&v->more, &v->lock);
      since = 0;
    } else if (!since) {
      since = td_clock_now();
    } else if (td_clock_now() - since > LOOK) {
      sleep_for_one(v);
    } else {
      pthread_mutex_unlock(&v->lock);
      sched_yield();
      pthread_mutex_lock(&v->lock);
    }
  }
  pthread_mutex_unlock(&v->lock);
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

static td_status *make_streams(td_cuda_events *v) {
  for (int s = 0; s < TD_CUDA_STREAMS; s++)
    TD_CUDA(cudaStreamCreateWithFlags(&v->lanes[s].stream,
                                      cudaStreamNonBlocking));
  return NULL;
}

td_status *td_cuda_events_new(td_cuda *d, td_cuda_events **out) {
  td_cuda_events *v = td_calloc(1, sizeof *v);
  if (!v) return td_oom();
  v->of = d;
  pthread_mutex_init(&v->lock, NULL);
  pthread_cond_init(&v->more, NULL);
  td_status *s = make_streams(v);
  if (td_ok(s)) {
    v->started = pthread_create(&v->thread, NULL, listen, v) == 0;
    if (!v->started)
      s = td_error(TD_RESOURCE_EXHAUSTED, "no thread for %s", d->base.name);
  }
  if (!td_ok(s)) {
    td_cuda_events_free(v);
    return s;
  }
  *out = v;
  return NULL;
}

void td_cuda_events_free(td_cuda_events *v) {
  if (!v) return;
  pthread_mutex_lock(&v->lock);
  v->quit = true;
  pthread_cond_signal(&v->more);
  pthread_mutex_unlock(&v->lock);
  if (v->started) pthread_join(v->thread, NULL);
  for (int s = 0; s < TD_CUDA_STREAMS; s++)
    if (v->lanes[s].stream) (void)cudaStreamDestroy(v->lanes[s].stream);
  for (size_t i = 0; i < v->kept.len; i++)
    (void)cudaEventDestroy(v->kept.at[i]);
  td_vec_free(&v->kept);
  pthread_mutex_destroy(&v->lock);
  pthread_cond_destroy(&v->more);
  td_free(v);
}
