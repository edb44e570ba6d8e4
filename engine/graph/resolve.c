/* resolve.c - checks what was given for a node against its op's signature.
 *
 * In this order: given attributes; inputs, which decide the types and numbers
 * not given and must agree with those that are; defaults; bounds and allowed
 * sets; outputs. A message names the op, what it wants and what it got, since
 * it is read beside the line of Lua that made the call, not beside this file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/resolve.h"
#include "engine/base/nearest.h"

#include <string.h>

enum { FROM_NOWHERE = -1, FROM_CALLER = -2, FROM_DEFAULT = -3 };

/* ---- messages ------------------------------------------------------------ */

static td_status *bad(const td_resolve *c, td_str *message) {
  td_status *s = message->failed ? td_oom()
                                 : td_error(TD_INVALID_ARGUMENT, "%s: %s",
                                            c->op->type, td_str_c(message));
  td_str_deinit(message);
  return s;
}

/* float32 {2, 3} ("x:0") */
static void add_edge(td_str *m, td_edge e) {
  td_shape_text text;
  if (!e.node) {
    td_str_add(m, "a back edge");
    return;
  }
  td_str_addf(m, "%s %s (\"%s:%d\")", td_dtype_name(td_edge_dtype(e)),
              td_shape_str(td_edge_shape(e), &text), e.node->name, e.port);
}

static int32_t count_in(const td_resolve *c, int arg);

/* Input i of all as the signature calls it: b, or values[2]. */
static void add_input(const td_resolve *c, td_str *m, int i) {
  int arg = 0, at = i;
  while (arg < c->op->n_in - 1 && at >= count_in(c, arg))
    at -= count_in(c, arg++);
  const td_arg *a = &c->op->in[arg];
  td_str_addf(m, "input %s", a->name);
  if (a->number_attr >= 0 || a->type_list) td_str_addf(m, "[%d]", at);
}

static void add_allowed(td_str *m, const td_attr_def *a) {
  const char *comma = "";
  for (int t = 1; a->types && t < TD_DTYPES; t++) {
    if (!(a->types >> t & 1)) continue;
    td_str_addf(m, "%s%s", comma, td_dtype_name((td_dtype)t));
    comma = ", ";
  }
  for (const char **s = a->strings; s && *s; s++) {
    td_str_addf(m, "%s\"%s\"", comma, *s);
    comma = ", ";
  }
}

/* Why an attribute is what it is. */
static void add_reason(const td_resolve *c, td_str *m, int attr) {
  int from = c->from[attr];
  if (from == FROM_CALLER) td_str_add(m, ", as given");
  if (from == FROM_DEFAULT) td_str_add(m, ", its default");
  if (from < 0) return;
  td_str_add(m, ", as ");
  add_input(c, m, from);
  td_str_add(m, " is ");
  add_edge(m, c->b->in[from]);
}

/* ---- given attributes ---------------------------------------------------- */

static td_status *unknown_attr(const td_resolve *c, const char *name) {
  td_hint hint;
  td_nearest near = td_nearest_to(name);
  td_str m = {0};
  td_str_addf(&m, "no attribute \"%.100s\"", name);
  for (int i = 0; i < c->op->n_attr; i++)
    td_nearest_try(&near, c->op->attr[i].name);
  td_str_add(&m, td_nearest_hint(&near, &hint));
  if (!hint.text[0]) {
    td_str_add(&m, c->op->n_attr ? "; there are " : "; it has none");
    for (int i = 0; i < c->op->n_attr; i++)
      td_str_addf(&m, "%s%s", i ? ", " : "", c->op->attr[i].name);
  }
  return bad(c, &m);
}

static td_status *wrong_kind(const td_resolve *c, const td_attr_def *def,
                             const td_attr *given) {
  td_str m = {0};
  td_str_addf(&m, "attribute %s must be %s, not %s ", def->name,
              td_attr_kind_name(def->kind, def->is_list),
              td_attr_kind_name(given->kind, given->is_list));
  td_attr_print(given, &m);
  return bad(c, &m);
}

static td_status *floats_from_ints(td_resolve *c, const td_attr *given,
                                   td_attr *to) {
  float *f = td_arena_alloc(&c->scratch, (size_t)given->len * sizeof *f);
  if (!f) return td_oom();
  for (int i = 0; i < given->len; i++) f[i] = (float)given->is[i];
  *to = (td_attr){.kind = TD_ATTR_FLOAT, .is_list = true, .len = given->len};
  to->fs = f;
  return NULL;
}

