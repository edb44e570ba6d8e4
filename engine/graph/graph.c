/* graph.c - graphs: memory, names, references, seeds, flows.
 *
 * Everything a node has lies in the arena of its region and goes with that;
 * only tensors in attributes are counted and let go one by one. Functions that
 * add take the lock themselves. Functions that read do not: the one thread that
 * builds needs none, every other reader holds it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph.h"

#include <string.h>

#include "engine/base/nearest.h"
#include "engine/graph/graph_impl.h"

/* ---- life ---------------------------------------------------------------- */

static void leave_regions(td_graph *g) {
  for (uint32_t i = 0; i < g->names.len; i++) {
    td_region *r = g->names.at[i].owner;
    if (r) td_region_drop(r, &r->names);
  }
  for (size_t i = 0; i < g->nodes.len; i++)
    td_region_drop(g->nodes.at[i]->region, &g->nodes.at[i]->region->nodes);
}

static void graph_free(td_graph *g) {
  for (size_t i = 0; i < g->nodes.len; i++) td_node_drop_attrs(g->nodes.at[i]);
  td_function_library_clear(&g->functions);
  leave_regions(g);
  for (size_t i = 0; i < g->flows.len; i++) td_free(g->flows.at[i]);
  td_vec_free(&g->nodes);
  td_vec_free(&g->flows);
  td_names_deinit(&g->names);
  td_str_deinit(&g->trial);
  td_arena_deinit(&g->root.arena);
  pthread_mutex_destroy(&g->mutex);
  td_free(g);
}

td_status *td_graph_new(td_graph **out) {
  int32_t root;
  *out = NULL;
  td_graph *g = td_calloc(1, sizeof *g);
  if (!g) return td_oom();
  g->refs = 1;
  g->root.graph = g;
  g->root.device = g->root.origin = "";
  td_arena_init(&g->root.arena);
  td_str_init(&g->trial);
  pthread_mutex_init(&g->mutex, NULL);
  td_status *s = td_graph_flow(g, -1, 'r', "", &root);
  if (td_ok(s))
    *out = g;
  else
    graph_free(g);
  return s;
}

td_graph *td_graph_retain(td_graph *g) {
  if (g) __atomic_fetch_add(&g->refs, 1, __ATOMIC_RELAXED);
  return g;
}

void td_graph_release(td_graph *g) {
  if (g && __atomic_fetch_sub(&g->refs, 1, __ATOMIC_ACQ_REL) == 1)
    graph_free(g);
}

void td_graph_lock(td_graph *g) {
  pthread_mutex_lock(&g->mutex);
}
void td_graph_unlock(td_graph *g) {
  pthread_mutex_unlock(&g->mutex);
}

uint64_t td_graph_version(const td_graph *g) {
  return __atomic_load_n(&g->version, __ATOMIC_ACQUIRE);
}
uint64_t td_graph_removals(const td_graph *g) {
  return __atomic_load_n(&g->removals, __ATOMIC_ACQUIRE);
}
uint64_t td_graph_next_serial(const td_graph *g) {
  return g->serials + 1;
}
void td_graph_touch(td_graph *g) {
  __atomic_store_n(&g->version, g->version + 1, __ATOMIC_RELEASE);
}

void td_graph_finalize(td_graph *g) {
  td_graph_lock(g);
  __atomic_store_n(&g->finalized, true, __ATOMIC_RELEASE);
  td_graph_unlock(g);
}

void td_graph_set_seed(td_graph *g, int64_t seed) {
  td_graph_lock(g);
  g->seed = seed;
  g->has_seed = true;
  td_graph_touch(g);
  td_graph_unlock(g);
}
bool td_graph_seed(const td_graph *g, int64_t *seed) {
  if (g->has_seed) *seed = g->seed;
  return g->has_seed;
}

/* ---- flows --------------------------------------------------------------- */

static td_flow *new_flow(int32_t parent, char kind, const char *name) {
  size_t len = strlen(name) + 1;
  td_flow *f = td_malloc(sizeof *f + len);
  if (!f) return NULL;
  char *kept = memcpy(f + 1, name, len);
  *f = (td_flow){.parent = parent, .kind = kind, .name = kept};
  return f;
}

