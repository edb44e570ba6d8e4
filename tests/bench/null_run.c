/* null_run.c - an empty step from C, as a contestant of the benchmarks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/graph/build.h"
#include "engine/run/callable.h"

static td_status *make(td_callable **out) {
  td_runtime *rt;
  td_graph *g;
  td_session *s;
  td_node *n;
  td_build b;
  TD_TRY(td_runtime_new(NULL, &rt));
  TD_TRY(td_graph_new(&g));
  td_build_init(&b, g, "NoOp", NULL);
  TD_TRY(td_build_node(&b, &n));
  TD_TRY(td_session_new(rt, g, NULL, &s));
  td_signature sig = {.targets = &n, .n_targets = 1};
  return td_callable_new(s, &sig, out);
}

int main(void) {
  enum { TIMES = 100000 };
  td_callable *c;
  char line[64];
  td_status *s = make(&c);
  if (s) {
    fprintf(stderr, "%s\n", td_status_message(s));
    return 1;
  }
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int64_t start = td_clock_now();
    for (int i = 0; i < TIMES; i++) {
      s = td_callable_run(c, NULL, NULL, NULL);
      if (s) return 1;
    }
    printf("%.9g\n", (double)(td_clock_now() - start) * 1e-9 / TIMES);
    fflush(stdout);
  }
  return 0;
}
