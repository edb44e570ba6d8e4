/* prune.c - the part of the user's graph that fetches and targets need.
 *
 * A walk against the edges, from fetches and targets, that stops where an edge
 * is fed; what it met is then copied (prune_copy.c). A loop's nodes reach one
 * another through its back edges, so that a loop is copied whole or not at all.
 * The walk is breadth first: the path in an error is a shortest one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/graph/graph_edit.h"
#include "engine/graphdef/function.h"
#include "engine/graph/region.h"
#include "engine/plan/prune_impl.h"

static void pruning_deinit(td_pruning *t) {
  for (size_t k = 0; k < t->needed.len; k++)
    t->marks[t->needed.at[k]] = (td_prune_mark){0};
  for (int i = 0; t->marks && i < t->r->n_feeds; i++)
    if (t->r->feeds[i].node && t->r->feeds[i].node->graph == t->r->graph)
      t->marks[t->r->feeds[i].node->id] = (td_prune_mark){0};
  td_free(t->fed_too);
  td_free(t->used);
  td_vec_free(&t->needed);
}

static td_status *pruning_init(td_pruning *t, td_pass *p) {
  const td_plan_request *r = p->request;
  size_t feeds = (size_t)r->n_feeds;
  *t = (td_pruning){.p = p, .r = r, .n = td_graph_size(r->graph)};
  t->marks = td_placer_marks(r->placer);
  t->fed_too = td_calloc(feeds + 1, sizeof *t->fed_too);
  t->used = td_calloc(feeds + 1, sizeof *t->used);
  return t->marks && t->fed_too && t->used ? NULL : td_oom();
}

/* ---- what was asked for -------------------------------------------------- */

/* Nodes may have been removed since the request was made. */
static td_status *check_there(const td_plan_request *r) {
  for (int i = 0; i < r->n_feeds; i++)
    if (r->feeds[i].node->gone) return td_region_gone_error(r->feeds[i].node);
  for (int i = 0; i < r->n_fetches; i++)
    if (r->fetches[i].node->gone)
      return td_region_gone_error(r->fetches[i].node);
  for (int i = 0; i < r->n_targets; i++)
    if (r->targets[i]->gone) return td_region_gone_error(r->targets[i]);
  return NULL;
}

static td_status *check_edge(const td_pruning *t, td_edge e, const char *what,
                             int i) {
  if (!e.node || e.node->graph != t->r->graph)
    return td_error(TD_INVALID_ARGUMENT, "%s %d is of another graph", what, i);
  if (e.port < 0 || e.port >= e.node->n_out)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s %d is output %d of \"%s\", a %s with %d", what, i,
                    e.port, e.node->name, e.node->op->type, e.node->n_out);
  return NULL;
}

/* A value inside a loop has a value in each iteration, or in none: it can
 * neither be fed nor fetched. */
static td_status *inside_error(td_edge e, const char *loop, bool feed) {
  return td_node_blame(
      td_error(TD_INVALID_ARGUMENT,
               "\"%s:%d\" is inside the loop \"%s\" and cannot be %s: it has a "
               "value in each iteration; %s",
               e.node->name, e.port, loop, feed ? "fed" : "fetched",
               feed ? "feed what enters the loop"
                    : "fetch what leaves the loop"),
      e.node);
}

static td_status *check_outside(const td_pruning *t, td_edge e, bool feed) {
  const td_frames *all = t->whole;
  if (!all || all->beyond[e.node->id] == 0) return NULL;
  return inside_error(e, all->at[all->beyond[e.node->id]].name, feed);
}

/* Are the frames of the whole graph needed? Those of the copy are enough for
 * most, as what is needed brings its loops with it whole. But a fed value may
 * lie in a loop of which nothing else is needed; and the links of partial runs
 * are told what may be dead as they are made, before the copy has frames. */
static bool asks_for_whole(const td_plan_request *r) {
  if (r->partial) return true;
  for (int i = 0; i < r->n_feeds; i++)
    if (r->feeds[i].node->n_in || r->feeds[i].node->n_control) return true;
  return false;
}

static td_status *find_whole(td_pruning *t) {
  const td_plan_request *r = t->r;
  if (!asks_for_whole(r)) return NULL;
  TD_TRY(td_placer_frames(r->placer, r->graph, &t->whole));
  return t->whole ? td_pass_keep_frames(t->p, t->whole) : NULL;
}

