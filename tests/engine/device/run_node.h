/* run_node.h - what the tests of engine/device share: ops of their own, and a
 * node run on any device as the executor would.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_DEVICE_RUN_NODE_H
#define TD_TESTS_DEVICE_RUN_NODE_H

#include "tests/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "engine/device/kernel_rows.h"
#include "engine/device/kernel_start.h"
#include "engine/device/variable.h"
#include "engine/graph/build.h"

#define PLACE "/job:localhost/replica:0/task:0"

/* ---- a device ------------------------------------------------------------ */

/* CPU:0 of a group of tests: begin_cpu and end_cpu go around the group. */
static td_device *cpu;

static inline int begin_cpu(void **state) {
  (void)state;
  OK(td_device_cpu_new(PLACE, 0, 0, &cpu));
  return 0;
}

static inline int end_cpu(void **state) {
  (void)state;
  td_device_release(cpu);
  return 0;
}

/* ---- tensors ------------------------------------------------------------- */

static inline td_tensor floats(int64_t n, const float *at) {
  td_tensor t;
  td_shape shape = n < 0 ? td_shape_scalar() : td_shape_vector(n);
  OK(td_tensor_from(TD_FLOAT32, &shape, at, &t));
  return t;
}

static inline td_tensor ints(int64_t n, const int32_t *at) {
  td_tensor t;
  td_shape shape = n < 0 ? td_shape_scalar() : td_shape_vector(n);
  OK(td_tensor_from(TD_INT32, &shape, at, &t));
  return t;
}

static inline td_tensor text(const char *s) {
  td_tensor t;
  td_shape shape = td_shape_scalar();
  size_t len = strlen(s);
  OK(td_tensor_strings(&shape, &s, &len, &t));
  return t;
}

#define FLOATS(...)                                                            \
  floats((int64_t)TD_COUNT(((float[]){__VA_ARGS__})), (float[]){__VA_ARGS__})
#define INTS(...)                                                              \
  ints((int64_t)TD_COUNT(((int32_t[]){__VA_ARGS__})), (int32_t[]){__VA_ARGS__})

/* A handle; the variable stays the caller's. */
static inline td_tensor handle_of(td_variable *v) {
  td_tensor t;
  td_object_retain(&v->base.object);
  OK(td_tensor_object(TD_RESOURCE, &v->base.object, &t));
  return t;
}

/* ---- a step -------------------------------------------------------------- */

static inline td_step step_new(void) {
  td_step s = {.id = 1, .threads = 2};
  OK(td_cancel_new(&s.cancel));
  OK(td_rendezvous_new(8, &s.rendezvous));
  s.stop = td_cancel_flag(s.cancel);
  return s;
}

static inline void step_end(td_step *s) {
  td_cancel_release(s->cancel);
  td_rendezvous_free(s->rendezvous);
}

/* ---- one node ------------------------------------------------------------ */

enum { MAX_OPERANDS = 8 };

/* A kernel on its way. Inputs and outputs are where the kernel wants them. */
typedef struct pending {
  td_kernel kernel;
  td_kernel_ctx ctx;
  td_tensor in[MAX_OPERANDS], out[MAX_OPERANDS];
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  bool over;         /* under the mutex */
  td_status *status; /* under the mutex */
  int32_t dones;     /* atomic */
} pending;

static inline void pending_done(td_kernel_ctx *c, td_status *s) {
  pending *f = c->owner;
  __atomic_fetch_add(&f->dones, 1, __ATOMIC_ACQ_REL);
  pthread_mutex_lock(&f->mutex);
  f->status = s;
  f->over = true;
  pthread_cond_signal(&f->cond);
  pthread_mutex_unlock(&f->mutex);
}

