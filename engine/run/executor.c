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
 * between its start and its `done` (pending.h). It holds the execution.
 *
 * A thread looks now and then whether its turn is over (team.h); then it hands
 * its chain back and somebody else, or itself later, goes on with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/plant.h"
#include "engine/device/kernel_start.h"
#include "engine/run/deliver.h"
#include "engine/run/numerics.h"
#include "engine/run/pending.h"
#include "engine/run/trace.h"

enum {
  CLOCK_EVERY = 32,
  FEW_OUTPUTS = 16,
  COST_UNKNOWN = 100000000 /* ns: what a waiting thread expects at worst */
};

/* ---- propagation without frames ---- */

static inline void propagate_flat(const td_program *p, td_iteration *it,
                                  const td_xnode *n, td_tensor *out, bool dead,
                                  bool shared, td_chain *ready) {
  const int32_t *begin = &p->begin[n->targets];
  const td_target *to = p->target + begin[n->n_out],
                  *end = p->target + begin[n->n_out + 1];
  for (; to < end; to++) td_deliver_control(it, *to, dead, shared, ready);
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
  td_tensor_set(&out[port], &in[0]);
  in[0].buffer = NULL;
  (void)n;
  return NULL;
}

/* The index is made only where somebody reads it. */
static td_status *run_merge(const td_xnode *n, td_tensor *in, td_tensor *out) {
  for (int i = 0; i < n->n_in; i++)
    if (in[i].buffer) {
      td_tensor_set(&out[0], &in[i]);
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
    td_tensor_set(&out[0], &in[0]);
    in[0].buffer = NULL;
    return true;
  case TD_OP_IDENTITY:
    for (int i = 0; i < n->n_out; i++) {
      td_tensor_set(&out[i], &in[i]);
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

static inline void unset(td_tensor *out, int n) {
  for (int i = 0; i < n; i++) {
    out[i].dtype = TD_INVALID;
    out[i].buffer = NULL;
  }
}

static inline void fill_ctx(td_kernel_ctx *c, td_execution *e, td_iteration *it,
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
  c->promised = NULL;
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

/* In a step that is traced: since when the nodes before `old` are ready. */
static int64_t *since_of(const td_ready *r) {
  const td_iteration *it = r->iter;
  return &it->since[it->execution->program->node[r->node].local];
}

static void note_ready(const td_chain *chain, const td_ready *old) {
  int64_t now = chain->first == old ? 0 : td_clock_now();
  for (td_ready *r = chain->first; r != old; r = r->next) *since_of(r) = now;
}

/* Of a value that leaves its device, or comes to it: by which edge, and how it
 * is called ("edge_3_x", link.c). */
static void note_way(const td_node *n, td_trace_event *event) {
  bool sends = n->op->kind == TD_OP_SEND;
  if (!sends && n->op->kind != TD_OP_RECV) return;
  const td_attr *edge = td_node_attr(n, "_edge"); /* it has: it runs */
  event->way = sends ? TD_TRACE_SENDS : TD_TRACE_RECEIVES;
  event->edge = (int32_t)edge->i;
  const char *name = td_node_string(n, "tensor_name");
  const char *own = strncmp(name, "edge_", 5) ? NULL : strchr(name + 5, '_');
  event->value = own ? own + 1 : name;
}

/* Of a card, whose allocator has few users and tells at once. */
static void note_memory(const td_device *d, td_trace_event *event) {
  if (td_device_touchable(d)) return;
  event->memory = (int64_t)td_allocator_read_stats(d->memory).in_use;
}

/* `out` NULL: it gave nothing. */
static void trace_node(td_execution *e, const td_ready *r, const td_xnode *n,
                       int64_t start, int64_t end, const td_tensor *out,
                       bool failed) {
  const td_iteration *it = r->iter;
  td_trace_event event = {.node = n->kernel.node->name,
                          .op = n->kernel.node->op->type,
                          .device = e->program->device->name,
                          .ready = *since_of(r),
                          .start = start,
                          .end = end,
                          .thread = thread_number(),
                          .frame = it->path,
                          .iteration = it->number,
                          .bytes = out ? bytes_of(out, n->n_out) : 0,
                          .failed = failed};
  note_way(n->kernel.node, &event);
  note_memory(e->program->device, &event);
  td_trace_add(e->step->trace, &event);
}

static void note_time(td_execution *e, const td_ready *r, const td_xnode *n,
                      int64_t start, const td_tensor *out) {
  int64_t end = td_clock_now(), t = end - start;
  int32_t *cost = (int32_t *)&n->cost;
  int32_t old = __atomic_load_n(cost, __ATOMIC_RELAXED);
  int64_t now = old ? old + (t - old) / 4 : t;
  if (now > INT32_MAX) now = INT32_MAX;
  if (now < 1) now = 1;
  __atomic_store_n(cost, (int32_t)now, __ATOMIC_RELAXED);
  td_measured **kept = e->program->measured;
  if (kept && e->tells)
    __atomic_store_n(&kept[n - e->program->node]->ns, (int32_t)now,
                     __ATOMIC_RELAXED);
  if (e->step->trace) trace_node(e, r, n, start, end, out, false);
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

/* `kept` may be NULL: then inputs are not shown. */
static td_numerics numerics_of(const td_iteration *it, const td_xnode *n,
                               const td_tensor *kept, const td_tensor *out) {
  return (td_numerics){.in = kept,
                       .out = out,
                       .n_in = kept ? n->n_in : 0,
                       .n_out = n->n_out,
                       .iteration = it->instance ? it->number : -1};
}

static void drop_kept(const td_xnode *n, td_tensor *kept) {
  if (kept) release_all(kept, n->n_in);
  td_free(kept);
}

/* ---- pending kernels ---- */

static void post_chain(td_execution *e, td_chain *chain,
                       bool (*post)(td_team *t, td_team_job job));

/* The node is over: its outputs go on, or its error. */
static void hand_on(td_execution *e, td_ready *r, td_tensor *out, bool dead,
                    int64_t start, td_status *s, td_chain *ready) {
  const td_xnode *n = &e->program->node[r->node];
  if (TD_LIKELY(td_ok(s))) {
    if (e->timed) note_time(e, r, n, start, out);
    propagate(e, r->iter, r->node, out, dead, ready);
    return;
  }
  release_all(out, n->n_out);
  bool echo = td_cancelled(e->step->stop) && td_status_code(s) == TD_CANCELLED;
  if (TD_UNLIKELY(e->step->trace))
    trace_node(e, r, n, start, td_clock_now(), NULL, !echo);
  if (echo) {
    td_status_release(s);
    td_execution_stop(e);
  } else {
    td_execution_fail(e, s, n);
  }
}

/* A node whose outputs are on their way to the host, to be looked at. */
typedef struct inspection {
  td_ready *r;
  int64_t start;
  td_tensor *kept;
  td_tensor out[];
} inspection;

static void inspected(void *arg, td_status *s) {
  inspection *w = arg;
  td_execution *e = w->r->iter->execution;
  td_chain ready = {NULL};
  drop_kept(&e->program->node[w->r->node], w->kept);
  hand_on(e, w->r, w->out, false, w->start, s, &ready);
  td_free(w);
  if (TD_UNLIKELY(e->step->trace)) note_ready(&ready, NULL);
  post_chain(e, &ready, td_team_post);
  td_execution_drop(e);
}

/* Looks at the outputs before they are handed on, where they are or later. Ends
 * `kept`. */
static void inspect(td_execution *e, td_ready *r, td_tensor *kept,
                    td_tensor *out, int64_t start, td_chain *ready) {
  const td_xnode *n = &e->program->node[r->node];
  td_numerics c = numerics_of(r->iter, n, kept, out);
  bool away = td_numerics_is_away(&c);
  size_t bytes = (size_t)n->n_out * sizeof *out;
  inspection *w = away ? td_malloc(sizeof *w + bytes) : NULL;
  if (!w) {
    td_status *s = away ? td_oom() : td_numerics_check(&c);
    drop_kept(n, kept);
    hand_on(e, r, out, false, start, s, ready);
    return;
  }
  *w = (inspection){.r = r, .start = start, .kept = kept};
  memcpy(w->out, out, bytes);
  c.out = w->out;
  td_execution_hold(e);
  td_numerics_check_away(&c, e->program->device, inspected, w);
}

/* The kernel is done and nobody else is at it: hands its outputs on. */
static void pending_finish(td_pending *k, td_chain *ready) {
  td_ready *r = k->ready;
  td_execution *e = r->iter->execution;
  const td_xnode *n = &e->program->node[r->node];
  td_tensor *out = k->out;
  td_status *s = k->status;
  bool dead = k->ctx.out_dead;
  bool looks = TD_UNLIKELY(e->step->check_numerics);
  int64_t start = k->start;
  td_tensor *kept = looks ? keep_inputs(n, k->ctx.in) : NULL;
  release_all(k->ctx.in, k->ctx.n_in);
  td_pending_leave(k);
  if (td_ok(s) && !dead) s = check_outputs(n, out);
  if (td_ok(s) && !dead && looks) {
    inspect(e, r, kept, out, start, ready);
    return;
  }
  drop_kept(n, kept);
  hand_on(e, r, out, dead, start, s, ready);
}

/* Not inside start: what became ready is the team's. Ends the hold that the
 * starter took. */
static void pending_finish_later(td_pending *k) {
  td_execution *e = k->ready->iter->execution;
  td_chain ready = {NULL};
  pending_finish(k, &ready);
  if (TD_UNLIKELY(e->step->trace)) note_ready(&ready, NULL);
  post_chain(e, &ready, td_team_post);
  td_execution_drop(e);
}

/* ctx.done: exactly once, on any thread, perhaps inside start. */
static void pending_done(td_kernel_ctx *c, td_status *s) {
  td_pending *k = c->owner;
  if (td_pending_done(k, s)) pending_finish_later(k);
}

static void pending_start(td_execution *e, td_ready *r, const td_xnode *n,
                          td_chain *ready) {
  td_iteration *it = r->iter;
  td_pending *k = &it->pending[n->pending];
  unset(k->out, n->n_out);
  fill_ctx(&k->ctx, e, it, n, k->out, r->dead);
  k->ctx.done = pending_done;
  k->ctx.owner = k;
  k->ready = r;
  k->start = e->timed ? td_clock_now() : 0;
  bool at_once = td_kernel_at_once(&n->kernel);
  if (at_once) td_kernel_mark(&k->ctx);
  td_pending_enter(k);
  if (at_once)
    n->kernel.def->start(&k->ctx);
  else
    td_kernel_start(&k->ctx);
  if (TD_LIKELY(td_pending_at_once(k))) {
    pending_finish(k, ready);
    return;
  }
  td_execution_hold(e);
  if (!td_pending_returned(k, e->step->stop)) return;
  pending_finish(k, ready);
  td_execution_drop(e); /* never the last hold: the caller has its own */
}

/* Lets go of the hold that pending_cancel took, outside the hook. */
static void cancel_over(td_team_duty *duty) {
  td_execution_drop(
      (td_execution *)((char *)duty - offsetof(td_execution, cancel_over)));
}

/* The step is cancelled: tell every waiting kernel. The hold keeps the
 * execution until the hook is over; it is dropped by the team, because the end
 * of an execution waits for its hook. */
static void pending_cancel(void *arg) {
  td_execution *e = arg;
  if (!td_execution_try_hold(e)) return;
  td_pending_cancel(e, pending_finish_later);
  e->cancel_over.work = cancel_over;
  td_team_post_duty(e->team, &e->cancel_over);
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
  bool dead = false, timed = e->timed;
  int64_t start = timed ? td_clock_now() : 0;
  bool looked_at = TD_UNLIKELY(e->step->check_numerics);
  td_tensor *kept = looked_at ? keep_inputs(n, in) : NULL;
  unset(out, n->n_out);
  if (!run_native(n, in, out, &s)) {
    td_kernel_ctx c;
    fill_ctx(&c, e, it, n, out, r->dead);
    s = n->kernel.def->run(&c);
    dead = c.out_dead;
    if (td_ok(s) && !dead) s = check_outputs(n, out);
  }
  release_all(in, n->n_in);
  if (looked_at && td_ok(s) && !dead) {
    inspect(e, r, kept, out, start, ready);
    return;
  }
  if (TD_UNLIKELY(kept != NULL)) drop_kept(n, kept);
  if (TD_UNLIKELY(!td_ok(s))) {
    release_all(out, n->n_out);
    if (e->step->trace) trace_node(e, r, n, start, td_clock_now(), NULL, true);
    td_execution_fail(e, s, n);
    return;
  }
  if (timed) note_time(e, r, n, start, out);
  propagate(e, it, r->node, out, dead, ready);
}

static void process(td_execution *e, td_ready *r, const td_xnode *n,
                    td_chain *ready) {
  if (TD_UNLIKELY(n->updates) && !r->dead)
    __atomic_store_n(&e->step->updated, true, __ATOMIC_RELAXED);
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

static void work_through(td_execution *e, td_chain *chain);

static void posted_work(void *execution, void *first) {
  td_chain chain = {first};
  work_through(execution, &chain);
  td_execution_drop(execution);
}

/* Gives the whole chain to the team. */
static void post_chain(td_execution *e, td_chain *chain,
                       bool (*post)(td_team *t, td_team_job job)) {
  if (!chain->first) return;
  td_team_job job = {posted_work, e, chain->first};
  chain->first = NULL;
  if (!TD_PLANT(11)) td_execution_hold(e);
  bool posted = post(e->team, job);
  if (TD_PLANT(11)) td_execution_hold(e);
  if (TD_LIKELY(posted)) return;
  td_execution_fail(e, td_oom(), NULL);
  td_execution_drop(e); /* never the last hold: the caller has one */
}

/* It has a value go or come: what it took was others' time. */
static inline bool is_end(const td_xnode *n) {
  return n->kind == TD_OP_SEND || n->kind == TD_OP_RECV;
}

/* What the others may do while this thread runs `next`. */
static inline bool worth_posting(td_execution *e, const td_xnode *next) {
  return e->shared && td_team_size(e->team) > 1 && !is_end(next) &&
         __atomic_load_n(&next->cost, __ATOMIC_RELAXED) >= TD_COST_DEAR;
}

/* A thread that waits leaves to others what could make it deaf. */
static bool leaves(const td_turn *turn, const td_xnode *next) {
  int32_t cost = __atomic_load_n(&next->cost, __ATOMIC_RELAXED);
  if (cost == 0) cost = COST_UNKNOWN;
  return next->kernel.def && !is_end(next) && cost > turn->dearest;
}

/* Must the thread, which waits for the step, hand over before `next`? */
static bool must_leave(td_turn *turn, const td_xnode *next) {
  return leaves(turn, next) && (turn->left = turn->over = true);
}

static void process_traced(td_execution *e, td_ready *r, const td_xnode *n,
                           td_chain *chain) {
  td_ready *old = chain->first;
  process(e, r, n, chain);
  note_ready(chain, old);
}

static void work_through(td_execution *e, td_chain *chain) {
  td_turn *turn = td_team_turn();
  const bool leaving = turn->dearest != TD_TURN_ALL;
  const bool traced = e->step->trace != NULL;
  int until_look = CLOCK_EVERY;
  while (chain->first) {
    if (TD_UNLIKELY(td_execution_stopped(e))) {
      discard(e, chain);
      return;
    }
    td_ready *r = chain->first;
    const td_xnode *n = &e->program->node[r->node];
    bool over = false;
    if (TD_UNLIKELY(--until_look == 0)) {
      until_look = CLOCK_EVERY;
      over = td_turn_over(turn);
    }
    if (TD_UNLIKELY(leaving)) over = over || must_leave(turn, n);
    if (TD_UNLIKELY(over)) {
      post_chain(e, chain, td_team_put_first);
      return;
    }
    chain->first = r->next;
    if (chain->first && worth_posting(e, n)) post_chain(e, chain, td_team_post);
    if (TD_UNLIKELY(traced))
      process_traced(e, r, n, chain);
    else
      process(e, r, n, chain);
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
  bool shared = !p->plain || td_team_size(team) > 1;
  __atomic_store_n(&e->shared, shared, __ATOMIC_RELAXED); /* why() may look */
  /* To time each node takes time itself: the whole is timed in other runs. */
  e->measure = nth < 3 || nth % 32 == 0;
  e->timed = e->measure || step->trace;
  e->tells = nth < 3 || nth % 512 == 0; /* it is memory far away */
  bool whole = nth < 6 || (nth % 16 == 1 && !e->timed);
  e->started = whole ? td_clock_now() : 0;
  e->hook = (td_cancel_hook){.fire = pending_cancel, .arg = e};
  if (!p->plain && !td_cancel_add(step->cancel, &e->hook)) td_execution_stop(e);
  td_chain chain = {NULL};
  for (int32_t i = p->n_sources - 1; i >= 0; i--) {
    td_ready *r = &e->root->ready[p->node[p->source[i]].local];
    r->dead = false;
    td_chain_push(&chain, r);
  }
  e->root->busy = p->n_sources;
  if (TD_UNLIKELY(step->trace)) note_ready(&chain, NULL);
  post_chain(e, &chain, td_team_put_last);
  td_execution_drop(e);
  return NULL;
}
