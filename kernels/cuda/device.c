/* device.c - a CUDA device: kernels enqueued, copies, what settles.
 *
 * A kernel is enqueued on one stream, by one thread at a time, and is done for
 * the executor then; its consumers follow on the same stream. Copies have
 * streams of their own: one to the host begins when the kernels that were
 * enqueued by then are over; one from the host, or from another card, when the
 * kernels are over that may use what its block held before: at once, where
 * there is a block that none of them uses. Whoever waits is called by the
 * events' thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/kernel_start.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn.h"

enum { MARK_EVERY = 64 }; /* kernels: how many are complete is known so often */

/* ---- opening ------------------------------------------------------------- */

static td_status *set_card(const td_cuda *d) {
  static _Thread_local int set = -1;
  if (TD_LIKELY(set == d->ordinal)) return NULL;
  set = -1; /* when it fails, who knows */
  TD_CUDA(cudaSetDevice(d->ordinal));
  set = d->ordinal;
  return NULL;
}

static td_status *open_card(td_cuda *d) {
  void *words = NULL;
  size_t left = 0, total = 0, bytes = TD_CUDA_RING * sizeof *d->word;
  TD_CUDA(cudaDeviceGetAttribute(&d->sms, cudaDevAttrMultiProcessorCount,
                                 d->ordinal));
  TD_CUDA(cudaHostAlloc(&words, bytes, cudaHostAllocMapped));
  d->word = words;
  memset(words, 0, bytes);
  TD_CUDA(cudaMemGetInfo(&left, &total));
  td_cuda_memory_found(d->base.memory, left);
  TD_TRY(td_cuda_events_new(d, &d->events));
  return td_cuda_events_start(d->events);
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

static td_status *lost(const td_cuda *d) {
  return __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
}

td_status *td_cuda_enter(td_cuda *d) {
  if (TD_UNLIKELY(lost(d))) return td_status_retain(lost(d));
  TD_TRY(set_card(d));
  if (TD_LIKELY(__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE))) return NULL;
  return open_once(d);
}

/* Takes the lock of a card that is not lost: it will not be while it is held.
 */
static td_status *lock_card(td_cuda *d) {
  TD_TRY(td_cuda_enter(d));
  pthread_mutex_lock(&d->lock);
  if (TD_LIKELY(!d->lost)) return NULL;
  pthread_mutex_unlock(&d->lock);
  return td_status_retain(d->lost);
}

/* ---- waiting ------------------------------------------------------------- */

/* Of nobody: says how many kernels are complete. */
static void over_mark(td_cuda_wait *w, cudaError_t e) {
  (void)e;
  td_free(w);
}

/* Under the lock, on any thread. Nobody minds when there is none. */
static void leave_mark(td_cuda *d) {
  td_cuda_wait *w = td_calloc(1, sizeof *w);
  if (!w) return;
  w->over = over_mark;
  w->number = d->enqueued;
  td_status *s = set_card(d);
  if (td_ok(s)) s = td_cuda_await(d->events, TD_CUDA_COMPUTE, w);
  if (td_ok(s)) return;
  td_status_release(s);
  td_free(w);
}

/* Also of a lost card: its steps are told first. */
static bool settle(td_device *base, td_settling *of) {
  td_cuda *d = (td_cuda *)base;
  if (!__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE)) return true;
  pthread_mutex_lock(&d->lock);
  bool settled =
      td_cuda_complete(d->events) >= d->enqueued && !td_cuda_traces(d);
  if (!settled) {
    of->mark[0] = d->enqueued;
    if (!d->lost) leave_mark(d);
    td_cuda_settle(d->events, of);
  }
  pthread_mutex_unlock(&d->lock);
  return settled;
}

td_status *td_cuda_after(td_cuda *d, td_cuda_wait *w) {
  TD_TRY(lock_card(d));
  w->number = d->enqueued;
  td_status *s = td_cuda_await(d->events, TD_CUDA_COMPUTE, w);
  pthread_mutex_unlock(&d->lock);
  return td_cuda_why(d, s);
}

/* ---- kernels ------------------------------------------------------------- */

/* Under the lock. The place in the ring is free when what the kernel before
 * told was taken. */
