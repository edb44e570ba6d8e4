/* op_sig.c - reads signatures.
 *
 * One pass from left to right. Arguments name attributes that are only read
 * later, so an argument first keeps the words of its type and is resolved at
 * the end. The cursor stops at the first mistake: after it every function
 * returns at once, so that the grammar below reads as grammar.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/op_sig.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/vec.h"

typedef struct word {
  const char *at;
  size_t len;
} word;

/* An argument before its type is resolved. */
typedef struct loose_arg {
  word type, number; /* number.len 0: a single tensor */
} loose_arg;

typedef struct cursor {
  td_arena *arena;
  const td_op_def *def;
  const char *at; /* the next byte */
  td_op *op;
  loose_arg *loose; /* inputs, then outputs */
  int room;         /* arguments and attributes there can be at most */
  td_status *status;
} cursor;

/* ---- words --------------------------------------------------------------- */

static void fail(cursor *c, const char *expected, word given) {
  if (c->status) return;
  c->status = td_error(
      TD_INVALID_ARGUMENT,
      "signature of %s: expected %s at column %d, not \"%.*s\" in \"%s\"",
      c->def->type, expected, (int)(given.at - c->def->sig) + 1,
      (int)(given.len < 24 ? given.len : 24), given.at, c->def->sig);
}

static void fail_here(cursor *c, const char *expected) {
  fail(c, expected, (word){c->at, strlen(c->at)});
}

static void oom(cursor *c) {
  if (!c->status) c->status = td_oom();
}

static void skip_space(cursor *c) {
  while (*c->at == ' ' || *c->at == '\n' || *c->at == '\t') c->at++;
}

/* Takes `text` when it comes next. */
static bool take(cursor *c, const char *text) {
  if (c->status) return false;
  skip_space(c);
  size_t len = strlen(text);
  if (strncmp(c->at, text, len) != 0) return false;
  c->at += len;
  return true;
}

static void need(cursor *c, const char *text, const char *expected) {
  if (!take(c, text)) fail_here(c, expected);
}

static bool is_word(char ch) {
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
         (ch >= '0' && ch <= '9') || ch == '_';
}

static word take_word(cursor *c, const char *expected) {
  skip_space(c);
  word w = {c->at, 0};
  while (is_word(w.at[w.len])) w.len++;
  if (w.len == 0) fail_here(c, expected);
  c->at += w.len;
  return w;
}

static bool word_is(word w, const char *text) {
  return strlen(text) == w.len && memcmp(w.at, text, w.len) == 0;
}

static const char *keep(cursor *c, word w) {
  const char *s = td_arena_strn(c->arena, w.at, w.len);
  if (!s) oom(c);
  return s ? s : "";
}

static int64_t take_int(cursor *c) {
  skip_space(c);
  char *end;
  int64_t sign = *c->at == '-' ? -1 : 1, v = 0;
  const char *p = c->at + (sign < 0);
  for (end = (char *)p; *end >= '0' && *end <= '9'; end++)
    if (__builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, sign * (*end - '0'), &v)) {
      fail_here(c, "a 64-bit integer");
      return 0;
    }
  if (end == p) fail_here(c, "an integer");
  c->at = end;
  return v;
}

/* In the C locale, whatever the program has set. */
static float take_float(cursor *c) {
  skip_space(c);
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) {
    oom(c);
    return 0;
  }
  char *end;
  float v = strtof_l(c->at, &end, plain);
  freelocale(plain);
  if (end == c->at) fail_here(c, "a number");
  c->at = end;
  return v;
}

/* "text" with \" \\ \n \t inside. */
static td_bytes take_string(cursor *c) {
  need(c, "\"", "a string in quotes");
  char *text = c->status ? NULL : td_arena_alloc(c->arena, strlen(c->at) + 1);
  size_t len = 0;
  if (!text) {
    oom(c);
    return (td_bytes){"", 0};
  }
  for (; *c->at && *c->at != '"'; c->at++) {
    char ch = *c->at;
    if (ch == '\\' && c->at[1]) {
      ch = *++c->at;
      if (ch == 'n') ch = '\n';
      if (ch == 't') ch = '\t';
    }
    text[len++] = ch;
  }
  need(c, "\"", "the end of the string");
  return (td_bytes){text, len};
}

