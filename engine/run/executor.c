/* executor.c - runs a program: ready nodes in, finished nodes out.
 *
 * A thread of the team takes a chain of ready nodes and works depth first: the
 * node that became ready last runs next, on the same thread, with its inputs
 * still in cache. Before an expensive node the rest of the chain is posted for
 * others. Programs whose kernels all run on the calling thread, on a team of
 * one, use plain arithmetic; everything else is atomic.
 *
 * A run is over when nothing holds it: no posted chain, no thread working
 * on one, no kernel in flight. `live` counts those, so that nodes need no
 * counter of their own. After a failure nothing new starts and what is held
 * drains.
 *
 * Dead values travel in the same words: a state is the number of inputs still
 * to come and a bit that says one of them was dead.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/plant.h"
#include "engine/run/deliver.h"
#include "engine/run/numerics.h"
#include "engine/run/trace.h"

enum { CLOCK_EVERY = 32, FEW_OUTPUTS = 16 };

/* ---- iterations: the arrays a frame's nodes run on ---- */

/* From the spare list or fresh; state filled, slots empty. NULL: no memory. */
td_iter *td_iter_make(td_run *run, int32_t frame) {
  const td_xframe *f = &run->program->frame[frame];
  td_iter *it = run->spare[frame].first;
  if (it) {
    run->spare[frame].first = it->next;
  } else {
    it = td_alloc_aligned(TD_LINE, f->size);
    if (!it) return NULL;
    memset(it, 0, f->size);
    char *at = (char *)(it + 1);
    it->slot = (td_tensor *)at;
    at += (size_t)f->slots * sizeof(td_tensor);
    it->flight = (td_flight *)at;
    at += (size_t)f->flights * sizeof(td_flight);
    it->state = (uint64_t *)at;
    at += (size_t)f->nodes * sizeof(uint64_t);
    it->ready = (td_ready *)at;
    at += (size_t)f->nodes * sizeof(td_ready);
    it->child = (td_instance **)at;
    it->run = run;
    it->frame = frame;
    for (int32_t k = 0; k < f->nodes; k++) {
      it->ready[k].iter = it;
      it->ready[k].node = f->members[k];
    }
  }
  memcpy(it->state, f->initial, (size_t)f->nodes * sizeof *it->state);
  memset(it->child, 0, (size_t)f->children * sizeof *it->child);
  it->busy = it->inner = 0;
  it->instance = NULL;
  it->number = 0;
  it->path = 0;
  return it;
}

/* Lets go of values nobody took and keeps the memory. There are none when every
 * node ran. */
void td_iter_clear(td_iter *it) {
  const td_xframe *f = &it->run->program->frame[it->frame];
  if (it->instance || __atomic_load_n(&it->run->failed, __ATOMIC_ACQUIRE))
    for (int32_t i = 0; i < f->slots; i++)
      if (it->slot[i].buffer) td_tensor_release(&it->slot[i]);
  it->next = it->run->spare[it->frame].first;
  it->run->spare[it->frame].first = it;
}

/* ---- runs ---- */

static void run_free(td_run *run) {
  td_instances_free(run);
  for (int32_t k = 0; run->spare && k < run->program->n_frames; k++)
    for (td_iter *it; (it = run->spare[k].first);) {
      run->spare[k].first = it->next;
      td_free(it);
    }
  td_free(run->spare);
  pthread_spin_destroy(&run->frames_lock);
  pthread_mutex_destroy(&run->flights_lock);
  td_free(run);
}

static td_run *run_fresh(td_program *p) {
  td_run *run = td_alloc_zero(1, sizeof *run);
  if (!run) return NULL;
  run->program = p;
  pthread_spin_init(&run->frames_lock, PTHREAD_PROCESS_PRIVATE);
  pthread_mutex_init(&run->flights_lock, NULL);
  run->spare = td_alloc_zero((size_t)p->n_frames, sizeof *run->spare);
  if (!run->spare) {
    run_free(run);
    return NULL;
  }
  return run;
}

void td_program_drop_idle(td_program *p) {
  for (td_run *run; (run = p->idle);) {
    p->idle = run->next;
    run_free(run);
  }
}

static td_run *run_take(td_program *p) {
  pthread_mutex_lock(&p->lock);
  td_run *run = p->idle;
  if (run) p->idle = run->next;
  pthread_mutex_unlock(&p->lock);
  if (!run) run = run_fresh(p);
  if (!run) return NULL;
  run->root = td_iter_make(run, 0);
  if (!run->root) {
    run_free(run);
    return NULL;
  }
  return run;
}

