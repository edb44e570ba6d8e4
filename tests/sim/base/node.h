/* node.h - processes of the simulated world.
 *
 * Every task, timer and call belongs to a *node*: that in which it was made.
 * Node 0 is the world, the test itself; the others stand for processes, which
 * share memory here but are started, stopped and killed one by one. There is
 * still one thread: a call that waits runs events of all nodes meanwhile, on
 * top of it. So who waits long in one node holds up what waits below it; what
 * is under test waits in callbacks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_NODE_H
#define TEST_SIM_NODE_H

#include "engine/base/base.h"

typedef int sim_node_t;

enum { SIM_WORLD = 0 };

/* A new process. Numbers are not used again before sim_begin. */
sim_node_t sim_node(void);
/* Where the caller is. */
sim_node_t sim_here(void);

/* What follows happens inside of a node, until the sim_leave that belongs to
 * it. One that is paused is waited for; a dead one must not be entered. */
void sim_enter(sim_node_t n);
void sim_leave(void);

/* Nothing of it runs, calls that wait included (SIGSTOP), until it goes on;
 * its clock does not stop. */
void sim_pause(sim_node_t n);
void sim_go_on(sim_node_t n);
bool sim_paused(sim_node_t n);

/* Moves its clock. It never goes back: with ns < 0 it stands still a while. */
void sim_shift(sim_node_t n, int64_t ns);
/* Its clock; this does not let time go on. */
int64_t sim_clock(sim_node_t n);

/* Tasks of its I/O threads begin up to `most_ns` late, 0: as they come. */
void sim_slow_disk(sim_node_t n, int64_t most_ns);

/* Nothing of it ever runs again. If calls of it are under way, below the caller
 * on the stack, they first go on to their end, which nobody hears of. */
void sim_kill(sim_node_t n);
bool sim_dead(sim_node_t n);

/* The end of a node, dead or not, when the test ends: enters it, calls fn(arg),
 * which frees what is left there (NULL: nothing), then runs its tasks and
 * timers until there are none. Nothing else runs meanwhile, and no time passes
 * for others. The node is dead afterwards. */
void sim_tidy(sim_node_t n, void (*fn)(void *arg), void *arg);

/* An event of another node, at a moment of its clock; an id for
 * sim_timer_cancel. */
uint64_t sim_post(sim_node_t n, int64_t at_ns, void (*fire)(void *arg),
                  void *arg);

#endif
