/* world.h - a few ops, a graph, devices and a placer, for the tests of
 * engine/plan; and plans as text, to be compared with what they should be.
 * The ops of kernels/ are there too. `w.request.passes_off` leaves passes out:
 * ~td_plan_pass_bit("cse") all optional ones but that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PLAN_WORLD_H
#define TESTS_PLAN_WORLD_H

#include "engine/device/kernel_rows.h"
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/plan/plan.h"

/* ---- ops ----------------------------------------------------------------- */

static td_status *neg_run(td_kernel_ctx *c) {
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y));
  for (int64_t i = 0; i < td_tensor_count(y); i++)
    td_tensor_set_f(y, i, -td_tensor_get_f(td_in(c, 0), i));
  return NULL;
}

static td_status *add_run(td_kernel_ctx *c) {
  td_tensor *z;
  TD_TRY(td_out_like(c, 0, 0, &z));
  for (int64_t i = 0; i < td_tensor_count(z); i++)
    td_tensor_set_f(z, i,
                    td_tensor_get_f(td_in(c, 0), i) +
                        td_tensor_get_f(td_in(c, 1), i));
  return NULL;
}

/* Sixteen megabytes from four bytes. */
static td_status *grow_run(td_kernel_ctx *c) {
  td_tensor *y;
  td_shape shape = td_shape_vector(4 << 20);
  TD_TRY(td_out(c, 0, &shape, &y));
  memset(y->data, 0, td_tensor_bytes(y));
  return NULL;
}

static td_status *bad_run(td_kernel_ctx *c) {
  (void)c;
  return td_error(TD_INVALID_ARGUMENT, "never works");
}

/* clang-format off */
static const td_op_def world_ops[] = {
    {.type = "PlanNeg", .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same},
    {.type = "PlanAdd", .sig = "x: T, y: T -> z: T; T: type",
     .shape = td_infer_broadcasting, .flags = TD_COMMUTATIVE},
    {.type = "PlanMatMul", .sig = "x: T, y: T -> z: T; T: type",
     .shape = td_infer_any},
    {.type = "PlanLess", .sig = "x: T, y: T -> z: bool; T: type",
     .shape = td_infer_scalars, .flags = TD_NO_FOLD},
    {.type = "PlanGrow", .sig = "x: T -> y: T; T: type",
     .shape = td_infer_any},
    {.type = "PlanBad", .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same},
    {.type = "PlanSource", .sig = "-> y: float", .shape = td_infer_scalars,
     .flags = TD_STATEFUL},
    {.type = "PlanVar", .sig = "-> handle: resource",
     .shape = td_infer_scalars, .flags = TD_STATEFUL},
    {.type = "PlanRead", .sig = "handle: resource -> value: float",
     .shape = td_infer_scalars, .flags = TD_STATEFUL | TD_READS},
    {.type = "PlanGather", .sig = "handle: resource -> value: float",
     .shape = td_infer_scalars, .flags = TD_STATEFUL | TD_READS | TD_SPARSE},
    {.type = "PlanUpdate", .sig = "handle: resource, value: float ->",
     .shape = td_infer_none, .flags = TD_STATEFUL | TD_UPDATES},
    {.type = "PlanUpdate2",
     .sig = "handle: resource, handle2: resource, value: float ->",
     .shape = td_infer_none, .flags = TD_STATEFUL | TD_UPDATES},
    {.type = "PlanFake", .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same},
    {.type = "PlanNowhere", .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same},
    {.type = "PlanHost", .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same, .host = "x"},
    {0}};

static const td_kernel_def world_kernels[] = {
    {.op = "PlanNeg", .device = "CPU", .run = neg_run},
    {.op = "PlanNeg", .device = "FAKE", .run = neg_run},
    {.op = "PlanAdd", .device = "CPU", .run = add_run},
    {.op = "PlanMatMul", .device = "CPU", .run = add_run},
    {.op = "PlanLess", .device = "CPU", .run = bad_run},
    {.op = "PlanGrow", .device = "CPU", .run = grow_run},
    {.op = "PlanBad", .device = "CPU", .run = bad_run},
    {.op = "PlanSource", .device = "CPU", .run = bad_run},
    {.op = "PlanSource", .device = "FAKE", .run = bad_run},
    {.op = "PlanVar", .device = "CPU", .run = bad_run},
    {.op = "PlanVar", .device = "FAKE", .run = bad_run},
    {.op = "PlanRead", .device = "CPU", .run = bad_run},
    {.op = "PlanRead", .device = "FAKE", .run = bad_run},
    {.op = "PlanGather", .device = "CPU", .run = bad_run},
    {.op = "PlanUpdate", .device = "CPU", .run = bad_run},
    {.op = "PlanUpdate2", .device = "CPU", .run = bad_run},
    {.op = "PlanFake", .device = "FAKE", .run = bad_run},
    {.op = "PlanHost", .device = "CPU", .run = neg_run},
    {0}};
