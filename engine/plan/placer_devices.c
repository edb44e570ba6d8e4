/* placer_devices.c - the devices of a placer, which come and go.
 *
 * A device keeps its index for good, and the index of one that was removed is
 * not given out again: plans and groups may still name it. Devices that say the
 * same about kernels are of one *kind*, a bit in what a group may have.
 *
 * A device that is only *lost* may come back: it keeps what it has and would
 * get, so that nothing moves, and who needs it fails meanwhile.
 *
 * A change takes effect at the next look at the graph: what nothing binds is
 * then placed anew, and so is what fitted nowhere. A bound group stays; when
 * its device is gone, who needs it fails.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/plan/placement_impl.h"

/* ---- kinds --------------------------------------------------------------- */

static bool is_of(const td_placer_kind *k, const td_device *d) {
  return k->devices > 0 && strcmp(k->kernels, d->kernels) == 0 &&
         k->ahead == d->ahead && td_kernel_table_same(k->table, d->table);
}

static td_status *new_kind(td_placer *p, const td_device *d, int *out) {
  int k = 0;
  while (k < TD_PLACER_KINDS && p->kinds[k].devices > 0) k++;
  if (k == TD_PLACER_KINDS)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "more than %d kinds of devices, which differ in their "
                    "kernels; %s is one too many",
                    TD_PLACER_KINDS, d->name);
  char *kernels = td_strdup(d->kernels);
  if (!kernels) return td_oom();
  p->kinds[k] = (td_placer_kind){.kernels = kernels,
                                 .ahead = d->ahead,
                                 .table = td_kernel_table_retain(d->table)};
  *out = k;
  return NULL;
}

static void leave_kind(td_placer_kind *k) {
  if (--k->devices > 0) return;
  td_free(k->kernels);
  td_kernel_table_release(k->table);
  *k = (td_placer_kind){0};
}

/* ---- coming and going ---------------------------------------------------- */

static td_status *enter_kind(td_placer *p, const td_device *d, int *k) {
  *k = 0;
  while (*k < TD_PLACER_KINDS && !is_of(&p->kinds[*k], d)) ++*k;
  if (*k == TD_PLACER_KINDS) TD_TRY(new_kind(p, d, k));
  p->kinds[*k].devices++;
  return NULL;
}

td_status *td_placer_add_device(td_placer *p, td_device *d) {
  td_placer_device own = {.name = d->parsed};
  if (!td_vec_reserve(&p->devices, 1)) return td_oom();
  TD_TRY(enter_kind(p, d, &own.kind));
  own.device = td_device_retain(d);
  p->ahead = p->ahead || d->ahead;
  p->devices.at[p->devices.len++] = own;
  p->changed = true;
  return NULL;
}

static void found(td_placer_device *d) {
  td_status_release(d->lost);
  d->lost = NULL;
}

void td_placer_lose_device(td_placer *p, int32_t i, td_status *why) {
  td_placer_device *d = &p->devices.at[i];
  if (!d->device) return;
  found(d);
  d->lost = td_status_retain(why);
}

td_status *td_placer_replace_device(td_placer *p, int32_t i, td_device *d) {
  td_placer_device *own = &p->devices.at[i];
  int k;
  TD_TRY(enter_kind(p, d, &k));
  leave_kind(&p->kinds[own->kind]);
  own->kind = k;
  td_device_release(own->device);
  own->device = td_device_retain(d);
  found(own);
  p->changed = true;
  return NULL;
}

void td_placer_remove_device(td_placer *p, int32_t i, bool drop) {
  td_placer_device *d = &p->devices.at[i];
  if (!d->device) return;
  leave_kind(&p->kinds[d->kind]);
  td_device_release(d->device);
  d->device = NULL;
  found(d);
  p->changed = true;
  for (int32_t id = 0; drop && id < p->n; id++)
    if (p->at.at[id].device == i) p->at.at[id].device = -1;
}

void td_placer_devices_free(td_placer *p) {
  for (size_t i = 0; i < p->devices.len; i++)
    td_placer_remove_device(p, (int32_t)i, false);
  td_vec_free(&p->devices);
}

/* ---- what changes with them ---------------------------------------------- */

static void read_kinds(td_placer *p, const td_graph *g) {
  for (int32_t id = 0; id < p->n; id++) {
    p->at.at[id].kinds = ~(uint32_t)0;
    p->at.at[id].own = 0;
  }
  for (int32_t id = 0; id < p->n; id++) {
    td_placement *e = td_placer_group_of(p, id);
    e->kinds &= td_placer_group_kinds(p, td_graph_node(g, id));
    e->own |= td_placer_group_own(p, td_graph_node(g, id));
  }
}

static void forget_errors(td_placer *p) {
  for (size_t i = 0; i < p->errors.len; i++) td_status_release(p->errors.at[i]);
  p->errors.len = 0;
}

/* A node that stayed alone because of an error begins anew. Of all else
 * only a bound group that has a device keeps it. */
static td_status *loosen(td_placer *p, const td_node *n) {
  td_placement *e = &p->at.at[n->id];
  bool failed = e->error >= 0;
  if (failed && !e->shared && e->parent == n->id) {
    int32_t consumer = e->consumer;
    TD_TRY(td_placer_group_begin(p, n));
    e->consumer = consumer;
    return NULL;
  }
  e->error = -1;
  if (failed || !td_placer_is_bound(p, n)) e->device = -1;
  return NULL;
}

static td_status *settle_again(td_placer *p, const td_graph *g, int32_t n) {
  for (int32_t id = 0; id < n; id++) TD_TRY(loosen(p, td_graph_node(g, id)));
  /* Those that have no device and failed once, alone or as a group. */
  for (int32_t id = 0; id < n; id++)
    if (td_placer_group_of(p, id)->device < 0)
      TD_TRY(td_placer_group_join(p, g, td_graph_node(g, id)));
  return td_placer_choose_new(p, g, 0, n);
}

td_status *td_placer_devices_settle(td_placer *p, const td_graph *g) {
  int32_t n = p->n;
  if (!p->changed) return NULL;
  read_kinds(p, g);
  forget_errors(p);
  p->n = 0; /* all are new, as far as errors are concerned */
  td_status *s = settle_again(p, g, n);
  p->n = n;
  p->changed = !td_ok(s);
  return s;
}
