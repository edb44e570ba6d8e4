/* attr.c - values of attributes: made, copied, compared, printed.
 *
 * A td_attr is plain data with pointers into its holder's memory, so that a
 * call can be described on the stack and copied once, into the graph's arena.
 * Only tensors are counted; td_attr_drop lets go of them. Functions nest:
 * a copy refuses more than MAX_DEPTH levels, and everything else walks copies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/attr.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/map.h"

enum { MAX_DEPTH = 32, HASHED_BYTES = 4096, PRINTED = 8 };

/* ---- made ---------------------------------------------------------------- */

td_attr td_attr_int(int64_t v) {
  return (td_attr){.kind = TD_ATTR_INT, .i = v};
}
td_attr td_attr_float(float v) {
  return (td_attr){.kind = TD_ATTR_FLOAT, .f = v};
}
td_attr td_attr_bool(bool v) {
  return (td_attr){.kind = TD_ATTR_BOOL, .b = v};
}
td_attr td_attr_type(td_dtype v) {
  return (td_attr){.kind = TD_ATTR_TYPE, .type = v};
}
td_attr td_attr_string(const char *s) {
  return td_attr_bytes(s, strlen(s));
}
td_attr td_attr_bytes(const char *s, size_t len) {
  return (td_attr){.kind = TD_ATTR_STRING, .s = {s, len}};
}
td_attr td_attr_shape(const td_shape *s) {
  return (td_attr){.kind = TD_ATTR_SHAPE, .shape = s};
}
td_attr td_attr_tensor(const td_tensor *t) {
  return (td_attr){.kind = TD_ATTR_TENSOR, .tensor = t};
}

static td_attr list(td_attr_kind kind, int n) {
  return (td_attr){.kind = kind, .is_list = true, .len = n};
}
td_attr td_attr_ints(const int64_t *v, int n) {
  td_attr a = list(TD_ATTR_INT, n);
  a.is = v;
  return a;
}
td_attr td_attr_types(const td_dtype *v, int n) {
  td_attr a = list(TD_ATTR_TYPE, n);
  a.types = v;
  return a;
}
td_attr td_attr_strings(const td_bytes *v, int n) {
  td_attr a = list(TD_ATTR_STRING, n);
  a.ss = v;
  return a;
}

static const char *const kind_names[] = {
    [TD_ATTR_NONE] = "none",     [TD_ATTR_INT] = "int",
    [TD_ATTR_FLOAT] = "float",   [TD_ATTR_BOOL] = "bool",
    [TD_ATTR_STRING] = "string", [TD_ATTR_TYPE] = "type",
    [TD_ATTR_SHAPE] = "shape",   [TD_ATTR_TENSOR] = "tensor",
    [TD_ATTR_FUNC] = "func",     [TD_ATTR_PLACEHOLDER] = "placeholder",
};
static const char *const list_names[] = {
    [TD_ATTR_NONE] = "list",           [TD_ATTR_INT] = "list(int)",
    [TD_ATTR_FLOAT] = "list(float)",   [TD_ATTR_BOOL] = "list(bool)",
    [TD_ATTR_STRING] = "list(string)", [TD_ATTR_TYPE] = "list(type)",
    [TD_ATTR_SHAPE] = "list(shape)",   [TD_ATTR_TENSOR] = "list(tensor)",
    [TD_ATTR_FUNC] = "list(func)",     [TD_ATTR_PLACEHOLDER] = "list",
};

const char *td_attr_kind_name(td_attr_kind kind, bool is_list) {
  if ((size_t)kind >= TD_COUNT(kind_names)) return "none";
  return is_list ? list_names[kind] : kind_names[kind];
}

/* ---- read ---------------------------------------------------------------- */

static bool is_single(const td_attr *a, td_attr_kind kind) {
  return a && a->kind == kind && !a->is_list;
}

int64_t td_attr_as_int(const td_attr *a) {
  return is_single(a, TD_ATTR_INT) ? a->i : 0;
}
bool td_attr_as_bool(const td_attr *a) {
  return is_single(a, TD_ATTR_BOOL) && a->b;
}
float td_attr_as_float(const td_attr *a) {
  return is_single(a, TD_ATTR_FLOAT) ? a->f : 0;
}
const char *td_attr_as_string(const td_attr *a) {
  return is_single(a, TD_ATTR_STRING) ? a->s.at : "";
}
td_dtype td_attr_as_type(const td_attr *a) {
  return is_single(a, TD_ATTR_TYPE) ? a->type : TD_INVALID;
}
const td_shape *td_attr_as_shape(const td_attr *a) {
  return is_single(a, TD_ATTR_SHAPE) ? a->shape : NULL;
}

/* ---- elements ------------------------------------------------------------
 *
 * Every kind is read as a list: a single value is a list of one. */

