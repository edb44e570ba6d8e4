/* thread.h - starting a thread the way the engine wants them.
 *
 * Signals stay with the threads of the embedding program (Ctrl-C is the
 * prompt's): a thread of ours starts with all of them blocked, except those a
 * crash raises.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_THREAD_H
#define TD_THREAD_H

#include <pthread.h>

#include "engine/base/base.h"

TD_BEGIN

/* Starts run(arg) on a new thread called `name` (15 characters count). With
 * `cpu` >= 0 it begins on the cpu-th processor of the affinity mask, counted
 * around, and is free to move once it runs. `thread` may be NULL: then it is
 * detached, else the caller joins it. False when there is no thread to have. */
bool td_thread_start(pthread_t *thread, const char *name, int cpu,
                     void *(*run)(void *arg), void *arg) TD_MUST_USE;

TD_END
#endif