/* From host tensors, which stay the caller's. */
static inline td_status *pending_init(pending *f, const td_node *n, td_device *d,
                                     td_states *states, td_step *step,
                                     const td_tensor *in) {
  *f = (pending){.mutex = PTHREAD_MUTEX_INITIALIZER,
                .cond = PTHREAD_COND_INITIALIZER};
  TD_TRY(td_kernel_init(&f->kernel, n, d, states));
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < n->n_in; i++)
    s = td_device_transfer_wait(
        d, &in[i], f->kernel.in_host[i] ? d->host : d->memory, &f->in[i]);
  f->ctx = (td_kernel_ctx){.kernel = &f->kernel,
                           .step = step,
                           .in = f->in,
                           .out = f->out,
                           .n_in = n->n_in,
                           .n_out = n->n_out,
                           .done = pending_done,
                           .owner = f};
  return s;
}

static inline td_status *pending_wait(pending *f) {
  pthread_mutex_lock(&f->mutex);
  while (!f->over) pthread_cond_wait(&f->cond, &f->mutex);
  pthread_mutex_unlock(&f->mutex);
  return f->status;
}

static inline bool pending_over(pending *f) {
  pthread_mutex_lock(&f->mutex);
  bool over = f->over;
  pthread_mutex_unlock(&f->mutex);
  return over;
}

typedef struct settler {
  td_settling base; /* first */
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  bool over; /* under the mutex */
} settler;

static inline void settled(td_settling *w) {
  settler *s = (settler *)w;
  pthread_mutex_lock(&s->mutex);
  s->over = true;
  pthread_cond_signal(&s->cond);
  pthread_mutex_unlock(&s->mutex);
}

/* Waits until all work that `d` was given is complete. */
static inline void settle(td_device *d) {
  settler s = {.base.over = settled,
               .mutex = PTHREAD_MUTEX_INITIALIZER,
               .cond = PTHREAD_COND_INITIALIZER};
  if (!d->settle || d->settle(d, &s.base)) return;
  pthread_mutex_lock(&s.mutex);
  while (!s.over) pthread_cond_wait(&s.cond, &s.mutex);
  pthread_mutex_unlock(&s.mutex);
}

static inline void pending_end(pending *f) {
  if (f->kernel.device) settle(f->kernel.device);
  for (int i = 0; i < MAX_OPERANDS; i++) {
    td_tensor_release(&f->in[i]);
    td_tensor_release(&f->out[i]);
  }
  td_kernel_deinit(&f->kernel);
}

/* Runs a node and fetches what it made; outputs are the caller's. */
static inline td_status *run_node(const td_node *n, td_device *d, td_step *step,
                                  const td_tensor *in, td_tensor *out) {
  pending f;
  td_status *s = pending_init(&f, n, d, NULL, step, in);
  for (int i = 0; i < n->n_out; i++) out[i] = (td_tensor){0};
  if (td_ok(s)) {
    td_kernel_start(&f.ctx);
    s = pending_wait(&f);
  }
  for (int i = 0; td_ok(s) && i < n->n_out; i++)
    s = td_device_transfer_wait(d, &f.out[i], d->host, &out[i]);
  pending_end(&f);
  if (td_ok(s) && td_cancelled(step->stop)) s = td_cancel_cause(step->cancel);
  return s;
}

/* ---- nodes --------------------------------------------------------------- */

static inline td_edge placeholder(td_graph *g, td_dtype dtype) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, g, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  OK(td_build_node(&b, &e.node));
  return e;
}

/* A node of `op` with a placeholder for each of the n dtypes. */
static inline td_node *node_of(td_graph *g, const char *op,
                               const td_dtype *types, int n) {
  td_build b;
  td_node *node;
  td_build_init(&b, g, op, NULL);
  for (int i = 0; i < n; i++) td_build_in(&b, placeholder(g, types[i]));
  OK(td_build_node(&b, &node));
  return node;
}

#define NODE(g, op, ...)                                                       \
  node_of(g, op, (td_dtype[]){__VA_ARGS__},                                    \
          (int)TD_COUNT(((td_dtype[]){__VA_ARGS__})))

/* ---- ops ----------------------------------------------------------------- */

static inline void double_piece(void *arg, int64_t begin, int64_t end) {
  float *at = arg;
  for (int64_t i = begin; i < end; i++) at[i] *= 2;
}

