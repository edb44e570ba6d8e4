/* conv.c - convolutions: every way against plain loops, bands and pieces,
 * layouts, many threads, and what is refused.
 *
 * Operands are small integers, whose sums float holds exactly: results are
 * compared for equality, whatever the order of additions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/conv.h"
#include "kernels/blas/dnn.h"
#include "tests/kernels/call.h"
#include "tests/kernels/net.h"

/* ---- plain loops --------------------------------------------------------- */

static int64_t input_index(const td_conv *c, const int64_t *at,
                           const int64_t *offset, int64_t image) {
  int64_t index = image;
  for (int i = 0; i < TD_CONV_AXES; i++) {
    int64_t in =
        at[i] * c->stride[i] + offset[i] * c->dilation[i] - c->before[i];
    if (in < 0 || in >= c->in[i]) return -1;
    index = index * c->in[i] + in;
  }
  return index * c->in_channels;
}

static void unravel(int64_t i, const int64_t *sizes, int64_t *at) {
  for (int k = TD_CONV_AXES - 1; k >= 0; k--) {
    at[k] = i % sizes[k];
    i /= sizes[k];
  }
}

static void tap_naively(const td_conv *c, td_conv_pass pass, float *x,
                        float *filter, float *y) {
  int64_t deep = c->in_channels / c->groups, wide = c->out_channels / c->groups;
  for (int64_t o = 0; o < c->out_channels; o++)
    for (int64_t i = 0; i < deep; i++) {
      float *a = &x[o / wide * deep + i], *b = &filter[i * c->out_channels + o];
      if (pass == TD_CONV_FORWARD)
        y[o] += *a * *b;
      else if (pass == TD_CONV_DATA)
        *a += y[o] * *b;
      else
        *b += *a * y[o];
    }
}

static void run_naively(const td_conv *c, td_conv_pass pass,
                        const td_conv_data *d) {
  int64_t each = td_conv_places(c) / c->batch, at[3], offset[3];
  int64_t size = c->in_channels / c->groups * c->out_channels;
  for (int64_t p = 0; p < td_conv_places(c); p++)
    for (int64_t t = 0; t < td_conv_window(c); t++) {
      unravel(p % each, c->out, at);
      unravel(t, c->filter, offset);
      int64_t from = input_index(c, at, offset, p / each);
      if (from >= 0)
        tap_naively(c, pass, (float *)d->x + from,
                    (float *)d->filter + t * size,
                    (float *)d->y + p * c->out_channels);
    }
}

/* ---- the ways ------------------------------------------------------------ */

/* batch, channels in and out, groups, sizes, filter, stride, dilation,
 * padding before and after */
typedef struct row {
  int64_t batch, in, out, groups;
  int64_t size[3], filter[3], stride[3], dilation[3], before[3], after[3];
} row;

#define ONE                                                                    \
  { 1, 1, 1 }
#define NONE                                                                   \
  { 0, 0, 0 }

static const row rows[] = {
    {2, 3, 4, 1, {1, 7, 6}, {1, 3, 2}, ONE, ONE, {0, 1, 0}, {0, 1, 1}},
    {3, 16, 32, 1, {1, 9, 8}, {1, 3, 3}, ONE, ONE, {0, 1, 1}, {0, 1, 1}},
    {1, 5, 7, 1, {1, 9, 9}, {1, 3, 3}, {1, 2, 3}, ONE, NONE, NONE},
    {2, 4, 6, 2, {1, 5, 5}, {1, 2, 3}, ONE, {1, 2, 1}, {0, 1, 2}, {0, 0, 1}},
    {2, 8, 8, 8, {1, 6, 6}, {1, 3, 3}, ONE, ONE, {0, 1, 1}, {0, 1, 1}},
    {2, 3, 6, 3, {1, 6, 5}, {1, 3, 3}, {1, 2, 2}, ONE, {0, 1, 1}, {0, 1, 1}},
    {3, 16, 16, 16, {2, 9, 5}, {2, 2, 3}, {1, 2, 1}, {1, 1, 2}, ONE, ONE},
    {2, 16, 8, 1, {1, 5, 4}, {1, 1, 1}, ONE, ONE, NONE, NONE},
    {2, 16, 8, 1, {1, 5, 5}, {1, 1, 1}, {1, 2, 2}, ONE, NONE, NONE},
    {1, 3, 4, 1, {4, 5, 6}, {2, 3, 2}, {2, 1, 1}, ONE, {1, 1, 0}, {0, 1, 1}},
    {2, 16, 16, 1, {5, 6, 7}, {3, 3, 3}, ONE, {2, 1, 1}, {2, 1, 1}, {2, 1, 1}},
    {1, 2, 3, 1, {1, 3, 3}, {1, 5, 5}, ONE, ONE, {0, 6, 5}, {0, 4, 9}},
    /* cut into bands, with and without overlap, and into images */
    {1, 32, 48, 1, {1, 60, 50}, {1, 3, 3}, ONE, ONE, {0, 1, 1}, {0, 1, 1}},
    {2,
     32,
     48,
     1,
     {1, 61, 50},
     {1, 5, 3},
     ONE,
     {1, 2, 1},
     {0, 4, 0},
     {0, 3, 2}},
    {1, 3, 64, 1, {1, 90, 70}, {1, 7, 7}, {1, 2, 2}, ONE, {0, 3, 3}, {0, 3, 3}},
    {1, 64, 64, 1, {1, 61, 40}, {1, 1, 1}, {1, 2, 2}, ONE, NONE, NONE},
    {1, 16, 32, 1, {18, 14, 20}, {3, 3, 3}, ONE, ONE, {1, 1, 1}, {1, 1, 1}},
    {21, 16, 32, 1, {1, 16, 24}, {1, 3, 3}, ONE, ONE, {0, 1, 1}, {0, 1, 1}},
    {70, 16, 32, 1, {1, 28, 28}, {1, 5, 5}, ONE, ONE, {0, 2, 2}, {0, 2, 2}},
};

