/* executor_frames.c - propagation through loops: frames and iterations.
 *
 * An instance of a frame is one entry into a loop; its iterations form a list,
 * oldest first, at most `parallel` of them in flight. A value that would start
 * one too many is kept until the oldest ends. An iteration ends when nothing in
 * it is ready or running, no inner instance lives, and every older one has
 * ended; the instance ends with its last iteration once all its Enters came.
 * Loop invariants (constant Enters) are replayed into each new iteration.
 *
 * A dead Exit says nothing while the loop goes on: every iteration but the last
 * has one. Those of the newest iteration are remembered and passed on when the
 * instance ends without having been replaced by another iteration.
 *
 * A dead NextIteration starts nothing. But where a loop variable may die while
 * the loop goes on (td_node.may_stop), its Merge is dead in the iterations that
 * others start: each node is ready once in each iteration, so that whoever
 * receives from it on another device does not wait for ever.
 *
 * All of it happens under one spin lock per run, taken once per finished node
 * when several threads work on the run.
 * Source: Yu et al., "Dynamic control flow in large-scale machine learning",
 * EuroSys 2018, section 4.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/run/deliver.h"

/* A value kept with the node it came from. */
typedef struct kept {
  int32_t node;
  bool dead;
  td_tensor value;
} kept;

struct td_instance {
  td_run *run;
  td_iter *parent;
  int32_t frame;
  int32_t enters; /* still to come */
  int32_t in_flight;
  uint64_t path;
  td_iter *oldest, *newest;
  TD_VEC(kept) invariants;
  TD_VEC(kept) deferred;    /* NextIterations past the newest */
  bool goes_on;             /* one of them is live */
  TD_VEC(int32_t) exits;    /* dead Exits of the newest iteration */
  td_instance *prev, *next; /* run->instances, or the spare list */
};

static void lock(td_run *run) {
  if (run->shared) pthread_spin_lock(&run->frames_lock);
}
static void unlock(td_run *run) {
  if (run->shared) pthread_spin_unlock(&run->frames_lock);
}

/* Failing a run cancels kernels, which may finish and hand on: that waits until
 * the lock is released. */
static void fail_later(td_run *run, td_status *s) {
  run->fault = td_status_first(run->fault, s);
}

/* Delivers all of a node's outputs into one iteration; out[] is consumed. */
static void hand_on(td_run *run, td_iter *to, int32_t node, td_tensor *out,
                    bool dead, td_chain *ready) {
  const td_program *p = run->program;
  const td_xnode *n = &p->node[node];
  const int32_t *begin = &p->begin[n->targets];
  for (int32_t k = begin[n->n_out]; k < begin[n->n_out + 1]; k++) {
    td_ready *before = ready->first;
    td_deliver(to, p->target[k], NULL, dead, false, false, ready);
    to->busy += ready->first != before;
  }
  for (int32_t port = 0; port < n->n_out; port++) {
    td_tensor *t = out ? &out[port] : NULL;
    bool none = dead || t->dtype == TD_INVALID;
    for (int32_t k = begin[port]; k < begin[port + 1]; k++) {
      td_ready *before = ready->first;
      if (none && n->kind == TD_KIND_ENTER && p->target[k].merge)
        td_arrive_merge(to, p->target[k], true, true, false, ready);
      else
        td_deliver(to, p->target[k], t, none, k + 1 == begin[port + 1], false,
                   ready);
      to->busy += ready->first != before;
    }
    if (!none && t->buffer) td_tensor_release(t);
  }
}

/* Tells the Merges of a dead NextIteration. Where no other value is to come,
 * what comes in the first iteration alone is not waited for. */
static void tell(td_run *run, td_iter *to, int32_t node, td_chain *ready) {
  const td_program *p = run->program;
  const int32_t *begin = &p->begin[p->node[node].targets];
  const int32_t *merges = p->frame[to->frame].members;
  for (int32_t k = begin[0]; k < begin[1]; k++) {
    td_target t = p->target[k];
    td_ready *before = ready->first;
    uint64_t first = (uint64_t)p->node[merges[t.local]].child;
    uint64_t left = to->state[t.local] & TD_STATE_DATA;
    bool last = left <= (first + 1) * TD_STATE_DATA_ONE;
    td_arrive_merge(to, t, true, last, false, ready);
    to->busy += ready->first != before;
  }
}

/* ---- instances ---- */

