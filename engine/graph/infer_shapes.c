/* infer_shapes.c - the shapes a node gives for inputs that are there.
 *
 * The node's own shape function is asked again, about stand-ins for its inputs:
 * a Const for a tensor whose elements may be looked at, a Placeholder of its
 * shape for any other. No graph is built: a shape function sees of an input no
 * more than op, attributes, dtype and shape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/graph/infer_impl.h"

enum { FEW = 4 };

/* What stands for an input. */
typedef struct stand_in {
  td_node node;
  td_result result;
  td_attr attr[2]; /* of Const: value, dtype */
} stand_in;

static void stand(stand_in *s, const td_tensor *t, const td_op *value,
                  const td_op *other) {
  bool shown = td_dtype_is_plain(t->dtype) && td_tensor_touchable(t);
  s->result = (td_result){t->dtype, t->shape};
  s->node = (td_node){.name = "", .op = shown ? value : other, .n_out = 1};
  s->node.out = &s->result;
  s->node.attr = s->attr;
  s->attr[0] = shown ? td_attr_tensor(t) : td_attr_type(t->dtype);
  s->attr[1] = shown ? td_attr_type(t->dtype) : td_attr_shape(&t->shape);
}

static td_status *infer(const td_node *n, stand_in *at, td_edge *edges,
                        const td_tensor *in, td_result *out) {
  const td_op *value = td_op_find("Const"), *other = td_op_find("Placeholder");
  if (!value || !other)
    return td_error(TD_INTERNAL, "Const and Placeholder are not registered");
  for (int i = 0; i < n->n_in; i++) {
    stand(&at[i], &in[i], value, other);
    edges[i] = (td_edge){&at[i].node, 0};
  }
  td_infer c = {.op = n->op,
                .attr = n->attr,
                .note = n->note,
                .n_note = n->n_note,
                .in = edges,
                .n_in = n->n_in,
                .out = out,
                .n_out = n->n_out};
  return td_infer_run(&c);
}

td_status *td_infer_shapes(const td_node *n, const td_tensor *in,
                           td_result *out) {
  stand_in few[FEW], *at = few;
  td_edge few_edges[FEW], *edges = few_edges;
  size_t count = (size_t)n->n_in;
  if (n->n_in > FEW) {
    at = td_malloc(count * (sizeof *at + sizeof *edges));
    if (!at) return td_oom();
    edges = (td_edge *)(at + count);
  }
  for (int i = 0; i < n->n_out; i++) out[i].dtype = n->out[i].dtype;
  td_status *s = infer(n, at, edges, in, out);
  if (at != few) td_free(at);
  return s;
}
