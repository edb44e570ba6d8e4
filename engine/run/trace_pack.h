/* trace_pack.h - what a trace has as bytes, for another process.
 *
 * A head, a record of one size for each event, and the names, each once. Who
 * reads it trusts nothing: sizes, numbers of names, devices and times are held
 * against what they may be before the first event is added.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRACE_PACK_H
#define TD_TRACE_PACK_H

#include "engine/run/trace.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

enum {
  TD_TRACE_MOST = 1 << 17,       /* events of another process, in a step */
  TD_TRACE_BYTES_MOST = 24 << 20 /* of what it sends */
};

/* What must be true of what another process says. */
typedef struct td_trace_terms {
  const char *task;
  const char *const *devices; /* of that task: no event is of another */
  size_t n_devices;
  int64_t clock;    /* ns that its clock is ahead */
  int64_t from, to; /* by our clock: no event is earlier or later */
} td_trace_terms;

/* All events of `t` as a vector of uint8. Caller owns the result. */
td_status *td_trace_pack(td_trace *t, td_tensor *out) TD_MUST_USE;
/* Adds to `t` what td_trace_pack of another process made, its times moved to our
 * clock; *dropped: events that were left out there. INVALID_ARGUMENT, and
 * nothing was added, for bytes that are not so. */
td_status *td_trace_unpack(td_trace *t, const void *bytes, size_t len,
                           const td_trace_terms *terms,
                           int64_t *dropped) TD_MUST_USE;

TD_END
#endif