static uint64_t path_of(const td_iter *parent, const char *name) {
  uint64_t key[2] = {parent->path, (uint64_t)parent->number};
  uint64_t h = td_hash(key, sizeof key, 1);
  h = td_hash(name, strlen(name), h);
  return h ? h : 1; /* 0 is the root */
}

static td_instance *instance_make(td_run *run, td_iter *parent, int32_t frame) {
  const td_xframe *f = &run->program->frame[frame];
  td_instance *inst = run->spare_instances;
  if (inst)
    run->spare_instances = inst->next;
  else
    inst = td_alloc_zero(1, sizeof *inst);
  if (!inst) return NULL;
  inst->oldest = inst->newest = td_iter_make(run, frame);
  if (!inst->oldest) {
    inst->next = run->spare_instances;
    run->spare_instances = inst;
    return NULL;
  }
  inst->run = run;
  inst->parent = parent;
  inst->frame = frame;
  inst->enters = f->enters;
  inst->in_flight = 1;
  inst->path = path_of(parent, f->name);
  inst->oldest->instance = inst;
  inst->oldest->path = inst->path;
  inst->oldest->later = NULL;
  inst->prev = NULL;
  inst->next = run->instances;
  if (inst->next) inst->next->prev = inst;
  run->instances = inst;
  parent->child[f->ordinal] = inst;
  parent->inner++;
  return inst;
}

static void kept_drop(kept *k, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (k[i].value.buffer) td_tensor_release(&k[i].value);
}

static void instance_unlink(td_instance *inst) {
  td_run *run = inst->run;
  if (inst->prev)
    inst->prev->next = inst->next;
  else
    run->instances = inst->next;
  if (inst->next) inst->next->prev = inst->prev;
  kept_drop(inst->invariants.at, inst->invariants.len);
  kept_drop(inst->deferred.at, inst->deferred.len);
  inst->invariants.len = inst->deferred.len = inst->exits.len = 0;
  inst->goes_on = false;
  inst->next = run->spare_instances;
  run->spare_instances = inst;
}

/* A remembered value enters an iteration. Invariants stay; others move. */
static void replay(td_run *run, td_iter *to, kept *k, bool move,
                   td_chain *ready) {
  td_tensor t = {0};
  if (k->dead && move) {
    tell(run, to, k->node, ready);
    return;
  }
  if (move) {
    t = k->value;
    k->value.buffer = NULL;
  } else if (!k->dead) {
    td_tensor_retain(&k->value, &t);
  }
  hand_on(run, to, k->node, &t, k->dead, ready);
}

/* Starts the next iteration: invariants first, then what waited for it. */
static void iteration_add(td_instance *inst, td_chain *ready) {
  td_run *run = inst->run;
  td_iter *it = td_iter_make(run, inst->frame);
  if (!it) {
    fail_later(run, td_oom());
    return;
  }
  it->instance = inst;
  it->path = inst->path;
  it->number = inst->newest->number + 1;
  it->later = NULL;
  inst->newest->later = it;
  inst->newest = it;
  if (++inst->in_flight > run->program->frame[inst->frame].parallel)
    fail_later(run, td_error(TD_INTERNAL, "%d iterations of \"%s\" in flight",
                             inst->in_flight,
                             run->program->frame[inst->frame].name));
  for (int32_t i = 0; TD_PLANT(1) && i < run->program->frame[inst->frame].nodes;
       i++)
    if (it->number > 1 && it->state[i] == 2) it->state[i] = 1;
  inst->exits.len = 0;
  for (size_t i = 0; !TD_PLANT(8) && i < inst->invariants.len; i++)
    replay(run, it, &inst->invariants.at[i], false, ready);
  for (size_t i = 0; i < inst->deferred.len; i++)
    replay(run, it, &inst->deferred.at[i], true, ready);
  inst->deferred.len = 0;
  inst->goes_on = false;
}

static bool iteration_over(const td_instance *inst, const td_iter *it) {
  return it->busy == 0 && it->inner == 0 &&
         (it->number > 0 || inst->enters == 0);
}

/* Ends finished iterations, then the instance, then looks at its parent. */
static void settle(td_instance *inst, td_chain *ready) {
  while (inst) {
    td_run *run = inst->run;
    while (inst->oldest && iteration_over(inst, inst->oldest)) {
      td_iter *gone = inst->oldest;
      inst->in_flight--;
      if (inst->goes_on) iteration_add(inst, ready);
      inst->oldest = gone->later;
      td_iter_clear(gone);
    }
    if (inst->oldest || inst->enters > 0) return;
    td_iter *parent = inst->parent;
    for (size_t i = 0; i < inst->exits.len; i++)
      hand_on(run, parent, inst->exits.at[i], NULL, true, ready);
    parent->inner--;
    parent->child[run->program->frame[inst->frame].ordinal] = NULL;
    instance_unlink(inst);
    inst = parent->instance;
  }
}

