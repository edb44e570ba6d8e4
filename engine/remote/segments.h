/* segments.h - tensors for a process on this host, through memory both see.
 *
 * A *segment* is anonymous memory with a descriptor (memfd). Its owner copies a
 * tensor into a block of it and tells the peer the *place*; the peer opens the
 * segment by the owner's entry in /proc (segment_views.h), takes the bytes and
 * says so; then the block is given to another. Segments are kept and used
 * again, since most of a copy's time goes to pages that are touched the first
 * time.
 *
 * Why no named memory in /dev/shm: containers give that 64 MB; what a killed
 * process left there stays until somebody clears it up; and a file there that
 * another makes shorter kills its reader by SIGBUS. A memfd goes with the last
 * process that has it, however that ends, and is sealed: it keeps its size. Who
 * may open it is whom the kernel lets look into the process: the same user, in
 * the same namespaces (same_host.h).
 *
 * A table is used by any thread; what was put for a peer stays that peer's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SEGMENTS_H
#define TD_SEGMENTS_H

#include "engine/base/status.h"

TD_BEGIN

enum {
  TD_SEGMENT_ALIGN = 64, /* of places; the first so many bytes of a segment are
                            its head */
  TD_SEGMENT_NAME = 80,  /* with the NUL */
};

/* Where a tensor is. */
typedef struct td_segment_place {
  char segment[TD_SEGMENT_NAME];
  uint64_t offset, len; /* bytes within the segment */
} td_segment_place;

typedef struct td_segments td_segments;

typedef struct td_segments_stats {
  size_t held; /* bytes of segments */
  size_t used; /* of blocks in use */
  int segments, blocks;
  int64_t made; /* segments so far */
} td_segments_stats;

/* The segments of the process that `incarnation` names: at most `per_peer`
 * bytes for one peer, `total` for all. Caller owns the result (free); NULL:
 * no memory. */
td_segments *td_segments_new(uint64_t incarnation, size_t per_peer,
                             size_t total);
/* No call may be under way. */
void td_segments_free(td_segments *t);

/* Copies. RESOURCE_EXHAUSTED when the peer has not taken enough of what is
 * there already, or the system gives no memory: the bytes then go another
 * way. UNAVAILABLE when the peer was dropped meanwhile. */
td_status *td_segments_put(td_segments *t, uint64_t peer, const void *bytes,
                           size_t len, td_segment_place *out) TD_MUST_USE;
/* The peer has taken what is there. False: nothing was. */
bool td_segments_done(td_segments *t, uint64_t peer,
                      const td_segment_place *place);
/* The peer is gone: so is all that was put for it, taken or not. */
void td_segments_drop_peer(td_segments *t, uint64_t peer);
/* Gives back segments that nobody used since `before` (td_clock_now). */
void td_segments_trim(td_segments *t, int64_t before);

td_segments_stats td_segments_read_stats(td_segments *t);

TD_END
#endif
