/* mutate.h - a GraphDef turned into what no careful program would write.
 *
 * The message stays one that can be parsed; what it says is changed: edges,
 * ports, ops, names, devices, attributes, functions. Hostile numbers are those
 * at which counts, sizes and indices go wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RUN_MUTATE_H
#define TEST_RUN_MUTATE_H

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "engine/graphdef/graphdef_impl.h"
#include "tests/check.h"

typedef struct mutation {
  td_arena arena;
  uint64_t seed;
  Td__GraphDef *def;
} mutation;

static inline uint64_t any_bits(mutation *m) {
  uint64_t z = m->seed += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static inline size_t any_of(mutation *m, size_t n) {
  return n ? (size_t)(any_bits(m) % n) : 0;
}
#define ANY(m, list) (list)[any_of(m, TD_COUNT(list))]

static inline char *text_of(mutation *m, const char *s) {
  return td_arena_str(&m->arena, s);
}

/* ---- hostile values ------------------------------------------------------ */

static inline int64_t any_int(mutation *m) {
  static const int64_t ints[] = {
      0,         1,         -1,        2,         3,        7,
      100000000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 31,
      1LL << 32, 1LL << 40, 65536,     255,       -2,        1 << 20};
  return ANY(m, ints);
}

static inline int32_t any_type(mutation *m) {
  static const int32_t odd[] = {0, -1, 24, 101, 103, 120, 1000, INT32_MAX};
  return any_of(m, 4) ? (int32_t)any_of(m, 24) : ANY(m, odd);
}

static inline Td__TensorShapeProto *any_shape(mutation *m) {
  Td__TensorShapeProto *s = td_arena_alloc(&m->arena, sizeof *s);
  size_t n = any_of(m, 8) ? any_of(m, 4) : 7 + any_of(m, 4);
  td__tensor_shape_proto__init(s);
  s->unknown_rank = any_of(m, 5) == 0;
  s->dim = td_arena_alloc(&m->arena, (n + 1) * sizeof *s->dim);
  for (s->n_dim = 0; s->n_dim < n; s->n_dim++) {
    Td__TensorShapeProto__Dim *d = td_arena_alloc(&m->arena, sizeof *d);
    td__tensor_shape_proto__dim__init(d);
    d->size = any_of(m, 3) ? (int64_t)any_of(m, 5) : any_int(m);
    s->dim[s->n_dim] = d;
  }
  return s;
}

static inline char *any_word(mutation *m) {
  static const char *const words[] = {
      "",   "x",     "Add",        "a b",          "/",   "loc:@x", "frame",
      "^x", "f0",    "-1",         "/device:X:99", "\xff", "SAME",  "NHWC",
      "_",  "while", "2147483648", "(.*",          ",",   "%s%n"};
  return text_of(m, ANY(m, words));
}

static inline Td__TensorProto *any_tensor(mutation *m) {
  Td__TensorProto *t = td_arena_alloc(&m->arena, sizeof *t);
  static const float floats[] = {NAN, INFINITY, -1, 0, 1e30f};
  td__tensor_proto__init(t);
  t->dtype = any_type(m);
  t->tensor_shape = any_of(m, 4) ? any_shape(m) : NULL;
  size_t n = any_of(m, 4);
  t->string_val = td_arena_alloc(&m->arena, 4 * sizeof *t->string_val);
  t->float_val = td_arena_alloc(&m->arena, 4 * sizeof *t->float_val);
  t->int_val = td_arena_alloc(&m->arena, 4 * sizeof *t->int_val);
  t->int64_val = td_arena_alloc(&m->arena, 4 * sizeof *t->int64_val);
  for (size_t i = 0; i < n; i++) {
    bool each = any_of(m, 4) == 0; /* of every list, as no tensor has */
    if (each || t->dtype == 7) {
      t->string_val[t->n_string_val].data = (uint8_t *)any_word(m);
      t->string_val[t->n_string_val].len =
          strlen((char *)t->string_val[t->n_string_val].data);
      t->n_string_val++;
    }
    if (each || t->dtype == 1) t->float_val[t->n_float_val++] = ANY(m, floats);
    if (each || t->dtype == 3)
      t->int_val[t->n_int_val++] = (int32_t)any_int(m);
    if (each || t->dtype == 9) t->int64_val[t->n_int64_val++] = any_int(m);
  }
  if (any_of(m, 4) == 0) {
    t->tensor_content.data = (uint8_t *)text_of(m, "0123456789abcdef");
    t->tensor_content.len = any_of(m, 17);
  }
  return t;
}