static td_conv conv_of(const row *r) {
  td_conv c = {.batch = r->batch,
               .in_channels = r->in,
               .out_channels = r->out,
               .groups = r->groups};
  for (int i = 0; i < TD_CONV_AXES; i++) {
    int64_t extent = 0;
    assert_true(td_conv_extent(r->filter[i], r->dilation[i], &extent));
    c.in[i] = r->size[i];
    c.filter[i] = r->filter[i];
    c.stride[i] = r->stride[i];
    c.dilation[i] = r->dilation[i];
    c.before[i] = r->before[i];
    c.after[i] = r->after[i];
    c.out[i] = (c.in[i] + c.before[i] + c.after[i] - extent) / c.stride[i] + 1;
  }
  return c;
}

enum { X, FILTER, Y, KINDS };

static void sizes_of(const td_conv *c, int64_t *n) {
  n[X] = c->batch * c->in[0] * c->in[1] * c->in[2] * c->in_channels;
  n[FILTER] =
      td_conv_window(c) * (c->in_channels / c->groups) * c->out_channels;
  n[Y] = td_conv_places(c) * c->out_channels;
}

static void fill(float *to, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; i++) to[i] = (float)(i * step % 7 % 5 - 2);
}

/* Two sets of operands, of which one thing each is computed. */
typedef struct problem {
  td_conv c;
  int64_t n[KINDS];
  float *want[KINDS], *got[KINDS];
} problem;

static const int result_of[] = {Y, X, FILTER};

