/* attr.h - the value of an attribute: one of eight kinds, or a list of one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ATTR_H
#define TD_ATTR_H

#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

typedef enum td_attr_kind {
  TD_ATTR_NONE = 0, /* absent */
  TD_ATTR_INT,
  TD_ATTR_FLOAT,
  TD_ATTR_BOOL,
  TD_ATTR_STRING,
  TD_ATTR_TYPE,
  TD_ATTR_SHAPE,
  TD_ATTR_TENSOR,
  TD_ATTR_FUNC,
  TD_ATTR_PLACEHOLDER, /* only inside function bodies */
} td_attr_kind;

typedef struct td_attr td_attr;

/* A function's name with its attribute bindings. */
typedef struct td_func_attr {
  const char *name;
  const char **attr_names;
  td_attr *attrs;
  int n_attrs;
} td_func_attr;

/* Pointers belong to whoever holds the attr: an arena, or the caller's stack
 * while a node is being built (the graph copies what it keeps). */
struct td_attr {
  td_attr_kind kind;
  bool is_list;
  int32_t len; /* of a list */
  union {
    int64_t i;
    float f;
    bool b;
    td_bytes s; /* STRING and PLACEHOLDER */
    td_dtype type;
    const td_shape *shape;
    const td_tensor *tensor; /* the holder keeps it */
    const td_func_attr *func;
    /* lists */
    const int64_t *is;
    const float *fs;
    const bool *bs;
    const td_bytes *ss;
    const td_dtype *types;
    const td_shape *shapes;
    const td_tensor *tensors;
    const td_func_attr *funcs;
  };
};

/* One value; strings, shapes, tensors and lists borrow their argument. */
td_attr td_attr_int(int64_t v);
td_attr td_attr_float(float v);
td_attr td_attr_bool(bool v);
td_attr td_attr_type(td_dtype v);
td_attr td_attr_string(const char *s);
td_attr td_attr_bytes(const char *s, size_t len);
td_attr td_attr_shape(const td_shape *s);
td_attr td_attr_tensor(const td_tensor *t);
td_attr td_attr_ints(const int64_t *v, int n);
td_attr td_attr_types(const td_dtype *v, int n);
td_attr td_attr_strings(const td_bytes *v, int n);

/* The value of a single attribute; 0, false, "", TD_INVALID or NULL when `a` is
 * NULL or of another kind. */
int64_t td_attr_as_int(const td_attr *a);
bool td_attr_as_bool(const td_attr *a);
float td_attr_as_float(const td_attr *a);
const char *td_attr_as_string(const td_attr *a);
td_dtype td_attr_as_type(const td_attr *a);
const td_shape *td_attr_as_shape(const td_attr *a);

/* A copy whose memory is the arena's; tensors are retained, and released by
 * td_attr_drop. */
td_status *td_attr_copy(td_arena *arena, const td_attr *from, td_attr *to)
    TD_MUST_USE;
void td_attr_drop(td_attr *a); /* lets go of tensors only */

/* Same kind and value; tensors and floats by bits. */
bool td_attr_equal(const td_attr *a, const td_attr *b);
uint64_t td_attr_hash(const td_attr *a, uint64_t seed);
/* As a person reads it: {1, 2}, "SAME", float32. Tensors are cut short. */
void td_attr_print(const td_attr *a, td_str *out);
/* "int", "list(type)", ... */
const char *td_attr_kind_name(td_attr_kind kind, bool is_list);

TD_END
#endif
