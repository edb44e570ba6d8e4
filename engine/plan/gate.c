/* gate.c - who reads a variable goes before who updates it.
 *
 * Where the step leaves the order open, a control edge settles it: an update
 * then finds the variable's buffer in nobody's hands and writes in place, and
 * the readers see the value from before the step. A read only shares the
 * buffer, so that it is not the read that must be over but whoever uses what it
 * gave; where that is on another device, the read alone is waited for.
 *
 * No edge ever closes a cycle: nodes are ranked once, inputs first and updates
 * as late as they can be, and edges are added only from lower to higher ranks.
 * Only the root is gated, and never behind a node that may be dead, which would
 * make the update dead as well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/pass_impl.h"

/* More edges than FEW go through a NoOp. Paths are looked for to BATCH updates
 * at a time, a bit each, as long as that takes no more than WORK steps in all:
 * beyond, an edge may be added where a path was there already. */
enum { FEW = 8, UNRANKED = -1, BATCH = 64, WORK = 1 << 25 };

/* A node that reads or updates a resource. */
typedef struct access {
  int32_t origin, port; /* where the handle comes from */
  int32_t node;
  bool update;
} access;

/* An update and the nodes it must follow, in `guards`. */
typedef struct job {
  int32_t update;
  size_t begin, end;
} job;

typedef struct gate {
  td_pass *p;
  td_graph *g;
  int32_t n; /* nodes before any was added */
  td_uses uses;
  int32_t *rank;  /* by node id */
  int32_t *order; /* node ids by rank */
  int32_t n_ranked;
  int32_t *stamp; /* by node id: the walk that met it last */
  int32_t walks;
  int32_t *stack;  /* room for a walk */
  uint64_t *leads; /* by node id: updates of the batch it leads to, as bits */
  TD_VEC(access) accesses;
  TD_VEC(int32_t) guards;
  TD_VEC(job) jobs;
  TD_VEC(td_node *) wanted; /* the guards of one update that get an edge */
} gate;

/* ---- ranks --------------------------------------------------------------- */

static bool is_back_edge(const gate *t, int32_t from, const td_use *u) {
  return u->in >= 0 && td_graph_node(t->g, from)->op->kind == TD_KIND_NEXT &&
         td_graph_node(t->g, u->node)->op->kind == TD_KIND_MERGE;
}

static int queue_of(const gate *t, int32_t id) {
  return (td_graph_node(t->g, id)->op->flags & TD_UPDATES) != 0;
}

/* `ready` and `late` are queues with room for all nodes: an update waits until
 * nothing else can go on. */
static void rank_all(gate *t, int32_t *pending, int32_t *ready, int32_t *late) {
  int32_t heads[2] = {0, 0}, tails[2] = {0, 0};
  int32_t *queue[2] = {ready, late};
  for (int32_t id = 0; id < t->n; id++)
    for (int32_t k = t->uses.begin[id]; k < t->uses.begin[id + 1]; k++)
      pending[t->uses.at[k].node] += !is_back_edge(t, id, &t->uses.at[k]);
  for (int32_t id = 0; id < t->n; id++) {
    int q = queue_of(t, id);
    t->rank[id] = UNRANKED;
    if (pending[id] == 0) queue[q][tails[q]++] = id;
  }
  while (heads[0] < tails[0] || heads[1] < tails[1]) {
    int from = heads[0] < tails[0] ? 0 : 1;
    int32_t id = queue[from][heads[from]++];
    t->order[t->n_ranked] = id;
    t->rank[id] = t->n_ranked++;
    for (int32_t k = t->uses.begin[id]; k < t->uses.begin[id + 1]; k++) {
      const td_use *u = &t->uses.at[k];
      if (is_back_edge(t, id, u) || --pending[u->node] > 0) continue;
      int q = queue_of(t, u->node);
      queue[q][tails[q]++] = u->node;
    }
  }
}

static td_status *find_ranks(gate *t) {
  size_t n = (size_t)t->n + 1;
  t->rank = td_alloc_zero(n, sizeof *t->rank);
  t->order = td_alloc_zero(n, sizeof *t->order);
  t->stamp = td_alloc_zero(n, sizeof *t->stamp);
  t->stack = td_alloc_zero(n, sizeof *t->stack);
  t->leads = td_alloc_zero(n, sizeof *t->leads);
  int32_t *pending = td_alloc_zero(n, sizeof *pending);
  int32_t *late = td_alloc_zero(n, sizeof *late);
  bool good = t->rank && t->order && t->stamp && t->stack && t->leads &&
              pending && late;
  if (good) rank_all(t, pending, t->stack, late);
  td_free(pending);
  td_free(late);
  return good ? NULL : td_oom();
}