/* clang-format on */

static const td_module world_module = {"world", world_ops, world_kernels};

/* For cmocka's group set-up. */
static inline int register_ops(void **state) {
  (void)state;
  td_status *s = td_op_register(&world_module);
  if (!s) s = td_kernel_register(&world_module);
  if (s) print_error("%s\n", td_status_message(s));
  return s ? -1 : 0;
}

/* ---- a world ------------------------------------------------------------- */

#define TASK "/job:localhost/replica:0/task:0"

enum { MAX_DEVICES = 4, MAX_NOTES = 6 };

typedef struct world {
  td_graph *g;
  td_device *devices[MAX_DEVICES];
  int n_devices;
  bool soft, spread;
  const char *first;
  td_placer *placer;        /* made at first use */
  td_note attrs[MAX_NOTES]; /* of the next node */
  int n_attrs;
  const char *origin;
  td_plan_request request; /* the last plan's */
} world;

/* A device of which only the name and the kernels matter. */
static td_allocator fake_memory = {.name = "fake"};
static td_device fake = {.refs = 1 << 20,
                         .name = TASK "/device:FAKE:0",
                         .type = "FAKE",
                         .kernels = "FAKE",
                         .parsed = {.job = "localhost", .type = "FAKE"},
                         .memory = &fake_memory};

/* `what`: a letter a device: C a CPU, T a test device, F the fake one. */
static inline world new_world(const char *what) {
  world w = {.origin = "",
             .request = {.passes_off = ~td_plan_pass_bit("one_recv")}};
  int cpus = 0, tests = 0;
  OK(td_graph_new(&w.g));
  fake.host = td_allocator_host();
  for (; *what; what++) {
    td_device **d = &w.devices[w.n_devices++];
    if (*what == 'C') OK(td_device_cpu_new(TASK, cpus++, 0, d));
    if (*what == 'T') OK(td_device_test_new(TASK, tests++, 1, NULL, d));
    if (*what == 'F') *d = &fake;
  }
  return w;
}

static inline void free_world(world *w) {
  td_placer_free(w->placer);
  for (int i = 0; i < w->n_devices; i++)
    if (w->devices[i] != &fake) td_device_release(w->devices[i]);
  td_graph_release(w->g);
}

static inline td_placer *placer_of(world *w) {
  td_placer_options o = {.devices = w->devices,
                         .n_devices = w->n_devices,
                         .soft = w->soft,
                         .first = w->first,
                         .spread = w->spread};
  if (!w->placer) OK(td_placer_new(&o, &w->placer));
  return w->placer;
}

/* An attribute of the next node; its value must live until then. */
static inline void attr(world *w, const char *name, td_attr value) {
  w->attrs[w->n_attrs++] = (td_note){name, value};
}

static inline td_edge edge(world *w, const char *ref) {
  td_edge e;
  OK(td_graph_edge(w->g, ref, &e));
  return e;
}

/* Calls what(b, ref) for each word of `text`. */
static inline void each_word(const char *text,
                             void (*what)(void *arg, const char *word),
                             void *arg) {
  char word[128];
  int used;
  for (; sscanf(text, " %127s%n", word, &used) == 1; text += used)
    what(arg, word);
}

typedef struct adding {
  world *w;
  td_build *b;
  td_edge in[64];
  int n;
} adding;

static inline void add_input(void *arg, const char *word) {
  adding *a = arg;
  if (word[0] == '@') {
    a->b->device = strcmp(word, "@c1") == 0   ? "/device:CPU:1"
                   : strcmp(word, "@c0") == 0 ? "/device:CPU:0"
                   : strcmp(word, "@t") == 0  ? "/device:TEST:0"
                                              : "/device:FAKE:0";
  } else if (word[0] == '^') {
    td_build_control(a->b, edge(a->w, word).node);
  } else if (strcmp(word, "?") == 0) {
    a->in[a->n++] = (td_edge){NULL, 0};
  } else {
    a->in[a->n++] = edge(a->w, word);
  }
}

/* add(w, "y", "PlanAdd", "x:0 x:1 ^z @c1"): inputs, control inputs, device. */
static inline td_node *add(world *w, const char *name, const char *op,
                           const char *inputs) {
  td_build b;
  td_node *n;
  adding a = {.w = w, .b = &b};
  td_build_init(&b, w->g, op, name);
  b.exact_name = true;
  b.origin = w->origin;
  for (int i = 0; i < w->n_attrs; i++)
    td_build_attr(&b, w->attrs[i].name, w->attrs[i].value);
  each_word(inputs, add_input, &a);
  td_build_flat(&b, a.in, a.n);
  OK(td_build_node(&b, &n));
  w->n_attrs = 0;
  return n;
}

