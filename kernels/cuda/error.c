/* error.c - what went wrong on a card, as a status of a node.
 *
 * Three kinds. A call refuses: its error is the kernel's. A kernel finds wrong
 * data: it notes the first in a word of its own that both sides see, goes on,
 * and the events' thread finds it there when the kernel is complete. A kernel
 * breaks the device (an address that is none): CUDA tells at some later call,
 * and all is lost; which kernel it was is among those that were not complete.
 *
 * There are words for the last TD_CUDA_RING kernels. Where one is needed again
 * before the thread came to look at it, what is there is taken aside.
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

static td_cuda_launch *place_of(td_cuda *d, uint64_t number) {
  return &d->ring[number % TD_CUDA_RING];
}

/* The lock is held: a kernel runs. */
td_cuda_report td_cuda_report_of(const td_kernel_ctx *c, const char *text) {
  td_cuda *d = td_cuda_of(c);
  td_cuda_launch *l = place_of(d, d->enqueued);
  td_cuda_word *w = &d->word[l->number % TD_CUDA_RING];
  l->text = text;
  w->number = 0; /* whose it was is complete */
  __atomic_store_n(&d->reporting, l->number, __ATOMIC_RELEASE);
  return (td_cuda_report){w, l->number};
}

static td_status *blame(const td_cuda *d, const td_cuda_launch *l,
                        td_status *s) {
  return td_status_at(s, l->op, l->node, l->origin[0] ? l->origin : NULL,
                      d->base.name);
}

td_status *td_cuda_told_by(td_cuda *d, uint64_t number) {
  td_cuda_launch *l = place_of(d, number);
  td_cuda_word *w = &d->word[number % TD_CUDA_RING];
  td_str text;
  if (l->number != number || !l->text ||
      __atomic_load_n(&w->number, __ATOMIC_ACQUIRE) != number)
    return NULL;
  td_str_init(&text);
  td_str_addf(&text, l->text, w->value, w->limit);
  td_status *s = text.failed
                     ? td_oom()
                     : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text));
  td_str_deinit(&text);
  l->text = NULL;
  return blame(d, l, s);
}

/* The next of those up to `number` that told something. False: none did. */
static bool next_told(td_cuda *d, uint64_t number, td_cuda_told *out) {
  if (number > d->enqueued) number = d->enqueued;
  for (uint64_t i = d->heard; i < number;) {
    td_status *s = td_cuda_told_by(d, ++i);
    __atomic_store_n(&d->heard, i, __ATOMIC_RELEASE);
    if (td_ok(s)) continue;
    *out = (td_cuda_told){i, place_of(d, i)->step, s};
    return true;
  }
  return false;
}

td_status *td_cuda_take_told(td_cuda *d) {
  for (td_cuda_told told;;) {
    if (!td_vec_reserve(&d->told, 1)) return td_oom();
    if (!next_told(d, d->enqueued, &told)) return NULL;
    (void)td_vec_push(&d->told, told);
  }
}

/* What was taken aside comes first. */
static bool next_due(td_cuda *d, uint64_t number, td_cuda_told *out) {
  if (!d->told.len || d->told.at[0].number > number)
    return next_told(d, number, out);
  *out = d->told.at[0];
  for (size_t i = 1; i < d->told.len; i++) d->told.at[i - 1] = d->told.at[i];
  d->told.len--;
  return true;
}

/* Steps of kernels that are not known to be complete are alive. */
void td_cuda_hear(td_cuda *d, uint64_t number) {
  uint64_t last = __atomic_load_n(&d->reporting, __ATOMIC_ACQUIRE);
  uint64_t complete = td_cuda_complete(d->events);
  td_cuda_told told;
  if (TD_LIKELY(last <= complete) || number <= complete) return;
  pthread_mutex_lock(&d->lock);
  while (next_due(d, number, &told)) {
    pthread_mutex_unlock(&d->lock);
    td_step_fail(told.step, told.status);
    pthread_mutex_lock(&d->lock);
  }
  pthread_mutex_unlock(&d->lock);
}

/* ---- the card ------------------------------------------------------------ */

enum { NAMED = 5 };

/* The first of those that are not complete and known still. */
static uint64_t first_open(const td_cuda *d) {
  uint64_t first = td_cuda_complete(d->events) + 1;
  if (d->enqueued >= TD_CUDA_RING && first < d->enqueued - TD_CUDA_RING + 1)
    first = d->enqueued - TD_CUDA_RING + 1;
  return first;
}

/* Which it may have been. Under the lock. */
static void name_suspects(const td_cuda *d, td_str *text) {
  int n = 0;
  for (uint64_t i = first_open(d); i <= d->enqueued; i++) {
    const td_cuda_launch *l = &d->ring[i % TD_CUDA_RING];
    if (l->number != i || n++ >= NAMED) continue;
    td_str_addf(text, "%s%s (%s%s%s)", n > 1 ? ", " : "", l->node, l->op,
                l->origin[0] ? ", " : "", l->origin);
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
      "on%s",
      d->base.name, cudaGetErrorString(e), cudaGetErrorName(e), (int)e,
      suspects.len ? ", in one of " : "", td_str_c(&suspects),
      d->sync ? ""
              : "; run again with TIDE_CUDA_SYNC=1 to learn which node it was");
  td_str_deinit(&suspects);
  return s;
}

void td_cuda_lose(td_cuda *d, cudaError_t e) {
  pthread_mutex_lock(&d->lock);
  bool first = !d->lost;
  if (first) __atomic_store_n(&d->lost, why_lost(d, e), __ATOMIC_RELEASE);
  pthread_mutex_unlock(&d->lock);
  (void)cudaGetLastError();
  if (first) td_cuda_rouse(d->events);
}

td_status *td_cuda_why(td_cuda *d, td_status *s) {
  if (td_ok(s) || !__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE)) return s;
  if (!__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE)) {
    cudaError_t e =
        cudaStreamQuery(td_cuda_stream_of(d->events, TD_CUDA_COMPUTE));
    (void)cudaGetLastError();
    if (e != cudaSuccess && e != cudaErrorNotReady) td_cuda_lose(d, e);
  }
  td_status *lost = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
  if (!lost) return s;
  td_status_release(s);
  return td_status_retain(lost);
}

/* The steps of those that are not complete, each once. Under the lock. */
static int take_steps(const td_cuda *d, td_step **out) {
  int n = 0;
  for (uint64_t i = first_open(d); i <= d->enqueued; i++) {
    const td_cuda_launch *l = &d->ring[i % TD_CUDA_RING];
    bool known = l->number != i || !l->step;
    for (int k = n; k-- > 0 && !known;) known = out[k] == l->step;
    if (!known) out[n++] = l->step;
  }
  return n;
}

void td_cuda_tell(td_cuda *d) {
  td_step *steps[TD_CUDA_RING];
  int n = 0;
  if (TD_LIKELY(!__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE)) || d->lost_told)
    return;
  pthread_mutex_lock(&d->lock);
  n = take_steps(d, steps);
  d->lost_told = true;
  pthread_mutex_unlock(&d->lock);
  for (int i = 0; i < n; i++) td_step_fail(steps[i], td_status_retain(d->lost));
}
