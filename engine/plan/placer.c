/* placer.c - which device each node runs on.
 *
 * The whole graph is placed, never one signature. New nodes are placed in three
 * rounds: each is read by itself (what it requests, where it has kernels),
 * joins the group of those that it must be with (placer_group.c), and then the
 * groups choose a device (placer_choose.c). A group that is bound, by a state
 * or by having several members, keeps its device for the life of the session; a
 * free node keeps it until devices come or go (placer_devices.c). A node that
 * fits nowhere remembers why, so that one bad line does not take the rest of
 * the graph with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/placement_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------- */

/* A type alone, or a request. */
static td_status *read_first(td_placer *p, const char *first) {
  char device[64];
  if (!first) return NULL;
  p->has_first = true;
  if (strchr(first, '/')) return td_device_name_parse(first, &p->first);
  snprintf(device, sizeof device, "/device:%s", first);
  return td_device_name_parse(device, &p->first);
}

static td_status *take_devices(td_placer *p, const td_placer_options *o) {
  for (int i = 0; i < o->n_devices; i++)
    TD_TRY(td_placer_add_device(p, o->devices[i]));
  p->changed = false;
  return NULL;
}

td_status *td_placer_new(const td_placer_options *o, td_placer **out) {
  *out = NULL;
  if (o->n_devices < 1)
    return td_error(TD_INVALID_ARGUMENT, "there is no device to place on");
  td_placer *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->soft = o->soft;
  p->spread = o->spread;
  td_map_init(&p->request_of);
  td_status *s = read_first(p, o->first);
  if (td_ok(s)) s = take_devices(p, o);
  if (td_ok(s))
    *out = p;
  else
    td_placer_free(p);
  return s;
}

void td_placer_free(td_placer *p) {
  if (!p) return;
  td_placer_devices_free(p);
  for (size_t i = 0; i < p->errors.len; i++) td_status_release(p->errors.at[i]);
  td_vec_free(&p->at);
  td_vec_free(&p->kept);
  td_vec_free(&p->sparse);
  td_vec_free(&p->marks);
  td_vec_free(&p->requests);
  td_vec_free(&p->errors);
  td_map_deinit(&p->request_of);
  td_frames_free(&p->frames);
  td_free(p);
}

/* ---- nodes that are gone ------------------------------------------------- */

/* now[old id]: the id, -1 when the node is gone. Serials grow with ids. */
static void find_again(const td_placer *p, const td_graph *g, int32_t *now) {
  int32_t id = 0, n = td_graph_size(g);
  for (int32_t old = 0; old < p->n; old++) {
    uint64_t serial = p->at.at[old].serial;
    while (id < n && td_graph_node(g, id)->serial < serial) id++;
    bool there = id < n && td_graph_node(g, id)->serial == serial;
    now[old] = there ? id : -1;
  }
}

static int32_t moved(const int32_t *now, int32_t old, int32_t otherwise) {
  return old >= 0 && now[old] >= 0 ? now[old] : otherwise;
}

/* Moves the placement of a node that stays to its new id. `heir`, by the old id
 * of a group's first node: the new id of the oldest member that stays, which
 * takes over what the first node knew of the group. */
static void inherit(td_placer *p, int32_t old, const int32_t *now,
                    int32_t *heir) {
  int32_t first = td_placer_group(p, old), id = now[old];
  td_placement e = p->at.at[old], group = p->at.at[first];
  if (heir[first] < 0) {
    heir[first] = id;
    if (first != old) {
      group.serial = e.serial;
      group.consumer = e.consumer;
      e = group;
    }
  }
  e.parent = heir[first];
  e.requester = moved(now, e.requester, id);
  e.consumer = moved(now, e.consumer, e.consumer < 0 ? e.consumer : -1);
  if (e.with >= 0 && now[e.with] < 0)
    e.why = e.device == 0 ? TD_PLACER_DEFAULT : TD_PLACER_ABLE;
  e.with = moved(now, e.with, -1);
  p->kept.at[id] = e;
}