/* ---- who reads, who updates ---------------------------------------------- */

static td_edge origin_of(td_edge e) {
  while (e.node->op->kind == TD_KIND_IDENTITY && e.port < e.node->n_in)
    e = e.node->in[e.port];
  return e;
}

static td_status *note_accesses(gate *t, const td_node *n) {
  bool update = n->op->flags & TD_UPDATES;
  if (n->frame || (n->may_die && !update)) return NULL;
  for (int i = 0; i < n->n_in; i++) {
    if (td_edge_dtype(n->in[i]) != TD_RESOURCE) continue;
    td_edge from = origin_of(n->in[i]);
    access a = {from.node->id, from.port, n->id, update};
    if (!td_vec_push(&t->accesses, a)) return td_oom();
  }
  return NULL;
}

static int compare(const void *a, const void *b) {
  const access *x = a, *y = b;
  if (x->origin != y->origin) return x->origin < y->origin ? -1 : 1;
  if (x->port != y->port) return x->port < y->port ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

static td_status *find_accesses(gate *t) {
  for (int32_t id = 0; id < t->n; id++) {
    const td_node *n = td_graph_node(t->g, id);
    if (n->op->flags & (TD_READS | TD_UPDATES)) TD_TRY(note_accesses(t, n));
  }
  if (t->accesses.len)
    qsort(t->accesses.at, t->accesses.len, sizeof *t->accesses.at, compare);
  return NULL;
}

/* ---- who holds what was read --------------------------------------------- */

/* May give its input on, in the same memory. Cheap ops do so or make something
 * tiny; then an edge too many is the price. */
static bool passes_on(const td_node *n) {
  return n->op->kind == TD_KIND_IDENTITY ||
         (n->op->kind == TD_KIND_PLAIN && (n->op->flags & TD_CHEAP));
}

/* What follows an Enter is inside the loop; a fetch holds its value until the
 * step is over, whatever waits for it. */
static bool may_guard(const td_node *n, int32_t device) {
  td_op_kind kind = n->op->kind;
  return n->frame == 0 && !n->may_die && n->placed == device &&
         kind != TD_KIND_RETVAL && kind != TD_KIND_SWITCH &&
         kind != TD_KIND_ENTER;
}

/* Adds `id` or, where others carry on what it gives, those. `t->stack` holds
 * what is still to be looked at. */
static td_status *add_guards(gate *t, const td_node *read) {
  int32_t len = 0, walk = ++t->walks;
  t->stack[len++] = read->id;
  t->stamp[read->id] = walk;
  while (len > 0) {
    int32_t id = t->stack[--len];
    const td_node *n = td_graph_node(t->g, id);
    bool ends = n == read ? (n->op->flags & TD_SPARSE) != 0 : !passes_on(n);
    bool others = false; /* all who hold it are known to be later */
    for (int32_t k = t->uses.begin[id]; !ends && k < t->uses.begin[id + 1];
         k++) {
      const td_use *u = &t->uses.at[k];
      const td_node *user = td_graph_node(t->g, u->node);
      if (u->in < 0 || !may_guard(user, read->placed)) continue;
      others = true;
      if (t->stamp[u->node] == walk) continue;
      t->stamp[u->node] = walk;
      t->stack[len++] = u->node;
    }
    if (!others && !td_vec_push(&t->guards, id)) return td_oom();
  }
  return NULL;
}

/* The accesses of one variable, from `begin` to `end`. */
static td_status *add_jobs(gate *t, size_t begin, size_t end) {
  bool updates = false;
  job j = {.begin = t->guards.len};
  for (size_t i = begin; i < end; i++) updates |= t->accesses.at[i].update;
  if (!updates) return NULL;
  for (size_t i = begin; i < end; i++) {
    const access *a = &t->accesses.at[i];
    if (!a->update) TD_TRY(add_guards(t, td_graph_node(t->g, a->node)));
  }
  j.end = t->guards.len;
  for (size_t i = begin; i < end && j.begin < j.end; i++) {
    j.update = t->accesses.at[i].node;
    if (t->accesses.at[i].update && !td_vec_push(&t->jobs, j)) return td_oom();
  }
  return NULL;
}

static td_status *find_jobs(gate *t) {
  for (size_t begin = 0, end; begin < t->accesses.len; begin = end) {
    const access *a = &t->accesses.at[begin];
    for (end = begin + 1; end < t->accesses.len; end++)
      if (t->accesses.at[end].origin != a->origin ||
          t->accesses.at[end].port != a->port)
        break;
    TD_TRY(add_jobs(t, begin, end));
  }
  return NULL;
}

/* ---- edges --------------------------------------------------------------- */

/* Fills `leads` for the jobs from `begin` to `end`. */
static void find_paths(gate *t, size_t begin, size_t end) {
  memset(t->leads, 0, (size_t)t->n * sizeof *t->leads);
  for (size_t i = begin; i < end; i++)
    t->leads[t->jobs.at[i].update] |= (uint64_t)1 << (i - begin);
  for (int32_t k = t->n_ranked; k-- > 0;) {
    const td_node *n = td_graph_node(t->g, t->order[k]);
    uint64_t to = t->leads[n->id];
    for (int i = 0; to && i < n->n_in + n->n_control; i++) {
      const td_node *from =
          i < n->n_in ? n->in[i].node : n->control[i - n->n_in];
      bool back = from->op->kind == TD_KIND_NEXT;
      if (!back && from->id < t->n) t->leads[from->id] |= to;
    }
  }
}

static td_status *add_hub(gate *t, td_node *update) {
  char name[32];
  td_build b;
  td_node *hub;
  snprintf(name, sizeof name, "_gate_%d", (int)update->id);
  td_build_init(&b, t->g, "NoOp", name);
  b.exact_name = true;
  for (size_t i = 0; i < t->wanted.len; i++)
    td_build_control(&b, t->wanted.at[i]);
  TD_TRY(td_build_node(&b, &hub));
  hub->placed = update->placed;
  return td_graph_add_control(update, hub);
}

static td_status *add_edges(gate *t, td_node *update) {
  for (size_t i = 0; i < t->wanted.len; i++)
    td_pass_log(t->p, "%s goes before the update %s", t->wanted.at[i]->name,
                update->name);
  if (t->wanted.len > FEW) return add_hub(t, update);
  for (size_t i = 0; i < t->wanted.len; i++)
    TD_TRY(td_graph_add_control(update, t->wanted.at[i]));
  return NULL;
}

static td_status *gate_update(gate *t, const job *j, uint64_t bit) {
  int32_t rank = t->rank[j->update];
  t->wanted.len = 0;
  for (size_t i = j->begin; i < j->end; i++) {
    int32_t guard = t->guards.at[i];
    if (t->rank[guard] == UNRANKED || t->rank[guard] >= rank ||
        (t->leads[guard] & bit))
      continue;
    if (!td_vec_push(&t->wanted, td_graph_node(t->g, guard))) return td_oom();
  }
  return add_edges(t, td_graph_node(t->g, j->update));
}

static td_status *gate_all(gate *t) {
  TD_TRY(find_accesses(t));
  if (t->accesses.len == 0) return NULL;
  TD_TRY(td_uses_init(t->g, &t->uses));
  TD_TRY(find_ranks(t));
  TD_TRY(find_jobs(t));
  int64_t walk = (int64_t)t->n + t->uses.begin[t->n], work = 0;
  for (size_t begin = 0; begin < t->jobs.len; begin += BATCH) {
    size_t end = begin + BATCH < t->jobs.len ? begin + BATCH : t->jobs.len;
    bool look = (work += walk) <= WORK;
    if (look) find_paths(t, begin, end);
    for (size_t i = begin; i < end; i++)
      TD_TRY(gate_update(t, &t->jobs.at[i],
                         look ? (uint64_t)1 << (i - begin) : 0));
  }
  return NULL;
}

td_status *td_gate(td_pass *p) {
  gate t = {.p = p, .g = p->graph, .n = td_graph_size(p->graph)};
  td_status *s = gate_all(&t);
  td_uses_deinit(&t.uses);
  td_free(t.rank);
  td_free(t.order);
  td_free(t.stamp);
  td_free(t.stack);
  td_free(t.leads);
  td_vec_free(&t.accesses);
  td_vec_free(&t.guards);
  td_vec_free(&t.jobs);
  td_vec_free(&t.wanted);
  return s;
}
