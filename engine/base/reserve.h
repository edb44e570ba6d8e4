/* reserve.h - address space kept back for the moment when there is none left.
 *
 * A program that runs other people's code must be able to say that memory ran
 * out, and go on. Nothing is kept until td_reserve_take is called first; where
 * the system sets no limit it costs nothing but a mapping. All functions may be
 * called by any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RESERVE_H
#define TD_RESERVE_H

#include "engine/base/base.h"

TD_BEGIN

/* Keeps it from now on, or again; false when it cannot be had. The first call is
 * to come before there are threads: they share malloc's arena under a limit. */
bool td_reserve_take(void);
/* Lets it go: malloc finds room again. False when it was not there. */
bool td_reserve_spend(void);
/* Was it let go, and not had again since? */
bool td_reserve_spent(void);

TD_END
#endif
