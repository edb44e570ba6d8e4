/* kernel.h - the code of an op on a device, and what it may call.
 *
 * A kernel is looked up once, when a program is compiled, by (op, device type,
 * dtypes). It sees its inputs, makes its outputs, and returns a status; names,
 * lines and devices are added by the caller. State (a random stream, packed
 * weights) belongs to (session, node): made before the first run, read-only
 * afterwards or with a lock of its own.
 *
 *   static td_status *relu_f32(td_kernel_ctx *c) {
 *     td_tensor *y;
 *     TD_TRY(td_out_like(c, 0, 0, &y));   // may reuse the input's memory
 *     ...
 *     return NULL;
 *   }
 *
 * Elsewhere: variables (variable.h), the registry of rows (kernel_rows.h), what
 * runs kernels (kernel_start.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNEL_H
#define TD_KERNEL_H

#include "engine/device/device.h"
#include "engine/device/step.h"
#include "engine/graph/graph.h"

TD_BEGIN

typedef struct td_kernel td_kernel;
typedef struct td_states td_states;

/* What `make` may look at. */
typedef struct td_kernel_info {
  const td_node *node;
  td_device *device;
} td_kernel_info;

typedef struct td_kernel_def {
  const char *op;
  const char *device; /* "CPU", "CUDA" */
  const char *types;  /* "T=float|double, Tidx=int32"; NULL: any */
  td_status *(*run)(td_kernel_ctx *c);
  /* Asynchronous instead of `run`: calls td_kernel_done(c, status) exactly
   * once, perhaps inside, only enqueues otherwise. Called on the thread that
   * made the node ready; tensors in device memory are not mapped. `cancel` is
   * then required: called at most once, on any thread, once `start` has been
   * entered; makes the kernel finish promptly. It may come before `start` has
   * enqueued (which then looks at td_stopped) or after `done`.
   * With both, `run` is for devices whose memory is the host's, `start` for all
   * others. */
  void (*start)(td_kernel_ctx *c);
  void (*cancel)(td_kernel_ctx *c);
  td_status *(*make)(const td_kernel_info *info, void **state);
  void (*drop)(void *state);
  /* (optional, both or neither) The state as bytes, appended to `out`; and from
   * such bytes, which may come from anywhere: an error leaves the state as it
   * was. On any thread, also while the kernel runs. */
  td_status *(*save)(const void *state, td_str *out);
  td_status *(*load)(void *state, td_bytes from);
  /* (optional) Of an asynchronous kernel between `start` and `done`: appends
   * what it waits for, "edge_3_x from /device:CPU:1". On any thread, so it looks
   * at nothing that `start` changes; `c` stays valid meanwhile. */
  void (*why)(const td_kernel_ctx *c, td_str *out);
  /* Resource inputs by name whose locks are held while `run` runs. Several are
   * taken in order of address; a wait parks the work, not the thread. */
  const char *shared, *exclusive;
  unsigned flags; /* TD_KERNEL_* */
} td_kernel_def;

enum {
  TD_KERNEL_DEAD = 1 << 0, /* runs with dead inputs too (Send, Recv) */
  /* Looks at no contents in device memory: `run` is called on the thread that
   * made the node ready, on every device. */
  TD_KERNEL_INLINE = 1 << 1,
  /* The state is the program's own, not of (session, node): it follows from
   * attributes that planning may change (constants, edges). */
  TD_KERNEL_OWN = 1 << 2,
};

struct td_kernel {
  const td_kernel_def *def;
  const td_node *node; /* borrowed: the program's graph holds it */
  td_device *device;   /* borrowed: the program holds it */
  void *state;         /* what `make` made; borrowed unless owns_state */
  const bool *in_host, *out_host; /* operand lives in host memory */
  uint8_t out_type[4]; /* dtypes of the first outputs: see td_kernel_type */
  bool plain;          /* run, no locks, on the calling thread */
  bool launched;       /* `run` goes through device->launch */
  bool starts;         /* asynchronous: `start`, not `run` */
  bool whole;          /* writes in place: its td_for never stops half way */
  bool owns_state, owns_hosts;
  int8_t n_locks;         /* resource inputs to lock ... */
  int8_t lock_in[8];      /* ... their input indices */
  uint8_t lock_exclusive; /* a bit for each of them */
};

