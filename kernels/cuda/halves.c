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
  td_cuda_half first, second;
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

/* What runs as a kernel of the device, under its lock. */
static td_status *second(td_kernel_ctx *c) {
  work *w = c->work;
  return w->second(c, &w->halves);
}

static void over_first(td_cuda_wait *base, cudaError_t e) {
  work *w = (work *)base;
  td_status *s = td_cuda_ok(e, "a kernel");
  w->halves.number = w->here.data;
  if (td_ok(s)) s = td_cuda_enqueue(w->c, second);
  end(w, s);
}

static td_status *first(td_kernel_ctx *c) {
  work *w = c->work;
  TD_TRY(w->first(c, &w->halves));
  td_shape all = td_shape_vector(w->halves.n);
  TD_TRY(td_tensor_new(td_cuda_of(c)->base.host, TD_INT64, &all, &w->here));
  return td_cuda_ok(
      cudaMemcpyAsync(w->here.data, w->halves.told.data,
                      (size_t)w->halves.n * sizeof(int64_t),
                      cudaMemcpyDeviceToHost, td_cuda_stream(c)),
      "a copy of the sizes that were found");
}

void td_cuda_in_halves(td_kernel_ctx *c, td_cuda_half begin,
                       td_cuda_half then) {
  work *w = td_calloc(1, sizeof *w);
  if (!w) {
    td_kernel_done(c, td_oom());
    return;
  }
  w->base.over = over_first;
  w->c = c;
  w->first = begin;
  w->second = then;
  c->work = w;
  td_status *s = td_cuda_enqueue(c, first);
  if (td_ok(s)) s = td_cuda_after(td_cuda_of(c), &w->base);
  if (!td_ok(s)) end(w, s);
}

void td_cuda_no_cancel(td_kernel_ctx *c) {
  (void)c;
}
