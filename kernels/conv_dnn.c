/* conv_dnn.c - convolutions of floats by oneDNN.
 *
 * Images stay as they are, channels last; the filter is brought into the
 * layout that the library asks for, which takes little beside the rest. The
 * work is cut into pieces, images or bands of an image, each a convolution of
 * its own for one thread: those in the middle of an image have no padding. Of
 * the gradient of the filter each piece makes its own, and these are added in
 * order.
 *
 * Winograd's algorithm, a few times faster, wants images in a layout of its
 * own as well: each piece brings its images there and back. Its rounding errors
 * are larger, some ten times those of a plain sum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu.h"
#include "kernels/blas/dnn.h"
#include "kernels/blas/gemm.h"

/* ---- primitives ---------------------------------------------------------- */

typedef enum task { CONVOLVE, PACK_X, PACK_FILTER, PACK_Y } task;

/* What describes a primitive. PACK: between an operand's own layout and that
 * which the convolution asks for; back for the one that is computed. */
typedef struct key {
  td_conv shape;
  int32_t pass, task, winograd, unused;
} key;

/* Axes of the library's convolution: a depth of 1 is left out. */
static int first_axis(const td_conv *c) {
  return c->in[0] == 1 && c->filter[0] == 1 && c->out[0] == 1 ? 1 : 0;
}

/* Images {batch, channels, axes}; `own`: channels last. */
static int describe_images(const td_dnn_api *api, const td_conv *c,
                           int64_t channels, const int64_t *axes, bool own,
                           td_dnn_layout *md) {
  int first = first_axis(c), rank = 2 + TD_CONV_AXES - first;
  int64_t dims[2 + TD_CONV_AXES] = {c->batch, channels};
  int64_t strides[2 + TD_CONV_AXES] = {0, 1}, step = channels;
  for (int i = rank - 1; i >= 2; i--) {
    dims[i] = axes[first + i - 2];
    strides[i] = step;
    step *= dims[i];
  }
  strides[0] = step;
  if (own)
    return api->memory_desc_init_by_strides(md, rank, dims, TD_DNN_FLOAT32,
                                            strides);
  return api->memory_desc_init_by_tag(md, rank, dims, TD_DNN_FLOAT32,
                                      TD_DNN_ANY);
}

/* The filter {groups, out, in, axes}; `own`: as the op has it. */
static int describe_filter(const td_dnn_api *api, const td_conv *c, bool own,
                           td_dnn_layout *md) {
  int first = first_axis(c), n = 0;
  int64_t deep = c->in_channels / c->groups, wide = c->out_channels / c->groups;
  int64_t dims[3 + TD_CONV_AXES], strides[3 + TD_CONV_AXES];
  if (c->groups > 1) dims[n] = c->groups, strides[n++] = wide;
  dims[n] = wide, strides[n++] = 1;
  dims[n] = deep, strides[n++] = c->out_channels;
  int rank = n + TD_CONV_AXES - first;
  int64_t step = deep * c->out_channels;
  for (int i = rank - 1; i >= n; i--) {
    dims[i] = c->filter[first + i - n];
    strides[i] = step;
    step *= dims[i];
  }
  if (own)
    return api->memory_desc_init_by_strides(md, rank, dims, TD_DNN_FLOAT32,
                                            strides);
  return api->memory_desc_init_by_tag(md, rank, dims, TD_DNN_FLOAT32,
                                      TD_DNN_ANY);
}

static int describe_pass(const td_dnn_api *api, const key *k,
                         td_dnn_desc *desc) {
  const td_conv *c = &k->shape;
  int first = first_axis(c);
  int64_t holes[TD_CONV_AXES];
  const int64_t *stride = c->stride + first, *dilates = holes + first;
  const int64_t *before = c->before + first, *after = c->after + first;
  td_dnn_layout x, w, y;
  for (int i = 0; i < TD_CONV_AXES; i++) holes[i] = c->dilation[i] - 1;
  int how = k->winograd ? TD_DNN_WINOGRAD : TD_DNN_DIRECT;
  bool own = !k->winograd;
  int failed = describe_images(api, c, c->in_channels, c->in, own, &x);
  if (!failed)
    failed = describe_images(api, c, c->out_channels, c->out, own, &y);
  if (!failed) failed = describe_filter(api, c, false, &w);
  if (failed) return failed;
  if (k->pass == TD_CONV_FORWARD)
    return api->dilated_convolution_forward_desc_init(desc, TD_DNN_FORWARD, how,
                                                      &x, &w, NULL, &y, stride,
                                                      dilates, before, after);
  if (k->pass == TD_CONV_DATA)
    return api->dilated_convolution_backward_data_desc_init(
        desc, how, &x, &w, &y, stride, dilates, before, after);
  return api->dilated_convolution_backward_weights_desc_init(
      desc, how, &x, &w, NULL, &y, stride, dilates, before, after);
}

