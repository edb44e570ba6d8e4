/* place.c - which device each node runs on.
 *
 * The whole graph is placed, never one signature, and a node keeps its device
 * for the life of the session. Both ends of a resource edge and nodes with
 * _class "loc:@x" form a group (a union-find whose sets begin with their
 * oldest node), which may have what all its members may have. A node that does
 * not fit the group it belongs to is kept out of it and remembers why, so that
 * one bad line does not take the rest of the graph with it.
 *
 * Who has no wish and no group: control flow and what only looks at its input
 * go with that input, a source goes with the one node that takes it, the others
 * go to the first device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/place_impl.h"

#include <string.h>

/* ---- life ---------------------------------------------------------------- */

static td_status *take_devices(td_placer *p, const td_placer_options *o) {
  size_t n = (size_t)o->n_devices;
  p->devices = td_alloc_zero(n, sizeof *p->devices);
  p->kind_of = td_alloc_zero(n, sizeof *p->kind_of);
  if (!p->devices || !p->kind_of) return td_oom();
  for (int i = 0; i < o->n_devices; i++) {
    const char *kind = o->devices[i]->kernels;
    int k = 0;
    while (k < p->n_kinds && strcmp(p->kinds[k], kind) != 0) k++;
    if (k == TD_PLACE_KINDS)
      return td_error(TD_RESOURCE_EXHAUSTED, "more than %d kinds of devices",
                      TD_PLACE_KINDS);
    if (k == p->n_kinds) p->kinds[p->n_kinds++] = kind;
    p->kind_of[i] = k;
    p->devices[p->n_devices++] = td_device_retain(o->devices[i]);
  }
  return NULL;
}

td_status *td_placer_new(const td_placer_options *o, td_placer **out) {
  *out = NULL;
  if (o->n_devices < 1)
    return td_error(TD_INVALID_ARGUMENT, "there is no device to place on");
  td_placer *p = td_alloc_zero(1, sizeof *p);
  if (!p) return td_oom();
  p->soft = o->soft;
  td_map_init(&p->wish_of);
  td_status *s = take_devices(p, o);
  if (td_ok(s))
    *out = p;
  else
    td_placer_free(p);
  return s;
}

void td_placer_free(td_placer *p) {
  if (!p) return;
  for (int i = 0; i < p->n_devices; i++) td_device_release(p->devices[i]);
  for (size_t i = 0; i < p->errors.len; i++) td_status_release(p->errors.at[i]);
  td_free(p->devices);
  td_free(p->kind_of);
  td_vec_free(&p->at);
  td_vec_free(&p->fresh);
  td_vec_free(&p->sparse);
  td_vec_free(&p->seats);
  td_vec_free(&p->wishes);
  td_vec_free(&p->errors);
  td_map_deinit(&p->wish_of);
  td_frames_free(&p->frames);
  td_free(p);
}

/* ---- groups -------------------------------------------------------------- */

int32_t td_place_first(const td_placer *p, int32_t id) {
  while (p->at.at[id].up != id) id = p->at.at[id].up;
  return id;
}

/* The same, shortening the way for the next who asks. */
static td_place *group_of(td_placer *p, int32_t id) {
  td_place *at = p->at.at;
  while (at[id].up != id) id = at[id].up = at[at[id].up].up;
  return &at[id];
}

static td_bid bid_of(const td_place *group) {
  return (td_bid){.node = group->wisher,
                  .wish = group->wish,
                  .device = group->device,
                  .kinds = group->kinds};
}

/* Keeps `s` as the reason why the group has no place. Only want of memory is
 * returned: it may pass. */
