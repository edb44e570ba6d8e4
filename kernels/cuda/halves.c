/* halves.c - kernels whose outputs' shapes depend on data, in two halves.
 *
 * What the first half found is copied to pinned memory behind it; the thread of
 * the events has the second half run once that is there. Between the two, other
 * kernels may be enqueued; what the first half keeps is held meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "kernels/cuda/cuda.h"

typedef struct work {
  td_cuda_wait base; /* first */
  td_cuda_halves halves;
  td_kernel_ctx *c;
  td_cuda_half second;
  td_tensor here; /* the numbers, in the host's memory */
} work;

/* Takes ownership of `s`. */
static void end(work *w, td_status *s) {
  td_kernel_ctx *c = w->c;
  for (int i = 0; i < TD_CUDA_HELD; i++) td_tensor_release(&w->halves.held[i]);
  td_tensor_release(&w->halves.told);
  td_tensor_release(&w->here);
  td_free(w);
  td_kernel_done(c, s);
}

static td_status *run_second(work *w) {
  td_cuda *d = td_cuda_of(w->c);
  TD_TRY(td_cuda_enter(d));
  w->halves.number = w->here.data;
  pthread_mutex_lock(&d->lock);
  td_cuda_note(d, w->c);
  td_status *s = w->second(w->c, &w->halves);
  pthread_mutex_unlock(&d->lock);
  return s;
}

static void over_first(td_cuda_wait *base, cudaError_t e) {
  work *w = (work *)base;
  td_status *s = td_cuda_ok(e, "a kernel");
  if (td_ok(s)) s = run_second(w);
  end(w, s);
}

/* Under the lock. */
static td_status *run_first(work *w, td_cuda_half first) {
  td_cuda *d = td_cuda_of(w->c);
  td_cuda_note(d, w->c);
  TD_TRY(first(w->c, &w->halves));
  td_shape all = td_shape_vector(w->halves.n);
  TD_TRY(td_tensor_new(d->base.host, TD_INT64, &all, &w->here));
  TD_CUDA(cudaMemcpyAsync(w->here.data, w->halves.told.data,
                          (size_t)w->halves.n * sizeof(int64_t),
                          cudaMemcpyDeviceToHost, td_cuda_stream(w->c)));
  w->base.number = d->enqueued;
  return td_cuda_await(d->events, TD_CUDA_COMPUTE, &w->base);
}

void td_cuda_in_halves(td_kernel_ctx *c, td_cuda_half first,
                       td_cuda_half second) {
  td_cuda *d = td_cuda_of(c);
  work *w = td_calloc(1, sizeof *w);
  if (!w) {
    td_kernel_done(c, td_oom());
    return;
  }
  w->base.over = over_first;
  w->c = c;
  w->second = second;
  td_status *s = td_cuda_enter(d);
  if (td_ok(s)) {
    pthread_mutex_lock(&d->lock);
    s = run_first(w, first);
    pthread_mutex_unlock(&d->lock);
  }
  if (!td_ok(s)) end(w, s);
}

void td_cuda_no_cancel(td_kernel_ctx *c) {
  (void)c;
}
