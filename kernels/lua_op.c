/* lua_op.c - LuaOp: what the thread that waits for the step is asked to do.
 *
 * The node has a token, and whoever waits knows what it stands for: a function
 * of Lua (lua/bind_lua_op.c), which other threads may not enter. The kernel
 * posts an errand to that thread's mailbox and holds no thread meanwhile. Here
 * nothing is known of Lua: td_caller.serve sets the outputs, and they are
 * looked at before they go on.
 *
 * An errand is held by the mailbox and by its kernel. Who takes it out of
 * QUEUED sees to `done`: the thread that serves it, or a cancel, which leaves
 * an errand of no use in the mailbox. The kernel's hold is in ctx.work, for
 * the one that takes it out of there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "engine/base/mem.h"
#include "engine/device/kernel.h"
#include "kernels/cost.h"

enum { QUEUED, SERVED, CANCELLED };

typedef struct errand {
  td_task task;
  td_kernel_ctx *ctx; /* valid until it is done */
  int32_t state;      /* atomic */
  int32_t refs;       /* atomic */
} errand;

static void drop(errand *e) {
  if (e && __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) == 0) td_free(e);
}

/* Out of QUEUED: true for one only. */
static bool take(errand *e, int32_t state) {
  int32_t queued = QUEUED;
  return __atomic_compare_exchange_n(&e->state, &queued, state, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* The kernel's hold, now the caller's; NULL: somebody else has it. */
static errand *take_hold(td_kernel_ctx *c) {
  return __atomic_exchange_n(&c->work, NULL, __ATOMIC_ACQ_REL);
}

static td_status *nobody(void) {
  return td_error(TD_FAILED_PRECONDITION,
                  "LuaOp needs the thread that waits in run; nobody waits for "
                  "the steps of a loop, for a step whose handle was let go, or "
                  "for those of another process");
}

static td_status *cancelled(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

/* ---- serving ------------------------------------------------------------- */

static td_status *check_output(const td_kernel_ctx *c, int i) {
  const td_tensor *t = &c->out[i];
  const td_result *want = &td_ctx_node(c)->out[i];
  td_shape_text has, may;
  if (!td_tensor_valid(t))
    return td_error(TD_INTERNAL, "result %d was not set", i);
  if (t->dtype != want->dtype)
    return td_error(TD_INVALID_ARGUMENT, "result %d is %s and was to be %s", i,
                    td_dtype_name(t->dtype), td_dtype_name(want->dtype));
  if (td_shape_allows(&want->shape, &t->shape)) return NULL;
  return td_error(
      TD_INVALID_ARGUMENT, "result %d is of shape %s and was to be of %s", i,
      td_shape_str(&t->shape, &has), td_shape_str(&want->shape, &may));
}

/* Of a step that was cancelled nothing is served: whoever waits for its end
 * may be another thread. */
static td_status *serve(td_kernel_ctx *c) {
  td_caller *caller = c->step->caller;
  if (td_stopped(c)) return cancelled();
  if (td_caller_gone(caller)) return nobody();
  TD_TRY(caller->serve(c));
  for (int i = 0; i < c->n_out; i++) TD_TRY(check_output(c, i));
  return NULL;
}

static void run(td_task *task) {
  errand *e = (errand *)((char *)task - offsetof(errand, task));
  if (take(e, SERVED)) {
    td_kernel_ctx *c = e->ctx;
    td_status *s = serve(c);
    drop(take_hold(c));
    td_kernel_done(c, s);
  }
  drop(e);
}

/* ---- the kernel ---------------------------------------------------------- */

static void cancel(td_kernel_ctx *c) {
  errand *e = take_hold(c);
  bool mine = e && take(e, CANCELLED);
  drop(e);
  if (mine) td_kernel_done(c, cancelled());
}

/* The hold goes into `work` before the flag of the step is looked at: a cancel
 * that comes before finds nothing there, and its flag is seen here. */
static void start(td_kernel_ctx *c) {
  td_caller *caller = c->step->caller;
  errand *e = caller ? td_malloc(sizeof *e) : NULL;
  if (!e) {
    td_kernel_done(c, caller ? td_oom() : nobody());
    return;
  }
  *e = (errand){.task.run = run, .ctx = c, .state = QUEUED, .refs = 2};
  (void)__atomic_exchange_n(&c->work, (void *)e, __ATOMIC_ACQ_REL);
  td_caller_post(caller, &e->task);
  if (td_stopped(c)) cancel(c);
}

static void why(const td_kernel_ctx *c, td_str *out) {
  td_str_addf(out, "the thread that waits in run, to call function %s",
              td_node_string(td_ctx_node(c), "token"));
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  const td_attr *shapes = td_infer_attr(c, "shapes");
  int n = td_infer_outputs(c);
  if (!shapes || shapes->len == 0) return td_infer_any(c);
  if (shapes->len != n)
    return td_error(TD_INVALID_ARGUMENT, "shapes has %d shapes for %d results",
                    (int)shapes->len, n);
  for (int i = 0; i < n; i++) td_infer_out(c, i, shapes->shapes[i]);
  return NULL;
}

#define ROW                                                                    \
  .sig = "input: Tin -> output: Tout; token: string; Tin: list(type) >= 0; "   \
         "Tout: list(type) >= 0; shapes: list(shape) >= 0 = {}",               \
  .shape = infer, .cost = td_cost_none, .lua = "", .host = "*",                \
  .section = "Functions"

static const td_op_def ops[] = {
    {.type = "LuaOp",
     .doc = "A function of Lua, called by the thread that waits in run; td."
            "lua_op makes it.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_HERE,
     ROW},
    {.type = "LuaOpStateless",
     .doc = "A LuaOp that gives the same for the same: it may be merged.",
     .flags = TD_NO_FOLD | TD_NO_GRADIENT | TD_HERE,
     ROW},
    {0},
};

#define KERNEL .device = "CPU", .start = start, .cancel = cancel, .why = why

static const td_kernel_def kernels[] = {
    {.op = "LuaOp", KERNEL},
    {.op = "LuaOpStateless", KERNEL},
    {0},
};

TD_MODULE(lua_op, ops, kernels)