/* Drops the placements of removed nodes; those that stay keep their devices. */
static td_status *shrink(td_placer *p, const td_graph *g) {
  uint64_t removals = td_graph_removals(g);
  if (p->removals == removals) return NULL;
  size_t n = (size_t)p->n;
  int32_t *now = td_calloc(2 * n + 1, sizeof *now), *heir = now + n;
  p->kept.len = 0;
  if (!now || !td_vec_reserve(&p->kept, n)) {
    td_free(now);
    return td_oom();
  }
  find_again(p, g, now);
  for (size_t i = 0; i < n; i++) heir[i] = -1;
  int32_t kept = 0;
  for (int32_t old = 0; old < p->n; old++) {
    if (now[old] < 0) continue;
    inherit(p, old, now, heir);
    kept++;
  }
  if (kept) memcpy(p->at.at, p->kept.at, (size_t)kept * sizeof *p->at.at);
  p->n = kept;
  p->removals = removals;
  p->n_searched = 0;
  p->sparse.len = 0;
  td_free(now);
  return NULL;
}

/* ---- new nodes ----------------------------------------------------------- */

static td_status *find_sparse(td_placer *p, const td_graph *g) {
  for (; p->n_searched < p->n; p->n_searched++)
    if (td_graph_node(g, p->n_searched)->op->flags & TD_SPARSE &&
        !td_vec_push(&p->sparse, p->n_searched))
      return td_oom();
  return NULL;
}

const int32_t *td_placer_sparse(const td_placer *p, size_t *n) {
  *n = p->sparse.len;
  return p->sparse.at;
}

td_prune_mark *td_placer_marks(td_placer *p) {
  size_t n = (size_t)p->n + 1, old = p->marks.len;
  if (n > old) {
    if (!td_vec_reserve(&p->marks, n - old)) return NULL;
    memset(p->marks.at + old, 0, (n - old) * sizeof *p->marks.at);
    p->marks.len = n;
  }
  return p->marks.at;
}

int32_t td_placer_where(td_placer *p, const td_node *n) {
  const td_placement *group = td_placer_group_of(p, n->id);
  return td_placer_has(p, group->kinds, group->device) ? group->device : -1;
}

td_status *td_placer_grow(td_placer *p, const td_graph *g) {
  TD_TRY(shrink(p, g));
  TD_TRY(td_placer_devices_settle(p, g));
  int32_t old = p->n, n = td_graph_size(g);
  p->at.len = (size_t)old;
  if (!td_vec_reserve(&p->at, (size_t)(n - old))) return td_oom();
  p->at.len = (size_t)n;
  for (int32_t id = old; id < n; id++)
    TD_TRY(td_placer_group_begin(p, td_graph_node(g, id)));
  for (int32_t id = old; id < n; id++)
    td_placer_group_consumers(p, td_graph_node(g, id));
  for (int32_t id = old; id < n; id++)
    TD_TRY(td_placer_group_join(p, g, td_graph_node(g, id)));
  TD_TRY(td_placer_choose_new(p, g, old, n));
  p->n = n;
  return find_sparse(p, g);
}

td_status *td_placer_why_not(const td_placer *p, const td_node *n) {
  int32_t error = p->at.at[td_placer_group(p, n->id)].error;
  if (error >= 0) return td_status_retain(p->errors.at[error]);
  return td_placer_explain_removed(p, n);
}

td_status *td_placer_extend(td_placer *p, const td_graph *g) {
  int32_t old = p->n;
  TD_TRY(td_placer_grow(p, g));
  for (int32_t id = old; id < p->n; id++)
    if (td_placer_where(p, td_graph_node(g, id)) < 0)
      return td_placer_why_not(p, td_graph_node(g, id));
  return NULL;
}

/* ---- frames -------------------------------------------------------------- */

td_status *td_placer_frames(td_placer *p, td_graph *g, const td_frames **out) {
  uint64_t version = td_graph_version(g);
  *out = NULL;
  if (!p->checked || p->version != version) {
    p->checked = false;
    td_frames_free(&p->frames);
    td_status *s = td_frames_check(g, &p->frames);
    if (td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
    td_status_release(s);
    p->checked = true;
    p->version = version;
  }
  if (p->frames.at) *out = &p->frames;
  return NULL;
}
