/* part_bytes.c - equal parts have equal bytes.
 *
 * The graph of a seed is drawn twice: in another runtime, whose devices are of
 * another incarnation, among nodes that the signature does not need, so that
 * its own have other ids and serials. Each part of its plan must come out the
 * same, byte for byte: a worker that has a part knows it by its hash.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/random_call.h"

#include "engine/plan/part.h"
#include "engine/run/session.h"

enum { MOST_FETCHES = 4 };

/* One way to come to the same plan. */
typedef struct side {
  rig r;
  drawn d;
  context *root;
  td_runtime *runtime;
  td_session *s;
  td_plan *plan;
} side;

/* `n` nodes that nobody asks for. */
static void add_others(side *a, int n) {
  for (int i = 0; i < n; i++) {
    td_build b;
    td_node *node;
    char name[32];
    snprintf(name, sizeof name, "elsewhere_%d", (int)td_graph_size(a->d.graph));
    td_build_init(&b, a->d.graph, "NoOp", name);
    OK(td_build_node(&b, &node));
  }
}

static void side_draw(side *a, unsigned seed, int others) {
  memset(a, 0, sizeof *a);
  rig_init(&a->r);
  a->d = (drawn){.graph = a->r.graph, .seed = seed * 2654435761u + 1};
  a->root = context_new(NULL, 'r');
  add_others(a, others);
  for (int i = 0; i < 3; i++) fresh_value(&a->d, a->root, TD_INVALID);
  add_others(a, others);
  make_variables(&a->d, a->root);
  for (int i = 0; i < 3; i++) {
    int ops = 3 + draw(&a->d, 5);
    draw_ops(&a->d, a->root, a->root, ops, 0);
    add_others(a, others);
  }
}

static void side_plan(side *a, const td_session_options *o, bool others) {
  td_runtime_options ro = {.test_devices = 1};
  td_edge fetch[MOST_FETCHES], other = {NULL, 0};
  int n = 0;
  for (; n < MOST_FETCHES && n < a->root->n; n++)
    fetch[n] = a->root->value[a->root->n - 1 - n];
  OK(td_runtime_new(&ro, &a->runtime));
  OK(td_session_new(a->runtime, a->d.graph, o, &a->s));
  if (others) { /* the placer has seen some of the graph before */
    other = a->root->value[0];
    td_signature first = {.fetches = &other, .n_fetches = 1};
    OK(td_session_plan(a->s, &first, &a->plan));
    td_plan_free(a->plan);
  }
  td_signature sig = {.fetches = fetch, .n_fetches = n};
  OK(td_session_plan(a->s, &sig, &a->plan));
}

static void side_end_plan(side *a) {
  td_plan_free(a->plan);
  td_session_release(a->s);
  td_runtime_release(a->runtime);
}

static void side_end(side *a) {
  free(a->root);
  rig_deinit(&a->r);
}

static void check_same(unsigned seed, const td_plan *a, const td_plan *b) {
  assert_int_equal(a->n_parts, b->n_parts);
  for (int i = 0; i < a->n_parts; i++) {
    td_sealed_part x, y;
    assert_string_equal(a->parts[i].device->name, b->parts[i].device->name);
    assert_true(a->parts[i].device->incarnation !=
                b->parts[i].device->incarnation);
    OK(td_part_seal(&a->parts[i], &x));
    OK(td_part_seal(&b->parts[i], &y));
    if (x.len != y.len || memcmp(x.graph, y.graph, x.len) != 0)
      fail_msg("seed %u: the bytes of %s differ", seed,
               a->parts[i].device->name);
    td_sealed_part_deinit(&x);
    td_sealed_part_deinit(&y);
  }
}

static int32_t crossing; /* edges of all plans */

static void check_seed(unsigned seed, const td_session_options *o) {
  side a, b;
  side_draw(&a, seed, 0);
  side_draw(&b, seed, 2);
  assert_true(td_graph_size(b.d.graph) > td_graph_size(a.d.graph));
  side_plan(&a, o, false);
  side_plan(&b, o, true);
  check_same(seed, a.plan, b.plan);
  crossing += a.plan->n_edges;
  side_end_plan(&a);
  /* The same graph in another session of another runtime. */
  side_plan(&a, o, true);
  check_same(seed, a.plan, b.plan);
  side_end_plan(&a);
  side_end_plan(&b);
  side_end(&a);
  side_end(&b);
}

static void test_equal_bytes(void **state) {
  (void)state;
  int seeds = rounds(100, 2000);
  const td_session_options ways[] = {
      {.cpu_devices = 2, .verify = true},
      {.cpu_devices = 2, .spread = true},
      {.cpu_devices = 1, .passes_off = ~0U},
  };
  crossing = 0;
  for (unsigned i = 0; i < (unsigned)seeds; i++)
    check_seed(i, &ways[i % TD_COUNT(ways)]);
  print_message("%d seeds, %d edges across devices\n", seeds, (int)crossing);
  assert_true(crossing > 10 * seeds);
}

/* Another constant, name or device is another part. */
static void test_other_bytes(void **state) {
  (void)state;
  side a, b;
  const td_session_options o = {.cpu_devices = 2};
  side_draw(&a, 1, 0);
  side_draw(&b, 2, 0);
  side_plan(&a, &o, false);
  side_plan(&b, &o, false);
  td_sealed_part x, y;
  OK(td_part_seal(&a.plan->parts[0], &x));
  OK(td_part_seal(&b.plan->parts[0], &y));
  assert_true(x.len != y.len || memcmp(x.graph, y.graph, x.len) != 0);
  td_sealed_part_deinit(&x);
  td_sealed_part_deinit(&y);
  side_end_plan(&a);
  side_end_plan(&b);
  side_end(&a);
  side_end(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_bytes),
      cmocka_unit_test(test_other_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
