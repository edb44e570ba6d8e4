/* remote.c - tests of engine/remote: steps over workers of this process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

static td_status *run(cluster *c, td_edge fetch, const td_step_options *o,
                      double *out) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor value;
  TD_TRY(td_session_run(c->s, &sig, NULL, &value, o));
  if (out) *out = td_tensor_get_f(&value, 0);
  td_tensor_release(&value);
  return NULL;
}

/* (2 + 3) there, times 2 here, plus 3 there again. */
static void test_to_and_fro(void **state) {
  cluster c = {0};
  double value = 0;
  (void)state;
  cluster_init(&c, 1);
  c.s->options.passes_off = ~0u;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL),
          three = make_const(&c.r, TD_FLOAT32, 3, NULL);
  td_edge sum = far_node(&c, 0, "Add", "sum", (td_edge[]){two, three}, 2);
  td_edge product = NODE(&c.r, "Mul", "product", sum, two);
  td_edge last =
      far_node(&c, 0, "Add", "last", (td_edge[]){product, three}, 2);
  for (int i = 0; i < 100; i++) {
    OK(run(&c, last, NULL, &value));
    assert_true(value == 13);
  }
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_to_and_fro),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