static td_status *take_feeds(td_pruning *t) {
  for (int i = 0; i < t->r->n_feeds; i++) {
    td_edge e = t->r->feeds[i];
    TD_TRY(check_edge(t, e, "feed", i));
    TD_TRY(check_outside(t, e, true));
    if (td_prune_feed_of(t, e) >= 0)
      return td_error(TD_INVALID_ARGUMENT, "\"%s:%d\" is fed twice",
                      e.node->name, e.port);
    t->fed_too[i] = td_prune_mark_of(t, e.node)->fed;
    td_prune_mark_of(t, e.node)->fed = i + 1;
  }
  return NULL;
}

/* ---- a placeholder that is not fed --------------------------------------- */

static void add_node(td_str *text, const td_node *n) {
  td_str_add(text, n->name);
  if (n->origin[0]) td_str_addf(text, " (%s)", n->origin);
}

/* "loss <- sub <- x"; a long path is shortened in the middle. */
static td_status *add_path(const td_pruning *t, const td_node *x,
                           td_str *text) {
  enum { ENDS = 6 };
  TD_VEC(int32_t) path = {0};
  bool room = true;
  for (int32_t id = x->id; id >= 0 && room;) {
    room = td_vec_push(&path, id);
    id = t->marks[id].via > 0 ? t->marks[id].via - 1 : -1;
  }
  for (size_t i = path.len; room && i-- > 0;) {
    if (i >= ENDS && i < path.len - ENDS) {
      td_str_addf(text, " <- ... %zu more", path.len - 2 * ENDS);
      i = ENDS;
      continue;
    }
    if (i + 1 < path.len) td_str_add(text, " <- ");
    add_node(text, td_graph_node(t->r->graph, path.at[i]));
  }
  td_vec_free(&path);
  return room && !text->failed ? NULL : td_oom();
}

/* 'fetch "y:0"', because of which `x` is needed. */
static void add_root(const td_pruning *t, const td_node *x, td_str *text) {
  int32_t via = td_prune_mark_of(t, x)->via;
  while (via > 0) via = t->marks[via - 1].via;
  int i = -1 - via;
  if (i < t->r->n_fetches)
    td_str_addf(text, "fetch \"%s:%d\"", t->r->fetches[i].node->name,
                t->r->fetches[i].port);
  else
    td_str_addf(text, "target \"%s\"",
                t->r->targets[i - t->r->n_fetches]->name);
}

static td_status *not_fed(const td_pruning *t, const td_node *x) {
  td_str text = {0};
  td_shape_text shape;
  add_root(t, x, &text);
  td_str_addf(
      &text,
      " needs placeholder \"%s\" (%s %s), which is not fed; path: ", x->name,
      td_dtype_name(x->out[0].dtype), td_shape_str(&x->out[0].shape, &shape));
  td_status *s = add_path(t, x, &text);
  if (td_ok(s)) s = td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return td_node_blame(s, x);
}

/* ---- ops that are not known ---------------------------------------------- */

static bool is_foreign(const td_node *n) {
  return n->op->kind == TD_OP_FOREIGN;
}

/* All of them at once: who makes one go wants to know of the next. */
static td_status *check_foreign(const td_pruning *t) {
  const char **types = td_calloc(t->needed.len + 1, sizeof *types);
  const td_node *first = NULL;
  size_t n = 0;
  td_str who = {0};
  for (size_t k = 0; types && k < t->needed.len; k++) {
    const td_node *x = td_graph_node(t->r->graph, t->needed.at[k]);
    if (!is_foreign(x)) continue;
    if (!first) first = x;
    types[n++] = x->op->type;
  }
  if (first) add_root(t, first, &who);
  td_status *s = NULL;
  if (!types || who.failed)
    s = td_oom();
  else if (first)
    s = td_op_unknown(td_str_c(&who), types, n);
  td_str_deinit(&who);
  td_free(types);
  return first ? td_node_blame(s, first) : s;
}

/* ---- the walk ------------------------------------------------------------ */

/* A graph with ends was a part of another plan. */
static td_status *check_op(const td_node *n) {
  if (!td_op_is_end(n->op->kind)) return NULL;
  return td_node_blame(
      td_error(
          TD_INVALID_ARGUMENT,
          "\"%s\" is a %s, which only a part of a plan has: a graph with it "
          "can be looked at, but not run; put a Placeholder or an Identity "
          "in its place",
          n->name, n->op->type),
      n);
}

/* Adds `n` to what is needed; `via` as in td_prune_mark. */
static td_status *want(td_pruning *t, td_node *n, int32_t via) {
  if (td_prune_mark_of(t, n)->via) return NULL;
  if (!td_vec_push(&t->needed, n->id)) return td_oom();
  td_prune_mark_of(t, n)->via = via;
  return NULL;
}

