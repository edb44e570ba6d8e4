/* part.c - tests of engine/plan/part.c: parts on their way to others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/node_edit.h"
#include "engine/graphdef/function.h"
#include "engine/plan/part.h"
#include "parts.h"

/* The part for CPU:0 of a plan of "y" = -s, where s has a state. */
static td_plan *small(world *w) {
  td_plan *p;
  *w = new_world("CC");
  w->request.passes_off = ~0U;
  add(w, "s", "PlanSource", "");
  add(w, "y", "PlanNeg", "s");
  OK(plan(w, "", "y", &p));
  assert_int_equal(p->n_parts, 1);
  return p;
}

/* What is told beside the bytes is found again: serials and device. */
static void test_serials(void **state) {
  (void)state;
  world w;
  td_plan *p = small(&w);
  td_sealed_part sealed;
  td_part part;
  OK(td_part_seal(&p->parts[0], &sealed));
  OK(td_part_open(&sealed, w.devices[0], &part));
  assert_int_equal(td_graph_size(part.graph), td_graph_size(p->parts[0].graph));
  for (int32_t id = 0; id < td_graph_size(part.graph); id++)
    assert_int_equal(td_graph_node(part.graph, id)->serial,
                     td_graph_node(p->parts[0].graph, id)->serial);
  assert_int_equal(node(part.graph, "s")->serial, edge(&w, "s").node->serial);
  assert_int_equal(node(part.graph, "_retval_y_0_0")->serial, 0);
  assert_ptr_equal(part.device, w.devices[0]);
  td_part_deinit(&part);
  td_sealed_part_deinit(&sealed);
  td_plan_free(p);
  free_world(&w);
}

/* Not by whom it was not made for, nor with what does not belong to it. */
static void test_refused(void **state) {
  (void)state;
  world w;
  td_plan *p = small(&w);
  td_sealed_part sealed;
  td_part part;
  OK(td_part_seal(&p->parts[0], &sealed));
  sealed.incarnation++;
  FAILS(td_part_open(&sealed, w.devices[0], &part), TD_FAILED_PRECONDITION,
        "another start of");
  sealed.incarnation--;
  sealed.n_nodes--;
  FAILS(td_part_open(&sealed, w.devices[0], &part), TD_INVALID_ARGUMENT,
        "a part of 3 nodes came with serials of 2");
  sealed.n_nodes++;
  sealed.len--;
  FAILS(td_part_open(&sealed, w.devices[0], &part), TD_INVALID_ARGUMENT, "");
  sealed.len++;
  OK(td_part_open(&sealed, w.devices[0], &part));
  td_part_deinit(&part);
  td_sealed_part_deinit(&sealed);
  td_plan_free(p);
  free_world(&w);
}

/* ---- functions ----------------------------------------------------------- */

/* f(x) = -x, and so on; each calls the one before. */
static void define(world *w, const char *name, const char *calls) {
  world body = new_world("");
  td_func_attr func = {.name = calls};
  td_attr a = {.kind = TD_ATTR_FUNC, .func = &func};
  add_placeholder(&body, "x", td_shape_unknown());
  td_node *neg = add(&body, "neg", "PlanNeg", "x");
  if (*calls) OK(td_node_set_note(neg, "_calls", a));
  td_edge in = edge(&body, "x"), out = edge(&body, "neg");
  const char *arg = "x";
  td_function_spec f = {.name = name,
                        .args = &in,
                        .arg_names = &arg,
                        .n_args = 1,
                        .results = &out,
                        .n_results = 1};
  OK(td_function_make(body.g, &f, w->g));
  free_world(&body);
}

/* A part carries the functions that it reaches, through others too. */
static void test_functions(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  td_func_attr func = {.name = "g"};
  td_attr a = {.kind = TD_ATTR_FUNC, .func = &func};
  w.request.passes_off = ~0U;
  define(&w, "f", "");
  define(&w, "g", "f");
  define(&w, "h", "g");
  add(&w, "s", "PlanSource", "");
  OK(td_node_set_note(add(&w, "y", "PlanNeg", "s @c1"), "_uses", a));
  OK(plan(&w, "", "y", &p));
  assert_int_equal(p->n_parts, 2);
  assert_int_equal(td_function_count(part(p, "CPU", 0)), 0);
  const td_graph *second = part(p, "CPU", 1);
  assert_int_equal(td_function_count(second), 2);
  assert_non_null(td_function_find(second, "f"));
  assert_non_null(td_function_find(second, "g"));
  td_plan_free(p);
  free_world(&w);
}

/* ---- no memory ----------------------------------------------------------- */

static void test_no_memory(void **state) {
  (void)state;
  world w;
  td_plan *p = small(&w);
  for (int64_t n = 1;; n++) {
    td_sealed_part sealed = {0};
    td_part part = {0};
    td_mem_fail(n, false);
    td_status *s = td_part_seal(&p->parts[0], &sealed);
    if (td_ok(s)) s = td_part_open(&sealed, w.devices[0], &part);
    td_mem_fail(0, false);
    td_sealed_part_deinit(&sealed);
    if (td_ok(s)) {
      td_part_deinit(&part);
      assert_true(n > 10);
      break;
    }
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  td_plan_free(p);
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_serials),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