/* An int is also a float, an empty list one of any kind; nothing else. */
static td_status *take_value(td_resolve *c, const td_attr_def *def,
                             const td_attr *given, td_attr *to) {
  bool ints = given->kind == TD_ATTR_INT && def->kind == TD_ATTR_FLOAT;
  if (given->is_list != def->is_list || (given->is_list && given->len < 0))
    return wrong_kind(c, def, given);
  if (given->is_list && given->len == 0)
    *to = (td_attr){.kind = def->kind, .is_list = true};
  else if (given->kind == def->kind)
    *to = *given;
  else if (ints && given->is_list)
    return floats_from_ints(c, given, to);
  else if (ints)
    *to = td_attr_float((float)given->i);
  else
    return wrong_kind(c, def, given);
  return NULL;
}

static td_status *take_note(td_resolve *c, const td_note *given) {
  for (int i = 0; i < c->n_note; i++)
    if (strcmp(c->note[i].name, given->name) == 0)
      return td_error(TD_INVALID_ARGUMENT, "%s: attribute \"%s\" given twice",
                      c->op->type, given->name);
  if (c->n_note == TD_RESOLVE_MAX_NOTES)
    return td_error(TD_INVALID_ARGUMENT, "%s: more than %d annotations",
                    c->op->type, TD_RESOLVE_MAX_NOTES);
  if (c->n_note == TD_COUNT(c->note_few)) {
    td_note *more =
        td_arena_alloc(&c->scratch, TD_RESOLVE_MAX_NOTES * sizeof *more);
    if (!more) return td_oom();
    memcpy(more, c->note_few, sizeof c->note_few);
    c->note = more;
  }
  c->note[c->n_note++] = *given;
  return NULL;
}

static td_status *take_given(td_resolve *c) {
  for (int i = 0; i < c->b->n_attr; i++) {
    const td_note *given = &c->b->attr[i];
    int at = td_op_attr(c->op, given->name);
    if (at < 0 && given->name[0] != '_') return unknown_attr(c, given->name);
    if (at < 0) {
      TD_TRY(take_note(c, given));
      continue;
    }
    if (c->from[at] == FROM_CALLER)
      return td_error(TD_INVALID_ARGUMENT, "%s: attribute %s given twice",
                      c->op->type, given->name);
    TD_TRY(take_value(c, &c->op->attr[at], &given->value, &c->attr[at]));
    c->from[at] = FROM_CALLER;
  }
  return NULL;
}

/* ---- inputs -------------------------------------------------------------- */

/* Tensors of an argument. Flattened inputs have only the attributes to go by;
 * -1 when those do not say. */
static int32_t count_in(const td_resolve *c, int arg) {
  const td_arg *a = &c->op->in[arg];
  if (!c->b->flat) return arg < c->b->n_group ? c->b->group[arg] : -1;
  if (a->number_attr >= 0) {
    const td_attr *n = &c->attr[a->number_attr];
    return n->kind && n->i >= 0 && n->i <= INT32_MAX ? (int32_t)n->i : -1;
  }
  if (!a->type_list) return 1;
  return c->from[a->type_attr] == FROM_NOWHERE ? -1 : c->attr[a->type_attr].len;
}

static td_status *wrong_inputs(const td_resolve *c, int given) {
  td_str m = {0};
  td_str_addf(&m, "takes %d input%s", c->op->n_in, c->op->n_in == 1 ? "" : "s");
  for (int i = 0; i < c->op->n_in; i++) {
    const td_arg *a = &c->op->in[i];
    bool many = a->number_attr >= 0 || a->type_list;
    td_str_addf(&m, "%s%s%s", i ? ", " : " (", a->name, many ? "..." : "");
    if (c->b->flat && many && count_in(c, i) >= 0)
      td_str_addf(&m, " %d", count_in(c, i));
  }
  td_str_addf(&m, "%s, not %d", c->op->n_in ? ")" : "", given);
  return bad(c, &m);
}

static td_status *need_attr(const td_resolve *c, const td_attr_def *def) {
  return td_error(TD_INVALID_ARGUMENT, "%s: needs attribute %s (%s)",
                  c->op->type, def->name,
                  td_attr_kind_name(def->kind, def->is_list));
}

static td_status *wrong_count(const td_resolve *c, const td_arg *arg, int32_t n,
                              int attr, int64_t want) {
  td_str m = {0};
  td_str_addf(&m, "input %s is a list of %d tensors", arg->name, n);
  if (attr < 0)
    td_str_add(&m, ", wanted is one tensor");
  else
    td_str_addf(&m, ", but %s calls for %lld", c->op->attr[attr].name,
                (long long)want);
  if (attr >= 0) add_reason(c, &m, attr);
  return bad(c, &m);
}

/* Input i is not of the dtype that `attr` (or the signature: -1) wants. */
static td_status *wrong_type(const td_resolve *c, int i, int attr,
                             td_dtype want) {
  td_str m = {0};
  add_input(c, &m, i);
  td_str_addf(&m, " must be %s, not ", td_dtype_name(want));
  add_edge(&m, c->b->in[i]);
  if (attr >= 0) {
    td_str_addf(&m, ": %s is %s", c->op->attr[attr].name, td_dtype_name(want));
    add_reason(c, &m, attr);
  }
  td_str_add(&m, "; cast it first");
  return bad(c, &m);
}

