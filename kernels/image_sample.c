/* image_sample.c - SampleDistortedBoundingBox: a random window that covers
 * enough of an object.
 *
 * Draws as TensorFlow does: a share of four words is reserved for each attempt,
 * an attempt takes one word for the aspect ratio and one for each whole number,
 * and more where a word would favour small numbers. After max_attempts the
 * whole picture is the window.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "engine/base/mem.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/random.h"

typedef struct window {
  int64_t top, left, low, right;
} window;

typedef struct job {
  int64_t height, width;
  float covered; /* of an object, at least */
  float ratio[2], share[2];
  int64_t attempts;
  window *objects;
  int64_t n_objects;
  td_philox p;
  uint32_t words[4];
  int used;
} job;

/* ---- words --------------------------------------------------------------- */

static uint32_t word(job *j) {
  if (j->used == 4) {
    td_philox_next(&j->p, j->words);
    j->used = 0;
  }
  return j->words[j->used++];
}

/* In [0, 1), from the low 23 bits. */
static float fraction(job *j) {
  return (float)(word(j) & 0x7fffff) * 0x1p-23f;
}

/* In [0, n), each alike. */
static int64_t whole(job *j, int64_t n) {
  uint32_t m = (uint32_t)n, w;
  if ((m & (m - 1)) == 0) return word(j) & (m - 1);
  uint32_t rest = UINT32_MAX % m + 1;
  do w = word(j);
  while (w < rest);
  return w % m;
}

/* ---- one attempt --------------------------------------------------------- */

static int64_t width_of(int64_t height, float ratio) {
  return lrintf((float)height * ratio);
}

/* The most rows whose width is still inside the picture. */
static int64_t most_rows(const job *j, float area, float ratio) {
  const float margin = 0.0000001f;
  int64_t rows = lrintf(sqrtf(area / ratio));
  if (width_of(rows, ratio) > j->width) {
    rows = (int64_t)(((float)j->width + 0.5f - margin) / ratio);
    if (width_of(rows, ratio) > j->width) rows--;
  }
  return rows > j->height ? j->height : rows;
}

static bool draw(job *j, float ratio, window *out) {
  float all = (float)j->height * (float)j->width;
  float least = j->share[0] * all, most = j->share[1] * all;
  int64_t rows = lrintf(sqrtf(least / ratio));
  int64_t limit = most_rows(j, most, ratio);
  if (rows >= limit)
    rows = limit;
  else
    rows += whole(j, limit - rows + 1);
  int64_t columns = width_of(rows, ratio);
  /* Rounding may have left the bounds. */
  if ((float)(rows * columns) < least) columns = width_of(++rows, ratio);
  if ((float)(rows * columns) > most) columns = width_of(--rows, ratio);
  float area = (float)(rows * columns);
  if (area < least || area > most || rows < 1 || columns < 1 ||
      rows > j->height || columns > j->width)
    return false;
  out->top = rows < j->height ? whole(j, j->height - rows) : 0;
  out->left = columns < j->width ? whole(j, j->width - columns) : 0;
  out->low = out->top + rows;
  out->right = out->left + columns;
  return true;
}

static float area_of(const window *w) {
  if (w->low <= w->top || w->right <= w->left) return 0;
  return (float)((w->low - w->top) * (w->right - w->left));
}

static bool covers(const job *j, const window *w) {
  if (area_of(w) < 1) return false;
  for (int64_t i = 0; i < j->n_objects; i++) {
    const window *o = &j->objects[i];
    float size = area_of(o);
    if (size < 1) continue;
    window both = {o->top > w->top ? o->top : w->top,
                   o->left > w->left ? o->left : w->left,
                   o->low < w->low ? o->low : w->low,
                   o->right < w->right ? o->right : w->right};
    if (area_of(&both) / size >= j->covered) return true;
  }
  return false;
}

