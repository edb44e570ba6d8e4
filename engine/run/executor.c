/* executor.c - executes a program: ready nodes in, finished nodes out.
 *
 * A thread of the team takes a chain of ready nodes and works depth first: the
 * node that became ready last runs next, on the same thread, with its inputs
 * still in cache. Before an expensive node the rest of the chain is posted for
 * others. Programs whose kernels all run on the calling thread, on a team of
 * one, use plain arithmetic; everything else is atomic.
 *
 * Dead values travel in the same words: a state is the number of inputs still
 * to come and a bit that says one of them was dead.
 *
 * A kernel that waits (a receive, a queue, a device's kernels) is *pending*
 * between its start and its `done`. It holds the execution, and a cancel of the
 * step reaches it through the execution's list.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/plant.h"
#include "engine/device/kernel_start.h"
#include "engine/run/deliver.h"
#include "engine/run/execution.h"
#include "engine/run/numerics.h"
#include "engine/run/trace.h"

enum { CLOCK_EVERY = 32, FEW_OUTPUTS = 16 };

/* ---- propagation without frames ---- */

static inline void propagate_flat(const td_program *p, td_iteration *it,
                                  const td_xnode *n, td_tensor *out, bool dead,
                                  bool shared, td_chain *ready) {
  const int32_t *begin = &p->begin[n->targets];
  const td_target *to = p->target + begin[n->n_out],
                  *end = p->target + begin[n->n_out + 1];
  for (; to < end; to++) td_deliver(it, *to, NULL, dead, false, shared, ready);
  for (int32_t port = 0; port < n->n_out; port++) {
    td_tensor *t = &out[port];
    bool none = dead || t->dtype == TD_INVALID;
    to = p->target + begin[port];
    end = p->target + begin[port + 1];
    for (; to < end; to++)
      td_deliver(it, *to, t, none, to + 1 == end, shared, ready);
    if (!none && t->buffer) td_tensor_release(t);
  }
}

/* ---- nodes the executor knows itself ---- */

static td_status *run_switch(const td_xnode *n, td_tensor *in, td_tensor *out) {
  if (in[1].shape.rank != 0 || in[1].dtype != TD_BOOL) {
    td_shape_text text;
    return td_error(
        TD_INVALID_ARGUMENT, "the predicate must be a bool scalar, not %s %s",
        td_dtype_name(in[1].dtype), td_shape_str(&in[1].shape, &text));
  }
  int port = *(const bool *)in[1].data ? 1 : 0;
  out[port] = in[0];
  in[0].buffer = NULL;
  (void)n;
  return NULL;
}

/* The index is made only where somebody reads it. */
static td_status *run_merge(const td_xnode *n, td_tensor *in, td_tensor *out) {
  for (int i = 0; i < n->n_in; i++)
    if (in[i].buffer) {
      out[0] = in[i];
      in[i].buffer = NULL;
      if (!n->index_read) return NULL;
      return td_tensor_scalar_i(TD_INT32, i, &out[1]);
    }
  return td_error(TD_INTERNAL, "a Merge without a live input");
}

/* True when the node needs no kernel; *s is then its status. */
static inline bool run_native(const td_xnode *n, td_tensor *in, td_tensor *out,
                              td_status **s) {
  switch (n->kind) {
  case TD_OP_NOOP:
  case TD_OP_TRIGGER:
    return true;
  case TD_OP_ENTER:
  case TD_OP_EXIT:
  case TD_OP_NEXT:
  case TD_OP_COND:
    out[0] = in[0];
    in[0].buffer = NULL;
    return true;
  case TD_OP_IDENTITY:
    for (int i = 0; i < n->n_out; i++) {
      out[i] = in[i];
      in[i].buffer = NULL;
    }
    return true;
  case TD_OP_SWITCH:
    *s = run_switch(n, in, out);
    return true;
  case TD_OP_MERGE:
    *s = run_merge(n, in, out);
    return true;
  default:
    return false;
  }
}

static inline void release_all(td_tensor *t, int n) {
  for (int i = 0; i < n; i++)
    if (t[i].buffer) td_tensor_release(&t[i]);
}

static void fill_ctx(td_kernel_ctx *c, td_execution *e, td_iteration *it,
                     const td_xnode *n, td_tensor *out, bool dead) {
  c->kernel = &n->kernel;
  c->step = e->step;
  c->in = it->slot + n->in;
  c->out = out;
  c->n_in = n->n_in;
  c->n_out = n->n_out;
  c->frame = it->path;
  c->iteration = TD_PLANT(4) ? 0 : it->number;
  c->dead = dead;
  c->out_dead = false;
  c->work = NULL;
  c->wait = NULL;
}