static int count_of(const td_attr *a) {
  return a->kind == TD_ATTR_NONE ? 0 : a->is_list ? a->len : 1;
}
static const int64_t *ints_of(const td_attr *a) {
  return a->is_list ? a->is : &a->i;
}
static const float *floats_of(const td_attr *a) {
  return a->is_list ? a->fs : &a->f;
}
static const bool *bools_of(const td_attr *a) {
  return a->is_list ? a->bs : &a->b;
}
static const td_bytes *strings_of(const td_attr *a) {
  return a->is_list ? a->ss : &a->s;
}
static const td_dtype *types_of(const td_attr *a) {
  return a->is_list ? a->types : &a->type;
}
static const td_shape *shapes_of(const td_attr *a) {
  return a->is_list ? a->shapes : a->shape;
}
static const td_tensor *tensors_of(const td_attr *a) {
  return a->is_list ? a->tensors : a->tensor;
}
static const td_func_attr *funcs_of(const td_attr *a) {
  return a->is_list ? a->funcs : a->func;
}

/* ---- copied -------------------------------------------------------------- */

static td_status *copy_attr(td_arena *arena, const td_attr *from, td_attr *to,
                            int depth);

static size_t element_size(td_attr_kind kind) {
  switch (kind) {
  case TD_ATTR_INT:
    return sizeof(int64_t);
  case TD_ATTR_FLOAT:
    return sizeof(float);
  case TD_ATTR_BOOL:
    return sizeof(bool);
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    return sizeof(td_bytes);
  case TD_ATTR_TYPE:
    return sizeof(td_dtype);
  case TD_ATTR_SHAPE:
    return sizeof(td_shape);
  case TD_ATTR_TENSOR:
    return sizeof(td_tensor);
  case TD_ATTR_FUNC:
    return sizeof(td_func_attr);
  case TD_ATTR_NONE:
    break;
  }
  return 0;
}

static bool copy_bytes(td_arena *arena, td_bytes from, td_bytes *to) {
  *to = (td_bytes){td_arena_strn(arena, from.at, from.len), from.len};
  return to->at != NULL;
}

/* What was copied so far is whole, so that td_attr_drop can end it. */
static td_status *copy_func(td_arena *arena, const td_func_attr *from,
                            td_func_attr *to, int depth) {
  size_t n = from->n_attrs > 0 ? (size_t)from->n_attrs : 0;
  if (depth >= MAX_DEPTH)
    return td_error(TD_INVALID_ARGUMENT,
                    "functions nest deeper than %d levels at \"%s\"", MAX_DEPTH,
                    from->name);
  to->name = td_arena_str(arena, from->name);
  to->attr_names = td_arena_alloc(arena, n * sizeof(char *));
  to->attrs = td_arena_alloc(arena, n * sizeof(td_attr));
  if (!to->name || !to->attr_names || !to->attrs) return td_oom();
  for (; to->n_attrs < (int)n; to->n_attrs++) {
    int i = to->n_attrs;
    to->attr_names[i] = td_arena_str(arena, from->attr_names[i]);
    if (!to->attr_names[i]) return td_oom();
    TD_TRY(copy_attr(arena, &from->attrs[i], &to->attrs[i], depth + 1));
  }
  return NULL;
}

/* Elements one by one into `to`, cleared memory; *done counts whole ones. */
static td_status *copy_elements(td_arena *arena, const td_attr *from, void *out,
                                int *done, int depth) {
  for (int i = 0; i < count_of(from); i++) {
    if (from->kind == TD_ATTR_TENSOR)
      td_tensor_retain(&tensors_of(from)[i], &((td_tensor *)out)[i]);
    *done = i + 1;
    if (from->kind == TD_ATTR_FUNC)
      TD_TRY(copy_func(arena, &funcs_of(from)[i], &((td_func_attr *)out)[i],
                       depth));
    if ((from->kind == TD_ATTR_STRING || from->kind == TD_ATTR_PLACEHOLDER) &&
        !copy_bytes(arena, strings_of(from)[i], &((td_bytes *)out)[i]))
      return td_oom();
  }
  return NULL;
}

static td_status *copy_list(td_arena *arena, const td_attr *from, td_attr *to,
                            int depth) {
  size_t bytes = 0;
  if (from->len < 0 ||
      !td_mul((size_t)from->len, element_size(from->kind), &bytes))
    return td_error(TD_INVALID_ARGUMENT, "a list of %d elements", from->len);
  void *out = td_arena_alloc(arena, bytes);
  if (!out) return td_oom();
  to->is = out; /* every list pointer is the same member of the union */
  switch (from->kind) {
  case TD_ATTR_TENSOR:
  case TD_ATTR_FUNC:
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    return copy_elements(arena, from, out, &to->len, depth);
  default:
    if (bytes) memcpy(out, from->is, bytes);
    to->len = from->len;
    return NULL;
  }
}

