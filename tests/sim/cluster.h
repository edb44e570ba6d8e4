/* cluster.h - processes in their places, and what happens to them.
 *
 * A cluster has *places*, such as a master and three workers; in each is a
 * process (a node and its channel at "sim://place0", "sim://place1", ...),
 * which the test makes and frees. The seed draws a schedule of faults: what,
 * whom, when, for how long; each heals by itself. A process that was killed has
 * a new one in its place when the fault is over. What happened is counted
 * (`sometimes`, "fault: kill").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_CLUSTER_H
#define TEST_SIM_CLUSTER_H

#include "tests/sim/network.h"

typedef struct cluster cluster;

enum { CLUSTER_PLACES = 8 };

typedef enum cluster_fault {
  FAULT_DROP,      /* a tenth of the messages of two places */
  FAULT_DUPLICATE, /* a quarter of the messages from and to one */
  FAULT_REORDER,   /* the same */
  FAULT_SLOW,      /* a tenth of the messages of two places */
  FAULT_CUT,         /* between two places */
  FAULT_CUT_ONE_WAY, /* the same */
  FAULT_ALONE,       /* one is cut from all others */
  FAULT_PAUSE,
  FAULT_KILL,
  FAULT_REFUSE, /* one is cut off for a moment, and refused then */
  FAULT_CLOCK,  /* is set forward by up to a minute, or stands still */
  FAULT_DISK,   /* I/O is up to 3 s late */
  CLUSTER_FAULTS
} cluster_fault;

extern const char *const cluster_fault_names[CLUSTER_FAULTS];

/* A process. What the test keeps of it is `self`. */
typedef struct cluster_process {
  cluster *of;
  int place, number; /* number: no two of a run have the same, from 0 */
  sim_node_t node;
  td_channel *channel;
  void *self;
} cluster_process;

typedef struct cluster_options {
  int places;
  unsigned faults; /* bits of those that may happen: 1 << FAULT_KILL */
  unsigned kill;   /* bits of places that may be killed or paused */
  int most;        /* at most so many are scheduled */
  int64_t span;    /* ns from the start in which they begin */
  int64_t shortest, longest; /* ns that one lasts */
  /* Called inside of the node: makes `self` and sets the channel's owner; frees
   * it and then the channel, also of a process that was killed; told when one
   * dies (NULL: nobody), outside of it. */
  void (*start)(void *arg, cluster_process *p);
  void (*stop)(void *arg, cluster_process *p);
  void (*died)(void *arg, cluster_process *p);
  void *arg;
} cluster_options;

/* Starts all places, and draws what will happen. Caller owns the result. */
cluster *cluster_new(const cluster_options *o);
/* Ends all processes that there ever were, each alone. */
void cluster_free(cluster *c);

sim_network *cluster_network(cluster *c);
/* Who is in a place; NULL: nobody, it was killed. */
cluster_process *cluster_at(const cluster *c, int place);
/* Nobody is there, or he is stopped. */
bool cluster_down(const cluster *c, int place);

/* Time passes: events run. */
void cluster_pass(cluster *c, int64_t ns);
/* All faults end, none begins any more, dead places have processes again. */
void cluster_heal(cluster *c);
/* Faults that are going on. */
int cluster_faults(const cluster *c);

/* By hand, for a test that plans its own: begins now, ends after `ns` or when
 * healed. */
void cluster_inflict(cluster *c, cluster_fault what, int a, int b, int64_t ns);

#endif