static window sample(job *j) {
  window w;
  for (int64_t i = 0; i < j->attempts; i++) {
    float ratio = fraction(j) * (j->ratio[1] - j->ratio[0]) + j->ratio[0];
    if (draw(j, ratio, &w) && covers(j, &w)) return w;
  }
  return (window){0, 0, j->height, j->width};
}

/* ---- what is asked ------------------------------------------------------- */

static td_status *read_pair(const td_node *n, const char *name, float most,
                            float out[2]) {
  const td_attr *a = td_node_attr(n, name);
  if (a && a->len == 2) {
    out[0] = a->fs[0], out[1] = a->fs[1];
    if (out[0] > 0 && out[0] <= out[1] && out[1] <= most) return NULL;
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be two numbers above 0, the smaller one first%s",
                  name, most > 1 ? "" : ", up to 1");
}

static td_status *read_size(const td_tensor *t, job *j) {
  td_small size;
  TD_TRY(td_operand_ints(t, "image_size", &size));
  if (size.rank != 1 || size.count != 3 || size.at[0] < 1 || size.at[1] < 1 ||
      size.at[0] > INT32_MAX || size.at[1] > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "image_size must be {height, width, channels} of 1 pixel "
                    "or more");
  j->height = size.at[0], j->width = size.at[1];
  return NULL;
}

static td_status *read_object(job *j, const float *box, int64_t i) {
  for (int k = 0; k < 4; k++)
    if (!(box[k] >= 0 && box[k] <= 1))
      return td_error(TD_INVALID_ARGUMENT,
                      "bounding box %lld: %g is not from 0 to 1", (long long)i,
                      (double)box[k]);
  if (!(box[0] < box[2]) || !(box[1] < box[3]))
    return td_error(TD_INVALID_ARGUMENT,
                    "bounding box %lld is empty: it must be {y1, x1, y2, x2} "
                    "with y1 < y2 and x1 < x2",
                    (long long)i);
  j->objects[i] = (window){(int64_t)(box[0] * (float)j->height),
                           (int64_t)(box[1] * (float)j->width),
                           (int64_t)(box[2] * (float)j->height),
                           (int64_t)(box[3] * (float)j->width)};
  return NULL;
}

static td_status *read_objects(const td_kernel_ctx *c, job *j) {
  const td_tensor *t = td_in(c, 1);
  td_shape_text text;
  if (t->shape.rank != 3 || t->shape.dim[2] != 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "bounding_boxes must be {batch, n, 4}, not %s",
                    td_shape_str(&t->shape, &text));
  int64_t n = t->shape.dim[0] * t->shape.dim[1];
  bool whole_picture =
      td_node_bool(td_ctx_node(c), "use_image_if_no_bounding_boxes");
  if (n == 0 && !whole_picture)
    return td_error(TD_INVALID_ARGUMENT,
                    "there are no bounding boxes: "
                    "use_image_if_no_bounding_boxes takes the whole picture");
  j->objects = td_calloc((size_t)n + 1, sizeof *j->objects);
  if (!j->objects) return td_oom();
  j->n_objects = n;
  for (int64_t i = 0; i < n; i++)
    TD_TRY(read_object(j, (const float *)t->data + 4 * i, i));
  if (n > 0) return NULL;
  j->objects[0] = (window){0, 0, j->height, j->width};
  j->n_objects = 1;
  return NULL;
}

static td_status *read_job(td_kernel_ctx *c, job *j) {
  const td_node *n = td_ctx_node(c);
  j->covered = td_node_float(n, "min_object_covered");
  if (c->n_in > 2) {
    if (td_in(c, 2)->shape.rank != 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "min_object_covered must be a scalar");
    j->covered = *(const float *)td_in(c, 2)->data;
  }
  if (!(j->covered >= 0 && j->covered <= 1))
    return td_error(TD_INVALID_ARGUMENT,
                    "min_object_covered must be from 0 to 1, not %g",
                    (double)j->covered);
  j->attempts = td_node_int(n, "max_attempts");
  if (j->attempts < 1 || j->attempts > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "max_attempts must be above 0");
  TD_TRY(read_pair(n, "aspect_ratio_range", INFINITY, j->ratio));
  TD_TRY(read_pair(n, "area_range", 1, j->share));
  TD_TRY(read_size(td_in(c, 0), j));
  return read_objects(c, j);
}

