/* order_updates.c - the reads of a variable come before its update.
 *
 * A graph often leaves open whether a variable is read before or after it is
 * updated in the same step. This pass adds control edges so that the update
 * comes last: it then shares the variable's buffer with nobody and writes in
 * place, and the readers see the value from before the step.
 *
 *   W -> ReadVariableOp -> MatMul -> loss
 *   W, gradient -> ResourceApplyGradientDescent, with a new input ^MatMul
 *
 * A read shares the buffer and copies nothing, so the update waits for the
 * holders of the value, here the MatMul, and not only for the read. A holder on
 * another device has a copy: there the read alone is waited for.
 *
 * No edge ever closes a cycle: nodes are ranked once, inputs first and updates
 * as late as possible, and edges are added only from lower to higher ranks.
 * Updates inside loops are left alone, and no update waits for a node that may
 * be dead, which would make the update dead as well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/pass_impl.h"
#include "engine/plan/uses_impl.h"

/* More edges than FEW go through a NoOp. A node from which a path leads to the
 * update needs no edge: paths are looked for to BATCH updates at a time, a bit
 * each. Beyond WORK steps in all that is given up, and an edge may be added
 * where a path was there already. */
enum { FEW = 8, UNRANKED = -1, BATCH = 64, WORK = 1 << 25 };

/* A node that reads or updates a resource. */
typedef struct access {
  int32_t origin, port; /* where the handle comes from */
  int32_t node;
  bool update;
} access;

/* An update and the holders it must follow, as a range of `holders`. */
typedef struct late {
  int32_t node;
  size_t begin, end;
} late;

typedef struct ordering {
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
  TD_VEC(int32_t) holders;
  TD_VEC(late) updates;
  TD_VEC(td_node *) wanted; /* the holders that get an edge to one update */
} ordering;

/* ---- ranks --------------------------------------------------------------- */

static bool is_back_edge(const ordering *t, int32_t from, const td_use *u) {
  return u->in >= 0 && td_graph_node(t->g, from)->op->kind == TD_OP_NEXT &&
         td_graph_node(t->g, u->node)->op->kind == TD_OP_MERGE;
}

static int queue_of(const ordering *t, int32_t id) {
  return (td_graph_node(t->g, id)->op->flags & TD_UPDATES) != 0;
}

/* Ranks all nodes, inputs first. `ready` and `updates` are queues with room for
 * all nodes: an update gets its rank only when no other node is ready. */
