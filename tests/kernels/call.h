/* call.h - runs one kernel on given tensors, for the tests of kernels.
 *
 * The node's operands are placeholders of unknown shape: nothing is inferred
 * from them, so that what a kernel must check at run time is put to the test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_CALL_H
#define TD_TEST_CALL_H

#include "engine/device/eval.h"
#include "engine/graph/build.h"

static td_status *call_operands(td_graph *g, const td_tensor *in, int n,
                                td_edge *edges) {
  for (int i = 0; i < n; i++) {
    td_build b;
    td_shape any = td_shape_unknown();
    td_build_init(&b, g, "Placeholder", "x");
    td_build_attr(&b, "dtype", td_attr_type(in[i].dtype));
    td_build_attr(&b, "shape", td_attr_shape(&any));
    TD_TRY(td_build_node(&b, &edges[i].node));
  }
  return NULL;
}

static td_status *call_node(td_graph *g, const char *op, const td_tensor *in,
                            int n, const td_note *attrs, int n_attrs,
                            td_node **node) {
  td_edge edges[16] = {{0}};
  td_build b;
  TD_TRY(call_operands(g, in, n, edges));
  td_build_init(&b, g, op, NULL);
  td_build_flat(&b, edges, n);
  for (int i = 0; i < n_attrs; i++)
    td_build_attr(&b, attrs[i].name, attrs[i].value);
  return td_build_node(&b, node);
}

/* At most 16 operands; one result, the caller's. */
static inline td_status *call(const char *op, int threads, const td_tensor *in,
                              int n, const td_note *attrs, int n_attrs,
                              td_tensor *out) {
  td_graph *g = NULL;
  td_device *d = NULL;
  td_node *node;
  td_status *s = td_graph_new(&g);
  if (td_ok(s)) s = call_node(g, op, in, n, attrs, n_attrs, &node);
  if (td_ok(s))
    s = td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &d);
  if (td_ok(s)) s = td_eval_node(node, d, threads, in, out, NULL);
  td_device_release(d);
  td_graph_release(g);
  return s;
}

#endif