static inline td_node *add_const(world *w, const char *name, td_dtype dtype,
                                 double value, const char *rest) {
  td_tensor t;
  OK(td_tensor_scalar_f(dtype, value, &t));
  attr(w, "value", td_attr_tensor(&t));
  attr(w, "dtype", td_attr_type(dtype));
  td_node *n = add(w, name, "Const", rest);
  td_tensor_release(&t);
  return n;
}

static inline td_node *add_placeholder(world *w, const char *name,
                                       td_shape shape) {
  attr(w, "dtype", td_attr_type(TD_FLOAT32));
  attr(w, "shape", td_attr_shape(&shape));
  return add(w, name, "Placeholder", "");
}

static inline td_node *add_enter(world *w, const char *name, const char *frame,
                                 bool constant, const char *inputs) {
  attr(w, "frame_name", td_attr_string(frame));
  attr(w, "is_constant", td_attr_bool(constant));
  return add(w, name, "Enter", inputs);
}

/* ---- plans --------------------------------------------------------------- */

typedef struct asked {
  world *w;
  td_edge feeds[16], fetches[16];
  td_node *targets[16];
  int n_feeds, n_fetches, n_targets;
} asked;

static inline void ask_feed(void *arg, const char *word) {
  asked *a = arg;
  a->feeds[a->n_feeds++] = edge(a->w, word);
}

static inline void ask_fetch(void *arg, const char *word) {
  asked *a = arg;
  if (word[0] == '^')
    a->targets[a->n_targets++] = edge(a->w, word).node;
  else
    a->fetches[a->n_fetches++] = edge(a->w, word);
}

/* Feeds "x y:1", fetches and targets "a b ^c". w->request holds options. */
static inline td_plan_request request(world *w, asked *a, const char *feeds,
                                      const char *fetches) {
  td_plan_request r = w->request;
  *a = (asked){.w = w};
  each_word(feeds, ask_feed, a);
  each_word(fetches, ask_fetch, a);
  r.graph = w->g;
  r.feeds = a->feeds;
  r.n_feeds = a->n_feeds;
  r.fetches = a->fetches;
  r.n_fetches = a->n_fetches;
  r.targets = a->targets;
  r.n_targets = a->n_targets;
  r.placer = placer_of(w);
  r.devices = w->devices;
  r.n_devices = w->n_devices;
  r.verify = true;
  return r;
}

static inline td_status *plan(world *w, const char *feeds, const char *fetches,
                              td_plan **out) {
  asked a;
  td_plan_request r = request(w, &a, feeds, fetches);
  return td_plan_new(&r, out);
}

/* Plans with the 1st, 2nd, ... allocation failing, once with only that one and
 * once with all from there on, until it passes without. */
static inline void starve(world *w, const char *feeds, const char *fetches) {
  asked a;
  td_plan_request r = request(w, &a, feeds, fetches);
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    bool reached = true;
    for (int64_t n = 1; reached; n++) {
      td_plan *p;
      int64_t before = td_mem_calls();
      td_placer_free(w->placer); /* so that placing is tried too */
      w->placer = NULL;
      r.placer = placer_of(w);
      td_mem_fail(n, for_ever);
      td_status *s = td_plan_new(&r, &p);
      td_mem_fail(0, false);
      reached = td_mem_calls() - before >= n;
      if (s && td_status_code(s) != TD_RESOURCE_EXHAUSTED)
        fail_msg("allocation %d: %s", (int)n, td_status_message(s));
      if (!s) td_plan_free(p);
      td_status_release(s);
    }
  }
}

/* One line a node: y=PlanAdd(x:0,x:1)^z */
static inline void print_graph(const td_graph *g, td_str *out) {
  for (int32_t id = 0; id < td_graph_size(g); id++) {
    const td_node *n = td_graph_node(g, id);
    td_str_addf(out, "%s=%s(", n->name, n->op->type);
    for (int i = 0; i < n->n_in; i++)
      td_str_addf(out, "%s%s:%d", i ? "," : "", n->in[i].node->name,
                  n->in[i].port);
    td_str_addc(out, ')');
    for (int i = 0; i < n->n_control; i++)
      td_str_addf(out, "^%s", n->control[i]->name);
    td_str_addc(out, '\n');
  }
}

/* The same for all parts, each after a line with its device. */
static inline void print_plan(const td_plan *p, td_str *out) {
  for (int i = 0; i < p->n_parts; i++) {
    if (p->n_parts > 1)
      td_str_addf(out, "%s:%d\n", p->parts[i].device->type,
                  (int)p->parts[i].device->index);
    print_graph(p->parts[i].graph, out);
  }
}

static inline void assert_plan(world *w, const char *feeds, const char *fetches,
                               const char *want) {
  td_plan *p;
  td_str text = {0};
  OK(plan(w, feeds, fetches, &p));
  print_plan(p, &text);
  assert_string_equal(td_str_c(&text), want);
  td_str_deinit(&text);
  td_plan_free(p);
}

#endif