static inline Td__NameAttrList *any_function(mutation *m);

/* Of one kind, mostly. */
static inline void list_value(mutation *m, Td__AttrValue *v) {
  Td__ListValue *l = td_arena_alloc(&m->arena, sizeof *l);
  size_t n = any_of(m, 8) ? any_of(m, 5) : 70, room = 2 * n + 1;
  td__list_value__init(l);
  l->i = td_arena_alloc(&m->arena, room * sizeof *l->i);
  l->f = td_arena_alloc(&m->arena, room * sizeof *l->f);
  l->b = td_arena_alloc(&m->arena, room * sizeof *l->b);
  l->s = td_arena_alloc(&m->arena, room * sizeof *l->s);
  l->type = td_arena_alloc(&m->arena, room * sizeof *l->type);
  l->shape = td_arena_alloc(&m->arena, room * sizeof(void *));
  l->tensor = td_arena_alloc(&m->arena, room * sizeof(void *));
  l->func = td_arena_alloc(&m->arena, room * sizeof(void *));
  size_t kind = any_of(m, 8);
  for (size_t i = 0; i < n; i++) {
    switch (kind) {
    case 0: l->i[l->n_i++] = any_int(m); break;
    case 1: l->type[l->n_type++] = any_type(m); break;
    case 2: l->shape[l->n_shape++] = any_shape(m); break;
    case 3: l->f[l->n_f++] = (float)any_int(m); break;
    case 4: l->b[l->n_b++] = any_of(m, 2) == 0; break;
    case 5: l->tensor[l->n_tensor++] = any_tensor(m); break;
    case 6: l->func[l->n_func++] = any_function(m); break;
    default:
      l->s[l->n_s].data = (uint8_t *)any_word(m);
      l->s[l->n_s].len = strlen((char *)l->s[l->n_s].data);
      l->n_s++;
    }
    if (any_of(m, 40) == 0) kind = any_of(m, 8);
  }
  v->value_case = TD__ATTR_VALUE__VALUE_LIST;
  v->list = l;
}

static inline Td__AttrValue *any_value(mutation *m);

static inline Td__NameAttrList *any_function(mutation *m) {
  Td__NameAttrList *f = td_arena_alloc(&m->arena, sizeof *f);
  size_t n = any_of(m, 4) ? 0 : any_of(m, 3);
  td__name_attr_list__init(f);
  f->name = any_of(m, 2) ? text_of(m, "f0") : any_word(m);
  f->attr = td_arena_alloc(&m->arena, (n + 1) * sizeof *f->attr);
  for (; f->n_attr < n; f->n_attr++) {
    Td__AttrEntry *e = td_arena_alloc(&m->arena, sizeof *e);
    td__attr_entry__init(e);
    e->key = any_word(m);
    e->value = any_value(m);
    f->attr[f->n_attr] = e;
  }
  return f;
}

static inline void function_value(mutation *m, Td__AttrValue *v) {
  v->value_case = TD__ATTR_VALUE__VALUE_FUNC;
  v->func = any_function(m);
}

