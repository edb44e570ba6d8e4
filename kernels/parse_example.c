/* parse_example.c - ParseExample, ParseExampleV2, ParseSingleExample: what is
 * asked for, as lists of keys, dtypes, shapes and defaults.
 *
 * The three say the same in other places: keys are scalars, vectors or
 * attributes (example_wanted.c). The work is in example_table.c and
 * example_parse.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/example_wanted.h"

/* ---- shapes of results --------------------------------------------------- */

/* What the attributes say. `lead`: axes for Examples before a feature's own,
 * -1 where that is not known. */
typedef struct asked {
  int n_sparse, n_dense, n_ragged;
  int first_default; /* input */
  int lead;
  int64_t batch;
} asked;

static int length(const td_infer *c, const char *name) {
  const td_attr *a = td_infer_attr(c, name);
  return a ? a->len : 0;
}

static td_status *same_length(const td_infer *c, const char *name, int n,
                              const char *other) {
  if (length(c, name) == n) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s has %d parts, %s says %d", name,
                  length(c, name), other, n);
}

static td_status *infer_dense(td_infer *c, const asked *a, int index, int out) {
  const td_shape *s = &td_infer_attr(c, "dense_shapes")->shapes[index];
  const td_shape *given = td_infer_in(c, a->first_default + index);
  int64_t each;
  TD_TRY(td_example_elements(s, "", index, &each));
  TD_TRY(td_shape_check_rank(s->rank + 1));
  if (td_shape_known(given))
    TD_TRY(td_example_check_preset(s, given, "", index));
  td_shape y = {.rank = s->rank + a->lead};
  if (a->lead < 0) y = td_shape_unknown();
  for (int k = 0; k < s->rank && a->lead >= 0; k++)
    y.dim[k + a->lead] = s->dim[k];
  if (a->lead == 1) y.dim[0] = a->batch;
  td_infer_out(c, out, y);
  return NULL;
}

static td_status *infer_all(td_infer *c, const asked *a) {
  int64_t columns = a->lead < 0 ? -1 : 1 + a->lead;
  int64_t splits = a->lead == 0                  ? 0
                   : a->lead < 0 || a->batch < 0 ? -1
                                                 : a->batch + 1;
  int out = 0;
  TD_TRY(same_length(c, "sparse_types", a->n_sparse, "the number of keys"));
  TD_TRY(same_length(c, "dense_shapes", a->n_dense, "Tdense"));
  for (int i = 0; i < a->n_sparse; i++)
    td_infer_out(c, out++, td_shape_matrix(-1, columns));
  for (int i = 0; i < a->n_sparse; i++)
    td_infer_out(c, out++, td_shape_vector(-1));
  for (int i = 0; i < a->n_sparse; i++)
    td_infer_out(c, out++, td_shape_vector(columns));
  for (int i = 0; i < a->n_dense; i++) TD_TRY(infer_dense(c, a, i, out++));
  for (int i = 0; i < a->n_ragged; i++)
    td_infer_out(c, out++, td_shape_vector(-1));
  for (int i = 0; i < a->n_ragged; i++)
    td_infer_out(c, out++, td_shape_vector(splits));
  return NULL;
}

static td_status *batch_infer(td_infer *c) {
  td_shape s;
  asked a = {.n_sparse = (int)td_infer_int(c, "Nsparse"),
             .n_dense = length(c, "Tdense"),
             .lead = 1};
  int n_keys = (int)td_infer_int(c, "Ndense");
  TD_TRY(td_infer_rank(c, 0, 1, "serialized", &s));
  TD_TRY(td_infer_rank(c, 1, 1, "names", NULL));
  TD_TRY(same_length(c, "Tdense", n_keys, "the number of dense_keys"));
  for (int i = 0; i < a.n_sparse; i++)
    TD_TRY(td_infer_rank(c, 2 + i, 0, "sparse_keys", NULL));
  for (int i = 0; i < n_keys; i++)
    TD_TRY(td_infer_rank(c, 2 + a.n_sparse + i, 0, "dense_keys", NULL));
  a.first_default = 2 + a.n_sparse + n_keys;
  a.batch = s.dim[0];
  return infer_all(c, &a);
}

static const char *const lists[] = {"sparse_keys", "dense_keys", "ragged_keys"};

static td_status *any_infer(td_infer *c) {
  const td_shape *s = td_infer_in(c, 0);
  td_shape_text text;
  asked a = {.n_sparse = (int)td_infer_int(c, "num_sparse"),
             .n_dense = length(c, "Tdense"),
             .n_ragged = length(c, "ragged_value_types"),
             .first_default = 5,
             .lead = s->rank};
  int n[] = {a.n_sparse, a.n_dense, a.n_ragged};
  if (s->rank > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "serialized must be a vector of Examples, or one, not of "
                    "shape %s",
                    td_shape_str(s, &text));
  if (s->rank == 1) a.batch = s->dim[0];
  TD_TRY(
      same_length(c, "ragged_split_types", a.n_ragged, "ragged_value_types"));
  for (int i = 0; i < 3; i++)
    TD_TRY(td_example_check_keys(td_infer_in(c, 2 + i), lists[i], n[i]));
  return infer_all(c, &a);
}

