/* examples.h - bytes put to ParseExampleV2, which wants features of every form:
 * sparse "i" (int64) and "s", dense "x" (float, any number of rows of 2) and
 * "d" (2 int64, with a default) and "t" (a string, with a default), ragged "r"
 * (float) and "q" (strings). The same bytes put to ParseSequenceExampleV2. For
 * the test of parse_example and its fuzzer.
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

/* ---- SequenceExamples ----------------------------------------------------- */

/* Outputs, in the order of ParseSequenceExampleV2's: of the context sparse "i";
 * of the lists sparse "i" (int64), dense "x" (steps of 2 floats) and "t"
 * (strings), ragged "r" (float) and "q" (strings). */
enum {
  C_INDICES, C_VALUES, C_SHAPE, L_INDICES, L_VALUES, L_SHAPE, L_X, L_T, X_STEPS,
  T_STEPS, L_R, L_Q, R_OUTER, Q_OUTER, R_INNER, Q_INNER, SEQUENCE_OUTPUTS
};

static td_status *sequence_keys(td_tensor in[9]) {
  static const char *const i[] = {"i"}, *dense[] = {"x", "t"},
                           *ragged[] = {"r", "q"};
  static const bool lack[] = {true, true};
  td_shape none = td_shape_vector(0), one = td_shape_vector(1);
  td_shape two = td_shape_vector(2);
  TD_TRY(example_strings(&none, NULL, &in[1]));
  TD_TRY(example_strings(&one, i, &in[2]));
  TD_TRY(example_strings(&none, NULL, &in[3]));
  TD_TRY(example_strings(&none, NULL, &in[4]));
  TD_TRY(example_strings(&one, i, &in[5]));
  TD_TRY(example_strings(&two, dense, &in[6]));
  TD_TRY(example_strings(&two, ragged, &in[7]));
  return td_tensor_from(TD_BOOL, &two, lack, &in[8]);
}

/* The results are the caller's. Takes ownership of `batch`, a tensor of
 * SequenceExamples. */
static td_status *sequences_parse(td_device *cpu, int threads, td_tensor batch,
                                  td_tensor out[SEQUENCE_OUTPUTS]) {
  static const int groups[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  static const td_dtype ints[] = {TD_INT64};
  static const td_dtype values[] = {TD_FLOAT32, TD_STRING};
  static const td_dtype splits[] = {TD_INT64, TD_INT32};
  td_shape shapes[] = {td_shape_vector(2), td_shape_scalar()};
  const td_note attrs[] = {
      {"Ncontext_sparse", td_attr_int(1)},
      {"context_sparse_types", td_attr_types(ints, 1)},
      {"Nfeature_list_sparse", td_attr_int(1)},
      {"feature_list_sparse_types", td_attr_types(ints, 1)},
      {"Nfeature_list_dense", td_attr_int(2)},
      {"feature_list_dense_types", td_attr_types(values, 2)},
      {"feature_list_ragged_value_types", td_attr_types(values, 2)},
      {"feature_list_ragged_split_types", td_attr_types(splits, 2)},
      {"feature_list_dense_shapes", {.kind = TD_ATTR_SHAPE,
                                     .is_list = true,
                                     .len = 2,
                                     .shapes = shapes}}};
  td_tensor in[9] = {batch};
  int n = 0;
  td_status *s = sequence_keys(in);
  if (td_ok(s))
    s = td_eval(td_op_find("ParseSequenceExampleV2"), cpu, threads, in, groups,
                attrs, TD_COUNT(attrs), out, SEQUENCE_OUTPUTS, &n, NULL);
  for (int i = 0; i < 9; i++) td_tensor_release(&in[i]);
  return s;
}

/* Do the outer splits go to all steps, and the inner ones to all values? */
static bool are_steps(const td_tensor *outer, const td_tensor *inner,
                      const td_tensor *values) {
  int64_t n = td_tensor_count(outer);
  return are_splits(inner, values) &&
         td_tensor_get_i(outer, n - 1) == td_tensor_count(inner) - 1;
}

static bool are_places(const td_tensor *t, const td_tensor *shape) {
  const int64_t *at = t->data, *size = shape->data;
  bool right = true;
  for (int64_t i = 0; right && i < td_tensor_count(t); i++)
    right = at[i] >= 0 && at[i] < size[i % 3];
  return right;
}

/* What a batch gave hangs together. */
static bool sequences_whole(const td_tensor out[SEQUENCE_OUTPUTS]) {
  return are_strings(&out[L_T]) && are_strings(&out[L_Q]) &&
         are_steps(&out[R_OUTER], &out[R_INNER], &out[L_R]) &&
         are_steps(&out[Q_OUTER], &out[Q_INNER], &out[L_Q]) &&
         are_indices(&out[C_INDICES], &out[C_SHAPE]) &&
         are_places(&out[L_INDICES], &out[L_SHAPE]) &&
         out[L_INDICES].shape.dim[0] == td_tensor_count(&out[L_VALUES]);
}

#endif
