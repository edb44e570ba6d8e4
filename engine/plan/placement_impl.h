/* placement_impl.h - what a placer knows. Inside placer*.c only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLACEMENT_IMPL_H
#define TD_PLACEMENT_IMPL_H

#include "engine/base/map.h"
#include "engine/device/kernel_table.h"
#include "engine/plan/placer_impl.h"

/* Why a node is where it is, for td_placer_explain. */
typedef enum td_placer_why {
  TD_PLACER_NOT,       /* it is nowhere; `error` says why */
  TD_PLACER_DEFAULT,   /* on the default device */
  TD_PLACER_REQUESTED, /* what it or its group requested */
  TD_PLACER_INPUT,     /* with its input `with` */
  TD_PLACER_CONSUMER,  /* with its only consumer, `with` */
  TD_PLACER_ABLE,      /* the default device has no kernel for it */
  TD_PLACER_FALLBACK,  /* what it requested cannot be had */
  TD_PLACER_SPREAD,    /* by a hash of its name */
} td_placer_why;

/* Where one node is. Nodes that must share a device form a group, a set of a
 * union-find; what says "of the group" counts at its first node. */
typedef struct td_placement {
  uint64_t serial;   /* the node's */
  int32_t parent;    /* towards the first node of its group, which is its own */
  int32_t device;    /* of the group; -1: none yet */
  int32_t request;   /* of the group: index in requests, -1: any device */
  int32_t requester; /* of the group: the node that brought the request */
  uint32_t kinds;    /* of the group: kinds of devices, as bits, for which all
                        members have kernels */
  uint32_t own;      /* of the group: those of devices that go ahead, which
                        have a kernel of their own for some member */
  bool shared;       /* of the group: it has other members */
  uint8_t why;       /* td_placer_why of this node */
  int32_t with;      /* of this node: see td_placer_why */
  int32_t consumer;  /* the one that takes its outputs; -1 nobody, -2 several */
  int32_t error;     /* of this node: index in errors, -1: none */
} td_placement;

enum { TD_PLACER_KINDS = 32 };

typedef struct td_placer_device {
  td_device *device; /* retained; NULL: it was removed */
  td_status *lost;   /* why it cannot be had for now; NULL: it can */
  td_device_name name;
  int kind;
} td_placer_device;

/* Devices that say the same about kernels. */
typedef struct td_placer_kind {
  char *kernels;          /* td_device.kernels; owned */
  bool ahead;             /* td_device.ahead */
  td_kernel_table *table; /* retained */
  int devices;            /* of this kind; 0: it is free */
} td_placer_kind;

struct td_placer {
  TD_VEC(td_placer_device) devices; /* by index, for good */
  bool changed; /* devices came or went since free nodes were placed */
  bool soft, spread;
  bool ahead; /* a device goes ahead of others */
  td_device_name first; /* of the devices that are tried first */
  bool has_first;
  td_placer_kind kinds[TD_PLACER_KINDS];
  TD_VEC(td_placement) at;   /* by node id */
  int32_t n;                 /* nodes placed so far */
  uint64_t removals;         /* td_graph_removals when they were */
  TD_VEC(td_placement) kept; /* room for `at` without the removed nodes */
  TD_VEC(td_device_name) requests;
  td_map request_of; /* device string to its index in requests + 1 */
  TD_VEC(td_status *) errors;
  TD_VEC(int32_t) sparse; /* ids of nodes that work on rows of a variable */
  int32_t n_searched;     /* nodes searched for these */
  TD_VEC(td_prune_mark) marks; /* by node id, cleared between plans */
  td_frames frames;            /* of the graph at `version` */
  uint64_t version;
  bool checked; /* `frames` is what the check of `version` gave */
};

/* The first node of a group. */
static inline int32_t td_placer_group(const td_placer *p, int32_t id) {
  while (p->at.at[id].parent != id) id = p->at.at[id].parent;
  return id;
}

/* The same, shortening the way for the next who asks. */
static inline td_placement *td_placer_group_of(td_placer *p, int32_t id) {
  td_placement *at = p->at.at;
  while (at[id].parent != id) id = at[id].parent = at[at[id].parent].parent;
  return &at[id];
}

/* Is the device still there, and one that nodes of these kinds may have? */
static inline bool td_placer_may(const td_placer *p, uint32_t kinds,
                                 int32_t device) {
  const td_placer_device *d = &p->devices.at[device];
  return d->device && (kinds >> d->kind & 1);
}

