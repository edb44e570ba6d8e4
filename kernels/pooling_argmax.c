/* pooling_argmax.c - the largest cell of each window with its place, and the
 * gradient that goes there.
 *
 * A place is ((row * width) + column) * channels + channel in the image, or in
 * the whole batch. A NaN is the largest where it comes first, as in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/pooling.h"

/* A window over channels must be one that pools them, and is then as one of a
 * single channel: so TensorFlow's kernels, whatever their shape function says.
 */
static td_status *one_channel(td_pooling_spec *spec, const td_shape *in) {
  td_shape pooled;
  TD_TRY(td_pooling_shape(spec, in, &pooled));
  spec->ksize[3] = spec->strides[3] = 1;
  return NULL;
}

/* ---- MaxPoolWithArgmax --------------------------------------------------- */

static td_status *infer_argmax(td_infer *c) {
  td_pooling_spec spec;
  td_shape out;
  TD_TRY(td_pooling_infer(c, 4, -1, &spec));
  TD_TRY(one_channel(&spec, td_infer_in(c, 0)));
  TD_TRY(td_pooling_shape(&spec, td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  td_infer_out(c, 1, out);
  return NULL;
}

typedef struct find_job {
  td_pooling_job j; /* first: steps are given this */
  void *places;
  bool wide;      /* int64 */
  int64_t images; /* elements from one image to the next, or 0 */
} find_job;

static void find_step(const td_pooling_job *j, const td_pooling_at *at,
                      int64_t from, int64_t n) {
  const find_job *f = (const find_job *)j;
  const td_pooling *p = &j->pool;
  int32_t where[TD_POOLING_BLOCK];
  int64_t y = at->y + from;
  j->loops->find(&at->w, n, j->in[0] + (size_t)(at->x + from) * j->size,
                 j->out + (size_t)y * j->size, where);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = where[i] / at->w.count[2], k = where[i] % at->w.count[2];
    int64_t cell = at->cell + row * p->axis[2].in + k;
    int64_t place =
        cell * p->inner + from + i * at->w.lane + at->image * f->images;
    if (f->wide)
      ((int64_t *)f->places)[y + i] = place;
    else
      ((int32_t *)f->places)[y + i] = (int32_t)place;
  }
}

static td_status *check_places(const td_shape *in, bool wide) {
  td_shape_text text;
  if (wide || td_shape_count(in) <= INT32_MAX) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "int32 does not hold the places of %s; use Targmax = int64",
                  td_shape_str(in, &text));
}

static int64_t image_step(const td_kernel_ctx *c, const td_shape *in) {
  bool batch = td_node_bool(td_ctx_node(c), "include_batch_in_index");
  return batch ? td_shape_span(in, 1, 4) : 0;
}

td_status *td_pooling_argmax_of(const td_kernel_ctx *c, td_pooling *p,
                                int64_t *images) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_pooling_spec spec;
  TD_TRY(td_pooling_read(c, 4, -1, &spec));
  TD_TRY(one_channel(&spec, in));
  TD_TRY(td_pooling_of(&spec, in, p));
  if (td_tensor_count(td_in(c, 0)) == 0)
    return td_error(TD_INVALID_ARGUMENT, "input must not be empty");
  *images = image_step(c, in);
  return check_places(in, td_kernel_type(c->kernel, 1) == TD_INT64);
}

static td_status *run_argmax(td_kernel_ctx *c) {
  td_tensor *places;
  find_job f = {.wide = td_kernel_type(c->kernel, 1) == TD_INT64};
  TD_TRY(td_pooling_argmax_of(c, &f.j.pool, &f.images));
  TD_TRY(td_out(c, 1, &f.j.pool.out, &places));
  f.places = places->data;
  td_status *s = td_pooling_begin(c, &f.j, 0, 1, &f.j.pool.out);
  if (td_ok(s)) td_pooling_outputs(c, &f.j, find_step);
  return td_pooling_end(c, &f.j, s);
}

/* ---- MaxPoolGradWithArgmax ----------------------------------------------- */