/* What the library calls x, filter and y in a pass. */
static int argument(td_conv_pass pass, task t) {
  if (t == PACK_X) return pass == TD_CONV_DATA ? TD_DNN_DIFF_SRC : TD_DNN_SRC;
  if (t == PACK_Y)
    return pass == TD_CONV_FORWARD ? TD_DNN_DST : TD_DNN_DIFF_DST;
  return pass == TD_CONV_WEIGHTS ? TD_DNN_DIFF_WEIGHTS : TD_DNN_WEIGHTS;
}

static bool is_result(td_conv_pass pass, task t) {
  static const task results[] = {PACK_Y, PACK_X, PACK_FILTER};
  return results[pass] == t;
}

static int describe_own(const td_dnn_api *api, const key *k,
                        td_dnn_layout *md) {
  const td_conv *c = &k->shape;
  if (k->task == PACK_FILTER) return describe_filter(api, c, true, md);
  return k->task == PACK_X
             ? describe_images(api, c, c->in_channels, c->in, true, md)
             : describe_images(api, c, c->out_channels, c->out, true, md);
}

static int describe(const td_dnn_api *api, const void *what, const void *attr,
                    void *engine, void **pd) {
  const key *k = what;
  td_dnn_desc desc;
  td_dnn_layout own;
  void *convolution;
  int failed = describe_pass(api, k, &desc);
  if (failed) return failed;
  if (k->task == CONVOLVE)
    return api->primitive_desc_create(pd, &desc, attr, engine, NULL);
  failed = describe_own(api, k, &own);
  if (!failed)
    failed =
        api->primitive_desc_create(&convolution, &desc, attr, engine, NULL);
  if (failed) return failed;
  const td_dnn_layout *packed = api->primitive_desc_query_md(
      convolution, TD_DNN_EXEC_ARG, argument(k->pass, k->task));
  bool back = is_result(k->pass, k->task);
  failed = api->reorder_primitive_desc_create(
      pd, back ? packed : &own, engine, back ? &own : packed, engine, attr);
  api->primitive_desc_destroy(convolution);
  return failed;
}

/* ---- pieces -------------------------------------------------------------- */

/* Pieces of one shape. */
typedef struct kind {
  td_conv shape;
  td_dnn_op *op;
  td_dnn_op *pack_x, *pack_y; /* only with winograd */
  td_tensor filter;           /* packed for it; not of the filter's gradient */
} kind;

/* Whole images, and bands at the start, in the middle, at the end. */
enum { MOST_KINDS = 8 };

typedef struct job {
  td_kernel_ctx *ctx;
  const td_conv *c;
  td_conv_pass pass;
  const td_conv_data *d;
  bool winograd;
  int axis;       /* whose elements are bands */
  int64_t images; /* in a piece */
  int64_t band;   /* elements of the axis in a piece of one image; 0: all */
  int64_t pieces;
  kind kinds[MOST_KINDS];
  int n_kinds;
  size_t scratch;    /* bytes of working memory of a piece */
  td_tensor parts;   /* gradients of the filter, packed, by piece */
  int64_t part;      /* elements of one */
  td_status *failed; /* atomic: the first error */
} job;

enum {
  PIECE_LEAST = 1 << 23,  /* multiply-adds worth a call */
  PIECE_MOST = 512 << 20, /* that take some 10 ms on a slow core */
  MANY = 64,              /* pieces, of many images */
  FEW = 16,               /* when bands must be cut, gradients added */
  BAND_LEAST = 4,         /* elements of a band */
  PART_PLACES = 512,      /* that make adding a filter not matter */
  WINOGRAD_PLACES = 1024, /* that make transforming it not matter */
};

static int64_t divide_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Bands of an image overlap in what they read. Those of the gradient of the
 * input are cut by it, where every band of the result begins alike. */
