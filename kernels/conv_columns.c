/* conv_columns.c - convolutions as products of matrices (im2col).
 *
 * What a filter sees at each place of the result is copied into a row; rows
 * times the filter are the result. The gradient of the input is the other way
 * round: a product makes the rows, and these are added where they came from.
 * Rows are made by panels of bounded memory; each is a few long copies, since
 * what neighbours in a window are neighbours in the input too. A filter of one
 * place needs no rows: the input is them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/binary.h"
#include "kernels/conv.h"
#include "kernels/cpu.h"
#include "kernels/blas/gemm.h"

enum { PANEL_BYTES = 4 << 20 };

typedef struct job {
  td_kernel_ctx *ctx;
  const td_conv *c;
  const td_conv_data *d;
  size_t size; /* bytes of an element */
  td_isa isa;
  int64_t deep, wide;   /* channels of a group, in and out */
  int64_t k;            /* elements of a row: window x deep */
  int64_t run;          /* offsets that are neighbours in the input */
  int64_t first, count; /* places of the panel */
  char *rows;           /* [group][place of the panel][offset][channel] */
  int64_t *offsets;     /* of the groups' products, {a, b, c}; NULL: one */
} job;

/* ---- where things are ---------------------------------------------------- */

typedef struct place {
  int64_t image, at[TD_CONV_AXES];
} place;

static place place_of(const td_conv *c, int64_t p) {
  place q;
  for (int i = TD_CONV_AXES - 1; i >= 0; i--) {
    q.at[i] = p % c->out[i];
    p /= c->out[i];
  }
  q.image = p;
  return q;
}

/* The first element of an image's row of the input. */
static int64_t row_at(const td_conv *c, int64_t image, int64_t d, int64_t h) {
  return ((image * c->in[0] + d) * c->in[1] + h) * c->in[2] * c->in_channels;
}

/* A run of neighbouring offsets in a window, in a row of the input: of its
 * elements those inside the input, n from `from` in the input's row, are n from
 * `to` on in the run. */
typedef struct run {
  int64_t from, to, n;
} run;

static run run_of(const job *j, int64_t group, int64_t out, int64_t offset) {
  const td_conv *c = j->c;
  int64_t in = out * c->stride[2] - c->before[2] + offset * c->dilation[2];
  int64_t low = in < 0 ? -in : 0, high = c->in[2] - in;
  if (high > j->run) high = j->run;
  if (low >= high) return (run){0};
  return (run){(in + low) * c->in_channels + group * j->deep, low * j->deep,
               (high - low) * j->deep};
}

static char *row_of(const job *j, int64_t group, int64_t index) {
  return j->rows + (size_t)((group * j->count + index) * j->k) * j->size;
}

/* ---- rows of the input --------------------------------------------------- */

/* What one line of the window sees of a row of the input (-1: none). */
static char *fill_line(const job *j, int64_t group, int64_t out, int64_t from,
                       char *to) {
  const char *x = j->d->x;
  size_t bytes = (size_t)(j->run * j->deep) * j->size;
  for (int64_t offset = 0; offset < j->c->filter[2];
       offset += j->run, to += bytes) {
    run r = from < 0 ? (run){0} : run_of(j, group, out, offset);
    if (r.n < j->run * j->deep) memset(to, 0, bytes);
    if (r.n > 0)
      memcpy(to + (size_t)r.to * j->size, x + (size_t)(from + r.from) * j->size,
             (size_t)r.n * j->size);
  }
  return to;
}

static void fill_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_conv *c = j->c;
  for (int64_t p = begin; p < end; p++) {
    place q = place_of(c, j->first + p);
    for (int64_t g = 0; g < c->groups; g++) {
      char *to = row_of(j, g, p);
      for (int64_t kd = 0; kd < c->filter[0]; kd++) {
        int64_t d = td_conv_input_at(c, 0, q.at[0], kd);
        for (int64_t kh = 0; kh < c->filter[1]; kh++) {
          int64_t h = td_conv_input_at(c, 1, q.at[1], kh);
          int64_t from = d < 0 || h < 0 ? -1 : row_at(c, q.image, d, h);
          to = fill_line(j, g, q.at[2], from, to);
        }
      }
    }
  }
}

/* ---- rows added to the input --------------------------------------------- */

/* Adds what a line of the filter saw at the places of one row of the result,
 * those in the panel, to a row of the input. */
