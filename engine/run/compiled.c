/* compiled.c - signatures planned and compiled; their steps kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/compiled.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/region.h"
#include "engine/run/session_devices.h"
#include "engine/run/session_impl.h"

/* ---- steps kept for the next ---- */

static void free_step(td_session_step *step) {
  for (int i = 0; step->portions && i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if (n) n->of->ops->end(n);
  }
  td_free(step->portions);
  td_free(step->args);
  td_free(step->rets);
  td_free(step->rets_dead);
  pthread_mutex_destroy(&step->lock);
  td_free(step);
}

static td_status *begin_portions(const td_compiled *c, int threads,
                                 td_session_step *step) {
  size_t n = (size_t)c->n_enrollments;
  step->portions = td_calloc(n + 1, sizeof *step->portions);
  if (!step->portions) return td_oom();
  for (; step->n_portions < c->n_enrollments; step->n_portions++) {
    int i = step->n_portions;
    const td_participant_ops *ops = c->participants[i]->ops;
    TD_TRY(ops->begin(c->enrollments[i], threads, &step->portions[i].portion));
  }
  return NULL;
}

static td_status *new_step(const td_compiled *c, int threads,
                           td_session_step **out) {
  td_session_step *step = td_calloc(1, sizeof *step);
  if (!step) return td_oom();
  pthread_mutex_init(&step->lock, NULL);
  td_status *s = NULL;
  step->args = td_calloc((size_t)c->n_feeds + 1, sizeof *step->args);
  step->rets = td_calloc((size_t)c->n_fetches + 1, sizeof *step->rets);
  step->rets_dead = td_calloc((size_t)c->n_fetches + 1, sizeof(bool));
  if (!step->args || !step->rets || !step->rets_dead) s = td_oom();
  if (td_ok(s)) s = begin_portions(c, threads, step);
  if (!td_ok(s)) {
    free_step(step);
    return s;
  }
  *out = step;
  return NULL;
}

td_status *td_compiled_take_step(td_compiled *c, int threads,
                                 td_session_step **out) {
  pthread_mutex_lock(&c->lock);
  *out = c->idle;
  if (*out) c->idle = (*out)->next;
  pthread_mutex_unlock(&c->lock);
  return *out ? NULL : new_step(c, threads, out);
}

void td_compiled_give_step(td_compiled *c, td_session_step *step, bool again) {
  if (!again) {
    free_step(step);
    return;
  }
  pthread_mutex_lock(&c->lock);
  step->next = c->idle;
  c->idle = step;
  pthread_mutex_unlock(&c->lock);
}

/* ---- the signature ---- */

static const td_node *node_at(const td_compiled *c, int i) {
  if (i < c->n_feeds) return c->feeds[i].node;
  i -= c->n_feeds;
  return i < c->n_fetches ? c->fetches[i].node : c->targets[i - c->n_fetches];
}

static int nodes_of(const td_compiled *c) {
  return c->feeds && c->fetches && c->targets
             ? c->n_feeds + c->n_fetches + c->n_targets
             : 0;
}

td_status *td_compiled_check(const td_compiled *c) {
  if (TD_LIKELY(td_graph_removals(c->graph) == 0)) return NULL;
  for (int i = 0; i < nodes_of(c); i++)
    if (node_at(c, i)->gone) return td_region_gone_error(node_at(c, i));
  return NULL;
}

td_status *td_compiled_check_feed(const td_compiled *c, int i,
                                  const td_tensor *t) {
  td_edge e = c->feeds[i];
  td_shape_text want, given;
  if (t->dtype == td_edge_dtype(e) &&
      td_shape_compatible(&t->shape, td_edge_shape(e)))
    return NULL;
  return td_node_blame(
      td_error(TD_INVALID_ARGUMENT, "feed \"%s:%d\" expects %s %s, given %s %s",
               e.node->name, e.port, td_dtype_name(td_edge_dtype(e)),
               td_shape_str(td_edge_shape(e), &want), td_dtype_name(t->dtype),
               td_shape_str(&t->shape, &given)),
      e.node);
}

/* ---- its devices ---- */

bool td_compiled_uses(const td_compiled *c, const td_device *d) {
  for (int i = 0; i < c->plan->n_parts; i++)
    if (c->plan->parts[i].device == d) return true;
  return false;
}

const td_device *td_compiled_lost(const td_compiled *c) {
  for (int i = 0; i < c->plan->n_parts; i++)
    if (TD_UNLIKELY(td_device_gone(c->plan->parts[i].device)))
      return c->plan->parts[i].device;
  return NULL;
}

