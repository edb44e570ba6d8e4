/* transfer_impl.h - what the files of values share.
 *
 *   transfer_out.c   values that go: eager, offered, asked for
 *   transfer_in.c    values that come
 *   transfer.c       both ends of a peer; switches and counts
 *
 * All is the turn's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRANSFER_IMPL_H
#define TD_TRANSFER_IMPL_H

#include "engine/remote/remote_impl.h"
#include "engine/remote/segment_views.h"

enum {
  TD_WINDOW = 4 * TD_CHUNK,       /* of one value, under way at a time */
  TD_PULLS_MOST = 16,             /* values from one peer, at a time */
  TD_SHARED_LEAST = 256 << 10,    /* bytes of a value that is shared */
};

struct td_transfers {
  td_offer *offers; /* of all peers */
  td_allocator *memory; /* for what comes; borrowed: the runtime's */
  td_str host;
  bool no_eager, no_wanted, no_narrow;
  td_segments *segments; /* NULL: nothing is shared */
  td_segment_views *views;
  int64_t trimmed; /* when, last */
  td_remote_traffic traffic;
};

/* transfer_out.c */
void td_transfer_end_offers(td_peer *p);
void td_transfer_send_owed(td_peer *p);
void td_transfer_drop_eager(td_eager *e);
/* transfer_in.c; takes ownership of `why`. */
void td_transfer_fail_all(td_peer *p, td_status *why);

#endif