/* One of another kind, mostly. */
static inline Td__AttrValue *any_value(mutation *m) {
  Td__AttrValue *v = td_arena_alloc(&m->arena, sizeof *v);
  static const float floats[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e38f};
  td__attr_value__init(v);
  switch (any_of(m, 10)) {
  case 0: list_value(m, v); break;
  case 1: function_value(m, v); break;
  case 2:
    v->value_case = TD__ATTR_VALUE__VALUE_S;
    v->s.data = (uint8_t *)any_word(m);
    v->s.len = strlen((char *)v->s.data);
    break;
  case 3:
    v->value_case = TD__ATTR_VALUE__VALUE_F;
    v->f = ANY(m, floats);
    break;
  case 4:
    v->value_case = TD__ATTR_VALUE__VALUE_B;
    v->b = any_of(m, 2) == 0;
    break;
  case 5:
  case 6:
    v->value_case = TD__ATTR_VALUE__VALUE_TYPE;
    v->type = any_type(m);
    break;
  case 7:
    v->value_case = TD__ATTR_VALUE__VALUE_SHAPE;
    v->shape = any_shape(m);
    break;
  case 8:
    v->value_case = TD__ATTR_VALUE__VALUE_TENSOR;
    v->tensor = any_tensor(m);
    break;
  default:
    v->value_case = TD__ATTR_VALUE__VALUE_I;
    v->i = any_int(m);
  }
  return v;
}

/* The same kind, with another value. */
static inline void shake_value(mutation *m, Td__AttrValue *v) {
  switch (v->value_case) {
  case TD__ATTR_VALUE__VALUE_I: v->i = any_int(m); break;
  case TD__ATTR_VALUE__VALUE_TYPE: v->type = any_type(m); break;
  case TD__ATTR_VALUE__VALUE_B: v->b = !v->b; break;
  case TD__ATTR_VALUE__VALUE_SHAPE: v->shape = any_shape(m); break;
  case TD__ATTR_VALUE__VALUE_FUNC: function_value(m, v); break;
  case TD__ATTR_VALUE__VALUE_LIST: list_value(m, v); break;
  case TD__ATTR_VALUE__VALUE_TENSOR:
    if (any_of(m, 2))
      v->tensor->tensor_shape = any_shape(m);
    else if (any_of(m, 2))
      v->tensor->dtype = any_type(m);
    else
      v->tensor = any_tensor(m);
    break;
  case TD__ATTR_VALUE__VALUE_S:
    v->s.data = (uint8_t *)any_word(m);
    v->s.len = strlen((char *)v->s.data);
    break;
  default: break;
  }
}

/* ---- a list of nodes: of the graph, or of a function's body -------------- */

typedef struct nodes {
  size_t n;
  Td__NodeDef **at; /* room for a few more */
  bool body;        /* refs are "node:output:0" */
} nodes;

static inline Td__NodeDef *one_of(mutation *m, const nodes *all) {
  return all->at[any_of(m, all->n)];
}

static inline char *any_ref(mutation *m, const nodes *all) {
  static const int64_t ports[] = {0, 0, 0, 1, 1, 2, -1, INT32_MAX, 1LL << 40};
  char text[400];
  const char *name = any_of(m, 12) ? one_of(m, all)->name : any_word(m);
  if (any_of(m, 6) == 0)
    snprintf(text, sizeof text, "^%s", name);
  else if (all->body)
    snprintf(text, sizeof text, "%s:%s:%lld", name,
             any_of(m, 2) ? "output" : any_of(m, 2) ? "y" : "z",
             (long long)ANY(m, ports));
  else
    snprintf(text, sizeof text, "%s:%lld", name, (long long)ANY(m, ports));
  return text_of(m, text);
}

static inline void put_inputs(mutation *m, Td__NodeDef *n, size_t more) {
  char **in = td_arena_alloc(&m->arena, (n->n_input + more) * sizeof *in);
  if (n->n_input) memcpy(in, n->input, n->n_input * sizeof *in);
  n->input = in;
}

