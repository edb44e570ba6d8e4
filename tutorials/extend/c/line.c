/* line.c - Tide from C: x * x + x, with x fed.
 *
 * cc line.c -I$PREFIX/include/tide -L$PREFIX/lib -ltide -Wl,-rpath,$PREFIX/lib
 */
#include <stdio.h>

#include "engine/graph/build.h"
#include "engine/run/session.h"

/* A node of two inputs, or of none. */
static td_status *add(td_graph *g, const char *op, td_edge a, td_edge b,
                      td_edge *out) {
  td_build n;
  td_build_init(&n, g, op, NULL);
  if (a.node) td_build_in(&n, a);
  if (b.node) td_build_in(&n, b);
  if (!a.node) td_build_attr(&n, "dtype", td_attr_type(TD_FLOAT32));
  out->port = 0;
  return td_build_node(&n, &out->node);
}

static td_status *run(td_runtime *rt, td_graph *g) {
  td_edge none = {NULL, 0}, x, square, y;
  td_session *session;
  td_tensor feed, fetch;
  TD_TRY(add(g, "Placeholder", none, none, &x));
  TD_TRY(add(g, "Mul", x, x, &square));
  TD_TRY(add(g, "AddV2", square, x, &y));
  TD_TRY(td_session_new(rt, g, NULL, &session));
  TD_TRY(td_tensor_scalar_f(TD_FLOAT32, 6, &feed));
  td_signature sig = {&x, 1, &y, 1, NULL, 0};
  td_status *s = td_session_run(session, &sig, &feed, &fetch, NULL);
  if (td_ok(s)) printf("x * x + x = %g\n", td_tensor_get_f(&fetch, 0));
  td_tensor_release(&feed);
  td_tensor_release(&fetch);
  td_session_release(session);
  return s;
}

int main(void) {
  td_runtime *rt = NULL;
  td_graph *g = NULL;
  td_status *s = td_runtime_new(NULL, &rt);
  if (td_ok(s)) s = td_graph_new(&g);
  if (td_ok(s)) s = run(rt, g);
  if (!td_ok(s)) fprintf(stderr, "%s\n", td_status_message(s));
  td_graph_release(g);
  td_runtime_release(rt);
  return !td_ok(s);
}
