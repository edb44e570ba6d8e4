/* trace.c - what ran on a card in a step that is traced, on the host's clock.
 *
 * A node is over for the executor when its work is enqueued. Of a step that is
 * traced each such piece of work, a kernel or a copy, has an event of CUDA
 * before it and one behind it, which tell when it began and ended; the thread
 * of the events adds it to the trace, before anybody hears that it is over.
 *
 * Times between events of CUDA are known, but not when one was: so one is
 * recorded on a stream where nothing else is, and waited for, and the clock of
 * the host is read before and after. The best of a few tries is what all others
 * are held against, for a while: clocks drift, and a time in floats loses its
 * last digits with its length. What still cannot be, a beginning before the
 * work was enqueued, is set right.
 *
 * With CUPTI (cupti.h), which sees each kernel of a node and those that
 * libraries launch, what it saw takes the place of the whole, when somebody
 * settles: until then the pieces of work are due.
 *
 * Nothing here fails a step. What cannot be timed is not in the trace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/trace.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cupti.h"

enum { TRIES = 4, PIECES = 256 /* of one node */, NAME = 64 };
#define FRESH INT64_C(500000000) /* ns that an origin serves */

/* A moment that both clocks know. */
typedef struct origin {
  int32_t refs; /* atomic */
  cudaEvent_t event;
  int64_t at; /* of the host's clock */
} origin;

struct td_cuda_tracing {
  pthread_mutex_t lock;
  TD_VEC(cudaEvent_t) kept; /* under it: events that tell times */
  cudaStream_t idle;        /* under the device's, as what follows */
  origin *last;
  int32_t open;      /* atomic: pieces of work that CUPTI is to tell of */
  td_cuda_span *due; /* of the thread of the events: those that are over */
};

struct td_cuda_span {
  td_cuda_wait wait; /* first */
  td_cuda *of;
  td_cuda_stream_name on;
  origin *since;
  cudaEvent_t start, end;
  td_trace *into; /* a share */
  char *node;     /* its own: a step that failed may end before its work */
  td_trace_event event;
  uint64_t number; /* CUPTI's; 0: none */
  bool timed;
  td_cuda_span *next;
};

static const char *const names[TD_CUDA_STREAMS] = {
    [TD_CUDA_COMPUTE] = "compute",
    [TD_CUDA_IN] = "copies in",
    [TD_CUDA_OUT] = "copies out",
};

/* ---- events -------------------------------------------------------------- */

static void forget_error(void) {
  (void)cudaGetLastError();
}

static bool event_take(td_cuda_tracing *t, cudaEvent_t *out) {
  pthread_mutex_lock(&t->lock);
  bool kept = t->kept.len > 0;
  if (kept) *out = t->kept.at[--t->kept.len];
  pthread_mutex_unlock(&t->lock);
  if (kept || cudaEventCreateWithFlags(out, cudaEventDefault) == cudaSuccess)
    return true;
  forget_error();
  *out = NULL;
  return false;
}

static void event_keep(td_cuda_tracing *t, cudaEvent_t e) {
  if (!e) return;
  pthread_mutex_lock(&t->lock);
  bool kept = td_vec_push(&t->kept, e);
  pthread_mutex_unlock(&t->lock);
  if (!kept) (void)cudaEventDestroy(e);
}

/* ---- origins ------------------------------------------------------------- */