/* A kernel that set no output, did not fail and is not dead is at fault. */
static td_status *check_outputs(const td_xnode *n, const td_tensor *out) {
  for (int i = 0; i < n->n_out; i++)
    if (out[i].dtype == TD_INVALID && n->kind != TD_OP_SWITCH)
      return td_error(TD_INTERNAL, "the kernel did not set output %d", i);
  return NULL;
}

static int64_t bytes_of(const td_tensor *out, int n) {
  int64_t bytes = 0;
  for (int i = 0; i < n; i++)
    if (out[i].buffer) bytes += (int64_t)td_tensor_bytes(&out[i]);
  return bytes;
}

static int32_t thread_number(void) {
  static int32_t next;
  static _Thread_local int32_t mine = -1;
  if (mine < 0) mine = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
  return mine;
}

static void trace_node(td_execution *e, td_iteration *it, const td_xnode *n,
                       int64_t start, int64_t end, const td_tensor *out) {
  td_trace_event event = {.node = n->kernel.node->name,
                          .op = n->kernel.node->op->type,
                          .device = e->program->device->name,
                          .ready = start,
                          .start = start,
                          .end = end,
                          .thread = thread_number(),
                          .frame = it->path,
                          .iteration = it->number,
                          .bytes = bytes_of(out, n->n_out)};
  td_trace_add(e->step->trace, &event);
}

static void note_time(td_execution *e, td_iteration *it, const td_xnode *n,
                      int64_t start, const td_tensor *out) {
  int64_t end = td_clock_now(), t = end - start;
  int32_t *cost = (int32_t *)&n->cost;
  int32_t old = __atomic_load_n(cost, __ATOMIC_RELAXED);
  int64_t now = old ? old + (t - old) / 4 : t;
  if (now > INT32_MAX) now = INT32_MAX;
  __atomic_store_n(cost, now < 1 ? 1 : (int32_t)now, __ATOMIC_RELAXED);
  if (e->step->trace) trace_node(e, it, n, start, end, out);
}

static inline void propagate(td_execution *e, td_iteration *it, int32_t node,
                             td_tensor *out, bool dead, td_chain *ready) {
  const td_program *p = e->program;
  if (p->n_frames > 1)
    td_executor_frames_propagate(e, it, node, out, dead, ready);
  else if (e->shared)
    propagate_flat(p, it, &p->node[node], out, dead, true, ready);
  else
    propagate_flat(p, it, &p->node[node], out, dead, false, ready);
}

/* ---- a step that looks at what is computed ---- */

/* Shares of the inputs: a kernel that holds one alone may write over it. NULL
 * when there is no memory. */
static td_tensor *keep_inputs(const td_xnode *n, const td_tensor *in) {
  td_tensor *kept = td_calloc((size_t)n->n_in + 1, sizeof *kept);
  for (int i = 0; kept && i < n->n_in; i++)
    if (in[i].buffer) td_tensor_retain(&in[i], &kept[i]);
  return kept;
}

/* Ends `kept`, which may be NULL: then inputs are not shown. */
static td_status *look_at(const td_iteration *it, const td_xnode *n,
                          td_tensor *kept, const td_tensor *out) {
  td_numerics c = {.in = kept,
                   .out = out,
                   .n_in = kept ? n->n_in : 0,
                   .n_out = n->n_out,
                   .iteration = it->instance ? it->number : -1};
  td_status *s = td_numerics_check(&c);
  if (kept) release_all(kept, n->n_in);
  td_free(kept);
  return s;
}

/* ---- pending kernels ---- */

static void pending_add(td_execution *e, td_pending *k) {
  pthread_mutex_lock(&e->pending_lock);
  k->prev = NULL;
  k->next = e->pending;
  if (k->next) k->next->prev = k;
  e->pending = k;
  k->holds = 0;
  k->finished = false;
  pthread_mutex_unlock(&e->pending_lock);
}

static void post_chain(td_execution *e, td_chain *chain, bool wake);
static void work_through(td_execution *e, td_chain *chain);

/* The kernel is done and no cancel looks at it: hand its outputs on. */
static void pending_finish(td_pending *k, td_status *s, td_chain *ready) {
  td_ready *r = k->ready;
  td_execution *e = r->iter->execution;
  const td_xnode *n = &e->program->node[r->node];
  td_tensor *out = k->ctx.out;
  bool dead = k->ctx.out_dead;
  release_all(k->ctx.in, k->ctx.n_in);
  if (td_ok(s) && !dead) s = check_outputs(n, out);
  if (td_ok(s) && !dead && e->step->check_numerics)
    s = look_at(r->iter, n, NULL, out);
  if (td_ok(s)) {
    if (e->measure || e->step->trace) note_time(e, r->iter, n, k->start, out);
    propagate(e, r->iter, r->node, out, dead, ready);
  } else {
    release_all(out, n->n_out);
    bool echo =
        td_cancelled(e->step->stop) && td_status_code(s) == TD_CANCELLED;
    if (echo) {
      td_status_release(s);
      td_execution_stop(e);
    } else {
      td_execution_fail(e, s, n);
    }
  }
  td_free(out);
}

