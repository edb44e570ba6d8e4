/* participant_local.c - this process, as it takes part in a session.
 *
 * The session may be one of this process or of another one: what it takes to
 * run its parts is here, and nothing of a session is asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/device/states.h"
#include "engine/plan/part.h"
#include "engine/run/bare_step.h"
#include "engine/run/runtime.h"

typedef struct local {
  td_participant base; /* first */
  td_runtime *runtime;
  td_states *states;
  td_costs *costs;   /* measured here */
  td_resources *own; /* the session's default container */
  bool sealed;
} local;

struct td_enrollment {
  local *of; /* retained */
  td_bare_programs programs;
  bool *far, *from_far; /* those of `programs` */
  int n_args, n_rets;
};

/* ---- signatures ---- */

static void forget(td_enrollment *e) {
  if (!e) return;
  for (int i = 0; i < e->programs.n; i++) td_program_free(e->programs.at[i]);
  td_free(e->programs.at);
  td_free(e->far);
  td_free(e->from_far);
  td_participant_release(&e->of->base);
  td_free(e);
}

static td_status *compile(local *l, const td_part *part, td_program **out) {
  if (!l->sealed)
    return td_program_new(part->graph, part->device, l->states, l->costs, out);
  td_sealed_part sealed;
  td_part opened;
  TD_TRY(td_part_seal(part, &sealed));
  td_status *s = td_part_open(&sealed, part->device, &opened);
  td_sealed_part_deinit(&sealed);
  TD_TRY(s);
  s = td_program_new(opened.graph, opened.device, l->states, l->costs, out);
  td_part_deinit(&opened);
  return s;
}

static bool is_here(const td_roll *roll, const td_device *d) {
  for (int i = 0; i < roll->n_parts; i++)
    if (roll->parts[i].device == d) return true;
  return false;
}

static td_status *mark(bool **far, int32_t n, int32_t edge) {
  if (!*far) *far = td_calloc((size_t)n, sizeof **far);
  if (!*far) return td_oom();
  (*far)[edge] = true;
  return NULL;
}

/* Which edges lead from these parts to others, and which from others here. */
static td_status *find_far(td_enrollment *e, const td_roll *roll) {
  for (int32_t i = 0; i < roll->n_edges; i++) {
    const td_plan_edge *edge = &roll->edges[i];
    bool from = is_here(roll, edge->from), to = is_here(roll, edge->to);
    if (from && !to) TD_TRY(mark(&e->far, roll->n_edges, i));
    if (to && !from) TD_TRY(mark(&e->from_far, roll->n_edges, i));
  }
  e->programs.far = e->far;
  e->programs.from_far = e->from_far;
  return NULL;
}

static td_status *fill(td_enrollment *e, const td_roll *roll) {
  e->programs.at = td_calloc((size_t)roll->n_parts + 1, sizeof(td_program *));
  if (!e->programs.at) return td_oom();
  for (int i = 0; i < roll->n_parts; i++) {
    TD_TRY(compile(e->of, &roll->parts[i], &e->programs.at[i]));
    e->programs.n++;
    TD_TRY(td_program_fits(e->programs.at[i], e->n_args, e->n_rets,
                           roll->n_edges));
  }
  return find_far(e, roll);
}

static td_status *enroll(td_participant *p, const td_roll *roll,
                         td_enrollment **out) {
  local *l = (local *)p;
  td_enrollment *e = td_calloc(1, sizeof *e);
  if (!e) return td_oom();
  td_participant_retain(p);
  e->of = l;
  e->n_args = roll->n_args;
  e->n_rets = roll->n_rets;
  e->programs.n_edges = roll->n_edges;
  e->programs.containers = td_runtime_resources(l->runtime);
  e->programs.own = l->own;
  td_status *s = fill(e, roll);
  if (!td_ok(s)) {
    forget(e);
    return s;
  }
  *out = e;
  return NULL;
}

static int64_t cost(const td_enrollment *e) {
  int64_t sum = 0;
  for (int i = 0; i < e->programs.n; i++) {
    int64_t c = td_program_cost(e->programs.at[i]);
    if (c == 0) return 0;
    sum += c;
  }
  return sum;
}

static void costs(const td_enrollment *e, td_each_cost each, void *arg) {
  for (int i = 0; i < e->programs.n; i++)
    td_program_costs(e->programs.at[i], each, arg);
}

/* ---- portions of steps ---- */

static td_status *begin(td_enrollment *e, int threads, td_portion **out) {
  td_bare_step *b;
  TD_TRY(td_bare_step_new(&e->programs, threads, &b));
  b->base.of = &e->of->base;
  *out = &b->base;
  return NULL;
}

