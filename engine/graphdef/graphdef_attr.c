/* graphdef_attr.c - attribute values, both ways.
 *
 * What is read points into the unpacked message where that outlives the node
 * being built (it lies in the same arena), and is converted where forms differ.
 * Tensors alone are counted: every error path lets go of those made so far, so
 * that a failed value holds none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/graphdef/graphdef_impl.h"

/* ---- reading: elements --------------------------------------------------- */

static td_status *bytes_in(td_arena *arena, const ProtobufCBinaryData *p,
                           td_bytes *out) {
  out->len = p->len;
  out->at = td_arena_strn(arena, (const char *)p->data, p->len);
  return out->at ? NULL : td_oom();
}

static td_status *type_in(int32_t number, td_dtype *out) {
  if (number > 100 && number < 100 + TD_DTYPES)
    return td_error(TD_INVALID_ARGUMENT,
                    "dtype %d is %s_ref: reference dtypes are not known here",
                    (int)number, td_dtype_name((td_dtype)(number - 100)));
  if (number < 0 || number >= TD_DTYPES)
    return td_error(TD_INVALID_ARGUMENT, "%d is no dtype", (int)number);
  *out = (td_dtype)number;
  return NULL;
}

static td_status *func_in(td_arena *arena, const Td__NameAttrList *p,
                          size_t *fill, td_func_attr *out) {
  *out = (td_func_attr){.name = p->name};
  out->attr_names = td_arena_alloc(arena, p->n_attr * sizeof(char *));
  out->attrs = td_arena_alloc(arena, p->n_attr * sizeof(td_attr));
  if (!out->attr_names || !out->attrs) return td_oom();
  td_graphdef_attr_sort(p->attr, p->n_attr);
  for (size_t i = 0; i < p->n_attr; i++) {
    const Td__AttrEntry *e = p->attr[i];
    if (i && strcmp(p->attr[i - 1]->key, e->key) == 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "attribute \"%.100s\" of function \"%.100s\" comes twice",
                      e->key, p->name);
    out->attr_names[i] = e->key;
    TD_TRY(td_graphdef_attr_in(arena, e->value, NULL, fill, &out->attrs[i]));
    out->n_attrs = (int)i + 1;
  }
  return NULL;
}

/* ---- reading: lists ------------------------------------------------------ */

/* Cleared room for the list's elements; its length grows with those that are
 * made, so that td_attr_drop can end it half way. */
static void *list_of(td_arena *arena, td_attr_kind kind, size_t n, size_t size,
                     td_attr *out) {
  *out = (td_attr){.kind = kind, .is_list = true};
  void *at = td_arena_alloc(arena, n * size);
  out->is = at;
  return at;
}

static td_status *bytes_list(td_arena *arena, const Td__ListValue *p,
                             td_attr *out) {
  td_bytes *at = list_of(arena, TD_ATTR_STRING, p->n_s, sizeof *at, out);
  if (!at) return td_oom();
  for (size_t i = 0; i < p->n_s; i++, out->len++)
    TD_TRY(bytes_in(arena, &p->s[i], &at[i]));
  return NULL;
}

static td_status *bool_list(td_arena *arena, const Td__ListValue *p,
                            td_attr *out) {
  bool *at = list_of(arena, TD_ATTR_BOOL, p->n_b, sizeof *at, out);
  if (!at) return td_oom();
  for (size_t i = 0; i < p->n_b; i++) at[i] = p->b[i];
  out->len = (int32_t)p->n_b;
  return NULL;
}

static td_status *type_list(td_arena *arena, const Td__ListValue *p,
                            td_attr *out) {
  td_dtype *at = list_of(arena, TD_ATTR_TYPE, p->n_type, sizeof *at, out);
  if (!at) return td_oom();
  for (size_t i = 0; i < p->n_type; i++, out->len++)
    TD_TRY(type_in(p->type[i], &at[i]));
  return NULL;
}

static td_status *shape_list(td_arena *arena, const Td__ListValue *p,
                             td_attr *out) {
  td_shape *at = list_of(arena, TD_ATTR_SHAPE, p->n_shape, sizeof *at, out);
  if (!at) return td_oom();
  for (size_t i = 0; i < p->n_shape; i++, out->len++)
    TD_TRY(td_graphdef_shape_in(p->shape[i], &at[i]));
  return NULL;
}

