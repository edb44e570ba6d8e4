/* callable.h - a signature planned once, to be run again and again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CALLABLE_H
#define TD_CALLABLE_H

#include "engine/run/session.h"

TD_BEGIN

typedef struct td_callable td_callable;

/* Plans and compiles `sig`, or takes it from the session's cache. Retains the
 * session. Caller owns the result. */
td_status *td_callable_new(td_session *s, const td_signature *sig,
                           td_callable **out) TD_MUST_USE;
td_callable *td_callable_retain(td_callable *c);
void td_callable_release(td_callable *c);
/* As td_session_run. */
td_status *td_callable_run(td_callable *c, const td_tensor *feeds,
                           td_tensor *fetches,
                           const td_step_options *options) TD_MUST_USE;

TD_END
#endif