static td_status *copy_single(td_arena *arena, const td_attr *from, td_attr *to,
                              int depth) {
  switch (from->kind) {
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    return copy_bytes(arena, from->s, &to->s) ? NULL : td_oom();
  case TD_ATTR_SHAPE: {
    td_shape *shape = td_arena_alloc(arena, sizeof *shape);
    if (!shape) return td_oom();
    *shape = *from->shape;
    to->shape = shape;
    return NULL;
  }
  case TD_ATTR_TENSOR: {
    td_tensor *tensor = td_arena_alloc(arena, sizeof *tensor);
    if (!tensor) return td_oom();
    td_tensor_retain(from->tensor, tensor);
    to->tensor = tensor;
    return NULL;
  }
  case TD_ATTR_FUNC: {
    td_func_attr *func = td_arena_alloc(arena, sizeof *func);
    if (!func) return td_oom();
    to->func = func;
    return copy_func(arena, from->func, func, depth);
  }
  default:
    *to = *from;
    return NULL;
  }
}

static td_status *copy_attr(td_arena *arena, const td_attr *from, td_attr *to,
                            int depth) {
  td_attr copy = {.kind = from->kind, .is_list = from->is_list};
  td_status *s = from->is_list ? copy_list(arena, from, &copy, depth)
                               : copy_single(arena, from, &copy, depth);
  if (!td_ok(s)) {
    td_attr_drop(&copy);
    copy = (td_attr){0};
  }
  *to = copy;
  return s;
}

td_status *td_attr_copy(td_arena *arena, const td_attr *from, td_attr *to) {
  return copy_attr(arena, from, to, 0);
}

void td_attr_drop(td_attr *a) {
  if (a->kind == TD_ATTR_TENSOR) {
    td_tensor *t = (td_tensor *)tensors_of(a);
    for (int i = 0; t && i < count_of(a); i++) td_tensor_release(&t[i]);
  } else if (a->kind == TD_ATTR_FUNC) {
    const td_func_attr *f = funcs_of(a);
    for (int i = 0; f && i < count_of(a); i++)
      for (int k = 0; k < f[i].n_attrs; k++) td_attr_drop(&f[i].attrs[k]);
  }
}

/* ---- compared ------------------------------------------------------------ */

static bool same_bytes(td_bytes a, td_bytes b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static bool same_func(const td_func_attr *a, const td_func_attr *b) {
  if (strcmp(a->name, b->name) != 0 || a->n_attrs != b->n_attrs) return false;
  for (int i = 0; i < a->n_attrs; i++)
    if (strcmp(a->attr_names[i], b->attr_names[i]) != 0 ||
        !td_attr_equal(&a->attrs[i], &b->attrs[i]))
      return false;
  return true;
}

static bool same_element(const td_attr *a, const td_attr *b, int i) {
  switch (a->kind) {
  case TD_ATTR_INT:
    return ints_of(a)[i] == ints_of(b)[i];
  case TD_ATTR_FLOAT:
    return memcmp(&floats_of(a)[i], &floats_of(b)[i], sizeof(float)) == 0;
  case TD_ATTR_BOOL:
    return bools_of(a)[i] == bools_of(b)[i];
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    return same_bytes(strings_of(a)[i], strings_of(b)[i]);
  case TD_ATTR_TYPE:
    return types_of(a)[i] == types_of(b)[i];
  case TD_ATTR_SHAPE:
    return td_shape_equal(&shapes_of(a)[i], &shapes_of(b)[i]);
  case TD_ATTR_TENSOR:
    return td_tensor_same(&tensors_of(a)[i], &tensors_of(b)[i]);
  case TD_ATTR_FUNC:
    return same_func(&funcs_of(a)[i], &funcs_of(b)[i]);
  case TD_ATTR_NONE:
    break;
  }
  return true;
}

bool td_attr_equal(const td_attr *a, const td_attr *b) {
  if (a->kind != b->kind || a->is_list != b->is_list ||
      count_of(a) != count_of(b))
    return false;
  for (int i = 0; i < count_of(a); i++)
    if (!same_element(a, b, i)) return false;
  return true;
}

/* dtype, shape and the first bytes: enough to tell most constants apart, and
 * cheap for the large ones. */
static uint64_t hash_tensor(const td_tensor *t, uint64_t h) {
  h = td_hash(&t->dtype, sizeof t->dtype, h);
  for (int i = 0; i < t->shape.rank; i++)
    h = td_hash(&t->shape.dim[i], sizeof(int64_t), h);
  if (!td_tensor_touchable(t) || !td_tensor_valid(t)) return h;
  if (t->dtype == TD_STRING) {
    int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n && i < PRINTED; i++) {
      size_t len;
      const char *s = td_tensor_str(t, i, &len);
      h = td_hash(s, len < HASHED_BYTES ? len : HASHED_BYTES, h);
    }
  } else if (td_dtype_is_plain(t->dtype)) {
    size_t bytes = td_tensor_bytes(t);
    h = td_hash(t->data, bytes < HASHED_BYTES ? bytes : HASHED_BYTES, h);
  }
  return h;
}

