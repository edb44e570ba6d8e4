/* resize_bilinear.c - ResizeBilinear against a walk over pixels, bit for bit,
 * and its loops on every processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "kernels/resize.h"
#include "kernels/resize_line.h"
#include "tests/kernels/arrays.h"

/* {batch, height, width, channels} to {height, width}: blocks whose places are
 * near each other and far, single lines and pixels, tails of all widths. */
static const int64_t cases[][6] = {
    {1, 5, 7, 1, 9, 4},    {2, 16, 16, 3, 7, 7},  {2, 8, 8, 3, 64, 63},
    {3, 1, 1, 2, 3, 5},    {1, 4, 300, 3, 9, 17}, {2, 30, 30, 4, 29, 1},
    {1, 3, 100, 1, 5, 87}, {1, 2, 5, 40, 3, 4},   {1, 1, 900, 7, 1, 11},
    {1, 60, 50, 3, 90, 70}};

static const td_dtype dtypes_read[] = {TD_UINT8,   TD_INT16,    TD_FLOAT16,
                                       TD_FLOAT32, TD_BFLOAT16, TD_FLOAT64};

static td_tensor pictures(uint64_t *r, td_dtype dtype, const int64_t *dims) {
  td_tensor t;
  td_shape s = td_shape_of(4, dims);
  OK(td_tensor_new(NULL, dtype, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, (double)below(r, 256));
  return t;
}

static float mixed(float a, float b, float share) {
  return a + (b - a) * share;
}

static float expected(const td_tensor *x, const td_resize *r,
                      const int64_t *at) {
  td_resize_span v =
      td_resize_between(td_resize_at(r, r->scale_h, at[1]), r->in_h);
  td_resize_span h =
      td_resize_between(td_resize_at(r, r->scale_w, at[2]), r->in_w);
  float corner[4];
  for (int k = 0; k < 4; k++) {
    int64_t from[] = {at[0], k < 2 ? v.low : v.high, k % 2 ? h.high : h.low,
                      at[3]};
    corner[k] = (float)td_tensor_get_f(x, place(&x->shape, from));
  }
  return mixed(mixed(corner[0], corner[1], h.share),
               mixed(corner[2], corner[3], h.share), v.share);
}

static void check_case(const int64_t *dims, td_dtype dtype, int mode,
                       uint64_t *r) {
  bool align = mode == 1, half = mode == 2;
  int32_t size[] = {(int32_t)dims[4], (int32_t)dims[5]};
  td_shape two = td_shape_vector(2);
  td_resize geometry = {.in_h = dims[1], .in_w = dims[2], .half = half};
  geometry.scale_h = (float)dims[1] / (float)dims[4];
  geometry.scale_w = (float)dims[2] / (float)dims[5];
  if (align && dims[4] > 1)
    geometry.scale_h = (float)(dims[1] - 1) / (float)(dims[4] - 1);
  if (align && dims[5] > 1)
    geometry.scale_w = (float)(dims[2] - 1) / (float)(dims[5] - 1);
  request q = {.op = "ResizeBilinear"};
  q.attrs[q.n_attrs++] = (td_note){"align_corners", td_attr_bool(align)};
  q.attrs[q.n_attrs++] = (td_note){"half_pixel_centers", td_attr_bool(half)};
  request_in(&q, pictures(r, dtype, dims));
  OK(td_tensor_from(TD_INT32, &two, size, &q.in[q.n_in++]));
  OK(ask(&q, r));
  for (int64_t i = 0; i < td_tensor_count(&q.out[0]); i++) {
    int64_t at[4];
    coordinates(&q.out[0].shape, i, at);
    float want = expected(&q.in[0], &geometry, at);
    float got = ((const float *)q.out[0].data)[i];
    if (got != want)
      fail_msg("%s, mode %d, width %lld to %lld: element %lld is %.9g, not "
               "%.9g",
               td_dtype_name(dtype), mode, (long long)dims[2],
               (long long)dims[5], (long long)i, (double)got, (double)want);
  }
  request_end(&q);
}

static void test_results(void **state) {
  uint64_t r = 1;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    for (size_t t = 0; t < TD_COUNT(dtypes_read); t++)
      for (int mode = 0; mode < 3; mode++)
        check_case(cases[i], dtypes_read[t], mode, &r);
}

/* Two blocks of the widest table, near in all of them or in none. */
static void check_loops(const td_resize_loops *loops, bool near, uint64_t *r) {
  enum { PLACES = 32, LENGTH = 64 };
  float line[LENGTH + TD_RESIZE_ROOM], to[PLACES], blended[PLACES - 3];
  float share[PLACES];
  int32_t low[PLACES], high[PLACES];
  int64_t base[PLACES] = {0};
  bool is_near[PLACES] = {0};
  td_resize_places p = {PLACES / loops->block, base, is_near, low, high, share};
  for (int i = 0; i < LENGTH + TD_RESIZE_ROOM; i++)
    line[i] = (float)below(r, 99);
  for (int64_t b = 0; b < p.blocks; b++) {
    is_near[b] = near && loops->window > 0;
    base[b] = below(r, LENGTH / 2);
  }
  for (int i = 0; i < PLACES; i++) {
    int64_t reach = is_near[i / loops->block] ? loops->window : LENGTH / 2;
    low[i] = (int32_t)below(r, reach);
    high[i] = (int32_t)below(r, reach);
    share[i] = (float)below(r, 100) / 99;
  }
  loops->mix(&p, line, to);
  for (int i = 0; i < PLACES; i++) {
    const float *from = line + base[i / loops->block];
    assert_true(to[i] == mixed(from[low[i]], from[high[i]], share[i]));
  }
  loops->blend(PLACES - 3, to, line, 0.3f, blended);
  for (int i = 0; i < PLACES - 3; i++)
    assert_true(blended[i] == mixed(to[i], line[i], 0.3f));
}

static void test_loops(void **state) {
  uint64_t r = 2;
  (void)state;
  for (int isa = TD_SCALAR; isa <= (int)td_cpu_best(); isa++)
    for (int i = 0; i < 100; i++)
      check_loops(td_resize_loops_of((td_isa)isa), i % 2, &r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),
      cmocka_unit_test(test_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
