/* non_max_suppression.c - NonMaxSuppression: the best of boxes {y1, x1, y2, x2}
 * that overlap.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/operand.h"

typedef struct choice {
  int64_t n, most;
  const td_tensor *boxes, *scores;
  float overlap, least; /* what is above, and not above, is left out */
  int32_t *chosen;
  int64_t count;
} choice;

typedef struct scored {
  double score;
  int64_t i;
} scored;

static int by_score(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->i < y->i ? -1 : x->i > y->i;
}

/* Corners in order. */
static void corners(const choice *j, int64_t i, float *out) {
  for (int k = 0; k < 2; k++) {
    float a = (float)td_tensor_get_f(j->boxes, 4 * i + k);
    float b = (float)td_tensor_get_f(j->boxes, 4 * i + k + 2);
    out[k] = a < b ? a : b;
    out[k + 2] = a < b ? b : a;
  }
}

static float area(const float *b) {
  return (b[2] - b[0]) * (b[3] - b[1]);
}

/* What both cover, as a share of what either does. */
static float overlap(const float *a, const float *b) {
  float height = fminf(a[2], b[2]) - fmaxf(a[0], b[0]);
  float width = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
  if (area(a) <= 0 || area(b) <= 0) return 0;
  if (!(height > 0) || !(width > 0)) return 0;
  float both = height * width;
  return both / (area(a) + area(b) - both);
}

static void choose(choice *j, const scored *list, int64_t n) {
  for (int64_t i = 0; i < n && j->count < j->most; i++) {
    float mine[4], other[4];
    bool keep = true;
    corners(j, list[i].i, mine);
    for (int64_t k = j->count - 1; keep && k >= 0; k--) {
      corners(j, j->chosen[k], other);
      keep = !(overlap(mine, other) > j->overlap);
    }
    if (keep) j->chosen[j->count++] = (int32_t)list[i].i;
  }
}

static td_status *run_choice(choice *j) {
  scored *list = td_calloc((size_t)j->n + 1, sizeof *list);
  j->chosen = td_calloc((size_t)j->n + 1, sizeof *j->chosen);
  td_status *s = list && j->chosen ? NULL : td_oom();
  int64_t n = 0;
  for (int64_t i = 0; td_ok(s) && i < j->n; i++) {
    double score = td_tensor_get_f(j->scores, i);
    if (score > (double)j->least) list[n++] = (scored){score, i};
  }
  if (td_ok(s)) {
    qsort(list, (size_t)n, sizeof *list, by_score);
    choose(j, list, n);
  }
  td_free(list);
  return s;
}

static td_status *read_number(const td_tensor *t, const char *what,
                              float *out) {
  td_shape_text text;
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not %s", what,
                    td_shape_str(&t->shape, &text));
  *out = (float)td_tensor_get_f(t, 0);
  return NULL;
}

static td_status *read_choice(td_kernel_ctx *c, choice *j) {
  td_shape_text a, b;
  j->boxes = td_in(c, 0), j->scores = td_in(c, 1);
  const td_shape *s = &j->boxes->shape, *t = &j->scores->shape;
  if (s->rank != 2 || s->dim[1] != 4 || t->rank != 1 || t->dim[0] != s->dim[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "boxes must be {n, 4} and scores {n}, not %s and %s",
                    td_shape_str(s, &a), td_shape_str(t, &b));
  if (s->dim[0] > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "boxes are too many: %lld",
                    (long long)s->dim[0]);
  j->n = s->dim[0];
  TD_TRY(td_operand_scalar(td_in(c, 2), "max_output_size", &j->most));
  if (j->most < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "max_output_size must not be below 0, but is %lld",
                    (long long)j->most);
  j->overlap = td_node_float(td_ctx_node(c), "iou_threshold");
  j->least = -INFINITY;
  if (c->n_in > 3)
    TD_TRY(read_number(td_in(c, 3), "iou_threshold", &j->overlap));
  if (c->n_in > 4)
    TD_TRY(read_number(td_in(c, 4), "score_threshold", &j->least));
  if (!(j->overlap >= 0 && j->overlap <= 1))
    return td_error(TD_INVALID_ARGUMENT,
                    "iou_threshold must be from 0 to 1, not %g",
                    (double)j->overlap);
  return NULL;
}

static td_status *put_choice(td_kernel_ctx *c, const choice *j) {
  bool pad = td_node_bool(td_ctx_node(c), "pad_to_max_output_size");
  td_shape shape = td_shape_vector(pad ? j->most : j->count);
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &shape, &y));
  memset(y->data, 0, td_tensor_bytes(y));
  memcpy(y->data, j->chosen, (size_t)j->count * sizeof *j->chosen);
  if (c->n_out == 1) return NULL;
  TD_TRY(td_out(c, 1, &scalar, &y));
  *(int32_t *)y->data = (int32_t)j->count;
  return NULL;
}

