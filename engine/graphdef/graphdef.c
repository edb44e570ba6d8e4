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

/* Where a graph is written to. */
typedef struct writer {
  td_arena *arena;
  const td_graph *graph;
  bool elsewhere; /* TD_FED nodes become Placeholders */
} writer;

static bool is_fed(const writer *w, const td_node *n) {
  return w->elsewhere && (n->op->flags & TD_FED);
}

/* The Placeholder that stands for an output: "x", "x/1", which no other node is
 * called. */
static char *fed_name(const writer *w, const td_node *n, int port) {
  size_t size = strlen(n->name) + sizeof "/2147483647" + 8;
  char *name = td_arena_alloc(w->arena, size);
  if (!name) return NULL;
  if (port == 0) return strcpy(name, n->name);
  snprintf(name, size, "%s/%d", n->name, port);
  for (int k = 0; k < 8 && td_graph_find(w->graph, name); k++)
    strcat(name, "_");
  return name;
}

/* "x", "x:1"; NULL when there is no memory. */
static char *data_ref(const writer *w, td_edge e) {
  td_arena *arena = w->arena;
  if (is_fed(w, e.node)) return fed_name(w, e.node, e.port);
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

static td_status *inputs_out(const writer *w, const td_node *n,
                             Td__NodeDef *p) {
  td_arena *arena = w->arena;
  size_t count = (size_t)n->n_in + (size_t)n->n_control;
  p->input = td_arena_alloc(arena, count * sizeof *p->input);
  if (!p->input) return td_oom();
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i].node)
      return td_error(TD_FAILED_PRECONDITION,
                      "input %d is missing: a loop that is not closed cannot "
                      "be written",
                      i);
    char *ref = data_ref(w, n->in[i]);
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

static td_status *node_out(const writer *w, const td_node *n, Td__NodeDef *p) {
  td__node_def__init(p);
  p->name = (char *)n->name;
  p->op = (char *)n->op->type;
  p->device = (char *)n->device;
  TD_TRY(inputs_out(w, n, p));
  return td_graphdef_attrs_out(w->arena, n, p);
}

static td_status *placeholder_out(const writer *w, const td_node *n, int port,
                                  Td__NodeDef *p) {
  td_attr dtype = td_attr_type(n->out[port].dtype);
  td_attr shape = td_attr_shape(&n->out[port].shape);
  td__node_def__init(p);
  p->name = fed_name(w, n, port);
  p->op = "Placeholder";
  p->device = (char *)n->device;
  p->attr = td_arena_alloc(w->arena, 2 * sizeof *p->attr);
  if (!p->name || !p->attr) return td_oom();
  TD_TRY(attr_out(w->arena, "dtype", &dtype, p));
  return attr_out(w->arena, "shape", &shape, p);
}

/* How many nodes stand for it. */
static size_t written(const writer *w, const td_node *n) {
  return is_fed(w, n) ? (size_t)n->n_out : 1;
}

static td_status *nodes_out(const writer *w, Td__GraphDef *p) {
  const td_graph *g = w->graph;
  size_t n = 0;
  for (size_t i = 0; i < g->nodes.len; i++) n += written(w, g->nodes.at[i]);
  Td__NodeDef *nodes = td_arena_alloc(w->arena, n * sizeof *nodes);
  p->node = td_arena_alloc(w->arena, n * sizeof *p->node);
  if (!nodes || !p->node) return td_oom();
  for (size_t i = 0; i < g->nodes.len; i++) {
    const td_node *node = g->nodes.at[i];
    for (size_t k = 0; k < written(w, node); k++) {
      Td__NodeDef *to = p->node[p->n_node] = &nodes[p->n_node];
      p->n_node++;
      TD_TRY(td_node_blame(is_fed(w, node)
                               ? placeholder_out(w, node, (int)k, to)
                               : node_out(w, node, to),
                           node));
    }
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

static td_status *graph_out(const writer *w, char **bytes, size_t *len) {
  Td__GraphDef def;
  Td__VersionDef versions;
  td__graph_def__init(&def);
  td__version_def__init(&versions);
  versions.producer = TD_GRAPHDEF_VERSION;
  def.versions = &versions;
  TD_TRY(nodes_out(w, &def));
  TD_TRY(library_out(w->arena, w->graph, &def));
  size_t size = td__graph_def__get_packed_size(&def);
  if (size > INT_MAX) return too_large(w->graph, size);
  return td_graphdef_pack(&def.base, bytes, len);
}

static td_status *write_graph(const td_graph *g, bool elsewhere, char **bytes,
                              size_t *len) {
  td_arena arena;
  writer w = {&arena, g, elsewhere};
  *bytes = NULL;
  *len = 0;
  td_arena_init(&arena);
  td_status *s = graph_out(&w, bytes, len);
  td_arena_deinit(&arena);
  return s;
}

td_status *td_graphdef_write(const td_graph *g, char **bytes, size_t *len) {
  return write_graph(g, false, bytes, len);
}

td_status *td_graphdef_export(const td_graph *g, char **bytes, size_t *len) {
  return write_graph(g, true, bytes, len);
}