static td_status *fail(td_placer *p, td_place *group, td_status *s) {
  if (td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  if (!td_vec_push(&p->errors, s)) {
    td_status_release(s);
    return td_oom();
  }
  group->error = (int32_t)p->errors.len - 1;
  return NULL;
}

/* ---- a new node ---------------------------------------------------------- */

/* What others do for the executor runs anywhere. */
static bool runs_anywhere(const td_node *n) {
  td_op_kind kind = n->op->kind;
  return kind != TD_KIND_PLAIN && kind != TD_KIND_CONST &&
         kind != TD_KIND_IDENTITY;
}

static uint32_t kinds_of(const td_placer *p, const td_node *n) {
  uint32_t kinds = 0;
  for (int k = 0; k < p->n_kinds; k++)
    if (runs_anywhere(n) || td_kernel_exists(n, p->kinds[k]))
      kinds |= (uint32_t)1 << k;
  return kinds;
}

static td_status *add_wish(td_placer *p, const td_device_name *wish,
                           int32_t *out) {
  if (!td_vec_push(&p->wishes, *wish)) return td_oom();
  *out = (int32_t)p->wishes.len - 1;
  return NULL;
}

static bool same_name(const td_device_name *a, const td_device_name *b) {
  return strcmp(a->job, b->job) == 0 && strcmp(a->type, b->type) == 0 &&
         a->replica == b->replica && a->task == b->task && a->index == b->index;
}

/* *out becomes the number of `wish`, which may be what it is, or `other`. */
static td_status *take_wish(td_placer *p, const td_device_name *wish,
                            int32_t other, int32_t *out) {
  if (same_name(wish, &p->wishes.at[*out])) return NULL;
  if (!same_name(wish, &p->wishes.at[other])) return add_wish(p, wish, out);
  *out = other;
  return NULL;
}

static td_status *read_wish(td_placer *p, const char *text, int32_t *out) {
  intptr_t known = (intptr_t)td_map_get(&p->wish_of, text);
  td_device_name wish;
  if (known) {
    *out = (int32_t)(known - 1);
    return NULL;
  }
  TD_TRY(td_device_name_parse(text, &wish));
  TD_TRY(add_wish(p, &wish, out));
  return td_map_put(&p->wish_of, text, (void *)((intptr_t)*out + 1)) ? NULL
                                                                     : td_oom();
}

static td_status *begin(td_placer *p, const td_node *n) {
  td_place *e = &p->at.at[n->id];
  *e = (td_place){.serial = n->serial,
                  .up = n->id,
                  .device = -1,
                  .wish = -1,
                  .wisher = n->id,
                  .kinds = kinds_of(p, n),
                  .with = -1,
                  .user = -1,
                  .error = -1};
  if (!n->device[0]) return NULL;
  td_status *s = read_wish(p, n->device, &e->wish);
  return td_ok(s) ? NULL : fail(p, e, td_node_blame(s, n));
}

static void count_users(td_placer *p, const td_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i].node) continue;
    td_place *from = &p->at.at[n->in[i].node->id];
    if (from->user == -1) from->user = n->id;
    if (from->user != n->id) from->user = -2;
  }
}

/* ---- joining ------------------------------------------------------------- */

static bool may_have(const td_placer *p, int32_t wish, int32_t device) {
  return wish < 0 || td_device_name_matches(&p->wishes.at[wish],
                                            &p->devices[device]->parsed);
}

/* Takes over what `from` has already. With soft placement a wish that does not
 * fit is given up. */
static bool take_device(const td_placer *p, td_bid *to, const td_bid *from) {
  if (from->device < 0 || from->device == to->device) return true;
  if (to->device >= 0) return false;
  if (!may_have(p, to->wish, from->device) && !p->soft) return false;
  to->device = from->device;
  return true;
}

/* Narrows `to` to what `from` allows too; *fits is false when nothing is left.
 * `own`: the wish of `to` is that of the joining node, which is the first to
 * give way. */
static td_status *narrow(td_placer *p, td_bid *to, const td_bid *from, bool own,
                         bool *fits) {
  td_bid back = *from;
  td_device_name both;
  *fits = take_device(p, to, from) && take_device(p, &back, to);
  to->kinds &= from->kinds;
  if (!*fits || to->kinds == 0 ||
      (to->device >= 0 && !(to->kinds >> p->kind_of[to->device] & 1)))
    *fits = false;
  if (!*fits || from->wish < 0 || from->wish == to->wish) return NULL;
  if (to->wish < 0) {
    to->wish = from->wish;
    to->node = from->node;
    return NULL;
  }
  if (td_device_name_intersect(&p->wishes.at[to->wish],
                               &p->wishes.at[from->wish], &both))
    return take_wish(p, &both, from->wish, &to->wish);
  *fits = p->soft;
  if (p->soft && own) {
    to->wish = from->wish;
    to->node = from->node;
  }
  return NULL;
}

