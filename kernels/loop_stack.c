/* loop_stack.c - StackV2, StackPushV2, StackPopV2, StackCloseV2: what a loop
 * puts aside for its gradient. (td.stack is Pack, in concat.c.)
 *
 * A stack belongs to its handle: every tensor that holds the handle counts, and
 * when the step lets go of the last one the stack goes with what is still on
 * it, whether the step went well or not. Elements are shares, never copies; who
 * pops one holds it alone if nobody else kept it. Nothing looks at contents, so
 * all runs on the thread that made it ready, on every device.
 *
 * Only where a device has memory of its own, and a push has swap_memory, are
 * elements copied to the host's and back (aside.h); pushes and pops are
 * asynchronous there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "kernels/aside.h"
#include "kernels/cost.h"

static const char type_name[] = "stack";

typedef struct stack {
  td_object object;  /* first: a stack is a td_object */
  const char *name;  /* owned; for messages */
  td_device *device; /* retained */
  td_dtype dtype;
  int64_t most; /* elements, -1: any number */
  pthread_mutex_t mutex;
  TD_VEC(td_aside) elements; /* under the mutex */
  bool closed;               /* under the mutex */
} stack;

/* ---- life ---------------------------------------------------------------- */

static void drop_elements(stack *s) {
  for (size_t i = 0; i < s->elements.len; i++)
    td_aside_drop(s->device, &s->elements.at[i]);
  td_vec_free(&s->elements);
}

static void stack_free(td_object *o) {
  stack *s = (stack *)o;
  drop_elements(s);
  td_device_release(s->device);
  pthread_mutex_destroy(&s->mutex);
  td_free((void *)s->name);
  td_free(s);
}

static td_status *new_stack(const td_kernel_ctx *c, int64_t most, stack **out) {
  const td_node *n = td_ctx_node(c);
  const char *name = td_node_string(n, "stack_name");
  stack *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  s->object = (td_object){.refs = 1, .type = type_name, .free = stack_free};
  s->dtype = td_node_type(n, "elem_type");
  s->most = most < 0 ? -1 : most;
  s->device = td_device_retain(c->kernel->device);
  pthread_mutex_init(&s->mutex, NULL);
  s->name = td_strdup(name[0] ? name : n->name);
  if (!s->name) {
    td_object_release(&s->object);
    return td_oom();
  }
  *out = s;
  return NULL;
}

static td_status *make_run(td_kernel_ctx *c) {
  const td_tensor *most = td_in(c, 0);
  td_shape_text text;
  td_tensor handle;
  stack *s = NULL;
  if (most->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "max_size must be a scalar, not of %s",
                    td_shape_str(&most->shape, &text));
  TD_TRY(new_stack(c, *(const int32_t *)most->data, &s));
  TD_TRY(td_tensor_object(TD_RESOURCE, &s->object, &handle));
  c->out[0] = handle;
  return NULL;
}

/* ---- elements ------------------------------------------------------------ */

static td_status *find(td_kernel_ctx *c, stack **out) {
  const td_tensor *t = td_in(c, 0);
  td_object *o = td_tensor_get_object(t);
  if (!o || strcmp(o->type, type_name) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "handle must be that of a stack, not of %s%s",
                    o ? "a " : "several things", o ? o->type : "");
  *out = (stack *)o;
  return NULL;
}

static td_status *check_open(const stack *s) {
  if (TD_LIKELY(!s->closed)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "stack %s was closed before", s->name);
}

/* Under the mutex. */
static td_status *put(stack *s, const td_tensor *t, bool swap, bool may) {
  td_aside a;
  TD_TRY(check_open(s));
  if (s->most >= 0 && s->elements.len >= (size_t)s->most)
    return td_error(TD_INVALID_ARGUMENT,
                    "stack %s is full: its max_size is %lld", s->name,
                    (long long)s->most);
  TD_TRY(td_aside_put(s->device, t, swap, may, &a));
  if (td_vec_push(&s->elements, a)) return NULL;
  td_aside_drop(s->device, &a);
  return td_oom();
}

/* Under the mutex. */
static td_status *take(stack *s, td_aside *out) {
  TD_TRY(check_open(s));
  if (s->elements.len == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "stack %s is empty: it was popped more often than pushed",
                    s->name);
  *out = s->elements.at[--s->elements.len];
  return NULL;
}

/* What lies there already frees nothing by leaving. */
static bool is_there(const stack *s, const td_tensor *t) {
  size_t n = s->elements.len;
  return n > 0 && (td_aside_same(&s->elements.at[0], t) ||
                   td_aside_same(&s->elements.at[n - 1], t));
}

