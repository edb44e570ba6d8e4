/* remote_graph.c - see remote_graph.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/remote_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/device/kernel_rows.h"
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/seeds.h"

enum { STEPS = REMOTE_PROCESSES * REMOTE_ROWS, MOST_NODES = 1024 };

static const int64_t ms = 1000000;

/* ---- counts -------------------------------------------------------------- */

static struct {
  history *h;
  int number[MOST_NODES], place[REMOTE_PROCESSES]; /* by node; by number */
  unsigned char times[REMOTE_PROCESSES][STEPS];
} counts;

void remote_counts_begin(history *h) {
  memset(&counts, 0, sizeof counts);
  counts.h = h;
}

void remote_counts_process(sim_node_t node, int number, int place) {
  counts.number[node] = number;
  counts.place[number] = place;
}

void remote_counts_tell(int number) {
  for (int step = 0; step < STEPS; step++)
    if (counts.times[number][step])
      history_found(counts.h, number, step, counts.place[number],
                    counts.times[number][step]);
}

/* ---- kernels ------------------------------------------------------------- */

static int64_t step_of(const td_kernel_ctx *c, int input) {
  return *(const int64_t *)td_in(c, input)->data;
}

/* y = x, after a while. */
typedef struct nap {
  uint64_t timer;
} nap;

static void wake_up(void *arg) {
  td_kernel_ctx *c = arg;
  td_free(c->work);
  c->work = NULL;
  td_out_set(c, 0, td_in(c, 0));
  td_kernel_done(c, NULL);
}

static int64_t draw_nap(void) {
  uint64_t kind = sim_draw(32);
  if (kind < 16) return 0;
  return (int64_t)sim_draw((uint64_t)((kind == 16 ? 4000 : 40) * ms));
}

static void nap_start(td_kernel_ctx *c) {
  nap *n = td_calloc(1, sizeof *n);
  int64_t ns = draw_nap();
  c->work = n;
  if (td_stopped(c) || ns == 0)
    wake_up(c);
  else
    n->timer = td_timer_start(td_clock_now() + ns, wake_up, c);
}

/* It was told that the step is over: nothing of it begins any more. */
static void nap_cancel(td_kernel_ctx *c) {
  nap *n = c->work;
  history_cancelled(counts.h, counts.number[sim_here()], step_of(c, 1));
  if (!n || !n->timer) return;
  if (sim_draw(4) == 0) return; /* it hears of it late: it ends as it would */
  td_timer_cancel(n->timer);
  td_free(n);
  c->work = NULL;
  td_kernel_done(c, td_error(TD_CANCELLED, "cancelled"));
}

/* What is added to the variable. */
static td_status *count_run(td_kernel_ctx *c) {
  td_tensor *row;
  td_shape shape = td_shape_vector(2 * (int64_t)REMOTE_ROWS);
  int64_t step = step_of(c, 0), k = step % REMOTE_ROWS;
  int number = counts.number[sim_here()];
  if (step < 0 || step >= STEPS)
    return td_error(TD_INVALID_ARGUMENT, "step %lld", (long long)step);
  TD_TRY(td_out(c, 0, &shape, &row));
  int64_t *at = row->data;
  memset(at, 0, td_tensor_bytes(row));
  at[2 * k] = at[2 * k + 1] = 1;
  history_applying(counts.h, number, step, counts.place[number]);
  counts.times[number][step]++;
  history_applied(counts.h, number, step, counts.place[number]);
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "TestSimNap",
     .sig = "x: float, step: int64 -> y: float",
     .shape = td_infer_same,
     .flags = TD_STATEFUL,
     .doc = "Gives its input after a while."},
    {.type = "TestSimCount",
     .sig = "step: int64, x: float -> row: int64",
     .shape = td_infer_any,
     .flags = TD_STATEFUL,
     .doc = "Counts a step."},
    {0},
};
static const td_kernel_def kernels[] = {
    {.op = "TestSimNap",
     .device = "CPU",
     .start = nap_start,
     .cancel = nap_cancel},
    {.op = "TestSimCount", .device = "CPU", .run = count_run},
    {0},
};
static const td_module module = {"test_sim_remote", ops, kernels};

static void register_ops(void) {
  static bool done;
  if (done) return;
  done = true;
  OK(td_op_register(&module));
  OK(td_kernel_register(&module));
}

/* ---- nodes --------------------------------------------------------------- */

typedef struct made {
  remote_graph *g;
  char device[64]; /* "": anywhere */
} made;

static made on(remote_graph *g, int worker) {
  made m = {g, ""};
  if (worker >= 0)
    snprintf(m.device, sizeof m.device, "/job:worker/task:%d/device:CPU:0",
             worker);
  return m;
}

static void begin(const made *m, td_build *b, const char *op) {
  td_build_init(b, m->g->graph, op, NULL);
  if (*m->device) b->device = m->device;
}

static td_edge end(td_build *b) {
  td_edge e = {NULL, 0};
  OK(td_build_node(b, &e.node));
  return e;
}

