/* plan.c - from a request to one graph per device.
 *
 * Only the first passes look at the user's graph, under its lock: new nodes are
 * placed, control flow is checked, what is needed is copied. Everything after
 * works on the copy. A mistake in a part of the user's graph that this request
 * does not need (an impossible device, a loop half built) does not stop it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/plan.h"

#include <string.h>

#include "engine/graph/graph_check.h"
#include "engine/plan/dump_impl.h"
#include "engine/plan/part.h"

/* ---- the passes ---------------------------------------------------------- */

enum { LOCKED, ALWAYS, OPTIONAL };

static const struct {
  const char *name, *what;
  int when;
  td_status *(*run)(td_pass *p);
} passes[] = {
#define TD_PASS(name, when, what) {#name, what, when, td_##name},
#include "engine/plan/pass.def"
#undef TD_PASS
};

enum { N_PASSES = TD_COUNT(passes) };

const char *td_plan_pass_name(int i) {
  for (int k = 0; k < N_PASSES; k++)
    if (passes[k].when == OPTIONAL && i-- == 0) return passes[k].name;
  return NULL;
}

unsigned td_plan_pass_bit(const char *name) {
  for (int k = 0; k < N_PASSES; k++)
    if (passes[k].when == OPTIONAL && strcmp(passes[k].name, name) == 0)
      return 1U << k;
  return 0;
}

/* After a pass: the dump, and the check that nothing was broken; for people who
 * ask. The locked passes are looked at under the lock, too: what they leave
 * between them is of one state of the user's graph. */
static td_status *look_at(td_pass *p, int pass, const td_graph *g) {
  const char *name = passes[pass].name;
  TD_TRY(td_dump_graph(p, name, passes[pass].what, g));
  td_status *s = p->request->verify ? td_graph_verify(g) : NULL;
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *where =
      td_error(TD_INTERNAL, "the graph is broken after pass %s: %s", name,
               td_status_message(s));
  td_status_release(s);
  return where;
}

static td_status *run_pass(td_pass *p, int pass) {
  if (p->request->passes_off & td_plan_pass_bit(passes[pass].name)) return NULL;
  TD_TRY(passes[pass].run(p));
  if (p->plan->n_parts == 0) return look_at(p, pass, p->graph);
  for (int i = 0; i < p->plan->n_parts; i++)
    TD_TRY(look_at(p, pass, p->plan->parts[i].graph));
  return NULL;
}

static td_status *run_passes(td_pass *p) {
  int next = 0;
  TD_TRY(td_dump_begin(p));
  td_graph_lock(p->request->graph);
  td_status *s = NULL;
  for (; td_ok(s) && passes[next].when == LOCKED; next++) s = run_pass(p, next);
  td_graph_unlock(p->request->graph);
  for (; td_ok(s) && next < N_PASSES; next++) s = run_pass(p, next);
  return s;
}

/* ---- the plan ------------------------------------------------------------ */

static int32_t client_of(const td_plan_request *r) {
  for (int i = 0; i < r->n_devices; i++)
    if (r->devices[i] && td_device_touchable(r->devices[i])) return i;
  return 0;
}

td_status *td_plan_new(const td_plan_request *r, td_plan **out) {
  td_pass p = {.request = r, .client = client_of(r)};
  *out = NULL;
  p.plan = td_calloc(1, sizeof *p.plan);
  if (!p.plan) return td_oom();
  td_status *s = run_passes(&p);
  p.plan->edges = p.edges.at;
  p.plan->n_edges = (int32_t)p.edges.len;
  td_graph_release(p.graph);
  td_free(p.frames);
  td_free(p.targets);
  td_free(p.triggers);
  td_free(p.order);
  td_dump_end(&p);
  if (td_ok(s))
    *out = p.plan;
  else
    td_plan_free(p.plan);
  return s;
}

void td_plan_free(td_plan *p) {
  if (!p) return;
  for (int i = 0; i < p->n_parts; i++) td_part_deinit(&p->parts[i]);
  for (int32_t i = 0; i < p->n_edges; i++) td_free(p->edges[i].name);
  td_free(p->edges);
  td_free(p->parts);
  td_free(p);
}
