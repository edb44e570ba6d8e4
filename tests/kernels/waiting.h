/* waiting.h - a node of a net (net.h) that waits: started, looked at,
 * cancelled, ended.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_WAITING_H
#define TD_TEST_WAITING_H

#include "engine/base/str.h"
#include "tests/kernels/net.h"

enum { WAITING_OUTPUTS = 4 };

typedef struct waiting {
  net *w;
  net_wait wait;
  td_kernel kernel;
  td_kernel_ctx ctx;
  td_tensor in[NET_INPUTS], out[WAITING_OUTPUTS];
} waiting;

/* Computes the inputs of the node and starts it; goes on when that returns. */
static inline void waiting_start(waiting *x, net *w, td_edge e) {
  td_node *n = e.node;
  memset(x, 0, sizeof *x);
  x->w = w;
  pthread_mutex_init(&x->wait.mutex, NULL);
  pthread_cond_init(&x->wait.cond, NULL);
  OK(td_kernel_init(&x->kernel, n, w->device, w->states));
  for (int i = 0; i < n->n_in; i++) OK(net_run(w, n->in[i], &x->in[i]));
  x->ctx = (td_kernel_ctx){.kernel = &x->kernel,
                           .step = &w->step,
                           .in = x->in,
                           .out = x->out,
                           .n_in = n->n_in,
                           .n_out = n->n_out,
                           .done = net_done,
                           .owner = &x->wait};
  td_kernel_start(&x->ctx);
}

static inline bool waiting_over(waiting *x) {
  pthread_mutex_lock(&x->wait.mutex);
  bool over = x->wait.over;
  pthread_mutex_unlock(&x->wait.mutex);
  return over;
}

/* What it waits for has all of these words. */
static inline void waiting_why(const waiting *x, const char *words) {
  td_str s = {0};
  x->kernel.def->why(&x->ctx, &s);
  if (!s.at || !strstr(s.at, words))
    fail_msg("\"%s\" lacks \"%s\"", s.at ? s.at : "", words);
  td_str_deinit(&s);
}

static inline void waiting_cancel(waiting *x) {
  td_kernel_cancel(&x->ctx);
}

/* Waits until it is over; its outputs stay until waiting_drop. */
static inline td_status *waiting_end(waiting *x) {
  pthread_mutex_lock(&x->wait.mutex);
  while (!x->wait.over) pthread_cond_wait(&x->wait.cond, &x->wait.mutex);
  pthread_mutex_unlock(&x->wait.mutex);
  for (int i = 0; i < NET_INPUTS; i++) td_tensor_release(&x->in[i]);
  td_kernel_deinit(&x->kernel);
  return x->wait.status;
}

static inline void waiting_drop(waiting *x) {
  for (int i = 0; i < WAITING_OUTPUTS; i++) td_tensor_release(&x->out[i]);
}

#endif