static td_dtype take_dtype(cursor *c) {
  word w = take_word(c, "a dtype");
  if (c->status) return TD_INVALID;
  td_dtype t = td_dtype_parse(w.at, w.len);
  if (t == TD_INVALID) fail(c, "a dtype", w);
  return t;
}

/* {2, -1} or ? */
static td_shape take_shape(cursor *c) {
  if (take(c, "?")) return td_shape_unknown();
  int64_t dim[TD_MAX_RANK];
  int rank = 0;
  need(c, "{", "a shape: {2, -1} or ?");
  while (!c->status && !take(c, "}")) {
    if (rank) need(c, ",", "\",\" or \"}\"");
    int64_t d = take_int(c);
    if (rank == TD_MAX_RANK || d < -1) fail_here(c, "at most 16 sizes >= -1");
    _Static_assert(TD_MAX_RANK == 16, "the message above");
    if (!c->status) dim[rank++] = d;
  }
  return c->status ? td_shape_scalar() : td_shape_of(rank, dim);
}

/* ---- attributes ---------------------------------------------------------- */

/* {float, double} or {"SAME", "VALID"} */
static void take_set(cursor *c, td_attr_def *a) {
  skip_space(c);
  if (*c->at != '"') {
    a->kind = TD_ATTR_TYPE;
    do a->types |= 1u << take_dtype(c);
    while (take(c, ","));
    need(c, "}", "\",\" or \"}\"");
    return;
  }
  a->kind = TD_ATTR_STRING;
  size_t bound = 2, n = 0;
  for (const char *p = c->at; *p && *p != '}'; p++) bound += *p == ',';
  a->strings = td_arena_alloc(c->arena, bound * sizeof(char *));
  if (!a->strings) oom(c);
  do {
    td_bytes s = take_string(c);
    if (c->status) return;
    if (n + 1 >= bound)
      fail_here(c, "strings without \"}\"");
    else
      a->strings[n++] = s.at;
  } while (take(c, ","));
  need(c, "}", "\",\" or \"}\"");
}

static void take_kind(cursor *c, td_attr_def *a) {
  static const td_attr_kind kinds[] = {
      TD_ATTR_INT,  TD_ATTR_FLOAT, TD_ATTR_BOOL,   TD_ATTR_STRING,
      TD_ATTR_TYPE, TD_ATTR_SHAPE, TD_ATTR_TENSOR, TD_ATTR_FUNC};
  if (take(c, "{")) {
    take_set(c, a);
    return;
  }
  word w = take_word(c, "a kind of attribute");
  if (c->status) return;
  if (word_is(w, "list") && !a->is_list) {
    a->is_list = true;
    need(c, "(", "\"(\" after list");
    take_kind(c, a);
    need(c, ")", "\")\" after list(");
    return;
  }
  for (size_t i = 0; i < TD_COUNT(kinds); i++)
    if (word_is(w, td_attr_kind_name(kinds[i], false))) a->kind = kinds[i];
  if (a->kind == TD_ATTR_NONE)
    fail(c, "int, float, bool, string, type, shape, tensor, func, list(...)",
         w);
}

/* A vector: uint8{255, 0}. */
static void take_tensor(cursor *c, td_attr *v) {
  td_dtype dtype = take_dtype(c);
  TD_VEC(double) numbers = {0};
  need(c, "{", "\"{\" after the tensor's dtype");
  while (!c->status && !take(c, "}")) {
    if (numbers.len) need(c, ",", "\",\" or \"}\"");
    float f = take_float(c);
    if (!td_vec_push(&numbers, (double)f)) oom(c);
  }
  if (!c->status && (!td_dtype_is_plain(dtype) || td_dtype_is_complex(dtype)))
    fail_here(c, "a tensor of a real dtype");
  td_shape shape = td_shape_vector((int64_t)numbers.len);
  td_tensor *t = td_arena_alloc(c->arena, sizeof *t);
  if (!t) oom(c);
  if (!c->status) c->status = td_tensor_new(NULL, dtype, &shape, t);
  if (!c->status) {
    for (size_t i = 0; i < numbers.len; i++)
      td_tensor_set_f(t, (int64_t)i, numbers.at[i]);
    v->tensor = t;
  }
  td_vec_free(&numbers);
}

