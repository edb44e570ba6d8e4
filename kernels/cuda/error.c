/* error.c - what went wrong on a card, as a status of a node.
 *
 * Three kinds. A call refuses: its error is the kernel's. A kernel finds wrong
 * data: it notes the first in a word that both sides see, goes on, and who
 * settles the device finds it there. A kernel breaks the device (an address
 * that is none): CUDA tells at some later call, and all is lost; which kernel
 * it was is among those that were not complete.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/str.h"
#include "engine/device/kernel_start.h"
#include "kernels/cuda/cuda.h"

static td_code code_of(cudaError_t e) {
  switch (e) {
  case cudaErrorMemoryAllocation:
    return TD_RESOURCE_EXHAUSTED;
  case cudaErrorInsufficientDriver:
  case cudaErrorNoDevice:
  case cudaErrorStubLibrary:
    return TD_NOT_FOUND;
  case cudaErrorInvalidValue:
  case cudaErrorInvalidConfiguration:
    return TD_INTERNAL;
  default:
    return TD_UNAVAILABLE;
  }
}

/* The thread's last error is cleared: it was heard. */
td_status *td_cuda_error(cudaError_t e, const char *what) {
  (void)cudaGetLastError();
  return td_error(code_of(e), "CUDA: %s (%s, error %d) in %.120s",
                  cudaGetErrorString(e), cudaGetErrorName(e), (int)e, what);
}

td_status *td_cuda_no_type(const td_kernel_ctx *c, int i) {
  return td_error(TD_INTERNAL, "input %d of %s is %s, which it has no code for",
                  i, td_ctx_node(c)->op->type,
                  td_dtype_name(td_in(c, i)->dtype));
}

/* ---- data ---------------------------------------------------------------- */

td_cuda_report td_cuda_report_of(const td_kernel_ctx *c, const char *text) {
  td_cuda *d = td_cuda_of(c);
  td_cuda_launch *l = &d->ring[d->enqueued % TD_CUDA_RING];
  l->text = text;
  return (td_cuda_report){d->word, l->number};
}

/* Under the lock. NULL: it was long ago. */
static const td_cuda_launch *find(const td_cuda *d, uint64_t number) {
  const td_cuda_launch *l = &d->ring[number % TD_CUDA_RING];
  return l->number == number ? l : NULL;
}

static td_status *blame(const td_cuda *d, const td_cuda_launch *l,
                        td_status *s) {
  return td_status_at(s, l->op, l->node, NULL, d->base.name);
}

void td_cuda_hear(td_cuda *d, uint64_t number) {
  td_cuda_word *w = d->word;
  uint64_t of = __atomic_load_n(&w->number, __ATOMIC_ACQUIRE);
  if (TD_LIKELY(of == 0) || of > number) return;
  pthread_mutex_lock(&d->lock);
  const td_cuda_launch *l = find(d, of);
  td_step *step = l ? l->step : NULL;
  td_status *s = NULL;
  if (l && l->text) {
    td_str text;
    td_str_init(&text);
    td_str_addf(&text, l->text, w->value, w->limit);
    s = blame(d, l, td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text)));
    td_str_deinit(&text);
  }
  __atomic_store_n(&w->number, 0, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&d->lock);
  if (step && !td_ok(s))
    td_step_fail(step, s);
  else
    td_status_release(s);
}

/* ---- the card ------------------------------------------------------------ */

enum { NAMED = 5 };

/* Which it may have been. Under the lock. */
static void name_suspects(const td_cuda *d, td_str *text) {
  uint64_t first = d->events ? td_cuda_complete(d->events) + 1 : 1;
  int n = 0;
  if (d->enqueued >= TD_CUDA_RING && first < d->enqueued - TD_CUDA_RING + 1)
    first = d->enqueued - TD_CUDA_RING + 1;
  for (uint64_t i = first; i <= d->enqueued; i++) {
    const td_cuda_launch *l = find(d, i);
    if (!l || n++ >= NAMED) continue;
    td_str_addf(text, "%s%s (%s)", n > 1 ? ", " : "", l->node, l->op);
  }
  if (n > NAMED) td_str_addf(text, " and %d more", n - NAMED);
}

static td_status *why_lost(const td_cuda *d, cudaError_t e) {
  td_str suspects;
  td_str_init(&suspects);
  name_suspects(d, &suspects);
  td_status *s = td_error(
      TD_UNAVAILABLE,
      "%s is lost: %s (%s, error %d)%s%s; its memory is gone, other devices go "
      "on; run again with cuda_sync = true to learn which node it was",
      d->base.name, cudaGetErrorString(e), cudaGetErrorName(e), (int)e,
      suspects.len ? ", in one of " : "", td_str_c(&suspects));
  td_str_deinit(&suspects);
  return s;
}

/* The steps of those that are not complete, each once. */
static int take_steps(const td_cuda *d, td_step **out) {
  int n = 0;
  uint64_t done = td_cuda_complete(d->events);
  for (uint64_t i = d->enqueued; i > done && d->enqueued - i < TD_CUDA_RING;
       i--) {
    const td_cuda_launch *l = find(d, i);
    bool known = !l || !l->step;
    for (int k = 0; k < n && !known; k++) known = out[k] == l->step;
    if (!known) out[n++] = l->step;
  }
  return n;
}

void td_cuda_lose(td_cuda *d, cudaError_t e) {
  td_step *steps[TD_CUDA_RING];
  int n = 0;
  pthread_mutex_lock(&d->lock);
  bool first = !d->lost;
  if (first) {
    d->lost = why_lost(d, e);
    n = take_steps(d, steps);
    __atomic_store_n(&d->base.gone, 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&d->lock);
  for (int i = 0; i < n; i++) td_step_fail(steps[i], td_status_retain(d->lost));
}
