/* prune.c - the part of the user's graph that fetches and targets need.
 *
 * A walk against the edges, from fetches and targets, that stops where an edge
 * is fed; then a copy, in the order of the user's graph, with an _Arg for each
 * fed edge in use and a _Retval for each fetch (in a partial run: a _Recv from
 * the client and a _Send to it). A loop's nodes reach one another through its
 * back edges, so that a loop is copied whole or not at all. The walk is breadth
 * first: the path in an error is a shortest one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/graphdef/function.h"
#include "engine/graph/region.h"
#include "engine/plan/link_impl.h"

/* Values of `where`. */
enum { NOWHERE = -1, SEVERAL = -2 };

typedef struct prune {
  td_pass *p;
  const td_plan_request *r;
  int32_t n;              /* nodes of the user's graph */
  const td_frames *whole; /* the frames of the user's graph; NULL when nobody
                             asks or it fails the check as a whole */
  td_prune_mark *marks;   /* by node id; borrowed, cleared again */
  int32_t *fed_too;       /* by feed: the next feed of that node + 1 */
  bool *used;             /* by feed: somebody needs it */
  TD_VEC(int32_t) queue;  /* nodes seen, in order; then by id */
  td_node **arg;          /* by feed: its _Arg or _Recv */
  int32_t *where;         /* by feed: the device of those who use it */
  TD_VEC(td_edge) in;
  TD_VEC(td_node *) control;
} prune;

static void prune_deinit(prune *t) {
  for (size_t k = 0; k < t->queue.len; k++)
    t->marks[t->queue.at[k]] = (td_prune_mark){0};
  for (int i = 0; t->marks && i < t->r->n_feeds; i++)
    if (t->r->feeds[i].node && t->r->feeds[i].node->graph == t->r->graph)
      t->marks[t->r->feeds[i].node->id] = (td_prune_mark){0};
  td_free(t->fed_too);
  td_free(t->used);
  td_vec_free(&t->queue);
  td_free(t->arg);
  td_free(t->where);
  td_vec_free(&t->in);
  td_vec_free(&t->control);
}

static td_status *prune_init(prune *t, td_pass *p) {
  const td_plan_request *r = p->request;
  size_t feeds = (size_t)r->n_feeds;
  *t = (prune){.p = p, .r = r, .n = td_graph_size(r->graph)};
  t->marks = td_placer_marks(r->placer);
  t->fed_too = td_alloc_zero(feeds + 1, sizeof *t->fed_too);
  t->used = td_alloc_zero(feeds + 1, sizeof *t->used);
  t->arg = td_alloc_zero(feeds + 1, sizeof *t->arg);
  t->where = td_alloc_zero(feeds + 1, sizeof *t->where);
  if (!t->marks || !t->fed_too || !t->used || !t->arg || !t->where)
    return td_oom();
  for (size_t i = 0; i < feeds; i++) t->where[i] = NOWHERE;
  return NULL;
}

static td_prune_mark *mark_of(const prune *t, const td_node *n) {
  return &t->marks[n->id];
}

/* ---- what was asked for -------------------------------------------------- */

/* The graph may have changed since they were looked up. */
static td_status *check_there(const td_plan_request *r) {
  for (int i = 0; i < r->n_feeds; i++)
    if (r->feeds[i].node->gone) return td_region_gone_error(r->feeds[i].node);
  for (int i = 0; i < r->n_fetches; i++)
    if (r->fetches[i].node->gone) return td_region_gone_error(r->fetches[i].node);
  for (int i = 0; i < r->n_targets; i++)
    if (r->targets[i]->gone) return td_region_gone_error(r->targets[i]);
  return NULL;
}

static td_status *check_edge(const prune *t, td_edge e, const char *what,
                             int i) {
  if (!e.node || e.node->graph != t->r->graph)
    return td_error(TD_INVALID_ARGUMENT, "%s %d is of another graph", what, i);
  if (e.port < 0 || e.port >= e.node->n_out)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s %d is output %d of \"%s\", a %s with %d", what, i,
                    e.port, e.node->name, e.node->op->type, e.node->n_out);
  return NULL;
}

