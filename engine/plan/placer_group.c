/* placer_group.c - colocation: which nodes must share a device, and which one
 * they may have.
 *
 * A group is a set of a union-find: it begins with one node and joins those of
 * its peers, the nodes it must be with. Each peer brings a constraint: the
 * device it has already, the device that its user requested, the kinds of
 * devices that it has kernels for. The group may have what all of these allow:
 *
 *   W = VarHandleOp            requested "/device:GPU:*", kernels for CPU, GPU
 *   ReadVariableOp (W)         requested nothing, kernels for CPU, GPU
 *   ResourceApplyFoo (W)       kernels for CPU: no device is left, an error
 *
 * Requests that contradict each other are an error; with soft placement the
 * node that joins gives up its own, but never one for a task that takes no
 * part. A node whose constraint does not fit its
 * peers stays alone and remembers the error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/device/kernel_rows.h"
#include "engine/plan/placement_impl.h"

td_status *td_placer_group_fail(td_placer *p, td_placement *group,
                                td_status *s) {
  if (td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  if (!td_vec_push(&p->errors, s)) {
    td_status_release(s);
    return td_oom();
  }
  group->error = (int32_t)p->errors.len - 1;
  return NULL;
}

/* ---- a node by itself ---------------------------------------------------- */

/* Control flow, _Send and the like are done by the executor, on any device. */
static bool runs_anywhere(const td_node *n) {
  td_op_kind kind = n->op->kind;
  return kind != TD_OP_PLAIN && kind != TD_OP_CONST && kind != TD_OP_IDENTITY;
}

static bool has_kernel(const td_placer_kind *k, const td_node *n) {
  return runs_anywhere(n) || td_kernel_table_has(k->table, k->kernels, n);
}

uint32_t td_placer_group_kinds(const td_placer *p, const td_node *n) {
  uint32_t kinds = 0;
  for (int k = 0; k < TD_PLACER_KINDS; k++)
    if (p->kinds[k].devices > 0 && has_kernel(&p->kinds[k], n))
      kinds |= (uint32_t)1 << k;
  return kinds;
}

uint32_t td_placer_group_own(const td_placer *p, const td_node *n) {
  uint32_t own = 0;
  for (int k = 0; p->ahead && k < TD_PLACER_KINDS; k++)
    if (p->kinds[k].devices > 0 && p->kinds[k].ahead &&
        td_kernel_is_own(n, p->kinds[k].kernels))
      own |= (uint32_t)1 << k;
  return own;
}

static td_status *add_request(td_placer *p, const td_device_name *request,
                              int32_t *out) {
  if (!td_vec_push(&p->requests, *request)) return td_oom();
  *out = (int32_t)p->requests.len - 1;
  return NULL;
}

static bool same_name(const td_device_name *a, const td_device_name *b) {
  return strcmp(a->job, b->job) == 0 && strcmp(a->type, b->type) == 0 &&
         a->replica == b->replica && a->task == b->task && a->index == b->index;
}

/* *out becomes the index of `request`, a new one only if `request` differs from
 * those at *out and at `other`. */
static td_status *set_request(td_placer *p, const td_device_name *request,
                              int32_t other, int32_t *out) {
  if (same_name(request, &p->requests.at[*out])) return NULL;
  if (!same_name(request, &p->requests.at[other]))
    return add_request(p, request, out);
  *out = other;
  return NULL;
}

td_status *td_placer_group_request(td_placer *p, const char *text,
                                   int32_t *out) {
  intptr_t known = (intptr_t)td_map_get(&p->request_of, text);
  td_device_name request;
  if (known) {
    *out = (int32_t)(known - 1);
    return NULL;
  }
  TD_TRY(td_device_name_parse(text, &request));
  TD_TRY(add_request(p, &request, out));
  return td_map_put(&p->request_of, text, (void *)((intptr_t)*out + 1))
             ? NULL
             : td_oom();
}

td_status *td_placer_group_begin(td_placer *p, const td_node *n) {
  td_placement *e = &p->at.at[n->id];
  *e = (td_placement){.serial = n->serial,
                      .parent = n->id,
                      .device = -1,
                      .request = -1,
                      .requester = n->id,
                      .kinds = td_placer_group_kinds(p, n),
                      .own = td_placer_group_own(p, n),
                      .with = -1,
                      .consumer = -1,
                      .error = -1};
  if (!n->device[0]) return NULL;
  td_status *s = td_placer_group_request(p, n->device, &e->request);
  return td_ok(s) ? NULL : td_placer_group_fail(p, e, td_node_blame(s, n));
}

void td_placer_group_consumers(td_placer *p, const td_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i].node) continue;
    td_placement *from = &p->at.at[n->in[i].node->id];
    if (from->consumer == -1) from->consumer = n->id;
    if (from->consumer != n->id) from->consumer = -2;
  }
}

/* ---- joining ------------------------------------------------------------- */

static bool may_have(const td_placer *p, int32_t request, int32_t device) {
  return request < 0 || td_device_name_matches(&p->requests.at[request],
                                               &p->devices.at[device].name);
}

/* Takes over the device that `from` has already. With soft placement a request
 * that this device does not fit is given up. */
static bool take_device(const td_placer *p, td_placer_constraint *to,
                        const td_placer_constraint *from) {
  if (from->device < 0 || from->device == to->device) return true;
  if (to->device >= 0) return false;
  if (!may_have(p, to->request, from->device) && !p->soft) return false;
  to->device = from->device;
  return true;
}

