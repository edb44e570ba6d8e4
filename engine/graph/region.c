/* region.c - one region: its memory, who holds it, where a thread builds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/region.h"

#include <string.h>

#include "engine/graph/graph_impl.h"

static _Thread_local td_region *current;

/* ---- life ---------------------------------------------------------------- */

bool td_region_is_root(const td_region *r) {
  return r->graph && r == &r->graph->root;
}

td_status *td_region_new(td_graph *g, td_region **out) {
  td_region *r = td_calloc(1, sizeof *r);
  *out = r;
  if (!r) return td_oom();
  r->refs = 1;
  r->graph = g;
  r->device = r->origin = "";
  td_arena_init(&r->arena);
  return NULL;
}

td_region *td_region_retain(td_region *r) {
  if (r && !td_region_is_root(r))
    __atomic_fetch_add(&r->refs, 1, __ATOMIC_RELAXED);
  return r;
}

void td_region_release(td_region *r) {
  if (!r || td_region_is_root(r)) return;
  if (__atomic_fetch_sub(&r->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  td_arena_deinit(&r->arena);
  td_free(r);
}

void td_region_enter(td_region *r) {
  td_region *before = current;
  current = td_region_retain(r);
  td_region_release(before);
}

td_region *td_region_current(void) {
  return current;
}

td_region *td_region_of(td_graph *g) {
  return current && current->graph == g ? current : &g->root;
}

void td_region_add(td_region *r, int32_t *count) {
  if ((*count)++ == 0) td_region_retain(r);
}

void td_region_drop(td_region *r, int32_t *count) {
  if (--*count == 0) td_region_release(r);
}

const char *td_region_keep(td_region *r, const char **last, const char *s) {
  if (!s || !s[0]) return "";
  if (strcmp(*last, s) == 0) return *last;
  const char *kept = td_arena_str(&r->arena, s);
  if (kept) *last = kept;
  return kept;
}

bool td_region_retired(const td_region *r) {
  return r->retired;
}

td_region_stats td_region_read_stats(td_region *r) {
  td_region_stats s = {.nodes = r->nodes,
                       .functions = r->functions,
                       .bytes = td_arena_bytes(&r->arena)};
  td_graph *g = r->nodes || r->functions ? r->graph : NULL;
  for (size_t i = 0; g && i < g->nodes.len; i++) {
    const td_node *n = g->nodes.at[i];
    if (n->region != r) continue;
    for (int k = 0; k < n->op->n_attr; k++)
      if (n->attr[k].kind == TD_ATTR_TENSOR && !n->attr[k].is_list)
        s.bytes += td_tensor_bytes(n->attr[k].tensor);
  }
  for (size_t i = 0; g && i < g->functions.list.len; i++)
    if (g->functions.list.at[i].region == r)
      s.bytes += g->functions.list.at[i].definition->bytes.len;
  return s;
}

td_status *td_region_gone_error(const td_node *n) {
  return td_error(TD_FAILED_PRECONDITION,
                  "node \"%s\" was replaced when %s: use the new one, or run "
                  "the cell that kept this one again",
                  n->name,
                  n->region->by[0] ? n->region->by : "its cell ran again");
}
