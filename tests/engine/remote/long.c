/* long.c - tests of engine/remote: messages beyond a frame, such as states of
 * megabytes and steps of tens of thousands of feeds and fetches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "pair.h"

enum { HEAVY = 3 << 20, MANY = 20000, TOO_HEAVY = 12 << 20 };

/* ---- a kernel with a state ------------------------------------------------
 */

static size_t weight = HEAVY; /* bytes of a state that is made */

typedef struct heavy {
  td_str text;
} heavy;

static td_status *heavy_make(const td_kernel_info *info, void **state) {
  (void)info;
  heavy *h = td_calloc(1, sizeof *h);
  if (!h) return td_oom();
  for (size_t i = 0; i < weight; i++)
    td_str_addc(&h->text, (char)('a' + i % 26));
  *state = h;
  return NULL;
}

static void heavy_drop(void *state) {
  heavy *h = state;
  td_str_deinit(&h->text);
  td_free(h);
}

static td_status *heavy_save(const void *state, td_str *out) {
  const heavy *h = state;
  td_str_addn(out, td_str_c(&((heavy *)state)->text), h->text.len);
  return NULL;
}

static td_status *heavy_load(void *state, td_bytes from) {
  heavy *h = state;
  td_str_deinit(&h->text);
  td_str_addn(&h->text, from.at, from.len);
  return NULL;
}

/* Its length. */
static td_status *heavy_run(td_kernel_ctx *c) {
  const heavy *h = c->kernel->state;
  td_shape scalar = td_shape_of(0, NULL);
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  td_tensor_set_f(y, 0, (double)h->text.len);
  return NULL;
}

/* clang-format off */
static const td_op_def ops[] = {
    {.type = "TestHeavy", .sig = "-> y: float", .shape = td_infer_scalars,
     .flags = TD_STATEFUL},
    {0}};
static const td_kernel_def kernels[] = {
    {.op = "TestHeavy", .device = "CPU", .run = heavy_run, .make = heavy_make,
     .drop = heavy_drop, .save = heavy_save, .load = heavy_load},
    {0}};
/* clang-format on */

static int register_ops(void **state) {
  static const td_module module = {"long", ops, kernels};
  (void)state;
  td_status *s = td_op_register(&module);
  if (!s) s = td_kernel_register(&module);
  if (s) print_error("%s\n", td_status_message(s));
  return s ? -1 : 0;
}

static double run_one(cluster *c, td_edge fetch) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor value;
  OK(td_session_run(c->s, &sig, NULL, &value, NULL));
  double got = td_tensor_get_f(&value, 0);
  td_tensor_release(&value);
  return got;
}

/* ---- tests ----------------------------------------------------------------
 */

/* A state of 3 MB goes and comes; one that is too long is an error, and ends
 * nobody. */
static void test_states(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 1);
  weight = HEAVY;
  td_edge y = far_node(&c, 0, "TestHeavy", "y", NULL, 0);
  assert_true(run_one(&c, y) == HEAVY);
  td_str saved = {0}, waiting = {0};
  OK(td_session_save_states(c.s, &saved));
  assert_true(saved.len > HEAVY);
  assert_non_null(memmem(saved.at, saved.len, "xyzabc", 6));
  OK(td_session_load_states(c.s, (td_bytes){saved.at, saved.len}, &waiting));
  assert_true(run_one(&c, y) == HEAVY);
  td_str_deinit(&saved);
  td_str_deinit(&waiting);
  weight = TOO_HEAVY;
  td_edge z = far_node(&c, 0, "TestHeavy", "z", NULL, 0);
  assert_true(run_one(&c, z) == TOO_HEAVY);
  FAILS(td_session_save_states(c.s, &saved), TD_RESOURCE_EXHAUSTED,
        "a message that begins with");
  td_str_deinit(&saved);
  assert_true(run_one(&c, y) == HEAVY);
  cluster_deinit(&c);
}

/* All of them from the worker and, with `fed`, to it. */
static void run_many(cluster *c, const td_edge *x, const td_edge *y, bool fed) {
  td_tensor *in = td_calloc(MANY, sizeof *in);
  td_tensor *out = td_calloc(MANY, sizeof *out);
  assert_true(in && out);
  for (int i = 0; fed && i < MANY; i++)
    OK(td_tensor_scalar_f(TD_FLOAT32, i, &in[i]));
  td_signature sig = {
      .feeds = x, .n_feeds = fed ? MANY : 0, .fetches = y, .n_fetches = MANY};
  OK(td_session_run(c->s, &sig, in, out,
                    &(td_step_options){.timeout = 100000000000}));
  for (int i = 0; i < MANY; i++) {
    assert_true(td_tensor_get_f(&out[i], 0) == (fed ? -i : -1));
    td_tensor_release(&in[i]);
    td_tensor_release(&out[i]);
  }
  td_free(in);
  td_free(out);
}

static void test_many_fetches(void **state) {
  cluster c = {0};
  td_edge *x = td_calloc(MANY, sizeof *x), *y = td_calloc(MANY, sizeof *y);
  (void)state;
  assert_true(x && y);
  cluster_init(&c, 1);
  c.s->options.passes_off = ~0u;
  td_edge one = make_const(&c.r, TD_FLOAT32, 1, NULL);
  for (int i = 0; i < MANY; i++) {
    x[i] = make_node(&c.r, "Identity", NULL, &one, 1);
    y[i] = far_node(&c, 0, "Neg", NULL, &x[i], 1);
  }
  for (int i = 0; i < 2; i++) run_many(&c, x, y, true);
  assert_int_equal(c.n, 1);
  td_remote_traffic t;
  td_remote_read_traffic(c.remote, &t);
  assert_int_equal(t.offered, 0); /* small ones are part of the message */
  td_remote_read_traffic(c.worker[0].remote, &t);
  assert_int_equal(t.offered, 0);
  cluster_deinit(&c);
  td_free(x);
  td_free(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_many_fetches),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