/* *leaving, where it is to be copied: a share. */
static td_status *push(td_kernel_ctx *c, bool may,
                       struct td_leaving **leaving) {
  const td_tensor *t = td_in(c, 1);
  stack *s = NULL;
  TD_TRY(find(c, &s));
  if (t->dtype != s->dtype)
    return td_error(TD_INVALID_ARGUMENT,
                    "stack %s holds %s and cannot be given %s", s->name,
                    td_dtype_name(s->dtype), td_dtype_name(t->dtype));
  bool swap = may && td_aside_due(s->device, t);
  pthread_mutex_lock(&s->mutex);
  td_status *st = put(s, t, swap && !is_there(s, t), may);
  if (td_ok(st))
    *leaving = td_aside_share(&s->elements.at[s->elements.len - 1]);
  pthread_mutex_unlock(&s->mutex);
  TD_TRY(st);
  td_out_pass(c, 0, 1);
  return NULL;
}

static td_status *push_run(td_kernel_ctx *c) {
  struct td_leaving *none = NULL;
  return push(c, false, &none);
}

static void push_start(td_kernel_ctx *c) {
  struct td_leaving *leaving = NULL;
  td_status *s = push(c, td_node_bool(td_ctx_node(c), "swap_memory"), &leaving);
  if (leaving)
    td_aside_leave(leaving, c);
  else
    td_kernel_done(c, s);
}

static td_status *pop(td_kernel_ctx *c, stack **s, td_aside *out) {
  td_dtype want = td_ctx_node(c)->out[0].dtype;
  TD_TRY(find(c, s));
  if (want != (*s)->dtype)
    return td_error(TD_INVALID_ARGUMENT, "stack %s holds %s and cannot give %s",
                    (*s)->name, td_dtype_name((*s)->dtype),
                    td_dtype_name(want));
  pthread_mutex_lock(&(*s)->mutex);
  td_status *st = take(*s, out);
  pthread_mutex_unlock(&(*s)->mutex);
  return st;
}

static td_status *pop_run(td_kernel_ctx *c) {
  stack *s = NULL;
  td_aside a;
  TD_TRY(pop(c, &s, &a));
  c->out[0] = a.here;
  return NULL;
}

static void pop_start(td_kernel_ctx *c) {
  stack *s = NULL;
  td_aside a;
  td_status *st = pop(c, &s, &a);
  if (td_ok(st))
    td_aside_take(s->device, &a, c);
  else
    td_kernel_done(c, st);
}

/* Copies that were begun end by themselves. */
static void cancel(td_kernel_ctx *c) {
  (void)c;
}

static void why(const td_kernel_ctx *c, td_str *out) {
  td_str_addf(out, "a copy between %s and the host", c->kernel->device->name);
}

static td_status *close_run(td_kernel_ctx *c) {
  stack *s = NULL;
  TD_TRY(find(c, &s));
  pthread_mutex_lock(&s->mutex);
  drop_elements(s);
  s->closed = true;
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *make_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "max_size", NULL));
  return td_infer_scalars(c);
}

static td_status *push_infer(td_infer *c) {
  td_infer_out(c, 0, *td_infer_in(c, 1));
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = ""

static const td_op_def ops[] = {
    {.type = "StackV2",
     .sig = "max_size: int32 -> handle: resource; "
            "elem_type: type; stack_name: string = \"\"",
     .shape = make_infer,
     .cost = td_cost_none,
     .doc = "A stack of at most max_size tensors (-1: any number), for one "
            "step.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .host = "max_size",
     SECTION},
    {.type = "StackPushV2",
     .sig = "handle: resource, elem: T -> output: T; "
            "T: type; swap_memory: bool = false",
     .shape = push_infer,
     .cost = td_cost_none,
     .doc = "Puts elem on a stack, and passes it on. swap_memory: where a "
            "device's memory fills up, elem is kept in the host's.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     SECTION},
    {.type = "StackPopV2",
     .sig = "handle: resource -> elem: elem_type; elem_type: type",
     .shape = td_infer_any,
     .cost = td_cost_none,
     .doc = "Takes the topmost tensor off a stack.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     SECTION},
    {.type = "StackCloseV2",
     .sig = "handle: resource ->",
     .shape = td_infer_none,
     .cost = td_cost_none,
     .doc = "Lets go of all that is on a stack, and of the stack.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE
#define COPIES .cancel = cancel, .why = why

static const td_kernel_def kernels[] = {
    {.op = "StackV2", .run = make_run, CPU},
    {.op = "StackPushV2", .run = push_run, .start = push_start, COPIES, CPU},
    {.op = "StackPopV2", .run = pop_run, .start = pop_start, COPIES, CPU},
    {.op = "StackCloseV2", .run = close_run, CPU},
    {0},
};

TD_MODULE(loop_stack, ops, kernels)
