/* part.c - parts sealed to bytes, opened again, let go.
 *
 * Frames are numbered anew in each part; deadness is carried by notes of the
 * _Recvs. Whoever partitions and whoever opens a part settles it the same way,
 * so that it does not matter through how many processes it went.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan/part.h"

#include "engine/base/mem.h"
#include "engine/graph/graph_edit.h"
#include "engine/graphdef/graphdef.h"

void td_part_deinit(td_part *part) {
  td_graph_release(part->graph);
  td_device_release(part->device);
  *part = (td_part){0};
}

/* A part without control flow has neither frames nor dead values. */
static bool has_flow(const td_graph *g) {
  for (int32_t id = 0; id < td_graph_size(g); id++) {
    const td_node *n = td_graph_node(g, id);
    if (n->op->kind == TD_OP_SWITCH || n->op->kind == TD_OP_ENTER ||
        td_node_bool(n, "_may_die"))
      return true;
  }
  return false;
}

td_status *td_part_settle(td_part *part) {
  td_graph *g = part->graph;
  if (has_flow(g)) {
    td_frames frames;
    TD_TRY(td_frames_check(g, &frames));
    td_frames_free(&frames);
  }
  for (int32_t id = 0; id < td_graph_size(g); id++)
    td_graph_node(g, id)->order = id;
  return NULL;
}

/* ---- bytes ---- */

td_status *td_part_seal(const td_part *part, td_sealed_part *out) {
  int32_t n = td_graph_size(part->graph);
  *out = (td_sealed_part){.n_nodes = n,
                          .device = part->device->name,
                          .incarnation = part->device->incarnation};
  out->serials = td_calloc((size_t)n + 1, sizeof *out->serials);
  td_status *s = out->serials ? NULL : td_oom();
  for (int32_t id = 0; td_ok(s) && id < n; id++)
    out->serials[id] = td_graph_node(part->graph, id)->serial;
  if (td_ok(s)) s = td_graphdef_write(part->graph, &out->graph, &out->len);
  if (!td_ok(s)) td_sealed_part_deinit(out);
  return s;
}

void td_sealed_part_deinit(td_sealed_part *s) {
  td_free(s->graph);
  td_free(s->serials);
  *s = (td_sealed_part){0};
}

static td_status *check_device(const td_sealed_part *s, const td_device *d) {
  if (s->incarnation == d->incarnation) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "a part was made for another start of %s; plan it anew",
                  d->name);
}

/* The serials are by node in the order of the bytes. */
static td_status *number(td_graph *g, const td_sealed_part *s) {
  if (td_graph_size(g) != s->n_nodes)
    return td_error(TD_INVALID_ARGUMENT,
                    "a part of %d nodes came with serials of %d",
                    (int)td_graph_size(g), (int)s->n_nodes);
  for (int32_t id = 0; id < s->n_nodes; id++)
    td_graph_node(g, id)->serial = s->serials[id];
  return NULL;
}

td_status *td_part_open(const td_sealed_part *s, td_device *device,
                        td_part *out) {
  const td_graphdef_options how = {.part = true};
  *out = (td_part){0};
  TD_TRY(check_device(s, device));
  td_status *st = td_graph_new(&out->graph);
  if (td_ok(st)) td_graph_scratch(out->graph);
  if (td_ok(st)) st = td_graphdef_read(out->graph, s->graph, s->len, &how);
  if (td_ok(st)) st = number(out->graph, s);
  if (td_ok(st)) st = td_part_settle(out);
  out->device = td_device_retain(device);
  if (!td_ok(st)) td_part_deinit(out);
  return st;
}
