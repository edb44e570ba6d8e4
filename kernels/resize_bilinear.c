/* resize_bilinear.c - ResizeBilinear: each pixel from the four around it.
 *
 * Forward by lines (resize_line.h): a piece keeps the two that it mixed last,
 * which the next line of the result mostly lies between, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/resize.h"
#include "kernels/resize_line.h"

/* ---- forward ------------------------------------------------------------- */

typedef struct job {
  td_resize r;
  const td_resize_loops *loops;
  td_resize_span *rows;
  td_resize_places places; /* of the columns */
  td_dtype dtype;          /* of the pictures */
  const char *from;
  float *to;
  int32_t failed; /* atomic: there was no memory */
} job;

enum { ALIGN = 64 }; /* bytes of a vector, at most */

static int64_t line_length(const td_resize *r) {
  return r->in_w * r->channels;
}

/* Every place by itself: elements from the begin of a line on. */
static void set_places(const td_resize *r, td_resize_places *p) {
  int64_t n = r->channels;
  for (int64_t k = 0, i = 0; k < r->out_w; k++) {
    td_resize_span x =
        td_resize_between(td_resize_at(r, r->scale_w, k), r->in_w);
    for (int64_t ch = 0; ch < n; ch++, i++) {
      p->low[i] = (int32_t)(x.low * n + ch);
      p->high[i] = (int32_t)(x.high * n + ch);
      p->share[i] = x.share;
    }
  }
}

/* Places [from, to), which are block b; it is filled up with nothing. */
static void set_block(const job *j, int64_t b, int64_t from, int64_t to) {
  const td_resize_places *p = &j->places;
  int32_t base = INT32_MAX, last = 0;
  for (int64_t i = from; i < to; i++) {
    if (p->low[i] < base) base = p->low[i];
    if (p->high[i] > last) last = p->high[i];
  }
  for (int64_t i = from; i < to; i++) {
    p->low[i] -= base;
    p->high[i] -= base;
  }
  for (int64_t i = to; i < from + j->loops->block; i++) {
    p->low[i] = p->high[i] = 0;
    p->share[i] = 0;
  }
  p->base[b] = base;
  p->near[b] = last - base < j->loops->window;
}

/* The spans of the rows and the places of the columns, in one block. */
static td_status *make_places(td_kernel_ctx *c, job *j, td_tensor *mem) {
  const td_resize *r = &j->r;
  td_resize_places *p = &j->places;
  int64_t block = j->loops->block, n = r->out_w * r->channels;
  if (line_length(r) > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "lines of %lld pixels of %lld channels are too long",
                    (long long)r->in_w, (long long)r->channels);
  p->blocks = (n + block - 1) / block;
  int64_t places = p->blocks * block;
  td_shape shape = td_shape_vector(
      places * (int64_t)(2 * sizeof *p->low + sizeof *p->share) +
      r->out_h * (int64_t)sizeof *j->rows +
      p->blocks * (int64_t)(sizeof *p->base + sizeof *p->near));
  TD_TRY(td_temp(c, TD_UINT8, &shape, mem));
  p->low = mem->data; /* aligned, as places are whole blocks */
  p->high = p->low + places;
  p->share = (float *)(void *)(p->high + places);
  j->rows = (td_resize_span *)(void *)(p->share + places);
  p->base = (int64_t *)(void *)(j->rows + r->out_h);
  p->near = (bool *)(void *)(p->base + p->blocks);
  td_resize_spans(r, r->scale_h, r->in_h, r->out_h, j->rows);
  set_places(r, p);
  for (int64_t b = 0; b < p->blocks; b++)
    set_block(j, b, b * block, b + 1 < p->blocks ? (b + 1) * block : n);
  return NULL;
}

/* The last two lines that a piece mixed, and room for the one it mixes. */
typedef struct lines {
  const job *j;
  void *memory; /* of the others */
  float *mixed[2], *line;
  int64_t number[2]; /* among the lines of all pictures; -1: none */
} lines;

