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
 * All of it happens under one spin lock per execution, taken once per finished
 * node when several threads work on it.
 * Source: Yu et al., "Dynamic control flow in large-scale machine learning",
 * EuroSys 2018, section 4.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/run/deliver.h"
#include "engine/run/execution.h"

static void lock(td_execution *e) {
  if (e->shared) pthread_spin_lock(&e->frames_lock);
}
static void unlock(td_execution *e) {
  if (e->shared) pthread_spin_unlock(&e->frames_lock);
}

/* Failing cancels kernels, which may finish and hand on: that waits until
 * the lock is released. */
static void fail_later(td_execution *e, td_status *s) {
  e->fault = td_status_first(e->fault, s);
}

/* Delivers all of a node's outputs into one iteration; out[] is consumed. */
static void hand_on(td_execution *e, td_iteration *to, int32_t node,
                    td_tensor *out, bool dead, td_chain *ready) {
  const td_program *p = e->program;
  const td_xnode *n = &p->node[node];
  const int32_t *begin = &p->begin[n->targets];
  for (int32_t k = begin[n->n_out]; k < begin[n->n_out + 1]; k++) {
    td_ready *before = ready->first;
    td_deliver_control(to, p->target[k], dead, false, ready);
    to->busy += ready->first != before;
  }
  for (int32_t port = 0; port < n->n_out; port++) {
    td_tensor *t = out ? &out[port] : NULL;
    bool none = dead || t->dtype == TD_INVALID;
    for (int32_t k = begin[port]; k < begin[port + 1]; k++) {
      td_ready *before = ready->first;
      if (none && n->kind == TD_OP_ENTER && p->target[k].merge)
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
static void tell(td_execution *e, td_iteration *to, int32_t node,
                 td_chain *ready) {
  const td_program *p = e->program;
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

/* ---- iterations ---- */

/* A remembered value enters an iteration. Invariants stay; others move. */
static void replay(td_execution *e, td_iteration *to, td_kept *k, bool move,
                   td_chain *ready) {
  td_tensor t;
  t.buffer = NULL;
  t.dtype = TD_INVALID;
  if (k->dead && move) {
    tell(e, to, k->node, ready);
    return;
  }
  if (move) {
    td_tensor_set(&t, &k->value);
    k->value.buffer = NULL;
  } else if (!k->dead) {
    td_tensor_retain(&k->value, &t);
  }
  hand_on(e, to, k->node, &t, k->dead, ready);
}

/* Starts the next iteration: invariants first, then what waited for it. */
static void iteration_add(td_instance *inst, td_chain *ready) {
  td_execution *e = inst->execution;
  td_iteration *it = td_iteration_make(e, inst->frame);
  if (!it) {
    fail_later(e, td_oom());
    return;
  }
  it->instance = inst;
  it->path = inst->path;
  it->number = inst->newest->number + 1;
  it->later = NULL;
  inst->newest->later = it;
  inst->newest = it;
  if (++inst->running > e->program->frame[inst->frame].parallel)
    fail_later(e, td_error(TD_INTERNAL, "%d iterations of \"%s\" in flight",
                           inst->running, e->program->frame[inst->frame].name));
  for (int32_t i = 0; TD_PLANT(1) && i < e->program->frame[inst->frame].nodes;
       i++)
    if (it->number > 1 && it->state[i] == 2) it->state[i] = 1;
  inst->exits.len = 0;
  for (size_t i = 0; !TD_PLANT(8) && i < inst->invariants.len; i++)
    replay(e, it, &inst->invariants.at[i], false, ready);
  for (size_t i = 0; i < inst->deferred.len; i++)
    replay(e, it, &inst->deferred.at[i], true, ready);
  inst->deferred.len = 0;
  inst->goes_on = false;
}

static bool iteration_over(const td_instance *inst, const td_iteration *it) {
  return it->busy == 0 && it->inner == 0 &&
         (it->number > 0 || inst->enters == 0);
}

/* Ends finished iterations, then the instance, then looks at its parent. */
static void settle(td_instance *inst, td_chain *ready) {
  while (inst) {
    td_execution *e = inst->execution;
    while (inst->oldest && iteration_over(inst, inst->oldest)) {
      td_iteration *gone = inst->oldest;
      inst->running--;
      if (inst->goes_on) iteration_add(inst, ready);
      inst->oldest = gone->later;
      td_iteration_clear(gone);
    }
    if (inst->oldest || inst->enters > 0) return;
    td_iteration *parent = inst->parent;
    for (size_t i = 0; i < inst->exits.len; i++)
      hand_on(e, parent, inst->exits.at[i], NULL, true, ready);
    parent->inner--;
    parent->child[e->program->frame[inst->frame].ordinal] = NULL;
    td_instance_end(inst);
    inst = parent->instance;
  }
}

/* ---- the four special nodes ---- */

static td_instance *enter(td_execution *e, td_iteration *it, const td_xnode *n,
                          int32_t node, td_tensor *out, bool dead,
                          td_chain *ready) {
  td_instance *inst = it->child[e->program->frame[n->child].ordinal];
  if (!inst) inst = td_instance_make(e, it, n->child);
  if (!inst) {
    if (out && out->buffer) td_tensor_release(out);
    fail_later(e, td_oom());
    return NULL;
  }
  inst->enters--;
  if (!n->constant) {
    hand_on(e, inst->oldest, node, out, dead, ready);
    return inst;
  }
  td_kept k = {.node = node, .dead = dead};
  if (!dead) k.value = *out;
  if (!td_vec_push(&inst->invariants, k)) {
    if (!dead) td_tensor_release(out);
    fail_later(e, td_oom());
    return inst;
  }
  for (td_iteration *to = inst->oldest; to; to = to->later)
    replay(e, to, &k, false, ready);
  return inst;
}

static void next_dead(td_execution *e, td_iteration *it, int32_t node,
                      td_chain *ready) {
  td_kept k = {.node = node, .dead = true};
  if (it->later)
    tell(e, it->later, node, ready);
  else if (!td_vec_push(&it->instance->deferred, k))
    fail_later(e, td_oom());
}

static void next(td_execution *e, td_iteration *it, int32_t node,
                 td_tensor *out, td_chain *ready) {
  td_instance *inst = it->instance;
  int32_t limit = e->program->frame[inst->frame].parallel;
  if (it->later) {
    hand_on(e, it->later, node, out, false, ready);
    return;
  }
  td_kept k = {.node = node, .value = *out};
  if (!td_vec_push(&inst->deferred, k)) {
    td_tensor_release(out);
    fail_later(e, td_oom());
    return;
  }
  out->buffer = NULL;
  inst->goes_on = true;
  if (inst->running < limit || TD_PLANT(10)) iteration_add(inst, ready);
}

static void leave(td_execution *e, td_iteration *it, int32_t node,
                  td_tensor *out, bool dead, td_chain *ready) {
  td_instance *inst = it->instance;
  if (!dead)
    hand_on(e, inst->parent, node, out, false, ready);
  else if (it == inst->newest && !td_vec_push(&inst->exits, node))
    fail_later(e, td_oom());
}

void td_executor_frames_propagate(td_execution *e, td_iteration *it,
                                  int32_t node, td_tensor *out, bool dead,
                                  td_chain *ready) {
  const td_xnode *n = &e->program->node[node];
  td_instance *entered = NULL;
  lock(e);
  switch (n->kind) {
  case TD_OP_ENTER:
    entered = enter(e, it, n, node, out, dead, ready);
    break;
  case TD_OP_EXIT:
    leave(e, it, node, out, dead, ready);
    break;
  case TD_OP_NEXT:
    if (!dead)
      next(e, it, node, out, ready);
    else if (n->tells)
      next_dead(e, it, node, ready);
    break;
  default:
    hand_on(e, it, node, out, dead, ready);
  }
  it->busy--;
  /* While an inner instance lives, `it` does; when it ends, so may `it`. */
  settle(entered ? entered : it->instance, ready);
  td_status *fault = e->fault;
  e->fault = NULL;
  unlock(e);
  if (fault) td_execution_fail(e, fault, NULL);
}