static void list_running(td_run *run) {
  td_program *p = run->program;
  pthread_mutex_lock(&p->lock);
  run->prev = NULL;
  run->next = p->running;
  if (run->next) run->next->prev = run;
  p->running = run;
  pthread_mutex_unlock(&p->lock);
}

static void run_keep(td_run *run) {
  td_program *p = run->program;
  pthread_mutex_lock(&p->lock);
  if (run->prev)
    run->prev->next = run->next;
  else
    p->running = run->next;
  if (run->next) run->next->prev = run->prev;
  run->next = p->idle;
  p->idle = run;
  pthread_mutex_unlock(&p->lock);
}

static void decay(int64_t *average, int64_t value) {
  int64_t old = __atomic_load_n(average, __ATOMIC_RELAXED);
  __atomic_store_n(average, old ? old + (value - old) / 4 : value,
                   __ATOMIC_RELAXED);
}

/* Every hold is gone: nobody else can reach `run`. */
static void run_over(td_run *run) {
  td_program *p = run->program;
  td_cancel_remove(run->step->cancel, &run->hook);
  if (run->measure && !run->failed)
    decay(&p->cost, td_clock_now() - run->started + 1);
  if (p->n_frames > 1) td_instances_clear(run);
  td_iter_clear(run->root);
  td_status *s = run->status;
  run->status = NULL;
  void (*over)(void *, td_status *) = run->over;
  void *arg = run->arg;
  run_keep(run);
  over(arg, s);
  td_program_release(p);
}

static void run_hold(td_run *run, int32_t n) {
  __atomic_fetch_add(&run->live, n, __ATOMIC_RELAXED);
}

static void run_drop(td_run *run) {
  if (__atomic_fetch_sub(&run->live, 1, __ATOMIC_ACQ_REL) == 1) run_over(run);
}

/* Takes ownership of `s`. The first cause stops the step everywhere. */
void td_run_fail(td_run *run, td_status *s, const td_xnode *n) {
  if (n) s = td_node_blame(s, n->kernel.node);
  s = td_status_at(s, NULL, NULL, NULL, run->program->device->name);
  pthread_mutex_lock(&run->flights_lock);
  run->status = td_status_first(run->status, td_status_retain(s));
  pthread_mutex_unlock(&run->flights_lock);
  __atomic_store_n(&run->failed, 1, __ATOMIC_RELEASE);
  td_rendezvous_abort(run->step->rendezvous, s);
  td_cancel_fire(run->step->cancel, s);
}

static bool run_stopped(const td_run *run) {
  return __atomic_load_n(&run->failed, __ATOMIC_RELAXED) ||
         td_cancelled(run->step->stop);
}

/* A cancelled run that no node of its own failed still needs a cause. */
static void run_note_cancel(td_run *run) {
  if (__atomic_exchange_n(&run->failed, 1, __ATOMIC_ACQ_REL)) return;
  td_status *s = td_cancel_cause(run->step->cancel);
  pthread_mutex_lock(&run->flights_lock);
  run->status = td_status_first(run->status, s);
  pthread_mutex_unlock(&run->flights_lock);
}

/* ---- propagation without frames ---- */