/* ---- the four special nodes ---- */

static td_instance *enter(td_run *run, td_iter *it, const td_xnode *n,
                          int32_t node, td_tensor *out, bool dead,
                          td_chain *ready) {
  td_instance *inst = it->child[run->program->frame[n->child].ordinal];
  if (!inst) inst = instance_make(run, it, n->child);
  if (!inst) {
    if (out && out->buffer) td_tensor_release(out);
    fail_later(run, td_oom());
    return NULL;
  }
  inst->enters--;
  if (!n->constant) {
    hand_on(run, inst->oldest, node, out, dead, ready);
    return inst;
  }
  kept k = {.node = node, .dead = dead};
  if (!dead) k.value = *out;
  if (!td_vec_push(&inst->invariants, k)) {
    if (!dead) td_tensor_release(out);
    fail_later(run, td_oom());
    return inst;
  }
  for (td_iter *to = inst->oldest; to; to = to->later)
    replay(run, to, &k, false, ready);
  return inst;
}

static void next_dead(td_run *run, td_iter *it, int32_t node, td_chain *ready) {
  kept k = {.node = node, .dead = true};
  if (it->later)
    tell(run, it->later, node, ready);
  else if (!td_vec_push(&it->instance->deferred, k))
    fail_later(run, td_oom());
}

static void next(td_run *run, td_iter *it, int32_t node, td_tensor *out,
                 td_chain *ready) {
  td_instance *inst = it->instance;
  int32_t limit = run->program->frame[inst->frame].parallel;
  if (it->later) {
    hand_on(run, it->later, node, out, false, ready);
    return;
  }
  kept k = {.node = node, .value = *out};
  if (!td_vec_push(&inst->deferred, k)) {
    td_tensor_release(out);
    fail_later(run, td_oom());
    return;
  }
  out->buffer = NULL;
  inst->goes_on = true;
  if (inst->in_flight < limit || TD_PLANT(10)) iteration_add(inst, ready);
}

static void leave(td_run *run, td_iter *it, int32_t node, td_tensor *out,
                  bool dead, td_chain *ready) {
  td_instance *inst = it->instance;
  if (!dead)
    hand_on(run, inst->parent, node, out, false, ready);
  else if (it == inst->newest && !td_vec_push(&inst->exits, node))
    fail_later(run, td_oom());
}

void td_propagate_frames(td_run *run, td_iter *it, int32_t node, td_tensor *out,
                         bool dead, td_chain *ready) {
  const td_xnode *n = &run->program->node[node];
  td_instance *entered = NULL;
  lock(run);
  switch (n->kind) {
  case TD_KIND_ENTER:
    entered = enter(run, it, n, node, out, dead, ready);
    break;
  case TD_KIND_EXIT:
    leave(run, it, node, out, dead, ready);
    break;
  case TD_KIND_NEXT:
    if (!dead)
      next(run, it, node, out, ready);
    else if (n->tells)
      next_dead(run, it, node, ready);
    break;
  default:
    hand_on(run, it, node, out, dead, ready);
  }
  it->busy--;
  /* While an inner instance lives, `it` does; when it ends, so may `it`. */
  settle(entered ? entered : it->instance, ready);
  td_status *fault = run->fault;
  run->fault = NULL;
  unlock(run);
  if (fault) td_run_fail(run, fault, NULL);
}

/* ---- the end of a run ---- */

void td_instances_clear(td_run *run) {
  while (run->instances) {
    td_instance *inst = run->instances;
    for (td_iter *it; (it = inst->oldest);) {
      inst->oldest = it->later;
      td_iter_clear(it);
    }
    instance_unlink(inst);
  }
}

void td_instances_free(td_run *run) {
  for (td_instance *inst; (inst = run->spare_instances);) {
    run->spare_instances = inst->next;
    td_vec_free(&inst->invariants);
    td_vec_free(&inst->deferred);
    td_vec_free(&inst->exits);
    td_free(inst);
  }
}

void td_instances_visit(td_run *run, td_str *out, int *lines,
                        void (*visit)(const td_iter *it, td_str *out,
                                      int *lines)) {
  for (td_instance *inst = run->instances; inst; inst = inst->next)
    for (td_iter *it = inst->oldest; it; it = it->later) visit(it, out, lines);
}