/* A value inside a loop is there many times, or never: it can neither be given
 * nor taken. */
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

static td_status *check_outside(const prune *t, td_edge e, bool feed) {
  const td_frames *all = t->whole;
  if (!all || all->beyond[e.node->id] == 0) return NULL;
  return inside_error(e, all->at[all->beyond[e.node->id]].name, feed);
}

/* What is needed brings its loops with it whole, so that only a fed value
 * inside one asks for the rest of the graph; and partial runs, whose links are
 * told what may die as they are made. */
static bool asks_for_whole(const td_plan_request *r) {
  if (r->partial) return true;
  for (int i = 0; i < r->n_feeds; i++)
    if (r->feeds[i].node->n_in || r->feeds[i].node->n_control) return true;
  return false;
}

static td_status *find_whole(prune *t) {
  const td_plan_request *r = t->r;
  if (!asks_for_whole(r)) return NULL;
  TD_TRY(td_placer_frames(r->placer, r->graph, &t->whole));
  return t->whole ? td_pass_keep_frames(t->p, t->whole) : NULL;
}

static int32_t feed_of(const prune *t, td_edge e) {
  for (int32_t f = mark_of(t, e.node)->fed; f; f = t->fed_too[f - 1])
    if (t->r->feeds[f - 1].port == e.port) return f - 1;
  return -1;
}

static td_status *take_feeds(prune *t) {
  for (int i = 0; i < t->r->n_feeds; i++) {
    td_edge e = t->r->feeds[i];
    TD_TRY(check_edge(t, e, "feed", i));
    TD_TRY(check_outside(t, e, true));
    if (feed_of(t, e) >= 0)
      return td_error(TD_INVALID_ARGUMENT, "\"%s:%d\" is fed twice",
                      e.node->name, e.port);
    td_placer_assign(t->r->placer, e.node);
    t->fed_too[i] = mark_of(t, e.node)->fed;
    mark_of(t, e.node)->fed = i + 1;
  }
  return NULL;
}

/* ---- a placeholder that is not fed --------------------------------------- */

static void add_node(td_str *text, const td_node *n) {
  td_str_add(text, n->name);
  if (n->origin[0]) td_str_addf(text, " (%s)", n->origin);
}

/* "loss <- sub <- x"; a long way is cut in the middle. */
static td_status *add_path(const prune *t, const td_node *x, td_str *text) {
  enum { ENDS = 6 };
  TD_VEC(int32_t) way = {0};
  bool room = true;
  for (int32_t id = x->id; id >= 0 && room;) {
    room = td_vec_push(&way, id);
    id = t->marks[id].via > 0 ? t->marks[id].via - 1 : -1;
  }
  for (size_t i = way.len; room && i-- > 0;) {
    if (i >= ENDS && i < way.len - ENDS) {
      td_str_addf(text, " <- ... %zu more", way.len - 2 * ENDS);
      i = ENDS;
      continue;
    }
    if (i + 1 < way.len) td_str_add(text, " <- ");
    add_node(text, td_graph_node(t->r->graph, way.at[i]));
  }
  td_vec_free(&way);
  return room && !text->failed ? NULL : td_oom();
}

static td_status *not_fed(const prune *t, const td_node *x) {
  td_str text = {0};
  td_shape_text shape;
  int32_t via = mark_of(t, x)->via;
  while (via > 0) via = t->marks[via - 1].via;
  int i = -1 - via;
  td_str_add(&text, i < t->r->n_fetches ? "fetch \"" : "target \"");
  if (i < t->r->n_fetches)
    td_str_addf(&text, "%s:%d", t->r->fetches[i].node->name,
                t->r->fetches[i].port);
  else
    td_str_add(&text, t->r->targets[i - t->r->n_fetches]->name);
  td_str_addf(
      &text,
      "\" needs placeholder \"%s\" (%s %s), which is not fed; path: ", x->name,
      td_dtype_name(x->out[0].dtype), td_shape_str(&x->out[0].shape, &shape));
  td_status *s = add_path(t, x, &text);
  if (td_ok(s)) s = td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return td_node_blame(s, x);
}

