/* link_impl.h - a value that leaves one graph and enters another.
 *
 * A link is one rendezvous edge: its number, its name, a _Send and a _Recv with
 * TensorFlow's attributes and the note "_edge", the number. A _Recv whose value
 * may be dead says so in the note "_may_die": whoever compiles its graph sees
 * nothing of the sender's. A node with the note "_wire" = "bfloat16" has its
 * float32 go to other processes in 16 bits: td_plan_edge.narrow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LINK_IMPL_H
#define TD_LINK_IMPL_H

#include "engine/plan/pass_impl.h"

typedef struct td_link_ends {
  int32_t edge;            /* its number, from td_link_number */
  const td_device *from;   /* who sends ... */
  const td_device *to;     /* ... and who receives; both the device of the one
                              graph when the other side is the client */
  bool from_host, to_host; /* the operand is in host memory of a device that
                              has memory of its own */
  bool client;             /* the other side is the client */
  td_edge value;           /* what is sent, wherever it lies */
  bool may_die;            /* it may be dead */
  int32_t frame;           /* where both ends run */
} td_link_ends;

/* Numbers the next edge, and names it after its `source`. */
td_status *td_link_number(td_pass *p, const char *source,
                          int32_t *out) TD_MUST_USE;
/* Adds the _Send (_HostSend) of `input`, a node of `g`. */
td_status *td_link_send(td_pass *p, td_graph *g, const td_link_ends *l,
                        td_edge input, td_node **out) TD_MUST_USE;
/* Adds the _Recv (_HostRecv); `trigger` (may be NULL), a node of `g`, starts
 * it once an iteration. */
td_status *td_link_recv(td_pass *p, td_graph *g, const td_link_ends *l,
                        td_node *trigger, td_node **out) TD_MUST_USE;

#endif
