/* net.h - a small graph run node by node, for tests of kernels with state.
 *
 * Nodes keep their kernels' state from run to run, as in a session; kernels
 * start with their locks, as in a step. A value is computed anew each time it
 * is asked for, by computing its inputs first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_NET_H
#define TD_TEST_NET_H

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/kernel_start.h"
#include "engine/device/resource.h"
#include "engine/graph/build.h"

enum { NET_NODES = 64, NET_INPUTS = 16 };

typedef struct net {
  td_graph *graph;
  td_device *device;
  td_states *states;
  td_resources *own, *named;
  td_cancel *cancel;
  td_step step;
  td_tensor fed[NET_NODES]; /* by node; of placeholders */
} net;

static inline void net_init(net *w, int threads) {
  *w = (net){0};
  OK(td_graph_new(&w->graph));
  OK(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &w->device));
  OK(td_states_new(&w->states));
  OK(td_resources_new(&w->own));
  OK(td_resources_new(&w->named));
  OK(td_cancel_new(&w->cancel));
  w->step = (td_step){.cancel = w->cancel,
                      .stop = td_cancel_flag(w->cancel),
                      .resources = w->named,
                      .own = w->own,
                      .threads = threads};
}

static inline void net_deinit(net *w) {
  for (int i = 0; i < NET_NODES; i++) td_tensor_release(&w->fed[i]);
  td_states_release(w->states);
  td_resources_free(w->own);
  td_resources_free(w->named);
  td_cancel_release(w->cancel);
  td_graph_release(w->graph);
  td_device_release(w->device);
}

/* ---- building ------------------------------------------------------------ */

/* A node of `n_in` inputs and the attributes given. */
static inline td_status *net_try(net *w, const char *op, const td_edge *in,
                                 int n_in, const td_note *attrs, int n_attrs,
                                 td_edge *out) {
  td_build b;
  td_build_init(&b, w->graph, op, NULL);
  for (int i = 0; i < n_in; i++) td_build_in(&b, in[i]);
  for (int i = 0; i < n_attrs; i++)
    td_build_attr(&b, attrs[i].name, attrs[i].value);
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

static inline td_edge net_node(net *w, const char *op, const td_edge *in,
                               int n_in, const td_note *attrs, int n_attrs) {
  td_edge e;
  OK(net_try(w, op, in, n_in, attrs, n_attrs, &e));
  return e;
}

/* A placeholder that gives `t`, which it takes. Nothing of its shape is known
 * when the graph is built. */
static inline td_edge net_feed(net *w, td_tensor t) {
  td_shape any = td_shape_unknown();
  td_note attrs[] = {{"dtype", td_attr_type(t.dtype)},
                     {"shape", td_attr_shape(&any)}};
  td_edge e = net_node(w, "Placeholder", NULL, 0, attrs, 2);
  assert_true(e.node->id < NET_NODES);
  w->fed[e.node->id] = t;
  return e;
}

static inline void net_refeed(net *w, td_edge e, td_tensor t) {
  td_tensor_release(&w->fed[e.node->id]);
  w->fed[e.node->id] = t;
}

static inline td_edge net_variable(net *w, const char *name, td_dtype dtype,
                                   td_shape shape) {
  td_note attrs[] = {{"dtype", td_attr_type(dtype)},
                     {"shape", td_attr_shape(&shape)},
                     {"shared_name", td_attr_string(name)}};
  return net_node(w, "VarHandleOp", NULL, 0, attrs, 3);
}

/* ---- running ------------------------------------------------------------- */

typedef struct net_wait {
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  bool over;
  td_status *status;
} net_wait;

static inline void net_done(td_kernel_ctx *c, td_status *s) {
  net_wait *wait = c->owner;
  pthread_mutex_lock(&wait->mutex);
  wait->over = true;
  wait->status = s;
  pthread_cond_signal(&wait->cond);
  pthread_mutex_unlock(&wait->mutex);
}

/* Runs kernel `k` on the inputs given, and waits. */
static inline td_status *net_start(net *w, const td_kernel *k, td_tensor *in,
                                   td_tensor *out) {
  net_wait wait = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                   .cond = PTHREAD_COND_INITIALIZER};
  td_kernel_ctx c = {.kernel = k,
                     .step = &w->step,
                     .in = in,
                     .out = out,
                     .n_in = k->node->n_in,
                     .n_out = k->node->n_out,
                     .done = net_done,
                     .owner = &wait};
  td_kernel_start(&c);
  pthread_mutex_lock(&wait.mutex);
  while (!wait.over) pthread_cond_wait(&wait.cond, &wait.mutex);
  pthread_mutex_unlock(&wait.mutex);
  return wait.status;
}

/* Output 0 of a node (nothing where it has none); the caller's. */
static inline td_status *net_run(net *w, td_edge e, td_tensor *out) {
  td_node *n = e.node;
  td_tensor in[NET_INPUTS] = {{.dtype = TD_INVALID}};
  td_kernel k;
  *out = (td_tensor){.dtype = TD_INVALID};
  if (n->id < NET_NODES && td_tensor_valid(&w->fed[n->id])) {
    td_tensor_retain(&w->fed[n->id], out);
    return NULL;
  }
  td_status *s = td_kernel_init(&k, n, w->device, w->states);
  for (int i = 0; td_ok(s) && i < n->n_in; i++)
    s = net_run(w, n->in[i], &in[i]);
  if (td_ok(s)) s = net_start(w, &k, in, out);
  for (int i = 0; i < n->n_in; i++) td_tensor_release(&in[i]);
  if (!td_ok(s)) td_tensor_release(out);
  td_kernel_deinit(&k);
  return s;
}

