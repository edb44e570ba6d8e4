/* iteration.h - the arrays that the nodes of one iteration run on.
 *
 * Outside of loops a program has a single iteration, the root's. Entering a
 * loop makes an *instance* of its frame, and the instance has one iteration for
 * each round of the loop that is under way: up to `parallel` at once, so that a
 * slow node of round 3 does not keep round 4 from starting. A loop in a loop
 * has an instance for each round of the outer one that entered it.
 *
 * Iterations and instances that ended are kept by the execution and used again.
 * Several threads that work on an execution with loops hold its frames_lock
 * around everything here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ITERATION_H
#define TD_ITERATION_H

#include "engine/base/vec.h"
#include "engine/run/program_impl.h"

typedef struct td_iteration td_iteration;
typedef struct td_instance td_instance;

/* A node that became ready. Each node has one per iteration. */
typedef struct td_ready {
  struct td_ready *next;
  td_iteration *iter;
  int32_t node;
  bool dead;
} td_ready;

/* Ready nodes, the latest first. */
typedef struct td_chain {
  td_ready *first;
} td_chain;

static inline void td_chain_push(td_chain *c, td_ready *r) {
  r->next = c->first;
  c->first = r;
}

/* An asynchronous kernel: it was started and calls done later. */
typedef struct td_pending {
  td_kernel_ctx ctx;
  td_ready *ready;
  td_tensor *out;    /* room for its outputs, in the iteration's memory */
  int32_t word;      /* atomic: pending.c's */
  td_status *status; /* what done brought */
  int64_t start;
} td_pending;

/* The state of one iteration of one frame (the root has one). */
struct td_iteration {
  td_execution *execution;
  td_instance *instance; /* NULL in the root */
  int32_t frame;         /* static index */
  int64_t number;
  uint64_t path; /* hash of the frame path: in rendezvous keys */
  uint64_t *state;
  td_tensor *slot;
  td_ready *ready;
  int64_t *since; /* when each became ready, in a step that is traced */
  td_pending *pending;
  td_instance **child; /* by the child's ordinal; NULL: not entered */
  int32_t busy;        /* nodes ready or running here */
  int32_t inner;       /* child instances alive */
  td_iteration *next;  /* free list */
  td_iteration *later; /* the next iteration in flight */
} __attribute__((aligned(TD_LINE))); /* and so are the slots behind it */

/* A value kept with the node it came from. */
typedef struct td_kept {
  int32_t node;
  bool dead;
  td_tensor value;
} td_kept;

/* One entry into a loop. */
struct td_instance {
  td_execution *execution;
  td_iteration *parent;
  int32_t frame;
  int32_t enters;  /* Enters still to come */
  int32_t running; /* iterations under way */
  uint64_t path;
  td_iteration *oldest, *newest; /* linked by `later` */
  TD_VEC(td_kept) invariants;    /* of constant Enters: for every iteration */
  TD_VEC(td_kept) deferred;      /* NextIterations past the newest */
  bool goes_on;                  /* one of them is live */
  TD_VEC(int32_t) exits;         /* dead Exits of the newest iteration */
  td_instance *prev, *next;      /* execution->instances, or its spare ones */
};

/* Bytes of an iteration of `f` with all its arrays. */
size_t td_iteration_size(const td_xframe *f);
/* A kept one or a new one: state words filled, slots empty. NULL: no memory. */
td_iteration *td_iteration_make(td_execution *e, int32_t frame);
/* Lets go of values nobody took and keeps the memory. */
void td_iteration_clear(td_iteration *it);

/* A new instance of static frame `frame`, entered from `parent`, with its first
 * iteration. NULL: no memory. */
td_instance *td_instance_make(td_execution *e, td_iteration *parent,
                              int32_t frame);
/* Ends an instance whose iterations have ended. */
void td_instance_end(td_instance *inst);
/* The execution is over: ends what it left. */
void td_instances_clear(td_execution *e);
/* Frees the kept ones. */
void td_instances_free(td_execution *e);

#endif
