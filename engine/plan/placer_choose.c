/* placer_choose.c - the device of a group, once it is known what it may have.
 *
 * Groups that something binds (a request, a member with a state, a peer) choose
 * first: what was requested, else the first device with a kernel. Then the free
 * nodes follow others, so that values cross as seldom as can be:
 *
 *   Switch, Identity, Shape, ...   the device of their input
 *   a Const with one consumer      the device of that consumer
 *   all others                     the first device with a kernel
 *
 * A request for a task is kept to, with soft placement too: it changes the type
 * of device or its number, never the task.
 *
 * For tests there is `spread`: who requested nothing follows nobody and goes by
 * a hash of its name to any device with a kernel, variables and the nodes of
 * loops too, so that every edge of some graph crosses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/plan/placement_impl.h"

static int32_t count(const td_placer *p) {
  return (int32_t)p->devices.len;
}

static bool suits(const td_placer *p, int32_t d, const td_device_name *request,
                  uint32_t kinds) {
  return td_placer_may(p, kinds, d) &&
         (!request || td_device_name_matches(request, &p->devices.at[d].name));
}

/* The first that suits: of those that are tried before others, of those that go
 * ahead and have a kernel of their own (`own`), of all. */
static int32_t choose(const td_placer *p, const td_device_name *request,
                      uint32_t kinds, uint32_t own) {
  for (int32_t d = 0; p->has_first && d < count(p); d++)
    if (td_device_name_matches(&p->first, &p->devices.at[d].name) &&
        suits(p, d, request, kinds))
      return d;
  for (int32_t d = 0; own & kinds && d < count(p); d++)
    if (suits(p, d, request, own & kinds)) return d;
  for (int32_t d = 0; d < count(p); d++)
    if (suits(p, d, request, kinds)) return d;
  return -1;
}

/* One of those with a kernel, the same in every session with these devices. */
static int32_t choose_by_name(const td_placer *p, const td_node *n,
                              uint32_t kinds) {
  uint64_t suitable = 0;
  for (int32_t d = 0; d < count(p); d++) suitable += suits(p, d, NULL, kinds);
  if (suitable == 0) return -1;
  uint64_t skip = td_hash(n->name, strlen(n->name), 0) % suitable;
  for (int32_t d = 0;; d++)
    if (suits(p, d, NULL, kinds) && skip-- == 0) return d;
}

/* Soft placement: another device, of the same task where one was asked for. */
static int32_t choose_soft(const td_placer *p, td_device_name request,
                           uint32_t kinds, uint32_t own) {
  request.type[0] = '\0';
  request.index = -1;
  return choose(p, &request, kinds, own);
}

static td_status *decide(td_placer *p, const td_graph *g, int32_t id) {
  td_placement *e = &p->at.at[id];
  const td_device_name *request =
      e->request < 0 ? NULL : &p->requests.at[e->request];
  bool spread = p->spread && !request;
  e->device = spread ? choose_by_name(p, td_graph_node(g, id), e->kinds)
                     : choose(p, request, e->kinds, e->own);
  e->why = request  ? TD_PLACER_REQUESTED
           : spread ? TD_PLACER_SPREAD
                    : TD_PLACER_DEFAULT;
  if (e->why == TD_PLACER_DEFAULT && e->device != choose(p, NULL, ~0U, e->own))
    e->why = TD_PLACER_ABLE;
  if (e->device < 0 && request && p->soft) {
    e->device = choose_soft(p, *request, e->kinds, e->own);
    e->why = TD_PLACER_FALLBACK;
  }
  if (e->device >= 0) return NULL;
  e->why = TD_PLACER_NOT;
  return td_placer_group_fail(
      p, e, td_placer_explain_none(p, g, td_graph_node(g, id)));
}

/* Places node `id` with `leader` when it has a kernel there. */
static bool follow(td_placer *p, int32_t id, int32_t leader,
                   td_placer_why why) {
  td_placement *e = &p->at.at[id];
  int32_t device = leader < 0 ? -1 : td_placer_group_of(p, leader)->device;
  if (device < 0 || p->spread || !td_placer_may(p, e->kinds, device))
    return false;
  e->device = device;
  e->why = (uint8_t)why;
  e->with = leader;
  return true;
}

