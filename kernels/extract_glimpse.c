/* extract_glimpse.c - ExtractGlimpse: a window of each picture, at a place of
 * its own.
 *
 * A window that reaches beyond its picture is filled with noise first: between
 * the least and the largest number of the picture, evenly, or normal with its
 * mean and deviation, or zeros. The op has neither seed nor state: its noise is
 * the same in each run, so that equal nodes can be one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/operand.h"
#include "kernels/random.h"

enum { SEED = 0x61c88647 };

typedef enum noise { UNIFORM, GAUSSIAN, ZERO } noise;

typedef struct job {
  const td_kernel_ctx *ctx;
  int64_t rows, columns, channels; /* of a picture */
  int64_t high, wide;              /* of a window */
  bool centered, normalized;
  noise noise;
  td_philox stream;
  const float *pictures, *offsets;
  float *to;
} job;

/* ---- what is asked ------------------------------------------------------- */

static td_status *read_noise(const td_attr *uniform, td_bytes word,
                             noise *out) {
  static const char *const words[] = {"uniform", "gaussian", "zero"};
  for (int i = 0; i < 3; i++)
    if (word.len == strlen(words[i]) && !memcmp(word.at, words[i], word.len)) {
      *out = (noise)i;
      if (i == UNIFORM || !td_attr_as_bool(uniform)) return NULL;
      return td_error(TD_INVALID_ARGUMENT,
                      "uniform_noise must be false with noise = \"%s\"",
                      words[i]);
    }
  return td_error(TD_INVALID_ARGUMENT,
                  "noise must be \"uniform\", \"gaussian\" or \"zero\", not "
                  "\"%.*s\"",
                  (int)word.len, word.at);
}

static td_status *check_size(const td_small *size) {
  if (size->count != 2)
    return td_error(TD_INVALID_ARGUMENT, "size must be {height, width}");
  for (int i = 0; i < 2; i++)
    if (size->at[i] < 0)
      return td_error(TD_INVALID_ARGUMENT, "size must not be negative, is %lld",
                      (long long)size->at[i]);
  return NULL;
}

/* offsets must have a pair (y, x) for each of so many pictures. */
static td_status *check_offsets(const td_shape *s, int64_t pictures) {
  td_shape_text text;
  td_shape pairs = td_shape_matrix(pictures, 2);
  if (td_shape_compatible(s, &pairs)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "offsets must have y and x for each picture, {%lld, 2}, not "
                  "%s",
                  (long long)pictures, td_shape_str(s, &text));
}

