/* rendezvous.h - where a sent tensor meets its receiver.
 *
 * One table per step. Edges are numbered by the planner; a value's key is
 * (edge, frame, iteration). In the root frame an edge is a slot of an array:
 * one exchange, no hash. Whoever comes second does the work of both.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RENDEZVOUS_H
#define TD_RENDEZVOUS_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_rendezvous td_rendezvous;

typedef struct td_key {
  int32_t edge;
  uint64_t frame;    /* hash of the frame path, 0 in the root */
  int64_t iteration;
} td_key;

/* A receiver, embedded in its owner; alive until `got` has run. `got` runs once
 * on the sender's thread, the receiver's, or the aborter's. It owns `value`
 * (invalid when dead or failed) and `s`. */
typedef struct td_receiver {
  void (*got)(struct td_receiver *r, td_tensor value, bool dead, td_status *s);
  struct td_receiver *next; /* the table's */
  td_key key;               /* the table's */
} td_receiver;

td_status *td_rendezvous_new(int32_t edges, td_rendezvous **out) TD_MUST_USE;
void td_rendezvous_free(td_rendezvous *r);
/* Makes it new again for the next step of the same program: every slot must
 * have been met; drops what was not received. Not while in use. */
void td_rendezvous_reset(td_rendezvous *r);

/* What is sent over an edge of which far[edge] is true goes to send(arg, ..),
 * which takes ownership of *value, instead of meeting its receiver here. Until
 * the next call, or freed; not while in use. `far`, by edge, is borrowed. */
void td_rendezvous_route(td_rendezvous *r, const bool *far,
                         td_status *(*send)(void *arg, td_key key,
                                            td_tensor *value, bool dead),
                         void *arg);
/* When a receiver comes to an edge of which from_far[edge] is true and its
 * value is not there yet, wanted(arg, key) is called, once a key and without a
 * lock, before it begins to wait: what was only offered can be sent for then; it
 * may come before `wanted` returns. Until the next call, or freed; not while in
 * use. `from_far`, by edge, is borrowed; NULL: nobody asks. */
void td_rendezvous_expect(td_rendezvous *r, const bool *from_far,
                          void (*wanted)(void *arg, td_key key), void *arg);
/* Takes ownership of *value (invalid when dead). A key is sent once. */
td_status *td_rendezvous_send(td_rendezvous *r, td_key key, td_tensor *value,
                              bool dead) TD_MUST_USE;
void td_rendezvous_receive(td_rendezvous *r, td_key key, td_receiver *who);
/* Everyone waiting, now and later, gets (a retained) `s`. */
void td_rendezvous_abort(td_rendezvous *r, td_status *s);

TD_END
#endif