static td_status *infer_grad(td_infer *c) {
  td_pooling_spec spec;
  td_shape out;
  td_shape_text want, is;
  TD_TRY(td_pooling_infer(c, 4, -1, &spec));
  TD_TRY(one_channel(&spec, td_infer_in(c, 0)));
  TD_TRY(td_pooling_shape(&spec, td_infer_in(c, 0), &out));
  for (int i = 1; i < 3; i++)
    if (!td_shape_compatible(&out, td_infer_in(c, i)))
      return td_error(TD_INVALID_ARGUMENT, "%s must be of shape %s, not %s",
                      i == 1 ? "grad" : "argmax", td_shape_str(&out, &want),
                      td_shape_str(td_infer_in(c, i), &is));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

typedef struct give_job {
  td_pooling_job j;
  const td_tensor *places;
  td_dtype dtype;  /* of the sums */
  int64_t in, out; /* elements of an image */
  int64_t images;  /* as of find_job */
  int64_t bad;     /* atomic: the first place out of range, or INT64_MAX */
} give_job;

static int64_t place_at(const td_tensor *t, int64_t i) {
  return t->dtype == TD_INT64 ? ((const int64_t *)t->data)[i]
                              : ((const int32_t *)t->data)[i];
}

static void report(give_job *g, int64_t i) {
  int64_t have = __atomic_load_n(&g->bad, __ATOMIC_RELAXED);
  while (i < have &&
         !__atomic_compare_exchange_n(&g->bad, &have, i, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

#define GIVE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    ((td_##kind *)to)[k] =                                                     \
        (td_##kind)(((td_##kind *)to)[k] + ((const td_##kind *)from)[i]);      \
    break;

static void give(td_dtype t, const void *from, int64_t i, void *to, int64_t k) {
  switch (t) {
    EACH_REALS(GIVE)
  default:
    break;
  }
}

static void give_images(void *arg, int64_t begin, int64_t end) {
  give_job *g = arg;
  for (int64_t b = begin; b < end; b++) {
    char *to = g->j.out + (size_t)(b * g->in) * g->j.size;
    memset(to, 0, (size_t)g->in * g->j.size);
    for (int64_t i = b * g->out; i < (b + 1) * g->out; i++) {
      int64_t place = place_at(g->places, i), first = b * g->images;
      if (place < first || place - first >= g->in)
        report(g, i);
      else
        give(g->dtype, g->j.in[0], i, to, place - first);
    }
  }
}

static td_status *bad_place(const give_job *g) {
  int64_t first = g->bad / g->out * g->images;
  return td_error(TD_INVALID_ARGUMENT,
                  "argmax of element %lld is %lld, which is not in [%lld, "
                  "%lld)",
                  (long long)g->bad, (long long)place_at(g->places, g->bad),
                  (long long)first, (long long)(first + g->in));
}

td_status *td_pooling_argmax_grad_of(const td_kernel_ctx *c, td_pooling *p,
                                     int64_t *images) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_pooling_spec spec;
  TD_TRY(td_pooling_read(c, 4, -1, &spec));
  TD_TRY(one_channel(&spec, in));
  TD_TRY(td_pooling_of(&spec, in, p));
  *images = image_step(c, in);
  TD_TRY(td_pooling_check(td_in(c, 1), &p->out, "grad"));
  return td_pooling_check(td_in(c, 2), &p->out, "argmax");
}

static td_status *run_grad(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  give_job g = {.places = td_in(c, 2), .bad = INT64_MAX};
  TD_TRY(td_pooling_argmax_grad_of(c, &g.j.pool, &g.images));
  g.in = td_shape_span(in, 1, 4);
  g.out = td_shape_span(&g.j.pool.out, 1, 4);
  td_status *s = td_pooling_begin(c, &g.j, 1, 1, in);
  if (td_ok(s)) {
    g.dtype = td_is_half(g.j.result->dtype) ? TD_FLOAT32 : g.j.result->dtype;
    if (g.in > 0) td_for(c, in->dim[0], td_grain_of(4 * g.in), give_images, &g);
    if (g.bad != INT64_MAX) s = bad_place(&g);
  }
  return td_pooling_end(c, &g.j, s);
}

/* ---- cost -----------------------------------------------------------------
 */

static void argmax_cost(td_infer *c, td_cost *cost) {
  td_pooling_cost(c, cost, td_infer_out_count(c, 0));
}

TD_COST_INPUT(argmax_grad_cost, 1, 1)

/* ---- rows ---------------------------------------------------------------- */

/* clang-format off */
#define WINDOW "; ksize: list(int) >= 4; strides: list(int) >= 4; "
#define PLACES "padding: {\"SAME\", \"VALID\"}; " \
  "include_batch_in_index: bool = false; "
#define NUMBERS "T: {float, double, int32, uint8, int16, int8, int64, " \
  "bfloat16, uint16, half, uint32, uint64}"
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "MaxPoolWithArgmax",
     .sig = "input: T -> output: T, argmax: Targmax" WINDOW
            "Targmax: {int32, int64} = int64; " PLACES NUMBERS,
     .shape = infer_argmax,
     .cost = argmax_cost,
     .doc = "The largest element under each window, and its place.",
     .lua = "max_pool_with_argmax",
     .section = "Neural-network building blocks"},
    {.type = "MaxPoolGradWithArgmax",
     .sig = "input: T, grad: T, argmax: Targmax -> output: T" WINDOW PLACES
            "Targmax: {int32, int64}; " NUMBERS,
     .shape = infer_grad,
     .cost = argmax_grad_cost,
     .doc = "Gradient of MaxPoolWithArgmax: grad at the places found.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MaxPoolWithArgmax",
     .device = "CPU",
     .types = TYPES_REALS,
     .run = run_argmax},
    {.op = "MaxPoolGradWithArgmax",
     .device = "CPU",
     .types = TYPES_REALS,
     .run = run_grad},
    {0},
};

TD_MODULE(pooling_argmax, ops, kernels)