static td_status *free_place(td_cuda *d, const td_cuda_launch *l) {
  if (TD_LIKELY(!l->text || l->number <= d->heard)) return NULL;
  TD_CUDA(cudaStreamSynchronize(td_cuda_stream_of(d->events, TD_CUDA_COMPUTE)));
  return td_cuda_take_told(d);
}

static void put_name(char *to, size_t room, const char *name) {
  size_t n = strlen(name);
  if (n >= room) n = room - 1;
  memcpy(to, name, n);
  to[n] = '\0';
}

/* Under the lock. */
static td_status *note(td_cuda *d, const td_kernel_ctx *c) {
  uint64_t number = d->enqueued + 1;
  td_cuda_launch *l = &d->ring[number % TD_CUDA_RING];
  const td_node *n = c->kernel->node;
  TD_TRY(free_place(d, l));
  l->number = number;
  l->step = c->step;
  l->text = NULL;
  put_name(l->node, sizeof l->node, n->name);
  put_name(l->op, sizeof l->op, n->op->type);
  put_name(l->origin, sizeof l->origin, n->origin ? n->origin : "");
  __atomic_store_n(&d->enqueued, number, __ATOMIC_RELEASE);
  return NULL;
}

/* Each kernel is waited for, so that its errors are its own. */
static td_status *wait_now(td_cuda *d, uint64_t number) {
  cudaError_t e =
      cudaStreamSynchronize(td_cuda_stream_of(d->events, TD_CUDA_COMPUTE));
  if (e != cudaSuccess) return td_cuda_why(d, td_cuda_error(e, "a kernel"));
  pthread_mutex_lock(&d->lock);
  td_status *s = td_cuda_told_by(d, number);
  pthread_mutex_unlock(&d->lock);
  return s;
}

td_status *td_cuda_enqueue(td_kernel_ctx *c,
                           td_status *(*run)(td_kernel_ctx *c)) {
  td_cuda *d = td_cuda_of(c);
  TD_TRY(lock_card(d));
  td_status *s = note(d, c);
  uint64_t number = d->enqueued;
  if (td_ok(s)) {
    td_cuda_span *w = td_cuda_span_begin(d, TD_CUDA_COMPUTE, c, -1);
    s = run(c);
    td_cuda_span_end(w, td_ok(s));
    if (number % MARK_EVERY == 0) leave_mark(d);
  }
  pthread_mutex_unlock(&d->lock);
  if (td_ok(s) && td_cuda_sync(d)) s = wait_now(d, number);
  return td_ok(s) ? NULL : td_cuda_why(d, s);
}

static void launch(td_device *base, td_kernel_ctx *c) {
  (void)base;
  td_kernel_done(c, td_cuda_enqueue(c, td_kernel_run));
}

/* ---- copies -------------------------------------------------------------- */

