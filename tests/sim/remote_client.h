/* remote_client.h - a client of the simulated cluster: a session over workers,
 * and its steps.
 *
 * A client opens a session, attaches the workers, initialises their variables,
 * and runs steps, some of them at once, with drawn sizes, timeouts and cancels;
 * now and then it closes its session and opens another. What becomes of its
 * steps goes into a history; what the variables must hold then is known by the
 * client, which reads them.
 *
 * It is driven by a timer of its node. Two calls of the engine wait (attach,
 * close): one client at a time is in them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_REMOTE_CLIENT_H
#define TEST_SIM_REMOTE_CLIENT_H

#include "engine/remote/remote.h"
#include "tests/sim/cluster.h"
#include "tests/sim/remote_graph.h"
#include "tests/sim/remote_watch.h"

typedef struct remote_client remote_client;

typedef struct remote_workload {
  history *h;
  int workers;     /* of places 1 to n */
  unsigned paused; /* bits of places whose processes may be */
  bool over;   /* no more steps */
  bool calm;   /* steps that must succeed, once sessions are whole */
  bool busy;   /* somebody waits */
  char why[300]; /* what was found wrong; "": nothing */
  remote_watch *watch; /* NULL: nobody looks */
} remote_workload;

/* A td_remote in a process, with what drives it. */
typedef struct remote_process {
  cluster_process *p;
  td_runtime *runtime;
  td_remote *remote;
  remote_watch *watch; /* borrowed, or NULL */
  uint64_t tick;       /* a timer */
} remote_process;

void remote_process_start(remote_process *r, cluster_process *p,
                          const remote_workload *w);
void remote_process_stop(remote_process *r);

/* Begins to work. Caller owns the result. */
remote_client *remote_client_new(remote_process *on, remote_workload *w);
/* Closes its session; frees it. */
void remote_client_free(remote_client *c);
/* Its process died: its steps ended. */
void remote_client_died(remote_client *c);
/* Steps of the session that it has now that were acknowledged since `calm`. */
int remote_client_good(const remote_client *c);
bool remote_client_rests(const remote_client *c); /* no step is under way */

#endif
