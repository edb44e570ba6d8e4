/* graphdef.c - writing.
 *
 * The messages are laid out in an arena, borrowing names and contents from the
 * graph, and packed in one go: nodes in their order, attributes by name,
 * functions by name. Nothing depends on addresses, time or hash order, so equal
 * graphs give equal bytes. An attribute that is its default is left out, as
 * TensorFlow allows: a version that does not know it yet reads the graph all
 * the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graphdef/graphdef.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/graphdef/function_impl.h"
#include "engine/graphdef/graphdef_impl.h"

/* ---- nodes --------------------------------------------------------------- */

/* "x", "x:1"; NULL when there is no memory. */
static char *data_ref(td_arena *arena, td_edge e) {
  if (e.port == 0) return (char *)e.node->name;
  size_t size = strlen(e.node->name) + sizeof ":2147483647";
  char *ref = td_arena_alloc(arena, size);
  if (ref) snprintf(ref, size, "%s:%d", e.node->name, (int)e.port);
  return ref;
}

static char *control_ref(td_arena *arena, const td_node *n) {
  size_t len = strlen(n->name);
  char *ref = td_arena_alloc(arena, len + 2);
  if (!ref) return NULL;
  ref[0] = '^';
  memcpy(ref + 1, n->name, len);
  return ref;
}

static td_status *inputs_out(td_arena *arena, const td_node *n,
                             Td__NodeDef *p) {
  size_t count = (size_t)n->n_in + (size_t)n->n_control;
  p->input = td_arena_alloc(arena, count * sizeof *p->input);
  if (!p->input) return td_oom();
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i].node)
      return td_error(TD_FAILED_PRECONDITION,
                      "input %d is missing: a loop that is not closed cannot "
                      "be written",
                      i);
    char *ref = data_ref(arena, n->in[i]);
    if (!ref) return td_oom();
    p->input[p->n_input++] = ref;
  }
  for (int i = 0; i < n->n_control; i++) {
    char *ref = control_ref(arena, n->control[i]);
    if (!ref) return td_oom();
    p->input[p->n_input++] = ref;
  }
  return NULL;
}

static td_status *attr_out(td_arena *arena, const char *name, const td_attr *a,
                           Td__NodeDef *p) {
  if (a->kind == TD_ATTR_NONE && !a->is_list) return NULL;
  Td__AttrEntry *e = td_arena_alloc(arena, sizeof *e);
  if (!e) return td_oom();
  td__attr_entry__init(e);
  e->key = (char *)name;
  p->attr[p->n_attr++] = e;
  return td_graphdef_attr_out(arena, a, &e->value);
}

td_status *td_graphdef_attrs_out(td_arena *arena, const td_node *n,
                                 Td__NodeDef *p) {
  size_t count = (size_t)n->op->n_attr + (size_t)n->n_note;
  p->attr = td_arena_alloc(arena, count * sizeof *p->attr);
  if (!p->attr) return td_oom();
  for (int i = 0; i < n->op->n_attr; i++) {
    const td_attr_def *def = &n->op->attr[i];
    if (def->has_default && td_attr_equal(&def->value, &n->attr[i])) continue;
    TD_TRY(attr_out(arena, def->name, &n->attr[i], p));
  }
  for (int i = 0; i < n->n_note; i++)
    TD_TRY(attr_out(arena, n->note[i].name, &n->note[i].value, p));
  td_graphdef_attr_sort(p->attr, p->n_attr);
  return NULL;
}

static td_status *node_out(td_arena *arena, const td_node *n, Td__NodeDef *p) {
  td__node_def__init(p);
  p->name = (char *)n->name;
  p->op = (char *)n->op->type;
  p->device = (char *)n->device;
  TD_TRY(inputs_out(arena, n, p));
  return td_graphdef_attrs_out(arena, n, p);
}

static td_status *nodes_out(td_arena *arena, const td_graph *g,
                            Td__GraphDef *p) {
  size_t n = g->nodes.len;
  Td__NodeDef *nodes = td_arena_alloc(arena, n * sizeof *nodes);
  p->node = td_arena_alloc(arena, n * sizeof *p->node);
  if (!nodes || !p->node) return td_oom();
  for (; p->n_node < n; p->n_node++) {
    const td_node *node = g->nodes.at[p->n_node];
    p->node[p->n_node] = &nodes[p->n_node];
    TD_TRY(td_node_blame(node_out(arena, node, &nodes[p->n_node]), node));
  }
  return NULL;
}

