/* rig.h - runs hand-built parts: graphs that already hold _Retval nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RUN_RIG_H
#define TEST_RUN_RIG_H

#include "engine/device/states.h"
#include "tests/device.h"
#include "tests/engine/remote/fleet.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/run/executor.h"
#include "engine/run/runtime.h"
#include "tests/rounds.h"

enum { MOST_RETS = 8 };

typedef struct rig {
  td_runtime *runtime;
  td_device *device;
  td_states *states;
  td_resources *own;
  td_graph *graph;
  /* of the last run */
  td_tensor rets[MOST_RETS];
  bool dead[MOST_RETS];
  td_status *status;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool over;
} rig;

static inline void rig_init(rig *r) {
  memset(r, 0, sizeof *r);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->wake, NULL);
  OK(td_runtime_new(NULL, &r->runtime));
  OK(td_runtime_cpu(r->runtime, 0, &r->device));
  OK(td_states_new(&r->states));
  OK(td_resources_new(&r->own));
  OK(td_graph_new(&r->graph));
}

static inline void rig_clear(rig *r) {
  for (int i = 0; i < MOST_RETS; i++) td_tensor_release(&r->rets[i]);
  td_status_release(r->status);
  r->status = NULL;
}

static inline void rig_deinit(rig *r) {
  rig_clear(r);
  td_graph_release(r->graph);
  td_states_release(r->states);
  td_resources_free(r->own);
  session_runtime_ends(r->runtime);
  td_runtime_release(r->runtime);
}

static inline void rig_over(void *arg, td_status *s) {
  rig *r = arg;
  pthread_mutex_lock(&r->lock);
  r->status = s;
  r->over = true;
  pthread_cond_signal(&r->wake);
  pthread_mutex_unlock(&r->lock);
}

/* Runs `p` once on `threads` threads; the status is kept in r->status. */
static inline void rig_run(rig *r, td_program *p, int threads, bool here) {
  rig_clear(r);
  memset(r->dead, 0, sizeof r->dead);
  r->over = false;
  td_team *team;
  td_step step = {.id = 1, .threads = threads, .own = r->own};
  OK(td_cancel_new(&step.cancel));
  OK(td_rendezvous_new(8, &step.rendezvous));
  OK(td_team_new(threads, &team));
  step.stop = td_cancel_flag(step.cancel);
  step.resources = td_runtime_resources(r->runtime);
  step.rets = r->rets;
  step.rets_dead = r->dead;
  OK(td_executor_start(p, &step, team, rig_over, r));
  if (here)
    td_team_work(team, td_clock_now() + 1000000);
  else
    td_team_wake(team);
  pthread_mutex_lock(&r->lock);
  while (!r->over) pthread_cond_wait(&r->wake, &r->lock);
  pthread_mutex_unlock(&r->lock);
  td_team_release(team);
  td_rendezvous_free(step.rendezvous);
  td_cancel_release(step.cancel);
}

/* ---- building ---- */

static inline td_edge make_node(rig *r, const char *op, const char *name,
                                const td_edge *in, int n) {
  td_build b;
  td_node *node;
  td_build_init(&b, r->graph, op, name);
  td_build_flat(&b, in, n);
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

#define NODE(r, op, name, ...)                                                 \
  make_node(r, op, name, (td_edge[]){__VA_ARGS__},                             \
            (int)(sizeof((td_edge[]){__VA_ARGS__}) / sizeof(td_edge)))

static inline td_edge make_const(rig *r, td_dtype t, double v, td_node *after) {
  td_tensor value;
  td_build b;
  td_node *node;
  OK(td_tensor_scalar_f(t == TD_BOOL ? TD_INT8 : t, v, &value));
  value.dtype = t;
  td_build_init(&b, r->graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(t));
  td_build_attr(&b, "value", td_attr_tensor(&value));
  if (after) td_build_control(&b, after);
  OK(td_build_node(&b, &node));
  td_tensor_release(&value);
  return (td_edge){node, 0};
}

static inline void make_ret(rig *r, td_edge from, int index) {
  td_build b;
  td_node *node;
  td_build_init(&b, r->graph, "_Retval", "_ret");
  b.exact_name = false;
  td_build_in(&b, from);
  td_build_attr(&b, "index", td_attr_int(index));
  char name[32];
  snprintf(name, sizeof name, "_ret_%d", index);
  b.name = name;
  b.exact_name = true;
  OK(td_build_node(&b, &node));
}

static inline td_edge port(td_edge e, int p) {
  return (td_edge){e.node, p};
}

static inline td_edge make_enter(rig *r, td_edge in, const char *frame,
                                 bool constant, int parallel) {
  td_build b;
  td_node *node;
  td_build_init(&b, r->graph, "Enter", NULL);
  td_build_in(&b, in);
  td_build_attr(&b, "frame_name", td_attr_string(frame));
  td_build_attr(&b, "is_constant", td_attr_bool(constant));
  td_build_attr(&b, "parallel_iterations", td_attr_int(parallel));
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

/* An op whose only argument is a list. */
static inline td_edge make_list(rig *r, const char *op, const td_edge *in,
                                int n) {
  td_build b;
  td_node *node;
  td_build_init(&b, r->graph, op, NULL);
  td_build_list(&b, in, n);
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

/* A Merge whose second input comes later. */
static inline td_edge make_loop_merge(rig *r, td_edge enter) {
  td_build b;
  td_node *node;
  td_edge in[2] = {enter, {NULL, 0}};
  td_build_init(&b, r->graph, "Merge", NULL);
  td_build_flat(&b, in, 2);
  td_build_attr(&b, "T", td_attr_type(td_edge_dtype(enter)));
  td_build_attr(&b, "N", td_attr_int(2));
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

/* while true */
static inline td_edge make_endless(rig *r) {
  td_edge zero = make_const(r, TD_FLOAT64, 0, NULL);
  td_edge enter = make_enter(r, zero, "endless", false, 10);
  td_edge merge = make_loop_merge(r, enter);
  td_edge yes = make_const(r, TD_BOOL, 1, merge.node);
  td_edge cond = NODE(r, "LoopCond", NULL, yes);
  td_edge sw = NODE(r, "Switch", NULL, merge, cond);
  td_edge exit = NODE(r, "Exit", "endless_exit", port(sw, 0));
  td_edge body = NODE(r, "Identity", "endless_body", port(sw, 1));
  td_edge one = make_const(r, TD_FLOAT64, 1, body.node);
  td_edge next = NODE(r, "AddV2", "endless_add", body, one);
  td_edge back = NODE(r, "NextIteration", NULL, next);
  OK(td_node_set_back_edge(merge.node, 1, back));
  return exit;
}

/* The part in topological order, compiled. */
static inline td_program *rig_compile(rig *r) {
  td_program *p;
  OK(td_program_new(r->graph, r->device, r->states, NULL, &p));
  return p;
}

#endif