td_status *td_compiled_unavailable(td_session *s, const td_device *d) {
  td_status *why;
  td_members_has(&s->members, d, &why);
  td_status *st = why ? td_error(TD_UNAVAILABLE, "%s", td_status_message(why))
                      : td_error(TD_UNAVAILABLE,
                                 "device %s, which the step was planned for, "
                                 "was removed",
                                 d->name);
  td_status_release(why);
  return td_status_at(st, NULL, NULL, NULL, d->name);
}

/* ---- errors ---- */

td_status *td_compiled_blame(const td_compiled *c, td_status *s) {
  const char *name = td_status_node(s);
  const td_node *n = NULL;
  if (!name[0] || td_status_origin(s)[0]) return s;
  for (int i = 0; !n && i < c->plan->n_parts; i++)
    n = td_graph_find(c->plan->parts[i].graph, name);
  return n ? td_status_at(s, NULL, NULL, n->origin, NULL) : s;
}

/* ---- planning and compiling ---- */

static td_status *plan_elsewhere(td_session *s, const td_signature *sig,
                                 bool partial, td_plan **out) {
  if (!partial) return s->planner->plan(s->planner, sig, out);
  return td_error(TD_UNIMPLEMENTED,
                  "a step in several calls needs its session's master in this "
                  "process, where it is the target's: make a session without "
                  "a target and attach the target to it (sess:attach)");
}

td_status *td_compiled_plan(td_session *s, const td_signature *sig,
                            bool partial, td_plan **out) {
  if (s->planner) return plan_elsewhere(s, sig, partial, out);
  td_plan_request r = {.graph = s->graph,
                       .feeds = sig->feeds,
                       .n_feeds = sig->n_feeds,
                       .fetches = sig->fetches,
                       .n_fetches = sig->n_fetches,
                       .targets = sig->targets,
                       .n_targets = sig->n_targets,
                       .placer = s->placer,
                       .passes_off = s->options.passes_off,
                       .verify = s->options.verify,
                       .partial = partial,
                       .dump = s->options.dump};
  pthread_mutex_lock(&s->plan_lock);
  td_status *st = td_session_devices_refresh(s);
  r.devices = s->devices;
  r.n_devices = s->n_devices;
  if (td_ok(st)) st = td_plan_new(&r, out);
  pthread_mutex_unlock(&s->plan_lock);
  return st;
}

static td_status *copy_edges(const td_edge *from, int n, td_edge **to) {
  *to = td_calloc((size_t)n + 1, sizeof **to);
  if (!*to) return td_oom();
  if (n) memcpy(*to, from, (size_t)n * sizeof **to);
  return NULL;
}

/* The signature, and what it needs to be looked at later. */
static td_status *copy_signature(const td_signature *sig, td_compiled *c) {
  c->n_feeds = sig->n_feeds;
  c->n_fetches = sig->n_fetches;
  c->n_targets = sig->n_targets;
  TD_TRY(copy_edges(sig->feeds, sig->n_feeds, &c->feeds));
  TD_TRY(copy_edges(sig->fetches, sig->n_fetches, &c->fetches));
  c->targets = td_calloc((size_t)sig->n_targets + 1, sizeof *c->targets);
  if (!c->targets) return td_oom();
  for (int i = 0; i < sig->n_targets; i++) c->targets[i] = sig->targets[i];
  for (int i = 0; i < nodes_of(c); i++) td_region_retain(node_at(c, i)->region);
  c->held = true;
  return NULL;
}

/* The parts of the plan that are for one participant. */
static td_status *enroll(const td_compiled *c, td_participant *p,
                         const td_part *parts, int n, td_enrollment **out) {
  td_roll roll = {.parts = parts,
                  .n_parts = n,
                  .edges = c->plan->edges,
                  .n_edges = c->plan->n_edges,
                  .n_args = c->n_feeds,
                  .n_rets = c->n_fetches,
                  .signature = c->signature};
  return p->ops->enroll(p, &roll, out);
}

/* Who has each part, retained. */
static td_status *find_owners(td_session *s, const td_compiled *c,
                              td_participant **owners) {
  for (int i = 0; i < c->plan->n_parts; i++) {
    const td_device *d = c->plan->parts[i].device;
    owners[i] = td_members_of(&s->members, d);
    if (!owners[i]) return td_compiled_unavailable(s, d);
  }
  return NULL;
}

/* Puts the parts that `who` has from `at` on beside one another; how many. */
static int gather_parts(td_part *parts, td_participant **owners, int n, int at,
                        const td_participant *who) {
  int end = at;
  for (int i = at; i < n; i++) {
    if (owners[i] != who) continue;
    td_part part = parts[i];
    td_participant *owner = owners[i];
    parts[i] = parts[end];
    owners[i] = owners[end];
    parts[end] = part;
    owners[end++] = owner;
  }
  return end - at;
}