static td_status *single_infer(td_infer *c) {
  asked a = {.n_sparse = (int)td_infer_int(c, "num_sparse"),
             .n_dense = length(c, "Tdense"),
             .first_default = 1};
  TD_TRY(td_infer_rank(c, 0, 0, "serialized", NULL));
  TD_TRY(same_length(c, "sparse_keys", a.n_sparse, "num_sparse"));
  TD_TRY(same_length(c, "dense_keys", a.n_dense, "Tdense"));
  return infer_all(c, &a);
}

/* ---- running ------------------------------------------------------------- */

static td_status *batch_run(td_kernel_ctx *c) {
  td_example_wanted w;
  int sparse, dense, presets, n;
  td_shape_text text;
  if (td_in(c, 0)->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "serialized must be of rank 1, not %s",
                    td_shape_str(&td_in(c, 0)->shape, &text));
  TD_TRY(td_example_check_scalars(c, 2, "sparse_keys"));
  TD_TRY(td_example_check_scalars(c, 3, "dense_keys"));
  td_node_in_range(td_ctx_node(c), 2, &sparse, &n);
  td_node_in_range(td_ctx_node(c), 3, &dense, &n);
  td_node_in_range(td_ctx_node(c), 4, &presets, &n);
  TD_TRY(td_example_begin(&w, c));
  td_example_want_sparse(&w, &(td_example_keys){.tensors = c->in + sparse});
  td_status *s = td_example_want_dense(
      &w, &(td_example_keys){.tensors = c->in + dense}, "", presets);
  return td_example_finish(&w, s, td_in(c, 1));
}

static td_status *any_run(td_kernel_ctx *c) {
  static const int outputs[] = {1, 3, 4};
  td_example_keys k[3];
  td_example_wanted w;
  int first, n;
  for (int i = 0; i < 3; i++) {
    k[i] = (td_example_keys){.tensors = td_in(c, 2 + i), .vector = true};
    td_node_out_range(td_ctx_node(c), outputs[i], &first, &n);
    TD_TRY(td_example_check_keys(&k[i].tensors->shape, lists[i], n));
  }
  TD_TRY(td_example_begin(&w, c));
  td_example_want_sparse(&w, &k[0]);
  td_status *s = td_example_want_dense(&w, &k[1], "", 5);
  td_example_want_ragged(&w, &k[2]);
  return td_example_finish(&w, s, td_in(c, 1));
}

static td_status *single_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  td_example_wanted w;
  td_shape_text text;
  if (td_in(c, 0)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "serialized must be a scalar, not of shape %s",
                    td_shape_str(&td_in(c, 0)->shape, &text));
  TD_TRY(td_example_begin(&w, c));
  td_example_want_sparse(
      &w, &(td_example_keys){.attr = td_node_attr(n, "sparse_keys")});
  td_status *s = td_example_want_dense(
      &w, &(td_example_keys){.attr = td_node_attr(n, "dense_keys")}, "", 1);
  return td_example_finish(&w, s, NULL);
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "list({float, int64, string}) >= 0"
#define ROW                                                                    \
  .cost = td_cost_move, .flags = TD_NO_GRADIENT, .lua = "",                    \
  .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "ParseExample",
     .sig = "serialized: string, names: string, sparse_keys: Nsparse*string, "
            "dense_keys: Ndense*string, dense_defaults: Tdense -> "
            "sparse_indices: Nsparse*int64, sparse_values: sparse_types, "
            "sparse_shapes: Nsparse*int64, dense_values: Tdense; "
            "Nsparse: int >= 0; Ndense: int >= 0; sparse_types: " TYPES
            "; Tdense: " TYPES "; dense_shapes: list(shape) >= 0",
     .shape = batch_infer,
     .doc = "A batch of Examples as tensors: for each key a sparse or a dense "
            "one.",
     ROW},
    {.type = "ParseExampleV2",
     .sig = "serialized: string, names: string, sparse_keys: string, "
            "dense_keys: string, ragged_keys: string, dense_defaults: Tdense "
            "-> sparse_indices: num_sparse*int64, sparse_values: sparse_types, "
            "sparse_shapes: num_sparse*int64, dense_values: Tdense, "
            "ragged_values: ragged_value_types, "
            "ragged_row_splits: ragged_split_types; Tdense: " TYPES
            "; num_sparse: int >= 0; sparse_types: " TYPES
            "; ragged_value_types: " TYPES
            "; ragged_split_types: list({int32, int64}) >= 0; "
            "dense_shapes: list(shape) >= 0",
     .shape = any_infer,
     .doc = "Examples, a batch or one, as tensors: for each key a sparse, a "
            "dense or a ragged one.",
     ROW},
    {.type = "ParseSingleExample",
     .sig = "serialized: string, dense_defaults: Tdense -> "
            "sparse_indices: num_sparse*int64, sparse_values: sparse_types, "
            "sparse_shapes: num_sparse*int64, dense_values: Tdense; "
            "num_sparse: int >= 0; sparse_keys: list(string) >= 0; "
            "dense_keys: list(string) >= 0; sparse_types: " TYPES
            "; Tdense: " TYPES "; dense_shapes: list(shape) >= 0",
     .shape = single_infer,
     .doc = "One Example as tensors: for each key a sparse or a dense one.",
     ROW},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ParseExample", .device = "CPU", .run = batch_run},
    {.op = "ParseExampleV2", .device = "CPU", .run = any_run},
    {.op = "ParseSingleExample", .device = "CPU", .run = single_run},
    {0},
};

TD_MODULE(parse_example, ops, kernels)