static void take_single(cursor *c, const td_attr_def *a, td_attr *v) {
  *v = (td_attr){.kind = a->kind};
  switch (a->kind) {
  case TD_ATTR_INT:
    v->i = take_int(c);
    break;
  case TD_ATTR_FLOAT:
    v->f = take_float(c);
    break;
  case TD_ATTR_BOOL:
    v->b = take(c, "true");
    if (!v->b) need(c, "false", "true or false");
    break;
  case TD_ATTR_STRING:
    v->s = take_string(c);
    break;
  case TD_ATTR_TYPE:
    v->type = take_dtype(c);
    break;
  case TD_ATTR_SHAPE: {
    td_shape *shape = td_arena_alloc(c->arena, sizeof *shape);
    if (!shape) {
      oom(c);
      return;
    }
    *shape = take_shape(c);
    v->shape = shape;
    break;
  }
  case TD_ATTR_TENSOR:
    take_tensor(c, v);
    break;
  default:
    fail_here(c, "no default for this kind");
    break;
  }
}

/* {1, 1, 1, 1}; elements are laid out by copying them as they come. */
static void take_list(cursor *c, const td_attr_def *a, td_attr *list) {
  static const size_t sizes[] = {[TD_ATTR_INT] = sizeof(int64_t),
                                 [TD_ATTR_FLOAT] = sizeof(float),
                                 [TD_ATTR_BOOL] = sizeof(bool),
                                 [TD_ATTR_STRING] = sizeof(td_bytes),
                                 [TD_ATTR_TYPE] = sizeof(td_dtype),
                                 [TD_ATTR_SHAPE] = sizeof(td_shape),
                                 [TD_ATTR_TENSOR] = 0,
                                 [TD_ATTR_FUNC] = 0};
  size_t size = sizes[a->kind], bound = 1;
  *list = (td_attr){.kind = a->kind, .is_list = true};
  for (const char *p = c->at; *p && *p != ';'; p++) bound += *p == ',';
  char *out = td_arena_alloc(c->arena, bound * sizeof(td_shape));
  if (!out) oom(c);
  need(c, "{", "a list in braces");
  while (!c->status && !take(c, "}")) {
    td_attr v = {0};
    if (list->len) need(c, ",", "\",\" or \"}\"");
    if (size == 0 || (size_t)list->len == bound) fail_here(c, "an empty list");
    if (c->status) return;
    take_single(c, a, &v);
    if (c->status) return;
    const void *from = a->kind == TD_ATTR_SHAPE ? (const void *)v.shape : &v.i;
    memcpy(out + size * (size_t)list->len++, from, size);
  }
  list->is = (const int64_t *)(void *)out;
}

static void check_default(cursor *c, const td_attr_def *a) {
  const td_attr *v = &a->value;
  bool good = true;
  if (a->has_minimum && !a->is_list) good = v->i >= a->minimum;
  if (a->types && !a->is_list) good = good && (a->types >> v->type & 1);
  if (a->strings && !a->is_list) {
    const char **s = a->strings;
    while (*s && strcmp(*s, v->s.at) != 0) s++;
    good = good && *s;
  }
  if (!good) fail_here(c, "a default that is itself allowed before this");
}

static int find_attr(const td_op *op, word w) {
  for (int i = 0; i < op->n_attr; i++)
    if (word_is(w, op->attr[i].name)) return i;
  return -1;
}