static td_status *tensor_list(td_arena *arena, const Td__ListValue *p,
                              size_t *fill, td_attr *out) {
  td_tensor *at = list_of(arena, TD_ATTR_TENSOR, p->n_tensor, sizeof *at, out);
  if (!at) return td_oom();
  for (size_t i = 0; i < p->n_tensor; i++, out->len++)
    TD_TRY(td_graphdef_tensor_in(p->tensor[i], fill, &at[i]));
  return NULL;
}

static td_status *func_list(td_arena *arena, const Td__ListValue *p,
                            size_t *fill, td_attr *out) {
  td_func_attr *at = list_of(arena, TD_ATTR_FUNC, p->n_func, sizeof *at, out);
  if (!at) return td_oom();
  for (size_t i = 0; i < p->n_func; i++) {
    out->len++; /* a function may fail holding tensors */
    TD_TRY(func_in(arena, p->func[i], fill, &at[i]));
  }
  return NULL;
}

static td_status *list_in(td_arena *arena, const Td__ListValue *p,
                          const td_attr_def *def, size_t *fill, td_attr *out) {
  int kinds = (p->n_s > 0) + (p->n_i > 0) + (p->n_f > 0) + (p->n_b > 0) +
              (p->n_type > 0) + (p->n_shape > 0) + (p->n_tensor > 0) +
              (p->n_func > 0);
  if (kinds > 1)
    return td_error(TD_INVALID_ARGUMENT, "a list of several kinds of values");
  if (p->n_s) return bytes_list(arena, p, out);
  if (p->n_b) return bool_list(arena, p, out);
  if (p->n_type) return type_list(arena, p, out);
  if (p->n_shape) return shape_list(arena, p, out);
  if (p->n_tensor) return tensor_list(arena, p, fill, out);
  if (p->n_func) return func_list(arena, p, fill, out);
  *out = (td_attr){.is_list = true};
  if (p->n_i) {
    out->kind = TD_ATTR_INT;
    out->is = p->i;
    out->len = (int32_t)p->n_i;
  } else if (p->n_f) {
    out->kind = TD_ATTR_FLOAT;
    out->fs = p->f;
    out->len = (int32_t)p->n_f;
  } else {
    out->kind = def ? def->kind : TD_ATTR_STRING;
  }
  return NULL;
}

/* ---- reading: values ----------------------------------------------------- */

static td_status *tensor_value(td_arena *arena, const Td__TensorProto *p,
                               size_t *fill, td_attr *out) {
  td_tensor *t = td_arena_alloc(arena, sizeof *t);
  if (!t) return td_oom();
  TD_TRY(td_graphdef_tensor_in(p, fill, t));
  *out = td_attr_tensor(t);
  return NULL;
}

static td_status *shape_value(td_arena *arena, const Td__TensorShapeProto *p,
                              td_attr *out) {
  td_shape *shape = td_arena_alloc(arena, sizeof *shape);
  if (!shape) return td_oom();
  *out = td_attr_shape(shape);
  return td_graphdef_shape_in(p, shape);
}

static td_status *func_value(td_arena *arena, const Td__NameAttrList *p,
                             size_t *fill, td_attr *out) {
  td_func_attr *f = td_arena_alloc(arena, sizeof *f);
  if (!f) return td_oom();
  *out = (td_attr){.kind = TD_ATTR_FUNC, .func = f};
  return func_in(arena, p, fill, f);
}

static td_status *value_in(td_arena *arena, const Td__AttrValue *p,
                           const td_attr_def *def, size_t *fill, td_attr *out) {
  switch (p->value_case) {
  case TD__ATTR_VALUE__VALUE_LIST:
    return list_in(arena, p->list, def, fill, out);
  case TD__ATTR_VALUE__VALUE_S:
    out->kind = TD_ATTR_STRING;
    return bytes_in(arena, &p->s, &out->s);
  case TD__ATTR_VALUE__VALUE_I:
    *out = td_attr_int(p->i);
    return NULL;
  case TD__ATTR_VALUE__VALUE_F:
    *out = td_attr_float(p->f);
    return NULL;
  case TD__ATTR_VALUE__VALUE_B:
    *out = td_attr_bool(p->b);
    return NULL;
  case TD__ATTR_VALUE__VALUE_TYPE:
    out->kind = TD_ATTR_TYPE;
    return type_in(p->type, &out->type);
  case TD__ATTR_VALUE__VALUE_SHAPE:
    return shape_value(arena, p->shape, out);
  case TD__ATTR_VALUE__VALUE_TENSOR:
    return tensor_value(arena, p->tensor, fill, out);
  case TD__ATTR_VALUE__VALUE_FUNC:
    return func_value(arena, p->func, fill, out);
  case TD__ATTR_VALUE__VALUE_PLACEHOLDER:
    return td_error(TD_INVALID_ARGUMENT,
                    "placeholder \"%.100s\" outside a function's body",
                    p->placeholder);
  default:
    return td_error(TD_INVALID_ARGUMENT, "no value");
  }
}