static td_status *infer(td_infer *c) {
  td_shape in;
  td_small size;
  noise n;
  TD_TRY(td_infer_rank(c, 0, 4, "input", &in));
  TD_TRY(check_offsets(td_infer_in(c, 2), in.dim[0]));
  TD_TRY(read_noise(td_infer_attr(c, "uniform_noise"),
                    td_infer_attr(c, "noise")->s, &n));
  td_shape out = td_shape_of(4, (int64_t[]){in.dim[0], -1, -1, in.dim[3]});
  bool known;
  TD_TRY(td_operand_infer_ints(c, 1, "size", &size, &known));
  if (known && td_operand_known(&size)) {
    TD_TRY(check_size(&size));
    out.dim[1] = size.at[0], out.dim[2] = size.at[1];
  }
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- noise --------------------------------------------------------------- */

typedef struct spread {
  double low, high, sum, squares;
  int64_t count;
} spread;

/* Of a channel of a picture. */
static spread spread_of(const job *j, const float *picture, int64_t channel) {
  spread s = {.low = INFINITY, .high = -INFINITY};
  s.count = j->rows * j->columns;
  for (int64_t i = 0; i < s.count; i++) {
    double v = (double)picture[i * j->channels + channel];
    s.low = v < s.low ? v : s.low;
    s.high = v > s.high ? v : s.high;
    s.sum += v;
    s.squares += v * v;
  }
  return s;
}

static double draw(const job *j, const spread *s, td_philox *stream) {
  uint32_t words[4];
  double pair[2];
  td_philox_next(stream, words);
  if (j->noise == UNIFORM)
    return s->low + (s->high - s->low) * td_random_double(words);
  double mean = s->sum / (double)s->count;
  double variance = s->squares / (double)s->count - mean * mean;
  td_random_normals(words, pair);
  double v = mean + sqrt(variance > 0 ? variance : 0) * pair[0];
  return v < s->low ? s->low : v > s->high ? s->high : v;
}

static void fill(const job *j, int64_t i, const float *picture, float *to) {
  int64_t cells = j->high * j->wide;
  td_philox stream = j->stream;
  memset(to, 0, (size_t)(cells * j->channels) * sizeof *to);
  if (j->noise == ZERO || j->rows * j->columns == 0) return;
  td_philox_skip(&stream, (uint64_t)(i * cells * j->channels));
  for (int64_t k = 0; k < j->channels; k++) {
    spread s = spread_of(j, picture, k);
    for (int64_t at = 0; at < cells; at++)
      to[at * j->channels + k] = (float)draw(j, &s, &stream);
  }
}

/* ---- windows ------------------------------------------------------------- */

/* The first cell of a window along an axis, towards zero; far outside where it
 * is no number of cells. */
static int64_t begin_of(const job *j, float offset, int64_t size,
                        int64_t window) {
  const float far = 0x1p40f;
  if (j->normalized) offset *= (float)size;
  if (j->centered) offset = offset / 2 + (float)size / 2;
  offset -= (float)window / 2;
  if (!(offset > -far)) return -(int64_t)far;
  return offset < far ? (int64_t)offset : (int64_t)far;
}

/* Cells of a window that lie in the picture. */
typedef struct overlap {
  int64_t from, to, count; /* first in the picture and in the window */
} overlap;

static overlap overlap_of(int64_t begin, int64_t size, int64_t window) {
  int64_t first = begin < 0 ? 0 : begin;
  int64_t end = begin + window < size ? begin + window : size;
  return (overlap){first, first - begin, end > first ? end - first : 0};
}

static void extract(const job *j, int64_t i) {
  const float *from = j->pictures + i * j->rows * j->columns * j->channels;
  float *to = j->to + i * j->high * j->wide * j->channels;
  const float *at = j->offsets + 2 * i;
  overlap y =
      overlap_of(begin_of(j, at[0], j->rows, j->high), j->rows, j->high);
  overlap x =
      overlap_of(begin_of(j, at[1], j->columns, j->wide), j->columns, j->wide);
  if (y.count < j->high || x.count < j->wide) fill(j, i, from, to);
  if (x.count == 0) return;
  for (int64_t k = 0; k < y.count; k++)
    memcpy(to + ((y.to + k) * j->wide + x.to) * j->channels,
           from + ((y.from + k) * j->columns + x.from) * j->channels,
           (size_t)(x.count * j->channels) * sizeof *to);
}

static void extract_some(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end && !td_stopped(j->ctx); i++) extract(j, i);
}

static td_status *read_job(td_kernel_ctx *c, job *j) {
  const td_node *n = td_ctx_node(c);
  const td_shape *in = &td_in(c, 0)->shape;
  td_shape_text text;
  td_small size;
  if (in->rank != 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "input must be {batch, height, width, channels}, not %s",
                    td_shape_str(in, &text));
  TD_TRY(td_operand_ints(td_in(c, 1), "size", &size));
  TD_TRY(check_size(&size));
  TD_TRY(check_offsets(&td_in(c, 2)->shape, in->dim[0]));
  *j = (job){.ctx = c,
             .rows = in->dim[1],
             .columns = in->dim[2],
             .channels = in->dim[3],
             .high = size.at[0],
             .wide = size.at[1],
             .centered = td_node_bool(n, "centered"),
             .normalized = td_node_bool(n, "normalized"),
             .pictures = td_in(c, 0)->data,
             .offsets = td_in(c, 2)->data};
  return read_noise(td_node_attr(n, "uniform_noise"),
                    td_node_attr(n, "noise")->s, &j->noise);
}

static td_status *run(td_kernel_ctx *c) {
  td_tensor *y;
  int64_t count;
  job j;
  TD_TRY(read_job(c, &j));
  int64_t pictures = td_in(c, 0)->shape.dim[0];
  td_shape out =
      td_shape_of(4, (int64_t[]){pictures, j.high, j.wide, j.channels});
  TD_TRY(td_array_count(&out, &count));
  TD_TRY(td_out(c, 0, &out, &y));
  if (count == 0) return NULL;
  j.to = y->data;
  td_philox_init(&j.stream, SEED, 0);
  td_for(c, pictures, td_grain_of(count / pictures), extract_some, &j);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ExtractGlimpse",
     .sig = "input: float, size: int32, offsets: float -> glimpse: float; "
            "centered: bool = true; normalized: bool = true; "
            "uniform_noise: bool = true; noise: string = \"uniform\"",
     .shape = infer,
     .cost = td_cost_move,
     .doc = "A window of each picture around its offset (y, x); noise where it "
            "reaches beyond.",
     .example = "td.extract_glimpse({{{{1.0}, {2.0}}, {{3.0}, {4.0}}}}, {1, 2},"
                " {{0.5, 0.0}})  --> 3 4",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ExtractGlimpse", .device = "CPU", .run = run},
    {0},
};

TD_MODULE(extract_glimpse, ops, kernels)
