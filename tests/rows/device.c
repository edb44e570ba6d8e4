/* device.c - the cases that TensorFlow answers, as steps on a device.
 *
 * With TIDE_DEVICE=TYPE in the environment rows does this and nothing else, or
 * with TIDE_FLEET, which asks for workers (tests/engine/remote/fleet.h). The
 * node of a case is asked to be on TYPE:0, or on a worker, its inputs are fed,
 * its variables assigned and read by nodes beside it: whatever has to be copied
 * to the device and back is, as in any step. A node without a kernel there runs
 * where it can, and is counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/device.h"
#include "tests/engine/remote/fleet.h"
#include "tests/rows/rows.h"

#include <stdio.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/run/session.h"

int steps_there, steps_elsewhere;

typedef struct step {
  const row *r;
  const golden_case *c;
  built b;
  td_session *s;
  td_edge feed[MAX_IN]; /* inputs, then values of variables */
  td_tensor fed[MAX_IN];
  int n_in, n_feeds;
  td_node *init[MAX_IN], *read[MAX_IN]; /* by variable */
} step;

const char *device_wanted(void) {
  return fleet_wanted() ? "a worker's CPU" : device_type(NULL);
}

/* One for all cases, and its workers. */
static td_runtime *runtime(void) {
  static td_runtime *rt;
  if (!rt) OK(td_runtime_new(NULL, &rt));
  return rt;
}

static fleet workers;
static td_remote *client;

static void attach(td_session *s) {
  if (!fleet_wanted()) return;
  if (!client) {
    fleet_start(&workers, fleet_wanted());
    client = fleet_client(runtime());
  }
  fleet_attach(&workers, client, s);
}

void devices_end(void) {
  if (client) fleet_leave(client);
  client = NULL;
  fleet_stop(&workers);
}

static void demand(const step *t, const char *what, td_status *s) {
  if (!td_ok(s))
    fail_msg("%s, case %d: %s: %s", t->r->op, t->c->index, what,
             td_status_message(s));
}

/* ---- building ------------------------------------------------------------ */

static void feed(step *t, td_edge edge, const td_tensor *value) {
  t->feed[t->n_feeds] = edge;
  t->fed[t->n_feeds++] = *value; /* borrowed from the case */
}

static td_node *variable_op(step *t, const char *op, td_edge handle,
                            const td_edge *value, td_dtype dtype) {
  td_build b;
  td_node *n;
  td_build_init(&b, t->b.graph, op, NULL);
  td_build_in(&b, handle);
  if (value) td_build_in(&b, *value);
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  OK(td_build_node(&b, &n));
  return n;
}

static void add_variable(step *t, int i) {
  const golden_case *c = t->c;
  td_edge handle = t->b.node->in[c->var_in[i]], value = {NULL, 0};
  td_dtype dtype = c->var_dtype[i];
  t->read[i] = variable_op(t, "ReadVariableOp", handle, NULL, dtype);
  if (!td_tensor_valid(&c->before[i])) return;
  td_build b;
  td_build_init(&b, t->b.graph, "Placeholder", "before");
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  OK(td_build_node(&b, &value.node));
  t->init[i] = variable_op(t, "AssignVariableOp", handle, &value, dtype);
  feed(t, value, &c->before[i]);
}

/* Feeds of inputs come first, those of variables follow. */
static void step_init(step *t, const row *r, const golden_case *c) {
  char device[64];
  *t = (step){.r = r, .c = c};
  demand(t, "not built", build_node(c, c->in, SHAPES, &t->b));
  snprintf(device, sizeof device, "/device:%s:0", device_wanted());
  if (fleet_wanted()) snprintf(device, sizeof device, "%s", fleet_device());
  OK(td_node_set_device(t->b.node, device));
  for (int i = 0; i < t->b.node->n_in; i++)
    if (strcmp(t->b.node->in[i].node->op->type, "Placeholder") == 0)
      feed(t, t->b.node->in[i], &c->in[i]);
  t->n_in = t->n_feeds;
  for (int i = 0; i < c->n_var; i++) add_variable(t, i);
  td_session_options so = {.threads = 2, .cpu_devices = 1};
  OK(td_session_new(runtime(), t->b.graph, &so, &t->s));
  attach(t->s);
}