static void add_line(const job *j, int64_t group, int64_t places, int64_t line,
                     char *to) {
  const td_conv *c = j->c;
  int64_t begin = j->first - places, end = begin + j->count;
  if (begin < 0) begin = 0;
  if (end > c->out[2]) end = c->out[2];
  for (int64_t out = begin; out < end; out++) {
    const char *from = row_of(j, group, places + out - j->first) +
                       (size_t)(line * c->filter[2] * j->deep) * j->size;
    for (int64_t offset = 0; offset < c->filter[2]; offset += j->run) {
      run r = run_of(j, group, out, offset);
      if (r.n == 0) continue;
      char *at = to + (size_t)r.from * j->size;
      td_binary_apply(TD_BINARY_AddV2, j->d->dtype, j->isa, r.n, at,
                      from + (size_t)(offset * j->deep + r.to) * j->size, at);
    }
  }
}

/* Rows of the input, of all images: each is written by one piece. */
static void add_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_conv *c = j->c;
  for (int64_t i = begin; i < end; i++) {
    int64_t h = i % c->in[1], d = i / c->in[1] % c->in[0];
    int64_t image = i / c->in[1] / c->in[0];
    char *to = (char *)j->d->x + (size_t)row_at(c, image, d, h) * j->size;
    for (int64_t line = 0; line < c->filter[0] * c->filter[1]; line++) {
      int64_t od = td_conv_output_at(c, 0, d, line / c->filter[1]);
      int64_t oh = td_conv_output_at(c, 1, h, line % c->filter[1]);
      if (od < 0 || oh < 0) continue;
      int64_t places = ((image * c->out[0] + od) * c->out[1] + oh) * c->out[2];
      if (places + c->out[2] <= j->first || places >= j->first + j->count)
        continue;
      for (int64_t g = 0; g < c->groups; g++) add_line(j, g, places, line, to);
    }
  }
}

static void clear_piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  memset((char *)j->d->x + (size_t)begin * j->size, 0,
         (size_t)(end - begin) * j->size);
}

/* Only images of the panel are looked at. */
static void scatter_panel(const job *j) {
  const td_conv *c = j->c;
  int64_t each = c->out[0] * c->out[1] * c->out[2];
  int64_t image = j->first / each, last = (j->first + j->count - 1) / each;
  int64_t rows = c->in[0] * c->in[1];
  job part = *j;
  td_conv few = *c;
  td_conv_data data = *j->d;
  data.x = (char *)data.x + (size_t)row_at(c, image, 0, 0) * j->size;
  few.batch = last - image + 1;
  part.c = &few;
  part.d = &data;
  part.first -= image * each;
  td_for(j->ctx, few.batch * rows,
         td_grain_of(c->in[2] * c->in_channels * td_conv_window(c)), add_rows,
         &part);
}

/* ---- products ------------------------------------------------------------ */

static td_product product_of(const job *j, td_conv_pass pass, void *filter) {
  const td_conv *c = j->c;
  char *y = (char *)j->d->y + (size_t)(j->first * c->out_channels) * j->size;
  td_product p = {.dtype = j->d->dtype};
  if (pass == TD_CONV_FORWARD) {
    p.m = j->count, p.n = j->wide, p.k = j->k;
    p.a = j->rows, p.b = filter, p.c = y;
    p.lda = j->k, p.ldb = p.ldc = c->out_channels;
  } else if (pass == TD_CONV_DATA) {
    p.m = j->count, p.n = j->k, p.k = j->wide;
    p.a = y, p.b = filter, p.c = j->rows;
    p.lda = p.ldb = c->out_channels, p.ldc = j->k;
    p.trans_b = true;
  } else {
    p.m = j->k, p.n = j->wide, p.k = j->count;
    p.a = j->rows, p.b = y, p.c = filter;
    p.lda = j->k, p.ldb = p.ldc = c->out_channels;
    p.trans_a = true;
  }
  return p;
}

static td_status *multiply(const job *j, td_conv_pass pass, void *filter) {
  td_product p = product_of(j, pass, filter);
  int at = pass == TD_CONV_DATA ? 2 : 0; /* which operand the rows are */
  for (int64_t g = 0; j->offsets && g < j->c->groups; g++)
    for (int i = 0; i < 3; i++)
      j->offsets[3 * g + i] = g * (i == at ? j->count * j->k : j->wide);
  return td_gemm(j->ctx, &p, j->c->groups, j->offsets);
}

