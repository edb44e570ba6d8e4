/* run.c - one node built and run as the executor would.
 *
 * Its device gives out memory filled with a pattern, so that an output that is
 * not wholly written, or a read of what nobody wrote, shows as a difference
 * between two patterns; and little of it, so that absurd sizes are refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_start.h"
#include "engine/device/variable.h"
#include "tests/rows/rows.h"

#include <stdio.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/graphdef/graphdef.h"

enum { MEMORY = 4 << 20 };

/* ---- memory -------------------------------------------------------------- */

static uint8_t pattern;

static void *poisoned(td_allocator *a, size_t bytes) {
  (void)a;
  if (bytes > MEMORY) return NULL;
  td_allocator *host = td_allocator_host();
  void *p = host->alloc(host, bytes);
  if (p) memset(p, pattern, bytes);
  return p;
}

static void unpoisoned(td_allocator *a, void *p, size_t bytes) {
  (void)a;
  td_allocator *host = td_allocator_host();
  host->free(host, p, bytes);
}

static td_allocator memory = {.name = "poisoned",
                              .host = true,
                              .touchable = true,
                              .alloc = poisoned,
                              .free = unpoisoned};

/* A CPU that uses it; the real one underneath stays alive with it. */
static td_device *device(void) {
  static td_device d;
  static td_device *cpu;
  if (!cpu) {
    OK(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &cpu));
    d = *cpu;
    d.memory = d.host = &memory;
  }
  return &d;
}

/* ---- building ------------------------------------------------------------ */

static const td_dtype *variable_of(const golden_case *c, int input,
                                   const td_tensor **before) {
  for (int i = 0; i < c->n_var; i++)
    if (c->var_in[i] == input) {
      *before = &c->before[i];
      return &c->var_dtype[i];
    }
  return NULL;
}

static void placeholder(td_build *b, td_graph *g, td_dtype dtype,
                        const td_shape *shape) {
  td_build_init(b, g, "Placeholder", "x");
  td_build_attr(b, "dtype", td_attr_type(dtype));
  td_build_attr(b, "shape", td_attr_shape(shape));
}

static void handle(td_build *b, td_graph *g, td_dtype dtype,
                   const td_shape *shape) {
  td_build_init(b, g, "VarHandleOp", "x");
  td_build_attr(b, "dtype", td_attr_type(dtype));
  td_build_attr(b, "shape", td_attr_shape(shape));
}

static td_edge source(const golden_case *c, int i, const td_tensor *x,
                      knowledge k, td_graph *g) {
  const td_tensor *before = NULL;
  const td_dtype *var = variable_of(c, i, &before);
  td_shape unknown = td_shape_unknown(), shape = unknown;
  td_edge e = {NULL, 0};
  td_build b;
  if (k != NOTHING && td_tensor_valid(var ? before : x))
    shape = var ? before->shape : x->shape;
  for (int d = 0; k == RANKS && d < shape.rank; d++) shape.dim[d] = -1;
  if (var && k != NOTHING)
    handle(&b, g, *var, &shape);
  else if (var || k != VALUES)
    placeholder(&b, g, var ? TD_RESOURCE : x->dtype, &shape);
  else {
    td_build_init(&b, g, "Const", "x");
    td_build_attr(&b, "dtype", td_attr_type(x->dtype));
    td_build_attr(&b, "value", td_attr_tensor(x));
  }
  OK(td_build_node(&b, &e.node));
  return e;
}

/* The attributes of the case: its graph imported over inputs of which nothing
 * is known. */
static td_status *import(const golden_case *c, td_graph *g, td_node **out) {
  char text[MAX_IN][16];
  const char *names[MAX_IN];
  td_edge edges[MAX_IN];
  for (int i = 0; i < c->n_in; i++) {
    snprintf(text[i], sizeof text[i], "in%d:0", i);
    names[i] = text[i];
    edges[i] = source(c, i, &c->in[i], NOTHING, g);
  }
  td_graphdef_options o = {.names = names, .edges = edges, .n_inputs = c->n_in};
  TD_TRY(td_graphdef_read(g, c->from->graph.data, c->from->graph.len, &o));
  *out = td_graph_find(g, "op");
  assert_non_null(*out);
  return NULL;
}

static td_status *rebuild(const golden_case *c, const td_tensor *in,
                          knowledge k, const td_node *like,
                          const td_note *change, td_graph *g, td_node **out) {
  td_edge edges[MAX_IN];
  td_build b;
  for (int i = 0; i < c->n_in; i++) edges[i] = source(c, i, &in[i], k, g);
  td_build_op(&b, g, like->op, "node");
  td_build_flat(&b, edges, c->n_in);
  for (int i = 0; i < like->op->n_attr; i++)
    if (change && strcmp(like->op->attr[i].name, change->name) == 0)
      td_build_attr(&b, change->name, change->value);
    else
      td_build_attr(&b, like->op->attr[i].name, like->attr[i]);
  return td_build_node(&b, out);
}

td_status *build_node(const golden_case *c, const td_tensor *in, knowledge k,
                      built *out) {
  return build_changed(c, in, k, NULL, out);
}

td_status *build_changed(const golden_case *c, const td_tensor *in, knowledge k,
                         const td_note *change, built *out) {
  td_node *like = NULL;
  OK(td_graph_new(&out->graph));
  td_status *s = import(c, out->graph, &like);
  out->node = like;
  if (td_ok(s) && (k != NOTHING || change))
    s = rebuild(c, in, k, like, change, out->graph, &out->node);
  if (!td_ok(s)) td_graph_release(out->graph);
  return s;
}

