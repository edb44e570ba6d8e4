/* frames_dead.c - which nodes a dead value can reach.
 *
 * What a node gives is live when all of a set of *atoms* hold. An atom is "this
 * edge, the predicate of a Switch, is true" (or false), or, where no better is
 * known, "this node is live". A node joins the sets of its inputs; a Switch's
 * outputs add their side of its predicate; a Merge is live when one input is:
 * of {a, p} and {a, not p} there remains {a}, so that the Merge of a cond is
 * live for certain. Sets are interned: most nodes have the set of their input,
 * and comparing numbers is comparing sets.
 *
 * Inside a loop atoms speak of one iteration. The loop's Merge has its Enter's
 * set: iterations after the first begin with what NextIterations give, and
 * when one of them may stay away although the loop goes on, its Merge is an
 * atom of its own and the walk is done again. Beyond an Exit the loop has
 * ended: the LoopCond's atom is dropped.
 *
 * In one device's part of a plan, a _Recv with the note "_may_die" is an atom
 * of its own, and may bring the LoopCond's side from another device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/frames_impl.h"

#include <string.h>

/* Node id, output port and, in the lowest bit, the side. */
typedef uint64_t atom;
enum { TRUE_SIDE = 1 };
static const atom OPAQUE = 0xffffffff;

/* Sorted. A set of more than MAX_ATOMS shrinks to one opaque atom and what
 * the checks need, at most two sides of LoopConds for each level of nesting.
 * Room for the union of two. */
enum { MAX_ATOMS = 4 * TD_FRAMES_DEPTH };
typedef struct set {
  atom at[2 * MAX_ATOMS + 1];
  int len;
} set;

/* MERGED: inputs of a Merge that are tried pair by pair. STRIPPED: Identities
 * looked through. */
enum { MERGED = 16, STRIPPED = 16, PASSES = 3 };

typedef struct dead {
  td_frames_walk *w;
  int32_t *live; /* by node id: number of its set, 0 the empty one */
  bool *lossy;   /* by node id: a loop's Merge that may miss an iteration */
  td_map sets;   /* the atoms; a set's number is its place in the map, and the
                    value that + 1 */
  bool failed;   /* no memory */
} dead;

/* ---- sets ---------------------------------------------------------------- */

static void load(const dead *d, int32_t number, set *out) {
  const td_map_entry *e = &d->sets.entries[number];
  if (e->len) memcpy(out->at, e->key, e->len);
  out->len = (int)(e->len / sizeof(atom));
}

static void insert(set *s, atom a) {
  int i = s->len;
  while (i > 0 && s->at[i - 1] > a) i--;
  if (i > 0 && s->at[i - 1] == a) return;
  memmove(&s->at[i + 1], &s->at[i], (size_t)(s->len - i) * sizeof(atom));
  s->at[i] = a;
  s->len++;
}

static bool has(const set *s, atom a) {
  for (int i = 0; i < s->len; i++)
    if (s->at[i] == a) return true;
  return false;
}

static const td_node *atom_node(const dead *d, atom a) {
  return td_graph_node(d->w->g, (int32_t)(a >> 32));
}

static atom opaque(const td_node *n) {
  return (atom)(uint32_t)n->id << 32 | OPAQUE;
}

/* What check_side looks for stays: LoopConds, and one _Recv. */
static void shrink(const dead *d, const td_node *n, set *s) {
  set kept = {.len = 0};
  bool recv = false;
  for (int i = 0; i < s->len; i++) {
    td_op_kind kind = atom_node(d, s->at[i])->op->kind;
    if (kind == TD_OP_COND || (kind == TD_OP_RECV && !recv))
      kept.at[kept.len++] = s->at[i];
    recv = recv || kind == TD_OP_RECV;
  }
  insert(&kept, opaque(n));
  *s = kept;
}

/* The number of a set that arose at `n`. */
static int32_t number_of(dead *d, const td_node *n, set *s) {
  if (s->len > MAX_ATOMS) shrink(d, n, s);
  size_t bytes = (size_t)s->len * sizeof(atom);
  intptr_t known = (intptr_t)td_map_getn(&d->sets, s->at, bytes);
  if (known) return (int32_t)(known - 1);
  int32_t number = (int32_t)d->sets.used;
  if (!td_map_putn(&d->sets, s->at, bytes, (void *)((intptr_t)number + 1))) {
    d->failed = true;
    return 0;
  }
  return number;
}

/* All atoms of both. */
static int32_t join(dead *d, const td_node *n, int32_t a, int32_t b) {
  set x, y;
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  load(d, a, &x);
  load(d, b, &y);
  for (int i = 0; i < y.len; i++) insert(&x, y.at[i]);
  return number_of(d, n, &x);
}

static int32_t join_atom(dead *d, const td_node *n, int32_t a, atom with) {
  set x;
  load(d, a, &x);
  insert(&x, with);
  return number_of(d, n, &x);
}

/* What two sets share, and how many atoms (the last of them) each has alone. */
typedef struct split {
  set common;
  int only_a, only_b;
  atom a, b;
} split;