td_status *td_graphdef_attr_in(td_arena *arena, const Td__AttrValue *p,
                               const td_attr_def *def, size_t *fill,
                               td_attr *out) {
  *out = (td_attr){0};
  if (!p) return td_error(TD_INVALID_ARGUMENT, "no value");
  td_status *s = value_in(arena, p, def, fill, out);
  if (!td_ok(s)) {
    td_attr_drop(out);
    *out = (td_attr){0};
  }
  return s;
}

bool td_graphdef_attr_unset(const Td__AttrValue *p) {
  if (!p) return false;
  switch (p->value_case) {
  case TD__ATTR_VALUE__VALUE_LIST:
    return protobuf_c_message_get_packed_size(&p->list->base) == 0;
  case TD__ATTR_VALUE__VALUE_S:
    return p->s.len == 0;
  case TD__ATTR_VALUE__VALUE_I:
    return p->i == 0;
  case TD__ATTR_VALUE__VALUE_F:
    return p->f == 0;
  case TD__ATTR_VALUE__VALUE_B:
    return !p->b;
  default:
    return false;
  }
}

/* ---- writing ------------------------------------------------------------- */

static ProtobufCBinaryData bytes_out(td_bytes b) {
  return (ProtobufCBinaryData){.len = b.len, .data = (uint8_t *)b.at};
}

static int by_key(const void *a, const void *b) {
  const Td__AttrEntry *const *x = a, *const *y = b;
  return strcmp((*x)->key, (*y)->key);
}

void td_graphdef_attr_sort(Td__AttrEntry **at, size_t n) {
  if (n > 1) qsort(at, n, sizeof *at, by_key);
}

static td_status *func_out(td_arena *arena, const td_func_attr *f,
                           Td__NameAttrList **out) {
  size_t n = (size_t)f->n_attrs;
  Td__NameAttrList *p = td_arena_alloc(arena, sizeof *p);
  Td__AttrEntry *entries = td_arena_alloc(arena, n * sizeof *entries);
  if (!p || !entries) return td_oom();
  td__name_attr_list__init(p);
  p->name = (char *)f->name;
  p->attr = td_arena_alloc(arena, n * sizeof *p->attr);
  if (!p->attr) return td_oom();
  for (size_t i = 0; i < n; i++) {
    td__attr_entry__init(&entries[i]);
    entries[i].key = (char *)f->attr_names[i];
    TD_TRY(td_graphdef_attr_out(arena, &f->attrs[i], &entries[i].value));
    p->attr[i] = &entries[i];
  }
  p->n_attr = n;
  td_graphdef_attr_sort(p->attr, n);
  *out = p;
  return NULL;
}

/* Numbers whose form is another in the message. */
static td_status *numbers_out(td_arena *arena, const td_attr *a,
                              Td__ListValue *p) {
  size_t n = (size_t)a->len;
  if (a->kind == TD_ATTR_BOOL) {
    p->b = td_arena_alloc(arena, n * sizeof *p->b);
    if (!p->b) return td_oom();
    for (size_t i = 0; i < n; i++) p->b[i] = a->bs[i];
    p->n_b = n;
  } else {
    p->type = td_arena_alloc(arena, n * sizeof *p->type);
    if (!p->type) return td_oom();
    for (size_t i = 0; i < n; i++) p->type[i] = (int32_t)a->types[i];
    p->n_type = n;
  }
  return NULL;
}

static td_status *bytes_list_out(td_arena *arena, const td_attr *a,
                                 Td__ListValue *p) {
  p->s = td_arena_alloc(arena, (size_t)a->len * sizeof *p->s);
  if (!p->s) return td_oom();
  for (int i = 0; i < a->len; i++) p->s[i] = bytes_out(a->ss[i]);
  p->n_s = (size_t)a->len;
  return NULL;
}

