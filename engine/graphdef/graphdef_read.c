/* graphdef_read.c - a file becomes nodes of a graph, all of them or none.
 *
 * Nodes are built in a graph of their own, where everything is checked; inputs
 * that the caller replaces are stood in for there. Only then, under the lock of
 * the target, room is made, names are compared, and the finished nodes change
 * hands together with the memory they lie in: nobody ever sees half a file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/graph/frames.h"
#include "engine/base/nearest.h"
#include "engine/graph/graph_edit.h"
#include "engine/graphdef/function_body_impl.h"
#include "engine/graphdef/function_impl.h"
#include "engine/graphdef/graphdef_read_impl.h"
#include "engine/graph/infer_impl.h"

/* ---- versions and functions ---------------------------------------------- */

static td_status *check_versions(td_import *m) {
  const Td__VersionDef *v = m->def->versions;
  m->producer = v ? v->producer : m->def->version;
  if (!v) return NULL;
  if (v->min_consumer > TD_GRAPHDEF_VERSION)
    return td_error(TD_INVALID_ARGUMENT,
                    "the graph needs a reader of version %d; this is %d",
                    (int)v->min_consumer, TD_GRAPHDEF_VERSION);
  for (size_t i = 0; i < v->n_bad_consumers; i++)
    if (v->bad_consumers[i] == TD_GRAPHDEF_VERSION)
      return td_error(TD_INVALID_ARGUMENT,
                      "the graph must not be read by version %d, which this is",
                      TD_GRAPHDEF_VERSION);
  return NULL;
}

static td_status *read_library(td_import *m) {
  const Td__FunctionDefLibrary *lib = m->def->library;
  if (!lib) return NULL;
  for (size_t i = 0; i < lib->n_function; i++)
    TD_TRY(td_function_put(m->g, lib->function[i].data, lib->function[i].len,
                           NULL));
  for (size_t i = 0; i < lib->n_gradient; i++)
    TD_TRY(td_function_set_gradient(m->g, lib->gradient[i]->function_name,
                                    lib->gradient[i]->gradient_func));
  return td_function_library_order(&m->g->functions, NULL);
}

/* ---- replaced inputs ----------------------------------------------------- */

static const td_op_def stand_def = {
    .type = "(input)", .sig = "", .shape = td_infer_any, .lua = ""};
static const td_op stand_op = {.def = &stand_def, .type = "(input)", .lua = ""};

/* The node whose attributes say what edge `e` is: a constant, what made a
 * handle; or NULL. */
static const td_node *teller(td_edge e) {
  if (e.node->op->kind == TD_OP_CONST) return e.node;
  if (td_edge_dtype(e) != TD_RESOURCE) return NULL;
  const td_node *n = td_infer_handle_source(e).node;
  return n && n->n_in == 0 ? n : NULL;
}

/* What the nodes of the file may know of edge `e`: dtype, shape, and the value
 * of a constant. */
static td_status *add_stand(td_import *m, int i) {
  char name[32];
  td_edge e = m->o->edges[i];
  bool data = m->o->names[i][0] != '^';
  if (!e.node || e.node->graph != m->to ||
      (data && (e.port < 0 || e.port >= e.node->n_out)))
    return td_error(TD_INVALID_ARGUMENT,
                    "input \"%.200s\" must be replaced by %s of the graph",
                    m->o->names[i], data ? "a tensor" : "a node");
  const td_node *told = data ? teller(e) : NULL;
  snprintf(name, sizeof name, "^%d", i); /* no name of a file's */
  td_node_size size = {.out = data,
                       .attr = told ? told->op->n_attr : 0,
                       .note = told ? told->n_note : 0,
                       .name = strlen(name)};
  td_node *n = td_node_alloc(m->g, &size, name);
  if (!n) return td_oom();
  if (told)
    TD_TRY(td_node_copy_attrs(told, n));
  else
    n->op = &stand_op;
  if (data) n->out[0] = e.node->out[e.port];
  n->n_out = data;
  td_graph_adopt(m->g, n, NULL);
  return NULL;
}

/* "x:0" is "x". */
static size_t reference_len(const char *ref) {
  size_t len = strlen(ref);
  return len > 2 && ref[len - 2] == ':' && ref[len - 1] == '0' ? len - 2 : len;
}

static td_status *add_stands(td_import *m) {
  size_t n = (size_t)m->o->n_inputs;
  m->used = td_arena_alloc(&m->arena, n * sizeof *m->used);
  if (!m->used || !td_names_reserve(&m->mapped, n)) return td_oom();
  TD_TRY(td_graph_reserve(m->g, n));
  for (size_t i = 0; i < n; i++) {
    const char *ref = m->o->names[i];
    size_t len = reference_len(ref);
    if (td_names_find(&m->mapped, ref, len))
      return td_error(TD_INVALID_ARGUMENT, "input \"%.200s\" is replaced twice",
                      ref);
    td_names_add(&m->mapped, ref, len, NULL);
    TD_TRY(add_stand(m, (int)i));
  }
  return NULL;
}

