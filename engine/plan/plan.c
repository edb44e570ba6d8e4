/* plan.c - from a request to one graph per device.
 *
 * Only the first step looks at the user's graph, under its lock: new nodes are
 * placed, control flow is checked, what is needed is copied. Everything after
 * works on the copy. A mistake in a part of the user's graph that this request
 * does not need (an impossible device, a loop half built) does not stop it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/plan.h"

#include <string.h>

#include "engine/graph/function.h"
#include "engine/graph/graphdef.h"
#include "engine/graph/region.h"
#include "engine/plan/pass_impl.h"

/* ---- passes -------------------------------------------------------------- */

static const struct {
  const char *name;
  unsigned bit; /* 0: always runs */
  td_status *(*run)(td_pass *p);
} passes[] = {
    {"fold", TD_PASS_FOLD, td_fold},
    {"cse", TD_PASS_CSE, td_cse},
    {"order_updates", TD_PASS_ORDER_UPDATES, td_order_updates},
    {"schedule", TD_PASS_SCHEDULE, NULL}, /* in partition */
};

unsigned td_pass_parse(const char *name) {
  for (size_t i = 0; i < TD_COUNT(passes); i++)
    if (strcmp(passes[i].name, name) == 0) return passes[i].bit;
  return 0;
}

/* After a pass: the dump, and the check that nothing was broken. */
static td_status *look_at(td_pass *p, const char *pass, const td_graph *g) {
  TD_TRY(td_dump_graph(p, pass, g));
  td_status *s = p->request->verify ? td_graph_verify(g) : NULL;
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *where =
      td_error(TD_INTERNAL, "the graph is broken after pass %s: %s", pass,
               td_status_message(s));
  td_status_release(s);
  return where;
}

/* ---- the user's graph ---------------------------------------------------- */

static td_status *keep_frames(td_pass *p, const td_frames *all) {
  size_t n = (size_t)all->count;
  p->frames = td_alloc_zero(n, sizeof *p->frames);
  if (!p->frames) return td_oom();
  memcpy(p->frames, all->at, n * sizeof *p->frames);
  p->n_frames = all->count;
  return NULL;
}

/* Bodies of functions bring frames of their own. */
static td_status *take_bodies(td_pass *p) {
  bool any;
  TD_TRY(td_inline(p, &any));
  if (any) {
    td_free(p->frames);
    p->frames = NULL;
  }
  return NULL;
}