static void unite(td_placer *p, int32_t a, int32_t b, const td_bid *bid) {
  td_place *x = group_of(p, a), *y = group_of(p, b);
  td_place *first = x < y ? x : y, *second = x < y ? y : x;
  second->up = first->up;
  first->shared = first->shared || x != y;
  first->kinds = bid->kinds;
  if (first->device >= 0) return;
  first->wish = bid->wish;
  first->wisher = bid->node;
  first->device = bid->device;
}

/* Node `i` of those that `n` must be with: sources of resources, then named
 * ones. NULL at the end. */
static td_status *partner(const td_graph *g, const td_node *n, int i,
                          td_node **out) {
  static const char prefix[] = "loc:@";
  const td_attr *a = td_node_attr(n, "_class");
  *out = NULL;
  if (i < n->n_in) { /* a call is nowhere; its body may be in many places */
    if (n->in[i].node && td_edge_dtype(n->in[i]) == TD_RESOURCE &&
        n->op->kind != TD_KIND_CALL)
      *out = n->in[i].node;
    return NULL;
  }
  i -= n->n_in;
  if (!a || a->kind != TD_ATTR_STRING || !a->is_list || i >= a->len)
    return NULL;
  const char *text = a->ss[i].at;
  if (strncmp(text, prefix, sizeof prefix - 1) != 0) return NULL;
  *out = td_graph_find(g, text + sizeof prefix - 1);
  if (*out) return NULL;
  return td_node_blame(td_error(TD_INVALID_ARGUMENT,
                                "to be colocated with \"%s\", but there "
                                "is no such node",
                                text + sizeof prefix - 1),
                       n);
}

static int partners(const td_node *n) {
  const td_attr *a = td_node_attr(n, "_class");
  return n->n_in + (a && a->is_list ? a->len : 0);
}

/* What `n` may have with all its partners; an error when that is nothing. */
static td_status *add_up(td_placer *p, const td_graph *g, const td_node *n,
                         td_bid *bid) {
  td_place *mine = group_of(p, n->id);
  bool own = bid->wish >= 0;
  for (int i = 0; i < partners(n); i++) {
    td_node *with;
    bool fits;
    TD_TRY(partner(g, n, i, &with));
    if (!with || group_of(p, with->id) == mine) continue;
    const td_place *other = group_of(p, with->id);
    if (other->error >= 0) return td_status_retain(p->errors.at[other->error]);
    td_bid before = *bid, theirs = bid_of(other);
    TD_TRY(narrow(p, bid, &theirs, own, &fits));
    if (!fits) {
      if (theirs.wish < 0) theirs.node = with->id;
      return td_place_conflict(p, g, n, &before, &theirs);
    }
    own = own && bid->node == before.node;
  }
  return NULL;
}

static td_status *join(td_placer *p, const td_graph *g, const td_node *n) {
  td_place *mine = group_of(p, n->id);
  if (mine->error >= 0 || partners(n) == 0) return NULL;
  td_bid bid = bid_of(mine);
  td_status *s = add_up(p, g, n, &bid);
  if (!td_ok(s) && mine->up < p->n) { /* an old group is not to blame */
    td_status_release(s);
    return NULL;
  }
  if (!td_ok(s)) return fail(p, mine, s);
  for (int i = 0; i < partners(n); i++) {
    td_node *with;
    TD_TRY(partner(g, n, i, &with));
    if (with) unite(p, n->id, with->id, &bid);
  }
  return NULL;
}

/* ---- deciding ------------------------------------------------------------ */

static int32_t choose(const td_placer *p, const td_device_name *wish,
                      uint32_t kinds) {
  for (int d = 0; d < p->n_devices; d++)
    if ((kinds >> p->kind_of[d] & 1) &&
        (!wish || td_device_name_matches(wish, &p->devices[d]->parsed)))
      return d;
  return -1;
}

/* Another type of device, then any place. */
static int32_t choose_soft(const td_placer *p, td_device_name wish,
                           uint32_t kinds) {
  wish.type[0] = '\0';
  wish.index = -1;
  int32_t d = choose(p, &wish, kinds);
  return d >= 0 ? d : choose(p, NULL, kinds);
}