static inline void change_inputs(mutation *m, const nodes *all) {
  Td__NodeDef *n = one_of(m, all);
  size_t a = any_of(m, n->n_input), b = any_of(m, n->n_input);
  switch (any_of(m, 7)) {
  case 0: /* one more */
    put_inputs(m, n, 1);
    n->input[n->n_input++] = any_ref(m, all);
    break;
  case 1: /* one less */
    if (n->n_input) n->input[a] = n->input[--n->n_input];
    break;
  case 2: /* two swapped */
    if (n->n_input) {
      char *was = n->input[a];
      n->input[a] = n->input[b];
      n->input[b] = was;
    }
    break;
  case 3:
  case 4:
  case 5: { /* an input of another, best of the same op */
    const Td__NodeDef *other = one_of(m, all);
    for (int tries = 0; strcmp(other->op, n->op) != 0 && tries < 40; tries++)
      other = one_of(m, all);
    if (n->n_input && other->n_input)
      n->input[a] = other->input[any_of(m, other->n_input)];
    break;
  }
  default:
    if (n->n_input) n->input[a] = any_ref(m, all);
  }
}

static inline void put_attr(mutation *m, Td__NodeDef *n, const char *key,
                            Td__AttrValue *v) {
  Td__AttrEntry **all =
      td_arena_alloc(&m->arena, (n->n_attr + 1) * sizeof *all);
  Td__AttrEntry *e = td_arena_alloc(&m->arena, sizeof *e);
  size_t kept = 0;
  td__attr_entry__init(e);
  e->key = text_of(m, key);
  e->value = v;
  for (size_t i = 0; i < n->n_attr; i++)
    if (strcmp(n->attr[i]->key, key) != 0) all[kept++] = n->attr[i];
  all[kept++] = e;
  n->attr = all;
  n->n_attr = kept;
}

static inline void change_attr(mutation *m, const nodes *all) {
  static const char *const keys[] = {
      "T",          "N",     "index", "_edge",  "dtype", "parallel_iterations",
      "frame_name", "shape", "value", "_class", "f",     "is_constant",
      "_may_die",   "Tout",  "axis",  "num",    "seed",  "_colocate"};
  Td__NodeDef *n = one_of(m, all);
  for (int tries = 0; n->n_attr == 0 && tries < 8; tries++) n = one_of(m, all);
  size_t k = any_of(m, n->n_attr);
  switch (any_of(m, 8)) {
  case 0:
    if (n->n_attr) n->attr[k] = n->attr[--n->n_attr];
    break;
  case 1: put_attr(m, n, ANY(m, keys), any_value(m)); break;
  case 2:
    if (n->n_attr) n->attr[k]->value = any_value(m);
    break;
  case 3: { /* of another node, which has it still */
    const Td__NodeDef *other = one_of(m, all);
    if (!other->n_attr) break;
    const Td__AttrEntry *e = other->attr[any_of(m, other->n_attr)];
    put_attr(m, n, e->key, e->value);
    break;
  }
  default:
    if (n->n_attr) shake_value(m, n->attr[k]->value);
  }
}

static inline Td__NodeDef *copy_of(mutation *m, const Td__NodeDef *n) {
  Td__NodeDef *copy = td_arena_alloc(&m->arena, sizeof *copy);
  *copy = *n;
  put_inputs(m, copy, 0);
  return copy;
}

/* An end of a part, where none belongs, or one too many. */
static inline void add_end(mutation *m, nodes *all) {
  static const char *const ops[] = {"_Arg",  "_Retval",   "_Send",
                                    "_Recv", "_HostSend", "_HostRecv"};
  static const char *const words[] = {"tensor_name", "send_device",
                                      "recv_device"};
  Td__NodeDef *n = td_arena_alloc(&m->arena, sizeof *n);
  const char *op = ANY(m, ops);
  char name[40];
  td__node_def__init(n);
  snprintf(name, sizeof name, "end_%zu", all->n);
  n->name = text_of(m, name);
  n->op = text_of(m, op);
  Td__AttrValue *type = any_value(m), *number = any_value(m);
  type->value_case = TD__ATTR_VALUE__VALUE_TYPE;
  type->type = any_of(m, 3) ? 1 : any_type(m);
  number->value_case = TD__ATTR_VALUE__VALUE_I;
  number->i = any_of(m, 2) ? (int64_t)any_of(m, 4) : any_int(m);
  put_attr(m, n, strstr(op, "Recv") ? "tensor_type" : "T", type);
  put_attr(m, n, op[1] == 'A' || op[1] == 'R' ? "index" : "_edge", number);
  if (op[1] != 'A' && strcmp(op, "_Retval") != 0) {
    put_attr(m, n, "_edge", number);
    put_attr(m, n, "send_device_incarnation", number);
    for (size_t i = 0; i < TD_COUNT(words); i++) {
      Td__AttrValue *v = any_value(m);
      v->value_case = TD__ATTR_VALUE__VALUE_S;
      v->s.data = (uint8_t *)any_word(m);
      v->s.len = strlen((char *)v->s.data);
      put_attr(m, n, words[i], v);
    }
  }
  if (strcmp(op, "_Arg") != 0 && !strstr(op, "Recv")) {
    put_inputs(m, n, 1);
    n->input[n->n_input++] = any_ref(m, all);
  }
  all->at[all->n++] = n;
}