/* The graph may have changed since they were looked up. */
static td_status *check_there(const td_plan_request *r) {
  for (int i = 0; i < r->n_feeds; i++)
    if (r->feeds[i].node->gone) return td_region_gone(r->feeds[i].node);
  for (int i = 0; i < r->n_fetches; i++)
    if (r->fetches[i].node->gone) return td_region_gone(r->fetches[i].node);
  for (int i = 0; i < r->n_targets; i++)
    if (r->targets[i]->gone) return td_region_gone(r->targets[i]);
  return NULL;
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

static td_status *take_whole(td_pass *p) {
  const td_plan_request *r = p->request;
  if (!asks_for_whole(r)) return NULL;
  TD_TRY(td_placer_frames(r->placer, r->graph, &p->whole));
  return p->whole ? keep_frames(p, p->whole) : NULL;
}

static td_status *check_fetches(const td_pass *p, const td_frames *all) {
  const td_plan_request *r = p->request;
  for (int i = 0; i < r->n_fetches; i++) {
    const td_node *n = td_graph_find(p->graph, r->fetches[i].node->name);
    int32_t frame = n ? all->beyond[n->id] : 0;
    if (frame)
      return td_prune_inside(r->fetches[i], all->at[frame].name, false);
  }
  return NULL;
}

/* Frames of the working copy. */
static td_status *find_frames(td_pass *p) {
  td_frames mine;
  TD_TRY(td_frames_check(p->graph, &mine));
  td_status *s = check_fetches(p, &mine);
  if (td_ok(s)) s = keep_frames(p, &mine);
  td_frames_free(&mine);
  return s;
}

static td_status *take_copy(td_pass *p) {
  const td_plan_request *r = p->request;
  td_graph_lock(r->graph);
  td_status *s = check_there(r);
  if (td_ok(s)) s = td_placer_grow(r->placer, r->graph);
  if (td_ok(s)) s = take_whole(p);
  if (td_ok(s)) s = td_prune(p);
  if (td_ok(s) && !p->frames) s = find_frames(p);
  if (td_ok(s)) s = td_function_copy(r->graph, p->graph);
  if (td_ok(s)) s = take_bodies(p);
  p->whole = NULL;
  td_graph_unlock(r->graph);
  if (td_ok(s) && !p->frames) s = find_frames(p);
  return s;
}

/* ---- the parts ----------------------------------------------------------- */

/* States of kernels go by them. */
static void keep_serials(const td_graph *from, td_graph *to) {
  for (int32_t id = 0; id < td_graph_size(to); id++) {
    td_node *n = td_graph_node(to, id);
    const td_node *same = td_graph_find(from, n->name);
    n->serial = same ? same->serial : 0;
  }
}

/* What a remote worker would get. */
static td_status *through_bytes(td_graph **g) {
  char *bytes = NULL;
  size_t len = 0;
  td_graph *read = NULL;
  td_status *s = td_graphdef_write(*g, &bytes, &len);
  if (td_ok(s)) s = td_graph_new(&read);
  if (td_ok(s)) s = td_graphdef_read(read, bytes, len, NULL);
  td_free(bytes);
  if (!td_ok(s)) {
    td_graph_release(read);
    return s;
  }
  keep_serials(*g, read);
  td_graph_release(*g);
  *g = read;
  return NULL;
}

/* Frames are numbered anew in each part; deadness is carried by notes of the
 * _Recvs. A part without control flow has neither. */
static td_status *settle_frames(td_graph *g) {
  bool flow = false;
  for (int32_t id = 0; id < td_graph_size(g) && !flow; id++) {
    const td_node *n = td_graph_node(g, id);
    flow = n->op->kind == TD_KIND_SWITCH || n->op->kind == TD_KIND_ENTER ||
           td_node_bool(n, "_may_die");
  }
  if (!flow) return NULL;
  td_frames frames;
  TD_TRY(td_frames_check(g, &frames));
  td_frames_free(&frames);
  return NULL;
}

static td_status *finish_part(td_pass *p, td_part *part) {
  /* Attributes name them. */
  TD_TRY(td_function_copy(p->graph, part->graph));
  if (p->request->roundtrip) TD_TRY(through_bytes(&part->graph));
  TD_TRY(settle_frames(part->graph));
  for (int32_t id = 0; id < td_graph_size(part->graph); id++)
    td_graph_node(part->graph, id)->order = id;
  return look_at(p, "part", part->graph);
}

/* ---- the plan ------------------------------------------------------------ */

static td_status *run_passes(td_pass *p) {
  td_plan *plan = p->plan;
  TD_TRY(td_dump_begin(p));
  TD_TRY(take_copy(p));
  TD_TRY(look_at(p, "prune", p->graph));
  for (size_t i = 0; i < TD_COUNT(passes); i++) {
    if (!passes[i].run || !(p->request->passes & passes[i].bit)) continue;
    TD_TRY(passes[i].run(p));
    TD_TRY(look_at(p, passes[i].name, p->graph));
  }
  TD_TRY(td_partition(p));
  for (int i = 0; i < plan->n_parts; i++)
    TD_TRY(finish_part(p, &plan->parts[i]));
  return NULL;
}

static int32_t client_of(const td_plan_request *r) {
  for (int i = 0; i < r->n_devices; i++)
    if (td_device_on_host(r->devices[i])) return i;
  return 0;
}

td_status *td_plan_new(const td_plan_request *r, td_plan **out) {
  td_pass p = {.request = r, .client = client_of(r)};
  *out = NULL;
  p.plan = td_alloc_zero(1, sizeof *p.plan);
  if (!p.plan) return td_oom();
  td_status *s = run_passes(&p);
  p.plan->edge_names = p.edges.at;
  p.plan->n_edges = (int32_t)p.edges.len;
  td_graph_release(p.graph);
  td_free(p.frames);
  td_free(p.targets);
  td_dump_end(&p);
  if (td_ok(s))
    *out = p.plan;
  else
    td_plan_free(p.plan);
  return s;
}

void td_plan_free(td_plan *p) {
  if (!p) return;
  for (int i = 0; i < p->n_parts; i++) {
    td_graph_release(p->parts[i].graph);
    td_device_release(p->parts[i].device);
  }
  for (int32_t i = 0; i < p->n_edges; i++) td_free(p->edge_names[i]);
  td_free(p->edge_names);
  td_free(p->parts);
  td_free(p);
}