static void step_deinit(step *t) {
  td_session_close(t->s);
  td_session_release(t->s);
  built_drop(&t->b);
}

/* ---- running ------------------------------------------------------------- */

static void assign(const step *t) {
  td_node *init[MAX_IN];
  int n = 0;
  for (int i = 0; i < t->c->n_var; i++)
    if (t->init[i]) init[n++] = t->init[i];
  td_signature sig = {.feeds = t->feed + t->n_in,
                      .n_feeds = t->n_feeds - t->n_in,
                      .targets = init,
                      .n_targets = n};
  demand(t, "variables",
         td_session_run(t->s, &sig, t->fed + t->n_in, NULL, NULL));
}

static bool is_value(const td_tensor *t) {
  return td_tensor_valid(t) && t->dtype != TD_RESOURCE;
}

/* Runs the node and compares the outputs that are not dead with `want`. */
static void run_and_compare(const step *t, const td_tensor *want) {
  const golden_case *c = t->c;
  td_edge fetch[MAX_OUT];
  td_tensor got[MAX_OUT];
  int at[MAX_OUT], n = 0;
  char what[64];
  for (int i = 0; i < c->n_out; i++) {
    if (!is_value(&c->out[i])) continue;
    at[n] = i;
    fetch[n++] = (td_edge){t->b.node, i};
  }
  td_node *target = t->b.node;
  td_signature sig = {.feeds = t->feed,
                      .n_feeds = t->n_in,
                      .fetches = fetch,
                      .n_fetches = n,
                      .targets = &target,
                      .n_targets = 1};
  demand(t, "step", td_session_run(t->s, &sig, t->fed, got, NULL));
  for (int i = 0; i < n; i++) {
    snprintf(what, sizeof what, "case %d, output %d", c->index, at[i]);
    compare_tensors(t->r, what, &got[i], &want[at[i]]);
    td_tensor_release(&got[i]);
  }
}

static void compare_variables(const step *t) {
  char what[64];
  for (int i = 0; i < t->c->n_var; i++) {
    td_tensor got;
    td_edge read = {t->read[i], 0};
    td_signature sig = {.fetches = &read, .n_fetches = 1};
    if (!td_tensor_valid(&t->c->after[i])) continue;
    demand(t, "reading", td_session_run(t->s, &sig, NULL, &got, NULL));
    snprintf(what, sizeof what, "case %d, variable %d", t->c->index, i);
    compare_tensors(t->r, what, &got, &t->c->after[i]);
    td_tensor_release(&got);
  }
}

static bool is_wanted(const td_device *d) {
  return fleet_wanted() ? fleet_has(d) : strcmp(d->type, device_wanted()) == 0;
}

/* Where the node was put: its plan says. */
static void count_place(const step *t) {
  td_plan *p;
  bool there = false;
  td_node *target = t->b.node;
  td_signature sig = {
      .feeds = t->feed, .n_feeds = t->n_in, .targets = &target, .n_targets = 1};
  demand(t, "plan", td_session_plan(t->s, &sig, &p));
  for (int i = 0; i < p->n_parts; i++)
    if (is_wanted(p->parts[i].device))
      there |= td_graph_find(p->parts[i].graph, target->name) != NULL;
  td_plan_free(p);
  steps_there += there;
  steps_elsewhere += !there;
}

void check_on_device(const row *r, const golden_case *c) {
  step t;
  step_init(&t, r, c);
  count_place(&t);
  if (t.n_feeds > t.n_in) assign(&t);
  run_and_compare(&t, c->out);
  if (td_tensor_valid(&c->again[0])) run_and_compare(&t, c->again);
  compare_variables(&t);
  step_deinit(&t);
}