static td_status *take_number(td_resolve *c, const td_arg *arg, int32_t count,
                              int first) {
  int at = arg->number_attr;
  if (at < 0 && !arg->type_list && count != 1)
    return wrong_count(c, arg, count, -1, 1);
  if (at < 0) return NULL;
  if (c->attr[at].kind == TD_ATTR_NONE) {
    c->attr[at] = td_attr_int(count);
    c->from[at] = count ? first : FROM_CALLER;
  }
  return c->attr[at].i == count ? NULL
                                : wrong_count(c, arg, count, at, c->attr[at].i);
}

/* A list of mixed dtypes: made from the inputs, or compared with them. */
static td_status *take_type_list(td_resolve *c, const td_arg *arg,
                                 int32_t count, int first) {
  int at = arg->type_attr;
  if (c->from[at] == FROM_NOWHERE) {
    td_dtype *types =
        td_arena_alloc(&c->scratch, (size_t)count * sizeof *types);
    if (!types) return td_oom();
    for (int i = 0; i < count; i++) {
      td_edge e = c->b->in[first + i];
      if (!e.node) return need_attr(c, &c->op->attr[at]);
      types[i] = td_edge_dtype(e);
    }
    c->attr[at] = td_attr_types(types, count);
    c->from[at] = count ? first : FROM_CALLER;
    return NULL;
  }
  if (c->attr[at].len != count)
    return wrong_count(c, arg, count, at, c->attr[at].len);
  for (int i = 0; i < count; i++) {
    td_edge e = c->b->in[first + i];
    if (e.node && td_edge_dtype(e) != c->attr[at].types[i])
      return wrong_type(c, first + i, at, c->attr[at].types[i]);
  }
  return NULL;
}

static td_status *take_types(td_resolve *c, const td_arg *arg, int32_t count,
                             int first) {
  int at = arg->type_attr;
  if (arg->type_list) return take_type_list(c, arg, count, first);
  for (int i = first; i < first + count; i++) {
    td_edge e = c->b->in[i];
    if (!e.node) continue;
    td_dtype given = td_edge_dtype(e);
    if (at >= 0 && c->attr[at].kind == TD_ATTR_NONE) {
      c->attr[at] = td_attr_type(given);
      c->from[at] = i;
    }
    td_dtype want = at >= 0 ? c->attr[at].type : arg->type;
    if (given != want) return wrong_type(c, i, at, want);
  }
  return NULL;
}

/* Flattened inputs: what the caller left out of the list attributes. */
static td_status *default_lengths(td_resolve *c) {
  for (int k = 0; c->b->flat && k < c->op->n_in; k++) {
    const td_arg *a = &c->op->in[k];
    int at = a->type_list ? a->type_attr : a->number_attr;
    if (at < 0 || c->from[at] != FROM_NOWHERE) continue;
    if (!c->op->attr[at].has_default) return need_attr(c, &c->op->attr[at]);
    c->attr[at] = c->op->attr[at].value;
    c->from[at] = FROM_DEFAULT;
  }
  return NULL;
}

static td_status *take_inputs(td_resolve *c) {
  const td_build *b = c->b;
  int64_t total = 0;
  TD_TRY(default_lengths(c));
  if (!b->flat && b->n_group != c->op->n_in) return wrong_inputs(c, b->n_group);
  for (int k = 0; k < c->op->n_in; k++) {
    if (count_in(c, k) < 0) return wrong_inputs(c, b->n_in);
    total += count_in(c, k);
  }
  if (total != b->n_in) return wrong_inputs(c, b->n_in);
  for (int k = 0, first = 0; k < c->op->n_in; k++) {
    const td_arg *arg = &c->op->in[k];
    int32_t count = count_in(c, k);
    TD_TRY(take_number(c, arg, count, first));
    TD_TRY(take_types(c, arg, count, first));
    first += count;
  }
  return NULL;
}

/* ---- bounds -------------------------------------------------------------- */

static bool type_allowed(const td_attr_def *def, td_dtype t) {
  return t > TD_INVALID && (int)t < TD_DTYPES &&
         (!def->types || (def->types >> t & 1));
}

static bool string_allowed(const td_attr_def *def, td_bytes s) {
  const char **allowed = def->strings;
  if (!allowed) return true;
  for (; *allowed; allowed++)
    if (strlen(*allowed) == s.len && memcmp(*allowed, s.at, s.len) == 0)
      return true;
  return false;
}