static td_edge node(const made *m, const char *op, td_edge a, td_edge b) {
  td_build at;
  begin(m, &at, op);
  td_build_flat(&at, (td_edge[]){a, b}, b.node ? 2 : 1);
  return end(&at);
}

static const td_edge none;

static td_edge constant(const made *m, td_dtype t, const td_tensor *value,
                        td_node *after) {
  td_build b;
  begin(m, &b, "Const");
  td_build_attr(&b, "dtype", td_attr_type(t));
  td_build_attr(&b, "value", td_attr_tensor(value));
  if (after) td_build_control(&b, after);
  return end(&b);
}

static td_edge scalar(const made *m, td_dtype t, double v, td_node *after) {
  td_tensor value;
  OK(td_tensor_scalar_f(t, v, &value));
  td_edge e = constant(m, t, &value, after);
  td_tensor_release(&value);
  return e;
}

static td_edge placeholder(remote_graph *g, const char *name, td_dtype t,
                           td_shape shape) {
  td_build b;
  td_build_init(&b, g->graph, "Placeholder", name);
  td_build_attr(&b, "dtype", td_attr_type(t));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  return end(&b);
}

/* ---- the graph ----------------------------------------------------------- */

static void add_variable(remote_graph *g, int worker, td_edge row) {
  made m = on(g, worker);
  char name[16];
  td_build b;
  td_tensor zeros;
  td_shape shape = td_shape_vector(2 * (int64_t)REMOTE_ROWS);
  static const int64_t all[2 * REMOTE_ROWS];
  snprintf(name, sizeof name, "v%d", worker);
  td_build_init(&b, g->graph, "VarHandleOp", name);
  b.device = m.device;
  td_build_attr(&b, "dtype", td_attr_type(TD_INT64));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  td_build_attr(&b, "shared_name", td_attr_string(name));
  td_edge v = end(&b);
  OK(td_tensor_from(TD_INT64, &shape, all, &zeros));
  td_edge zero = constant(&m, TD_INT64, &zeros, NULL);
  td_tensor_release(&zeros);
  g->init[worker] = node(&m, "AssignVariableOp", v, zero).node;
  snprintf(name, sizeof name, "saved%d", worker);
  g->saved[worker] = placeholder(g, name, TD_INT64, shape);
  g->restore[worker] = node(&m, "AssignVariableOp", v, g->saved[worker]).node;
  g->count[worker] = node(&m, "AssignAddVariableOp", v, row).node;
  begin(&m, &b, "ReadVariableOp");
  td_build_flat(&b, &v, 1);
  td_build_attr(&b, "dtype", td_attr_type(TD_INT64));
  g->read[worker] = end(&b);
}

static td_edge port(td_edge e, int p) {
  return (td_edge){e.node, p};
}

static td_edge enter(const made *m, td_edge in, const char *frame) {
  td_build b;
  begin(m, &b, "Enter");
  td_build_in(&b, in);
  td_build_attr(&b, "frame_name", td_attr_string(frame));
  td_build_attr(&b, "parallel_iterations", td_attr_int(4));
  return end(&b);
}

static td_edge merge_of(const made *m, td_edge in) {
  td_build b;
  begin(m, &b, "Merge");
  td_build_flat(&b, (td_edge[]){in, none}, 2);
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "N", td_attr_int(2));
  return end(&b);
}

/* while i < TURNS: i = i + 1, which is added on the last worker. */
static td_edge add_loop(remote_graph *g, int workers) {
  made here = on(g, 0), there = on(g, workers - 1);
  td_edge zero = scalar(&here, TD_FLOAT32, 0, NULL);
  td_edge merge = merge_of(&here, enter(&here, zero, "turns"));
  td_edge limit = scalar(&here, TD_FLOAT32, REMOTE_TURNS, merge.node);
  td_edge less = node(&here, "Less", merge, limit);
  td_edge cond = node(&here, "LoopCond", less, none);
  td_edge sw = node(&here, "Switch", merge, cond);
  td_edge body = node(&there, "Identity", port(sw, 1), none);
  td_edge one = scalar(&there, TD_FLOAT32, 1, body.node);
  td_edge sum = node(&there, "AddV2", body, one);
  td_edge next = node(&here, "NextIteration", sum, none);
  OK(td_node_set_back_edge(merge.node, 1, next));
  return node(&here, "Exit", port(sw, 0), none);
}

void remote_graph_init(remote_graph *g, int workers) {
  register_ops();
  *g = (remote_graph){0};
  OK(td_graph_new(&g->graph));
  g->id = placeholder(g, "id", TD_INT64, td_shape_scalar());
  g->x = placeholder(g, "x", TD_FLOAT32, td_shape_vector(-1));
  g->y = g->x;
  for (int i = 0; i < workers; i++) {
    made m = on(g, i);
    g->y = node(&m, "TestSimNap", g->y, g->id);
    add_variable(g, i, node(&m, "TestSimCount", g->id, g->y));
  }
  g->turned = add_loop(g, workers);
}

void remote_graph_deinit(remote_graph *g) {
  td_graph_release(g->graph);
}