void built_drop(built *b) {
  td_graph_release(b->graph);
}

/* ---- running ------------------------------------------------------------- */

static td_status *make_variable(void *arg, td_resource **out) {
  td_variable *v;
  td_shape shape = td_shape_unknown();
  TD_TRY(td_variable_new(*(const td_dtype *)arg, &shape, &v));
  *out = &v->base;
  return NULL;
}

typedef struct variables {
  td_resources *table;
  td_variable *at[MAX_IN];
  td_tensor handle[MAX_IN];
} variables;

static void variables_make(const golden_case *c, variables *v) {
  char name[16];
  OK(td_resources_new(&v->table));
  for (int i = 0; i < c->n_var; i++) {
    td_dtype dtype = c->var_dtype[i];
    td_resource *r;
    snprintf(name, sizeof name, "v%d", i);
    OK(td_resources_get(v->table, "", TD_VARIABLE, name, make_variable, &dtype,
                        &r));
    v->at[i] = (td_variable *)r;
    if (td_tensor_valid(&c->before[i]))
      OK(td_tensor_copy(&c->before[i], &v->at[i]->value));
    OK(td_tensor_object(TD_RESOURCE, &r->object, &v->handle[i]));
  }
}

static void variables_end(const golden_case *c, variables *v, result *out) {
  for (int i = 0; i < c->n_var; i++) {
    if (out && !v->at[i]->base.gone)
      td_tensor_retain(&v->at[i]->value, &out->after[i]);
    td_tensor_release(&v->handle[i]);
  }
  td_resources_free(v->table);
}

typedef struct waiting {
  td_status *status;
  int done;
} waiting;

static void finished(td_kernel_ctx *c, td_status *s) {
  waiting *w = c->owner;
  w->status = s;
  w->done++;
}

static void give_inputs(const golden_case *c, const variables *v,
                        const td_tensor *in, bool alone, td_tensor *out) {
  for (int i = 0; i < c->n_in; i++)
    if (!td_tensor_valid(&c->in[i]))
      continue;
    else if (alone && td_dtype_is_plain(in[i].dtype))
      OK(td_tensor_copy(&in[i], &out[i]));
    else
      td_tensor_retain(&in[i], &out[i]);
  for (int i = 0; i < c->n_var; i++)
    td_tensor_retain(&v->handle[i], &out[c->var_in[i]]);
}

static void ignore_text(void *arg, const char *text, size_t len) {
  (void)arg;
  (void)text;
  (void)len;
}

int64_t run_allocations, run_refuse;

/* Starts the kernel on inputs of its own. */
static td_status *run_kernel(const td_kernel *k, const golden_case *c,
                             const variables *vars, const td_tensor *in,
                             bool alone, int threads, td_tensor *out) {
  static const int go_on = 0;
  td_tensor given[MAX_IN] = {0};
  waiting w = {0};
  give_inputs(c, vars, in, alone, given);
  td_step step = {.threads = threads,
                  .stop = &go_on,
                  .own = vars->table,
                  .resources = vars->table,
                  .print = ignore_text};
  td_kernel_ctx ctx = {.kernel = k,
                       .step = &step,
                       .in = given,
                       .out = out,
                       .n_in = k->node->n_in,
                       .n_out = k->node->n_out,
                       .done = finished,
                       .owner = &w};
  int64_t before = td_mem_calls();
  td_mem_fail(run_refuse, false);
  td_kernel_start(&ctx);
  td_mem_fail(0, false);
  run_allocations = td_mem_calls() - before;
  assert_int_equal(w.done, 1); /* nobody else holds the locks */
  for (int i = 0; i < c->n_in; i++) td_tensor_release(&given[i]);
  return w.status;
}

td_status *run_node(const built *b, const golden_case *c, const td_tensor *in,
                    uint8_t poison, bool alone, int threads, result *out) {
  const td_node *n = b->node;
  variables vars;
  td_kernel k;
  memset(out, 0, sizeof *out);
  if (n->n_out > MAX_OUT) fail_msg("%d outputs", n->n_out);
  TD_TRY(td_kernel_init(&k, n, device(), NULL));
  pattern = poison;
  variables_make(c, &vars);
  out->n_out = n->n_out;
  td_status *s = run_kernel(&k, c, &vars, in, alone, threads, out->out);
  if (td_ok(s) && td_tensor_valid(&c->again[0]))
    s = run_kernel(&k, c, &vars, in, alone, threads, out->again);
  variables_end(c, &vars, td_ok(s) ? out : NULL);
  td_kernel_deinit(&k);
  if (td_ok(s)) return NULL;
  result_drop(out);
  return td_node_blame(s, n);
}

void result_drop(result *r) {
  for (int i = 0; i < MAX_OUT; i++) {
    td_tensor_release(&r->out[i]);
    td_tensor_release(&r->again[i]);
  }
  for (int i = 0; i < MAX_IN; i++) td_tensor_release(&r->after[i]);
}

static bool same(const td_tensor *a, const td_tensor *b) {
  if (!td_tensor_valid(a) || !td_tensor_valid(b))
    return td_tensor_valid(a) == td_tensor_valid(b);
  return td_tensor_same(a, b);
}

bool result_same(const result *a, const result *b, int n_var) {
  bool all = a->n_out == b->n_out;
  for (int i = 0; all && i < a->n_out; i++)
    all = same(&a->out[i], &b->out[i]) && same(&a->again[i], &b->again[i]);
  for (int i = 0; all && i < n_var; i++) all = same(&a->after[i], &b->after[i]);
  return all;
}