static void split_sets(const dead *d, int32_t a, int32_t b, split *out) {
  set x, y;
  load(d, a, &x);
  load(d, b, &y);
  out->common.len = out->only_a = out->only_b = 0;
  for (int i = 0, j = 0; i < x.len || j < y.len;) {
    if (j == y.len || (i < x.len && x.at[i] < y.at[j])) {
      out->only_a++;
      out->a = x.at[i++];
    } else if (i == x.len || y.at[j] < x.at[i]) {
      out->only_b++;
      out->b = y.at[j++];
    } else {
      out->common.at[out->common.len++] = x.at[i++];
      j++;
    }
  }
}

/* ---- the Merge of a cond ------------------------------------------------- */

/* "a or b" when that is a set. */
static bool either(dead *d, const td_node *n, int32_t a, int32_t b,
                   int32_t *out) {
  split s;
  split_sets(d, a, b, &s);
  if (!s.only_a || !s.only_b) {
    *out = s.only_a ? b : a;
    return true;
  }
  if (s.only_a > 1 || s.only_b > 1 || (s.a ^ s.b) != TRUE_SIDE) return false;
  *out = number_of(d, n, &s.common);
  return true;
}

static bool merge_pair(dead *d, const td_node *n, int32_t *of, int *len) {
  for (int i = 0; i < *len; i++)
    for (int j = i + 1; j < *len; j++)
      if (either(d, n, of[i], of[j], &of[i])) {
        of[j] = of[--*len];
        return true;
      }
  return false;
}

/* The atom of a _Recv in a set, if there is one. */
static bool find_recv(const dead *d, int32_t number, atom *out) {
  set s;
  load(d, number, &s);
  for (int i = 0; i < s.len; i++) {
    *out = s.at[i];
    if (atom_node(d, *out)->op->kind == TD_OP_RECV) return true;
  }
  return false;
}

/* "one of them" for `len` sets; what they share and an atom of `n`'s own when
 * it is no set. A _Recv in one of them may bring what the others say: its atom
 * stays. */
static int32_t merge_sets(dead *d, const td_node *n, int32_t *of, int len) {
  split s;
  atom recv;
  if (len == 0) return 0;
  while (len > 1 && len <= MERGED && merge_pair(d, n, of, &len)) continue;
  int32_t all = of[0];
  for (int i = 1; i < len; i++) {
    split_sets(d, all, of[i], &s);
    all = number_of(d, n, &s.common);
  }
  if (len == 1) return all;
  for (int i = 0; i < len; i++)
    if (find_recv(d, of[i], &recv)) {
      all = join_atom(d, n, all, recv);
      break;
    }
  return join_atom(d, n, all, opaque(n));
}

/* ---- nodes --------------------------------------------------------------- */

static atom side_of(td_edge pred, bool side) {
  for (int i = 0; i < STRIPPED; i++) {
    const td_node *n = pred.node;
    if (n->op->kind != TD_OP_IDENTITY || pred.port >= n->n_in) break;
    pred = n->in[pred.port];
  }
  return (atom)(uint32_t)pred.node->id << 32 | (uint32_t)pred.port << 1 | side;
}

static int32_t live_edge(dead *d, const td_node *n, td_edge e) {
  int32_t live = d->live[e.node->id];
  if (e.node->op->kind != TD_OP_SWITCH) return live;
  return join_atom(d, n, live, side_of(e.node->in[1], e.port == 1));
}

static int32_t live_inputs(dead *d, const td_node *n) {
  int32_t live = 0;
  for (int i = 0; i < n->n_in; i++)
    live = join(d, n, live, live_edge(d, n, n->in[i]));
  for (int i = 0; i < n->n_control; i++)
    live = join(d, n, live, d->live[n->control[i]->id]);
  return live;
}

static td_status *live_merge(dead *d, const td_node *n, int32_t *out) {
  int32_t few[MERGED], *of = few;
  int len = 0;
  if (n->n_in > MERGED) of = td_calloc((size_t)n->n_in, sizeof *of);
  if (!of) return td_oom();
  for (int i = 0; i < n->n_in; i++)
    if (!td_frames_back_edge(n, i)) of[len++] = live_edge(d, n, n->in[i]);
  *out = merge_sets(d, n, of, len);
  if (d->lossy[n->id]) *out = join_atom(d, n, *out, opaque(n));
  if (of != few) td_free(of);
  return NULL;
}

/* The atom of a loop's LoopCond on that side is in the set of an Exit (false)
 * or NextIteration (true). */
static td_status *check_side(const dead *d, const td_node *n, int32_t live,
                             bool side) {
  const td_frame *f = &d->w->frames->at[d->w->frame[n->id]];
  set s;
  if (d->failed) return td_oom();
  load(d, live, &s);
  if (!f->cond || has(&s, side_of((td_edge){f->cond, 0}, side))) return NULL;
  for (int i = 0; i < s.len; i++)
    if (atom_node(d, s.at[i])->op->kind == TD_OP_RECV) return NULL;
  return td_frames_error(
      n, "%s must follow output %d of a Switch that LoopCond '%s' controls%s",
      n->op->type, (int)side, f->cond->name,
      side ? ", else the loop would never end"
           : ", else it would leave the loop in every iteration");
}