/* ---- functions ----------------------------------------------------------- */

static td_status *library_out(td_arena *arena, const td_graph *g,
                              Td__GraphDef *p) {
  size_t n = g->functions.list.len;
  if (n == 0) return NULL;
  Td__FunctionDefLibrary *lib = td_arena_alloc(arena, sizeof *lib);
  Td__GradientDef *gradients = td_arena_alloc(arena, n * sizeof *gradients);
  if (!lib || !gradients) return td_oom();
  td__function_def_library__init(lib);
  lib->function = td_arena_alloc(arena, n * sizeof *lib->function);
  lib->gradient = td_arena_alloc(arena, n * sizeof *lib->gradient);
  if (!lib->function || !lib->gradient) return td_oom();
  for (size_t i = 0; i < n; i++) {
    const td_definition *d = g->functions.list.at[i].definition;
    lib->function[lib->n_function++] = (ProtobufCBinaryData){
        .len = d->bytes.len, .data = (uint8_t *)d->bytes.at};
    if (!d->gradient) continue;
    Td__GradientDef *of = &gradients[lib->n_gradient];
    td__gradient_def__init(of);
    of->function_name = (char *)d->name;
    of->gradient_func = (char *)d->gradient;
    lib->gradient[lib->n_gradient++] = of;
  }
  p->library = lib;
  return NULL;
}

/* ---- the 2 GiB that protobuf allows -------------------------------------- */

static const td_tensor *constant_of(const td_node *n) {
  for (int i = 0; i < n->op->n_attr; i++)
    if (n->attr[i].kind == TD_ATTR_TENSOR && !n->attr[i].is_list)
      return n->attr[i].tensor;
  return NULL;
}

/* The next largest constant after one of `below` bytes at node `after`. */
static const td_node *next_largest(const td_graph *g, size_t below,
                                   int32_t after) {
  const td_node *best = NULL;
  size_t most = 0;
  for (size_t i = 0; i < g->nodes.len; i++) {
    const td_node *n = g->nodes.at[i];
    const td_tensor *t = constant_of(n);
    size_t bytes = t ? td_tensor_bytes(t) : 0;
    if (bytes > below || (bytes == below && n->id <= after)) continue;
    if (bytes <= most) continue;
    most = bytes;
    best = n;
  }
  return best;
}

static td_status *too_large(const td_graph *g, size_t size) {
  td_str m = {0};
  size_t below = SIZE_MAX;
  int32_t after = -1;
  td_str_addf(&m,
              "the graph takes %zu bytes as a file; protobuf allows 2 GiB. "
              "Its largest constants:",
              size);
  for (int i = 0; i < 3; i++) {
    const td_node *n = next_largest(g, below, after);
    if (!n) break;
    below = td_tensor_bytes(constant_of(n));
    after = n->id;
    td_str_addf(&m, "%s \"%s\" (%zu bytes)", i ? "," : "", n->name, below);
  }
  td_status *s =
      m.failed ? td_oom() : td_error(TD_RESOURCE_EXHAUSTED, "%s", td_str_c(&m));
  td_str_deinit(&m);
  return s;
}

/* ---- the whole ----------------------------------------------------------- */

static td_status *graph_out(td_arena *arena, const td_graph *g, char **bytes,
                            size_t *len) {
  Td__GraphDef def;
  Td__VersionDef versions;
  td__graph_def__init(&def);
  td__version_def__init(&versions);
  versions.producer = TD_GRAPHDEF_VERSION;
  def.versions = &versions;
  TD_TRY(nodes_out(arena, g, &def));
  TD_TRY(library_out(arena, g, &def));
  size_t size = td__graph_def__get_packed_size(&def);
  if (size > INT_MAX) return too_large(g, size);
  return td_graphdef_pack(&def.base, bytes, len);
}

td_status *td_graphdef_write(const td_graph *g, char **bytes, size_t *len) {
  td_arena arena;
  *bytes = NULL;
  *len = 0;
  td_arena_init(&arena);
  td_status *s = graph_out(&arena, g, bytes, len);
  td_arena_deinit(&arena);
  return s;
}
