/* device.c - a CUDA device: kernels enqueued, copies, what settles.
 *
 * A kernel is enqueued on one stream, by one thread at a time, and is done for
 * the executor then; its consumers follow on the same stream. Copies have
 * streams of their own: one to the host begins when the kernels that were
 * enqueued by then are over; one from the host when the kernels are over that
 * may use what its block held before, which is mostly at once. Whoever waits is
 * called by the events' thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/kernel_start.h"
#include "kernels/cuda/cuda.h"

enum { MARK_EVERY = 64 }; /* kernels: how many are complete is known so often */

/* ---- opening ------------------------------------------------------------- */

static td_status *open_card(td_cuda *d) {
  void *word = NULL;
  size_t left = 0, total = 0;
  TD_CUDA(cudaDeviceGetAttribute(&d->sms, cudaDevAttrMultiProcessorCount,
                                 d->ordinal));
  TD_CUDA(cudaHostAlloc(&word, sizeof *d->word, cudaHostAllocMapped));
  d->word = word;
  memset(word, 0, sizeof *d->word);
  TD_CUDA(cudaMemGetInfo(&left, &total));
  if (td_allocator_read_stats(d->base.memory).limit == 0)
    td_allocator_set_limit(d->base.memory, left / 10 * 9);
  return td_cuda_events_new(d, &d->events);
}

static td_status *open_once(td_cuda *d) {
  pthread_mutex_lock(&d->lock);
  if (!d->opened && !d->unopened) {
    td_status *s = open_card(d);
    d->unopened = s;
    __atomic_store_n(&d->opened, td_ok(s), __ATOMIC_RELEASE);
  }
  td_status *s = td_status_retain(d->unopened);
  pthread_mutex_unlock(&d->lock);
  return s;
}

static td_status *why_gone(td_cuda *d) {
  pthread_mutex_lock(&d->lock);
  td_status *s = td_status_retain(d->lost);
  pthread_mutex_unlock(&d->lock);
  return s;
}

td_status *td_cuda_enter(td_cuda *d) {
  static _Thread_local int set = -1;
  if (TD_UNLIKELY(td_device_gone(&d->base))) TD_TRY(why_gone(d));
  if (set != d->ordinal) {
    TD_CUDA(cudaSetDevice(d->ordinal));
    set = d->ordinal;
  }
  if (TD_LIKELY(__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE))) return NULL;
  return open_once(d);
}

/* ---- waiting ------------------------------------------------------------- */

/* Of nobody: says how many kernels are complete. */
static void over_mark(td_cuda_wait *w, cudaError_t e) {
  (void)e;
  td_free(w);
}

/* Under the lock. Nobody minds when there is none. */
static void leave_mark(td_cuda *d) {
  td_cuda_wait *w = td_calloc(1, sizeof *w);
  if (!w) return;
  w->over = over_mark;
  w->number = d->enqueued;
  td_status *s = td_cuda_await(d->events, TD_CUDA_COMPUTE, w);
  if (td_ok(s)) return;
  td_status_release(s);
  td_free(w);
}

typedef struct settle_wait {
  td_cuda_wait base; /* first */
  td_settling *of;
} settle_wait;

static void over_settled(td_cuda_wait *w, cudaError_t e) {
  td_settling *of = ((settle_wait *)w)->of;
  (void)e; /* td_cuda_lose has told the steps */
  td_free(w);
  of->over(of);
}

static td_status *wait_settled(td_cuda *d, td_settling *of) {
  settle_wait *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  w->base.over = over_settled;
  w->base.number = d->enqueued;
  w->of = of;
  td_status *s = td_cuda_await(d->events, TD_CUDA_COMPUTE, &w->base);
  if (!td_ok(s)) td_free(w);
  return s;
}