td_status *td_graph_flow(td_graph *g, int32_t parent, char kind,
                         const char *name, int32_t *out) {
  td_status *s = NULL;
  td_graph_lock(g);
  bool is_root = g->flows.len == 0;
  if (!is_root && (parent < 0 || (size_t)parent >= g->flows.len))
    s = td_error(TD_INVALID_ARGUMENT, "no flow %d to put \"%s\" into", parent,
                 name);
  td_flow *f = td_ok(s) ? new_flow(parent, kind, name) : NULL;
  size_t at = 1; /* the first that a region left behind */
  while (at < g->flows.len && g->flows.at[at]->kind) at++;
  if (f && at < g->flows.len) {
    td_free(g->flows.at[at]);
    g->flows.at[at] = f;
  } else if (f && td_vec_push(&g->flows, f)) {
    at = g->flows.len - 1;
  } else if (td_ok(s)) {
    td_free(f);
    s = td_oom();
  }
  td_graph_unlock(g);
  if (td_ok(s)) *out = (int32_t)at;
  return s;
}

const td_flow *td_graph_flow_at(const td_graph *g, int32_t flow) {
  return flow >= 0 && (size_t)flow < g->flows.len ? g->flows.at[flow] : NULL;
}

/* ---- nodes and names ----------------------------------------------------- */

int32_t td_graph_size(const td_graph *g) {
  return (int32_t)g->nodes.len;
}

td_node *td_graph_node(const td_graph *g, int32_t id) {
  return id >= 0 && (size_t)id < g->nodes.len ? g->nodes.at[id] : NULL;
}

td_node *td_graph_find(const td_graph *g, const char *name) {
  td_name *n = td_names_find(&g->names, name, strlen(name));
  return n ? n->node : NULL;
}

td_status *td_graph_unique(td_graph *g, const char *wanted, const char **out) {
  TD_TRY(td_names_check(wanted, false));
  td_graph_lock(g);
  const char *kept = NULL;
  const char *text =
      td_names_free_one(&g->names, wanted, strlen(wanted), &g->trial);
  td_region *r = td_region_of(g);
  if (text) kept = td_arena_str(&r->arena, text);
  bool good = kept && td_names_reserve(&g->names, 1);
  if (good) {
    td_names_reserved(&g->names, kept, strlen(kept), r);
    td_region_add(r, &r->names);
  }
  td_graph_unlock(g);
  if (!good) return td_oom();
  *out = kept;
  return NULL;
}

td_status *td_graph_reserve(td_graph *g, size_t more) {
  if (more > INT32_MAX || g->nodes.len + more > INT32_MAX)
    return td_error(TD_RESOURCE_EXHAUSTED, "a graph of %zu nodes", more);
  return td_vec_reserve(&g->nodes, more) && td_names_reserve(&g->names, more)
             ? NULL
             : td_oom();
}

void td_graph_adopt(td_graph *g, td_node *n, td_name *name) {
  n->graph = g;
  td_region_add(n->region, &n->region->nodes);
  if (!n->serial && !g->scratch) n->serial = ++g->serials;
  n->id = (int32_t)g->nodes.len;
  g->nodes.at[g->nodes.len++] = n;
  if (name)
    name->node = n;
  else
    td_names_add(&g->names, n->name, strlen(n->name), n);
  td_graph_touch(g);
}

/* ---- references ---------------------------------------------------------- */

static td_status *no_node(const td_graph *g, const char *name) {
  td_hint hint;
  td_nearest near = td_nearest_to(name);
  for (size_t i = 0; i < g->nodes.len; i++)
    td_nearest_try(&near, g->nodes.at[i]->name);
  return td_error(TD_NOT_FOUND, "no node \"%.200s\" in the graph%s", name,
                  td_nearest_hint(&near, &hint));
}

static td_status *find_edge(const td_graph *g, char *name, const char *ref,
                            td_edge *out) {
  int32_t port = ref[0] == '^' ? -1 : 0;
  char *colon = port < 0 ? NULL : strrchr(name, ':');
  if (colon) {
    *colon = '\0';
    port = td_names_port(colon + 1);
    if (port < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "\"%.200s\" must be a name, name:port or ^name", ref);
  }
  td_node *n = td_graph_find(g, name);
  if (!n) return no_node(g, name);
  if (port >= n->n_out)
    return td_error(TD_NOT_FOUND,
                    "no output %d of node \"%s\": %s gives %d output%s", port,
                    n->name, n->op->type, n->n_out, n->n_out == 1 ? "" : "s");
  *out = (td_edge){n, port};
  return NULL;
}

td_status *td_graph_edge(const td_graph *g, const char *ref, td_edge *out) {
  *out = (td_edge){NULL, 0};
  char *name = td_strdup(ref[0] == '^' ? ref + 1 : ref);
  if (!name) return td_oom();
  td_status *s = find_edge(g, name, ref, out);
  td_free(name);
  return s;
}