static void origin_release(td_cuda_tracing *t, origin *o) {
  if (!o || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  event_keep(t, o->event);
  td_free(o);
}

/* Records `e` where nothing else is. ns between the readings of the clock
 * around it, *at: the middle; -1: it cannot be done. */
static int64_t read_both(td_cuda_tracing *t, cudaEvent_t e, int64_t *at) {
  int64_t before = td_clock_now();
  if (cudaEventRecord(e, t->idle) != cudaSuccess ||
      cudaEventSynchronize(e) != cudaSuccess) {
    forget_error();
    return -1;
  }
  int64_t took = td_clock_now() - before;
  *at = before + took / 2;
  return took;
}

/* Of the tries, that with the least between its readings. */
static bool find_origin(td_cuda_tracing *t, origin *o) {
  cudaEvent_t other;
  int64_t best = read_both(t, o->event, &o->at);
  if (best < 0 || !event_take(t, &other)) return best >= 0;
  for (int i = 1; i < TRIES; i++) {
    int64_t at, took = read_both(t, other, &at);
    if (took < 0 || took >= best) continue;
    cudaEvent_t worse = o->event;
    o->event = other;
    o->at = at;
    other = worse;
    best = took;
  }
  event_keep(t, other);
  return true;
}

/* With the device's lock. NULL: there is none. */
static origin *origin_now(td_cuda_tracing *t) {
  if (t->last && td_clock_now() - t->last->at < FRESH) return t->last;
  if (!t->idle && cudaStreamCreateWithFlags(&t->idle, cudaStreamNonBlocking) !=
                      cudaSuccess) {
    t->idle = NULL;
    forget_error();
    return NULL;
  }
  origin *o = td_calloc(1, sizeof *o);
  if (!o) return NULL;
  o->refs = 1;
  if (!event_take(t, &o->event) || !find_origin(t, o)) {
    origin_release(t, o);
    return NULL;
  }
  origin_release(t, t->last);
  return t->last = o;
}

/* ns of the host's clock; false: it is not known. */
static bool when(const origin *o, cudaEvent_t e, int64_t *at) {
  float ms = 0;
  if (cudaEventElapsedTime(&ms, o->event, e) != cudaSuccess) {
    forget_error();
    return false;
  }
  *at = o->at + (int64_t)((double)ms * 1e6);
  return true;
}

/* ---- pieces of work ------------------------------------------------------ */

static void span_free(td_cuda_span *w) {
  td_cuda_tracing *t = w->of->tracing;
  if (w->number) {
    __atomic_fetch_sub(&t->open, 1, __ATOMIC_RELEASE);
    td_cupti_end();
  }
  event_keep(t, w->start);
  event_keep(t, w->end);
  origin_release(t, w->since);
  td_trace_release(w->into);
  td_free(w->node);
  td_free(w);
}

/* What is wrong by what reading both clocks takes is set right: nothing begins
 * before it was enqueued, or ends later than now. */
static void set_right(td_trace_event *v) {
  int64_t now = td_clock_now(), early = v->ready - v->start;
  if (early > 0) {
    v->start += early;
    v->end += early;
  }
  if (v->end > now) v->end = now;
  if (v->start > v->end) v->start = v->end;
}

/* On the thread of the events. */
static void over_span(td_cuda_wait *base, cudaError_t e) {
  td_cuda_span *w = (td_cuda_span *)base;
  td_trace_event *v = &w->event;
  w->timed = e == cudaSuccess && when(w->since, w->start, &v->start) &&
             when(w->since, w->end, &v->end);
  if (w->timed) set_right(v);
  if (w->number && e == cudaSuccess) {
    w->next = w->of->tracing->due;
    w->of->tracing->due = w;
    return;
  }
  if (w->timed) td_trace_add(w->into, v);
  span_free(w);
}

/* The last of the names in "_ZN12_GLOBAL__N_16matmulIfEEvPKT_": "matmul". */
static void short_name(const char *mangled, char out[NAME]) {
  const char *at = mangled;
  size_t n = strlen(mangled);
  if (strncmp(at, "_Z", 2) == 0) {
    at += 2 + (at[2] == 'N');
    for (char *end; *at >= '1' && *at <= '9'; at = end + n) {
      n = strtoul(at, &end, 10);
      if (n > strlen(end)) break;
      mangled = end;
      if (end[n] < '1' || end[n] > '9') break;
    }
  }
  if (n >= NAME) n = NAME - 1;
  if (n > strlen(mangled)) n = strlen(mangled);
  memcpy(out, mangled, n);
  out[n] = '\0';
}

static void deliver(td_cuda_span *w) {
  td_cupti_piece pieces[PIECES];
  char name[NAME];
  size_t n = td_cupti_take(w->number, pieces, PIECES);
  for (size_t i = 0; i < n; i++) {
    td_trace_event v = w->event;
    v.start = pieces[i].start;
    v.end = pieces[i].end;
    short_name(pieces[i].kernel ? pieces[i].kernel : "", name);
    v.value = name;
    set_right(&v);
    td_trace_add(w->into, &v);
  }
  if (n == 0 && w->timed) td_trace_add(w->into, &w->event);
  span_free(w);
}

bool td_cuda_traces(const td_cuda *d) {
  return d->tracing && __atomic_load_n(&d->tracing->open, __ATOMIC_ACQUIRE) > 0;
}

void td_cuda_trace_due(td_cuda *d) {
  td_cuda_tracing *t = __atomic_load_n(&d->tracing, __ATOMIC_ACQUIRE);
  if (TD_LIKELY(!t || !t->due)) return;
  td_cupti_flush();
  while (t->due) {
    td_cuda_span *w = t->due;
    t->due = w->next;
    deliver(w);
  }
}

static td_cuda_tracing *tracing_of(td_cuda *d) {
  if (d->tracing) return d->tracing;
  td_cuda_tracing *t = td_calloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_mutex_init(&t->lock, NULL);
  __atomic_store_n(&d->tracing, t, __ATOMIC_RELEASE);
  return t;
}

static bool record(td_cuda *d, td_cuda_stream_name s, cudaEvent_t e) {
  if (cudaEventRecord(e, td_cuda_stream_of(d->events, s)) == cudaSuccess)
    return true;
  forget_error();
  return false;
}

static td_trace_event describe(const td_cuda *d, td_cuda_stream_name s,
                               const td_kernel_ctx *c, int64_t bytes) {
  const td_node *n = td_ctx_node(c);
  return (td_trace_event){.node = n->name,
                          .op = bytes < 0 ? n->op->type : "copy",
                          .device = d->base.name,
                          .stream = names[s] ? names[s] : "a stream",
                          .value = "",
                          .ready = td_clock_now(),
                          .thread = (int32_t)s,
                          .frame = c->frame,
                          .iteration = c->iteration,
                          .bytes = bytes < 0 ? 0 : bytes};
}

static void number_span(td_cuda_tracing *t, td_cuda_span *w) {
  static uint64_t last; /* atomic */
  if (!td_cupti_begin()) return;
  w->number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&t->open, 1, __ATOMIC_RELAXED);
  td_cupti_enter(w->number);
}