enum { PHASE_STARTING, PHASE_RETURNED, PHASE_INSIDE };

/* ctx.done: exactly once, on any thread, perhaps inside start. */
static void pending_done(td_kernel_ctx *c, td_status *s) {
  td_pending *k = c->owner;
  td_execution *e = k->ready->iter->execution;
  pthread_mutex_lock(&e->pending_lock);
  k->status = s;
  if (k->holds > 0) {
    k->finished = true;
    pthread_mutex_unlock(&e->pending_lock);
    return;
  }
  if (k->prev)
    k->prev->next = k->next;
  else
    e->pending = k->next;
  if (k->next) k->next->prev = k->prev;
  pthread_mutex_unlock(&e->pending_lock);
  /* Inside start the starter hands on; afterwards this thread does. */
  if (__atomic_exchange_n(&k->phase, PHASE_INSIDE, __ATOMIC_ACQ_REL) ==
      PHASE_STARTING)
    return;
  td_chain ready = {NULL};
  pending_finish(k, s, &ready);
  post_chain(e, &ready, true);
  td_execution_drop(e);
}

static void pending_start(td_execution *e, td_ready *r, const td_xnode *n,
                          td_chain *ready) {
  td_iteration *it = r->iter;
  td_pending *k = &it->pending[n->pending];
  td_tensor *out = td_calloc((size_t)n->n_out, sizeof *out);
  if (!out) {
    release_all(it->slot + n->in, n->n_in);
    td_execution_fail(e, td_oom(), n);
    return;
  }
  fill_ctx(&k->ctx, e, it, n, out, r->dead);
  k->ctx.done = pending_done;
  k->ctx.owner = k;
  k->ready = r;
  k->phase = PHASE_STARTING;
  k->start = e->measure || e->step->trace ? td_clock_now() : 0;
  td_execution_hold(e);
  pending_add(e, k);
  td_kernel_start(&k->ctx);
  if (__atomic_exchange_n(&k->phase, PHASE_RETURNED, __ATOMIC_ACQ_REL) !=
      PHASE_INSIDE)
    return;
  pending_finish(k, k->status, ready);
  td_execution_drop(e); /* never the last hold: the caller has its own */
}

/* Lets go of the hold that pending_cancel took, outside the hook. */
static void cancel_over(td_team_job *job) {
  td_execution_drop(
      (td_execution *)((char *)job - offsetof(td_execution, cancel_job)));
}

/* The step is cancelled: tell every waiting kernel. The hold keeps the
 * execution until the hook is over; it is dropped by the team, because the end
 * of an execution waits for its hook. */
static void pending_cancel_all(void *arg) {
  td_execution *e = arg;
  pthread_mutex_lock(&e->pending_lock);
  td_pending *k = e->pending;
  if (!k) {
    pthread_mutex_unlock(&e->pending_lock);
    return;
  }
  td_execution_hold(e);
  k->holds++;
  while (k) {
    pthread_mutex_unlock(&e->pending_lock);
    td_kernel_cancel(&k->ctx);
    pthread_mutex_lock(&e->pending_lock);
    td_pending *next = k->next;
    if (next) next->holds++;
    bool finished = --k->holds == 0 && k->finished;
    pthread_mutex_unlock(&e->pending_lock);
    if (finished) pending_done(&k->ctx, k->status);
    pthread_mutex_lock(&e->pending_lock);
    k = next;
  }
  pthread_mutex_unlock(&e->pending_lock);
  e->cancel_job.work = cancel_over;
  td_team_post(e->team, &e->cancel_job, true);
}

/* ---- working through a chain ---- */

static void process_dead(td_execution *e, td_ready *r, const td_xnode *n,
                         td_chain *ready) {
  release_all(r->iter->slot + n->in, n->n_in);
  propagate(e, r->iter, r->node, NULL, true, ready);
}