static void problem_init(problem *p, const row *r, td_conv_pass pass) {
  p->c = conv_of(r);
  sizes_of(&p->c, p->n);
  for (int i = 0; i < KINDS; i++) {
    size_t bytes = (size_t)p->n[i] * sizeof(float);
    p->want[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    p->got[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_true(p->want[i] && p->got[i]);
    fill(p->want[i], p->n[i], 3 + i);
    fill(p->got[i], p->n[i], 3 + i);
  }
  memset(p->want[result_of[pass]], 0,
         (size_t)p->n[result_of[pass]] * sizeof(float));
}

static void problem_deinit(problem *p) {
  for (int i = 0; i < KINDS; i++) {
    free(p->want[i]);
    free(p->got[i]);
  }
}

static td_conv_data data_of(float **of) {
  return (td_conv_data){TD_FLOAT32, of[X], of[FILTER], of[Y]};
}

static td_status *run_by(net *w, td_conv_way way, td_conv_pass pass,
                         problem *p) {
  static const bool host[4] = {true, true, true, true};
  td_edge node = net_node(w, "NoOp", NULL, 0, NULL, 0);
  td_kernel k = {.node = node.node,
                 .device = w->device,
                 .in_host = host,
                 .out_host = host};
  td_kernel_ctx ctx = {.kernel = &k, .step = &w->step};
  td_conv_data d = data_of(p->got);
  return td_conv_by(&ctx, way, &p->c, pass, &d);
}

/* `bound`: of the error, by the largest sum that there can be. */
static void check_near(const problem *p, td_conv_pass pass, int number,
                       double bound) {
  int64_t terms =
      pass == TD_CONV_WEIGHTS ? td_conv_places(&p->c) : td_conv_window(&p->c);
  if (pass == TD_CONV_FORWARD) terms *= p->c.in_channels;
  if (pass == TD_CONV_DATA) terms *= p->c.out_channels;
  int r = result_of[pass];
  for (int64_t i = 0; i < p->n[r]; i++)
    if (!(fabs((double)p->want[r][i] - (double)p->got[r][i]) <=
          bound * 4 * (double)terms))
      fail_msg("row %d, pass %d, element %lld: %g, not %g", number, (int)pass,
               (long long)i, (double)p->got[r][i], (double)p->want[r][i]);
}

/* oneDNN may have no such convolution: then another way is taken. */
static int check_way(td_conv_way way, double bound) {
  net w;
  int taken = 0;
  bool library = way == TD_CONV_DNN || way == TD_CONV_WINOGRAD;
  net_init(&w, 2);
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    for (td_conv_pass pass = TD_CONV_FORWARD; pass <= TD_CONV_WEIGHTS; pass++) {
      problem p;
      td_conv c = conv_of(&rows[i]);
      if (way == TD_CONV_DEPTHWISE && !td_conv_is_depthwise(&c, TD_FLOAT32))
        continue;
      problem_init(&p, &rows[i], pass);
      td_status *s = run_by(&w, way, pass, &p);
      if (!library || td_status_code(s) != TD_UNIMPLEMENTED) {
        OK(s);
        td_conv_data d = data_of(p.want);
        run_naively(&p.c, pass, &d);
        check_near(&p, pass, (int)i, bound);
        taken++;
      }
      td_status_release(s);
      problem_deinit(&p);
    }
  net_deinit(&w);
  return taken;
}

static void test_columns(void **state) {
  (void)state;
  assert_int_equal(check_way(TD_CONV_COLUMNS, 0), 3 * TD_COUNT(rows));
}

static void test_depthwise(void **state) {
  (void)state;
  assert_int_equal(check_way(TD_CONV_DEPTHWISE, 0), 3 * 3);
}

static void test_dnn(void **state) {
  (void)state;
  if (!td_dnn_ready()) skip();
  assert_in_range(check_way(TD_CONV_DNN, 0), 2 * TD_COUNT(rows), 1000);
}

/* The algorithm adds and subtracts before it multiplies: its errors are larger,
 * but still of the size of a sum's own. */
static void test_winograd(void **state) {
  (void)state;
  if (!td_dnn_ready() || td_cpu_isa() < TD_AVX512) skip();
  int taken = check_way(TD_CONV_WINOGRAD, 1e-6);
  assert_in_range(taken, 5, 1000);
}

/* ---- threads ------------------------------------------------------------- */

static td_tensor numbers(td_dtype dtype, td_shape shape, int step) {
  td_tensor t;
  assert_null(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, sin((double)(i * step)));
  return t;
}

static td_tensor sizes_as_tensor(const td_shape *s) {
  td_shape v = td_shape_vector(s->rank);
  td_tensor t;
  assert_null(td_tensor_new(NULL, TD_INT32, &v, &t));
  for (int i = 0; i < s->rank; i++) td_tensor_set_i(&t, i, s->dim[i]);
  return t;
}

/* The operands of an op of the family by pass, in an array. */
static void operands_of(td_conv_pass pass, const td_tensor *x,
                        const td_tensor *w, const td_tensor *y, td_tensor *in) {
  if (pass == TD_CONV_DATA)
    in[0] = sizes_as_tensor(&x->shape);
  else
    td_tensor_retain(x, &in[0]);
  if (pass == TD_CONV_WEIGHTS)
    in[1] = sizes_as_tensor(&w->shape);
  else
    td_tensor_retain(w, &in[1]);
  if (pass != TD_CONV_FORWARD) td_tensor_retain(y, &in[2]);
}

static const char *const conv2d[] = {"Conv2D", "Conv2DBackpropInput",
                                     "Conv2DBackpropFilter"};

static td_tensor run_op(td_conv_pass pass, int threads, const td_tensor *x,
                        const td_tensor *w, const td_tensor *y,
                        const int64_t *strides, const char *format) {
  const td_note attrs[] = {{"strides", td_attr_ints(strides, 4)},
                           {"padding", td_attr_string("SAME")},
                           {"data_format", td_attr_string(format)}};
  int n = pass == TD_CONV_FORWARD ? 2 : 3;
  td_tensor in[3], out;
  operands_of(pass, x, w, y, in);
  OK(call(conv2d[pass], threads, in, n, attrs, 3, &out));
  for (int i = 0; i < n; i++) td_tensor_release(&in[i]);
  return out;
}

static void check_threads(td_dtype dtype, int64_t batch, int64_t size,
                          int64_t deep, int64_t wide) {
  static const int64_t strides[] = {1, 1, 1, 1};
  td_tensor x =
      numbers(dtype, td_shape_of(4, (int64_t[]){batch, size, size, deep}), 3);
  td_tensor w =
      numbers(dtype, td_shape_of(4, (int64_t[]){3, 3, deep, wide}), 5);
  td_tensor y =
      numbers(dtype, td_shape_of(4, (int64_t[]){batch, size, size, wide}), 7);
  for (td_conv_pass pass = TD_CONV_FORWARD; pass <= TD_CONV_WEIGHTS; pass++) {
    td_tensor one = run_op(pass, 1, &x, &w, &y, strides, "NHWC");
    for (int threads = 2; threads <= 4; threads++) {
      td_tensor many = run_op(pass, threads, &x, &w, &y, strides, "NHWC");
      assert_true(td_tensor_same(&one, &many));
      td_tensor_release(&many);
    }
    td_tensor_release(&one);
  }
  td_tensor_release(&x);
  td_tensor_release(&w);
  td_tensor_release(&y);
}

static void test_threads(void **state) {
  (void)state;
  check_threads(TD_FLOAT32, 1, 60, 32, 32);
  check_threads(TD_FLOAT32, 19, 30, 16, 24);
  check_threads(TD_FLOAT64, 2, 31, 12, 17);
  check_threads(TD_BFLOAT16, 2, 31, 12, 17);
}

/* ---- layouts ------------------------------------------------------------- */

/* The same tensor with channels first. */
static td_tensor turned(const td_tensor *t) {
  const int64_t *d = t->shape.dim;
  td_shape shape = td_shape_of(4, (int64_t[]){d[0], d[3], d[1], d[2]});
  int64_t places = d[1] * d[2];
  td_tensor out;
  assert_null(td_tensor_new(NULL, t->dtype, &shape, &out));
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    int64_t image = i / (places * d[3]), c = i % d[3], p = i / d[3] % places;
    td_tensor_set_f(&out, (image * d[3] + c) * places + p,
                    td_tensor_get_f(t, i));
  }
  return out;
}

static void check_layouts(td_dtype dtype) {
  static const int64_t last[] = {1, 2, 1, 1}, first[] = {1, 1, 2, 1};
  td_tensor x = numbers(dtype, td_shape_of(4, (int64_t[]){2, 7, 5, 4}), 3);
  td_tensor w = numbers(dtype, td_shape_of(4, (int64_t[]){3, 2, 2, 6}), 5);
  td_tensor y = numbers(dtype, td_shape_of(4, (int64_t[]){2, 4, 5, 6}), 7);
  td_tensor xt = turned(&x), yt = turned(&y);
  for (td_conv_pass pass = TD_CONV_FORWARD; pass <= TD_CONV_WEIGHTS; pass++) {
    td_tensor a = run_op(pass, 2, &x, &w, &y, last, "NHWC");
    td_tensor b = run_op(pass, 2, &xt, &w, &yt, first, "NCHW");
    td_tensor want;
    if (pass == TD_CONV_WEIGHTS)
      td_tensor_retain(&a, &want);
    else
      want = turned(&a);
    assert_true(td_tensor_same(&want, &b));
    td_tensor_release(&want);
    td_tensor_release(&a);
    td_tensor_release(&b);
  }
  td_tensor *all[] = {&x, &w, &y, &xt, &yt};
  for (size_t i = 0; i < TD_COUNT(all); i++) td_tensor_release(all[i]);
}

static void test_layouts(void **state) {
  (void)state;
  check_layouts(TD_FLOAT32);
  check_layouts(TD_FLOAT64);
  check_layouts(TD_FLOAT16);
}

/* ---- many callers -------------------------------------------------------- */

enum { CALLERS = 8, ROUNDS = 6 };

typedef struct caller {
  const td_tensor *x, *w, *y, *want; /* by pass */
  int wrong;
} caller;

static void *call_many(void *arg) {
  static const int64_t strides[] = {1, 1, 1, 1};
  caller *c = arg;
  for (int i = 0; i < ROUNDS * 3; i++) {
    td_tensor out = run_op(i % 3, 2, c->x, c->w, c->y, strides, "NHWC");
    c->wrong += !td_tensor_same(&out, &c->want[i % 3]);
    td_tensor_release(&out);
  }
  return NULL;
}

static void test_callers(void **state) {
  (void)state;
  static const int64_t strides[] = {1, 1, 1, 1};
  td_tensor x =
      numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){3, 20, 18, 16}), 3);
  td_tensor w =
      numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){5, 3, 16, 32}), 5);
  td_tensor y =
      numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){3, 20, 18, 32}), 7);
  td_tensor want[3];
  caller callers[CALLERS];
  pthread_t threads[CALLERS];
  for (int i = 0; i < 3; i++)
    want[i] = run_op(i, 1, &x, &w, &y, strides, "NHWC");
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){&x, &w, &y, want, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, call_many, &callers[i]),
                     0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(callers[i].wrong, 0);
  }
  td_tensor *all[] = {&x, &w, &y, &want[0], &want[1], &want[2]};
  for (size_t i = 0; i < TD_COUNT(all); i++) td_tensor_release(all[i]);
}