static bool lines_new(const job *j, lines *l) {
  size_t length = (size_t)line_length(&j->r) + TD_RESIZE_ROOM;
  size_t places = (size_t)(j->places.blocks * j->loops->block);
  *l = (lines){.j = j, .number = {-1, -1}};
  l->memory = td_malloc((2 * places + length) * sizeof(float) + ALIGN);
  if (!l->memory) return false;
  uintptr_t at = ((uintptr_t)l->memory + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1);
  l->mixed[0] = (float *)at;
  l->mixed[1] = l->mixed[0] + places;
  l->line = l->mixed[1] + places;
  memset(l->line + length - TD_RESIZE_ROOM, 0, TD_RESIZE_ROOM * sizeof(float));
  return true;
}

/* A line of the pictures as floats that may be read behind their end. */
static const float *line_at(const lines *l, int64_t number) {
  const job *j = l->j;
  int64_t n = line_length(&j->r), count = j->r.batch * j->r.in_h;
  const char *from = j->from + (size_t)(number * n) * td_dtype_size(j->dtype);
  if (j->dtype == TD_FLOAT32 && (count - number - 1) * n >= TD_RESIZE_ROOM)
    return (const float *)(const void *)from;
  if (j->dtype == TD_UINT8)
    j->loops->bytes(n, (const uint8_t *)from, l->line);
  else
    td_resize_load(j->dtype, n, from, l->line);
  return l->line;
}

/* A mixed line; `other` is not the one that makes room for it. */
static const float *mixed_at(lines *l, int64_t number, int64_t other) {
  for (int i = 0; i < 2; i++)
    if (l->number[i] == number) return l->mixed[i];
  int i = l->number[0] == other ? 1 : 0;
  l->j->loops->mix(&l->j->places, line_at(l, number), l->mixed[i]);
  l->number[i] = number;
  return l->mixed[i];
}

/* Rows [begin, end) of the results of all pictures. */
static void resize_rows(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  const td_resize *r = &j->r;
  int64_t n = r->out_w * r->channels;
  lines l;
  if (!lines_new(j, &l)) {
    __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    td_resize_span y = j->rows[i % r->out_h];
    int64_t first = i / r->out_h * r->in_h;
    int64_t low = first + y.low, high = first + y.high;
    const float *above = mixed_at(&l, low, high);
    const float *below = mixed_at(&l, high, low);
    j->loops->blend(n, above, below, y.share, j->to + i * n);
  }
  td_free(l.memory);
}