/* ---- the walk ------------------------------------------------------------ */

/* `via` as in a mark. */
static td_status *want(prune *t, td_node *n, int32_t via) {
  if (mark_of(t, n)->via) return NULL;
  if (!td_vec_push(&t->queue, n->id)) return td_oom();
  mark_of(t, n)->via = via;
  td_placer_assign(t->r->placer, n);
  return NULL;
}

/* True when a feed stands for the edge. */
static bool take_fed(prune *t, td_edge e) {
  int32_t f = feed_of(t, e);
  if (f >= 0) t->used[f] = true;
  return f >= 0;
}

/* "After placeholder x" means after it was fed. */
static bool fed_control(const prune *t, const td_node *before) {
  return before->op->kind == TD_KIND_PLACEHOLDER && mark_of(t, before)->fed;
}

static td_status *want_roots(prune *t) {
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
    if (!fed_control(t, r->targets[i])) /* a fed placeholder has run */
      TD_TRY(want(t, r->targets[i], -1 - r->n_fetches - i));
  }
  return NULL;
}

static td_status *want_inputs(prune *t, const td_node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && !take_fed(t, n->in[i]))
      TD_TRY(want(t, n->in[i].node, n->id + 1));
  for (int i = 0; i < n->n_control; i++) {
    if (fed_control(t, n->control[i]))
      t->used[mark_of(t, n->control[i])->fed - 1] = true;
    else
      TD_TRY(want(t, n->control[i], n->id + 1));
  }
  return NULL;
}

static int by_id(const void *a, const void *b) {
  const int32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* A large part of the graph is sooner gone through by the graph. */
static void sort_queue(prune *t) {
  if (t->queue.len == 0) return;
  if (t->queue.len < (size_t)t->n / 16) {
    qsort(t->queue.at, t->queue.len, sizeof *t->queue.at, by_id);
    return;
  }
  size_t k = 0;
  for (int32_t id = 0; id < t->n; id++)
    if (t->marks[id].via) t->queue.at[k++] = id;
}

static td_status *walk(prune *t) {
  TD_TRY(want_roots(t));
  for (size_t k = 0; k < t->queue.len; k++) {
    const td_node *n = td_graph_node(t->r->graph, t->queue.at[k]);
    if (n->op->kind == TD_KIND_PLACEHOLDER) return not_fed(t, n);
    if (n->placed < 0) return td_placer_why_not(t->r->placer, n);
    TD_TRY(want_inputs(t, n));
  }
  t->p->plan->pruned = t->n - (int32_t)t->queue.len;
  sort_queue(t);
  return NULL;
}

/* ---- the copy ------------------------------------------------------------ */

static td_link client_link(const prune *t, td_edge value, int32_t placed) {
  const td_device *d = t->r->devices[placed];
  return (td_link){.from = d, .to = d, .client = true, .value = value};
}

/* An _Arg or, with `input`, a _Retval for edge `e` of the user's graph. Ends
 * `name`. */
static td_status *add_end(prune *t, const char *op, td_str *name, td_edge e,
                          const td_edge *input, int index, td_node **out) {
  td_build b;
  td_build_init(&b, t->p->graph, op, td_str_c(name));
  b.exact_name = true;
  b.origin = e.node->origin;
  if (input) td_build_in(&b, *input);
  td_build_attr(&b, "T", td_attr_type(td_edge_dtype(e)));
  td_build_attr(&b, "index", td_attr_int(index));
  td_status *s = NULL;
  if (name->failed) {
    td_build_drop(&b);
    s = td_oom();
  } else {
    s = td_build_node(&b, out);
  }
  td_str_deinit(name);
  return s;
}

static td_status *add_arg(prune *t, int i) {
  td_edge e = t->r->feeds[i];
  td_str name = {0};
  if (t->r->partial) {
    td_link l = client_link(t, e, t->p->client);
    l.edge = i;
    return td_link_recv(t->p, t->p->graph, &l, NULL, &t->arg[i]);
  }
  td_str_addf(&name, "_arg_%s_%d", e.node->name, e.port);
  return add_end(t, "_Arg", &name, e, NULL, i, &t->arg[i]);
}

static td_status *add_args(prune *t) {
  for (int i = 0; i < t->r->n_feeds; i++) {
    if (t->r->partial) {
      int32_t edge;
      TD_TRY(td_link_number(t->p, t->r->feeds[i].node->name, &edge));
    }
    if (!t->used[i]) continue;
    TD_TRY(add_arg(t, i));
    t->arg[i]->out[0].shape = *td_edge_shape(t->r->feeds[i]);
    t->arg[i]->placed = t->p->client;
  }
  return NULL;
}

static void note_user(prune *t, int32_t feed, int32_t placed) {
  if (t->where[feed] == NOWHERE) t->where[feed] = placed;
  if (t->where[feed] != placed) t->where[feed] = SEVERAL;
}

/* An edge of the user's graph in the copy; node NULL while its node, further
 * down a back edge, is still to come. */
static td_edge copied(prune *t, td_edge e, int32_t placed) {
  int32_t f = e.node ? feed_of(t, e) : -1;
  if (f < 0) return (td_edge){e.node ? mark_of(t, e.node)->copy : NULL, e.port};
  note_user(t, f, placed);
  return (td_edge){t->arg[f], 0};
}

static td_node *copied_control(prune *t, const td_node *before) {
  if (fed_control(t, before)) return t->arg[mark_of(t, before)->fed - 1];
  return mark_of(t, before)->copy;
}

static td_status *copy_node(prune *t, const td_node *n) {
  t->in.len = t->control.len = 0;
  for (int i = 0; i < n->n_in; i++)
    if (!td_vec_push(&t->in, copied(t, n->in[i], n->placed))) return td_oom();
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = copied_control(t, n->control[i]);
    if (before && !td_vec_push(&t->control, before)) return td_oom();
  }
  return td_graph_clone_node(t->p->graph, n, n->name, t->in.at, t->control.at,
                             (int)t->control.len, &mark_of(t, n)->copy);
}

