/* candidate_hits.c - where classes that were drawn are true ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdlib.h>

#include "engine/device/kernel.h"

typedef struct drawn {
  int64_t class;
  int64_t place;
} drawn;

/* By class, and of one class the last drawn first. */
static int order(const void *a, const void *b) {
  const drawn *x = a, *y = b;
  if (x->class != y->class) return x->class < y->class ? -1 : 1;
  return x->place > y->place ? -1 : x->place < y->place;
}

/* The last place of a class among those drawn, or -1. */
static int64_t find(const drawn *list, int64_t n, int64_t class) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (list[middle].class < class)
      low = middle + 1;
    else
      high = middle;
  }
  return low < n && list[low].class == class ? list[low].place : -1;
}

static td_status *check(const td_shape *seen, const td_shape *sampled,
                        int64_t num_true) {
  td_shape_text text;
  if (seen->rank >= 0 &&
      (seen->rank != 2 || (seen->dim[1] >= 0 && seen->dim[1] != num_true)))
    return td_error(TD_INVALID_ARGUMENT,
                    "true_classes must be of shape {batch, num_true = %lld}, "
                    "not %s",
                    (long long)num_true, td_shape_str(seen, &text));
  if (sampled->rank < 0 || sampled->rank == 1) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "sampled_candidates must be a vector, not of shape %s",
                  td_shape_str(sampled, &text));
}

static td_status *infer(td_infer *c) {
  int64_t hits = -1;
  TD_TRY(
      check(td_infer_in(c, 0), td_infer_in(c, 1), td_infer_int(c, "num_true")));
  for (int i = 0; i < 3; i++) td_infer_out(c, i, td_shape_of(1, &hits));
  return NULL;
}

static int64_t count_hits(const drawn *list, int64_t n, const td_tensor *seen) {
  const int64_t *class = seen->data;
  int64_t hits = 0;
  for (int64_t i = 0; i < td_tensor_count(seen); i++)
    hits += find(list, n, class[i]) >= 0;
  return hits;
}

static td_status *write(td_kernel_ctx *c, const drawn *list, int64_t n) {
  const td_tensor *seen = td_in(c, 0);
  const int64_t *class = seen->data;
  td_shape shape = td_shape_vector(count_hits(list, n, seen));
  td_tensor *rows, *ids, *weights;
  if (seen->shape.dim[0] > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "a batch of %lld is too large",
                    (long long)seen->shape.dim[0]);
  TD_TRY(td_out(c, 0, &shape, &rows));
  TD_TRY(td_out(c, 1, &shape, &ids));
  TD_TRY(td_out(c, 2, &shape, &weights));
  int64_t hit = 0, each = seen->shape.dim[1];
  for (int64_t i = 0; i < td_tensor_count(seen); i++) {
    int64_t place = find(list, n, class[i]);
    if (place < 0) continue;
    ((int32_t *)rows->data)[hit] = (int32_t)(i / each);
    ((int64_t *)ids->data)[hit] = place;
    ((float *)weights->data)[hit++] = -FLT_MAX;
  }
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_tensor *sampled = td_in(c, 1);
  int64_t n = td_tensor_count(sampled);
  TD_TRY(check(&td_in(c, 0)->shape, &sampled->shape,
               td_node_int(td_ctx_node(c), "num_true")));
  drawn *list = td_calloc((size_t)n + 1, sizeof *list);
  if (!list) return td_oom();
  for (int64_t i = 0; i < n; i++)
    list[i] = (drawn){((const int64_t *)sampled->data)[i], i};
  qsort(list, (size_t)n, sizeof *list, order);
  td_status *s = write(c, list, n);
  td_free(list);
  return s;
}

static const td_op_def ops[] = {
    {.type = "ComputeAccidentalHits",
     .sig = "true_classes: int64, sampled_candidates: int64 -> indices: int32, "
            "ids: int64, weights: float; num_true: int; seed: int = 0; "
            "seed2: int = 0",
     .shape = infer,
     .doc = "Where a true class was drawn: its row, its place among the drawn, "
            "and the lowest float.",
     .lua = "compute_accidental_hits",
     .flags = TD_NO_GRADIENT,
     .section = "Candidate sampling, embeddings, CTC",
     .example = "td.compute_accidental_hits({{5}, {7}}, {7, 3}, {num_true = "
                "1})  --> 1"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ComputeAccidentalHits", .device = "CPU", .run = run},
    {0},
};

TD_MODULE(candidate_hits, ops, kernels)