static inline void change_list(mutation *m, nodes *all) {
  size_t a = any_of(m, all->n), b = any_of(m, all->n);
  Td__NodeDef *n = all->at[a];
  char name[400];
  switch (any_of(m, 5)) {
  case 0:
    if (all->n > 1) all->at[a] = all->at[--all->n];
    break;
  case 1:
    snprintf(name, sizeof name, "%s_twin", n->name);
    all->at[all->n] = copy_of(m, n);
    if (any_of(m, 4)) all->at[all->n]->name = text_of(m, name);
    all->n++;
    break;
  case 2: add_end(m, all); break;
  default:
    all->at[a] = all->at[b];
    all->at[b] = n;
  }
}

static inline void change_node(mutation *m, const nodes *all) {
  static const char *const devices[] = {"/device:CPU:99", "/device:TEST:0",
                                        "/device:CPU:1",  "junk",
                                        "",               "/job:x/device:CPU:0"};
  static const char *const flow[] = {
      "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Identity",
      "NoOp", "ControlTrigger", "StackPopV2", "TensorArrayReadV3"};
  Td__NodeDef *n = one_of(m, all);
  switch (any_of(m, 4)) {
  case 0:
    n->op = text_of(m, td_op_at((int)any_of(m, (size_t)td_op_count()))->type);
    break;
  case 1: n->op = any_of(m, 8) ? text_of(m, ANY(m, flow)) : any_word(m); break;
  case 2: n->name = any_of(m, 2) ? any_word(m) : one_of(m, all)->name; break;
  default: n->device = text_of(m, ANY(m, devices));
  }
}

static inline void change_nodes(mutation *m, nodes *all) {
  if (all->n == 0) return;
  size_t kind = any_of(m, 10);
  if (kind < 4)
    change_inputs(m, all);
  else if (kind < 8)
    change_attr(m, all);
  else if (kind < 9)
    change_list(m, all);
  else
    change_node(m, all);
}

/* ---- the whole ----------------------------------------------------------- */

enum { MOST_CHANGES = 5 };

static inline nodes with_room(mutation *m, size_t n, Td__NodeDef **at) {
  nodes all = {.n = n};
  all.at = td_arena_alloc(&m->arena, (n + MOST_CHANGES) * sizeof *all.at);
  if (n) memcpy(all.at, at, n * sizeof *all.at);
  return all;
}

static inline void change_signature(mutation *m, Td__FunctionDef *f) {
  Td__OpDef *sig = f->signature;
  Td__OpDef__ArgDef *a = NULL;
  if (!sig) return;
  if (any_of(m, 2) && sig->n_input_arg)
    a = sig->input_arg[any_of(m, sig->n_input_arg)];
  else if (sig->n_output_arg)
    a = sig->output_arg[any_of(m, sig->n_output_arg)];
  switch (any_of(m, 5)) {
  case 0:
    if (a) a->type = any_type(m);
    break;
  case 1:
    if (a) a->name = any_word(m);
    break;
  case 2:
    if (sig->n_input_arg) sig->n_input_arg--;
    break;
  case 3:
    if (f->n_ret) f->ret[any_of(m, f->n_ret)]->value = any_word(m);
    break;
  default: sig->name = any_of(m, 2) ? text_of(m, "f0") : any_word(m);
  }
}

