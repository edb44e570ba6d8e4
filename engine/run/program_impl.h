/* program_impl.h - what program.c builds and the executors walk.
 *
 * Everything static is an array indexed by node; everything of a run lives in
 * td_iter records: a run without frames has one, a loop has one per iteration
 * in flight. Slots, states and ready records of a frame are numbered within it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROGRAM_IMPL_H
#define TD_PROGRAM_IMPL_H

#include <pthread.h>

#include "engine/run/program.h"

/* A state word. Ordinary node: inputs still to come, and whether one was dead.
 * Merge: control inputs to come, data inputs to come, whether a live one came.
 */
#define TD_STATE_COUNT 0xffffffffull   /* ordinary: all; Merge: control */
#define TD_STATE_DATA_ONE (1ull << 32) /* Merge: one data input */
#define TD_STATE_DATA (0xfffffull << 32)
#define TD_STATE_FIRED (1ull << 61) /* Merge: it became ready */
#define TD_STATE_LIVE (1ull << 62)  /* Merge: a live value arrived */
#define TD_STATE_DEAD (1ull << 63)  /* an input was dead */

enum { TD_LINE = 64 };         /* bytes of a cache line */
enum { TD_COST_DEAR = 20000 }; /* ns: worth handing other work to a thread */

/* Where an edge leads, with all that delivering over it must know: a value is
 * handed on without a look at the node itself. */
typedef struct td_target {
  uint32_t local : 30; /* the node's index within its frame */
  uint32_t merge : 1;  /* it is a Merge */
  uint32_t lone : 1;   /* nothing else comes to it: no count is kept */
  int32_t slot;        /* in the frame of that node; -1: control */
} td_target;

typedef struct td_xnode {
  td_kernel kernel;
  uint8_t kind;    /* td_op_kind */
  bool runs_dead;  /* TD_KERNEL_DEAD */
  bool constant;   /* Enter with is_constant */
  bool index_read; /* Merge: somebody reads output 1 */
  bool tells;      /* NextIteration: that it is dead matters */
  int32_t n_in, n_out;
  int32_t in;       /* first slot, within its frame */
  int32_t local;    /* index within its frame */
  int32_t frame;    /* static frame it runs in */
  int32_t child;    /* Enter: the static frame it leads to; Merge: inputs that
                       come in the first iteration alone */
  int32_t flight;   /* index of its td_flight within the frame, or -1 */
  int32_t targets;  /* program->begin[targets + port] .. [+ port + 1];
                       the group after the last port is control */
  uint64_t initial; /* its state word */
  int32_t cost;     /* ns, atomic, a decaying average; 0 unknown */
} __attribute__((aligned(TD_LINE))) td_xnode;
_Static_assert(sizeof(td_xnode) == 2 * TD_LINE, "a node run is two lines");

typedef struct td_xframe {
  const char *name; /* frame_name; "" for the root */
  int32_t parent;   /* -1 for the root */
  int32_t ordinal;  /* index among the parent's children */
  int32_t children;
  int32_t nodes, slots, flights;
  int32_t enters;
  int32_t parallel;
  int32_t *members;  /* program indices by local index */
  uint64_t *initial; /* state words by local index */
  size_t size;       /* bytes of one td_iter with its arrays */
} td_xframe;

struct td_program {
  int32_t refs;
  td_graph *graph;
  td_device *device;
  td_states *states;
  td_xnode *node;
  int32_t n_nodes;
  int32_t *begin; /* see td_xnode.targets */
  td_target *target;
  td_xframe *frame; /* [0] is the root */
  int32_t n_frames;
  int32_t *source; /* nodes ready at once, in the root frame */
  int32_t n_sources;
  bool plain;   /* every kernel runs on the thread that made it ready */
  int64_t cost; /* ns of a whole run, atomic, a decaying average */
  int64_t runs; /* atomic, started so far */
  pthread_mutex_t lock;
  td_run *idle;    /* lock: lock. Finished runs, kept for the next */
  td_run *running; /* lock: lock. For why() */
};