static bool value_allowed(const td_attr_def *def, const td_attr *v) {
  int n = v->is_list ? v->len : 1;
  for (int i = 0; i < n; i++) {
    if (def->kind == TD_ATTR_TYPE &&
        !type_allowed(def, v->is_list ? v->types[i] : v->type))
      return false;
    if (def->kind == TD_ATTR_STRING &&
        !string_allowed(def, v->is_list ? v->ss[i] : v->s))
      return false;
  }
  return true;
}

static td_status *check_value(const td_resolve *c, int at) {
  const td_attr_def *def = &c->op->attr[at];
  const td_attr *v = &c->attr[at];
  int64_t size = v->is_list ? v->len : v->i;
  bool allowed = value_allowed(def, v);
  if (allowed && (!def->has_minimum || size >= def->minimum)) return NULL;
  td_str m = {0};
  td_str_addf(&m, "attribute %s must be ", def->name);
  if (allowed)
    td_str_addf(&m, v->is_list ? "a list of at least %lld" : "at least %lld",
                (long long)def->minimum);
  else if (def->types || def->strings)
    td_str_add(&m, "one of ");
  else
    td_str_add(&m, "a dtype");
  if (!allowed) add_allowed(&m, def);
  td_str_add(&m, ", not ");
  td_attr_print(v, &m);
  add_reason(c, &m, at);
  return bad(c, &m);
}

static td_status *check_attrs(td_resolve *c) {
  for (int i = 0; i < c->op->n_attr; i++) {
    const td_attr_def *def = &c->op->attr[i];
    if (c->from[i] == FROM_NOWHERE) {
      if (!def->has_default) return need_attr(c, def);
      c->attr[i] = def->value;
      c->from[i] = FROM_DEFAULT;
    }
    if (c->from[i] != FROM_DEFAULT) TD_TRY(check_value(c, i));
  }
  return NULL;
}

/* A constant is what it says it is, and never a handle: those from a file could
 * point anywhere. */
static td_status *check_const(const td_resolve *c) {
  int value = td_op_attr(c->op, "value"), dtype = td_op_attr(c->op, "dtype");
  if (c->op->kind != TD_OP_CONST || value < 0 || dtype < 0) return NULL;
  td_dtype t = c->attr[value].tensor->dtype, want = c->attr[dtype].type;
  if (t != want)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s: value is %s but attribute dtype is %s", c->op->type,
                    td_dtype_name(t), td_dtype_name(want));
  if (t == TD_RESOURCE || t == TD_VARIANT)
    return td_error(TD_INVALID_ARGUMENT, "%s: a %s cannot be a constant",
                    c->op->type, td_dtype_name(t));
  return NULL;
}

/* ---- outputs ------------------------------------------------------------- */

static int64_t count_out(const td_resolve *c, const td_arg *arg) {
  if (arg->number_attr >= 0) return c->attr[arg->number_attr].i;
  return arg->type_list ? c->attr[arg->type_attr].len : 1;
}

static td_status *make_outputs(td_resolve *c) {
  int64_t total = 0;
  for (int k = 0; k < c->op->n_out; k++) {
    int64_t count = count_out(c, &c->op->out[k]);
    if (count < 0 || count > TD_RESOLVE_MAX_OUTPUTS - total)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s: output %s cannot be a list of %lld tensors: at most "
                      "%d are possible",
                      c->op->type, c->op->out[k].name, (long long)count,
                      TD_RESOLVE_MAX_OUTPUTS);
    total += count;
  }
  c->n_out = (int32_t)total;
  if (total > (int64_t)TD_COUNT(c->out_few)) {
    c->out = td_arena_alloc(&c->scratch, (size_t)total * sizeof *c->out);
    if (!c->out) return td_oom();
  }
  td_result *o = c->out;
  for (int k = 0; k < c->op->n_out; k++) {
    const td_arg *arg = &c->op->out[k];
    int64_t count = count_out(c, arg);
    for (int i = 0; i < count; i++, o++) {
      o->dtype = arg->type;
      if (arg->type_list)
        o->dtype = c->attr[arg->type_attr].types[i];
      else if (arg->type_attr >= 0)
        o->dtype = c->attr[arg->type_attr].type;
    }
  }
  return NULL;
}

/* ---- the whole ----------------------------------------------------------- */

td_status *td_resolve_node(td_resolve *c, const td_build *b) {
  c->b = b;
  c->op = b->op;
  td_arena_init(&c->scratch);
  c->note = c->note_few;
  c->n_note = 0;
  c->out = c->out_few;
  c->n_out = 0;
  for (int i = 0; i < c->op->n_attr; i++) {
    c->attr[i] = (td_attr){0};
    c->from[i] = FROM_NOWHERE;
  }
  TD_TRY(take_given(c));
  TD_TRY(take_inputs(c));
  TD_TRY(check_attrs(c));
  TD_TRY(check_const(c));
  return make_outputs(c);
}

void td_resolve_deinit(td_resolve *c) {
  td_arena_deinit(&c->scratch);
}
