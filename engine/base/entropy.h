/* entropy.h - what nobody can foresee, for seeds that nobody gave.
 *
 * The one door by which chance comes in; a simulated process replaces it
 * (tests/sim), so that a run is a function of its seed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ENTROPY_H
#define TD_ENTROPY_H

#include "engine/base/base.h"

TD_BEGIN

/* 64 bits from the system; falls back to time and addresses. */
uint64_t td_entropy(void);

TD_END
#endif
