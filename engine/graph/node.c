/* node.c - one node: its memory, and reading it.
 *
 * A node and its arrays are one piece of its region's arena.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/node.h"

#include <string.h>

#include "engine/graph/graph_impl.h"
#include "engine/graph/infer_impl.h"

/* ---- memory -------------------------------------------------------------- */

/* The counts are int32 and the elements small: no sum here can overflow. */
td_node *td_node_alloc(td_graph *g, const td_node_size *size,
                       const char *name) {
  size_t out = (size_t)size->out * sizeof(td_result);
  size_t attr = (size_t)size->attr * sizeof(td_attr);
  size_t note = (size_t)size->note * sizeof(td_note);
  size_t in = (size_t)size->in * sizeof(td_edge);
  size_t control = (size_t)size->control * sizeof(td_node *);
  td_region *r = td_region_of(g);
  char *p = td_arena_alloc(&r->arena, sizeof(td_node) + out + attr + note + in +
                                          control + size->name + 1);
  if (!p) return NULL;
  td_node *n = (td_node *)(void *)p;
  n->out = (td_result *)(void *)(p += sizeof(td_node));
  n->attr = (td_attr *)(void *)(p += out);
  n->note = (td_note *)(void *)(p += attr);
  n->in = (td_edge *)(void *)(p += note);
  n->control = (td_node **)(void *)(p += in);
  n->name = memcpy(p + control, name, size->name);
  n->n_in = size->in;
  n->n_control = size->control;
  n->n_out = size->out;
  n->n_note = size->note;
  n->graph = g;
  n->region = r;
  n->device = n->origin = "";
  n->placed = -1;
  return n;
}

void td_node_drop_attrs(td_node *n) {
  for (int i = 0; n->op && i < n->op->n_attr; i++) td_attr_drop(&n->attr[i]);
  for (int i = 0; i < n->n_note; i++) td_attr_drop(&n->note[i].value);
}

td_status *td_node_copy_attrs(const td_node *from, td_node *to) {
  td_status *s = NULL;
  td_arena *arena = &to->region->arena;
  to->op = from->op;
  for (int i = 0; i < from->op->n_attr && td_ok(s); i++)
    s = td_attr_copy(arena, &from->attr[i], &to->attr[i]);
  for (int i = 0; i < from->n_note && td_ok(s); i++) {
    to->note[i].name = td_arena_str(arena, from->note[i].name);
    s = to->note[i].name
            ? td_attr_copy(arena, &from->note[i].value, &to->note[i].value)
            : td_oom();
  }
  if (!td_ok(s)) td_node_drop_attrs(to);
  return s;
}

/* ---- attributes ---------------------------------------------------------- */

const td_attr *td_attr_find(const td_op *op, const td_attr *attr,
                            const td_note *note, int n_note, const char *name) {
  int i = td_op_attr(op, name);
  if (i >= 0) return attr[i].kind || attr[i].is_list ? &attr[i] : NULL;
  for (i = 0; i < n_note; i++)
    if (strcmp(note[i].name, name) == 0) return &note[i].value;
  return NULL;
}

const td_attr *td_node_attr(const td_node *n, const char *name) {
  return td_attr_find(n->op, n->attr, n->note, n->n_note, name);
}
int64_t td_node_int(const td_node *n, const char *name) {
  return td_attr_as_int(td_node_attr(n, name));
}
bool td_node_bool(const td_node *n, const char *name) {
  return td_attr_as_bool(td_node_attr(n, name));
}
float td_node_float(const td_node *n, const char *name) {
  return td_attr_as_float(td_node_attr(n, name));
}
const char *td_node_string(const td_node *n, const char *name) {
  return td_attr_as_string(td_node_attr(n, name));
}
td_dtype td_node_type(const td_node *n, const char *name) {
  return td_attr_as_type(td_node_attr(n, name));
}

static bool visit_attr(const td_node *n, const td_attr *a,
                       bool (*f)(void *, const td_node *, td_func_attr *),
                       void *arg) {
  if (a->kind != TD_ATTR_FUNC) return true;
  const td_func_attr *at = a->is_list ? a->funcs : a->func;
  for (int i = 0; i < (a->is_list ? a->len : 1); i++) {
    if (!f(arg, n, (td_func_attr *)&at[i])) return false;
    for (int k = 0; k < at[i].n_attrs; k++)
      if (!visit_attr(n, &at[i].attrs[k], f, arg)) return false;
  }
  return true;
}

bool td_node_visit_funcs(const td_node *n,
                         bool (*f)(void *, const td_node *, td_func_attr *),
                         void *arg) {
  for (int i = 0; i < n->op->n_attr; i++)
    if (!visit_attr(n, &n->attr[i], f, arg)) return false;
  for (int i = 0; i < n->n_note; i++)
    if (!visit_attr(n, &n->note[i].value, f, arg)) return false;
  return true;
}

/* ---- arguments ----------------------------------------------------------- */

static int count_of(const td_node *n, const td_arg *arg) {
  if (arg->number_attr >= 0) return (int)n->attr[arg->number_attr].i;
  return arg->type_list ? n->attr[arg->type_attr].len : 1;
}

static void range(const td_node *n, const td_arg *args, int arg, int *begin,
                  int *count) {
  *begin = 0;
  for (int i = 0; i < arg; i++) *begin += count_of(n, &args[i]);
  *count = count_of(n, &args[arg]);
}

void td_node_in_range(const td_node *n, int arg, int *begin, int *count) {
  range(n, n->op->in, arg, begin, count);
}
void td_node_out_range(const td_node *n, int arg, int *begin, int *count) {
  range(n, n->op->out, arg, begin, count);
}

static const td_arg *arg_of(const td_node *n, const td_arg *args, int n_args,
                            int i) {
  for (int k = 0; k < n_args; k++) {
    int count = count_of(n, &args[k]);
    if (i < count) return &args[k];
    i -= count;
  }
  return NULL;
}

const td_arg *td_node_in_arg(const td_node *n, int i) {
  return arg_of(n, n->op->in, n->op->n_in, i);
}
const td_arg *td_node_out_arg(const td_node *n, int i) {
  return arg_of(n, n->op->out, n->op->n_out, i);
}

td_status *td_node_blame(td_status *s, const td_node *n) {
  return s ? td_status_at(s, n->op->type, n->name, n->origin, NULL) : NULL;
}