/* Can nodes of these kinds run there now? Nodes are placed on a device that is
 * lost all the same. */
static inline bool td_placer_has(const td_placer *p, uint32_t kinds,
                                 int32_t device) {
  return device >= 0 && td_placer_may(p, kinds, device) &&
         !p->devices.at[device].lost;
}

/* Does a task take part, lost or not, that `request` may mean? */
static inline bool td_placer_has_task(const td_placer *p,
                                      const td_device_name *request) {
  td_device_name task = *request;
  task.type[0] = '\0';
  task.index = -1;
  for (size_t i = 0; i < p->devices.len; i++)
    if (p->devices.at[i].device &&
        td_device_name_matches(&task, &p->devices.at[i].name))
      return true;
  return false;
}

/* Does the group that begins with `n` keep its device for good? */
static inline bool td_placer_is_bound(const td_placer *p, const td_node *n) {
  return p->at.at[n->id].shared || (n->op->flags & TD_STATEFUL);
}

/* ---- devices that come and go (placer_devices.c) ---- */

/* Places anew what may have another device since some came or went. */
td_status *td_placer_devices_settle(td_placer *p, const td_graph *g) TD_MUST_USE;
void td_placer_devices_free(td_placer *p);

/* ---- groups (placer_group.c) ---- */

/* What a node or a group may have, and on whose account. */
typedef struct td_placer_constraint {
  int32_t node;    /* who brought it */
  int32_t request; /* index in requests, -1: any */
  int32_t device;  /* has it already; -1: not */
  uint32_t kinds;
} td_placer_constraint;

/* Kinds of devices that go ahead and have a kernel of their own for it. */
uint32_t td_placer_group_own(const td_placer *p, const td_node *n);
/* A new node, as a group by itself. */
td_status *td_placer_group_begin(td_placer *p, const td_node *n) TD_MUST_USE;
/* Tells the inputs of `n` that it is their consumer. */
void td_placer_group_consumers(td_placer *p, const td_node *n);
/* Unites the group of `n` with those of its peers. */
td_status *td_placer_group_join(td_placer *p, const td_graph *g,
                                const td_node *n) TD_MUST_USE;
/* Peer `i` of `n`, below td_placer_group_peers: a node that it must be with.
 * These are the sources of resources that it takes and the nodes that its
 * attribute _class names. NULL when there is none at `i`: a file may be a part
 * of another, whose nodes it still names. */
td_node *td_placer_group_peer(const td_graph *g, const td_node *n, int i);
int td_placer_group_peers(const td_node *n);
/* The kinds of devices that have a kernel for `n`, as bits. */
uint32_t td_placer_group_kinds(const td_placer *p, const td_node *n);
/* The index in requests of a device string. */
td_status *td_placer_group_request(td_placer *p, const char *text,
                                   int32_t *out) TD_MUST_USE;
/* Keeps `s` as the reason why the group has no device; takes ownership. Only
 * TD_RESOURCE_EXHAUSTED is returned: it may pass. */
td_status *td_placer_group_fail(td_placer *p, td_placement *group,
                                td_status *s) TD_MUST_USE;

/* ---- choosing (placer_choose.c) ---- */

/* Chooses a device for the nodes from `begin` to `end`. */
td_status *td_placer_choose_new(td_placer *p, const td_graph *g, int32_t begin,
                                int32_t end) TD_MUST_USE;

/* ---- errors (placer_explain.c) ---- */

/* Node `n` would have to be where `a` and where `b` may be, and there is no
 * such device; one of the two may be `n` itself. */
td_status *td_placer_explain_conflict(const td_placer *p, const td_graph *g,
                                      const td_node *n,
                                      const td_placer_constraint *a,
                                      const td_placer_constraint *b)
    TD_MUST_USE;
/* The group of `n` is bound to a device that was removed, is lost, or came back
 * with other kernels. */
td_status *td_placer_explain_removed(const td_placer *p,
                                     const td_node *n) TD_MUST_USE;
/* Device `i` is lost, where something is to run. */
td_status *td_placer_explain_lost(const td_placer *p, int32_t i) TD_MUST_USE;
/* `n` is inside of a function; nothing does for its `request`. */
td_status *td_placer_explain_inlined(const td_placer *p, const td_node *n,
                                     int32_t request) TD_MUST_USE;
/* No device will do for the group that begins with `n`. */
td_status *td_placer_explain_none(const td_placer *p, const td_graph *g,
                                  const td_node *n) TD_MUST_USE;

#endif