static uint64_t hash_func(const td_func_attr *f, uint64_t h) {
  h = td_hash(f->name, strlen(f->name), h);
  for (int i = 0; i < f->n_attrs; i++) {
    h = td_hash(f->attr_names[i], strlen(f->attr_names[i]), h);
    h = td_attr_hash(&f->attrs[i], h);
  }
  return h;
}

static uint64_t hash_element(const td_attr *a, int i, uint64_t h) {
  switch (a->kind) {
  case TD_ATTR_INT:
    return td_hash(&ints_of(a)[i], sizeof(int64_t), h);
  case TD_ATTR_FLOAT:
    return td_hash(&floats_of(a)[i], sizeof(float), h);
  case TD_ATTR_BOOL:
    return td_hash(&bools_of(a)[i], sizeof(bool), h);
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    return td_hash(strings_of(a)[i].at, strings_of(a)[i].len, h);
  case TD_ATTR_TYPE:
    return td_hash(&types_of(a)[i], sizeof(td_dtype), h);
  case TD_ATTR_SHAPE: {
    const td_shape *s = &shapes_of(a)[i];
    size_t bytes = s->rank > 0 ? (size_t)s->rank * sizeof(int64_t) : 0;
    return td_hash(s->dim, bytes, h + (uint64_t)(s->rank + 2));
  }
  case TD_ATTR_TENSOR:
    return hash_tensor(&tensors_of(a)[i], h);
  case TD_ATTR_FUNC:
    return hash_func(&funcs_of(a)[i], h);
  case TD_ATTR_NONE:
    break;
  }
  return h;
}

uint64_t td_attr_hash(const td_attr *a, uint64_t seed) {
  int32_t head[3] = {(int32_t)a->kind, a->is_list, count_of(a)};
  uint64_t h = td_hash(head, sizeof head, seed);
  for (int i = 0; i < count_of(a); i++) h = hash_element(a, i, h);
  return h;
}

/* ---- printed ------------------------------------------------------------- */

/* The shortest digits that read back as the same float. */
static void print_float(float f, td_str *out) {
  char text[32];
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)f);
    float back = 0;
    if (sscanf(text, "%f", &back) == 1 && back == f) break;
  }
  td_str_add(out, text);
}

static void print_func(const td_func_attr *f, td_str *out) {
  td_str_add(out, f->name);
  if (f->n_attrs == 0) return;
  td_str_addc(out, '[');
  for (int i = 0; i < f->n_attrs; i++) {
    td_str_addf(out, "%s%s = ", i ? ", " : "", f->attr_names[i]);
    td_attr_print(&f->attrs[i], out);
  }
  td_str_addc(out, ']');
}

static void print_element(const td_attr *a, int i, td_str *out) {
  switch (a->kind) {
  case TD_ATTR_INT:
    td_str_addf(out, "%lld", (long long)ints_of(a)[i]);
    break;
  case TD_ATTR_FLOAT:
    print_float(floats_of(a)[i], out);
    break;
  case TD_ATTR_BOOL:
    td_str_add(out, bools_of(a)[i] ? "true" : "false");
    break;
  case TD_ATTR_STRING:
    td_str_json(out, strings_of(a)[i].at, strings_of(a)[i].len);
    break;
  case TD_ATTR_TYPE:
    td_str_add(out, td_dtype_name(types_of(a)[i]));
    break;
  case TD_ATTR_SHAPE:
    td_shape_print(&shapes_of(a)[i], out);
    break;
  case TD_ATTR_TENSOR:
    td_tensor_print(&tensors_of(a)[i], PRINTED, out);
    break;
  case TD_ATTR_FUNC:
    print_func(&funcs_of(a)[i], out);
    break;
  case TD_ATTR_PLACEHOLDER:
    td_str_addc(out, '$');
    td_str_addn(out, a->s.at, a->s.len);
    break;
  case TD_ATTR_NONE:
    break;
  }
}

void td_attr_print(const td_attr *a, td_str *out) {
  if (a->kind == TD_ATTR_NONE && !a->is_list) td_str_add(out, "none");
  if (a->is_list) td_str_addc(out, '{');
  for (int i = 0; i < count_of(a); i++) {
    if (i) td_str_add(out, ", ");
    print_element(a, i, out);
  }
  if (a->is_list) td_str_addc(out, '}');
}