static td_status *find_ends(td_compiled *c, td_participant *const *owners) {
  size_t n = (size_t)c->plan->n_edges + 1;
  if (c->n_enrollments < 2) return NULL;
  c->receivers = td_calloc(n, sizeof(int32_t));
  c->senders = td_calloc(n, sizeof(int32_t));
  if (!c->receivers || !c->senders) return td_oom();
  for (int32_t e = 0; e < c->plan->n_edges; e++) {
    const td_plan_edge *edge = &c->plan->edges[e];
    c->receivers[e] = c->senders[e] = -1;
    for (int i = 0, at = 0; i < c->plan->n_parts; i++) {
      if (owners[i] != c->participants[at]) at++;
      if (c->plan->parts[i].device == edge->to) c->receivers[e] = at;
      if (c->plan->parts[i].device == edge->from) c->senders[e] = at;
    }
  }
  return NULL;
}

/* Enrolls what `who` has of the parts from *at on, which is moved behind them.
 */
static td_status *enroll_with(td_compiled *c, td_participant *who,
                              td_participant **owners, int *at) {
  td_part *parts = c->plan->parts;
  int n = gather_parts(parts, owners, c->plan->n_parts, *at, who);
  if (n == 0) return NULL;
  TD_TRY(enroll(c, who, parts + *at, n, &c->enrollments[c->n_enrollments]));
  c->participants[c->n_enrollments++] = td_participant_retain(who);
  *at += n;
  return NULL;
}

/* This process comes first. */
static td_status *enroll_all(td_session *s, td_compiled *c,
                             td_participant **owners) {
  int at = 0;
  TD_TRY(enroll_with(c, td_members_here(&s->members), owners, &at));
  while (at < c->plan->n_parts) TD_TRY(enroll_with(c, owners[at], owners, &at));
  return find_ends(c, owners);
}

static td_status *enroll_parts(td_session *s, td_compiled *c) {
  size_t n = (size_t)c->plan->n_parts + 1;
  td_participant **owners = td_calloc(n, sizeof(td_participant *));
  c->enrollments = td_calloc(n, sizeof(td_enrollment *));
  c->participants = td_calloc(n, sizeof(td_participant *));
  bool room = owners && c->enrollments && c->participants;
  td_status *st = room ? find_owners(s, c, owners) : td_oom();
  if (td_ok(st)) st = enroll_all(s, c, owners);
  for (size_t i = 0; owners && i < n; i++) td_participant_release(owners[i]);
  td_free(owners);
  return st;
}

int32_t td_compiled_receiver(const td_compiled *c, int32_t edge) {
  if (!c->receivers || edge < 0 || edge >= c->plan->n_edges) return -1;
  return c->receivers[edge];
}

int32_t td_compiled_sender(const td_compiled *c, int32_t edge) {
  if (!c->senders || edge < 0 || edge >= c->plan->n_edges) return -1;
  return c->senders[edge];
}

td_status *td_compiled_new(td_session *s, const td_signature *sig, bool partial,
                           td_compiled **out) {
  td_compiled *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->refs = 1;
  c->signature = __atomic_add_fetch(&s->signatures, 1, __ATOMIC_RELAXED);
  c->graph = td_graph_retain(s->graph);
  pthread_mutex_init(&c->lock, NULL);
  td_status *st = copy_signature(sig, c);
  if (td_ok(st)) st = td_compiled_plan(s, sig, partial, &c->plan);
  if (td_ok(st)) st = enroll_parts(s, c);
  if (!td_ok(st)) {
    td_compiled_release(c);
    return st;
  }
  *out = c;
  return NULL;
}

void td_compiled_release(td_compiled *c) {
  if (!c || __atomic_fetch_sub(&c->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (td_session_step *step; (step = c->idle);) {
    c->idle = step->next;
    free_step(step);
  }
  for (int i = 0; i < c->n_enrollments; i++) {
    c->participants[i]->ops->forget(c->enrollments[i]);
    td_participant_release(c->participants[i]);
  }
  td_free(c->enrollments);
  td_free(c->participants);
  td_free(c->receivers);
  td_free(c->senders);
  td_plan_free(c->plan);
  for (int i = 0; c->held && i < nodes_of(c); i++)
    td_region_release(node_at(c, i)->region);
  td_free(c->feeds);
  td_free(c->fetches);
  td_free(c->targets);
  td_free(c->key);
  td_graph_release(c->graph);
  pthread_mutex_destroy(&c->lock);
  td_free(c);
}