static td_status *choose_run(td_kernel_ctx *c) {
  choice j = {0};
  TD_TRY(read_choice(c, &j));
  td_status *s = run_choice(&j);
  if (td_ok(s)) s = put_choice(c, &j);
  td_free(j.chosen);
  return s;
}

static td_status *choose_infer(td_infer *c) {
  td_small most;
  td_shape s = td_shape_vector(-1);
  TD_TRY(td_infer_rank(c, 0, 2, "boxes", NULL));
  TD_TRY(td_infer_rank(c, 1, 1, "scores", NULL));
  TD_TRY(td_infer_rank(c, 2, 0, "max_output_size", NULL));
  if (td_infer_bool(c, "pad_to_max_output_size") &&
      td_infer_small(c, 2, &most) && most.known[0] && most.at[0] >= 0)
    s.dim[0] = most.at[0];
  td_infer_out(c, 0, s);
  if (td_infer_outputs(c) > 1) td_infer_out(c, 1, td_shape_scalar());
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "T: {half, float} = float; T_threshold: {half, float} = float"
#define BOXES "boxes: T, scores: T, max_output_size: int32, "

static const td_op_def ops[] = {
    {.type = "NonMaxSuppression",
     .sig = "boxes: float, scores: float, max_output_size: int32 -> "
            "selected_indices: int32; iou_threshold: float = 0.5",
     .shape = choose_infer,
     .doc = "The best boxes of those that overlap.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "max_output_size",
     .section = "Image"},
    {.type = "NonMaxSuppressionV2",
     .sig = BOXES "iou_threshold: T_threshold -> selected_indices: int32; "
                  "" TYPES,
     .shape = choose_infer,
     .doc = "The best boxes of those that overlap.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "max_output_size",
     .section = "Image"},
    {.type = "NonMaxSuppressionV3",
     .sig = BOXES "iou_threshold: T_threshold, score_threshold: T_threshold "
                  "-> selected_indices: int32; " TYPES,
     .shape = choose_infer,
     .doc = "The best boxes of those that overlap by more than iou_threshold, "
            "with scores above score_threshold.",
     .lua = "non_max_suppression",
     .example = "td.non_max_suppression({{0, 0, 1, 1}, {0, 0, 1, 0.9}, {2, 2, "
                "3, 3}}, {0.5, 0.9, 0.1}, 3, 0.5, 0.0)  --> 1 2",
     .flags = TD_NO_GRADIENT,
     .host = "max_output_size",
     .section = "Image"},
    {.type = "NonMaxSuppressionV4",
     .sig = BOXES "iou_threshold: T_threshold, score_threshold: T_threshold "
                  "-> selected_indices: int32, valid_outputs: int32; " TYPES
                  "; pad_to_max_output_size: bool = false",
     .shape = choose_infer,
     .doc = "The same, with how many there are, and zeros up to "
            "max_output_size.",
     .lua = "",
     .flags = TD_NO_GRADIENT,
     .host = "max_output_size",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "NonMaxSuppression", .device = "CPU", .run = choose_run},
    {.op = "NonMaxSuppressionV2", .device = "CPU", .run = choose_run},
    {.op = "NonMaxSuppressionV3", .device = "CPU", .run = choose_run},
    {.op = "NonMaxSuppressionV4", .device = "CPU", .run = choose_run},
    {0},
};

TD_MODULE(non_max_suppression, ops, kernels)