static void rank_all(ordering *t, int32_t *pending, int32_t *ready,
                     int32_t *updates) {
  int32_t heads[2] = {0, 0}, tails[2] = {0, 0};
  int32_t *queue[2] = {ready, updates};
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

static td_status *find_ranks(ordering *t) {
  size_t n = (size_t)t->n + 1;
  t->rank = td_calloc(n, sizeof *t->rank);
  t->order = td_calloc(n, sizeof *t->order);
  t->stamp = td_calloc(n, sizeof *t->stamp);
  t->stack = td_calloc(n, sizeof *t->stack);
  t->leads = td_calloc(n, sizeof *t->leads);
  int32_t *pending = td_calloc(n, sizeof *pending);
  int32_t *updates = td_calloc(n, sizeof *updates);
  bool good = t->rank && t->order && t->stamp && t->stack && t->leads &&
              pending && updates;
  if (good) rank_all(t, pending, t->stack, updates);
  td_free(pending);
  td_free(updates);
  return good ? NULL : td_oom();
}

/* ---- who reads, who updates ---------------------------------------------- */

static td_edge origin_of(td_edge e) {
  while (e.node->op->kind == TD_OP_IDENTITY && e.port < e.node->n_in)
    e = e.node->in[e.port];
  return e;
}

static td_status *note_accesses(ordering *t, const td_node *n) {
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

static td_status *find_accesses(ordering *t) {
  for (int32_t id = 0; id < t->n; id++) {
    const td_node *n = td_graph_node(t->g, id);
    if (n->op->flags & (TD_READS | TD_UPDATES)) TD_TRY(note_accesses(t, n));
  }
  if (t->accesses.len)
    qsort(t->accesses.at, t->accesses.len, sizeof *t->accesses.at, compare);
  return NULL;
}

/* ---- who holds what was read --------------------------------------------- */

/* Does the node's output perhaps lie in the memory of its input, as that of
 * Reshape does? Of cheap ops it does, or it is tiny; then an edge too many is
 * the price. */
static bool passes_on(const td_node *n) {
  return n->op->kind == TD_OP_IDENTITY ||
         (n->op->kind == TD_OP_PLAIN && (n->op->flags & TD_CHEAP));
}

/* Can the update wait for `n`, a consumer of the value? Not for an Enter, as
 * what follows is inside the loop; nor for a _Retval, which holds the value
 * until the step is over, whatever waits for it. */
static bool may_hold(const td_node *n, int32_t device) {
  td_op_kind kind = n->op->kind;
  return n->frame == 0 && !n->may_die && n->placed == device &&
         kind != TD_OP_RETVAL && kind != TD_OP_SWITCH && kind != TD_OP_ENTER;
}

/* Adds those who hold the value that `read` shares: its consumers, and where a
 * consumer only passes it on, the consumers of that one. A node without such
 * consumers is itself the holder: a Gather copies rows, and is done when it is
 * done. */
static td_status *add_holders(ordering *t, const td_node *read) {
  int32_t len = 0, walk = ++t->walks;
  t->stack[len++] = read->id;
  t->stamp[read->id] = walk;
  while (len > 0) {
    int32_t id = t->stack[--len];
    const td_node *n = td_graph_node(t->g, id);
    bool ends = n == read ? (n->op->flags & TD_SPARSE) != 0 : !passes_on(n);
    bool others = false; /* some consumer holds what `n` gives */
    for (int32_t k = t->uses.begin[id]; !ends && k < t->uses.begin[id + 1];
         k++) {
      const td_use *u = &t->uses.at[k];
      const td_node *user = td_graph_node(t->g, u->node);
      if (u->in < 0 || !may_hold(user, read->placed)) continue;
      others = true;
      if (t->stamp[u->node] == walk) continue;
      t->stamp[u->node] = walk;
      t->stack[len++] = u->node;
    }
    if (!others && !td_vec_push(&t->holders, id)) return td_oom();
  }
  return NULL;
}

/* Adds the updates among the accesses from `begin` to `end`, all of one
 * variable, and the holders that they must follow. */
static td_status *add_updates(ordering *t, size_t begin, size_t end) {
  bool updated = false;
  late u = {.begin = t->holders.len};
  for (size_t i = begin; i < end; i++) updated |= t->accesses.at[i].update;
  if (!updated) return NULL;
  for (size_t i = begin; i < end; i++) {
    const access *a = &t->accesses.at[i];
    if (!a->update) TD_TRY(add_holders(t, td_graph_node(t->g, a->node)));
  }
  u.end = t->holders.len;
  for (size_t i = begin; i < end && u.begin < u.end; i++) {
    u.node = t->accesses.at[i].node;
    if (t->accesses.at[i].update && !td_vec_push(&t->updates, u))
      return td_oom();
  }
  return NULL;
}

static td_status *find_updates(ordering *t) {
  for (size_t begin = 0, end; begin < t->accesses.len; begin = end) {
    const access *a = &t->accesses.at[begin];
    for (end = begin + 1; end < t->accesses.len; end++)
      if (t->accesses.at[end].origin != a->origin ||
          t->accesses.at[end].port != a->port)
        break;
    TD_TRY(add_updates(t, begin, end));
  }
  return NULL;
}

/* ---- edges --------------------------------------------------------------- */

/* Fills `leads` for the updates from `begin` to `end`. */
static void find_paths(ordering *t, size_t begin, size_t end) {
  memset(t->leads, 0, (size_t)t->n * sizeof *t->leads);
  for (size_t i = begin; i < end; i++)
    t->leads[t->updates.at[i].node] |= (uint64_t)1 << (i - begin);
  for (int32_t k = t->n_ranked; k-- > 0;) {
    const td_node *n = td_graph_node(t->g, t->order[k]);
    uint64_t to = t->leads[n->id];
    for (int i = 0; to && i < n->n_in + n->n_control; i++) {
      const td_node *from =
          i < n->n_in ? n->in[i].node : n->control[i - n->n_in];
      bool back = from->op->kind == TD_OP_NEXT;
      if (!back && from->id < t->n) t->leads[from->id] |= to;
    }
  }
}

static td_status *add_hub(ordering *t, td_node *n) {
  char name[32];
  td_build b;
  td_node *hub;
  snprintf(name, sizeof name, "_before_update_%d", (int)n->id);
  td_build_init(&b, t->g, "NoOp", name);
  b.exact_name = true;
  for (size_t i = 0; i < t->wanted.len; i++)
    td_build_control(&b, t->wanted.at[i]);
  TD_TRY(td_build_node(&b, &hub));
  hub->placed = n->placed;
  return td_node_add_control(n, hub);
}

static td_status *add_edges(ordering *t, td_node *n) {
  for (size_t i = 0; i < t->wanted.len; i++)
    td_pass_log(t->p, "%s goes before the update %s", t->wanted.at[i]->name,
                n->name);
  if (t->wanted.len > FEW) return add_hub(t, n);
  for (size_t i = 0; i < t->wanted.len; i++)
    TD_TRY(td_node_add_control(n, t->wanted.at[i]));
  return NULL;
}

static td_status *order_update(ordering *t, const late *u, uint64_t bit) {
  int32_t rank = t->rank[u->node];
  t->wanted.len = 0;
  for (size_t i = u->begin; i < u->end; i++) {
    int32_t holder = t->holders.at[i];
    if (t->rank[holder] == UNRANKED || t->rank[holder] >= rank ||
        (t->leads[holder] & bit))
      continue;
    if (!td_vec_push(&t->wanted, td_graph_node(t->g, holder))) return td_oom();
  }
  return add_edges(t, td_graph_node(t->g, u->node));
}

static td_status *order_all(ordering *t) {
  TD_TRY(find_accesses(t));
  if (t->accesses.len == 0) return NULL;
  TD_TRY(td_uses_init(t->g, &t->uses));
  TD_TRY(find_ranks(t));
  TD_TRY(find_updates(t));
  int64_t walk = (int64_t)t->n + t->uses.begin[t->n], work = 0;
  for (size_t begin = 0; begin < t->updates.len; begin += BATCH) {
    size_t end =
        begin + BATCH < t->updates.len ? begin + BATCH : t->updates.len;
    bool look = (work += walk) <= WORK;
    if (look) find_paths(t, begin, end);
    for (size_t i = begin; i < end; i++)
      TD_TRY(order_update(t, &t->updates.at[i],
                          look ? (uint64_t)1 << (i - begin) : 0));
  }
  return NULL;
}

td_status *td_order_updates(td_pass *p) {
  ordering t = {.p = p, .g = p->graph, .n = td_graph_size(p->graph)};
  td_status *s = order_all(&t);
  td_uses_deinit(&t.uses);
  td_free(t.rank);
  td_free(t.order);
  td_free(t.stamp);
  td_free(t.stack);
  td_free(t.leads);
  td_vec_free(&t.accesses);
  td_vec_free(&t.holders);
  td_vec_free(&t.updates);
  td_vec_free(&t.wanted);
  return s;
}
