/* place_impl.h - what a placer knows. Inside place*.c only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLACE_IMPL_H
#define TD_PLACE_IMPL_H

#include "engine/base/map.h"
#include "engine/plan/pass_impl.h"

typedef enum td_place_why {
  TD_PLACE_NOT, /* not placed; `error` says why */
  TD_PLACE_DEFAULT,
  TD_PLACE_ASKED,    /* its wish */
  TD_PLACE_GROUP,    /* with the first of its group */
  TD_PLACE_INPUT,    /* with its input `with` */
  TD_PLACE_CONSUMER, /* with the only one that takes what it gives, `with` */
  TD_PLACE_ABLE,     /* the default device has no kernel for it */
  TD_PLACE_SOFT,     /* its wish cannot be had */
} td_place_why;

/* One node. Fields of a group count at its first node, where `up` ends. */
typedef struct td_place {
  uint64_t serial; /* the node's */
  int32_t up;      /* towards the first node of its group */
  int32_t device;  /* of the group; -1: none yet */
  int32_t wish;    /* what the group may have: index in wishes, -1: any */
  int32_t wisher;  /* the node that brought the wish */
  uint32_t kinds;  /* kernel types that all members have, as bits */
  bool shared;     /* the group has other members */
  uint8_t why;     /* td_place_why of this node */
  int32_t with;    /* of this node: see td_place_why */
  int32_t user;    /* the one that takes its outputs; -1 nobody, -2 several */
  int32_t error;   /* of this node: index in errors, -1: none */
} td_place;

enum { TD_PLACE_KINDS = 32 };

struct td_placer {
  td_device **devices; /* retained */
  int n_devices;
  bool soft;
  const char *kinds[TD_PLACE_KINDS]; /* kernel types, each once */
  int n_kinds;
  int *kind_of;           /* by device */
  TD_VEC(td_place) at;    /* by node id */
  int32_t n;              /* nodes placed so far */
  uint64_t cuts;          /* of the graph when they were */
  TD_VEC(td_place) fresh; /* `at` while it shrinks */
  TD_VEC(td_device_name) wishes;
  td_map wish_of; /* device string to its index in wishes + 1 */
  TD_VEC(td_status *) errors;
  TD_VEC(int32_t) sparse; /* ids of nodes that work on rows of a variable */
  int32_t looked;         /* nodes looked at for these */
  TD_VEC(td_prune_seat) seats; /* by node id, cleared between plans */
  td_frames frames;            /* of the graph at `version` */
  uint64_t version;
  bool checked; /* `version` is one that was looked at */
};

/* The first node of a group. */
int32_t td_place_first(const td_placer *p, int32_t id);

/* What a node or a group may have, and on whose account. */
typedef struct td_bid {
  int32_t node;   /* who says so */
  int32_t wish;   /* index in wishes, -1: any */
  int32_t device; /* has it already; -1: not */
  uint32_t kinds;
} td_bid;

/* ---- words (place_explain.c) ---- */

/* Node `n` would have to be where `a` and where `b` may be, and there is no
 * such place; one of the two may be `n` itself. */
td_status *td_place_conflict(const td_placer *p, const td_graph *g,
                             const td_node *n, const td_bid *a,
                             const td_bid *b) TD_MUST_USE;
/* No device will do for the group that begins with `n`. */
td_status *td_place_none(const td_placer *p, const td_graph *g,
                         const td_node *n) TD_MUST_USE;

#endif