/* Runs a node for what it does. */
static inline td_status *net_do(net *w, td_edge e) {
  td_tensor t;
  TD_TRY(net_run(w, e, &t));
  td_tensor_release(&t);
  return NULL;
}

/* Runs a node with the first allocation failing, then the second, and so on
 * until it succeeds; each failure must be told as one. */
static inline void net_starve(net *w, td_edge e) {
  for (int64_t n = 1; n < 1000; n++) {
    td_mem_fail(n, false);
    td_status *s = net_do(w, e);
    td_mem_fail(0, false);
    if (!s) return;
    if (td_status_code(s) != TD_RESOURCE_EXHAUSTED)
      fail_msg("allocation %d: %s", (int)n, td_status_message(s));
    td_status_release(s);
  }
  fail_msg("it never succeeds");
}

/* ---- starting, and not waiting ------------------------------------------- */

/* A node that was started, in a step of its own. Stays where it is. */
typedef struct net_job {
  net_wait wait;
  td_cancel *cancel;
  td_step step;
  td_kernel kernel;
  td_kernel_ctx ctx;
  td_tensor in[NET_INPUTS], out[NET_INPUTS];
} net_job;

/* Ends in net_end. */
static inline void net_begin(net *w, td_edge e, net_job *j) {
  *j = (net_job){.wait = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                          .cond = PTHREAD_COND_INITIALIZER},
                 .step = w->step};
  OK(td_cancel_new(&j->cancel));
  j->step.cancel = j->cancel;
  j->step.stop = td_cancel_flag(j->cancel);
  OK(td_kernel_init(&j->kernel, e.node, w->device, w->states));
  for (int i = 0; i < e.node->n_in; i++)
    OK(net_run(w, e.node->in[i], &j->in[i]));
  j->ctx = (td_kernel_ctx){.kernel = &j->kernel,
                           .step = &j->step,
                           .in = j->in,
                           .out = j->out,
                           .n_in = e.node->n_in,
                           .n_out = e.node->n_out,
                           .done = net_done,
                           .owner = &j->wait};
  td_kernel_start(&j->ctx);
}

static inline bool net_over(net_job *j) {
  pthread_mutex_lock(&j->wait.mutex);
  bool over = j->wait.over;
  pthread_mutex_unlock(&j->wait.mutex);
  return over;
}

/* Its step is cancelled. */
static inline void net_stop(net_job *j) {
  td_cancel_fire(j->cancel, NULL);
  td_kernel_cancel(&j->ctx);
}

/* Waits for it. Outputs go to `out` (NULL: nowhere), as many as it has; on error
 * there are none. */
static inline td_status *net_end(net_job *j, td_tensor *out) {
  pthread_mutex_lock(&j->wait.mutex);
  while (!j->wait.over) pthread_cond_wait(&j->wait.cond, &j->wait.mutex);
  pthread_mutex_unlock(&j->wait.mutex);
  td_status *s = j->wait.status;
  for (int i = 0; i < j->ctx.n_in; i++) td_tensor_release(&j->in[i]);
  for (int i = 0; i < j->ctx.n_out; i++) {
    if (out && td_ok(s))
      out[i] = j->out[i];
    else
      td_tensor_release(&j->out[i]);
  }
  td_kernel_deinit(&j->kernel);
  td_cancel_release(j->cancel);
  return s;
}

/* ---- tensors ------------------------------------------------------------- */

static inline td_tensor tensor_f(td_dtype dtype, td_shape shape,
                                 const double *v) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, v[i]);
  return t;
}

static inline td_tensor scalar_f(td_dtype dtype, double v) {
  td_tensor t;
  OK(td_tensor_scalar_f(dtype, v, &t));
  return t;
}

static inline td_tensor ints(int n, const int32_t *v) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_from(TD_INT32, &shape, v, &t));
  return t;
}

/* Steele, Lea and Flood's splitmix64. */
static inline uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* In [-1, 1); of complex numbers both parts. */
static inline td_tensor random_f(td_dtype dtype, td_shape shape,
                                 uint64_t seed) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  td_tensor parts = t;
  int64_t n = td_tensor_count(&t);
  if (dtype == TD_COMPLEX64) parts.dtype = TD_FLOAT32, n *= 2;
  if (dtype == TD_COMPLEX128) parts.dtype = TD_FLOAT64, n *= 2;
  for (int64_t i = 0; i < n; i++)
    td_tensor_set_f(&parts, i, (double)(draw(&seed) >> 40) / (1 << 23) - 1);
  return t;
}

/* In [0, below). */
static inline td_tensor random_i(td_dtype dtype, td_shape shape, uint64_t seed,
                                 int64_t below) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_i(&t, i, (int64_t)(draw(&seed) % (uint64_t)below));
  return t;
}

/* Elements of the value of `e`, within `error` of those wanted. */
static inline void net_expect(net *w, td_edge e, int n, const double *want,
                              double error) {
  td_tensor t;
  OK(net_run(w, e, &t));
  assert_int_equal(td_tensor_count(&t), n);
  for (int i = 0; i < n; i++) {
    double got = td_tensor_get_f(&t, i), off = got - want[i];
    if (!(off <= error && off >= -error))
      fail_msg("element %d is %.9g, not %.9g", i, got, want[i]);
  }
  td_tensor_release(&t);
}

#endif
