/* candidate.c - what candidate samplers draw from: tables against the weights
 * that they were made of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "kernels/candidate.h"
#include "tests/kernels/arrays.h"

enum { DRAWS = 200000, CLASSES = 37 };

static td_candidate_words words(uint64_t seed) {
  td_candidate_words w = {.left = 0};
  td_philox_init(&w.stream, seed, 1);
  return w;
}

/* Counts of each class within six deviations of what the weights say. */
static void check_counts(const int64_t *counts, const double *weights,
                         int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += weights[i];
  for (int64_t i = 0; i < n; i++) {
    double p = weights[i] / sum, mean = p * DRAWS;
    double most = 6 * sqrt(mean * (1 - p));
    if (!(fabs((double)counts[i] - mean) <= most))
      fail_msg("class %lld came %lld times, expected %.0f", (long long)i,
               (long long)counts[i], mean);
  }
}

static void test_alias(void **state) {
  float given[CLASSES];
  double weights[CLASSES];
  int64_t counts[CLASSES] = {0};
  td_candidate_words w = words(1);
  td_candidate_alias a = {0};
  (void)state;
  for (int i = 0; i < CLASSES; i++) {
    given[i] = (float)(i % 5 * (i % 7));
    weights[i] = (double)given[i];
  }
  OK(td_candidate_alias_init(&a, given, CLASSES));
  for (int i = 0; i < DRAWS; i++) counts[td_candidate_alias_pick(&a, &w)]++;
  check_counts(counts, weights, CLASSES);
  td_candidate_alias_deinit(&a);
}

/* Any number of classes, a power of two or not. */
static void test_tree(void **state) {
  (void)state;
  for (int64_t n = 1; n <= CLASSES; n += 4) {
    double weights[CLASSES];
    int64_t counts[CLASSES] = {0};
    td_candidate_words w = words((uint64_t)n);
    td_candidate_tree t;
    OK(td_candidate_tree_init(&t, n));
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 0; k < i % 6; k++) td_candidate_tree_add(&t, i);
    for (int64_t i = 0; i < n; i++) {
      weights[i] = (double)td_candidate_tree_weight(&t, i);
      assert_true(weights[i] == (double)(1 + i % 6));
    }
    assert_int_equal(td_candidate_tree_weight(&t, n), 0);
    for (int i = 0; i < DRAWS; i++) counts[td_candidate_tree_pick(&t, &w)]++;
    check_counts(counts, weights, n);
    td_candidate_tree_deinit(&t);
  }
}

static void test_below(void **state) {
  double weights[CLASSES];
  int64_t counts[2][CLASSES] = {{0}};
  td_candidate_words w = words(5);
  (void)state;
  for (int i = 0; i < CLASSES; i++) weights[i] = 1;
  for (int i = 0; i < DRAWS; i++) {
    counts[0][td_candidate_below32(&w, CLASSES)]++;
    counts[1][td_candidate_below64(&w, CLASSES)]++;
    double x = td_candidate_double(&w);
    assert_true(x >= 0 && x < 1);
  }
  check_counts(counts[0], weights, CLASSES);
  check_counts(counts[1], weights, CLASSES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alias),
      cmocka_unit_test(test_tree),
      cmocka_unit_test(test_below),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