static td_placer_constraint constraint_of(const td_placement *group) {
  return (td_placer_constraint){.node = group->requester,
                                .request = group->request,
                                .device = group->device,
                                .kinds = group->kinds};
}

/* Narrows `to` to what `from` allows too; *fits is false when nothing is left.
 * `own`: the request of `to` is that of the joining node, which gives way first
 * when requests contradict each other. */
static td_status *narrow(td_placer *p, td_placer_constraint *to,
                         const td_placer_constraint *from, bool own,
                         bool *fits) {
  td_placer_constraint back = *from;
  td_device_name both;
  *fits = take_device(p, to, from) && take_device(p, &back, to);
  to->kinds &= from->kinds;
  if (!*fits || to->kinds == 0 ||
      (to->device >= 0 && !td_placer_may(p, to->kinds, to->device)))
    *fits = false;
  if (!*fits || from->request < 0 || from->request == to->request) return NULL;
  if (to->request < 0) {
    to->request = from->request;
    to->node = from->node;
    return NULL;
  }
  if (td_device_name_intersect(&p->requests.at[to->request],
                               &p->requests.at[from->request], &both))
    return set_request(p, &both, from->request, &to->request);
  *fits = p->soft;
  if (p->soft && own) {
    to->request = from->request;
    to->node = from->node;
  }
  return NULL;
}

static void unite(td_placer *p, int32_t a, int32_t b,
                  const td_placer_constraint *all) {
  td_placement *x = td_placer_group_of(p, a), *y = td_placer_group_of(p, b);
  td_placement *first = x < y ? x : y, *second = x < y ? y : x;
  second->parent = first->parent;
  first->shared = first->shared || x != y;
  first->own = x->own | y->own;
  first->kinds = all->kinds;
  if (first->device >= 0) return;
  first->request = all->request;
  first->requester = all->node;
  first->device = all->device;
}

td_node *td_placer_group_peer(const td_graph *g, const td_node *n, int i) {
  static const char prefix[] = "loc:@";
  const td_attr *a = td_node_attr(n, "_class");
  if (i < n->n_in) { /* a call is nowhere; its body may be in many places */
    bool peers = n->in[i].node && td_edge_dtype(n->in[i]) == TD_RESOURCE &&
                 !td_op_is_call(n->op->kind) && n->op->kind != TD_OP_FOREIGN &&
                 n->in[i].node->op->kind != TD_OP_FOREIGN;
    return peers ? n->in[i].node : NULL;
  }
  i -= n->n_in;
  if (!a || a->kind != TD_ATTR_STRING || !a->is_list || i >= a->len)
    return NULL;
  const char *text = a->ss[i].at;
  if (strncmp(text, prefix, sizeof prefix - 1) != 0) return NULL;
  return td_graph_find(g, text + sizeof prefix - 1);
}

int td_placer_group_peers(const td_node *n) {
  const td_attr *a = td_node_attr(n, "_class");
  return n->n_in + (a && a->is_list ? a->len : 0);
}

/* Narrows `all` to what every peer of `n` allows; an error when that is
 * nothing. */
static td_status *narrow_all(td_placer *p, const td_graph *g, const td_node *n,
                             td_placer_constraint *all) {
  td_placement *mine = td_placer_group_of(p, n->id);
  bool own = all->request >= 0;
  for (int i = 0; i < td_placer_group_peers(n); i++) {
    const td_node *with = td_placer_group_peer(g, n, i);
    bool fits;
    if (!with || td_placer_group_of(p, with->id) == mine) continue;
    const td_placement *other = td_placer_group_of(p, with->id);
    if (other->error >= 0) return td_status_retain(p->errors.at[other->error]);
    td_placer_constraint before = *all, theirs = constraint_of(other);
    TD_TRY(narrow(p, all, &theirs, own, &fits));
    if (!fits) {
      if (theirs.request < 0) theirs.node = with->id;
      return td_placer_explain_conflict(p, g, n, &before, &theirs);
    }
    own = own && all->node == before.node;
  }
  return NULL;
}

/* Does it ask for a task that takes no part? Then it gives nothing up for its
 * peers: it stays alone, and is told. */
static bool asks_in_vain(const td_placer *p, int32_t id) {
  int32_t request = p->at.at[id].request;
  return request >= 0 && !td_placer_has_task(p, &p->requests.at[request]);
}

td_status *td_placer_group_join(td_placer *p, const td_graph *g,
                                const td_node *n) {
  td_placement *mine = td_placer_group_of(p, n->id);
  if (mine->error >= 0 || td_placer_group_peers(n) == 0) return NULL;
  if (asks_in_vain(p, n->id)) return NULL;
  td_placer_constraint all = constraint_of(mine);
  td_status *s = narrow_all(p, g, n, &all);
  if (!td_ok(s) && mine->parent < p->n) {
    /* `n` is new, but a group of earlier calls has taken it in: that group
     * keeps its device. */
    td_status_release(s);
    return NULL;
  }
  if (!td_ok(s)) return td_placer_group_fail(p, mine, s);
  for (int i = 0; i < td_placer_group_peers(n); i++) {
    const td_node *with = td_placer_group_peer(g, n, i);
    if (with) unite(p, n->id, with->id, &all);
  }
  return NULL;
}