/* What came later in the user's graph than those who use it. */
static td_status *late_inputs(prune *t, const td_node *n) {
  td_node *c = mark_of(t, n)->copy;
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && !c->in[i].node)
      td_node_set_in(c, i, copied(t, n->in[i], n->placed));
  for (int i = 0; i < n->n_control && c->n_control < n->n_control; i++)
    if (n->control[i]->id > n->id)
      TD_TRY(td_graph_add_control(c, copied_control(t, n->control[i])));
  return NULL;
}

static td_status *copy_nodes(prune *t) {
  const td_graph *g = t->r->graph;
  for (size_t k = 0; k < t->queue.len; k++)
    TD_TRY(copy_node(t, td_graph_node(g, t->queue.at[k])));
  for (size_t k = 0; k < t->queue.len; k++)
    TD_TRY(late_inputs(t, td_graph_node(g, t->queue.at[k])));
  return NULL;
}

/* Tells the handles of variables whose rows some op of the user's graph works
 * on, whether or not it runs this time: who reads such a variable first must
 * not take a share that the op would have to leave alone. */
static td_status *note_rows(prune *t) {
  size_t count;
  const int32_t *sparse = td_placer_sparse(t->r->placer, &count);
  for (size_t k = 0; k < count; k++) {
    const td_node *n = td_graph_node(t->r->graph, sparse[k]);
    for (int i = 0; i < n->n_in; i++) {
      td_node *from = n->in[i].node, *c = from ? mark_of(t, from)->copy : NULL;
      if (c && td_edge_dtype(n->in[i]) == TD_RESOURCE)
        TD_TRY(td_node_set_note(c, "_rows", td_attr_bool(true)));
    }
  }
  return NULL;
}

/* ---- where values leave -------------------------------------------------- */

/* _Arg and _Retval keep host memory on any device, so that a feed that one
 * device takes, and any fetch, needs no other. The client of a partial run
 * knows one device only; a handle never leaves that of its resource. */
