/* frames.c - which frame each node runs in.
 *
 * One walk over the graph, inputs first (back edges aside): a node runs where
 * its inputs are, and all of them, data and control, must agree; a node without
 * inputs runs in the root. A frame is known by its parent and the frame_name of
 * its Enters. Structure is checked before the walk, loops after it, deadness
 * last; nodes are written to only when all is well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/frames_impl.h"
#include "engine/graph/graph_check.h"

#include <string.h>

/* ---- frames -------------------------------------------------------------- */

static td_status *add_frame(td_frames_walk *w, const td_frame *f,
                            int32_t *out) {
  td_frames *all = w->frames;
  if (all->count == w->cap) {
    int32_t cap = w->cap ? w->cap * 2 : 8;
    td_frame *at = td_realloc(all->at, (size_t)cap * sizeof *at);
    if (!at) return td_oom();
    all->at = at;
    w->cap = cap;
  }
  all->at[all->count] = *f;
  *out = all->count++;
  return NULL;
}

/* The frame that `enter`, running in `parent`, leads to; new or known. */
static td_status *find_frame(td_frames_walk *w, td_node *enter, int32_t parent,
                             int32_t *out) {
  td_str key = {0};
  const char *name = td_node_string(enter, "frame_name");
  td_str_addn(&key, (const char *)&parent, sizeof parent);
  td_str_add(&key, name);
  td_status *s = key.failed ? td_oom() : NULL;
  intptr_t known = (intptr_t)td_map_getn(&w->index, key.at, key.len);
  if (known) {
    *out = (int32_t)(known - 1);
  } else if (td_ok(s)) {
    td_frame f = {.name = name,
                  .parent = parent,
                  .depth = w->frames->at[parent].depth + 1,
                  .enter = enter};
    s = add_frame(w, &f, out);
    if (td_ok(s) &&
        !td_map_putn(&w->index, key.at, key.len, (void *)((intptr_t)*out + 1)))
      s = td_oom();
  }
  td_str_deinit(&key);
  return s;
}

static td_status *lead_in(td_frames_walk *w, td_node *n, int32_t parent) {
  int32_t child;
  int64_t parallel = td_node_int(n, "parallel_iterations");
  if (parallel < 1 || parallel > TD_FRAMES_PARALLEL)
    return td_frames_error(n,
                           "parallel_iterations must be from 1 to %d, not %lld",
                           TD_FRAMES_PARALLEL, (long long)parallel);
  if (w->frames->at[parent].depth >= TD_FRAMES_DEPTH)
    return td_frames_error(n, "loops are nested more than %d deep",
                           TD_FRAMES_DEPTH);
  TD_TRY(find_frame(w, n, parent, &child));
  td_frame *f = &w->frames->at[child];
  if (f->enters && f->parallel != parallel) {
    td_str other = {0};
    td_frames_name(f->enter, &other);
    td_status *s = td_frames_error(
        n,
        "the Enters of frame \"%s\" disagree: parallel_iterations is %lld "
        "here, %d at %s",
        f->name, (long long)parallel, (int)f->parallel, td_str_c(&other));
    td_str_deinit(&other);
    return s;
  }
  f->parallel = (int32_t)parallel;
  f->enters++;
  w->frames->beyond[n->id] = child;
  return NULL;
}

/* ---- nodes --------------------------------------------------------------- */

static td_status *two_frames(const td_frames_walk *w, const td_node *n,
                             const td_node *a, const td_node *b) {
  td_str x = {0}, y = {0};
  const char *frame_a = w->frames->at[w->frames->beyond[a->id]].name;
  const char *frame_b = w->frames->at[w->frames->beyond[b->id]].name;
  td_frames_name(a, &x);
  td_frames_name(b, &y);
  td_status *s = td_frames_error(
      n,
      "its inputs come from two frames: %s from %s%s%s, %s from %s%s%s; a "
      "value goes into a loop by Enter and out by Exit, and a node without "
      "inputs needs a control edge from inside",
      td_str_c(&x), *frame_a ? "frame \"" : "outside all loops", frame_a,
      *frame_a ? "\"" : "", td_str_c(&y),
      *frame_b ? "frame \"" : "outside all loops", frame_b,
      *frame_b ? "\"" : "");
  td_str_deinit(&x);
  td_str_deinit(&y);
  return s;
}