/* ---- panels -------------------------------------------------------------- */

typedef struct addition {
  const job *j;
  const char *part;
} addition;

static void add_piece(void *arg, int64_t begin, int64_t end) {
  const addition *a = arg;
  size_t skip = (size_t)begin * a->j->size;
  char *to = (char *)a->j->d->filter + skip;
  td_binary_apply(TD_BINARY_AddV2, a->j->d->dtype, a->j->isa, end - begin, to,
                  a->part + skip, to);
}

/* `part`: room for a filter, for panels after the first of the gradient. */
static td_status *run_panel(const job *j, td_conv_pass pass, void *part) {
  int64_t each = j->k * j->c->groups;
  addition a = {j, part};
  if (pass == TD_CONV_DATA) {
    TD_TRY(multiply(j, pass, j->d->filter));
    scatter_panel(j);
    return NULL;
  }
  td_for(j->ctx, j->count, td_grain_of(each), fill_rows, (void *)(uintptr_t)j);
  if (pass == TD_CONV_FORWARD || j->first == 0)
    return multiply(j, pass, j->d->filter);
  TD_TRY(multiply(j, pass, part));
  td_for(j->ctx, j->k * j->c->out_channels, TD_GRAIN, add_piece, &a);
  return NULL;
}

static td_status *run_panels(job *j, td_conv_pass pass, int64_t most,
                             void *part) {
  const td_conv *c = j->c;
  int64_t places = td_conv_places(c);
  if (pass == TD_CONV_DATA)
    td_for(j->ctx, c->batch * row_at(c, 1, 0, 0), TD_GRAIN, clear_piece, j);
  td_status *s = NULL;
  for (j->first = 0; j->first < places && td_ok(s); j->first += most) {
    j->count = places - j->first < most ? places - j->first : most;
    if (td_stopped(j->ctx)) break;
    s = run_panel(j, pass, part);
  }
  return s;
}

/* Places whose rows fit into a panel: a multiple of 16 where there are many. */
static int64_t panel_of(const job *j) {
  int64_t bytes = j->k * j->c->groups * (int64_t)j->size;
  int64_t most = PANEL_BYTES / bytes, places = td_conv_places(j->c);
  if (most >= places) return places;
  return most < 1 ? 1 : most >= 16 ? most / 16 * 16 : most;
}

static td_status *run_in_panels(job *j, td_conv_pass pass) {
  int64_t most = panel_of(j), filter = j->k * j->c->out_channels;
  td_shape rows = td_shape_matrix(most, j->k * j->c->groups);
  td_shape parts = td_shape_vector(filter);
  td_tensor panel = {.dtype = TD_INVALID}, part = {.dtype = TD_INVALID};
  TD_TRY(td_temp(j->ctx, j->d->dtype, &rows, &panel));
  td_status *s = NULL;
  if (pass == TD_CONV_WEIGHTS && most < td_conv_places(j->c))
    s = td_temp(j->ctx, j->d->dtype, &parts, &part);
  j->rows = panel.data;
  if (td_ok(s)) s = run_panels(j, pass, most, part.data);
  td_tensor_release(&part);
  td_tensor_release(&panel);
  return s;
}

td_status *td_conv_columns(td_kernel_ctx *ctx, const td_conv *c,
                           td_conv_pass pass, const td_conv_data *d) {
  job j = {.ctx = ctx,
           .c = c,
           .d = d,
           .size = td_dtype_size(d->dtype),
           .isa = td_cpu_isa(),
           .deep = c->in_channels / c->groups,
           .wide = c->out_channels / c->groups,
           .run = c->groups == 1 && c->dilation[2] == 1 ? c->filter[2] : 1};
  td_tensor offsets = {.dtype = TD_INVALID};
  td_shape shape = td_shape_matrix(c->groups, 3);
  j.k = td_conv_window(c) * j.deep;
  if (td_conv_is_product(c)) {
    j.rows = d->x;
    j.count = td_conv_places(c);
    return multiply(&j, pass, d->filter);
  }
  if (c->groups > 1) TD_TRY(td_temp(ctx, TD_INT64, &shape, &offsets));
  j.offsets = offsets.data;
  td_status *s = run_in_panels(&j, pass);
  td_tensor_release(&offsets);
  return s;
}
