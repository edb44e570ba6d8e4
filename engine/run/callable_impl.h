/* callable_impl.h - what a callable consists of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CALLABLE_IMPL_H
#define TD_CALLABLE_IMPL_H

#include "engine/run/callable.h"
#include "engine/run/session_impl.h"

struct td_callable {
  int32_t refs; /* atomic */
  td_session *session;
  td_compiled *compiled;
};

#endif