/* Where no event can be had, the card itself is waited for. */
static bool settle(td_device *base, td_settling *of) {
  td_cuda *d = (td_cuda *)base;
  if (!__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE)) return true;
  pthread_mutex_lock(&d->lock);
  bool settled = d->lost || td_cuda_complete(d->events) >= d->enqueued;
  td_status *s = settled ? NULL : wait_settled(d, of);
  uint64_t number = d->enqueued;
  pthread_mutex_unlock(&d->lock);
  if (settled || td_ok(s)) return settled;
  td_status_release(s);
  cudaError_t e =
      cudaStreamSynchronize(td_cuda_stream_of(d->events, TD_CUDA_COMPUTE));
  if (e != cudaSuccess) td_cuda_lose(d, e);
  td_cuda_hear(d, number);
  return true;
}

/* ---- kernels ------------------------------------------------------------- */

void td_cuda_note(td_cuda *d, const td_kernel_ctx *c) {
  uint64_t number = d->enqueued + 1;
  td_cuda_launch *l = &d->ring[number % TD_CUDA_RING];
  const td_node *n = c->kernel->node;
  l->number = number;
  l->step = c->step;
  l->text = NULL;
  strncpy(l->node, n->name, sizeof l->node - 1);
  strncpy(l->op, n->op->type, sizeof l->op - 1);
  __atomic_store_n(&d->enqueued, number, __ATOMIC_RELEASE);
}

/* cuda_sync: each kernel is waited for, so that its errors are its own. */
static td_status *wait_now(td_cuda *d) {
  cudaError_t e =
      cudaStreamSynchronize(td_cuda_stream_of(d->events, TD_CUDA_COMPUTE));
  if (e != cudaSuccess) td_cuda_lose(d, e);
  TD_TRY(td_cuda_ok(e, "a kernel"));
  td_cuda_hear(d, d->enqueued);
  return NULL;
}

static void launch(td_device *base, td_kernel_ctx *c) {
  td_cuda *d = (td_cuda *)base;
  td_status *s = td_cuda_enter(d);
  if (td_ok(s)) {
    pthread_mutex_lock(&d->lock);
    td_cuda_note(d, c);
    s = td_kernel_run(c);
    if (d->enqueued % MARK_EVERY == 0) leave_mark(d);
    pthread_mutex_unlock(&d->lock);
    if (td_ok(s) && d->sync) s = wait_now(d);
  }
  td_kernel_done(c, s);
}

/* ---- copies -------------------------------------------------------------- */

typedef struct copy_wait {
  td_cuda_wait base;  /* first */
  td_tensor from, to; /* held until it is over */
  td_copied copied;
  void *arg;
} copy_wait;

static void end_copy(copy_wait *w, td_status *s) {
  td_copied copied = w->copied;
  void *arg = w->arg;
  td_tensor_release(&w->from);
  td_tensor_release(&w->to);
  td_free(w);
  copied(arg, s);
}

static void over_copy(td_cuda_wait *w, cudaError_t e) {
  end_copy((copy_wait *)w, td_cuda_ok(e, "a copy"));
}

static bool is_here(const td_cuda *d, const td_tensor *t) {
  return t->buffer->allocator == d->base.memory;
}

/* Which stream it goes by, once that has been made to wait for what it must. */
static td_status *choose(td_cuda *d, const td_tensor *from, const td_tensor *to,
                         td_cuda_stream_name *stream,
                         enum cudaMemcpyKind *kind) {
  bool out = is_here(d, from), in = is_here(d, to);
  *stream = out && in ? TD_CUDA_COMPUTE : out ? TD_CUDA_OUT : TD_CUDA_IN;
  *kind = out && in ? cudaMemcpyDeviceToDevice
          : out     ? cudaMemcpyDeviceToHost
                    : cudaMemcpyHostToDevice;
  if (*stream == TD_CUDA_COMPUTE) return NULL;
  if (!out && td_cuda_memory_mark(d->base.memory, to->buffer->data) <=
                  td_cuda_complete(d->events))
    return NULL;
  return td_cuda_order(d->events, TD_CUDA_COMPUTE, *stream);
}