static td_status *messages_out(td_arena *arena, const td_attr *a,
                               Td__ListValue *p) {
  size_t n = (size_t)a->len;
  void *at = td_arena_alloc(arena, n * sizeof(void *));
  if (!at) return td_oom();
  if (a->kind == TD_ATTR_SHAPE) {
    p->shape = at;
    for (; p->n_shape < n; p->n_shape++) {
      p->shape[p->n_shape] =
          td_graphdef_shape_out(arena, &a->shapes[p->n_shape]);
      if (!p->shape[p->n_shape]) return td_oom();
    }
  } else if (a->kind == TD_ATTR_TENSOR) {
    p->tensor = at;
    for (; p->n_tensor < n; p->n_tensor++)
      TD_TRY(td_graphdef_tensor_out(arena, &a->tensors[p->n_tensor],
                                    &p->tensor[p->n_tensor]));
  } else {
    p->func = at;
    for (; p->n_func < n; p->n_func++)
      TD_TRY(func_out(arena, &a->funcs[p->n_func], &p->func[p->n_func]));
  }
  return NULL;
}

static td_status *list_out(td_arena *arena, const td_attr *a,
                           Td__ListValue **out) {
  Td__ListValue *p = td_arena_alloc(arena, sizeof *p);
  if (!p) return td_oom();
  td__list_value__init(p);
  *out = p;
  switch (a->len ? a->kind : TD_ATTR_NONE) {
  case TD_ATTR_INT:
    p->i = (int64_t *)a->is;
    p->n_i = (size_t)a->len;
    return NULL;
  case TD_ATTR_FLOAT:
    p->f = (float *)a->fs;
    p->n_f = (size_t)a->len;
    return NULL;
  case TD_ATTR_BOOL:
  case TD_ATTR_TYPE:
    return numbers_out(arena, a, p);
  case TD_ATTR_STRING:
    return bytes_list_out(arena, a, p);
  case TD_ATTR_SHAPE:
  case TD_ATTR_TENSOR:
  case TD_ATTR_FUNC:
    return messages_out(arena, a, p);
  default:
    return NULL;
  }
}

static td_status *value_out(td_arena *arena, const td_attr *a,
                            Td__AttrValue *p) {
  switch (a->kind) {
  case TD_ATTR_INT:
    p->value_case = TD__ATTR_VALUE__VALUE_I;
    p->i = a->i;
    return NULL;
  case TD_ATTR_FLOAT:
    p->value_case = TD__ATTR_VALUE__VALUE_F;
    p->f = a->f;
    return NULL;
  case TD_ATTR_BOOL:
    p->value_case = TD__ATTR_VALUE__VALUE_B;
    p->b = a->b;
    return NULL;
  case TD_ATTR_TYPE:
    p->value_case = TD__ATTR_VALUE__VALUE_TYPE;
    p->type = (int32_t)a->type;
    return NULL;
  case TD_ATTR_STRING:
    p->value_case = TD__ATTR_VALUE__VALUE_S;
    p->s = bytes_out(a->s);
    return NULL;
  case TD_ATTR_SHAPE:
    p->value_case = TD__ATTR_VALUE__VALUE_SHAPE;
    p->shape = td_graphdef_shape_out(arena, a->shape);
    return p->shape ? NULL : td_oom();
  case TD_ATTR_TENSOR:
    p->value_case = TD__ATTR_VALUE__VALUE_TENSOR;
    return td_graphdef_tensor_out(arena, a->tensor, &p->tensor);
  case TD_ATTR_FUNC:
    p->value_case = TD__ATTR_VALUE__VALUE_FUNC;
    return func_out(arena, a->func, &p->func);
  default:
    return td_error(TD_INVALID_ARGUMENT, "a %s attribute has no form in a file",
                    td_attr_kind_name(a->kind, false));
  }
}

td_status *td_graphdef_attr_out(td_arena *arena, const td_attr *a,
                                Td__AttrValue **out) {
  Td__AttrValue *p = td_arena_alloc(arena, sizeof *p);
  if (!p) return td_oom();
  td__attr_value__init(p);
  *out = p;
  if (!a->is_list) return value_out(arena, a, p);
  p->value_case = TD__ATTR_VALUE__VALUE_LIST;
  return list_out(arena, a, &p->list);
}
