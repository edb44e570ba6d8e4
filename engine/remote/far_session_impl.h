/* far_session_impl.h - what the actor knows of sessions whose master is
 * elsewhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FAR_SESSION_IMPL_H
#define TD_FAR_SESSION_IMPL_H

#include "engine/remote/remote_impl.h"

/* What a KEEP says, as long as somebody may say it again. */
typedef struct td_keep {
  int32_t refs; /* atomic */
  char *name;
  bool join, outlive, hard_placement;
  uint32_t threads, cpu_devices, passes_off, cache;
  uint64_t slow_link;
} td_keep;

td_keep *td_keep_retain(td_keep *k); /* NULL: NULL */
void td_keep_release(td_keep *k);
/* Fills a KEEP with it and the OPEN. */
void td_keep_out(const td_keep *k, Td__Remote__Open *open,
                 Td__Remote__Keep *out);

/* Inside of the turn: an answer to a question of far_session.c. */
void td_far_answered(td_peer *p, td_message *m);

#endif
