/* remote_watch.h - looks into the processes of the simulated cluster.
 *
 * Some promises of engine/remote/README.md cannot be seen from what steps do:
 * how much memory a peer takes, that a session is gone, that somebody was told.
 * So whatever is handed to a process is read before, and its state looked at
 * after it, and after each tick. What is wrong goes to `why`, with the promise:
 *
 *  P1 evidence about a task waits a second for its cause; nobody is judged dead
 *     of whom something came 1.8 s ago: patience after a stall is 2 s
 *  P4 a step whose CANCEL came before its RUN applies nothing (the history's);
 *     who is dead to the master is so to the others, too,
 *     unless that was lost on the way
 *  P5 a dead master's sessions are gone after 10 s in which the worker ran
 *  P6 windows, numbers of pulls, parked values and what waits to be sent are
 *     within their bounds
 *  P7 a peer's incarnation never changes
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_REMOTE_WATCH_H
#define TEST_SIM_REMOTE_WATCH_H

#include "engine/remote/remote.h"
#include "tests/sim/cluster.h"
#include "tests/sim/history.h"

typedef struct remote_watch remote_watch;

/* `why` of `room` bytes: the first that is found; "": nothing. Caller owns the
 * result. */
remote_watch *remote_watch_new(history *h, char *why, size_t room);
void remote_watch_free(remote_watch *w);
/* Looks at what this network hands over, until another looks. */
void remote_watch_network(remote_watch *w, sim_network *net);

/* A process begins; had its tick; died. */
void remote_watch_process(remote_watch *w, const cluster_process *p,
                          const td_remote *r);
void remote_watch_tick(remote_watch *w, int number);
void remote_watch_died(remote_watch *w, int number);

/* A step of a process, which it began at a moment of its clock, ends now with
 * an error. */
void remote_watch_error(remote_watch *w, int number, int64_t began,
                        const td_status *s);
/* When all was healed long ago: was everybody told? */
void remote_watch_fences(remote_watch *w);
/* When all sessions were closed: nothing is left of them. */
void remote_watch_empty(remote_watch *w);

/* Which place of its view a session of `r` has worker number `worker` at; 0:
 * none. `joined`: only where the session knows of it already. */
int remote_watch_place(const td_remote *r, const td_session *s, int worker,
                       bool joined);

#endif