/* Kernels that are enqueued from now on see what it brings. */
static td_status *enqueue_copy(td_cuda *d, copy_wait *w) {
  size_t bytes = td_tensor_bytes(&w->from);
  td_cuda_stream_name stream;
  enum cudaMemcpyKind kind;
  TD_TRY(choose(d, &w->from, &w->to, &stream, &kind));
  if (bytes)
    TD_CUDA(cudaMemcpyAsync(w->to.data, w->from.data, bytes, kind,
                            td_cuda_stream_of(d->events, stream)));
  w->base.number = d->enqueued;
  return td_cuda_await(d->events, stream, &w->base);
}

static void copy(td_device *base, const td_tensor *from, td_tensor *to,
                 td_copied copied, void *arg) {
  td_cuda *d = (td_cuda *)base;
  copy_wait *w = td_calloc(1, sizeof *w);
  if (!w) {
    copied(arg, td_oom());
    return;
  }
  w->base.over = over_copy;
  w->copied = copied;
  w->arg = arg;
  td_tensor_retain(from, &w->from);
  td_tensor_retain(to, &w->to);
  td_status *s = td_cuda_enter(d);
  if (td_ok(s)) {
    pthread_mutex_lock(&d->lock);
    s = enqueue_copy(d, w);
    pthread_mutex_unlock(&d->lock);
  }
  if (!td_ok(s)) end_copy(w, s);
}

static bool is_peer(const td_device *d, const td_allocator *a) {
  return a != d->memory && td_cuda_is_memory(a);
}

/* By a kernel that runs: the lock is held, the device is set. */
static td_status *copy_inside(td_device *base, const td_tensor *from,
                              td_tensor *to) {
  td_cuda *d = (td_cuda *)base;
  size_t bytes = td_tensor_bytes(from);
  if (!bytes) return NULL;
  return td_cuda_ok(
      cudaMemcpyAsync(to->data, from->data, bytes, cudaMemcpyDeviceToDevice,
                      td_cuda_stream_of(d->events, TD_CUDA_COMPUTE)),
      "a copy");
}

/* ---- life ---------------------------------------------------------------- */

static void destroy(td_device *base) {
  td_cuda *d = (td_cuda *)base;
  if (d->opened) (void)cudaSetDevice(d->ordinal);
  td_cuda_events_free(d->events);
  if (d->word) (void)cudaFreeHost(d->word);
  td_cuda_memory_release(base->memory);
  td_cuda_pinned_release(base->host);
  td_status_release(d->unopened);
  td_status_release(d->lost);
  pthread_mutex_destroy(&d->lock);
  td_device_forget(base);
  td_free(d);
}

static td_status *init(td_cuda *d, int index, const char *place) {
  const char *sync = getenv("TIDE_CUDA_SYNC");
  td_device *base = &d->base;
  TD_TRY(td_device_describe(base, place, "CUDA", index));
  base->kernels = "CUDA";
  d->ordinal = index;
  d->sync = sync && *sync == '1';
  base->launch = launch;
  base->copy = copy;
  base->is_peer = is_peer;
  base->copy_inside = copy_inside;
  base->settle = settle;
  base->copy_strided = td_cuda_copy_strided;
  TD_TRY(td_cuda_memory_new(d, &base->memory));
  return td_cuda_pinned_new(d, &base->host);
}

static td_status *make(int index, const char *place, const td_device_options *o,
                       td_device **out) {
  td_cuda *d = td_calloc(1, sizeof *d);
  (void)o;
  if (!d) return td_oom();
  pthread_mutex_init(&d->lock, NULL);
  d->base.free = destroy;
  td_status *s = init(d, index, place);
  if (!td_ok(s)) {
    destroy(&d->base);
    return s;
  }
  *out = &d->base;
  return NULL;
}

/* No driver, or no card: none, which is no error. */
static td_status *count(int *out) {
  cudaError_t e = cudaGetDeviceCount(out);
  if (e == cudaSuccess) return NULL;
  (void)cudaGetLastError();
  *out = 0;
  return NULL;
}

const td_device_factory td_cuda_factory = {
    .type = "CUDA", .count = count, .make = make};
