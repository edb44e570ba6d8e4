/* random.c - random numbers: known answers, ranges, streams.
 *
 * Expected values are TensorFlow 2.21's, seeds given as attributes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "kernels/random.h"
#include "tests/kernels/arrays.h"

/* ---- bits ---------------------------------------------------------------- */

static const struct {
  td_philox p;
  uint32_t words[4];
} answers[] = {
    {{{0, 0, 0, 0}, {0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
      {0xffffffff, 0xffffffff}},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
      {0xa4093822, 0x299f31d0}},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    {{{0, 0, 42, 0}, {87654321, 0}},
     {0xb1f9e408, 0xf656b54c, 0x3765ccfd, 0x0ee0bd75}},
};

static const td_random_table *table_of(int isa) {
  static const td_random_table *const all[] = {
      &td_random_scalar, &td_random_avx2, &td_random_avx512};
  return all[isa];
}

static void test_known_answers(void **state) {
  (void)state;
  for (int isa = 0; isa <= (int)td_cpu_best(); isa++)
    for (size_t i = 0; i < TD_COUNT(answers); i++) {
      uint32_t words[4];
      table_of(isa)->bits(&answers[i].p, 1, 1, words);
      assert_memory_equal(words, answers[i].words, sizeof words);
    }
}

/* Any number of blocks, any stride, counters that carry: as one by one. */
static void test_blocks(void **state) {
  uint32_t words[4 * 70], one[4];
  (void)state;
  for (int isa = 0; isa <= (int)td_cpu_best(); isa++)
    for (int n = 1; n <= 70; n++) {
      td_philox p = {{(uint32_t)-n, UINT32_MAX, UINT32_MAX, 3}, {1, 2}};
      uint64_t stride = n % 2 ? 1 : 256;
      table_of(isa)->bits(&p, n, stride, words);
      for (int b = 0; b < n; b++) {
        td_philox q = p;
        td_philox_skip(&q, (uint64_t)b * stride);
        td_philox_next(&q, one);
        assert_memory_equal(words + 4 * b, one, sizeof one);
      }
    }
}

/* ---- numbers ------------------------------------------------------------- */

static td_random_draw draw_of(td_random_kind kind, td_dtype dtype,
                              int64_t count, void *to) {
  td_random_draw d = {.kind = kind, .dtype = dtype, .count = count, .to = to};
  td_philox_init(&d.base, 87654321, 42);
  return d;
}

static void fill(td_random_draw *d) {
  int64_t each = td_random_group(d->dtype);
  td_random_fill(d, 0, (d->count + each - 1) / each);
}

static void test_uniform_values(void **state) {
  float x[4];
  (void)state;
  td_random_draw d = draw_of(TD_RANDOM_UNIFORM, TD_FLOAT32, 4, x);
  fill(&d);
  assert_true(x[0] == 0.95227146f && x[1] == 0.67740774f &&
              x[2] == 0.79531825f && x[3] == 0.75578177f);
}

static void test_normal_values(void **state) {
  static const float want[] = {-0.280775f, -0.137752f, -0.676330f, 0.024580f};
  float x[4];
  (void)state;
  td_random_draw d = draw_of(TD_RANDOM_NORMAL, TD_FLOAT32, 4, x);
  fill(&d);
  for (int i = 0; i < 4; i++) assert_true(fabsf(x[i] - want[i]) < 1e-6f);
}

enum { MANY = 100003 }; /* fills no group */

/* Each kind and dtype: the same bits from every instruction set, and from any
 * cut of the groups. */
static void agree(td_random_kind kind, td_dtype dtype) {
  size_t bytes = MANY * td_dtype_size(dtype);
  char *a = test_malloc(bytes), *b = test_malloc(bytes);
  td_random_draw d = draw_of(kind, dtype, MANY, a);
  d.range = 1000003;
  fill(&d);
  for (int isa = 0; isa <= (int)td_cpu_best(); isa++) {
    int64_t each = td_random_group(dtype), groups = (MANY + each - 1) / each;
    d.isa = (td_isa)isa;
    d.to = b;
    memset(b, 0xee, bytes);
    for (int64_t g = groups - 1; g >= 0; g -= 77)
      td_random_fill(&d, g > 76 ? g - 76 : 0, g + 1);
    assert_memory_equal(a, b, bytes);
  }
  test_free(a);
  test_free(b);
}

static void test_agreement(void **state) {
  static const td_dtype floats[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                    TD_FLOAT64};
  (void)state;
  for (size_t t = 0; t < TD_COUNT(floats); t++)
    for (int k = TD_RANDOM_UNIFORM; k <= TD_RANDOM_TRUNCATED; k++)
      agree((td_random_kind)k, floats[t]);
  agree(TD_RANDOM_INTEGER, TD_INT32);
  agree(TD_RANDOM_INTEGER, TD_INT64);
}

static void moments(td_random_kind kind, double low, double high, double mean,
                    double variance) {
  float *x = test_malloc(MANY * sizeof *x);
  double sum = 0, square = 0;
  td_random_draw d = draw_of(kind, TD_FLOAT32, MANY, x);
  fill(&d);
  for (int i = 0; i < MANY; i++) {
    assert_true((double)x[i] >= low && (double)x[i] < high);
    sum += (double)x[i];
    square += (double)x[i] * (double)x[i];
  }
  mean -= sum /= MANY;
  variance -= square / MANY - sum * sum;
  assert_true(fabs(mean) < 0.01 && fabs(variance) < 0.01);
  test_free(x);
}

static void test_distributions(void **state) {
  (void)state;
  moments(TD_RANDOM_UNIFORM, 0, 1, 0.5, 1.0 / 12);
  moments(TD_RANDOM_NORMAL, -6, 6, 0, 1);
  moments(TD_RANDOM_TRUNCATED, -2, 2, 0, 0.7737);
}

/* ---- ops ----------------------------------------------------------------- */

static td_edge random_node(net *w, const char *op, td_tensor shape,
                           int64_t seed2) {
  td_edge in = net_feed(w, shape);
  td_note attrs[] = {{"seed", td_attr_int(seed2 ? 87654321 : 0)},
                     {"seed2", td_attr_int(seed2)},
                     {"dtype", td_attr_type(TD_FLOAT32)}};
  return net_node(w, op, &in, 1, attrs, 3);
}

/* A stream goes on where the last run ended: 256 blocks for each element. */
static void test_stream(void **state) {
  net w;
  td_tensor t;
  (void)state;
  net_init(&w, 2);
  td_edge e = random_node(&w, "RandomUniform", ints(1, (int32_t[]){5}), 42);
  for (int run = 0; run < 3; run++) {
    float want[5];
    td_random_draw d = draw_of(TD_RANDOM_UNIFORM, TD_FLOAT32, 5, want);
    td_philox_skip(&d.base, (uint64_t)run * 5 * 256);
    fill(&d);
    OK(net_run(&w, e, &t));
    assert_memory_equal(t.data, want, sizeof want);
    td_tensor_release(&t);
  }
  net_deinit(&w);
}

static void test_entropy(void **state) {
  net w;
  td_tensor a, b;
  (void)state;
  net_init(&w, 2);
  td_edge e = random_node(&w, "RandomUniform", ints(1, (int32_t[]){8}), 0);
  td_edge f = random_node(&w, "RandomUniform", ints(1, (int32_t[]){8}), 0);
  OK(net_run(&w, e, &a));
  OK(net_run(&w, f, &b));
  assert_false(td_tensor_same(&a, &b));
  td_tensor_release(&a);
  td_tensor_release(&b);
  net_deinit(&w);
}

/* One run of a kernel as iteration `i` of a loop. */
static td_tensor iterate(const td_kernel *k, td_step *step, td_tensor *in,
                         int64_t i) {
  td_tensor out = {0};
  td_kernel_ctx c = {.kernel = k,
                     .step = step,
                     .in = in,
                     .out = &out,
                     .n_in = 1,
                     .n_out = 1,
                     .frame = 77,
                     .iteration = i};
  OK(k->def->run(&c));
  return out;
}

enum { STEPS = 3, ITERATIONS = 4 };

/* Runs iterations of steps in the order given by `back`. */
static void loop(bool back, td_tensor out[STEPS][ITERATIONS]) {
  net w;
  td_kernel k;
  td_tensor in = ints(1, (int32_t[]){16});
  net_init(&w, 2);
  td_edge e = random_node(&w, "RandomUniform", ints(1, (int32_t[]){16}), 42);
  OK(td_kernel_init(&k, e.node, w.device, w.states));
  for (int s = 0; s < STEPS; s++)
    for (int i = 0; i < ITERATIONS; i++) {
      int at = back ? ITERATIONS - 1 - i : i;
      w.step.id = 1000 + (uint64_t)s * (back ? 3 : 1);
      out[s][at] = iterate(&k, &w.step, &in, at);
    }
  td_kernel_deinit(&k);
  td_tensor_release(&in);
  net_deinit(&w);
}

/* In a loop the order of iterations does not matter, nor what ids steps have;
 * every step and every iteration draws its own numbers. */
static void test_loops(void **state) {
  td_tensor a[STEPS][ITERATIONS], b[STEPS][ITERATIONS], *all = &a[0][0];
  (void)state;
  loop(false, a);
  loop(true, b);
  for (int i = 0; i < STEPS * ITERATIONS; i++) {
    assert_true(td_tensor_same(&all[i], &b[0][0] + i));
    for (int j = 0; j < i; j++) assert_false(td_tensor_same(&all[i], &all[j]));
  }
  for (int i = 0; i < STEPS * ITERATIONS; i++) {
    td_tensor_release(&all[i]);
    td_tensor_release(&b[0][0] + i);
  }
}

static void test_integers(void **state) {
  net w;
  td_tensor t;
  td_note attrs[] = {{"seed", td_attr_int(87654321)},
                     {"seed2", td_attr_int(42)}};
  (void)state;
  net_init(&w, 2);
  td_edge in[3] = {net_feed(&w, ints(1, (int32_t[]){4})),
                   net_feed(&w, scalar64(-5)), net_feed(&w, scalar64(5))};
  td_edge e = net_node(&w, "RandomUniformInt", in, 3, attrs, 2);
  OK(net_run(&w, e, &t));
  for (int i = 0; i < 4; i++) assert_in_range(td_tensor_get_i(&t, i) + 5, 0, 9);
  td_tensor_release(&t);
  net_refeed(&w, in[2], scalar64(-5));
  FAILS(net_do(&w, e), TD_INVALID_ARGUMENT, "minval must be below maxval");
  net_refeed(&w, in[0], ints(1, (int32_t[]){-4}));
  FAILS(net_do(&w, e), TD_INVALID_ARGUMENT, "shape[0] must not be negative");
  net_deinit(&w);
}

/* TensorFlow's order for 10 rows. */
static void test_shuffle(void **state) {
  static const int32_t want[] = {2, 0, 7, 8, 9, 3, 6, 4, 1, 5};
  net w;
  td_tensor t;
  td_note attrs[] = {{"seed", td_attr_int(87654321)},
                     {"seed2", td_attr_int(42)}};
  (void)state;
  net_init(&w, 2);
  td_edge in =
      net_feed(&w, ints(10, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  td_edge e = net_node(&w, "RandomShuffle", &in, 1, attrs, 2);
  OK(net_run(&w, e, &t));
  assert_memory_equal(t.data, want, sizeof want);
  td_tensor_release(&t);
  uint64_t r = 1;
  for (int i = 0; i < 50; i++) { /* rows of any dtype: a permutation */
    net_refeed(&w, in, random_i(TD_INT32, td_shape_matrix(30, 1), r, 1000));
    int64_t before = 0, after = 0;
    OK(net_run(&w, e, &t));
    for (int k = 0; k < 30; k++) {
      before += td_tensor_get_i(&w.fed[in.node->id], k);
      after += td_tensor_get_i(&t, k);
    }
    assert_int_equal(before, after);
    td_tensor_release(&t);
  }
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_answers),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_uniform_values),
      cmocka_unit_test(test_normal_values),
      cmocka_unit_test(test_agreement),
      cmocka_unit_test(test_distributions),
      cmocka_unit_test(test_stream),
      cmocka_unit_test(test_entropy),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_shuffle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
