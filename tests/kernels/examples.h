/* examples.h - bytes put to ParseExampleV2, which wants features of every form:
 * sparse "i" (int64) and "s", dense "x" (float, any number of rows of 2) and
 * "d" (2 int64, with a default) and "t" (a string, with a default), ragged "r"
 * (float) and "q" (strings). For the test of parse_example and its fuzzer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_EXAMPLES_H
#define TD_TEST_EXAMPLES_H

#include "engine/device/eval.h"

/* Outputs, in the order of the op's. */
enum {
  I_INDICES, S_INDICES, I_VALUES, S_VALUES, I_SHAPE, S_SHAPE, X, D, T, R, Q,
  R_SPLITS, Q_SPLITS, EXAMPLE_OUTPUTS
};

static td_status *example_strings(const td_shape *shape,
                                  const char *const *words, td_tensor *out) {
  size_t len[4];
  for (int64_t i = 0; i < td_shape_count(shape); i++) len[i] = strlen(words[i]);
  return td_tensor_strings(shape, words, len, out);
}

static td_status *example_keys(td_tensor in[8]) {
  static const char *const sparse[] = {"i", "s"}, *dense[] = {"x", "d", "t"},
                           *ragged[] = {"r", "q"}, *preset[] = {"none"};
  static const int64_t pair[] = {7, 8};
  td_shape none = td_shape_vector(0), two = td_shape_vector(2);
  td_shape three = td_shape_vector(3), scalar = td_shape_scalar();
  TD_TRY(example_strings(&none, NULL, &in[1]));
  TD_TRY(example_strings(&two, sparse, &in[2]));
  TD_TRY(example_strings(&three, dense, &in[3]));
  TD_TRY(example_strings(&two, ragged, &in[4]));
  TD_TRY(td_tensor_scalar_f(TD_FLOAT32, -1, &in[5]));
  TD_TRY(td_tensor_from(TD_INT64, &two, pair, &in[6]));
  return example_strings(&scalar, preset, &in[7]);
}

/* The results are the caller's. Takes ownership of `batch`, a tensor of
 * Examples. */
static td_status *examples_parse(td_device *cpu, int threads, td_tensor batch,
                                 td_tensor out[EXAMPLE_OUTPUTS]) {
  static const int groups[] = {1, 1, 1, 1, 1, 3};
  static const td_dtype dense[] = {TD_FLOAT32, TD_INT64, TD_STRING};
  static const td_dtype values[] = {TD_FLOAT32, TD_STRING};
  static const td_dtype splits[] = {TD_INT64, TD_INT32};
  td_shape shapes[] = {td_shape_matrix(-1, 2), td_shape_vector(2),
                       td_shape_scalar()};
  const td_note attrs[] = {
      {"num_sparse", td_attr_int(2)},
      {"sparse_types", td_attr_types(dense + 1, 2)},
      {"Tdense", td_attr_types(dense, 3)},
      {"ragged_value_types", td_attr_types(values, 2)},
      {"ragged_split_types", td_attr_types(splits, 2)},
      {"dense_shapes", {.kind = TD_ATTR_SHAPE,
                        .is_list = true,
                        .len = 3,
                        .shapes = shapes}}};
  td_tensor in[8] = {batch};
  int n = 0;
  td_status *s = example_keys(in);
  if (td_ok(s))
    s = td_eval(td_op_find("ParseExampleV2"), cpu, threads, in, groups, attrs,
                TD_COUNT(attrs), out, EXAMPLE_OUTPUTS, &n, NULL);
  for (int i = 0; i < 8; i++) td_tensor_release(&in[i]);
  return s;
}

/* Do row splits go from 0 to all values, and never back? */
static bool are_splits(const td_tensor *splits, const td_tensor *values) {
  int64_t n = td_tensor_count(splits);
  bool right = td_tensor_get_i(splits, 0) == 0 &&
               td_tensor_get_i(splits, n - 1) == td_tensor_count(values);
  for (int64_t i = 1; right && i < n; i++)
    right = td_tensor_get_i(splits, i) >= td_tensor_get_i(splits, i - 1);
  return right;
}

/* Are indices those of some rows, in their order, and within the shape? */
static bool are_indices(const td_tensor *t, const td_tensor *shape) {
  const int64_t *at = t->data, *size = shape->data;
  bool right = true;
  for (int64_t i = 0; right && i < t->shape.dim[0]; i++, at += 2) {
    right = at[0] >= 0 && at[0] < size[0] && at[1] >= 0 && at[1] < size[1];
    if (right && i > 0)
      right = at[0] == at[-2] ? at[1] == at[-1] + 1 : at[0] > at[-2] && !at[1];
  }
  return right;
}

static bool are_strings(const td_tensor *t) {
  td_status *s = td_tensor_strings_check(t);
  td_status_release(s);
  return td_ok(s);
}

/* What a batch gave hangs together. */
static bool examples_whole(const td_tensor out[EXAMPLE_OUTPUTS]) {
  return are_strings(&out[S_VALUES]) && are_strings(&out[T]) &&
         are_strings(&out[Q]) && are_splits(&out[R_SPLITS], &out[R]) &&
         are_splits(&out[Q_SPLITS], &out[Q]) &&
         are_indices(&out[I_INDICES], &out[I_SHAPE]) &&
         are_indices(&out[S_INDICES], &out[S_SHAPE]) &&
         out[I_INDICES].shape.dim[0] == td_tensor_count(&out[I_VALUES]) &&
         out[S_INDICES].shape.dim[0] == td_tensor_count(&out[S_VALUES]);
}

#endif