static bool is_source(const td_placement *e, const td_node *n) {
  return n->n_in == 0 && n->n_out > 0 && e->consumer >= 0 &&
         !(n->op->flags & TD_STATEFUL);
}

/* Does the node give host memory only, about an input that is on the device, as
 * Shape does? */
static bool is_metadata(const td_node *n) {
  if (n->n_in == 0 || n->op->n_out == 0 || n->op->in[0].host) return false;
  for (int i = 0; i < n->op->n_out; i++)
    if (!n->op->out[i].host) return false;
  return true;
}

/* The input that `n` goes with, -1 when it goes by itself. */
static int32_t leader_of(const td_node *n) {
  switch (n->op->kind) {
  case TD_OP_SWITCH:
  case TD_OP_MERGE:
  case TD_OP_ENTER:
  case TD_OP_EXIT:
  case TD_OP_NEXT:
  case TD_OP_COND:
  case TD_OP_IDENTITY:
    break;
  default:
    if (!is_metadata(n)) return -1;
  }
  return n->n_in > 0 && n->in[0].node ? n->in[0].node->id : -1;
}

static bool is_free(const td_placement *e) {
  return e->device < 0 && e->error < 0;
}

td_status *td_placer_choose_new(td_placer *p, const td_graph *g, int32_t begin,
                                int32_t end) {
  for (int32_t id = begin; id < end; id++) {
    const td_placement *e = &p->at.at[id];
    bool first = e->request >= 0 || td_placer_is_bound(p, td_graph_node(g, id));
    if (e->parent == id && is_free(e) && first) TD_TRY(decide(p, g, id));
  }
  for (int32_t id = begin; id < end; id++) {
    const td_node *n = td_graph_node(g, id);
    const td_placement *e = &p->at.at[id];
    if (e->parent != id || !is_free(e) || is_source(e, n)) continue;
    if (!follow(p, id, leader_of(n), TD_PLACER_INPUT)) TD_TRY(decide(p, g, id));
  }
  for (int32_t id = begin; id < end; id++) {
    const td_placement *e = &p->at.at[id];
    if (e->parent != id || !is_free(e)) continue;
    if (!follow(p, id, e->consumer, TD_PLACER_CONSUMER))
      TD_TRY(decide(p, g, id));
  }
  return NULL;
}

/* ---- nodes out of functions ---------------------------------------------- */

static bool has_kernel(const td_placer *p, uint32_t kinds, int32_t device) {
  return device >= 0 && td_placer_may(p, kinds, device);
}

static td_status *place_as_requested(td_placer *p, td_node *n, uint32_t kinds) {
  int32_t request;
  uint32_t own = td_placer_group_own(p, n);
  TD_TRY(td_placer_group_request(p, n->device, &request));
  n->placed = choose(p, &p->requests.at[request], kinds, own);
  if (n->placed < 0 && p->soft)
    n->placed = choose_soft(p, p->requests.at[request], kinds, own);
  if (n->placed >= 0) return NULL;
  return td_placer_explain_inlined(p, n, request);
}

static td_status *put(td_placer *p, td_node *n, int32_t with) {
  uint32_t kinds = td_placer_group_kinds(p, n);
  for (int i = 0; i < td_placer_group_peers(n); i++) {
    const td_node *other = td_placer_group_peer(n->graph, n, i);
    if (!other || !has_kernel(p, kinds, other->placed)) continue;
    n->placed = other->placed;
    return NULL;
  }
  if (n->device[0]) return place_as_requested(p, n, kinds);
  if (p->spread)
    n->placed = choose_by_name(p, n, kinds);
  else
    n->placed = has_kernel(p, kinds, with)
                    ? with
                    : choose(p, NULL, kinds, td_placer_group_own(p, n));
  if (n->placed >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "no device has a kernel for it, inside a function");
}

td_status *td_placer_choose_inlined(td_placer *p, td_node *n, int32_t with) {
  td_status *s = put(p, n, with);
  if (td_ok(s) && p->devices.at[n->placed].lost)
    s = td_placer_explain_lost(p, n->placed);
  return td_node_blame(s, n);
}
