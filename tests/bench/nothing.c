/* nothing.c - kernels that do nothing, inline and asynchronous ones, as
 * contestants of the benchmarks: nothing ROW THREADS.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/device/kernel_rows.h"
#include "engine/graph/build.h"
#include "engine/graph/infer.h"
#include "engine/run/callable.h"

enum { NODES = 100, TIMES = 2000 };

static td_status *run(td_kernel_ctx *c) {
  td_out_pass(c, 0, 0);
  return NULL;
}

static void start(td_kernel_ctx *c) {
  td_out_pass(c, 0, 0);
  td_kernel_done(c, NULL);
}

static void cancel(td_kernel_ctx *c) {
  (void)c;
}

static const td_op_def ops[] = {
    {.type = "BenchInline",
     .sig = "x: float -> y: float",
     .shape = td_infer_same,
     .doc = "x"},
    {.type = "BenchAsync",
     .sig = "x: float -> y: float",
     .shape = td_infer_same,
     .doc = "x"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "BenchInline", .device = "CPU", .run = run},
    {.op = "BenchAsync", .device = "CPU", .start = start, .cancel = cancel},
    {0},
};

static td_status *node(td_graph *g, const char *op, const td_edge *in,
                       td_edge *out) {
  td_build b;
  td_build_init(&b, g, op, NULL);
  if (in) td_build_in(&b, *in);
  if (!in) {
    td_shape scalar = td_shape_scalar();
    td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
    td_build_attr(&b, "shape", td_attr_shape(&scalar));
  }
  out->port = 0;
  return td_build_node(&b, &out->node);
}

/* A chain behind a placeholder, one node after the other. */
static td_status *make(const char *op, int threads, td_callable **out) {
  static const td_module module = {"nothing", ops, kernels};
  td_runtime *rt;
  td_graph *g;
  td_session *s;
  td_edge x, last;
  TD_TRY(td_op_register(&module));
  TD_TRY(td_kernel_register(&module));
  TD_TRY(td_runtime_new(NULL, &rt));
  TD_TRY(td_graph_new(&g));
  TD_TRY(node(g, "Placeholder", NULL, &x));
  last = x;
  for (int i = 0; i < NODES; i++) TD_TRY(node(g, op, &last, &last));
  td_session_options o = {.threads = threads,
                          .passes_off = td_plan_pass_bit("cse")};
  TD_TRY(td_session_new(rt, g, &o, &s));
  td_signature sig = {
      .feeds = &x, .n_feeds = 1, .targets = &last.node, .n_targets = 1};
  return td_callable_new(s, &sig, out);
}

int main(int argc, char **argv) {
  td_callable *c;
  td_tensor x;
  char line[64];
  bool async = argc > 1 && !strcmp(argv[1], "async_nothing");
  int threads = argc > 2 ? atoi(argv[2]) : 1;
  td_status *s = make(async ? "BenchAsync" : "BenchInline", threads, &c);
  if (td_ok(s)) s = td_tensor_scalar_f(TD_FLOAT32, 1, &x);
  if (!td_ok(s)) {
    fprintf(stderr, "%s\n", td_status_message(s));
    return 1;
  }
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int64_t begun = td_clock_now();
    for (int i = 0; i < TIMES; i++)
      if (td_callable_run(c, &x, NULL, NULL)) return 1;
    printf("%.9g\n", (double)(td_clock_now() - begun) * 1e-9 / TIMES / NODES);
    fflush(stdout);
  }
  return 0;
}