/* ---- what is refused ----------------------------------------------------- */

typedef struct refusal {
  int64_t strides[4], dilations[4];
  int n; /* of paddings; 0: SAME */
  int64_t paddings[8];
  td_code code;
  const char *part;
} refusal;

#define PLAIN                                                                  \
  { 1, 1, 1, 1 }

static const refusal refusals[] = {
    {{1, 0, 1, 1}, PLAIN, 0, {0}, TD_INVALID_ARGUMENT, "strides"},
    {{1, 1, -1, 1}, PLAIN, 0, {0}, TD_INVALID_ARGUMENT, "not -1"},
    {{1, 1, INT64_MAX, 1}, PLAIN, 0, {0}, TD_INVALID_ARGUMENT, "strides"},
    {{2, 1, 1, 1}, PLAIN, 0, {0}, TD_UNIMPLEMENTED, "batch and channels"},
    {{1, 1, 1, 2}, PLAIN, 0, {0}, TD_UNIMPLEMENTED, "batch and channels"},
    {PLAIN, {1, 0, 1, 1}, 0, {0}, TD_INVALID_ARGUMENT, "dilations"},
    {PLAIN, {1, 1, 1, 3}, 0, {0}, TD_UNIMPLEMENTED, "dilations"},
    {PLAIN, PLAIN, 7, {0}, TD_INVALID_ARGUMENT, "8 elements"},
    {PLAIN, PLAIN, 8, {1}, TD_INVALID_ARGUMENT, "batch and channels"},
    {PLAIN, PLAIN, 8, {0, 0, -1}, TD_INVALID_ARGUMENT, "not -1"},
    {PLAIN, PLAIN, 8, {0, 0, 0, INT64_MAX}, TD_INVALID_ARGUMENT, "between"},
    {PLAIN, {1, 9, 1, 1}, 8, {0}, TD_INVALID_ARGUMENT, "negative"},
};