static td_status *run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  job j = {.dtype = x->dtype,
           .from = x->data,
           .loops = td_resize_loops_of(td_cpu_isa())};
  td_shape shape;
  td_tensor *y, mem = {0};
  TD_TRY(td_resize_read(c, &j.r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (j.r.batch == 0) return NULL; /* sizes may be vast */
  TD_TRY(make_places(c, &j, &mem));
  j.to = y->data;
  td_for(c, j.r.batch * j.r.out_h, td_grain_of(4 * j.r.out_w * j.r.channels),
         resize_rows, &j);
  td_tensor_release(&mem);
  return __atomic_load_n(&j.failed, __ATOMIC_RELAXED) ? td_oom() : NULL;
}

/* ---- backward ------------------------------------------------------------ */

typedef struct spreading {
  td_resize r;
  td_resize_span *rows, *columns;
  const float *from;
  void *dx; /* of `dtype` */
  td_dtype dtype;
  double *sums; /* a picture of each piece's own */
} spreading;

/* One allocation for both; rows first. */
static td_status *make_spans(td_kernel_ctx *c, spreading *j, td_tensor *mem) {
  const td_resize *r = &j->r;
  int64_t bytes = (r->out_h + r->out_w) * (int64_t)sizeof(td_resize_span);
  td_shape shape = td_shape_vector(bytes);
  TD_TRY(td_temp(c, TD_UINT8, &shape, mem));
  j->rows = mem->data;
  j->columns = j->rows + r->out_h;
  td_resize_spans(r, r->scale_h, r->in_h, r->out_h, j->rows);
  td_resize_spans(r, r->scale_w, r->in_w, r->out_w, j->columns);
  return NULL;
}

/* Adds what one pixel of the result says of the four around it. */
static void spread(const float *g, int64_t n, float y, float x,
                   double *const at[4]) {
  for (int64_t ch = 0; ch < n; ch++) {
    float above = g[ch] * (1 - y), below = g[ch] * y;
    at[0][ch] += (double)(above * (1 - x));
    at[1][ch] += (double)(above * x);
    at[2][ch] += (double)(below * (1 - x));
    at[3][ch] += (double)(below * x);
  }
}

static void spread_picture(const spreading *j, const float *g, double *dx) {
  const td_resize *r = &j->r;
  int64_t n = r->channels, line = r->in_w * n;
  memset(dx, 0, (size_t)(r->in_h * line) * sizeof *dx);
  for (int64_t i = 0; i < r->out_h; i++) {
    td_resize_span y = j->rows[i];
    double *top = dx + y.low * line, *low = dx + y.high * line;
    for (int64_t k = 0; k < r->out_w; k++, g += n) {
      td_resize_span x = j->columns[k];
      double *const at[4] = {top + x.low * n, top + x.high * n, low + x.low * n,
                             low + x.high * n};
      spread(g, n, y.share, x.share, at);
    }
  }
}

static void store(const spreading *j, int64_t n, const double *from,
                  int64_t first) {
  for (int64_t i = 0; i < n; i++) {
    float f = (float)from[i];
    if (j->dtype == TD_FLOAT64)
      ((double *)j->dx)[first + i] = from[i];
    else
      td_resize_store(j->dtype, 1, &f,
                      (char *)j->dx +
                          (size_t)(first + i) * td_dtype_size(j->dtype));
  }
}

/* A picture is one piece: its pixels are added in order. */
static void spread_pictures(void *arg, int64_t begin, int64_t end) {
  const spreading *j = arg;
  const td_resize *r = &j->r;
  int64_t in = r->in_h * r->in_w * r->channels;
  int64_t out = r->out_h * r->out_w * r->channels;
  for (int64_t b = begin; b < end; b++) {
    spread_picture(j, j->from + b * out, j->sums + b * in);
    store(j, in, j->sums + b * in, b * in);
  }
}

static td_status *run_grad(td_kernel_ctx *c) {
  spreading j = {.from = td_in(c, 0)->data, .dtype = td_in(c, 1)->dtype};
  td_tensor *dx, mem = {0}, sums = {0};
  td_shape shape;
  TD_TRY(td_resize_read_grad(c, &td_in(c, 0)->shape, &td_in(c, 1)->shape, &j.r,
                             &shape));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (td_tensor_count(dx) == 0) return NULL;
  td_status *s = make_spans(c, &j, &mem);
  if (td_ok(s)) s = td_temp(c, TD_FLOAT64, &dx->shape, &sums);
  if (td_ok(s)) {
    j.dx = dx->data, j.sums = sums.data;
    td_for(c, j.r.batch, 1, spread_pictures, &j);
  }
  td_tensor_release(&sums);
  td_tensor_release(&mem);
  return s;
}

/* ---- cost -----------------------------------------------------------------
 */

/* Four corners, weighted. */
TD_COST_OUTPUT(resize_cost, 8, 0)
TD_COST_INPUT(resize_grad_cost, 8, 0)

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ResizeBilinear",
     .sig = "images: T, size: int32 -> resized_images: float; "
            "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, "
            "float, double, bfloat16}; align_corners: bool = false; "
            "half_pixel_centers: bool = false",
     .shape = td_resize_infer,
     .cost = resize_cost,
     .doc = "Pictures in another size, each pixel from the four around it.",
     .example = "td.resize_bilinear({{{{0.0}, {1.0}}}}, {1, 4})"
                "  --> 0 0.5 1 1",
     .host = "size",
     .section = "Image"},
    {.type = "ResizeBilinearGrad",
     .sig = "grads: float, original_image: T -> output: T; "
            "T: {float, bfloat16, half, double}; align_corners: bool = false; "
            "half_pixel_centers: bool = false",
     .shape = td_resize_infer_grad,
     .cost = resize_grad_cost,
     .doc = "The gradient of ResizeBilinear.",
     .lua = "",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResizeBilinear", .device = "CPU", .run = run},
    {.op = "ResizeBilinearGrad", .device = "CPU", .run = run_grad},
    {0},
};

TD_MODULE(resize_bilinear, ops, kernels)