static inline void propagate_flat(const td_program *p, td_iter *it,
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
  case TD_KIND_NOOP:
  case TD_KIND_TRIGGER:
    return true;
  case TD_KIND_ENTER:
  case TD_KIND_EXIT:
  case TD_KIND_NEXT:
  case TD_KIND_COND:
    out[0] = in[0];
    in[0].buffer = NULL;
    return true;
  case TD_KIND_IDENTITY:
    for (int i = 0; i < n->n_out; i++) {
      out[i] = in[i];
      in[i].buffer = NULL;
    }
    return true;
  case TD_KIND_SWITCH:
    *s = run_switch(n, in, out);
    return true;
  case TD_KIND_MERGE:
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

static void fill_ctx(td_kernel_ctx *c, td_run *run, td_iter *it,
                     const td_xnode *n, td_tensor *out, bool dead) {
  c->kernel = &n->kernel;
  c->step = run->step;
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
    if (out[i].dtype == TD_INVALID && n->kind != TD_KIND_SWITCH)
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

static void trace_node(td_run *run, td_iter *it, const td_xnode *n,
                       int64_t start, int64_t end, const td_tensor *out) {
  td_trace_event e = {.node = n->kernel.node->name,
                      .op = n->kernel.node->op->type,
                      .device = run->program->device->name,
                      .ready = start,
                      .start = start,
                      .end = end,
                      .thread = thread_number(),
                      .frame = it->path,
                      .iteration = it->number,
                      .bytes = bytes_of(out, n->n_out)};
  td_trace_add(run->step->trace, &e);
}

static void note_time(td_run *run, td_iter *it, const td_xnode *n,
                      int64_t start, const td_tensor *out) {
  int64_t end = td_clock_now(), t = end - start;
  int32_t *cost = (int32_t *)&n->cost;
  int32_t old = __atomic_load_n(cost, __ATOMIC_RELAXED);
  int64_t now = old ? old + (t - old) / 4 : t;
  if (now > INT32_MAX) now = INT32_MAX;
  __atomic_store_n(cost, now < 1 ? 1 : (int32_t)now, __ATOMIC_RELAXED);
  if (run->step->trace) trace_node(run, it, n, start, end, out);
}

static inline void propagate(td_run *run, td_iter *it, int32_t node,
                             td_tensor *out, bool dead, td_chain *ready) {
  const td_program *p = run->program;
  if (p->n_frames > 1)
    td_propagate_frames(run, it, node, out, dead, ready);
  else if (run->shared)
    propagate_flat(p, it, &p->node[node], out, dead, true, ready);
  else
    propagate_flat(p, it, &p->node[node], out, dead, false, ready);
}

/* ---- a step that looks at what is computed ---- */

/* Shares of the inputs: a kernel that holds one alone may write over it. NULL
 * when there is no memory. */
static td_tensor *keep_inputs(const td_xnode *n, const td_tensor *in) {
  td_tensor *kept = td_alloc_zero((size_t)n->n_in + 1, sizeof *kept);
  for (int i = 0; kept && i < n->n_in; i++)
    if (in[i].buffer) td_tensor_retain(&in[i], &kept[i]);
  return kept;
}

/* Ends `kept`, which may be NULL: then inputs are not shown. */
static td_status *look_at(const td_iter *it, const td_xnode *n, td_tensor *kept,
                          const td_tensor *out) {
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

/* ---- kernels in flight ---- */

static void flight_list(td_run *run, td_flight *f) {
  pthread_mutex_lock(&run->flights_lock);
  f->prev = NULL;
  f->next = run->flights;
  if (f->next) f->next->prev = f;
  run->flights = f;
  f->holds = 0;
  f->finished = false;
  pthread_mutex_unlock(&run->flights_lock);
}

static void post_chain(td_run *run, td_chain *chain, bool wake);
static void work_through(td_run *run, td_chain *chain);

/* The kernel is done and no cancel looks at it: hand its outputs on. */
static void flight_land(td_flight *f, td_status *s, td_chain *ready) {
  td_ready *r = f->ready;
  td_run *run = r->iter->run;
  const td_xnode *n = &run->program->node[r->node];
  td_tensor *out = f->ctx.out;
  bool dead = f->ctx.out_dead;
  release_all(f->ctx.in, f->ctx.n_in);
  if (td_ok(s) && !dead) s = check_outputs(n, out);
  if (td_ok(s) && !dead && run->step->check_numerics)
    s = look_at(r->iter, n, NULL, out);
  if (td_ok(s)) {
    if (run->measure || run->step->trace)
      note_time(run, r->iter, n, f->start, out);
    propagate(run, r->iter, r->node, out, dead, ready);
  } else {
    release_all(out, n->n_out);
    bool echo =
        td_cancelled(run->step->stop) && td_status_code(s) == TD_CANCELLED;
    if (echo) {
      td_status_release(s);
      run_note_cancel(run);
    } else {
      td_run_fail(run, s, n);
    }
  }
  td_free(out);
}

enum { PHASE_STARTING, PHASE_RETURNED, PHASE_INSIDE };

/* ctx.done: exactly once, on any thread, perhaps inside start. */
static void flight_done(td_kernel_ctx *c, td_status *s) {
  td_flight *f = c->owner;
  td_run *run = f->ready->iter->run;
  pthread_mutex_lock(&run->flights_lock);
  f->status = s;
  if (f->holds > 0) {
    f->finished = true;
    pthread_mutex_unlock(&run->flights_lock);
    return;
  }
  if (f->prev)
    f->prev->next = f->next;
  else
    run->flights = f->next;
  if (f->next) f->next->prev = f->prev;
  pthread_mutex_unlock(&run->flights_lock);
  /* Inside start the starter hands on; afterwards this thread does. */
  if (__atomic_exchange_n(&f->phase, PHASE_INSIDE, __ATOMIC_ACQ_REL) ==
      PHASE_STARTING)
    return;
  td_chain ready = {NULL};
  flight_land(f, s, &ready);
  post_chain(run, &ready, true);
  run_drop(run);
}

static void flight_start(td_run *run, td_ready *r, const td_xnode *n,
                         td_chain *ready) {
  td_iter *it = r->iter;
  td_flight *f = &it->flight[n->flight];
  td_tensor *out = td_alloc_zero((size_t)n->n_out, sizeof *out);
  if (!out) {
    release_all(it->slot + n->in, n->n_in);
    td_run_fail(run, td_oom(), n);
    return;
  }
  fill_ctx(&f->ctx, run, it, n, out, r->dead);
  f->ctx.done = flight_done;
  f->ctx.owner = f;
  f->ready = r;
  f->phase = PHASE_STARTING;
  f->start = run->measure || run->step->trace ? td_clock_now() : 0;
  run_hold(run, 1);
  flight_list(run, f);
  td_kernel_start(&f->ctx);
  if (__atomic_exchange_n(&f->phase, PHASE_RETURNED, __ATOMIC_ACQ_REL) !=
      PHASE_INSIDE)
    return;
  flight_land(f, f->status, ready);
  run_drop(run); /* never the last hold: the caller has its own */
}

/* Lets go of the hold that flights_cancel took, outside the hook. */
static void cancel_over(td_team_job *job) {
  run_drop((td_run *)((char *)job - offsetof(td_run, cancel_job)));
}

/* The step is cancelled: tell every waiting kernel. The hold keeps the run
 * until the hook is over; it is dropped by the team, because the end of a run
 * waits for its hook. */
static void flights_cancel(void *arg) {
  td_run *run = arg;
  pthread_mutex_lock(&run->flights_lock);
  td_flight *f = run->flights;
  if (!f) {
    pthread_mutex_unlock(&run->flights_lock);
    return;
  }
  run_hold(run, 1);
  f->holds++;
  while (f) {
    pthread_mutex_unlock(&run->flights_lock);
    td_kernel_cancel(&f->ctx);
    pthread_mutex_lock(&run->flights_lock);
    td_flight *next = f->next;
    if (next) next->holds++;
    bool finished = --f->holds == 0 && f->finished;
    pthread_mutex_unlock(&run->flights_lock);
    if (finished) flight_done(&f->ctx, f->status);
    pthread_mutex_lock(&run->flights_lock);
    f = next;
  }
  pthread_mutex_unlock(&run->flights_lock);
  run->cancel_job.work = cancel_over;
  td_team_post(run->team, &run->cancel_job, true);
}

/* ---- working through a chain ---- */

static void process_dead(td_run *run, td_ready *r, const td_xnode *n,
                         td_chain *ready) {
  release_all(r->iter->slot + n->in, n->n_in);
  propagate(run, r->iter, r->node, NULL, true, ready);
}

static inline void process_plain(td_run *run, td_ready *r, const td_xnode *n,
                                 td_tensor *out, td_chain *ready) {
  td_iter *it = r->iter;
  td_tensor *in = it->slot + n->in;
  td_status *s = NULL;
  bool dead = false, timed = run->measure || run->step->trace;
  int64_t start = timed ? td_clock_now() : 0;
  bool looked_at = TD_UNLIKELY(run->step->check_numerics);
  td_tensor *kept = looked_at ? keep_inputs(n, in) : NULL;
  for (int i = 0; i < n->n_out; i++) {
    out[i].dtype = TD_INVALID;
    out[i].buffer = NULL;
  }
  if (!run_native(n, in, out, &s)) {
    td_kernel_ctx c;
    fill_ctx(&c, run, it, n, out, r->dead);
    s = n->kernel.def->run(&c);
    dead = c.out_dead;
    if (td_ok(s) && !dead) s = check_outputs(n, out);
  }
  release_all(in, n->n_in);
  if (looked_at) s = td_status_first(s, look_at(it, n, kept, out));
  if (TD_UNLIKELY(!td_ok(s))) {
    release_all(out, n->n_out);
    td_run_fail(run, s, n);
    return;
  }
  if (timed) note_time(run, it, n, start, out);
  propagate(run, it, r->node, out, dead, ready);
}

static void process(td_run *run, td_ready *r, td_chain *ready) {
  const td_xnode *n = &run->program->node[r->node];
  if (r->dead && !n->runs_dead && n->kind != TD_KIND_TRIGGER) {
    process_dead(run, r, n, ready);
  } else if (n->flight >= 0) {
    flight_start(run, r, n, ready);
  } else {
    td_tensor few[FEW_OUTPUTS], *out = few;
    if (TD_UNLIKELY(n->n_out > FEW_OUTPUTS))
      out = td_alloc((size_t)n->n_out * sizeof *out);
    if (TD_LIKELY(out)) {
      process_plain(run, r, n, out, ready);
    } else {
      release_all(r->iter->slot + n->in, n->n_in);
      td_run_fail(run, td_oom(), n);
    }
    if (TD_UNLIKELY(out != few)) td_free(out);
  }
}

/* Nothing runs any more: inputs of what was ready are let go with their
 * iteration. */
static void discard(td_run *run, td_chain *chain) {
  run_note_cancel(run);
  chain->first = NULL;
}

static void posted_work(td_team_job *base) {
  td_posted *s = (td_posted *)base;
  td_run *run = s->run;
  td_chain chain = s->chain;
  if (s != &run->first) td_free(s);
  work_through(run, &chain);
  run_drop(run);
}

/* Gives the whole chain to the team. */
static void post_chain(td_run *run, td_chain *chain, bool wake) {
  if (!chain->first) return;
  td_posted *s = wake ? td_alloc(sizeof *s) : &run->first;
  if (!s) {
    td_run_fail(run, td_oom(), NULL);
    chain->first = NULL;
    return;
  }
  s->base.work = posted_work;
  s->run = run;
  s->chain = *chain;
  chain->first = NULL;
  run_hold(run, 1);
  td_team_post(run->team, &s->base, wake);
}

/* What the others may do while this thread runs `next`. */
static inline bool worth_posting(td_run *run, const td_xnode *next) {
  return run->shared && td_team_size(run->team) > 1 &&
         __atomic_load_n(&next->cost, __ATOMIC_RELAXED) >= TD_COST_DEAR;
}

static void work_through(td_run *run, td_chain *chain) {
  int64_t until = td_team_until();
  int count = 0;
  while (chain->first) {
    if (TD_UNLIKELY(run_stopped(run))) {
      discard(run, chain);
      return;
    }
    if (until != INT64_MAX && ++count % CLOCK_EVERY == 0 &&
        td_clock_now() > until) {
      post_chain(run, chain, true);
      return;
    }
    td_ready *r = chain->first;
    chain->first = r->next;
    if (chain->first && worth_posting(run, &run->program->node[r->node]))
      post_chain(run, chain, true);
    process(run, r, chain);
  }
}

/* ---- starting ---- */

td_status *td_run_start(td_program *p, td_step *step, td_team *team,
                        void (*over)(void *arg, td_status *s), void *arg) {
  td_run *run = run_take(p);
  if (!run) return td_oom();
  int64_t nth = __atomic_fetch_add(&p->runs, 1, __ATOMIC_RELAXED);
  run->step = step;
  run->team = team;
  run->over = over;
  run->arg = arg;
  run->shared = !p->plain || td_team_size(team) > 1;
  run->measure = nth < 3 || nth % 32 == 0;
  run->started = run->measure ? td_clock_now() : 0;
  run->failed = 0;
  run->live = 1;
  td_program_retain(p);
  list_running(run);
  run->hook = (td_cancel_hook){.fire = flights_cancel, .arg = run};
  if (!p->plain && !td_cancel_add(step->cancel, &run->hook))
    run_note_cancel(run);
  td_chain chain = {NULL};
  for (int32_t i = p->n_sources - 1; i >= 0; i--) {
    td_ready *r = &run->root->ready[p->node[p->source[i]].local];
    r->dead = false;
    td_chain_push(&chain, r);
  }
  run->root->busy = p->n_sources;
  post_chain(run, &chain, false);
  run_drop(run);
  return NULL;
}
