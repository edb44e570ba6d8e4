/* link.c - _Send and _Recv nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build.h"
#include "engine/plan/link_impl.h"

#include <stdio.h>
#include <string.h>

td_status *td_link_number(td_pass *p, const char *source, int32_t *out) {
  td_str name = {0};
  if (p->edges.len >= INT32_MAX)
    return td_error(TD_RESOURCE_EXHAUSTED, "too many edges between devices");
  td_str_addf(&name, "edge_%zu_%s", p->edges.len, source);
  char *text = td_str_take(&name);
  if (!text) return td_oom();
  if (!td_vec_push(&p->edges, (td_plan_edge){.name = text})) {
    td_free(text);
    return td_oom();
  }
  *out = (int32_t)p->edges.len - 1;
  return NULL;
}

/* Only its user can know that a value may lose bits on the way. */
static bool asks_narrow(td_edge e) {
  return td_edge_dtype(e) == TD_FLOAT32 &&
         strcmp(td_node_string(e.node, "_wire"), "bfloat16") == 0;
}

/* An incarnation is of one process and one start of it: it travels beside a
 * part, so that equal parts have equal bytes. */
static void describe(td_pass *p, const td_link_ends *l, td_build *b) {
  td_plan_edge *edge = &p->edges.at[l->edge];
  edge->from = l->from;
  edge->to = l->to;
  b->exact_name = true;
  b->origin = l->value.node->origin;
  td_build_attr(b, "tensor_name", td_attr_string(edge->name));
  td_build_attr(b, "send_device", td_attr_string(l->from->name));
  td_build_attr(b, "send_device_incarnation", td_attr_int(0));
  td_build_attr(b, "recv_device", td_attr_string(l->to->name));
  td_build_attr(b, "client_terminated", td_attr_bool(l->client));
  td_build_attr(b, "_edge", td_attr_int(l->edge));
  edge->narrow = asks_narrow(l->value);
  if (edge->narrow) td_build_attr(b, "_wire", td_attr_string("bfloat16"));
}

/* A _Send or _Recv has frame and deadness of the value it stands for, which
 * inference cannot know. */
static void settle(const td_link_ends *l, td_node *n) {
  n->frame = l->frame;
  n->may_die = l->may_die;
}

td_status *td_link_send(td_pass *p, td_graph *g, const td_link_ends *l,
                        td_edge input, td_node **out) {
  char name[32];
  td_build b;
  snprintf(name, sizeof name, "_send_%d", l->edge);
  td_build_init(&b, g, l->from_host ? "_HostSend" : "_Send", name);
  td_build_in(&b, input);
  describe(p, l, &b);
  TD_TRY(td_build_node(&b, out));
  settle(l, *out);
  return NULL;
}

td_status *td_link_recv(td_pass *p, td_graph *g, const td_link_ends *l,
                        td_node *trigger, td_node **out) {
  char name[32];
  td_build b;
  snprintf(name, sizeof name, "_recv_%d", l->edge);
  td_build_init(&b, g, l->to_host ? "_HostRecv" : "_Recv", name);
  td_build_attr(&b, "tensor_type", td_attr_type(td_edge_dtype(l->value)));
  describe(p, l, &b);
  if (l->may_die) td_build_attr(&b, "_may_die", td_attr_bool(true));
  if (trigger) td_build_control(&b, trigger);
  TD_TRY(td_build_node(&b, out));
  (*out)->out[0].shape = *td_edge_shape(l->value);
  settle(l, *out);
  return NULL;
}