static void take_attr(cursor *c) {
  td_op *op = c->op;
  word name = take_word(c, "an attribute's name");
  if (c->status) return;
  if (op->n_attr == TD_OP_MAX_ATTRS || op->n_attr == c->room) {
    fail(c, "fewer attributes", name);
    return;
  }
  td_attr_def *a = &op->attr[op->n_attr];
  a->name = keep(c, name);
  if (c->status) return;
  if (find_attr(op, name) >= 0) fail(c, "an attribute only once", name);
  op->n_attr++;
  need(c, ":", "\":\" after the attribute's name");
  take_kind(c, a);
  if (take(c, ">=")) {
    if (a->kind != TD_ATTR_INT && !a->is_list)
      fail_here(c, "no minimum: only an int and a list's length have one");
    a->has_minimum = true;
    a->minimum = take_int(c);
  }
  if (!take(c, "=")) return;
  if (a->is_list)
    take_list(c, a, &a->value);
  else
    take_single(c, a, &a->value);
  a->has_default = !c->status;
  if (a->has_default) check_default(c, a);
}

/* ---- arguments ----------------------------------------------------------- */

/* Arguments up to a word that cannot begin one; returns how many. */
static int take_args(cursor *c, td_arg *args, loose_arg *loose) {
  int n = 0;
  skip_space(c);
  if (!is_word(*c->at)) return 0;
  do {
    word name = take_word(c, "an argument's name");
    need(c, ":", "\":\" after the argument's name");
    word type = take_word(c, "the argument's type"), number = {0};
    if (take(c, "*")) {
      number = type;
      type = take_word(c, "a type after \"*\"");
    }
    if (c->status) return n;
    args[n].name = keep(c, name);
    for (int i = 0; i < n; i++)
      if (strcmp(args[i].name, args[n].name) == 0)
        fail(c, "an argument only once", name);
    loose[n++] = (loose_arg){type, number};
  } while (take(c, ","));
  return n;
}

static void resolve(cursor *c, td_arg *arg, const loose_arg *loose) {
  td_op *op = c->op;
  arg->number_attr = -1;
  arg->type_attr = find_attr(op, loose->type);
  if (arg->type_attr >= 0) {
    const td_attr_def *a = &op->attr[arg->type_attr];
    arg->type_list = a->is_list;
    if (a->kind != TD_ATTR_TYPE) fail(c, "a type attribute", loose->type);
  } else {
    arg->type = td_dtype_parse(loose->type.at, loose->type.len);
    if (arg->type == TD_INVALID)
      fail(c, "a dtype or a type attribute", loose->type);
    /* Objects and text are the host's, wherever the op runs. */
    arg->host = !td_dtype_is_plain(arg->type);
  }
  if (loose->number.len == 0) return;
  arg->number_attr = find_attr(op, loose->number);
  if (arg->number_attr < 0 || op->attr[arg->number_attr].is_list ||
      op->attr[arg->number_attr].kind != TD_ATTR_INT || arg->type_list)
    fail(c, "an int attribute before \"*\"", loose->number);
}

static void resolve_all(cursor *c) {
  td_op *op = c->op;
  for (int i = 0; i < op->n_in && !c->status; i++) {
    resolve(c, &op->in[i], &c->loose[i]);
    if (c->status) return;
    if (op->in[i].type_attr >= 0) op->attr[op->in[i].type_attr].deduced = true;
    if (op->in[i].number_attr >= 0)
      op->attr[op->in[i].number_attr].deduced = true;
  }
  for (int i = 0; i < op->n_out && !c->status; i++)
    resolve(c, &op->out[i], &c->loose[op->n_in + i]);
}

/* "shape, perm" or "*". */
static void mark_host(cursor *c) {
  td_op *op = c->op;
  const char *p = c->def->host;
  while (p && *p && !c->status) {
    size_t len = strcspn(p, " ,");
    word w = {p, len};
    bool all = word_is(w, "*"), found = all;
    for (int i = 0; i < op->n_in + op->n_out; i++) {
      td_arg *arg = i < op->n_in ? &op->in[i] : &op->out[i - op->n_in];
      if (!all && !word_is(w, arg->name)) continue;
      arg->host = found = true;
    }
    if (!found)
      c->status = td_error(TD_INVALID_ARGUMENT,
                           "host operands of %s: no argument \"%.*s\"",
                           c->def->type, (int)len, p);
    p += len;
    p += strspn(p, " ,");
  }
}

