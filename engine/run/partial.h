/* partial.h - one step in several calls.
 *
 * Each call gives some feeds and takes some fetches; the state in between, such
 * as what a queue gave, is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PARTIAL_H
#define TD_PARTIAL_H

#include "engine/run/session.h"

TD_BEGIN

typedef struct td_partial td_partial;
/* `sig`: all feeds and fetches that will occur; each may once. `options` (may be
 * NULL) are the step's: what it prints to, who serves. Caller owns the result.
 */
td_status *td_partial_new(td_session *s, const td_signature *sig,
                          const td_step_options *options,
                          td_partial **out) TD_MUST_USE;
/* feed_index/fetch_index: positions in the signature. A fetch that still lacks
 * a feed is INVALID_ARGUMENT naming it and leaves the handle usable. */
td_status *td_partial_run(td_partial *p, const int *feed_index,
                          const td_tensor *feeds, int n_feeds,
                          const int *fetch_index, td_tensor *fetches,
                          int n_fetches,
                          const td_step_options *options) TD_MUST_USE;
void td_partial_release(td_partial *p); /* cancels what is left */

TD_END
#endif