struct td_kernel_ctx {
  const td_kernel *kernel;
  td_step *step;
  td_tensor *in;  /* n_in of them; each counted: a kernel may move one out,
                     which leaves it without a buffer */
  td_tensor *out; /* n_out of them, TD_INVALID until set */
  int32_t n_in, n_out;
  uint64_t frame; /* hash of the frame path, 0 in the root */
  int64_t iteration;
  bool dead;     /* some input is dead (TD_KERNEL_DEAD only) */
  bool out_dead; /* set by the kernel: its outputs are dead */
  /* Outputs whose memory others hold already (a device that calls `done` when
   * the kernel is enqueued): they are to be filled. NULL: to be made. */
  const td_tensor *promised;
  void (*done)(td_kernel_ctx *c, td_status *s); /* the executor's */
  void *owner;                                  /* the executor's */
  void *work;                  /* an asynchronous kernel's own, while it runs */
  struct td_kernel_wait *wait; /* kernel_start.c's; NULL before start */
};

/* dtype of output i, from the kernel's own memory where it can be. */
static inline td_dtype td_kernel_type(const td_kernel *k, int i) {
  return i < 4 ? (td_dtype)k->out_type[i] : k->node->out[i].dtype;
}

/* ---- inside kernels ---- */

static inline const td_tensor *td_in(const td_kernel_ctx *c, int i) {
  return &c->in[i];
}
static inline const td_node *td_ctx_node(const td_kernel_ctx *c) {
  return c->kernel->node;
}
/* Makes output i, uninitialised, dtype as the node says. */
td_status *td_out(td_kernel_ctx *c, int i, const td_shape *shape,
                  td_tensor **out) TD_MUST_USE;
/* Output i with the shape of input `in`, in its memory when the kernel alone
 * holds it and the element sizes agree. The input's shape and data stay
 * readable; its buffer is then the output's. */
td_status *td_out_like(td_kernel_ctx *c, int i, int in,
                       td_tensor **out) TD_MUST_USE;
/* The same for any shape, trying inputs a, then b (-1: none) whose count and
 * element size fit. */
td_status *td_out_forward(td_kernel_ctx *c, int i, const td_shape *shape, int a,
                          int b, td_tensor **out) TD_MUST_USE;
/* Output i is (a share of) `t`. */
void td_out_set(td_kernel_ctx *c, int i, const td_tensor *t);
/* Output i is input `in`, moved where the kernel alone holds it: the input is
 * then gone. */
void td_out_pass(td_kernel_ctx *c, int i, int in);
/* Working memory of the kernel's device; end it with td_tensor_release. */
td_status *td_temp(td_kernel_ctx *c, td_dtype dtype, const td_shape *shape,
                   td_tensor *out) TD_MUST_USE;
/* Memory made for this kernel has its node's name when a report is due of what
 * there was no room for; small memory has none. */
void td_kernel_owns(const td_kernel *k, const td_tensor *t);
/* What a kernel keeps beyond its run, and finds again: one of its tensors with
 * the pointer it has at rest, and the other way round. The same count. */
td_tensor td_ctx_at_rest(const td_kernel_ctx *c, const td_tensor *t);
td_tensor td_ctx_seen(const td_kernel_ctx *c, const td_tensor *t);
/* td_parallel_for with the session's threads, stopping when the step is
 * (unless the kernel holds an exclusive lock: an update is never cut short). */
void td_for(const td_kernel_ctx *c, int64_t n, int64_t grain,
            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);
static inline bool td_stopped(const td_kernel_ctx *c) {
  return td_cancelled(c->step->stop);
}
/* An asynchronous kernel is over. Takes ownership of `s`. */
static inline void td_kernel_done(td_kernel_ctx *c, td_status *s) {
  c->done(c, s);
}

TD_END
#endif