/* ---- the Lua name -------------------------------------------------------- */

int td_op_version(const char *type, size_t *len) {
  size_t n = strlen(type), end = n;
  while (n > 0 && type[n - 1] >= '0' && type[n - 1] <= '9') n--;
  bool is = n > 1 && n < end && end - n < 4 && type[n - 1] == 'V';
  *len = is ? n - 1 : end;
  return is ? atoi(type + n) : 0;
}

static bool is_upper(char ch) {
  return ch >= 'A' && ch <= 'Z';
}
static bool is_lower(char ch) {
  return ch >= 'a' && ch <= 'z';
}

/* AddN -> add_n, Conv2DBackpropInput -> conv2d_backprop_input, LRN -> lrn: a
 * capital opens a word after a small letter or before one. */
static const char *snake_case(cursor *c, const char *type) {
  size_t len, n = 0;
  td_op_version(type, &len);
  char *out = td_arena_alloc(c->arena, 2 * len + 1);
  if (!out) {
    oom(c);
    return "";
  }
  for (size_t i = 0; i < len; i++) {
    char ch = type[i];
    bool opens =
        i > 0 && is_upper(ch) &&
        (is_lower(type[i - 1]) || (i + 1 < len && is_lower(type[i + 1])));
    if (opens) out[n++] = '_';
    out[n++] = is_upper(ch) ? (char)(ch - 'A' + 'a') : ch;
  }
  return out;
}

/* ---- a row --------------------------------------------------------------- */

static void check_row(cursor *c) {
  const td_op_def *def = c->def;
  const char *t = def->type;
  bool good = is_upper(t[0]) || (t[0] == '_' && is_upper(t[1]));
  for (const char *p = t; *p; p++) good = good && is_word(*p);
  if (!good)
    c->status = td_error(TD_INVALID_ARGUMENT,
                         "op type \"%s\" must be letters and digits, a capital"
                         " first",
                         t);
  else if (!def->sig || !def->shape)
    c->status = td_error(TD_INVALID_ARGUMENT, "op %s has no %s", t,
                         def->sig ? "shape function" : "signature");
}

static void take_signature(cursor *c) {
  td_op *op = c->op;
  op->n_in = take_args(c, op->in, c->loose);
  need(c, "->", "\"->\" after the inputs");
  op->n_out = take_args(c, op->out, c->loose + op->n_in);
  while (take(c, ";")) take_attr(c);
  skip_space(c);
  if (*c->at) fail_here(c, "\";\" or the end");
}

td_status *td_op_parse(td_arena *arena, const td_op_def *def, td_op *op) {
  cursor c = {.arena = arena, .def = def, .at = def->sig, .op = op};
  *op = (td_op){.def = def,
                .type = def->type,
                .kind = def->kind,
                .flags = def->flags,
                .lua = ""};
  check_row(&c);
  if (c.status) return c.status;
  for (const char *p = def->sig; *p; p++) c.room += *p == ':';
  size_t n = (size_t)c.room + 1;
  op->in = td_arena_alloc(arena, n * sizeof *op->in);
  op->out = td_arena_alloc(arena, n * sizeof *op->out);
  op->attr = td_arena_alloc(arena, n * sizeof *op->attr);
  c.loose = td_arena_alloc(arena, 2 * n * sizeof *c.loose);
  if (!op->in || !op->out || !op->attr || !c.loose) return td_oom();
  take_signature(&c);
  if (!c.status) resolve_all(&c);
  if (!c.status) mark_host(&c);
  if (!c.status && def->lua)
    op->lua = def->lua;
  else if (!c.status && def->type[0] != '_')
    op->lua = snake_case(&c, op->type);
  if (c.status) td_op_unparse(op);
  return c.status;
}

void td_op_unparse(td_op *op) {
  for (int i = 0; i < op->n_attr; i++) td_attr_drop(&op->attr[i].value);
  op->n_attr = 0;
}