static void test_refused(void **state) {
  (void)state;
  td_tensor in[2], out;
  in[0] = numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){1, 4, 4, 1}), 1);
  in[1] = numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){2, 2, 1, 1}), 1);
  for (size_t i = 0; i < TD_COUNT(refusals); i++) {
    const refusal *r = &refusals[i];
    const td_note attrs[] = {
        {"strides", td_attr_ints(r->strides, 4)},
        {"dilations", td_attr_ints(r->dilations, 4)},
        {"explicit_paddings", td_attr_ints(r->paddings, r->n)},
        {"padding", td_attr_string(r->n ? "EXPLICIT" : "SAME")}};
    FAILS(call("Conv2D", 1, in, 2, attrs, 4, &out), r->code, r->part);
  }
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

/* Paddings of 2^31 make a result that no memory holds: an error, no crash. */
static void test_huge(void **state) {
  (void)state;
  static const int64_t ones[] = {1, 1, 1, 1};
  static const int64_t pads[] = {0,         0,         INT32_MAX, INT32_MAX,
                                 INT32_MAX, INT32_MAX, 0,         0};
  const td_note attrs[] = {{"strides", td_attr_ints(ones, 4)},
                           {"explicit_paddings", td_attr_ints(pads, 8)},
                           {"padding", td_attr_string("EXPLICIT")}};
  td_tensor in[2], out;
  in[0] = numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){1, 4, 4, 1}), 1);
  in[1] = numbers(TD_FLOAT32, td_shape_of(4, (int64_t[]){2, 2, 1, 1}), 1);
  td_status *s = call("Conv2D", 1, in, 2, attrs, 3, &out);
  assert_non_null(s);
  td_status_release(s);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_columns), cmocka_unit_test(test_depthwise),
      cmocka_unit_test(test_dnn),     cmocka_unit_test(test_winograd),
      cmocka_unit_test(test_threads), cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_callers), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_huge),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
