/* frames_check.c - what makes a loop a loop.
 *
 * The shape that every loop must have:
 *
 *   Enter -> Merge -> ... -> LoopCond
 *              |                |
 *              +--> Switch <----+
 *                    |0   |1
 *                  Exit   body -> NextIteration -> the Merge
 *
 * Checked before frames are known: a Merge has all its inputs, besides
 * NextIterations only Enters where there are any; a NextIteration goes to a
 * Merge and nowhere else. After: both are in one frame, which has a LoopCond.
 * That the Switch controls Exit and NextIteration is found by deadness.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/frames_impl.h"

#include <string.h>

/* ---- messages ------------------------------------------------------------ */

td_status *td_frames_error(const td_node *n, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  td_status *s = td_error_v(TD_INVALID_ARGUMENT, fmt, args);
  va_end(args);
  return td_node_blame(s, n);
}

void td_frames_name(const td_node *n, td_str *out) {
  td_str_addf(out, "'%s'", n->name);
  if (n->origin && *n->origin) td_str_addf(out, " (%s)", n->origin);
}

/* ---- the cycle ----------------------------------------------------------- */

/* Breadth first from `next` against the edges, so that the cycle shown is a
 * shortest one. */
typedef struct search {
  int32_t *after; /* by node id: the node it leads to, +1; 0: not seen */
  int32_t *queue;
  int32_t head, tail;
} search;

static void reach(search *q, const td_node *from, const td_node *to) {
  if (from->op->kind == TD_OP_NEXT || q->after[from->id]) return;
  q->after[from->id] = to->id + 1;
  q->queue[q->tail++] = from->id;
}

static void look(const td_frames_walk *w, search *q, const td_node *m) {
  while (q->head < q->tail && !q->after[m->id]) {
    td_node *n = td_graph_node(w->g, q->queue[q->head++]);
    for (int i = 0; i < n->n_in; i++)
      if (n->in[i].node) reach(q, n->in[i].node, n);
    for (int i = 0; i < n->n_control; i++) reach(q, n->control[i], n);
  }
}

static void print_cycle(const td_frames_walk *w, const search *q,
                        const td_node *m, const td_node *next, td_str *out) {
  enum { SHOWN = 24 };
  const td_node *n = m;
  td_frames_name(m, out);
  for (int i = 0; q->after[m->id] && n != next; i++) {
    n = td_graph_node(w->g, q->after[n->id] - 1);
    if (i == SHOWN) td_str_add(out, " -> ...");
    if (i >= SHOWN && n != next) continue;
    td_str_add(out, " -> ");
    td_frames_name(n, out);
  }
  if (n != next) { /* it does not depend on the Merge: only the edge is known */
    td_str_add(out, ", fed back by ");
    td_frames_name(next, out);
    return;
  }
  td_str_addf(out, " -> '%s'", m->name);
}

static td_status *cycle_error(const td_frames_walk *w, td_node *m,
                              td_node *next, const char *what) {
  td_str text = {0};
  search q = {.after = td_calloc((size_t)w->n, sizeof *q.after),
              .queue = td_calloc((size_t)w->n, sizeof *q.queue)};
  if (q.after && q.queue) {
    q.queue[q.tail++] = next->id;
    look(w, &q, m);
    print_cycle(w, &q, m, next, &text);
  }
  bool failed = !q.after || !q.queue || text.failed;
  td_status *s =
      failed ? td_oom()
             : td_frames_error(m, "%s; the cycle: %s", what, td_str_c(&text));
  td_free(q.after);
  td_free(q.queue);
  td_str_deinit(&text);
  return s;
}

/* ---- before frames are known --------------------------------------------- */

static td_status *check_merge(const td_frames_walk *w, td_node *m) {
  td_node *next = NULL;
  for (int i = 0; i < m->n_in; i++) {
    if (!m->in[i].node)
      return td_frames_error(
          m,
          "input %d of this Merge is missing: no NextIteration closes the "
          "loop",
          i);
    if (td_frames_back_edge(m, i)) next = m->in[i].node;
  }
  if (!next) return NULL;
  int enters = 0;
  for (int i = 0; i < m->n_in; i++) {
    td_node *from = m->in[i].node;
    bool enter = from->op->kind == TD_OP_ENTER;
    if (enter && td_node_bool(from, "is_constant"))
      return cycle_error(w, m, next,
                         "a Merge that begins a loop takes a constant "
                         "Enter, which would come again every iteration");
    enters += enter;
    if (!enter && from != next && from->op->kind != TD_OP_NEXT)
      return cycle_error(w, m, next,
                         "a Merge that begins a loop takes an input that "
                         "is neither Enter nor NextIteration");
  }
  if (!enters)
    return cycle_error(w, m, next,
                       "no Enter leads to this loop: it can never begin");
  return NULL;
}

static td_status *check_use(const td_node *n, const td_node *from,
                            bool control) {
  if (from->op->kind != TD_OP_NEXT || (n->op->kind == TD_OP_MERGE && !control))
    return NULL;
  td_str user = {0};
  td_frames_name(n, &user);
  td_status *s = td_frames_error(
      from, "a NextIteration may feed a Merge only, not %s %s%s", n->op->type,
      td_str_c(&user), control ? " by a control edge" : "");
  td_str_deinit(&user);
  return s;
}

td_status *td_frames_shape(const td_frames_walk *w) {
  for (int32_t id = 0; id < w->n; id++) {
    td_node *n = td_graph_node(w->g, id);
    if (n->op->kind == TD_OP_MERGE) TD_TRY(check_merge(w, n));
    for (int i = 0; i < n->n_in; i++)
      TD_TRY(check_use(n, n->in[i].node, false));
    for (int i = 0; i < n->n_control; i++)
      TD_TRY(check_use(n, n->control[i], true));
  }
  return NULL;
}

/* ---- once they are ------------------------------------------------------- */

static td_status *check_back_edge(const td_frames_walk *w, td_node *m,
                                  td_node *next) {
  const td_frame *f = &w->frames->at[w->frame[m->id]];
  if (w->frame[next->id] != w->frame[m->id])
    return cycle_error(w, m, next,
                       "a NextIteration leads to a Merge of another frame");
  if (!f->cond)
    return cycle_error(w, m, next, "a loop without LoopCond would never end");
  return NULL;
}

td_status *td_frames_loops(const td_frames_walk *w) {
  for (int32_t id = 0; id < w->n; id++) {
    td_node *n = td_graph_node(w->g, id);
    for (int i = 0; i < n->n_in; i++)
      if (td_frames_back_edge(n, i))
        TD_TRY(check_back_edge(w, n, n->in[i].node));
  }
  return NULL;
}