td_cuda_span *td_cuda_span_begin(td_cuda *d, td_cuda_stream_name s,
                                 const td_kernel_ctx *c, int64_t bytes) {
  if (TD_LIKELY(!c || !c->step->trace)) return NULL;
  td_cuda_tracing *t = tracing_of(d);
  origin *since = t ? origin_now(t) : NULL;
  td_cuda_span *w = since ? td_calloc(1, sizeof *w) : NULL;
  if (!w) return NULL;
  w->wait.over = over_span;
  w->of = d;
  w->on = s;
  w->since = since;
  __atomic_fetch_add(&since->refs, 1, __ATOMIC_RELAXED);
  w->into = td_trace_retain(c->step->trace);
  w->event = describe(d, s, c, bytes);
  w->event.node = w->node = td_strdup(w->event.node);
  if (w->node && event_take(t, &w->start) && event_take(t, &w->end) &&
      record(d, s, w->start)) {
    number_span(t, w);
    return w;
  }
  span_free(w);
  return NULL;
}

/* Its wait stands for no kernels: who settles waits for those of a later one,
 * so that the trace has it by then. */
void td_cuda_span_end(td_cuda_span *w, bool enqueued) {
  if (TD_LIKELY(!w)) return;
  td_status *s = NULL;
  if (w->number) td_cupti_leave();
  bool waits = enqueued && record(w->of, w->on, w->end);
  if (waits) s = td_cuda_await(w->of->events, w->on, &w->wait);
  if (!waits || !td_ok(s)) span_free(w);
  td_status_release(s);
}

/* ---- life ---------------------------------------------------------------- */

void td_cuda_tracing_free(td_cuda_tracing *t) {
  if (!t) return;
  for (td_cuda_span *w; (w = t->due);) {
    t->due = w->next;
    span_free(w);
  }
  origin_release(t, t->last);
  for (size_t i = 0; i < t->kept.len; i++)
    (void)cudaEventDestroy(t->kept.at[i]);
  td_vec_free(&t->kept);
  if (t->idle) (void)cudaStreamDestroy(t->idle);
  pthread_mutex_destroy(&t->lock);
  td_free(t);
}