static inline td_status *double_run(td_kernel_ctx *c) {
  td_tensor *y, work;
  const td_tensor *x = td_in(c, 0);
  TD_TRY(td_temp(c, TD_FLOAT32, &x->shape, &work));
  size_t bytes = td_tensor_bytes(x);
  if (bytes) memcpy(work.data, x->data, bytes);
  td_for(c, td_tensor_count(x), 16, double_piece, work.data);
  td_status *s = td_out_like(c, 0, 0, &y);
  if (td_ok(s) && bytes) memcpy(y->data, work.data, bytes);
  td_tensor_release(&work);
  return s;
}

/* y = the first k elements of x; n = k: k and n live in host memory. */
static inline td_status *take_run(td_kernel_ctx *c) {
  td_tensor *y, *n;
  int32_t k = *(const int32_t *)td_in(c, 1)->data;
  td_shape shape = td_shape_vector(k), scalar = td_shape_scalar();
  if (k < 0 || k > td_tensor_count(td_in(c, 0)))
    return td_error(TD_OUT_OF_RANGE, "k is %d", k);
  TD_TRY(td_out(c, 0, &shape, &y));
  TD_TRY(td_out(c, 1, &scalar, &n));
  *(int32_t *)n->data = k;
  if (k) memcpy(y->data, td_in(c, 0)->data, (size_t)k * sizeof(float));
  return NULL;
}

static inline td_status *update_run(td_kernel_ctx *c) {
  td_variable *v;
  td_tensor *value;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_write(c, v, &value));
  float by = *(const float *)td_in(c, 1)->data, *at = value->data;
  for (int64_t i = 0; i < td_tensor_count(value); i++) at[i] += by;
  return NULL;
}

static inline td_status *read_run(td_kernel_ctx *c) {
  td_variable *v;
  td_tensor t;
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_read(c, v, &t));
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

static inline td_status *set_run(td_kernel_ctx *c) {
  td_variable *v;
  TD_TRY(td_var(c, 0, &v));
  return td_var_assign(c, v, td_in(c, 1));
}

/* One row through the shared lock, without a share. */
static inline td_status *peek_run(td_kernel_ctx *c) {
  td_variable *v;
  td_tensor *y;
  const td_tensor *value;
  td_shape scalar = td_shape_scalar();
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, &value));
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(float *)y->data = *(const float *)value->data;
  return NULL;
}

/* a += b; b may be a. */
static inline td_status *join_run(td_kernel_ctx *c) {
  td_variable *a, *b;
  td_tensor *to;
  const td_tensor *from;
  TD_TRY(td_var(c, 0, &a));
  TD_TRY(td_var(c, 1, &b));
  TD_TRY(td_var_write(c, a, &to));
  TD_TRY(td_var_peek(c, b, &from));
  float *at = to->data;
  const float *by = from->data;
  for (int64_t i = 0; i < td_tensor_count(to); i++) at[i] += by[i];
  return NULL;
}

/* Waits until the test, or a cancel, takes it from here. */
static td_kernel_ctx *waiting; /* atomic */

static inline void wait_end(td_status *s) {
  td_kernel_ctx *c = __atomic_exchange_n(&waiting, NULL, __ATOMIC_ACQ_REL);
  if (c)
    td_kernel_done(c, s);
  else
    td_status_release(s);
}

static inline void wait_start(td_kernel_ctx *c) {
  __atomic_store_n(&waiting, c, __ATOMIC_RELEASE);
  if (td_stopped(c)) wait_end(td_error(TD_CANCELLED, "stopped"));
}

static inline void wait_cancel(td_kernel_ctx *c) {
  (void)c;
  wait_end(td_error(TD_CANCELLED, "cancelled while it waits"));
}

static inline void wait_why(const td_kernel_ctx *c, td_str *out) {
  td_str_addf(out, "the test, at %s", c->kernel->device->name);
}

/* How often it ran, and how many states there are. */
static int32_t states; /* atomic */