static td_status *decide(td_placer *p, const td_graph *g, int32_t id) {
  td_place *e = &p->at.at[id];
  const td_device_name *wish = e->wish < 0 ? NULL : &p->wishes.at[e->wish];
  e->device = choose(p, wish, e->kinds);
  e->why = wish             ? TD_PLACE_ASKED
           : e->device == 0 ? TD_PLACE_DEFAULT
                            : TD_PLACE_ABLE;
  if (e->device < 0 && wish && p->soft) {
    e->device = choose_soft(p, *wish, e->kinds);
    e->why = TD_PLACE_SOFT;
  }
  if (e->device >= 0) return NULL;
  e->why = TD_PLACE_NOT;
  return fail(p, e, td_place_none(p, g, td_graph_node(g, id)));
}

/* Goes with `leader` when that has a place that will do. */
static bool follow(td_placer *p, int32_t id, int32_t leader, td_place_why why) {
  td_place *e = &p->at.at[id];
  int32_t device = leader < 0 ? -1 : group_of(p, leader)->device;
  if (device < 0 || !(e->kinds >> p->kind_of[device] & 1)) return false;
  e->device = device;
  e->why = (uint8_t)why;
  e->with = leader;
  return true;
}

static bool is_source(const td_place *e, const td_node *n) {
  return n->n_in == 0 && n->n_out > 0 && e->user >= 0 &&
         !(n->op->flags & TD_STATEFUL);
}

/* Says something about its first input that stays on the host: a shape. */
static bool is_metadata(const td_node *n) {
  if (n->n_in == 0 || n->op->n_out == 0 || n->op->in[0].host) return false;
  for (int i = 0; i < n->op->n_out; i++)
    if (!n->op->out[i].host) return false;
  return true;
}

static int32_t leader_of(const td_node *n) {
  switch (n->op->kind) {
  case TD_KIND_SWITCH:
  case TD_KIND_MERGE:
  case TD_KIND_ENTER:
  case TD_KIND_EXIT:
  case TD_KIND_NEXT:
  case TD_KIND_COND:
  case TD_KIND_IDENTITY:
    break;
  default:
    if (!is_metadata(n)) return -1;
  }
  return n->n_in > 0 && n->in[0].node ? n->in[0].node->id : -1;
}

static bool is_free(const td_place *e) {
  return e->device < 0 && e->error < 0;
}

static td_status *decide_new(td_placer *p, const td_graph *g, int32_t begin,
                             int32_t end) {
  for (int32_t id = begin; id < end; id++) {
    const td_place *e = &p->at.at[id];
    bool bound = e->wish >= 0 || e->shared ||
                 (td_graph_node(g, id)->op->flags & TD_STATEFUL);
    if (e->up == id && is_free(e) && bound) TD_TRY(decide(p, g, id));
  }
  for (int32_t id = begin; id < end; id++) {
    const td_node *n = td_graph_node(g, id);
    const td_place *e = &p->at.at[id];
    if (e->up != id || !is_free(e) || is_source(e, n)) continue;
    if (!follow(p, id, leader_of(n), TD_PLACE_INPUT)) TD_TRY(decide(p, g, id));
  }
  for (int32_t id = begin; id < end; id++) {
    const td_place *e = &p->at.at[id];
    if (e->up != id || !is_free(e)) continue;
    if (!follow(p, id, e->user, TD_PLACE_CONSUMER)) TD_TRY(decide(p, g, id));
  }
  return NULL;
}

/* ---- shrinking ----------------------------------------------------------- */

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

/* The oldest member left takes over what the group's first node knew. */
static void inherit(td_placer *p, int32_t old, const int32_t *now,
                    int32_t *heir) {
  int32_t first = td_place_first(p, old), id = now[old];
  td_place e = p->at.at[old], group = p->at.at[first];
  if (heir[first] < 0) {
    heir[first] = id;
    if (first != old) {
      group.serial = e.serial;
      group.user = e.user;
      e = group;
    }
  }
  e.up = heir[first];
  e.wisher = moved(now, e.wisher, id);
  e.user = moved(now, e.user, e.user < 0 ? e.user : -1);
  if (e.with >= 0 && now[e.with] < 0)
    e.why = e.device == 0 ? TD_PLACE_DEFAULT : TD_PLACE_ABLE;
  e.with = moved(now, e.with, -1);
  p->fresh.at[id] = e;
}

