/* program_impl.h - what a compiled program consists of.
 *
 * program.c fills it once from the part's graph; the executor only reads it.
 * Nodes are an array, in topological order. A node is in the frame of the
 * innermost loop around it (the root frame, 0, when there is none), and within
 * its frame it has numbers of its own: `local` among the nodes, `in` for the
 * slot of its first input. What changes during an execution is not here: each
 * iteration of a frame has arrays of slots and state words that these numbers
 * are indices of (iteration.h).
 *
 *   y = x * w     Mul is node 2 of the program, say, and the third of the root
 *                 frame: local = 2. Its inputs are slots 0 and 1: in = 0. Its
 *                 state word begins at 2, the inputs still to come. The edge
 *                 from x is the target {local 2, slot 0}, the edge from w is
 *                 {local 2, slot 1}: who delivers a value fills the slot and
 *                 takes one off the word; who takes off the last runs Mul.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROGRAM_IMPL_H
#define TD_PROGRAM_IMPL_H

#include <pthread.h>

#include "engine/run/program.h"

/* How a state word is read. For an ordinary node: the inputs still to come
 * (COUNT; a control input counts as one), and DEAD once one of them was dead.
 * For a Merge: the control inputs still to come (COUNT), the data inputs still
 * to come (DATA), LIVE once one of them brought a value. */
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

/* A node, compiled. */
typedef struct td_xnode {
  td_kernel kernel;
  uint8_t kind;    /* td_op_kind */
  bool runs_dead;  /* TD_KERNEL_DEAD */
  bool constant;   /* Enter with is_constant */
  bool index_read; /* Merge: somebody reads output 1 */
  bool updates;    /* TD_UPDATES */
  bool tells;      /* NextIteration: that it is dead matters */
  int32_t n_in, n_out;
  int32_t in;       /* first slot, within its frame */
  int32_t local;    /* index within its frame */
  int32_t frame;    /* static frame it runs in */
  int32_t child;    /* Enter: the static frame it leads to; Merge: inputs that
                       come in the first iteration alone */
  int32_t pending;  /* index of its td_pending within the frame, or -1 */
  int32_t targets;  /* program->begin[targets + port] .. [+ port + 1];
                       the group after the last port is control */
  uint64_t initial; /* its state word */
  int32_t cost;     /* ns, atomic, a decaying average; 0 unknown */
} __attribute__((aligned(TD_LINE))) td_xnode;
_Static_assert(sizeof(td_xnode) == 2 * TD_LINE, "a node takes two lines");

/* A frame as the graph has it: the root, or one loop. */
typedef struct td_xframe {
  const char *name; /* frame_name; "" for the root */
  int32_t parent;   /* -1 for the root */
  int32_t ordinal;  /* index among the parent's children */
  int32_t children;
  int32_t nodes, slots, pendings; /* how many an iteration has of each */
  int32_t pending_outs;           /* outputs of its pendings, together */
  int32_t enters;                 /* Enter nodes that lead to it */
  int32_t parallel;               /* at most so many iterations at once */
  int32_t *members;               /* program indices by local index */
  uint64_t *initial;              /* state words by local index */
  size_t size;                    /* bytes of a td_iteration with its arrays */
} td_xframe;

typedef struct td_execution td_execution;

struct td_program {
  td_graph *graph;
  td_device *device;
  td_states *states;
  td_costs *costs;
  td_measured **measured; /* by node: what outlives the program, or NULL */
  td_xnode *node;
  int32_t n_nodes;
  int32_t *begin; /* see td_xnode.targets */
  td_target *target;
  td_xframe *frame; /* [0] is the root */
  int32_t n_frames;
  int32_t *source; /* nodes ready at once, in the root frame */
  int32_t n_sources;
  bool plain;      /* every kernel runs on the thread that made it ready */
  const td_node *arg, *ret, *edge; /* the _Arg and _Retval of the highest index
                                      and the node of the highest edge; NULL:
                                      there is none */
  int64_t cost;    /* ns of a whole execution, atomic, a decaying average */
  int64_t started; /* atomic: executions so far */
  pthread_mutex_t lock;
  td_execution *idle;    /* lock: lock. Finished ones, kept for the next */
  td_execution *running; /* lock: lock. For why() */
};

/* What must hold of the part before it is compiled (program_check.c). */
td_status *td_program_check_part(const td_graph *g) TD_MUST_USE;
/* The same of a node whose frame is known; notes the ends of the part. */
td_status *td_program_check_node(td_program *p, const td_xnode *n,
                                 const td_node *from) TD_MUST_USE;
/* The same of back edges, once all frames are known. */
td_status *td_program_check_loops(const td_program *p) TD_MUST_USE;

#endif
