/* io_threads.h - threads for work that blocks.
 *
 * A read from a disk or a pipe on a thread of the pool would hold a processor
 * that kernels need. Such work is submitted here: a few threads beside the
 * pool, started when there is work and nobody idle, ended when idle for long.
 * Work that waits for other work that was submitted may wait for ever: there
 * are TD_IO_THREADS at most. Work that waits for somebody outside of the process
 * (a pipe's writer) steps aside meanwhile: another thread may come in its place.
 * Never enters Lua. Survives fork like the pool.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_IO_THREADS_H
#define TD_IO_THREADS_H

#include "engine/base/pool.h"

TD_BEGIN

enum { TD_IO_THREADS = 8, TD_IO_QUEUED = 1024 };

/* Has `task` run on an I/O thread, in order of submission. False, and nothing
 * done, when TD_IO_QUEUED tasks wait already or there is no thread to have: the
 * caller does it himself, or says RESOURCE_EXHAUSTED. */
bool td_io_submit(td_task *task) TD_MUST_USE;
/* This thread waits, perhaps for long, and does not count among TD_IO_THREADS;
 * and counts again. Nothing where it is no I/O thread. */
void td_io_step_aside(void);
void td_io_step_back(void);
/* How many threads there are at this moment. */
int td_io_threads(void);

TD_END
#endif
