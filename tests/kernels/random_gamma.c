/* random_gamma.c - distributions with parameters: the same bits from any
 * number of threads, whatever the pieces; no memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "tests/kernels/net.h"

enum { PARAMETERS = 7, SAMPLES = 3001 };

/* Builds the op in a net of its own. */
static td_edge build(net *w, const char *op) {
  static const int32_t samples = SAMPLES;
  td_note seeds[2] = {{"seed", td_attr_int(3)}, {"seed2", td_attr_int(4)}};
  td_shape scalar = td_shape_scalar();
  bool classes = strcmp(op, "Multinomial") == 0;
  td_tensor x = random_f(TD_FLOAT64,
                         classes ? td_shape_matrix(PARAMETERS, 50)
                                 : td_shape_vector(PARAMETERS),
                         9);
  td_tensor size;
  for (int64_t i = 0; !classes && i < PARAMETERS; i++)
    td_tensor_set_f(&x, i, 0.4 + (double)(i * i));
  OK(td_tensor_from(TD_INT32, &scalar, &samples, &size));
  if (!classes) {
    td_tensor_release(&size);
    size = ints(1, &samples);
  }
  td_edge a = net_feed(w, x), b = net_feed(w, size);
  td_edge in[2] = {classes ? a : b, classes ? b : a};
  return net_node(w, op, in, 2, seeds, 2);
}

static td_tensor run_on(int threads, const char *op) {
  net w;
  td_tensor y;
  net_init(&w, threads);
  OK(net_run(&w, build(&w, op), &y));
  net_deinit(&w);
  return y;
}

static const char *const ops[] = {"RandomGamma", "RandomPoissonV2",
                                  "Multinomial"};

static void test_threads_do_not_matter(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(ops); i++) {
    td_tensor one = run_on(1, ops[i]), many = run_on(4, ops[i]);
    assert_int_equal(td_tensor_count(&one), PARAMETERS * SAMPLES);
    if (!td_tensor_same(&one, &many))
      fail_msg("%s: threads change its numbers", ops[i]);
    td_tensor_release(&one);
    td_tensor_release(&many);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(ops); i++) {
    net w;
    net_init(&w, 2);
    net_starve(&w, build(&w, ops[i]));
    net_deinit(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_do_not_matter),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests_name("random_variate", tests, NULL, NULL);
}