/* Seen from beyond the loop: atoms of the loop are gone, and what is live while
 * it goes on never leaves it. But a _Recv in it may
 * bring the side of an outer LoopCond: one stays. */
static int32_t live_exit(dead *d, const td_node *n, int32_t live) {
  int32_t frame = d->w->frame[n->id];
  const td_node *cond = d->w->frames->at[frame].cond;
  set s, kept = {.len = 0};
  bool unknown = false, recv = false;
  load(d, live, &s);
  for (int i = 0; i < s.len; i++) {
    const td_node *of = atom_node(d, s.at[i]);
    bool first = of->op->kind == TD_OP_RECV && !recv;
    recv = recv || first;
    if (d->w->frames->beyond[of->id] != frame || first)
      kept.at[kept.len++] = s.at[i];
    else if (of != cond || (s.at[i] & TRUE_SIDE))
      unknown = true;
  }
  if (unknown) insert(&kept, opaque(n));
  return number_of(d, n, &kept);
}

static td_status *visit(dead *d, const td_node *n) {
  int32_t live = 0;
  switch (n->op->kind) {
  case TD_OP_TRIGGER:
    break;
  case TD_OP_MERGE:
    TD_TRY(live_merge(d, n, &live));
    break;
  case TD_OP_NEXT:
    live = live_inputs(d, n);
    TD_TRY(check_side(d, n, live, true));
    break;
  case TD_OP_EXIT:
    live = live_inputs(d, n);
    TD_TRY(check_side(d, n, live, false));
    live = live_exit(d, n, live);
    break;
  case TD_OP_RECV:
    live = live_inputs(d, n);
    if (td_node_bool(n, "_may_die")) live = join_atom(d, n, live, opaque(n));
    break;
  default:
    live = live_inputs(d, n);
  }
  d->live[n->id] = live;
  return d->failed ? td_oom() : NULL;
}

/* ---- the walk ------------------------------------------------------------ */

/* Where the loop goes on, is `next` live whenever its Merge `m` was? */
static bool keeps_up(dead *d, const td_node *m, const td_node *next) {
  const td_node *cond = d->w->frames->at[d->w->frame[m->id]].cond;
  int32_t given = join(d, m, d->live[m->id], d->live[cond->id]);
  split s;
  given = join_atom(d, m, given, side_of((td_edge){(td_node *)cond, 0}, true));
  split_sets(d, d->live[next->id], given, &s);
  return s.only_a == 0;
}

static bool is_lossy(dead *d, const td_node *m) {
  for (int i = 0; i < m->n_in; i++)
    if (td_frames_back_edge(m, i) && !keeps_up(d, m, m->in[i].node))
      return true;
  return false;
}

/* Marks further Merges as lossy; false when there is none. */
static bool find_lossy(dead *d) {
  bool found = false;
  for (int32_t id = 0; id < d->w->n; id++)
    if (!d->lossy[id] && is_lossy(d, td_graph_node(d->w->g, id)))
      found = d->lossy[id] = true;
  return found;
}

/* May Merge `m` miss an iteration, or does it take more to keep it live than
 * for the loop to go on? */
static bool stops(const dead *d, const td_node *m) {
  split s;
  if (!td_frames_loop_merge(m)) return false;
  const td_node *cond = d->w->frames->at[d->w->frame[m->id]].cond;
  split_sets(d, d->live[m->id], d->live[cond->id], &s);
  return d->lossy[m->id] || s.only_a > 0;
}

static void mark_all(dead *d) {
  for (int32_t id = 0; id < d->w->n; id++)
    if (td_frames_loop_merge(td_graph_node(d->w->g, id))) d->lossy[id] = true;
}

static td_status *walk(dead *d) {
  set empty = {.len = 0};
  number_of(d, NULL, &empty);
  for (int pass = 0; pass < PASSES; pass++) {
    for (int32_t i = 0; i < d->w->n; i++)
      TD_TRY(visit(d, td_graph_node(d->w->g, d->w->order[i])));
    if (pass + 1 == PASSES || !find_lossy(d)) break;
    if (pass + 2 == PASSES) mark_all(d); /* the last pass needs no other */
  }
  for (int32_t id = 0; id < d->w->n; id++) {
    d->w->may_die[id] = d->live[id] != 0;
    d->w->may_stop[id] = stops(d, td_graph_node(d->w->g, id));
  }
  return d->failed ? td_oom() : NULL;
}

td_status *td_frames_deadness(td_frames_walk *w) {
  dead d = {.w = w};
  td_map_init(&d.sets);
  d.live = td_calloc((size_t)w->n, sizeof *d.live);
  d.lossy = td_calloc((size_t)w->n, sizeof *d.lossy);
  td_status *s = d.live && d.lossy ? walk(&d) : td_oom();
  td_free(d.live);
  td_free(d.lossy);
  td_map_deinit(&d.sets);
  return s;
}
