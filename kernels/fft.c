/* fft.c - FFT, IFFT, RFFT, IRFFT and those over two and three axes.
 *
 * The innermost axes are transformed, one after the other; axes before them are
 * a batch. A transform of reals begins with the last axis, its inverse ends
 * with it: so what a real result cannot hold is ignored in the last axis only.
 * fft_length takes the beginning of longer axes. An empty input has zeros for
 * its transform.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fft.h"

#include <math.h>
#include <string.h>

#include "kernels/operand.h"
#include "kernels/strided_copy.h"

enum { AXES = 3 };

/* What the name of an op says. */
typedef struct form {
  int axes;
  bool real, inverse;
} form;

static form form_of(const td_op *op) {
  const char *s = op->type;
  size_t n = strlen(s);
  form f = {.axes = s[n - 1] == 'D' ? s[n - 2] - '0' : 1};
  f.inverse = *s == 'I';
  f.real = s[f.inverse] == 'R';
  return f;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *ask_rank(const td_shape *s, const form *f) {
  td_shape_text text;
  if (s->rank < 0 || s->rank >= f->axes) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "input must have at least %d %s, not be of shape %s", f->axes,
                  f->axes == 1 ? "axis" : "axes", td_shape_str(s, &text));
}

/* Sizes of the axes that are read, and of the result, from a length. */
static int64_t size_read(const form *f, int axis, int64_t length) {
  bool last = axis == f->axes - 1;
  return f->inverse && last && length > 0 ? length / 2 + 1 : length;
}
static int64_t size_made(const form *f, int axis, int64_t length) {
  bool last = axis == f->axes - 1;
  return !f->inverse && last && length > 0 ? length / 2 + 1 : length;
}

static td_status *ask_length(const form *f, int axis, const td_shape *x,
                             int64_t length) {
  int at = x->rank - f->axes + axis;
  int64_t has = x->rank < 0 ? -1 : x->dim[at];
  int64_t needs = size_read(f, axis, length);
  if (length < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "fft_length[%d] must not be negative: it is %lld", axis,
                    (long long)length);
  if (has <= 0 || has >= needs) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "axis %d of input has %lld elements, fft_length[%d] = %lld "
                  "needs %lld: pad it first",
                  at, (long long)has, axis, (long long)length,
                  (long long)needs);
}

static td_status *ask_count(const form *f, int rank, int64_t count) {
  if (rank == 1 && count == f->axes) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "fft_length must be a vector of %d, one for each axis",
                  f->axes);
}

static td_status *ask_types(td_dtype real, td_dtype complex) {
  if ((real == TD_FLOAT64) == (complex == TD_COMPLEX128)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "float goes with complex64 and double with complex128, not "
                  "%s with %s",
                  td_dtype_name(real), td_dtype_name(complex));
}

static td_status *complex_infer(td_infer *c) {
  form f = form_of(td_infer_op(c));
  TD_TRY(ask_rank(td_infer_in(c, 0), &f));
  return td_infer_same(c);
}