/* `*first`: the input that has settled the frame so far, or NULL. */
static td_status *agree(const td_frames_walk *w, const td_node *n,
                        const td_node *from, const td_node **first) {
  const int32_t *beyond = w->frames->beyond;
  if (!*first) *first = from;
  if (beyond[from->id] != beyond[(*first)->id])
    return two_frames(w, n, *first, from);
  return NULL;
}

static td_status *visit(td_frames_walk *w, td_node *n) {
  const td_node *first = NULL;
  for (int i = 0; i < n->n_in; i++)
    if (!td_frames_back_edge(n, i)) TD_TRY(agree(w, n, n->in[i].node, &first));
  for (int i = 0; i < n->n_control; i++)
    TD_TRY(agree(w, n, n->control[i], &first));
  int32_t frame = first ? w->frames->beyond[first->id] : 0;
  td_frame *f = &w->frames->at[frame];
  w->frame[n->id] = w->frames->beyond[n->id] = frame;
  if (n->op->kind == TD_OP_ENTER) return lead_in(w, n, frame);
  if (frame == 0 && (n->op->kind == TD_OP_EXIT || n->op->kind == TD_OP_NEXT ||
                     n->op->kind == TD_OP_COND))
    return td_frames_error(n, "%s is in no loop: no Enter leads to it",
                           n->op->type);
  if (n->op->kind == TD_OP_EXIT) w->frames->beyond[n->id] = f->parent;
  if (n->op->kind == TD_OP_COND) {
    if (f->cond)
      return td_frames_error(
          n,
          "frame \"%s\" has a LoopCond already, '%s': two loops may not "
          "share a frame_name",
          f->name, f->cond->name);
    f->cond = n;
  }
  return NULL;
}

static td_status *walk(td_frames_walk *w) {
  int32_t root;
  td_frame f = {.name = "", .parent = -1, .parallel = 1};
  TD_TRY(td_frames_shape(w));
  TD_TRY(td_graph_order(w->g, &w->order));
  TD_TRY(add_frame(w, &f, &root));
  for (int32_t i = 0; i < w->n; i++)
    TD_TRY(visit(w, td_graph_node(w->g, w->order[i])));
  TD_TRY(td_frames_loops(w));
  return td_frames_deadness(w);
}

td_status *td_frames_check(td_graph *g, td_frames *out) {
  td_frames frames = {0};
  td_frames_walk w = {.g = g, .n = td_graph_size(g), .frames = &frames};
  td_map_init(&w.index);
  w.frame = td_calloc((size_t)w.n, sizeof *w.frame);
  w.may_die = td_calloc((size_t)w.n, sizeof *w.may_die);
  w.may_stop = td_calloc((size_t)w.n, sizeof *w.may_stop);
  frames.beyond = td_calloc((size_t)w.n, sizeof *frames.beyond);
  bool room = w.frame && w.may_die && w.may_stop && frames.beyond;
  td_status *s = room ? walk(&w) : td_oom();
  for (int32_t i = 0; td_ok(s) && i < w.n; i++) {
    td_node *n = td_graph_node(g, i);
    n->frame = w.frame[i];
    n->may_die = w.may_die[i];
    n->may_stop = w.may_stop[i];
  }
  if (!td_ok(s)) td_frames_free(&frames);
  *out = frames;
  td_free(w.order);
  td_free(w.frame);
  td_free(w.may_die);
  td_free(w.may_stop);
  td_map_deinit(&w.index);
  return s;
}

void td_frames_free(td_frames *f) {
  td_free(f->at);
  td_free(f->beyond);
  *f = (td_frames){0};
}
