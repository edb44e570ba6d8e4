/* part.h - what a plan has for one device, as a graph and as bytes.
 *
 * A part is self-contained: what its program computes, seeds of random streams
 * and deadness included, follows from its graph alone. So it can be compiled in
 * another process, and equal parts of two sessions have equal bytes. What tells
 * this graph's nodes from others of the same name (serials, by which a session
 * knows the states of kernels) and this start of a device from another
 * (incarnations) goes beside the bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PART_H
#define TD_PART_H

#include "engine/plan/plan.h"

TD_BEGIN

/* A part on its way to another process. */
typedef struct td_sealed_part {
  char *graph;           /* GraphDef */
  size_t len;            /* of it */
  uint64_t *serials;     /* by node, in the order of the bytes; 0: none */
  int32_t n_nodes;       /* how many of these */
  const char *device;    /* its full name; borrowed: the device's */
  uint64_t incarnation;  /* of the device */
} td_sealed_part;

/* Caller owns what is in *out (td_sealed_part_deinit). */
td_status *td_part_seal(const td_part *part, td_sealed_part *out) TD_MUST_USE;
void td_sealed_part_deinit(td_sealed_part *s);
/* Reads a part that comes from elsewhere; trusts nothing. `device` is retained.
 * FAILED_PRECONDITION when it is not the incarnation that was meant. Caller
 * owns what is in *out (td_part_deinit). */
td_status *td_part_open(const td_sealed_part *s, td_device *device,
                        td_part *out) TD_MUST_USE;
/* Frames and deadness as the part's own graph tells them, and the order. */
td_status *td_part_settle(td_part *part) TD_MUST_USE;
void td_part_deinit(td_part *part);

TD_END
#endif