static bool may_band(const job *j) {
  const td_conv *c = j->c;
  int64_t extent;
  int a = j->axis;
  if (!td_conv_extent(c->filter[a], c->dilation[a], &extent)) return false;
  return c->before[a] < extent && c->after[a] < extent &&
         (j->pass != TD_CONV_DATA || c->stride[a] == 1);
}

static void partition(job *j) {
  const td_conv *c = j->c;
  int64_t work = td_conv_work(c), must = divide_up(work, PIECE_MOST);
  int64_t length = (j->pass == TD_CONV_DATA ? c->in : c->out)[j->axis];
  int64_t want = least(work / PIECE_LEAST, MANY);
  if (j->pass == TD_CONV_WEIGHTS)
    want = least(want, least(FEW, td_conv_places(c) / PART_PLACES));
  if (j->winograd) want = least(want, td_conv_places(c) / WINOGRAD_PLACES);
  if (want < must) want = must;
  if (want < 1) want = 1;
  j->images = divide_up(c->batch, least(want, c->batch));
  j->pieces = divide_up(c->batch, j->images);
  int64_t bands = divide_up(least(want, FEW > must ? FEW : must), c->batch);
  if (bands < 2 || !may_band(j)) return;
  int64_t band = divide_up(length, bands);
  if (band < BAND_LEAST) band = BAND_LEAST;
  if (band >= length) return;
  j->band = band;
  j->pieces = c->batch * divide_up(length, band);
}

/* Where piece `u` is in x and y, and its shape. */
typedef struct piece {
  td_conv shape;
  int64_t x, y;
} piece;

/* What the band [begin, end) of the result reads, and with which padding. */
static void band_of_result(const job *j, int64_t begin, int64_t end,
                           int64_t *from, td_conv *s) {
  const td_conv *c = j->c;
  int a = j->axis;
  int64_t extent = 0;
  td_conv_extent(c->filter[a], c->dilation[a], &extent);
  int64_t first = begin * c->stride[a] - c->before[a];
  int64_t last = (end - 1) * c->stride[a] - c->before[a] + extent;
  *from = first > 0 ? first : 0;
  s->before[a] = *from - first;
  s->after[a] = last > c->in[a] ? last - c->in[a] : 0;
  s->in[a] = last - s->after[a] - *from;
  s->out[a] = end - begin;
}

/* What the band [begin, end) of the input is read by; strides are 1. */
static void band_of_input(const job *j, int64_t begin, int64_t end,
                          int64_t *from, td_conv *s) {
  const td_conv *c = j->c;
  int a = j->axis;
  int64_t extent = 0;
  td_conv_extent(c->filter[a], c->dilation[a], &extent);
  int64_t first = begin + c->before[a] - (extent - 1);
  *from = first > 0 ? first : 0;
  int64_t last = least(end + c->before[a], c->out[a]);
  s->in[a] = end - begin;
  s->out[a] = last - *from;
  s->before[a] = begin + c->before[a] - *from;
  s->after[a] = s->out[a] + extent - 1 - s->in[a] - s->before[a];
}

static piece piece_of(const job *j, int64_t u) {
  const td_conv *c = j->c;
  piece p = {.shape = *c};
  int a = j->axis;
  int64_t x = c->in_channels, y = c->out_channels; /* of one element of a */
  for (int i = a + 1; i < TD_CONV_AXES; i++) x *= c->in[i], y *= c->out[i];
  if (j->band == 0) {
    int64_t image = u * j->images;
    p.shape.batch = least(j->images, c->batch - image);
    p.x = image * x * c->in[a];
    p.y = image * y * c->out[a];
    return p;
  }
  bool by_input = j->pass == TD_CONV_DATA;
  int64_t length = by_input ? c->in[a] : c->out[a], from;
  int64_t bands = divide_up(length, j->band), image = u / bands;
  int64_t begin = u % bands * j->band, end = least(begin + j->band, length);
  p.shape.batch = 1;
  if (by_input)
    band_of_input(j, begin, end, &from, &p.shape);
  else
    band_of_result(j, begin, end, &from, &p.shape);
  p.x = (image * c->in[a] + (by_input ? begin : from)) * x;
  p.y = (image * c->out[a] + (by_input ? from : begin)) * y;
  return p;
}