/* ---- the kernel ---------------------------------------------------------- */

static td_status *put_window(td_kernel_ctx *c, const job *j, const window *w) {
  td_shape three = td_shape_vector(3);
  td_shape box = td_shape_of(3, (int64_t[]){1, 1, 4});
  td_tensor *begin, *size, *boxes;
  TD_TRY(td_out(c, 0, &three, &begin));
  TD_TRY(td_out(c, 1, &three, &size));
  TD_TRY(td_out(c, 2, &box, &boxes));
  const int64_t first[] = {w->top, w->left, 0};
  const int64_t sizes[] = {w->low - w->top, w->right - w->left, -1};
  for (int i = 0; i < 3; i++) {
    td_tensor_set_i(begin, i, first[i]);
    td_tensor_set_i(size, i, sizes[i]);
  }
  float *at = boxes->data;
  at[0] = (float)w->top / (float)j->height;
  at[1] = (float)w->left / (float)j->width;
  at[2] = (float)w->low / (float)j->height;
  at[3] = (float)w->right / (float)j->width;
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  job j = {.used = 4};
  td_status *s = read_job(c, &j);
  if (td_ok(s)) {
    j.p = td_random_reserve(c, (uint64_t)j.attempts);
    window w = sample(&j);
    s = put_window(c, &j, &w);
  }
  td_free(j.objects);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 1, "image_size", NULL));
  TD_TRY(td_infer_rank(c, 1, 3, "bounding_boxes", NULL));
  if (td_infer_inputs(c) > 2)
    TD_TRY(td_infer_rank(c, 2, 0, "min_object_covered", NULL));
  td_infer_out(c, 0, td_shape_vector(3));
  td_infer_out(c, 1, td_shape_vector(3));
  td_infer_out(c, 2, td_shape_of(3, (int64_t[]){1, 1, 4}));
  return NULL;
}

#define OUTPUTS                                                                \
  " -> begin: T, size: T, bboxes: float; T: {uint8, int8, int16, int32, "      \
  "int64}; seed: int = 0; seed2: int = 0; "
#define RANGES                                                                 \
  "aspect_ratio_range: list(float) = {0.75, 1.33}; "                           \
  "area_range: list(float) = {0.05, 1}; max_attempts: int = 100; "             \
  "use_image_if_no_bounding_boxes: bool = false"

static const td_op_def ops[] = {
    {.type = "SampleDistortedBoundingBox",
     .sig = "image_size: T, bounding_boxes: float" OUTPUTS
            "min_object_covered: float = 0.1; " RANGES,
     .shape = infer,
     .doc = "A random window of a picture that covers enough of an object.",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "*",
     .section = "Image"},
    {.type = "SampleDistortedBoundingBoxV2",
     .sig = "image_size: T, bounding_boxes: float, min_object_covered: "
            "float" OUTPUTS RANGES,
     .shape = infer,
     .doc = "A random window of a picture that covers at least the share "
            "min_object_covered of an object: where to slice, what size, and "
            "the window as a box.",
     .lua = "sample_distorted_bounding_box",
     .example = "td.sample_distorted_bounding_box({9, 9, 3}, {{{0, 0, 1, "
                "1}}}, 0.5).shape  --> {3}",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "*",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SampleDistortedBoundingBox",
     .device = "CPU",
     TD_RANDOM_STREAM,
     .run = run},
    {.op = "SampleDistortedBoundingBoxV2",
     .device = "CPU",
     TD_RANDOM_STREAM,
     .run = run},
    {0},
};

TD_MODULE(image_sample, ops, kernels)