static td_status *real_infer(td_infer *c) {
  form f = form_of(td_infer_op(c));
  td_shape y = *td_infer_in(c, 0), n;
  td_small length;
  bool known;
  TD_TRY(ask_types(td_infer_type(c, "Treal"), td_infer_type(c, "Tcomplex")));
  TD_TRY(ask_rank(&y, &f));
  TD_TRY(td_infer_rank(c, 1, 1, "fft_length", &n));
  if (n.dim[0] >= 0) TD_TRY(ask_count(&f, 1, n.dim[0]));
  TD_TRY(td_operand_infer_ints(c, 1, "fft_length", &length, &known));
  if (known) TD_TRY(ask_count(&f, length.rank, length.count));
  for (int i = 0; i < f.axes; i++) {
    bool given = known && length.known[i];
    if (given) TD_TRY(ask_length(&f, i, td_infer_in(c, 0), length.at[i]));
    if (y.rank >= 0)
      y.dim[y.rank - f.axes + i] = given ? size_made(&f, i, length.at[i]) : -1;
  }
  td_infer_out(c, 0, y);
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

/* Axis `axis` of `shape`, from here to there. */
static td_status *run_axis(td_kernel_ctx *c, const td_shape *shape, int axis,
                           bool inverse, const void *from, td_tensor *to) {
  int64_t n = shape->dim[axis];
  td_fft_axis a = {.outer = td_shape_span(shape, 0, axis),
                   .n = n,
                   .inner = td_shape_span(shape, axis + 1, shape->rank),
                   .from = from,
                   .to = to->data,
                   .from_pitch = n,
                   .to_pitch = n,
                   .inverse = inverse,
                   .wide = to->dtype == TD_COMPLEX128,
                   .scale = inverse && n > 0 ? 1 / (double)n : 1};
  return td_fft_run(c, &a);
}

static td_status *complex_run(td_kernel_ctx *c) {
  form f = form_of(td_ctx_node(c)->op);
  td_tensor *y;
  const void *from = td_in(c, 0)->data;
  TD_TRY(ask_rank(&td_in(c, 0)->shape, &f));
  TD_TRY(td_out_like(c, 0, 0, &y));
  for (int i = 0; i < f.axes; i++) {
    TD_TRY(run_axis(c, &y->shape, y->shape.rank - 1 - i, f.inverse, from, y));
    from = y->data;
  }
  return NULL;
}

/* Input 0's corner of that shape; shares the buffer when that is all of it. */
static td_status *corner(td_kernel_ctx *c, const td_shape *shape,
                         td_tensor *out) {
  const td_tensor *x = td_in(c, 0);
  td_strided_copy m = {0};
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  if (td_shape_equal(&x->shape, shape)) {
    td_tensor_retain(x, out);
    return NULL;
  }
  TD_TRY(td_temp(c, x->dtype, shape, out));
  td_shape_strides(&x->shape, from);
  td_shape_strides(shape, to);
  for (int i = 0; i < shape->rank; i++)
    td_strided_copy_loop(&m, shape->dim[i], from[i], to[i]);
  td_strided_copy_run(c, &m, td_dtype_size(x->dtype), x->data, out->data);
  return NULL;
}

/* Forward: the last axis, then those before it, where the result is. */
static td_status *forth(td_kernel_ctx *c, const form *f, const td_tensor *x,
                        td_tensor *y) {
  const td_shape *s = &x->shape;
  int64_t n = s->dim[s->rank - 1];
  td_status *done =
      td_fft_forth(c, x->dtype == TD_FLOAT64, td_shape_span(s, 0, s->rank - 1),
                   n, x->data, y->data);
  for (int i = 1; i < f->axes && td_ok(done); i++)
    done = run_axis(c, &y->shape, s->rank - 1 - i, false, y->data, y);
  return done;
}

/* Back: the last axis last; those before it in memory of our own. */
static td_status *back(td_kernel_ctx *c, const form *f, td_tensor *x,
                       td_tensor *y) {
  const td_shape *s = &y->shape;
  td_status *done = NULL;
  if (f->axes > 1 && x->data == td_in(c, 0)->data) {
    td_tensor own;
    TD_TRY(td_temp(c, x->dtype, &x->shape, &own));
    done = run_axis(c, &x->shape, s->rank - 2, true, x->data, &own);
    td_tensor_release(x);
    *x = own;
  } else if (f->axes > 1) {
    done = run_axis(c, &x->shape, s->rank - 2, true, x->data, x);
  }
  if (f->axes > 2 && td_ok(done))
    done = run_axis(c, &x->shape, s->rank - 3, true, x->data, x);
  if (!td_ok(done)) return done;
  return td_fft_back(c, y->dtype == TD_FLOAT64,
                     td_shape_span(s, 0, s->rank - 1), s->dim[s->rank - 1],
                     x->data, y->data);
}

static td_status *real_run(td_kernel_ctx *c) {
  form f = form_of(td_ctx_node(c)->op);
  const td_tensor *in = td_in(c, 0);
  td_shape read = in->shape, made = in->shape;
  td_small length;
  td_tensor x, *y;
  TD_TRY(ask_rank(&in->shape, &f));
  TD_TRY(td_operand_ints(td_in(c, 1), "fft_length", &length));
  TD_TRY(ask_count(&f, length.rank, length.count));
  for (int i = 0; i < f.axes; i++) {
    int at = read.rank - f.axes + i;
    TD_TRY(ask_length(&f, i, &in->shape, length.at[i]));
    read.dim[at] = size_read(&f, i, length.at[i]);
    made.dim[at] = size_made(&f, i, length.at[i]);
  }
  TD_TRY(td_out(c, 0, &made, &y));
  if (td_tensor_count(y) == 0) return NULL;
  if (td_tensor_count(in) == 0) {
    memset(y->data, 0, (size_t)td_tensor_count(y) * td_dtype_size(y->dtype));
    return NULL;
  }
  TD_TRY(corner(c, &read, &x));
  td_status *s = f.inverse ? back(c, &f, &x, y) : forth(c, &f, &x, y);
  td_tensor_release(&x);
  return s;
}

/* ---- cost ---------------------------------------------------------------- */

/* 5 n log2 n for n complex numbers, as is usual; of reals half. */
static void fft_cost(td_infer *c, td_cost *cost) {
  form f = form_of(td_infer_op(c));
  const td_shape *s = f.inverse ? td_infer_out_shape(c, 0) : td_infer_in(c, 0);
  double n = f.inverse ? td_infer_out_count(c, 0) : td_infer_in_count(c, 0);
  double each = 1;
  for (int i = 1; i <= f.axes; i++) each *= td_infer_size(s, -i);
  cost->flops = (f.real ? 2.5 : 5) * n * (each > 1 ? log2(each) : each - each);
}

/* ---- tables -------------------------------------------------------------- */

#define COMPLEX(name, what, how)                                               \
  {                                                                            \
    .type = name,                                                              \
    .sig = "input: Tcomplex -> output: Tcomplex; "                             \
           "Tcomplex: {complex64, complex128} = complex64",                    \
    .shape = complex_infer, .cost = fft_cost, .doc = what, .example = how,     \
    .section = "Signals"                                                       \
  }
#define FORTH(name, what)                                                      \
  {                                                                            \
    .type = name,                                                              \
    .sig = "input: Treal, fft_length: int32 -> output: Tcomplex; "             \
           "Treal: {float, double} = float; "                                  \
           "Tcomplex: {complex64, complex128} = complex64",                    \
    .shape = real_infer, .cost = fft_cost, .doc = what, .host = "fft_length",  \
    .section = "Signals"                                                       \
  }
#define BACK(name, what)                                                       \
  {                                                                            \
    .type = name,                                                              \
    .sig = "input: Tcomplex, fft_length: int32 -> output: Treal; "             \
           "Treal: {float, double} = float; "                                  \
           "Tcomplex: {complex64, complex128} = complex64",                    \
    .shape = real_infer, .cost = fft_cost, .doc = what, .host = "fft_length",  \
    .section = "Signals"                                                       \
  }

static const td_op_def ops[] = {
    COMPLEX("FFT", "The discrete Fourier transform over the last axis.",
            "td.fft(td.cast({1, 2}, \"complex64\"))  --> 3+0i -1+0i"),
    COMPLEX("IFFT", "The inverse of fft, over the last axis.",
            "td.ifft(td.cast({3, -1}, \"complex64\"))  --> 1+0i 2+0i"),
    COMPLEX("FFT2D", "The discrete Fourier transform over the last two axes.",
            "td.fft2d(td.cast({{1, 2}}, \"complex64\"))  --> 3+0i -1+0i"),
    COMPLEX("IFFT2D", "The inverse of fft2d, over the last two axes.",
            "td.ifft2d(td.cast({{3, -1}}, \"complex64\"))  --> 1+0i 2+0i"),
    COMPLEX("FFT3D", "The discrete Fourier transform over the last three axes.",
            "td.fft3d(td.cast({{{1, 2}}}, \"complex64\"))  --> 3+0i -1+0i"),
    COMPLEX("IFFT3D", "The inverse of fft3d, over the last three axes.",
            "td.ifft3d(td.cast({{{3, -1}}}, \"complex64\"))  --> 1+0i 2+0i"),
    FORTH("RFFT", "The first fft_length / 2 + 1 numbers of the Fourier "
                  "transform of reals, over the last axis."),
    BACK("IRFFT", "The inverse of rfft, over the last axis."),
    FORTH("RFFT2D", "The Fourier transform of reals over the last two axes."),
    BACK("IRFFT2D", "The inverse of rfft2d, over the last two axes."),
    FORTH("RFFT3D", "The Fourier transform of reals over the last three axes."),
    BACK("IRFFT3D", "The inverse of rfft3d, over the last three axes."),
    {0},
};

#define KERNEL(name, how)                                                      \
  {                                                                            \
    .op = name, .device = "CPU", .run = how, .make = td_fft_plans_make,        \
    .drop = td_fft_plans_drop                                                  \
  }

static const td_kernel_def kernels[] = {
    KERNEL("FFT", complex_run),
    KERNEL("IFFT", complex_run),
    KERNEL("FFT2D", complex_run),
    KERNEL("IFFT2D", complex_run),
    KERNEL("FFT3D", complex_run),
    KERNEL("IFFT3D", complex_run),
    KERNEL("RFFT", real_run),
    KERNEL("IRFFT", real_run),
    KERNEL("RFFT2D", real_run),
    KERNEL("IRFFT2D", real_run),
    KERNEL("RFFT3D", real_run),
    KERNEL("IRFFT3D", real_run),
    {0},
};

TD_MODULE(fft, ops, kernels)