/* NULL: there is none yet. */
static kind *kind_of(job *j, const td_conv *shape) {
  for (int i = 0; i < j->n_kinds; i++)
    if (memcmp(&j->kinds[i].shape, shape, sizeof *shape) == 0)
      return &j->kinds[i];
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

static td_status *find(const job *j, const td_conv *shape, task t,
                       td_dnn_op **out) {
  key k;
  memset(&k, 0, sizeof k);
  k.shape = *shape;
  k.pass = j->pass;
  k.task = t;
  k.winograd = j->winograd;
  return td_dnn_find(describe, &k, sizeof k, out);
}

/* From an operand's own layout to the library's, or back. */
static td_status *reorder(td_dnn_op *op, const void *from, void *to,
                          void *scratch) {
  const td_dnn_arg args[] = {{TD_DNN_SRC, from}, {TD_DNN_DST, to}};
  return td_dnn_run(op, args, 2, scratch);
}

static size_t packed_bytes(const job *j, const kind *k, task t) {
  size_t bytes = td_dnn_bytes(k->op, argument(j->pass, t));
  return (bytes + 63) / 64 * 64;
}

static td_status *convolve(const job *j, const kind *k, void *x, void *filter,
                           void *y, void *scratch) {
  const td_dnn_arg args[] = {{argument(j->pass, PACK_X), x},
                             {argument(j->pass, PACK_FILTER), filter},
                             {argument(j->pass, PACK_Y), y}};
  return td_dnn_run(k->op, args, 3, scratch);
}

/* The scratch memory begins with the images in the library's layout. */
static td_status *convolve_packed(const job *j, const kind *k, float *x,
                                  float *y, char *scratch) {
  char *px = scratch, *py = px + packed_bytes(j, k, PACK_X);
  char *rest = py + packed_bytes(j, k, PACK_Y);
  bool forward = j->pass == TD_CONV_FORWARD;
  TD_TRY(forward ? reorder(k->pack_x, x, px, rest)
                 : reorder(k->pack_y, y, py, rest));
  TD_TRY(convolve(j, k, px, k->filter.data, py, rest));
  return forward ? reorder(k->pack_y, py, y, rest)
                 : reorder(k->pack_x, px, x, rest);
}

static td_status *run_piece(job *j, int64_t u, void *scratch) {
  piece p = piece_of(j, u);
  kind *k = kind_of(j, &p.shape);
  float *x = (float *)j->d->x + p.x, *y = (float *)j->d->y + p.y;
  if (j->winograd) return convolve_packed(j, k, x, y, scratch);
  void *filter = k->filter.data;
  if (j->pass == TD_CONV_WEIGHTS) filter = (float *)j->parts.data + u * j->part;
  return convolve(j, k, x, filter, y, scratch);
}

static void note_failure(job *j, td_status *s) {
  td_status *none = NULL;
  if (!s || __atomic_compare_exchange_n(&j->failed, &none, s, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  td_status_release(s);
}

static td_status *bytes_of(td_kernel_ctx *ctx, size_t bytes, td_tensor *t) {
  td_shape shape = td_shape_vector((int64_t)bytes);
  return td_temp(ctx, TD_UINT8, &shape, t);
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  td_tensor scratch = {.dtype = TD_INVALID};
  td_status *s = NULL;
  if (j->scratch > 0) s = bytes_of(j->ctx, j->scratch, &scratch);
  for (int64_t u = begin; u < end && td_ok(s); u++)
    s = run_piece(j, u, scratch.data);
  note_failure(j, s);
  td_tensor_release(&scratch);
}

/* The filter from its own layout into `to`, or back. */
static td_status *pack_filter(const job *j, const td_conv *shape,
                              const void *from, void *to) {
  td_tensor scratch = {.dtype = TD_INVALID};
  td_dnn_op *op;
  TD_TRY(find(j, shape, PACK_FILTER, &op));
  size_t bytes = td_dnn_scratch(op);
  td_status *s = bytes > 0 ? bytes_of(j->ctx, bytes, &scratch) : NULL;
  if (td_ok(s)) s = reorder(op, from, to, scratch.data);
  td_tensor_release(&scratch);
  td_dnn_release(op);
  return s;
}

/* ---- preparing ----------------------------------------------------------- */

/* Packs the filter, or shares what another kind of the same layout has. */
static td_status *prepare_filter(job *j, kind *k) {
  for (int i = 0; i + 1 < j->n_kinds; i++)
    if (td_dnn_alike(k->op, j->kinds[i].op, TD_DNN_WEIGHTS)) {
      td_tensor_retain(&j->kinds[i].filter, &k->filter);
      return NULL;
    }
  TD_TRY(bytes_of(j->ctx, td_dnn_bytes(k->op, TD_DNN_WEIGHTS), &k->filter));
  return pack_filter(j, &k->shape, j->d->filter, k->filter.data);
}

static void need_scratch(job *j, size_t bytes) {
  if (bytes > j->scratch) j->scratch = bytes;
}

static td_status *prepare_images(job *j, kind *k) {
  size_t images = packed_bytes(j, k, PACK_X) + packed_bytes(j, k, PACK_Y);
  TD_TRY(find(j, &k->shape, PACK_X, &k->pack_x));
  TD_TRY(find(j, &k->shape, PACK_Y, &k->pack_y));
  need_scratch(j, images + td_dnn_scratch(k->op));
  need_scratch(j, images + td_dnn_scratch(k->pack_x));
  need_scratch(j, images + td_dnn_scratch(k->pack_y));
  return NULL;
}

static td_status *add_kind(job *j, const td_conv *shape) {
  if (j->n_kinds == MOST_KINDS)
    return td_error(TD_UNIMPLEMENTED, "bands of too many kinds");
  kind *k = &j->kinds[j->n_kinds];
  k->shape = *shape;
  TD_TRY(find(j, shape, CONVOLVE, &k->op));
  j->n_kinds++;
  need_scratch(j, td_dnn_scratch(k->op));
  if (j->winograd) TD_TRY(prepare_images(j, k));
  if (j->pass != TD_CONV_WEIGHTS) return prepare_filter(j, k);
  if (td_dnn_alike(k->op, j->kinds[0].op, TD_DNN_DIFF_WEIGHTS)) return NULL;
  return td_error(TD_UNIMPLEMENTED, "gradients of several layouts");
}

static td_status *prepare(job *j) {
  for (int64_t u = 0; u < j->pieces; u++) {
    piece p = piece_of(j, u);
    if (!kind_of(j, &p.shape)) TD_TRY(add_kind(j, &p.shape));
  }
  if (j->pass != TD_CONV_WEIGHTS) return NULL;
  size_t bytes = td_dnn_bytes(j->kinds[0].op, TD_DNN_DIFF_WEIGHTS);
  j->part = (int64_t)(bytes / sizeof(float));
  td_shape shape = td_shape_matrix(j->pieces, j->part);
  return td_temp(j->ctx, TD_FLOAT32, &shape, &j->parts);
}

static td_status *finish(job *j) {
  if (j->pass != TD_CONV_WEIGHTS || td_stopped(j->ctx)) return NULL;
  float *parts = j->parts.data;
  if (j->pieces > 1)
    td_gemm_sum(j->ctx, TD_FLOAT32, parts, j->part, j->pieces, parts);
  return pack_filter(j, &j->kinds[0].shape, parts, j->d->filter);
}

/* Sizes that the library takes: its own offsets are 32 bits wide in places. */
static bool fits(const td_conv *c) {
  for (int i = 0; i < TD_CONV_AXES; i++)
    if (c->in[i] > INT16_MAX || c->out[i] > INT16_MAX ||
        c->filter[i] > INT16_MAX || c->stride[i] > INT16_MAX ||
        c->dilation[i] > INT16_MAX || c->before[i] > INT16_MAX ||
        c->after[i] > INT16_MAX)
      return false;
  return c->in_channels <= INT16_MAX && c->out_channels <= INT16_MAX;
}

td_status *td_conv_dnn(td_kernel_ctx *ctx, const td_conv *c, td_conv_pass pass,
                       const td_conv_data *d, bool winograd) {
  job j = {.ctx = ctx,
           .c = c,
           .pass = pass,
           .d = d,
           .winograd = winograd,
           .axis = first_axis(c)};
  if (!fits(c) || (winograd && pass == TD_CONV_WEIGHTS))
    return td_error(TD_UNIMPLEMENTED, "nothing for oneDNN");
  partition(&j);
  td_status *s = prepare(&j);
  if (td_ok(s)) {
    td_for(ctx, j.pieces, 1, run_pieces, &j);
    s = j.failed;
  }
  if (td_ok(s)) s = finish(&j);
  for (int i = 0; i < j.n_kinds; i++) {
    td_dnn_release(j.kinds[i].op);
    td_dnn_release(j.kinds[i].pack_x);
    td_dnn_release(j.kinds[i].pack_y);
    td_tensor_release(&j.kinds[i].filter);
  }
  td_tensor_release(&j.parts);
  return s;
}