typedef struct copy_wait {
  td_cuda_wait base; /* first */
  td_cuda *of;
  const td_kernel_ctx *traced; /* until it is enqueued: whose it is, or NULL */
  td_tensor from, to;          /* held until it is over */
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

/* On the thread of the events, which has noted that the card is lost. */
static void over_copy(td_cuda_wait *base, cudaError_t e) {
  copy_wait *w = (copy_wait *)base;
  end_copy(w, e == cudaSuccess ? NULL : td_status_retain(lost(w->of)));
}

/* NULL: no memory, `copied` was called. */
static copy_wait *new_copy(td_cuda *d, const td_tensor *from,
                           const td_tensor *to, td_copied copied, void *arg) {
  copy_wait *w = td_calloc(1, sizeof *w);
  const td_kernel_ctx *traced = td_device_copies_for();
  if (!w) {
    copied(arg, td_oom());
    return NULL;
  }
  *w = (copy_wait){.base.over = over_copy,
                   .of = d,
                   .traced = traced,
                   .copied = copied,
                   .arg = arg};
  td_tensor_retain(from, &w->from);
  td_tensor_retain(to, &w->to);
  return w;
}

static bool is_here(const td_cuda *d, const td_tensor *t) {
  return t->buffer->allocator == d->base.memory;
}

/* What is brought into the block may come before kernels that use what it held
 * are over: then the stream that brings it waits. */
static td_status *order_in(td_cuda *d, const td_tensor *to) {
  if (td_cuda_memory_mark(d->base.memory, to->buffer->data) <=
      td_cuda_complete(d->events))
    return NULL;
  return td_cuda_order(d->events, TD_CUDA_COMPUTE, d->events, TD_CUDA_IN);
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
  if (*stream == TD_CUDA_IN) return order_in(d, to);
  return td_cuda_order(d->events, TD_CUDA_COMPUTE, d->events, TD_CUDA_OUT);
}

/* Where nobody can be told that it is over, it is waited for: its tensors go
 * now. */
static td_status *await_copy(td_cuda *d, copy_wait *w,
                             td_cuda_stream_name stream) {
  w->base.number = d->enqueued;
  td_status *s = td_cuda_await(d->events, stream, &w->base);
  if (!td_ok(s))
    (void)cudaStreamSynchronize(td_cuda_stream_of(d->events, stream));
  return s;
}

/* Kernels that are enqueued when it is over see what it brings. */
static td_status *enqueue_copy(td_cuda *d, copy_wait *w) {
  size_t bytes = td_tensor_bytes(&w->from);
  td_cuda_stream_name stream;
  enum cudaMemcpyKind kind;
  TD_TRY(choose(d, &w->from, &w->to, &stream, &kind));
  td_cuda_span *span = td_cuda_span_begin(d, stream, w->traced, (int64_t)bytes);
  cudaError_t e = cudaSuccess;
  if (bytes)
    e = cudaMemcpyAsync(w->to.data, w->from.data, bytes, kind,
                        td_cuda_stream_of(d->events, stream));
  td_cuda_span_end(span, e == cudaSuccess);
  TD_TRY(td_cuda_ok(e, "a copy"));
  return await_copy(d, w, stream);
}

/* What comes from the host need not wait for kernels where it goes to a block
 * that none of them uses: `to` is new, and nobody has seen its block. */
static void choose_idle(td_cuda *d, td_tensor *to) {
  td_buffer *b = to->buffer;
  if (to->data != b->data || __atomic_load_n(&b->refs, __ATOMIC_RELAXED) != 1)
    return;
  to->data = b->data =
      td_cuda_memory_idle(d->base.memory, b->data, td_cuda_complete(d->events));
}

static void copy(td_device *base, const td_tensor *from, td_tensor *to,
                 td_copied copied, void *arg) {
  td_cuda *d = (td_cuda *)base;
  bool comes = !is_here(d, from) && td_tensor_bytes(from) > 0;
  td_status *s = td_cuda_enter(d);
  if (!td_ok(s)) {
    copied(arg, td_cuda_why(d, s));
    return;
  }
  if (comes) choose_idle(d, to);
  copy_wait *w = new_copy(d, from, to, copied, arg);
  if (!w) return;
  s = lock_card(d);
  if (td_ok(s)) {
    s = enqueue_copy(d, w);
    pthread_mutex_unlock(&d->lock);
    if (td_ok(s)) return; /* it may be over, and the device gone */
    s = td_cuda_why(d, s);
  }
  end_copy(w, s);
}

/* ---- between cards ------------------------------------------------------- */

static bool is_peer(const td_device *d, const td_allocator *a) {
  return a != d->memory && td_cuda_is_memory(a);
}

/* Under the lock, d is set. Without it copies go by the host's memory. */
static void reach(td_cuda *d, const td_cuda *p) {
  uint32_t bit = UINT32_C(1) << (p->ordinal & 31);
  int can = 0;
  if (d->peers & bit || d->ordinal == p->ordinal) return;
  d->peers |= bit; /* it is tried once */
  if (cudaDeviceCanAccessPeer(&can, d->ordinal, p->ordinal) == cudaSuccess &&
      can)
    (void)cudaDeviceEnablePeerAccess(p->ordinal, 0);
  (void)cudaGetLastError();
}

/* d's stream comes after what p has enqueued by now. */
static td_status *order_after(td_cuda *p, td_cuda *d) {
  TD_TRY(lock_card(p));
  td_status *s =
      td_cuda_order(p->events, TD_CUDA_COMPUTE, d->events, TD_CUDA_IN);
  pthread_mutex_unlock(&p->lock);
  return td_ok(s) ? NULL : td_cuda_why(p, s);
}

static td_status *enqueue_peer(td_cuda *d, const td_cuda *p, copy_wait *w) {
  size_t bytes = td_tensor_bytes(&w->from);
  reach(d, p);
  TD_TRY(order_in(d, &w->to));
  td_cuda_span *span =
      td_cuda_span_begin(d, TD_CUDA_IN, w->traced, (int64_t)bytes);
  cudaError_t e = cudaSuccess;
  if (bytes)
    e = cudaMemcpyPeerAsync(w->to.data, d->ordinal, w->from.data, p->ordinal,
                            bytes, td_cuda_stream_of(d->events, TD_CUDA_IN));
  td_cuda_span_end(span, e == cudaSuccess);
  TD_TRY(td_cuda_ok(e, "a copy between cards"));
  return await_copy(d, w, TD_CUDA_IN);
}

/* Both devices' locks are never held together. */
static td_status *begin_peer(td_cuda *d, td_cuda *p, copy_wait *w) {
  TD_TRY(td_cuda_enter(d));
  TD_TRY(order_after(p, d));
  TD_TRY(lock_card(d));
  td_status *s = enqueue_peer(d, p, w);
  pthread_mutex_unlock(&d->lock);
  return s;
}

static void copy_from(td_cuda *d, td_cuda *p, const td_tensor *from,
                      td_tensor *to, td_copied copied, void *arg) {
  copy_wait *w = new_copy(d, from, to, copied, arg);
  if (!w) return;
  td_status *s = begin_peer(d, p, w);
  if (td_ok(s)) return;
  end_copy(w, td_cuda_why(p, td_cuda_why(d, s)));
}

/* To the host it is the other device's to copy. */
static void copy_peer(td_device *base, const td_tensor *from, td_tensor *to,
                      td_copied copied, void *arg) {
  td_cuda *d = (td_cuda *)base;
  td_cuda *p = td_cuda_memory_owner(from->buffer->allocator);
  if (!p)
    copied(arg, td_error(TD_UNAVAILABLE, "%s is gone, and its memory with it",
                         from->buffer->allocator->name));
  else if (is_here(d, to))
    copy_from(d, p, from, to, copied, arg);
  else
    copy(&p->base, from, to, copied, arg);
  if (p) td_device_release(&p->base);
}

/* ---- inside -------------------------------------------------------------- */

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

static void destroy(void *arg) {
  td_cuda *d = arg;
  if (d->opened || d->unopened) td_status_release(set_card(d));
  td_cuda_tracing_free(d->tracing);
  td_cuda_blas_free(d->blas);
  td_cudnn_free(d->cudnn, d->lost != NULL);
  td_cuda_events_free(d->events);
  if (d->word) (void)cudaFreeHost(d->word);
  td_cuda_memory_release(d->base.memory);
  td_cuda_pinned_release(d->base.host);
  for (size_t i = 0; i < d->told.len; i++)
    td_status_release(d->told.at[i].status);
  td_vec_free(&d->told);
  td_status_release(d->unopened);
  td_status_release(d->lost);
  pthread_mutex_destroy(&d->lock);
  td_device_forget(&d->base);
  td_free(d);
}

/* The last share may go on the events' thread, when what it calls ends the
 * program: then it cleans up behind itself. */
static void cuda_free(td_device *base) {
  td_cuda *d = (td_cuda *)base;
  if (!d->events || td_cuda_events_end(d->events, destroy, d)) destroy(d);
}

static td_status *init(td_cuda *d, int index, const char *place) {
  const char *sync = getenv("TIDE_CUDA_SYNC");
  td_device *base = &d->base;
  TD_TRY(td_device_describe(base, place, "CUDA", index));
  base->kernels = "CUDA";
  base->ahead = true;
  d->ordinal = index;
  d->sync = sync && *sync == '1';
  base->launch = launch;
  base->copy = copy;
  base->is_peer = is_peer;
  base->copy_peer = copy_peer;
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
  d->base.free = cuda_free;
  td_status *s = init(d, index, place);
  if (!td_ok(s)) {
    destroy(d);
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
    .type = "CUDA", .count = count, .make = make, .tell = td_cuda_tell_all};