/* Nodes that stay keep their places. */
static td_status *shrink(td_placer *p, const td_graph *g) {
  uint64_t cuts = td_graph_removals(g);
  if (p->cuts == cuts) return NULL;
  size_t n = (size_t)p->n;
  int32_t *now = td_alloc_zero(2 * n + 1, sizeof *now), *heir = now + n;
  p->fresh.len = 0;
  if (!now || !td_vec_reserve(&p->fresh, n)) {
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
  if (kept) memcpy(p->at.at, p->fresh.at, (size_t)kept * sizeof *p->at.at);
  p->n = kept;
  p->cuts = cuts;
  p->looked = 0;
  p->sparse.len = 0;
  td_free(now);
  return NULL;
}

/* ---- growing ------------------------------------------------------------- */

static td_status *look_for_sparse(td_placer *p, const td_graph *g) {
  for (; p->looked < p->n; p->looked++)
    if (td_graph_node(g, p->looked)->op->flags & TD_SPARSE &&
        !td_vec_push(&p->sparse, p->looked))
      return td_oom();
  return NULL;
}

const int32_t *td_placer_sparse(const td_placer *p, size_t *n) {
  *n = p->sparse.len;
  return p->sparse.at;
}

td_prune_seat *td_placer_seats(td_placer *p) {
  size_t n = (size_t)p->n + 1, old = p->seats.len;
  if (n > old) {
    if (!td_vec_reserve(&p->seats, n - old)) return NULL;
    memset(p->seats.at + old, 0, (n - old) * sizeof *p->seats.at);
    p->seats.len = n;
  }
  return p->seats.at;
}

void td_placer_place(td_placer *p, td_node *n) {
  n->placed = group_of(p, n->id)->device;
}

td_status *td_placer_grow(td_placer *p, td_graph *g) {
  TD_TRY(shrink(p, g));
  int32_t old = p->n, n = td_graph_size(g);
  p->at.len = (size_t)old;
  if (!td_vec_reserve(&p->at, (size_t)(n - old))) return td_oom();
  p->at.len = (size_t)n;
  for (int32_t id = old; id < n; id++) TD_TRY(begin(p, td_graph_node(g, id)));
  for (int32_t id = old; id < n; id++) count_users(p, td_graph_node(g, id));
  for (int32_t id = old; id < n; id++) TD_TRY(join(p, g, td_graph_node(g, id)));
  TD_TRY(decide_new(p, g, old, n));
  p->n = n;
  for (int32_t id = old; id < n; id++) td_placer_place(p, td_graph_node(g, id));
  return look_for_sparse(p, g);
}

td_status *td_placer_why_not(const td_placer *p, const td_node *n) {
  int32_t error = p->at.at[td_place_first(p, n->id)].error;
  if (error >= 0) return td_status_retain(p->errors.at[error]);
  return td_node_blame(td_error(TD_INTERNAL, "not placed"), n);
}

td_status *td_placer_extend(td_placer *p, td_graph *g) {
  int32_t old = p->n;
  TD_TRY(td_placer_grow(p, g));
  for (int32_t id = old; id < p->n; id++)
    if (td_graph_node(g, id)->placed < 0)
      return td_placer_why_not(p, td_graph_node(g, id));
  return NULL;
}

/* ---- out of functions ---------------------------------------------------- */

static bool has_kernel(const td_placer *p, uint32_t kinds, int32_t device) {
  return device >= 0 && (kinds >> p->kind_of[device] & 1);
}

static td_status *put_as_wished(td_placer *p, td_node *n, uint32_t kinds) {
  int32_t wish;
  TD_TRY(read_wish(p, n->device, &wish));
  n->placed = choose(p, &p->wishes.at[wish], kinds);
  if (n->placed < 0 && p->soft)
    n->placed = choose_soft(p, p->wishes.at[wish], kinds);
  if (n->placed >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "no device \"%s\" that has a kernel for it, inside a "
                  "function",
                  n->device);
}

static td_status *put(td_placer *p, td_node *n, int32_t with) {
  uint32_t kinds = kinds_of(p, n);
  for (int i = 0; i < partners(n); i++) {
    td_node *other;
    TD_TRY(partner(n->graph, n, i, &other));
    if (!other || !has_kernel(p, kinds, other->placed)) continue;
    n->placed = other->placed;
    return NULL;
  }
  if (n->device[0]) return put_as_wished(p, n, kinds);
  n->placed = has_kernel(p, kinds, with) ? with : choose(p, NULL, kinds);
  if (n->placed >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "no device has a kernel for it, inside a function");
}

td_status *td_placer_put(td_placer *p, td_node *n, int32_t with) {
  return td_node_blame(put(p, n, with), n);
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