static void start(td_portion *n, const td_portion_start *o) {
  td_bare_step_start((td_bare_step *)n, o);
}

static void cancel(td_portion *n, td_status *cause) {
  td_bare_step_cancel((td_bare_step *)n, cause);
}

static td_status *deliver(td_portion *n, td_key key, td_tensor *value,
                          bool dead) {
  return td_rendezvous_send(n->rendezvous, key, value, dead);
}

static void why(td_portion *n, td_str *out) {
  const td_bare_programs *p = ((td_bare_step *)n)->programs;
  for (int i = 0; i < p->n; i++) td_program_why(p->at[i], out);
}

static bool reset(td_portion *n) {
  return td_bare_step_reset((td_bare_step *)n);
}

static void end(td_portion *n) {
  td_bare_step_free((td_bare_step *)n);
}

static void work(td_portion *n, int64_t until) {
  td_team_work(((td_bare_step *)n)->team, until);
}

static void wake(td_portion *n) {
  td_team_wake(((td_bare_step *)n)->team);
}

static int64_t watch(td_portion *n, td_watch *w) {
  td_bare_step *b = (td_bare_step *)n;
  return td_team_watch(b->team, w, td_cancelled(b->step.stop));
}

/* ---- the session's state here ---- */

static td_status *rename_variable(td_participant *p, const char *name,
                                  const char *to) {
  td_resources *own = ((local *)p)->own;
  td_status *s = to ? td_resources_rename(own, "", name, to)
                    : td_resources_remove(own, "", name);
  if (td_status_code(s) != TD_NOT_FOUND) return s;
  td_status_release(s);
  return NULL;
}

static void add_name(void *arg, const td_resource *r) {
  td_str_addf(arg, "%s%s", ((td_str *)arg)->len ? ", " : "", r->name);
}

static void lives(td_participant *p, const td_device *d, td_str *names) {
  td_resources_list_on(((local *)p)->own, d->incarnation, add_name, names);
}

static void drop(td_participant *p, const td_device *d) {
  td_resources_drop_on(((local *)p)->own, d->incarnation);
}

static void sweep(td_participant *p, const td_makers *alive) {
  td_resources_sweep(((local *)p)->own, alive);
}

static td_status *save(td_participant *p, td_str *out) {
  return td_states_save(((local *)p)->states, out);
}

static td_status *load(td_participant *p, td_bytes from, td_str *waiting) {
  td_states *states = ((local *)p)->states;
  TD_TRY(td_states_load(states, from));
  if (waiting) td_states_list_loaded(states, waiting);
  return NULL;
}

static void clear(td_participant *p) {
  td_resources_reset(((local *)p)->own, NULL);
}

static void close_session(td_participant *p) {
  clear(p);
}

static void free_local(td_participant *p) {
  local *l = (local *)p;
  td_states_release(l->states);
  td_costs_release(l->costs);
  td_resources_free(l->own);
  td_runtime_release(l->runtime);
  td_free(l);
}

/* ---- the participant ---- */

static const td_participant_ops ops = {.enroll = enroll,
                                       .forget = forget,
                                       .cost = cost,
                                       .costs = costs,
                                       .begin = begin,
                                       .start = start,
                                       .cancel = cancel,
                                       .deliver = deliver,
                                       .why = why,
                                       .reset = reset,
                                       .end = end,
                                       .work = work,
                                       .wake = wake,
                                       .watch = watch,
                                       .rename = rename_variable,
                                       .lives = lives,
                                       .drop = drop,
                                       .sweep = sweep,
                                       .save = save,
                                       .load = load,
                                       .clear = clear,
                                       .close = close_session,
                                       .free = free_local};

td_status *td_participant_local_new(td_runtime *rt, const uint64_t session[2],
                                    bool sealed, td_participant **out) {
  local *l = td_calloc(1, sizeof *l);
  if (!l) return td_oom();
  l->base = (td_participant){.ops = &ops,
                             .refs = 1,
                             .task = td_runtime_place(rt),
                             .session = {session[0], session[1]}};
  l->runtime = td_runtime_retain(rt);
  l->sealed = sealed;
  td_status *s = td_states_new(&l->states);
  if (td_ok(s)) s = td_costs_new(&l->costs);
  if (td_ok(s)) s = td_resources_new(&l->own);
  if (!td_ok(s)) {
    td_participant_release(&l->base);
    return s;
  }
  *out = &l->base;
  return NULL;
}
