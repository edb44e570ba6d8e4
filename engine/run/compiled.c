/* compiled.c - signatures planned and compiled; their steps kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/compiled.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/region.h"
#include "engine/run/session_impl.h"

/* ---- steps kept for the next ---- */

static void free_step(td_session_step *step) {
  td_team_release(step->team);
  td_rendezvous_free(step->rendezvous);
  td_cancel_release(step->base.cancel);
  td_free(step->args);
  td_free(step->rets);
  td_free(step->rets_dead);
  pthread_mutex_destroy(&step->lock);
  pthread_cond_destroy(&step->wake);
  td_free(step);
}

static td_status *new_step(const td_compiled *c, int threads,
                           td_session_step **out) {
  td_session_step *step = td_calloc(1, sizeof *step);
  if (!step) return td_oom();
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&step->lock, NULL);
  pthread_cond_init(&step->wake, &attr);
  pthread_condattr_destroy(&attr);
  td_status *s = NULL;
  step->args = td_calloc((size_t)c->n_feeds + 1, sizeof *step->args);
  step->rets = td_calloc((size_t)c->n_fetches + 1, sizeof *step->rets);
  step->rets_dead = td_calloc((size_t)c->n_fetches + 1, sizeof(bool));
  if (!step->args || !step->rets || !step->rets_dead) s = td_oom();
  if (td_ok(s)) s = td_rendezvous_new(c->plan->n_edges, &step->rendezvous);
  if (td_ok(s)) s = td_team_new(threads, &step->team);
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

/* ---- planning and compiling ---- */

td_status *td_compiled_plan(td_session *s, const td_signature *sig,
                            bool partial, td_plan **out) {
  td_plan_request r = {.graph = s->graph,
                       .feeds = sig->feeds,
                       .n_feeds = sig->n_feeds,
                       .fetches = sig->fetches,
                       .n_fetches = sig->n_fetches,
                       .targets = sig->targets,
                       .n_targets = sig->n_targets,
                       .placer = s->placer,
                       .devices = s->devices,
                       .n_devices = s->n_devices,
                       .passes_off = s->options.passes_off,
                       .verify = s->options.verify,
                       .roundtrip = s->options.roundtrip,
                       .partial = partial,
                       .dump = s->options.dump};
  pthread_mutex_lock(&s->plan_lock);
  td_status *st = td_plan_new(&r, out);
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

static td_status *compile_parts(td_session *s, td_compiled *c) {
  c->programs = td_calloc((size_t)c->plan->n_parts + 1, sizeof *c->programs);
  if (!c->programs) return td_oom();
  for (int i = 0; i < c->plan->n_parts; i++) {
    td_part *part = &c->plan->parts[i];
    TD_TRY(
        td_program_new(part->graph, part->device, s->states, &c->programs[i]));
    c->n_programs++;
  }
  return NULL;
}

td_status *td_compiled_new(td_session *s, const td_signature *sig, bool partial,
                           td_compiled **out) {
  td_compiled *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->refs = 1;
  c->graph = td_graph_retain(s->graph);
  pthread_mutex_init(&c->lock, NULL);
  td_status *st = copy_signature(sig, c);
  if (td_ok(st)) st = td_compiled_plan(s, sig, partial, &c->plan);
  if (td_ok(st)) st = compile_parts(s, c);
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
  for (int i = 0; i < c->n_programs; i++) td_program_free(c->programs[i]);
  td_free(c->programs);
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
