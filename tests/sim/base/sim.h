/* sim.h - a process on one thread, in virtual time, by a seed.
 *
 * The engine's seams are pool, I/O threads, clock, parking and entropy: the
 * files of this folder take the place of those of the same name in engine/base,
 * all else is the real thing. What would run on another thread is an event;
 * whoever would sleep, or is drawn to be preempted where he submits, runs the
 * next event instead, drawn by the seed. Time goes on by itself a little with
 * each look at it, and leaps when there is nothing else to do. Every event goes
 * into a hash: two runs of a seed are the same run when their hashes are. There
 * may be several processes: node.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include "engine/base/pool.h"

/* A new world: time 0, no events. In order: events run as they came, nobody is
 * preempted. None may be left of the world before. */
void sim_begin(uint64_t seed, bool in_order);
uint64_t sim_hash(void);
int64_t sim_events(void); /* run since sim_begin */
/* By the seed: less than n. */
uint64_t sim_draw(uint64_t n);

/* ---- for the seams ---- */

enum sim_kind { SIM_TASK, SIM_TIMER, SIM_LEAP, SIM_PIECE, SIM_MESSAGE };

/* Into the hash. */
void sim_note(enum sim_kind kind, uint64_t what);
/* The clock of the node that asks. */
int64_t sim_now(void);
void sim_push(td_task *task);
void sim_push_io(td_task *task); /* later where the disk is slow */
bool sim_waiting(void); /* does a task of this node? */
bool sim_inside(void);  /* does one run? */
uint64_t sim_timer(int64_t at_ns, void (*fire)(void *arg), void *arg);
void sim_timer_cancel(uint64_t id);
/* Runs one event, or leaps to the next timer or `until`, a moment of this
 * node's clock. Exits the process when nothing will ever happen any more. */
void sim_step(int64_t until);
/* Here another thread may run. */
void sim_preempt(void);
/* Says why and the seed, and exits the process. */
_Noreturn void sim_give_up(const char *why);

#endif
