/* callable_impl.h - what a callable consists of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CALLABLE_IMPL_H
#define TD_CALLABLE_IMPL_H

#include "engine/base/vec.h"
#include "engine/run/callable.h"
#include "engine/run/session_impl.h"

struct td_callable {
  int32_t refs; /* atomic */
  td_session *session;
  td_compiled *compiled; /* atomic */
  TD_VEC(td_compiled *) old; /* lock: the session's. Those before it: who
                                runs one has not retained it */
};

/* What it ran last: the signature is the same for good. */
static inline td_compiled *td_callable_held(const td_callable *c) {
  return __atomic_load_n(&c->compiled, __ATOMIC_ACQUIRE);
}

/* What it runs now, planned anew when a device of its plan is gone. Borrowed;
 * valid while `c` lives. */
td_status *td_callable_current(td_callable *c, td_compiled **out) TD_MUST_USE;

#endif
