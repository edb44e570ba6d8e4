/* program_why.c - what a step that does not finish is waiting for.
 *
 * Reads the state words of running iterations. A node of two inputs whose word
 * says that one is still to come waits for it; at zero it has run. In a loop, a
 * word as at the beginning says that the iteration has not come so far. The
 * step goes on meanwhile: the list is a picture, not a proof.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_start.h"
#include "engine/run/pending.h"

enum { MOST_LINES = 50 };

/* Has input k of node n not arrived? A data slot that is filled has. One may be
 * filled at this moment, by a plain write: a word is looked at, and nothing is
 * followed. */
__attribute__((noinline, no_sanitize("thread"))) static bool
missing(const td_iteration *it, const td_xnode *n, int k) {
  return it->slot[n->in + k].buffer == NULL;
}

static void explain_node(const td_iteration *it, const td_xnode *n,
                         td_str *out) {
  const td_node *node = n->kernel.node;
  td_str_addf(out, "%s (%s)", node->name, node->op->type);
  if (it->instance) td_str_addf(out, " iteration %lld", (long long)it->number);
  td_str_add(out, " waits for");
  int named = 0;
  for (int k = 0; k < node->n_in && named < 4; k++)
    if (missing(it, n, k) && node->in[k].node) {
      td_str_addf(out, " %s:%d", node->in[k].node->name, node->in[k].port);
      named++;
    }
  for (int k = 0; k < node->n_control && !named; k++)
    td_str_addf(out, " ^%s", node->control[k]->name);
  if (node->origin[0]) td_str_addf(out, "  [%s]", node->origin);
  td_str_addc(out, '\n');
}

static void explain_iteration(const td_iteration *it, td_str *out, int *lines) {
  const td_program *p = it->execution->program;
  const td_xframe *f = &p->frame[it->frame];
  for (int32_t i = 0; i < f->nodes && *lines < MOST_LINES; i++) {
    uint64_t now = __atomic_load_n(&it->state[i], __ATOMIC_RELAXED);
    bool begun = now != f->initial[i] || it->instance == NULL;
    if (begun && (now & TD_STATE_COUNT) != 0 && !(now & TD_STATE_FIRED)) {
      explain_node(it, &p->node[f->members[i]], out);
      ++*lines;
    }
  }
}

static void explain_kernel(td_kernel_ctx *c, td_str *out) {
  const td_node *n = td_ctx_node(c);
  td_str what;
  td_str_init(&what);
  td_kernel_why(c, &what);
  td_str_addf(out, "%s (%s) has started%s%s\n", n->name, n->op->type,
              what.len ? " and waits for " : "", td_str_c(&what));
  td_str_deinit(&what);
}

static void explain_pending(const td_iteration *it, td_str *out, int *lines) {
  const td_xframe *f = &it->execution->program->frame[it->frame];
  for (int32_t i = 0; i < f->pendings && *lines < MOST_LINES; i++) {
    td_pending *k = &it->pending[i];
    if (!td_pending_look(k)) continue;
    explain_kernel(&k->ctx, out);
    td_pending_looked(k);
    ++*lines;
  }
}

/* Calls explain(it, out, lines) for each iteration under way. Lock held. */
static void each(td_execution *e, td_str *out, int *lines,
                 void (*explain)(const td_iteration *it, td_str *out,
                                 int *lines)) {
  explain(e->root, out, lines);
  for (td_instance *inst = e->instances; inst; inst = inst->next)
    for (td_iteration *it = inst->oldest; it; it = it->later)
      explain(it, out, lines);
}

/* One thread has the execution to itself and nothing of it waits: what that
 * thread writes without a lock is not looked at. */
static void explain_alone(const td_execution *e, td_str *out) {
  td_str_addf(out, "%s is computing\n", e->program->device->name);
}

static void explain_execution(td_execution *e, td_str *out) {
  int lines = 0;
  if (!__atomic_load_n(&e->shared, __ATOMIC_RELAXED)) {
    explain_alone(e, out);
    return;
  }
  pthread_spin_lock(&e->frames_lock);
  each(e, out, &lines, explain_pending);
  each(e, out, &lines, explain_iteration);
  pthread_spin_unlock(&e->frames_lock);
  if (lines >= MOST_LINES) td_str_add(out, "...\n");
}

void td_program_why(td_program *p, td_str *out) {
  pthread_mutex_lock(&p->lock);
  for (td_execution *e = p->running; e; e = e->next) explain_execution(e, out);
  pthread_mutex_unlock(&p->lock);
}