static inline void process_plain(td_execution *e, td_ready *r,
                                 const td_xnode *n, td_tensor *out,
                                 td_chain *ready) {
  td_iteration *it = r->iter;
  td_tensor *in = it->slot + n->in;
  td_status *s = NULL;
  bool dead = false, timed = e->measure || e->step->trace;
  int64_t start = timed ? td_clock_now() : 0;
  bool looked_at = TD_UNLIKELY(e->step->check_numerics);
  td_tensor *kept = looked_at ? keep_inputs(n, in) : NULL;
  for (int i = 0; i < n->n_out; i++) {
    out[i].dtype = TD_INVALID;
    out[i].buffer = NULL;
  }
  if (!run_native(n, in, out, &s)) {
    td_kernel_ctx c;
    fill_ctx(&c, e, it, n, out, r->dead);
    s = n->kernel.def->run(&c);
    dead = c.out_dead;
    if (td_ok(s) && !dead) s = check_outputs(n, out);
  }
  release_all(in, n->n_in);
  if (looked_at) s = td_status_first(s, look_at(it, n, kept, out));
  if (TD_UNLIKELY(!td_ok(s))) {
    release_all(out, n->n_out);
    td_execution_fail(e, s, n);
    return;
  }
  if (timed) note_time(e, it, n, start, out);
  propagate(e, it, r->node, out, dead, ready);
}

static void process(td_execution *e, td_ready *r, td_chain *ready) {
  const td_xnode *n = &e->program->node[r->node];
  if (r->dead && !n->runs_dead && n->kind != TD_OP_TRIGGER) {
    process_dead(e, r, n, ready);
  } else if (n->pending >= 0) {
    pending_start(e, r, n, ready);
  } else {
    td_tensor few[FEW_OUTPUTS], *out = few;
    if (TD_UNLIKELY(n->n_out > FEW_OUTPUTS))
      out = td_malloc((size_t)n->n_out * sizeof *out);
    if (TD_LIKELY(out)) {
      process_plain(e, r, n, out, ready);
    } else {
      release_all(r->iter->slot + n->in, n->n_in);
      td_execution_fail(e, td_oom(), n);
    }
    if (TD_UNLIKELY(out != few)) td_free(out);
  }
}

/* Nothing runs any more: inputs of what was ready are let go with their
 * iteration. */
static void discard(td_execution *e, td_chain *chain) {
  td_execution_stop(e);
  chain->first = NULL;
}

static void posted_work(td_team_job *base) {
  td_posted *s = (td_posted *)base;
  td_execution *e = s->execution;
  td_chain chain = s->chain;
  if (s != &e->first) td_free(s);
  work_through(e, &chain);
  td_execution_drop(e);
}

/* Gives the whole chain to the team. */
static void post_chain(td_execution *e, td_chain *chain, bool wake) {
  if (!chain->first) return;
  td_posted *s = wake ? td_malloc(sizeof *s) : &e->first;
  if (!s) {
    td_execution_fail(e, td_oom(), NULL);
    chain->first = NULL;
    return;
  }
  s->base.work = posted_work;
  s->execution = e;
  s->chain = *chain;
  chain->first = NULL;
  td_execution_hold(e);
  td_team_post(e->team, &s->base, wake);
}

/* What the others may do while this thread runs `next`. */
static inline bool worth_posting(td_execution *e, const td_xnode *next) {
  return e->shared && td_team_size(e->team) > 1 &&
         __atomic_load_n(&next->cost, __ATOMIC_RELAXED) >= TD_COST_DEAR;
}

static void work_through(td_execution *e, td_chain *chain) {
  int64_t until = td_team_until();
  int count = 0;
  while (chain->first) {
    if (TD_UNLIKELY(td_execution_stopped(e))) {
      discard(e, chain);
      return;
    }
    if (until != INT64_MAX && ++count % CLOCK_EVERY == 0 &&
        td_clock_now() > until) {
      post_chain(e, chain, true);
      return;
    }
    td_ready *r = chain->first;
    chain->first = r->next;
    if (chain->first && worth_posting(e, &e->program->node[r->node]))
      post_chain(e, chain, true);
    process(e, r, chain);
  }
}

/* ---- starting ---- */

td_status *td_executor_start(td_program *p, td_step *step, td_team *team,
                             void (*over)(void *arg, td_status *s), void *arg) {
  td_execution *e = td_execution_take(p);
  if (!e) return td_oom();
  int64_t nth = __atomic_fetch_add(&p->started, 1, __ATOMIC_RELAXED);
  e->step = step;
  e->team = team;
  e->over = over;
  e->arg = arg;
  e->shared = !p->plain || td_team_size(team) > 1;
  e->measure = nth < 3 || nth % 32 == 0;
  e->started = e->measure ? td_clock_now() : 0;
  e->hook = (td_cancel_hook){.fire = pending_cancel_all, .arg = e};
  if (!p->plain && !td_cancel_add(step->cancel, &e->hook)) td_execution_stop(e);
  td_chain chain = {NULL};
  for (int32_t i = p->n_sources - 1; i >= 0; i--) {
    td_ready *r = &e->root->ready[p->node[p->source[i]].local];
    r->dead = false;
    td_chain_push(&chain, r);
  }
  e->root->busy = p->n_sources;
  post_chain(e, &chain, false);
  td_execution_drop(e);
  return NULL;
}