static int32_t end_place(const prune *t, td_edge e, int32_t device) {
  if (td_edge_dtype(e) == TD_RESOURCE && e.node->placed >= 0)
    return e.node->placed;
  return device >= 0 && !t->r->partial ? device : t->p->client;
}

static td_status *add_retval(prune *t, int i, td_edge from, td_node **out) {
  td_edge e = t->r->fetches[i];
  td_str name = {0};
  if (t->r->partial) {
    td_link l = client_link(t, from, t->p->client);
    l.may_die = td_edge_may_die(from);
    TD_TRY(td_link_number(t->p, e.node->name, &l.edge));
    return td_link_send(t->p, t->p->graph, &l, from, out);
  }
  td_str_addf(&name, "_retval_%s_%d_%d", e.node->name, e.port, i);
  return add_end(t, "_Retval", &name, e, &from, i, out);
}

static td_status *add_retvals(prune *t) {
  for (int i = 0; i < t->r->n_fetches; i++) {
    td_edge e = t->r->fetches[i];
    int32_t f = feed_of(t, e);
    td_edge from = f < 0 ? (td_edge){mark_of(t, e.node)->copy, e.port}
                         : (td_edge){t->arg[f], 0};
    td_node *n;
    TD_TRY(add_retval(t, i, from, &n));
    n->placed = end_place(t, e, f < 0 ? from.node->placed : NOWHERE);
    n->may_die = td_edge_may_die(from);
    if (f >= 0) note_user(t, f, n->placed);
  }
  return NULL;
}

static td_status *finish(prune *t) {
  for (int i = 0; i < t->r->n_feeds; i++)
    if (t->arg[i])
      t->arg[i]->placed = end_place(t, t->r->feeds[i], t->where[i]);
  t->p->targets =
      td_alloc_zero((size_t)t->r->n_targets + 1, sizeof *t->p->targets);
  if (!t->p->targets) return td_oom();
  for (int i = 0; i < t->r->n_targets; i++) {
    td_node *copy = mark_of(t, t->r->targets[i])->copy;
    if (copy) t->p->targets[t->p->n_targets++] = copy;
  }
  td_pass_log(t->p, "kept %zu of %d nodes", t->queue.len, t->n);
  return NULL;
}

static td_status *check_fetches(const prune *t, const td_frames *mine) {
  for (int i = 0; i < t->r->n_fetches; i++) {
    const td_node *n = mark_of(t, t->r->fetches[i].node)->copy;
    int32_t frame = n ? mine->beyond[n->id] : 0;
    if (frame)
      return inside_error(t->r->fetches[i], mine->at[frame].name, false);
  }
  return NULL;
}

/* Those of the copy, unless those of the whole graph are known. */
static td_status *find_frames(prune *t) {
  td_frames mine;
  if (t->whole) return NULL;
  TD_TRY(td_frames_check(t->p->graph, &mine));
  td_status *s = check_fetches(t, &mine);
  if (td_ok(s)) s = td_pass_keep_frames(t->p, &mine);
  td_frames_free(&mine);
  return s;
}

static td_status *run(prune *t) {
  TD_TRY(td_graph_new(&t->p->graph));
  td_graph_scratch(t->p->graph);
  TD_TRY(find_whole(t));
  TD_TRY(take_feeds(t));
  TD_TRY(walk(t));
  TD_TRY(add_args(t));
  TD_TRY(copy_nodes(t));
  TD_TRY(note_rows(t));
  TD_TRY(add_retvals(t));
  TD_TRY(finish(t));
  TD_TRY(find_frames(t));
  return td_function_copy(t->r->graph, t->p->graph);
}

td_status *td_prune(td_pass *p) {
  prune t;
  TD_TRY(check_there(p->request));
  TD_TRY(td_placer_grow(p->request->placer, p->request->graph));
  td_status *s = prune_init(&t, p);
  if (td_ok(s)) s = run(&t);
  prune_deinit(&t);
  return s;
}