static inline void change_function(mutation *m) {
  Td__FunctionDefLibrary *lib = m->def->library;
  Td__FunctionDef *f = NULL;
  if (!lib || !lib->n_function) return;
  ProtobufCBinaryData *b = &lib->function[any_of(m, lib->n_function)];
  td_status *s = td_graphdef_unpack(&td__function_def__descriptor, &m->arena,
                                    b->data, b->len, &f);
  char *bytes = NULL;
  size_t len = 0;
  if (td_ok(s)) {
    nodes all = with_room(m, f->n_node_def, f->node_def);
    all.body = true;
    if (any_of(m, 4))
      change_nodes(m, &all);
    else
      change_signature(m, f);
    f->n_node_def = all.n;
    f->node_def = all.at;
    s = td_graphdef_pack(&f->base, &bytes, &len);
  }
  if (td_ok(s)) {
    b->data = td_arena_alloc(&m->arena, len + 1);
    memcpy(b->data, bytes, len);
    b->len = len;
  }
  td_free(bytes);
  td_status_release(s);
}

/* A function twice, one that is gone, a gradient for one. */
static inline void change_library(mutation *m) {
  Td__FunctionDefLibrary *lib = m->def->library;
  if (!lib || !lib->n_function) return;
  size_t at = any_of(m, lib->n_function), n = lib->n_function;
  ProtobufCBinaryData *f = td_arena_alloc(&m->arena, (n + 1) * sizeof *f);
  Td__GradientDef **g =
      td_arena_alloc(&m->arena, (lib->n_gradient + 1) * sizeof *g);
  Td__GradientDef *one = td_arena_alloc(&m->arena, sizeof *one);
  switch (any_of(m, 3)) {
  case 0:
    memcpy(f, lib->function, n * sizeof *f);
    f[n] = f[at];
    lib->function = f;
    lib->n_function++;
    break;
  case 1: lib->function[at] = lib->function[--lib->n_function]; break;
  default:
    td__gradient_def__init(one);
    one->function_name = any_word(m);
    one->gradient_func = any_word(m);
    if (lib->n_gradient)
      memcpy(g, lib->gradient, lib->n_gradient * sizeof *g);
    g[lib->n_gradient++] = one;
    lib->gradient = g;
  }
}

static inline void change_versions(mutation *m) {
  static const int32_t versions[] = {0, 5, 11, 20, 21, 22, 134, 135, 2000};
  Td__VersionDef *v = td_arena_alloc(&m->arena, sizeof *v);
  td__version_def__init(v);
  v->producer = ANY(m, versions);
  m->def->versions = any_of(m, 3) ? v : NULL;
}

/* Some changes, drawn from `seed`. Caller owns *out. False: what was made is
 * too large to be written. */
static inline bool mutate(const char *bytes, size_t len, uint64_t seed,
                          char **out, size_t *out_len) {
  mutation m = {.seed = seed};
  td_arena_init(&m.arena);
  OK(td_graphdef_unpack(&td__graph_def__descriptor, &m.arena, bytes, len,
                        &m.def));
  nodes all = with_room(&m, m.def->n_node, m.def->node);
  int changes = any_of(&m, 3) ? 1 : 1 + (int)any_of(&m, MOST_CHANGES);
  for (int i = 0; i < changes; i++) {
    size_t kind = any_of(&m, 60);
    if (kind < 5)
      change_function(&m);
    else if (kind == 5)
      change_library(&m);
    else if (kind == 6)
      change_versions(&m);
    else
      change_nodes(&m, &all);
  }
  m.def->n_node = all.n;
  m.def->node = all.at;
  td_status *s = td_graphdef_pack(&m.def->base, out, out_len);
  bool made = td_ok(s);
  td_status_release(s);
  td_arena_deinit(&m.arena);
  return made;
}

#endif
