/* segment_views.h - other processes' segments, to be read here.
 *
 * A *view* is a segment mapped for reading. Each is opened once and kept, least
 * recently used ones going first, until its owner has let go of it, its peer is
 * gone, or room is needed. Bytes are copied out of it, or a buffer looks into
 * it, and whoever made that buffer hears when the last holder let go.
 *
 * What a place says is another's word. A segment is opened only if it is sealed
 * memory of the peer that names it, of this process's user, and large enough:
 * then no write, and no end, of the other process makes a read here fail. The
 * bytes themselves may change as long as the owner can write them.
 *
 * Used by any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SEGMENT_VIEWS_H
#define TD_SEGMENT_VIEWS_H

#include "engine/remote/segments.h"
#include "engine/tensor/buffer.h"

TD_BEGIN

typedef struct td_segment_views td_segment_views;

typedef struct td_segment_views_stats {
  size_t mapped; /* bytes */
  int views;
  int64_t opened; /* so far */
} td_segment_views_stats;

/* At most `most` bytes are mapped at a time. Caller owns the result (free);
 * NULL: no memory. */
td_segment_views *td_segment_views_new(size_t most);
/* Buffers live on, and what they look into. */
void td_segment_views_free(td_segment_views *v);

/* Copies out what is at the place, place->len bytes. INVALID_ARGUMENT when the
 * place is none of a segment of `peer`; PERMISSION_DENIED when the system
 * does not let this process open it, RESOURCE_EXHAUSTED when too much is
 * mapped: the bytes are to come another way. */
td_status *td_segment_views_read(td_segment_views *v, uint64_t peer,
                                 const td_segment_place *place, void *to)
    TD_MUST_USE;
/* The same without a copy: a buffer that is never written in place. taken(arg)
 * is called once, by any thread, when its last holder let go; not after an
 * error. Caller owns the result. */
td_status *td_segment_views_buffer(td_segment_views *v, uint64_t peer,
                                   const td_segment_place *place,
                                   void (*taken)(void *arg), void *arg,
                                   td_buffer **out) TD_MUST_USE;
void td_segment_views_drop_peer(td_segment_views *v, uint64_t peer);
/* Unmaps what owners have let go of. */
void td_segment_views_trim(td_segment_views *v);

td_segment_views_stats td_segment_views_read_stats(td_segment_views *v);

TD_END
#endif