static td_status *check_used(const td_import *m) {
  for (int i = 0; i < m->o->n_inputs; i++)
    if (!m->used[i])
      return td_error(TD_NOT_FOUND,
                      "no node of the file takes the input \"%.200s\", which "
                      "is to be replaced",
                      m->o->names[i]);
  return NULL;
}

/* ---- names, ops, inputs -------------------------------------------------- */

/* n->op stays NULL where it is not known. */
static td_status *find_op(td_import *m, td_item *n) {
  const char *type = n->def->op;
  n->op = td_op_find(type);
  if (n->op) return NULL;
  if (!*type) return td_error(TD_NOT_FOUND, "no op \"\"");
  if (td_op_count() == 0) TD_TRY(td_op_check());
  const td_bytes *f = td_function_find(m->functions, type);
  if (f) {
    Td__NodeDef *call;
    TD_TRY(td_function_as_call(&m->arena, f, n->def, &call, NULL));
    n->def = call;
    n->op = td_op_find(call->op);
  }
  return NULL;
}

/* In a file, that is for who needs them (graphdef_foreign.c). The body of a
 * function is there to be run. */
static td_status *find_unknown(td_import *m) {
  size_t n = 0;
  if (!m->is_body) return td_import_foreign(m);
  const char **types = td_calloc((size_t)m->n_item + 1, sizeof *types);
  if (!types) return td_oom();
  for (int32_t i = 0; i < m->n_item; i++)
    if (!m->item[i].op) types[n++] = m->item[i].def->op;
  td_status *s = n ? td_op_unknown("the function", types, n) : NULL;
  td_free(types);
  return s;
}

static td_status *no_input(const td_import *m, const char *ref,
                           const char *name) {
  td_hint hint;
  td_nearest near = td_nearest_to(name);
  for (int32_t i = 0; i < m->n_item; i++)
    td_nearest_try(&near, m->item[i].def->name);
  return td_error(TD_INVALID_ARGUMENT,
                  "input \"%.200s\" is of no node of the file%s", ref,
                  td_nearest_hint(&near, &hint));
}

static td_status *find_source(td_import *m, const char *ref, td_source *out) {
  bool control = ref[0] == '^';
  const td_name *n = td_names_find(&m->mapped, ref, reference_len(ref));
  *out = (td_source){.item = -1};
  if (n) {
    out->stand = (int32_t)(n - m->mapped.at);
    m->used[out->stand] = true;
    return NULL;
  }
  const char *name = ref + control;
  const char *colon = control ? NULL : strrchr(name, ':');
  size_t len = colon ? (size_t)(colon - name) : strlen(name);
  out->port = colon ? td_names_port(colon + 1) : 0;
  if (out->port < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "input \"%.200s\" must be name, name:port or ^name", ref);
  n = td_names_find(&m->names, name, len);
  if (!n) return no_input(m, ref, name);
  out->item = (int32_t)(n - m->names.at);
  return NULL;
}

static td_status *doubled(const char *ref) {
  return td_error(TD_INVALID_ARGUMENT, "control input \"%.200s\" comes twice",
                  ref);
}

/* Many (a group over all variables) are told apart by a table. */
static td_status *check_many(char *const *ref, uint32_t n) {
  td_names seen = {0};
  td_status *s = td_names_reserve(&seen, n) ? NULL : td_oom();
  for (uint32_t i = 0; i < n && td_ok(s); i++) {
    if (td_names_find(&seen, ref[i], strlen(ref[i])))
      s = doubled(ref[i]);
    else
      td_names_add(&seen, ref[i], strlen(ref[i]), NULL);
  }
  td_names_deinit(&seen);
  return s;
}

static td_status *check_controls(const td_item *n) {
  enum { FEW = 16 };
  char *const *ref = n->def->input + n->n_in;
  if (n->n_control > FEW) return check_many(ref, (uint32_t)n->n_control);
  for (int i = 1; i < n->n_control; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(ref[i], ref[k]) == 0) return doubled(ref[i]);
  return NULL;
}

static td_status *find_inputs(td_import *m, td_item *n) {
  size_t count = n->def->n_input;
  if (count == 0) return NULL;
  n->in = td_arena_alloc(&m->arena, count * sizeof *n->in);
  if (!n->in) return td_oom();
  for (size_t i = 0; i < count; i++) {
    const char *ref = n->def->input[i];
    TD_TRY(find_source(m, ref, &n->in[i]));
    if (ref[0] == '^')
      n->n_control++;
    else if (n->n_control)
      return td_error(TD_INVALID_ARGUMENT,
                      "input \"%.200s\" comes after a control input", ref);
    else
      n->n_in++;
  }
  n->control = n->in + n->n_in;
  return check_controls(n);
}