/* ---- one run ---- */

typedef struct td_iter td_iter;
typedef struct td_instance td_instance;

/* A node that became ready. Each node has one per iteration. */
typedef struct td_ready {
  struct td_ready *next;
  td_iter *iter;
  int32_t node;
  bool dead;
} td_ready;

/* A started kernel that has not called done yet, or may not have. */
typedef struct td_flight {
  td_kernel_ctx ctx;
  td_ready *ready;
  struct td_flight *prev, *next; /* lock: run->flights_lock. In flight */
  int32_t phase;                 /* atomic: see executor.c */
  int32_t holds;     /* lock: run->flights_lock. A cancel looks at it */
  bool finished;     /* lock: run->flights_lock. done came during a hold */
  td_status *status; /* what done brought, while finished */
  int64_t start;
} td_flight;

/* The state of one iteration of one frame (the root has one). */
struct td_iter {
  td_run *run;
  td_instance *instance; /* NULL in the root */
  int32_t frame;         /* static index */
  int64_t number;
  uint64_t path; /* hash of the frame path: in rendezvous keys */
  uint64_t *state;
  td_tensor *slot;
  td_ready *ready;
  td_flight *flight;
  td_instance **child; /* by the child's ordinal; NULL: not entered */
  int32_t busy;        /* nodes ready, running or in flight here */
  int32_t inner;       /* child instances alive */
  td_iter *next;       /* free list */
  td_iter *later;      /* the next iteration in flight */
} __attribute__((aligned(TD_LINE))); /* and so are the slots behind it */

/* A chain of ready nodes. */
typedef struct td_chain {
  td_ready *first;
} td_chain;

/* A chain on its way to a thread. */
typedef struct td_posted {
  td_team_job base; /* first */
  td_run *run;
  td_chain chain;
} td_posted;

struct td_run {
  td_program *program;
  td_step *step;
  td_team *team;
  void (*over)(void *arg, td_status *s);
  void *arg;
  bool shared;       /* several threads may touch it */
  bool measure;      /* takes times this run */
  int32_t live;      /* atomic: posted chains, threads and flights that
                        hold it */
  int32_t failed;    /* atomic: stop handing out nodes */
  td_status *status; /* lock: flights_lock. The first cause */
  int64_t started;
  td_iter *root;
  struct td_free_iters {
    td_iter *first;
  } * spare; /* by static frame */
  td_instance *spare_instances;
  td_status *fault; /* lock: frames_lock. A failure found under the lock */
  td_instance *instances;         /* alive, for why() and cleaning up */
  pthread_spinlock_t frames_lock; /* guards every iteration and instance of a
                                     run that has frames */
  pthread_mutex_t flights_lock;
  td_flight *flights; /* lock: flights_lock */
  td_cancel_hook hook;
  td_posted first;       /* the chain it starts with */
  td_team_job cancel_job; /* see flights_cancel */
  td_run *prev, *next;   /* program->running or ->idle */
};

static inline void td_chain_push(td_chain *c, td_ready *r) {
  r->next = c->first;
  c->first = r;
}

/* executor.c */
void td_program_drop_idle(td_program *p); /* frees the kept runs */
td_iter *td_iter_make(td_run *run, int32_t frame);
void td_iter_clear(td_iter *it);
void td_run_fail(td_run *run, td_status *s, const td_xnode *n);

/* executor_frames.c: hands outputs on (out[] is consumed) and push what became
 * ready. */
void td_propagate_frames(td_run *run, td_iter *it, int32_t node, td_tensor *out,
                         bool dead, td_chain *ready);
/* executor_frames.c: ends every instance of a run; frees the kept ones. */
void td_instances_clear(td_run *run);
void td_instances_free(td_run *run);
/* Every iteration in flight; frames_lock held. */
void td_instances_visit(td_run *run, td_str *out, int *lines,
                        void (*visit)(const td_iter *it, td_str *out,
                                      int *lines));

#endif