static inline td_status *count_make(const td_kernel_info *info, void **state) {
  (void)info;
  *state = td_calloc(1, sizeof(int32_t));
  if (!*state) return td_oom();
  __atomic_fetch_add(&states, 1, __ATOMIC_RELAXED);
  return NULL;
}

static inline void count_drop(void *state) {
  __atomic_fetch_sub(&states, 1, __ATOMIC_RELAXED);
  td_free(state);
}

static inline td_status *count_save(const void *state, td_str *out) {
  td_bytes_put(out, (uint64_t)*(const int32_t *)state, 4);
  return NULL;
}

static inline td_status *count_load(void *state, td_bytes from) {
  uint64_t n;
  if (from.len != 4 || !td_bytes_get(&from, 4, &n))
    return td_error(TD_DATA_LOSS, "no count");
  *(int32_t *)state = (int32_t)n;
  return NULL;
}

static inline td_status *count_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(int32_t *)y->data = ++*(int32_t *)c->kernel->state;
  return NULL;
}

static inline td_status *never_run(td_kernel_ctx *c) {
  (void)c;
  return td_error(TD_INTERNAL, "was run");
}

#define ANY .shape = td_infer_any
#define CPU .device = "CPU"

static const td_op_def node_ops[] = {
    {.type = "TestDouble", .sig = "x: float -> y: float", ANY},
    {.type = "TestTake",
     .sig = "x: float, k: int32 -> y: float, n: int32",
     .host = "k, n",
     ANY},
    {.type = "TestUpdate", .sig = "var: resource, by: float ->", ANY},
    {.type = "TestRows",
     .sig = "var: resource, by: float ->",
     .flags = TD_SPARSE,
     ANY},
    {.type = "TestRead", .sig = "var: resource -> y: float", ANY},
    {.type = "TestPeek",
     .sig = "var: resource -> y: float",
     .flags = TD_SPARSE,
     ANY},
    {.type = "TestSet", .sig = "var: resource, x: float ->", ANY},
    {.type = "TestSetText", .sig = "var: resource, x: string ->", ANY},
    {.type = "TestJoin", .sig = "a: resource, b: resource ->", ANY},
    {.type = "TestWait", .sig = "->", ANY},
    {.type = "TestCount", .sig = "-> y: int32", ANY},
    {.type = "TestTypes",
     .sig = "x: T, i: Ti -> y: T; T: type; Ti: {int32, int64}; U: list(type)",
     ANY},
    {0},
};

static const td_kernel_def node_kernels[] = {
    {.op = "TestDouble", CPU, .run = double_run},
    {.op = "TestTake", CPU, .run = take_run},
    {.op = "TestUpdate", CPU, .run = update_run, .exclusive = "var"},
    {.op = "TestRows", CPU, .run = update_run, .exclusive = "var"},
    {.op = "TestRead", CPU, .run = read_run, .shared = "var"},
    {.op = "TestPeek", CPU, .run = peek_run, .shared = "var"},
    {.op = "TestSet", CPU, .run = set_run, .exclusive = "var"},
    {.op = "TestSetText", CPU, .run = set_run, .exclusive = "var"},
    {.op = "TestJoin", CPU, .run = join_run, .shared = "b", .exclusive = "a"},
    {.op = "TestWait",
     CPU,
     .start = wait_start,
     .cancel = wait_cancel,
     .why = wait_why},
    {.op = "TestCount",
     CPU,
     .run = count_run,
     .make = count_make,
     .drop = count_drop,
     .save = count_save,
     .load = count_load},
    {.op = "TestTypes", CPU, .types = "T=float|double", .run = never_run},
    {.op = "TestTypes", CPU, .types = "T=int32, Ti=int64", .run = never_run},
    {.op = "TestTypes", .device = "CUDA", .types = "U=half", .run = never_run},
    {0},
};

static const td_module node_module = {"run_node", node_ops, node_kernels};

static inline int register_node_ops(void **state) {
  (void)state;
  OK(td_op_register(&node_module));
  OK(td_kernel_register(&node_module));
  return 0;
}

#endif
