/* mutate_attr.c - attributes and variables that nobody asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"

#include <math.h>
#include <string.h>

/* ---- attributes ---------------------------------------------------------- */

static void try_attr(const row *r, const golden_case *c, const char *name,
                     td_attr value) {
  td_note change = {name, value};
  try_changed(r, c, c->in, VALUES, &change);
  try_changed(r, c, c->in, NOTHING, &change);
}

static void try_ints(const row *r, const golden_case *c, const char *name) {
  static const int64_t ints[] = {-9, -1,        0,         1,        2,
                                 7,  INT32_MAX, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < TD_COUNT(ints); i++)
    try_attr(r, c, name, td_attr_int(ints[i]));
}

static void try_int_lists(const row *r, const golden_case *c,
                          const char *name) {
  static const int64_t lists[][3] = {
      {0, 0, 0}, {-9, 1, 1}, {1, -1, 2}, {INT64_MAX, INT64_MIN, 0}};
  for (size_t i = 0; i < TD_COUNT(lists); i++)
    for (int n = 0; n <= 3; n++)
      try_attr(r, c, name, td_attr_ints(lists[i], n));
}

static void try_floats(const row *r, const golden_case *c, const char *name) {
  static const float floats[] = {NAN, INFINITY, -1, 0, 1e30f};
  for (size_t i = 0; i < TD_COUNT(floats); i++)
    try_attr(r, c, name, td_attr_float(floats[i]));
}

static void try_shapes(const row *r, const golden_case *c, const char *name) {
  const int64_t far = INT64_C(1) << 40;
  td_shape shapes[] = {td_shape_unknown(),     td_shape_scalar(),
                       td_shape_vector(0),     td_shape_vector(-1),
                       td_shape_matrix(-1, 3), td_shape_matrix(far, far)};
  for (size_t i = 0; i < TD_COUNT(shapes); i++)
    try_attr(r, c, name, td_attr_shape(&shapes[i]));
}

static void try_attr_of(const row *r, const golden_case *c,
                        const td_attr_def *a) {
  if (a->deduced) return;
  if (a->is_list) {
    if (a->kind == TD_ATTR_INT) try_int_lists(r, c, a->name);
    return;
  }
  if (a->kind == TD_ATTR_INT) try_ints(r, c, a->name);
  if (a->kind == TD_ATTR_FLOAT) try_floats(r, c, a->name);
  if (a->kind == TD_ATTR_SHAPE) try_shapes(r, c, a->name);
  for (int t = 1; a->kind == TD_ATTR_TYPE && t < TD_DTYPES; t++)
    try_attr(r, c, a->name, td_attr_type((td_dtype)t));
  for (int b = 0; a->kind == TD_ATTR_BOOL && b < 2; b++)
    try_attr(r, c, a->name, td_attr_bool(b));
  if (a->kind == TD_ATTR_STRING) {
    try_attr(r, c, a->name, td_attr_string(""));
    try_attr(r, c, a->name, td_attr_string("%s%n"));
    try_attr(r, c, a->name, td_attr_bytes("a\0b", 3));
  }
}

void mutate_attrs(const row *r, const golden_case *c) {
  const td_op *op = td_op_find(r->op);
  for (int i = 0; i < op->n_attr; i++) try_attr_of(r, c, &op->attr[i]);
}

/* ---- variables ----------------------------------------------------------- */

static void try_variable(const row *r, const golden_case *c, int i,
                         td_tensor before) {
  golden_case other = *c;
  other.before[i] = before;
  if (td_tensor_valid(&before)) other.var_dtype[i] = before.dtype;
  try_changed(r, &other, c->in, VALUES, NULL);
  try_changed(r, &other, c->in, NOTHING, NULL);
  td_tensor_release(&before);
}

/* Not initialised, empty, a scalar, longer, shorter, of another dtype. */
void mutate_variables(const row *r, const golden_case *c) {
  for (int i = 0; i < c->n_var; i++) {
    const td_tensor *x = &c->before[i];
    td_tensor none = {.dtype = TD_INVALID}, one;
    try_variable(r, c, i, none);
    if (!td_tensor_valid(x)) continue;
    int64_t n = td_tensor_count(x);
    try_variable(r, c, i, refill(x, td_shape_scalar()));
    try_variable(r, c, i, refill(x, td_shape_vector(0)));
    try_variable(r, c, i, refill(x, td_shape_vector(n + 1)));
    try_variable(r, c, i, refill(x, td_shape_matrix(n, 1)));
    try_variable(r, c, i, refill(x, td_shape_matrix(1, n)));
    td_dtype dtype = x->dtype == TD_INT32 ? TD_FLOAT32 : TD_INT32;
    td_status *s = td_tensor_scalar_i(dtype, 1, &one);
    if (s) fail_msg("%s", td_status_message(s));
    try_variable(r, c, i, refill(&one, x->shape));
    td_tensor_release(&one);
  }
}
