/* why.c - what a step that does not finish is waiting for.
 *
 * Reads the state words of running iterations: a node whose count is neither
 * full nor zero waits for somebody. Values may move while we look; the list is
 * a picture, not a proof.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/program_impl.h"

enum { MOST_LINES = 50 };

/* Has input k of node n arrived? A data slot that is filled has. */
static bool missing(const td_iter *it, const td_xnode *n, int k) {
  return it->slot[n->in + k].buffer == NULL;
}

static void explain_node(const td_iter *it, const td_xnode *n, td_str *out) {
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

static void explain_iter(const td_iter *it, td_str *out, int *lines) {
  const td_program *p = it->run->program;
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

static void explain_run(td_run *run, td_str *out) {
  int lines = 0;
  pthread_mutex_lock(&run->flights_lock);
  for (td_flight *f = run->flights; f && lines < MOST_LINES; f = f->next) {
    const td_node *n = f->ctx.kernel->node;
    td_str_addf(out, "%s (%s) has started and waits", n->name, n->op->type);
    const char *what = td_node_string(n, "tensor_name");
    if (what[0]) td_str_addf(out, " for %s", what);
    td_str_addc(out, '\n');
    lines++;
  }
  pthread_mutex_unlock(&run->flights_lock);
  pthread_spin_lock(&run->frames_lock);
  explain_iter(run->root, out, &lines);
  td_instances_visit(run, out, &lines, explain_iter);
  pthread_spin_unlock(&run->frames_lock);
  if (lines >= MOST_LINES) td_str_add(out, "...\n");
}

void td_program_why(td_program *p, td_str *out) {
  pthread_mutex_lock(&p->lock);
  for (td_run *run = p->running; run; run = run->next) explain_run(run, out);
  pthread_mutex_unlock(&p->lock);
}