static td_status *read_items(td_import *m) {
  size_t n = m->def->n_node;
  m->n_item = (int32_t)n;
  m->item = td_arena_alloc(&m->arena, n * sizeof *m->item);
  if (!m->item || !td_names_reserve(&m->names, n)) return td_oom();
  for (size_t i = 0; i < n; i++) {
    m->item[i].def = m->def->node[i];
    TD_TRY(td_import_name(m, &m->item[i]));
  }
  for (int32_t i = 0; i < m->n_item; i++) {
    td_item *item = &m->item[i];
    td_graphdef_attr_sort(item->def->attr, item->def->n_attr);
    TD_TRY(td_import_blame(find_op(m, item), item));
    TD_TRY(td_import_blame(find_inputs(m, item), item));
  }
  TD_TRY(check_used(m));
  TD_TRY(find_unknown(m));
  return td_import_conds(m);
}

/* ---- changing hands ------------------------------------------------------ */

/* Room and names; all that can fail. Under the lock. */
static td_status *make_room(td_import *m) {
  if (m->to->finalized)
    return td_error(TD_FAILED_PRECONDITION,
                    "the graph is final, no node may be added");
  TD_TRY(td_graph_reserve(m->to, (size_t)m->n_item));
  for (int32_t i = 0; i < m->n_item; i++) {
    const td_item *n = &m->item[i];
    if (td_graph_find(m->to, n->name))
      return td_import_blame(td_error(TD_ALREADY_EXISTS,
                                      "a node \"%.200s\" exists already",
                                      n->name),
                             n);
  }
  return td_function_unite(m->to, m->g, td_region_of(m->to));
}

/* Stand-ins, the first nodes of their graph, give way to what they stood for;
 * two may have stood for one node. */
static void replace_stands(const td_import *m, td_node *n) {
  int32_t kept = 0;
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node->id < m->o->n_inputs)
      n->in[i] = m->o->edges[n->in[i].node->id];
  for (int i = 0; i < n->n_control; i++) {
    td_node *c = n->control[i];
    bool doubled = false;
    if (c->id < m->o->n_inputs) {
      c = m->o->edges[c->id].node;
      for (int k = 0; k < kept; k++) doubled = doubled || n->control[k] == c;
    }
    if (!doubled) n->control[kept++] = c;
  }
  n->n_control = kept;
}

static void move_nodes(td_import *m) {
  int32_t first = m->o->n_inputs, n = td_graph_size(m->g);
  td_region *r = td_region_of(m->to);
  for (int32_t i = 0; i < first; i++)
    td_node_drop_attrs(td_graph_node(m->g, i));
  for (int32_t i = first; i < n && first; i++)
    replace_stands(m, td_graph_node(m->g, i));
  for (int32_t i = first; i < n; i++) {
    td_node *node = td_graph_node(m->g, i);
    td_name *reserved =
        td_names_find(&m->to->names, node->name, strlen(node->name));
    node->region = r;
    td_graph_adopt(m->to, node, reserved);
  }
  m->g->nodes.len = 0;
  td_arena_join(&r->arena, &m->g->root.arena);
  td_function_take(m->to, m->g, r);
}

static td_status *check_frames(const td_import *m) {
  td_frames frames;
  TD_TRY(td_frames_check(m->g, &frames));
  td_frames_free(&frames);
  return NULL;
}

static td_status *import(td_import *m) {
  TD_TRY(check_versions(m));
  TD_TRY(read_library(m));
  TD_TRY(add_stands(m));
  TD_TRY(read_items(m));
  TD_TRY(td_import_build(m));
  TD_TRY(check_frames(m));
  td_graph_lock(m->to);
  td_status *s = make_room(m);
  if (td_ok(s)) move_nodes(m);
  td_graph_unlock(m->to);
  return s;
}

/* `bytes` NULL: the message is there already. */
static td_status *run(td_import *m, const void *bytes, size_t len) {
  Td__GraphDef *def = NULL;
  TD_TRY(td_graph_new(&m->g));
  td_graph_scratch(m->g);
  if (!m->functions) m->functions = m->g;
  td_arena_init(&m->arena);
  td_status *s = NULL;
  if (!m->def) {
    s = td_graphdef_unpack(&td__graph_def__descriptor, &m->arena, bytes, len,
                           &def);
    m->def = def;
  }
  if (td_ok(s)) s = import(m);
  td_names_deinit(&m->names);
  td_names_deinit(&m->mapped);
  td_arena_deinit(&m->arena);
  td_graph_release(m->g);
  return s;
}

td_status *td_graphdef_add(td_graph *g, const Td__GraphDef *def,
                           const td_graphdef_options *options,
                           const td_graph *functions, size_t *fill) {
  td_import m = {.to = g,
                 .o = options,
                 .def = def,
                 .functions = functions,
                 .fill = *fill,
                 .is_body = true};
  td_status *s = run(&m, NULL, 0);
  *fill = m.fill;
  return s;
}

td_status *td_graphdef_read(td_graph *g, const void *bytes, size_t len,
                            const td_graphdef_options *options) {
  static const td_graphdef_options none;
  td_graphdef_options o = options ? *options : none;
  td_import m = {.to = g, .o = &o, .fill = TD_GRAPHDEF_FILL};
  TD_TRY(td_graphdef_within(&bytes, &len));
  if (o.prefix && !*o.prefix) o.prefix = NULL;
  return run(&m, bytes, len);
}
