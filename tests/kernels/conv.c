/* conv.c - convolutions: every way against plain loops, bands and pieces,
 * layouts, many threads, and what is refused.
 *
 * Operands are small integers, whose sums float holds exactly: results are
 * compared for equality, whatever the order of additions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "kernels/conv.h"
#include "kernels/dnn.h"
#include "tests/kernels/call.h"
#include "tests/kernels/graph.h"

/* ---- plain loops --------------------------------------------------------- */

static int64_t input_index(const td_conv *c, const int64_t *at,
                           const int64_t *tap, int64_t image) {
  int64_t index = image;
  for (int i = 0; i < TD_CONV_AXES; i++) {
    int64_t in = at[i] * c->stride[i] + tap[i] * c->dilation[i] - c->before[i];
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
  int64_t each = td_conv_places(c) / c->batch, at[3], tap[3];
  int64_t size = c->in_channels / c->groups * c->out_channels;
  for (int64_t p = 0; p < td_conv_places(c); p++)
    for (int64_t t = 0; t < td_conv_taps(c); t++) {
      unravel(p % each, c->out, at);
      unravel(t, c->filter, tap);
      int64_t from = input_index(c, at, tap, p / each);
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
  n[FILTER] = td_conv_taps(c) * (c->in_channels / c->groups) * c->out_channels;
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

static td_status *run_by(world *w, td_conv_way way, td_conv_pass pass,
                         problem *p) {
  static const bool host[4] = {true, true, true, true};
  td_edge node = world_node(w, "NoOp", NULL, 0, NULL, 0);
  td_kernel k = {.node = node.node,
                 .device = w->device,
                 .in_host = host,
                 .out_host = host};
  td_kernel_ctx ctx = {.kernel = &k, .step = &w->step};
  td_conv_data d = data_of(p->got);
  return td_conv_by(&ctx, way, &p->c, pass, &d);
}

static void check_equal(const problem *p, td_conv_pass pass, int number) {
  int r = result_of[pass];
  for (int64_t i = 0; i < p->n[r]; i++)
    if (p->want[r][i] != p->got[r][i])
      fail_msg("row %d, pass %d, element %lld: %g, not %g", number, (int)pass,
               (long long)i, (double)p->got[r][i], (double)p->want[r][i]);
}

/* oneDNN may have no such convolution: then another way is taken. */
static int check_way(td_conv_way way) {
  world w;
  int taken = 0;
  world_init(&w, 2);
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    for (td_conv_pass pass = TD_CONV_FORWARD; pass <= TD_CONV_WEIGHTS; pass++) {
      problem p;
      td_conv c = conv_of(&rows[i]);
      if (way == TD_CONV_DEPTHWISE && !td_conv_is_depthwise(&c, TD_FLOAT32))
        continue;
      problem_init(&p, &rows[i], pass);
      td_status *s = run_by(&w, way, pass, &p);
      if (way != TD_CONV_DNN || td_status_code(s) != TD_UNIMPLEMENTED) {
        OK(s);
        td_conv_data d = data_of(p.want);
        run_naively(&p.c, pass, &d);
        check_equal(&p, pass, (int)i);
        taken++;
      }
      td_status_release(s);
      problem_deinit(&p);
    }
  world_deinit(&w);
  return taken;
}

static void test_columns(void **state) {
  (void)state;
  assert_int_equal(check_way(TD_CONV_COLUMNS), 3 * TD_COUNT(rows));
}

static void test_depthwise(void **state) {
  (void)state;
  assert_int_equal(check_way(TD_CONV_DEPTHWISE), 3 * 3);
}

static void test_dnn(void **state) {
  (void)state;
  if (!td_dnn_ready()) skip();
  assert_in_range(check_way(TD_CONV_DNN), 2 * TD_COUNT(rows), 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_depthwise),
      cmocka_unit_test(test_dnn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
