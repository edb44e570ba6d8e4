/* pass.c - what the passes share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/plant.h"
#include "engine/graph/build.h"
#include "engine/graph/graph_edit.h"
#include "engine/plan/pass_impl.h"

void td_pass_log(td_pass *p, const char *fmt, ...) {
  if (!p->log) return;
  va_list args;
  va_start(args, fmt);
  td_str_addv(p->log, fmt, args);
  va_end(args);
  td_str_addc(p->log, '\n');
}

td_status *td_pass_const(td_graph *g, const char *name, const td_tensor *value,
                         int32_t placed, td_node **out) {
  td_build b;
  td_build_init(&b, g, "Const", name);
  b.exact_name = true;
  td_build_attr(&b, "value", td_attr_tensor(value));
  td_build_attr(&b, "dtype", td_attr_type(value->dtype));
  TD_TRY(td_build_node(&b, out));
  (*out)->placed = placed;
  return NULL;
}

/* ---- what stays ---------------------------------------------------------- */

td_status *td_pass_roots(const td_pass *p, bool **out) {
  int32_t n = td_graph_size(p->graph);
  bool *root = td_calloc((size_t)n + 1, sizeof *root);
  if (!root) return td_oom();
  for (int32_t id = 0; id < n; id++) {
    const td_node *node = td_graph_node(p->graph, id);
    root[id] = node->op->kind == TD_OP_RETVAL ||
               ((node->op->flags & TD_STATEFUL) && !TD_PLANT(9));
  }
  for (int32_t i = 0; i < p->n_targets; i++) root[p->targets[i]->id] = true;
  *out = root;
  return NULL;
}

/* Marks in `keep` all that the nodes already marked need. */
static td_status *mark_needed(const td_graph *g, bool *keep) {
  int32_t n = td_graph_size(g), len = 0;
  int32_t *stack = td_calloc((size_t)n + 1, sizeof *stack);
  if (!stack) return td_oom();
  for (int32_t id = 0; id < n; id++)
    if (keep[id]) stack[len++] = id;
  while (len > 0) {
    const td_node *node = td_graph_node(g, stack[--len]);
    for (int i = 0; i < node->n_in + node->n_control; i++) {
      const td_node *from =
          i < node->n_in ? node->in[i].node : node->control[i - node->n_in];
      if (!from || keep[from->id]) continue;
      keep[from->id] = true;
      stack[len++] = from->id;
    }
  }
  td_free(stack);
  return NULL;
}

td_status *td_pass_sweep(td_pass *p) {
  bool *flags;
  TD_TRY(td_pass_roots(p, &flags));
  td_status *s = mark_needed(p->graph, flags);
  int32_t n = td_graph_size(p->graph);
  for (int32_t id = 0; td_ok(s) && id < n; id++) flags[id] = !flags[id];
  if (td_ok(s)) td_graph_remove(p->graph, flags);
  td_free(flags);
  return s;
}

/* ---- frames -------------------------------------------------------------- */

td_status *td_pass_keep_frames(td_pass *p, const td_frames *all) {
  size_t n = (size_t)all->count;
  td_free(p->frames);
  p->frames = td_calloc(n, sizeof *p->frames);
  if (!p->frames) return td_oom();
  memcpy(p->frames, all->at, n * sizeof *p->frames);
  p->n_frames = all->count;
  return NULL;
}
