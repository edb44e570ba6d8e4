/* parse_sequence_example.c - ParseSequenceExample, ParseSequenceExampleV2,
 * ParseSingleSequenceExample: what is asked for, of contexts and of lists.
 *
 * As in parse_example.c the three say the same in other places. A context is
 * parsed as the features of an Example, which it is byte by byte; lists are
 * sequence_parse.c's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/example_wanted.h"
#include "kernels/sequence_parse.h"
#include "kernels/text.h"

/* ---- shapes of results --------------------------------------------------- */

/* What the attributes say. `lead`: axes for SequenceExamples before a
 * feature's own, -1 where that is not known. */
typedef struct asked {
  int sparse, dense, ragged;                /* of the context */
  int list_sparse, list_dense, list_ragged; /* of the lists */
  bool lengths;                             /* has outputs for them */
  int first_default;                        /* input */
  int lead;
  int64_t batch;
  int out; /* the next output */
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

static td_status *check_known(const td_shape *s, const char *name, int i) {
  td_shape_text text;
  if (td_shape_known(s)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s[%d] must be known, not %s", name, i,
                  td_shape_str(s, &text));
}

/* n outputs of one shape. */
static void give(td_infer *c, asked *a, int n, td_shape shape) {
  for (int i = 0; i < n; i++) td_infer_out(c, a->out++, shape);
}

static void give_sparse(td_infer *c, asked *a, int n, int axes) {
  int64_t columns = a->lead < 0 ? -1 : axes + a->lead;
  give(c, a, n, td_shape_matrix(-1, columns));
  give(c, a, n, td_shape_vector(-1));
  give(c, a, n, td_shape_vector(columns));
}

/* One output of `axes` unknown sizes and the feature's own behind the batch. */
static td_status *give_dense(td_infer *c, asked *a, const td_shape *s,
                             int axes) {
  td_shape y = {0};
  TD_TRY(td_shape_check_rank(s->rank + axes + 1));
  if (a->lead == 1) y.dim[y.rank++] = a->batch;
  for (int k = 0; k < axes; k++) y.dim[y.rank++] = -1;
  for (int k = 0; k < s->rank; k++) y.dim[y.rank++] = s->dim[k];
  td_infer_out(c, a->out++, a->lead < 0 ? td_shape_unknown() : y);
  return NULL;
}

static td_status *infer_context(td_infer *c, asked *a) {
  static const char shapes[] = "context_dense_shapes";
  TD_TRY(same_length(c, "context_sparse_types", a->sparse,
                     "the number of context_sparse_keys"));
  TD_TRY(same_length(c, shapes, a->dense, "Tcontext_dense"));
  give_sparse(c, a, a->sparse, 1);
  for (int i = 0; i < a->dense; i++) {
    const td_shape *s = &td_infer_attr(c, shapes)->shapes[i];
    const td_shape *given = td_infer_in(c, a->first_default + i);
    TD_TRY(check_known(s, shapes, i));
    TD_TRY(td_array_count(s, NULL));
    if (td_shape_known(given))
      TD_TRY(td_example_check_preset(s, given, "context_", i));
    TD_TRY(give_dense(c, a, s, 0));
  }
  return NULL;
}

static td_shape splits(const asked *a) {
  if (a->lead == 0) return td_shape_vector(0);
  return td_shape_vector(a->lead < 0 || a->batch < 0 ? -1 : a->batch + 1);
}

static td_status *infer_lists(td_infer *c, asked *a) {
  static const char shapes[] = "feature_list_dense_shapes";
  td_shape all = a->lead < 0    ? td_shape_unknown()
                 : a->lead == 0 ? td_shape_scalar()
                                : td_shape_vector(a->batch);
  TD_TRY(same_length(c, "feature_list_sparse_types", a->list_sparse,
                     "the number of feature_list_sparse_keys"));
  TD_TRY(same_length(c, "feature_list_dense_types", a->list_dense,
                     "the number of feature_list_dense_keys"));
  TD_TRY(same_length(c, shapes, a->list_dense, "feature_list_dense_types"));
  give_sparse(c, a, a->list_sparse, 2);
  for (int i = 0; i < a->list_dense; i++) {
    const td_shape *s = &td_infer_attr(c, shapes)->shapes[i];
    TD_TRY(check_known(s, shapes, i));
    TD_TRY(td_array_count(s, NULL));
    TD_TRY(give_dense(c, a, s, 1));
  }
  if (a->lengths) give(c, a, a->list_dense, all);
  return NULL;
}

static td_status *infer_batch(td_infer *c, asked *a) {
  const td_shape *s = td_infer_in(c, 0);
  td_shape_text text;
  if (s->rank > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "serialized must be a vector of SequenceExamples, or one, "
                    "not of shape %s",
                    td_shape_str(s, &text));
  a->lead = s->rank;
  if (s->rank == 1) a->batch = s->dim[0];
  return NULL;
}

static td_status *batch_infer(td_infer *c) {
  td_shape s;
  asked a = {.sparse = (int)td_infer_int(c, "Ncontext_sparse"),
             .dense = length(c, "Tcontext_dense"),
             .list_sparse = (int)td_infer_int(c, "Nfeature_list_sparse"),
             .list_dense = (int)td_infer_int(c, "Nfeature_list_dense"),
             .lengths = true,
             .first_default = 2};
  TD_TRY(td_infer_rank(c, 0, 1, "serialized", &s));
  TD_TRY(td_infer_rank(c, 1, 1, "debug_name", NULL));
  a.lead = 1;
  a.batch = s.dim[0];
  TD_TRY(same_length(c, "context_sparse_keys", a.sparse, "Ncontext_sparse"));
  TD_TRY(same_length(c, "context_dense_keys", a.dense, "Tcontext_dense"));
  TD_TRY(same_length(c, "feature_list_sparse_keys", a.list_sparse,
                     "Nfeature_list_sparse"));
  TD_TRY(same_length(c, "feature_list_dense_keys", a.list_dense,
                     "Nfeature_list_dense"));
  TD_TRY(infer_context(c, &a));
  return infer_lists(c, &a);
}

static const char *const lists[] = {"context_sparse_keys",
                                    "context_dense_keys",
                                    "context_ragged_keys",
                                    "feature_list_sparse_keys",
                                    "feature_list_dense_keys",
                                    "feature_list_ragged_keys",
                                    "feature_list_dense_missing_assumed_empty"};
enum { LISTS = TD_COUNT(lists), FIRST_LIST = 2 /* input */ };

static td_status *any_infer(td_infer *c) {
  asked a = {.sparse = (int)td_infer_int(c, "Ncontext_sparse"),
             .dense = length(c, "Tcontext_dense"),
             .ragged = length(c, "context_ragged_value_types"),
             .list_sparse = (int)td_infer_int(c, "Nfeature_list_sparse"),
             .list_dense = (int)td_infer_int(c, "Nfeature_list_dense"),
             .list_ragged = length(c, "feature_list_ragged_value_types"),
             .lengths = true,
             .first_default = FIRST_LIST + LISTS};
  const int n[] = {a.sparse,     a.dense,       a.ragged,    a.list_sparse,
                   a.list_dense, a.list_ragged, a.list_dense};
  TD_TRY(infer_batch(c, &a));
  TD_TRY(same_length(c, "context_ragged_split_types", a.ragged,
                     "context_ragged_value_types"));
  TD_TRY(same_length(c, "feature_list_ragged_split_types", a.list_ragged,
                     "feature_list_ragged_value_types"));
  for (int i = 0; i < LISTS; i++)
    TD_TRY(
        td_example_check_keys(td_infer_in(c, FIRST_LIST + i), lists[i], n[i]));
  TD_TRY(infer_context(c, &a));
  give(c, &a, a.ragged, td_shape_vector(-1));
  give(c, &a, a.ragged, splits(&a));
  TD_TRY(infer_lists(c, &a));
  give(c, &a, a.list_ragged, td_shape_vector(-1));
  give(c, &a, a.list_ragged, splits(&a));
  give(c, &a, a.list_ragged, td_shape_vector(-1));
  return NULL;
}

static td_status *single_infer(td_infer *c) {
  asked a = {.sparse = (int)td_infer_int(c, "Ncontext_sparse"),
             .dense = length(c, "Tcontext_dense"),
             .list_sparse = (int)td_infer_int(c, "Nfeature_list_sparse"),
             .list_dense = (int)td_infer_int(c, "Nfeature_list_dense")};
  int n_keys = (int)td_infer_int(c, "Ncontext_dense");
  int keys = a.sparse + n_keys + a.list_sparse + a.list_dense;
  a.first_default = 2 + keys;
  TD_TRY(td_infer_rank(c, 0, 0, "serialized", NULL));
  TD_TRY(
      td_infer_rank(c, 1, 1, "feature_list_dense_missing_assumed_empty", NULL));
  TD_TRY(same_length(c, "Tcontext_dense", n_keys,
                     "the number of context_dense_keys"));
  for (int i = 0; i < keys; i++)
    TD_TRY(td_infer_rank(c, 2 + i, 0, "a key", NULL));
  TD_TRY(td_infer_rank(c, a.first_default + a.dense, 0, "debug_name", NULL));
  TD_TRY(infer_context(c, &a));
  return infer_lists(c, &a);
}

/* ---- lists as they are asked for ----------------------------------------- */

/* Which dense lists may lack: a flag for each, or keys. */
typedef struct lackable {
  const td_tensor *flags; /* or NULL */
  td_example_keys keys;
  int64_t n;
} lackable;

static bool may_lack(const lackable *l, int i, td_bytes key) {
  if (l->flags) return ((const bool *)l->flags->data)[i];
  for (int64_t k = 0; k < l->n; k++) {
    td_bytes other = td_example_key_at(&l->keys, (int)k);
    if (other.len == key.len && memcmp(other.at, key.at, key.len) == 0)
      return true;
  }
  return false;
}

/* The features, and which of the node's outputs are theirs. */
typedef struct wanted {
  const td_node *node;
  td_sequence_feature *features;
  int n;
  int arg; /* the next one of outputs */
} wanted;

static int outputs(wanted *w, int *n) {
  int first;
  td_node_out_range(w->node, w->arg++, &first, n);
  return first;
}

static void want_sparse(wanted *w, const td_example_keys *k) {
  int n, indices = outputs(w, &n);
  int values = outputs(w, &n), shapes = outputs(w, &n);
  for (int i = 0; i < n; i++)
    w->features[w->n++] =
        (td_sequence_feature){.key = td_example_key_at(k, i),
                              .form = TD_EXAMPLE_SPARSE,
                              .dtype = w->node->out[values + i].dtype,
                              .indices = indices + i,
                              .values = values + i,
                              .shapes = shapes + i};
}

static td_status *want_dense(wanted *w, const td_example_keys *k,
                             const lackable *l, bool lengths) {
  const td_attr *shapes = td_node_attr(w->node, "feature_list_dense_shapes");
  int n, values = outputs(w, &n);
  int first_length = lengths ? outputs(w, &n) : -1;
  for (int i = 0; i < n; i++) {
    td_sequence_feature *f = &w->features[w->n++];
    *f = (td_sequence_feature){.key = td_example_key_at(k, i),
                               .form = TD_EXAMPLE_DENSE,
                               .dtype = w->node->out[values + i].dtype,
                               .values = values + i,
                               .lengths = lengths ? first_length + i : -1,
                               .shape = shapes->shapes[i]};
    f->may_lack = may_lack(l, i, f->key);
    TD_TRY(td_array_count(&f->shape, &f->each));
  }
  return NULL;
}

static void want_ragged(wanted *w, const td_example_keys *k) {
  int n, values = outputs(w, &n);
  int outer = outputs(w, &n), inner = outputs(w, &n);
  for (int i = 0; i < n; i++)
    w->features[w->n++] =
        (td_sequence_feature){.key = td_example_key_at(k, i),
                              .form = TD_EXAMPLE_RAGGED,
                              .dtype = w->node->out[values + i].dtype,
                              .values = values + i,
                              .outer = outer + i,
                              .inner = inner + i};
}

/* ---- running ------------------------------------------------------------- */

/* Where an op says what. Keys: of the context's sparse, dense and ragged ones,
 * then of the lists'. */
typedef struct request {
  td_example_keys keys[6];
  lackable lackable;
  int defaults; /* input */
  bool ragged, lengths;
  const td_tensor *names; /* or NULL */
} request;

static td_status *parse_context(td_kernel_ctx *c, const request *r) {
  td_example_wanted w;
  TD_TRY(td_example_begin(&w, c));
  td_example_want_sparse(&w, &r->keys[0]);
  td_status *s =
      td_example_want_dense(&w, &r->keys[1], "context_", r->defaults);
  if (r->ragged) td_example_want_ragged(&w, &r->keys[2]);
  return td_example_finish(&w, s, r->names);
}

static td_status *parse_lists(td_kernel_ctx *c, const request *r) {
  wanted w = {.node = td_ctx_node(c), .arg = r->ragged ? 6 : 4};
  w.features = td_calloc((size_t)c->n_out + 1, sizeof *w.features);
  if (!w.features) return td_oom();
  want_sparse(&w, &r->keys[3]);
  td_status *s = want_dense(&w, &r->keys[4], &r->lackable, r->lengths);
  if (r->ragged) want_ragged(&w, &r->keys[5]);
  if (td_ok(s)) s = td_sequence_parse(c, r->names, w.features, w.n);
  td_free(w.features);
  return s;
}

/* Names of a batch; of one SequenceExample a vector of one is as good. */
static td_status *parse(td_kernel_ctx *c, request *r) {
  td_tensor alone;
  if (r->names && td_in(c, 0)->shape.rank == 0 &&
      td_tensor_count(r->names) == 1) {
    alone = *r->names;
    alone.shape = td_shape_scalar();
    r->names = &alone;
  }
  TD_TRY(parse_context(c, r));
  return parse_lists(c, r);
}

static td_status *batch_run(td_kernel_ctx *c) {
  static const int slot[] = {0, 1, 3, 4}; /* of `lists`, and of keys */
  const td_node *node = td_ctx_node(c);
  const td_attr *empty =
      td_node_attr(node, "feature_list_dense_missing_assumed_empty");
  request r = {.names = td_in(c, 1), .defaults = 2, .lengths = true};
  td_shape_text text;
  if (td_in(c, 0)->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "serialized must be of rank 1, not %s",
                    td_shape_str(&td_in(c, 0)->shape, &text));
  for (size_t i = 0; i < TD_COUNT(slot); i++)
    r.keys[slot[i]].attr = td_node_attr(node, lists[slot[i]]);
  r.lackable = (lackable){.keys.attr = empty, .n = empty->len};
  return parse(c, &r);
}

static td_status *any_run(td_kernel_ctx *c) {
  static const int output[] = {1, 3, 4, 7, 9, 11, 9};
  request r = {.names = td_in(c, 1),
               .defaults = FIRST_LIST + LISTS,
               .ragged = true,
               .lengths = true};
  for (int i = 0; i < LISTS; i++) {
    int first, n;
    const td_tensor *in = td_in(c, FIRST_LIST + i);
    td_node_out_range(td_ctx_node(c), output[i], &first, &n);
    TD_TRY(td_example_check_keys(&in->shape, lists[i], n));
    if (i < 6) r.keys[i] = (td_example_keys){.tensors = in, .vector = true};
  }
  r.lackable.flags = td_in(c, FIRST_LIST + LISTS - 1);
  return parse(c, &r);
}

static td_status *single_run(td_kernel_ctx *c) {
  static const int slot[] = {0, 1, 3, 4}; /* of `lists`, and of keys */
  const td_node *node = td_ctx_node(c);
  td_shape_text text;
  int first, n;
  request r = {0};
  if (td_in(c, 0)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "serialized must be a scalar, not of shape %s",
                    td_shape_str(&td_in(c, 0)->shape, &text));
  if (td_in(c, 1)->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "feature_list_dense_missing_assumed_empty must be of rank "
                    "1, not %s",
                    td_shape_str(&td_in(c, 1)->shape, &text));
  for (int i = 0; i < 4; i++) {
    TD_TRY(td_example_check_scalars(c, 2 + i, lists[slot[i]]));
    td_node_in_range(node, 2 + i, &first, &n);
    r.keys[slot[i]].tensors = c->in + first;
  }
  r.lackable = (lackable){.keys = {.tensors = td_in(c, 1), .vector = true},
                          .n = td_tensor_count(td_in(c, 1))};
  td_node_in_range(node, 6, &r.defaults, &n);
  TD_TRY(td_example_check_scalars(c, 7, "debug_name"));
  r.names = td_in(c, r.defaults + n);
  if (td_text_at(r.names, 0).len == 0) r.names = NULL;
  return parse(c, &r);
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "list({float, int64, string}) >= 0 = {}"
#define SPLITS "list({int32, int64}) >= 0 = {}"
#define COUNT "int >= 0 = 0"
#define SHAPES "list(shape) >= 0 = {}"
#define CONTEXT                                                                \
  "context_sparse_indices: Ncontext_sparse*int64, "                            \
  "context_sparse_values: context_sparse_types, "                              \
  "context_sparse_shapes: Ncontext_sparse*int64, "                             \
  "context_dense_values: Tcontext_dense, "
#define LISTED                                                                 \
  "feature_list_sparse_indices: Nfeature_list_sparse*int64, "                  \
  "feature_list_sparse_values: feature_list_sparse_types, "                    \
  "feature_list_sparse_shapes: Nfeature_list_sparse*int64, "                   \
  "feature_list_dense_values: feature_list_dense_types"
#define LENGTHS ", feature_list_dense_lengths: Nfeature_list_dense*int64"
#define ATTRS                                                                  \
  "; Ncontext_sparse: " COUNT "; Ncontext_dense: " COUNT                       \
  "; Nfeature_list_sparse: " COUNT "; Nfeature_list_dense: " COUNT             \
  "; context_sparse_types: " TYPES "; Tcontext_dense: " TYPES                  \
  "; feature_list_dense_types: " TYPES "; context_dense_shapes: " SHAPES       \
  "; feature_list_sparse_types: " TYPES "; feature_list_dense_shapes: " SHAPES
#define KEYS "list(string) >= 0"
#define ROW                                                                    \
  .cost = td_cost_move, .flags = TD_NO_GRADIENT, .lua = "",                    \
  .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "ParseSequenceExample",
     .sig = "serialized: string, debug_name: string, "
            "context_dense_defaults: Tcontext_dense -> " CONTEXT LISTED LENGTHS
            "; feature_list_dense_missing_assumed_empty: " KEYS
            "; context_sparse_keys: " KEYS "; context_dense_keys: " KEYS
            "; feature_list_sparse_keys: " KEYS
            "; feature_list_dense_keys: " KEYS ATTRS,
     .shape = batch_infer,
     .doc = "A batch of SequenceExamples as tensors: for each key of the "
            "context and of the lists a sparse or a dense one.",
     ROW},
    {.type = "ParseSequenceExampleV2",
     .sig = "serialized: string, debug_name: string, "
            "context_sparse_keys: string, context_dense_keys: string, "
            "context_ragged_keys: string, feature_list_sparse_keys: string, "
            "feature_list_dense_keys: string, "
            "feature_list_ragged_keys: string, "
            "feature_list_dense_missing_assumed_empty: bool, "
            "context_dense_defaults: Tcontext_dense -> " CONTEXT
            "context_ragged_values: context_ragged_value_types, "
            "context_ragged_row_splits: context_ragged_split_types, " LISTED
                LENGTHS
            ", feature_list_ragged_values: feature_list_ragged_value_types, "
            "feature_list_ragged_outer_splits: "
            "feature_list_ragged_split_types, "
            "feature_list_ragged_inner_splits: "
            "feature_list_ragged_split_types; Ncontext_sparse: " COUNT
            "; Tcontext_dense: " TYPES "; context_sparse_types: " TYPES
            "; context_ragged_value_types: " TYPES
            "; context_ragged_split_types: " SPLITS
            "; context_dense_shapes: " SHAPES "; Nfeature_list_sparse: " COUNT
            "; Nfeature_list_dense: " COUNT "; feature_list_dense_types: " TYPES
            "; feature_list_sparse_types: " TYPES
            "; feature_list_ragged_value_types: " TYPES
            "; feature_list_ragged_split_types: " SPLITS
            "; feature_list_dense_shapes: " SHAPES,
     .shape = any_infer,
     .doc = "SequenceExamples, a batch or one, as tensors: for each key of the "
            "context and of the lists a sparse, a dense or a ragged one.",
     ROW},
    {.type = "ParseSingleSequenceExample",
     .sig = "serialized: string, "
            "feature_list_dense_missing_assumed_empty: string, "
            "context_sparse_keys: Ncontext_sparse*string, "
            "context_dense_keys: Ncontext_dense*string, "
            "feature_list_sparse_keys: Nfeature_list_sparse*string, "
            "feature_list_dense_keys: Nfeature_list_dense*string, "
            "context_dense_defaults: Tcontext_dense, debug_name: string "
            "-> " CONTEXT LISTED ATTRS,
     .shape = single_infer,
     .doc = "One SequenceExample as tensors: for each key of the context and "
            "of the lists a sparse or a dense one.",
     ROW},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ParseSequenceExample", .device = "CPU", .run = batch_run},
    {.op = "ParseSequenceExampleV2", .device = "CPU", .run = any_run},
    {.op = "ParseSingleSequenceExample", .device = "CPU", .run = single_run},
    {0},
};

TD_MODULE(parse_sequence_example, ops, kernels)