/* True when a feed stands for the edge. */
static bool take_fed(td_pruning *t, td_edge e) {
  int32_t f = td_prune_feed_of(t, e);
  if (f >= 0) t->used[f] = true;
  return f >= 0;
}

static td_status *want_roots(td_pruning *t) {
  const td_plan_request *r = t->r;
  for (int i = 0; i < r->n_fetches; i++) {
    TD_TRY(check_edge(t, r->fetches[i], "fetch", i));
    TD_TRY(check_outside(t, r->fetches[i], false));
    if (!take_fed(t, r->fetches[i]))
      TD_TRY(want(t, r->fetches[i].node, -1 - i));
  }
  for (int i = 0; i < r->n_targets; i++) {
    if (!r->targets[i] || r->targets[i]->graph != r->graph)
      return td_error(TD_INVALID_ARGUMENT, "target %d is of another graph", i);
    if (!td_prune_fed_control(t, r->targets[i])) /* a fed placeholder has run */
      TD_TRY(want(t, r->targets[i], -1 - r->n_fetches - i));
  }
  return NULL;
}

static td_status *want_inputs(td_pruning *t, const td_node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && !take_fed(t, n->in[i]))
      TD_TRY(want(t, n->in[i].node, n->id + 1));
  for (int i = 0; i < n->n_control; i++) {
    if (td_prune_fed_control(t, n->control[i]))
      t->used[td_prune_mark_of(t, n->control[i])->fed - 1] = true;
    else
      TD_TRY(want(t, n->control[i], n->id + 1));
  }
  return NULL;
}

static int by_id(const void *a, const void *b) {
  const int32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Puts `needed` in the order of ids: by sorting it, or by a walk over the graph
 * when it holds a large part of that. */
static void sort_needed(td_pruning *t) {
  if (t->needed.len == 0) return;
  if (t->needed.len < (size_t)t->n / 16) {
    qsort(t->needed.at, t->needed.len, sizeof *t->needed.at, by_id);
    return;
  }
  size_t k = 0;
  for (int32_t id = 0; id < t->n; id++)
    if (t->marks[id].via) t->needed.at[k++] = id;
}

static td_status *walk(td_pruning *t) {
  bool foreign = false;
  const td_node *unfed = NULL;
  TD_TRY(want_roots(t));
  for (size_t k = 0; k < t->needed.len; k++) {
    const td_node *n = td_graph_node(t->r->graph, t->needed.at[k]);
    if (n->op->kind == TD_OP_PLACEHOLDER && !unfed) unfed = n;
    TD_TRY(check_op(n));
    foreign = foreign || is_foreign(n);
    if (td_prune_where(t, n) < 0) return td_placer_why_not(t->r->placer, n);
    TD_TRY(want_inputs(t, n));
  }
  if (foreign) return check_foreign(t);
  if (unfed) return not_fed(t, unfed);
  t->p->plan->pruned = t->n - (int32_t)t->needed.len;
  sort_needed(t);
  return NULL;
}

/* ---- the pass ------------------------------------------------------------ */

static td_status *check_fetches(const td_pruning *t, const td_frames *mine) {
  for (int i = 0; i < t->r->n_fetches; i++) {
    const td_node *n = td_prune_mark_of(t, t->r->fetches[i].node)->copy;
    int32_t frame = n ? mine->beyond[n->id] : 0;
    if (frame)
      return inside_error(t->r->fetches[i], mine->at[frame].name, false);
  }
  return NULL;
}

/* The frames of the copy, unless those of the whole graph are known. */
static td_status *find_frames(td_pruning *t) {
  td_frames mine;
  if (t->whole) return NULL;
  TD_TRY(td_frames_check(t->p->graph, &mine));
  td_status *s = check_fetches(t, &mine);
  if (td_ok(s)) s = td_pass_keep_frames(t->p, &mine);
  td_frames_free(&mine);
  return s;
}

static td_status *run(td_pruning *t) {
  TD_TRY(td_graph_new(&t->p->graph));
  td_graph_scratch(t->p->graph);
  TD_TRY(find_whole(t));
  TD_TRY(take_feeds(t));
  TD_TRY(walk(t));
  TD_TRY(td_prune_copy(t));
  TD_TRY(find_frames(t));
  return td_function_copy(t->r->graph, t->p->graph);
}

td_status *td_prune(td_pass *p) {
  td_pruning t;
  TD_TRY(check_there(p->request));
  TD_TRY(td_placer_grow(p->request->placer, p->request->graph));
  td_status *s = pruning_init(&t, p);
  if (td_ok(s)) s = run(&t);
  pruning_deinit(&t);
  return s;
}
