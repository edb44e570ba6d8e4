/* keeper.c - tests of engine/remote: sessions that a server keeps, of clients
 * that mean well and of some that do not.
 *
 * Server and client are two remotes of this process, over ipc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include "engine/base/bytes.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/region.h"
#include "engine/remote/far_graph.h"
#include "engine/remote/far_session.h"
#include "engine/remote/keeper_impl.h"
#include "engine/remote/worker_impl.h"

enum { SESSIONS_OF_ONE = 128 };

/* ---- two ends ------------------------------------------------------------ */

/* A client whose session is at worker 0, which it is not attached to. */
static void begin(cluster *c, const td_far_options *how) {
  td_far_options o = {.name = "test"};
  if (how) o = *how;
  cluster_init(c, 0);
  worker_start(c, &c->worker[0], 0);
  c->n = 1;
  o.at.to.control = c->worker[0].address;
  OK(td_far_open(c->remote, c->s, c->r.graph, &o));
}

static float run_at(td_session *s, td_edge fetch, td_edge feed, float value) {
  td_signature sig = {.feeds = &feed,
                      .n_feeds = feed.node ? 1 : 0,
                      .fetches = &fetch,
                      .n_fetches = 1};
  td_tensor in = {0}, out;
  OK(td_tensor_scalar_f(TD_FLOAT32, value, &in));
  OK(td_session_run(s, &sig, &in, &out, NULL));
  float result = (float)td_tensor_get_f(&out, 0);
  td_tensor_release(&in);
  td_tensor_release(&out);
  return result;
}

/* The first that is kept, a share. */
static td_kept_session *kept_by(worker *w) {
  td_kept_session *k = NULL;
  td_remote_enter(w->remote);
  if (w->remote->keeper && w->remote->keeper->all.len)
    k = td_kept_retain(w->remote->keeper->all.at[0]);
  td_remote_leave(w->remote);
  return k;
}

static size_t nodes_at(worker *w) {
  td_kept_session *k = kept_by(w);
  pthread_mutex_lock(&k->lock);
  size_t n = k->nodes;
  pthread_mutex_unlock(&k->lock);
  td_kept_release(k);
  return n;
}

static bool is_empty(void *arg) {
  worker *w = arg;
  td_remote_enter(w->remote);
  bool empty = !w->remote->keeper || w->remote->keeper->all.len == 0;
  td_remote_leave(w->remote);
  return empty;
}

static bool has_one_node(void *arg) {
  return nodes_at(arg) == 1;
}

static td_edge placeholder(cluster *c, const char *name) {
  td_build b;
  td_node *n;
  td_build_init(&b, c->r.graph, "Placeholder", name);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* ---- those that mean well ------------------------------------------------ */

static void steps_are_run_there(void **state) {
  (void)state;
  cluster c;
  begin(&c, NULL);
  td_edge x = placeholder(&c, "x"), two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge y = NODE(&c.r, "Mul", "y", x, two);
  for (int i = 0; i < 10; i++)
    assert_true(run_at(c.s, y, x, (float)i) == 2.0f * (float)i);
  assert_string_equal(td_far_name(td_far_session_of(c.s)), "test");
  cluster_deinit(&c);
}

/* What was registered is not added again, whatever is fed. */
static void graphs_grow_by_what_is_new(void **state) {
  (void)state;
  cluster c;
  begin(&c, NULL);
  td_edge x = placeholder(&c, "x"), two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge y = NODE(&c.r, "Mul", "y", x, two),
          z = NODE(&c.r, "Add", "z", y, two), none = {NULL, 0};
  assert_true(run_at(c.s, y, x, 3) == 6);
  assert_int_equal(nodes_at(&c.worker[0]), 3);
  assert_true(run_at(c.s, z, x, 3) == 8);
  assert_int_equal(nodes_at(&c.worker[0]), 4);
  assert_true(run_at(c.s, z, y, 10) == 12);
  assert_true(run_at(c.s, two, none, 0) == 2);
  assert_int_equal(nodes_at(&c.worker[0]), 4);
  cluster_deinit(&c);
}

/* A control edge that came later than its node. */
static void an_input_comes_later(void **state) {
  (void)state;
  cluster c;
  begin(&c, NULL);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), none = {NULL, 0};
  td_edge first = NODE(&c.r, "Neg", "first", two),
          last = NODE(&c.r, "Mul", "last", two, two);
  OK(td_node_add_control(first.node, last.node));
  assert_true(run_at(c.s, last, none, 0) == 4);
  assert_true(run_at(c.s, first, none, 0) == -2);
  td_edge both = NODE(&c.r, "Add", "both", first, last);
  assert_true(run_at(c.s, both, none, 0) == 2);
  assert_int_equal(nodes_at(&c.worker[0]), 4);
  cluster_deinit(&c);
}

/* A node that is there may wait for others later. */
static void a_known_node_waits(void **state) {
  (void)state;
  cluster c;
  begin(&c, NULL);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), none = {NULL, 0};
  td_edge first = NODE(&c.r, "Neg", "first", two),
          later = NODE(&c.r, "Mul", "later", two, two);
  assert_true(run_at(c.s, first, none, 0) == -2);
  OK(td_node_add_control(first.node, later.node));
  td_edge last = NODE(&c.r, "Neg", "last", first);
  assert_true(run_at(c.s, last, none, 0) == 2);
  td_kept_session *k = kept_by(&c.worker[0]);
  const td_node *there = td_graph_find(k->graph, "first");
  assert_int_equal(there->n_control, 1);
  assert_string_equal(there->control[0]->name, "later");
  td_kept_release(k);
  cluster_deinit(&c);
}

/* What its client has no more goes, what others know or use stays. */
static void nodes_go(void **state) {
  (void)state;
  cluster c;
  td_region *cell;
  int32_t gone;
  begin(&c, NULL);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), none = {NULL, 0};
  for (int i = 0; i < 3; i++) {
    OK(td_region_new(c.r.graph, &cell));
    td_region_enter(cell);
    td_edge three = make_const(&c.r, TD_FLOAT32, 3, NULL);
    td_edge y = NODE(&c.r, "Mul", "y", two, three);
    td_region_enter(NULL);
    assert_true(run_at(c.s, y, none, 0) == 6);
    assert_int_equal(nodes_at(&c.worker[0]), 3);
    OK(td_region_retire(cell, "it ran again"));
    OK(td_region_sweep(c.r.graph, &gone));
    assert_int_equal(gone, 2);
    OK(td_session_sweep(c.s));
    assert_true(
        td_pump_until(c.remote, INT64_MAX, NULL, has_one_node, &c.worker[0]));
    td_region_release(cell);
  }
  assert_true(run_at(c.s, two, none, 0) == 2);
  cluster_deinit(&c);
}

/* Two nodes of one name are two. */
static void names_may_be_taken(void **state) {
  (void)state;
  cluster c;
  td_session *other;
  td_graph *g;
  begin(&c, &(td_far_options){.name = "test", .outlive = true});
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), none = {NULL, 0};
  assert_true(run_at(c.s, two, none, 0) == 2);
  OK(td_graph_new(&g));
  OK(td_session_new(c.r.runtime, g, NULL, &other));
  td_far_options o = {.name = "test", .join = true};
  o.at.to.control = c.worker[0].address;
  OK(td_far_open(c.remote, other, g, &o));
  assert_int_equal(td_graph_size(g), 1);
  td_edge own = {td_graph_node(g, 0), 0};
  assert_true(run_at(other, own, none, 0) == 2);
  assert_int_equal(nodes_at(&c.worker[0]), 1);
  td_edge three = make_const(&c.r, TD_FLOAT32, 3, NULL);
  assert_true(run_at(c.s, three, none, 0) == 3);
  td_build b; /* the same name in the other's graph */
  td_node *n;
  td_build_init(&b, g, "Neg", three.node->name);
  td_build_in(&b, own);
  OK(td_build_node(&b, &n));
  assert_true(run_at(other, (td_edge){n, 0}, none, 0) == -2);
  assert_int_equal(nodes_at(&c.worker[0]), 3);
  td_session_close(other);
  td_session_release(other);
  td_graph_release(g);
  cluster_deinit(&c);
}

/* Its graph is an answer that is pulled; what its nodes are called here takes
 * several questions. */
static void a_large_one_is_joined(void **state) {
  (void)state;
  cluster c;
  td_session *other;
  td_graph *g;
  enum { NODES = 20000 };
  begin(&c, &(td_far_options){.name = "test", .outlive = true});
  td_edge none = {NULL, 0}, x = make_const(&c.r, TD_FLOAT32, 2, NULL);
  for (int i = 1; i < NODES; i++) x = NODE(&c.r, "Neg", NULL, x);
  assert_true(run_at(c.s, x, none, 0) == -2);
  OK(td_graph_new(&g));
  OK(td_session_new(c.r.runtime, g, NULL, &other));
  td_far_options o = {.name = "test", .join = true};
  o.at.to.control = c.worker[0].address;
  OK(td_far_open(c.remote, other, g, &o));
  assert_int_equal(td_graph_size(g), NODES);
  td_edge last = {td_graph_find(g, x.node->name), 0};
  assert_true(run_at(other, last, none, 0) == -2);
  assert_int_equal(nodes_at(&c.worker[0]), NODES);
  td_session_close(other);
  td_session_release(other);
  td_graph_release(g);
  cluster_deinit(&c);
}

static void who_outlives_its_maker(void **state) {
  (void)state;
  for (int outlive = 0; outlive < 2; outlive++) {
    cluster c;
    begin(&c, &(td_far_options){.name = "test", .outlive = outlive == 1});
    td_session_close(c.s);
    if (!outlive)
      assert_true(
          td_pump_until(c.remote, INT64_MAX, NULL, is_empty, &c.worker[0]));
    td_str list = {0};
    td_attach_options at = {.to.control = c.worker[0].address};
    OK(td_far_list(c.remote, &at, &list));
    td_bytes from = {td_str_c(&list), list.len};
    uint64_t n;
    assert_true(td_bytes_get(&from, 4, &n));
    assert_int_equal(n, outlive);
    td_str_deinit(&list);
    cluster_deinit(&c);
  }
}

/* ---- those that do not --------------------------------------------------- */

/* A signature's part in the making: a constant and its end. */
static td_graph *part_of(td_node **value, uint64_t serial, const char *op) {
  td_graph *g;
  td_build b;
  td_tensor one;
  OK(td_graph_new(&g));
  td_graph_scratch(g);
  OK(td_tensor_scalar_f(TD_FLOAT32, 1, &one));
  td_build_init(&b, g, "Const", "one");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "value", td_attr_tensor(&one));
  OK(td_build_node(&b, value));
  td_tensor_release(&one);
  if (op) {
    td_build_init(&b, g, op, "more");
    td_build_in(&b, (td_edge){*value, 0});
    OK(td_build_node(&b, value));
  }
  (*value)->serial = serial;
  return g;
}

static void add_retval(td_graph *g, td_node *value, int index) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "_Retval", "_end");
  b.exact_name = true;
  td_build_in(&b, (td_edge){value, 0});
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "index", td_attr_int(index));
  OK(td_build_node(&b, &n));
}

/* Says what the node waits for, in two parts that go in a circle. */
static void parts_in_a_circle(void **state) {
  (void)state;
  cluster c;
  td_kept_signature sig;
  td_session_id who = {1, 2};
  begin(&c, NULL);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), none = {NULL, 0};
  assert_true(run_at(c.s, two, none, 0) == 2);
  td_kept_session *k = kept_by(&c.worker[0]);
  for (int i = 0; i < 2; i++) {
    td_node *first, *last;
    td_build b;
    td_graph *g = part_of(&first, 7 + (uint64_t)i, NULL);
    td_build_init(&b, g, "Const", "last");
    td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
    td_build_attr(&b, "value", *td_node_attr(first, "value"));
    td_build_control(&b, first);
    OK(td_build_node(&b, &last));
    last->serial = 8 - (uint64_t)i;
    add_retval(g, last, 0);
    if (i == 0) {
      OK(td_kept_merge(k, &who, g, 0, 1, &sig));
      td_kept_signature_deinit(&sig);
    } else {
      FAILS(td_kept_merge(k, &who, g, 0, 1, &sig), TD_INVALID_ARGUMENT,
            "a cycle");
    }
    td_graph_release(g);
  }
  td_kept_release(k);
  assert_true(run_at(c.s, two, none, 0) == 2);
  cluster_deinit(&c);
}

static void parts_that_are_wrong(void **state) {
  (void)state;
  cluster c;
  td_node *n, *arg;
  td_build b;
  td_kept_signature sig;
  td_session_id who = {1, 2};
  begin(&c, NULL);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), none = {NULL, 0};
  assert_true(run_at(c.s, two, none, 0) == 2);
  td_kept_session *k = kept_by(&c.worker[0]);

  td_graph *g = part_of(&n, 7, NULL);
  FAILS(td_kept_merge(k, &who, g, 0, 1, &sig), TD_INVALID_ARGUMENT,
        "lacks some");
  add_retval(g, n, 5);
  FAILS(td_kept_merge(k, &who, g, 0, 1, &sig), TD_INVALID_ARGUMENT,
        "no end of this signature");
  td_graph_release(g);

  g = part_of(&n, 7, "Neg"); /* 7 was a Const */
  add_retval(g, n, 0);
  FAILS(td_kept_merge(k, &who, g, 0, 1, &sig), TD_INVALID_ARGUMENT,
        "comes with the number of");
  td_graph_release(g);

  g = part_of(&n, 8, NULL);
  td_build_init(&b, g, "_Arg", "_a");
  b.exact_name = true;
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "index", td_attr_int(0));
  OK(td_build_node(&b, &arg));
  td_build_init(&b, g, "Neg", "takes");
  td_build_in(&b, (td_edge){arg, 0});
  OK(td_build_node(&b, &n));
  add_retval(g, n, 0);
  FAILS(td_kept_merge(k, &who, g, 0, 1, &sig), TD_INVALID_ARGUMENT,
        "takes an end");
  td_graph_release(g);

  FAILS(td_kept_adopt(k, &who, (uint64_t[3]){1}, 3), TD_INVALID_ARGUMENT,
        "3 numbers");
  OK(td_kept_adopt(k, &who, (uint64_t[2]){99, 1}, 2)); /* it has gone */
  td_kept_release(k);
  assert_true(run_at(c.s, two, none, 0) == 2); /* it goes on */
  cluster_deinit(&c);
}

static void questions_that_are_wrong(void **state) {
  (void)state;
  cluster c;
  td_str out = {0};
  begin(&c, NULL);
  td_far_session *f = td_far_session_of(c.s);
  uint64_t n[9] = {1, 1, 0, 1, 0, 99, 0, 0, 0};
  td_far_question q = {.what = TD_FAR_LOOP, .numbers = n, .n_numbers = 3};
  FAILS(td_far_ask(f, &q, &out), TD_INVALID_ARGUMENT, "3 numbers");
  q.n_numbers = 9;
  FAILS(td_far_ask(f, &q, &out), TD_NOT_FOUND, "registered as 99");
  q.what = TD_FAR_LOOP_LOG;
  FAILS(td_far_ask(f, &q, &out), TD_NOT_FOUND, "no such loop");
  q.what = (td_far_what)99;
  FAILS(td_far_ask(f, &q, &out), TD_UNIMPLEMENTED, "99");
  q = (td_far_question){.what = TD_FAR_ATTACH, .text = "nowhere"};
  q.time = 1;
  td_status *s = td_far_ask(f, &q, &out);
  assert_non_null(s);
  td_status_release(s);
  q = (td_far_question){.what = TD_FAR_DETACH, .text = "/job:no/task:1"};
  FAILS(td_far_ask(f, &q, &out), TD_NOT_FOUND, "/job:no/task:1");
  td_str_deinit(&out);
  cluster_deinit(&c);
}

static void there_may_be_so_many(void **state) {
  (void)state;
  cluster c;
  td_session *s[SESSIONS_OF_ONE];
  char name[16];
  begin(&c, NULL);
  td_far_options o = {.name = name};
  o.at.to.control = c.worker[0].address;
  for (int i = 0; i < SESSIONS_OF_ONE; i++) {
    snprintf(name, sizeof name, "s%d", i);
    OK(td_session_new(c.r.runtime, c.r.graph, NULL, &s[i]));
    if (i < SESSIONS_OF_ONE - 1)
      OK(td_far_open(c.remote, s[i], c.r.graph, &o));
    else
      FAILS(td_far_open(c.remote, s[i], c.r.graph, &o), TD_RESOURCE_EXHAUSTED,
            "sessions of this process");
  }
  for (int i = 0; i < SESSIONS_OF_ONE; i++) {
    td_session_close(s[i]);
    td_session_release(s[i]);
  }
  cluster_deinit(&c);
}

static void so_many_loops(void **state) {
  (void)state;
  cluster c;
  begin(&c, NULL);
  td_far_session *f = td_far_session_of(c.s);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_callable *step;
  td_signature sig = {.fetches = &two, .n_fetches = 1};
  td_far_loop *l;
  td_loop_options o = {.steps = -1};
  OK(td_callable_new(c.s, &sig, &step));
  for (int i = 0; i < TD_KEPT_LOOPS; i++) {
    OK(td_far_loop_start(f, step, &o, NULL, &l));
    td_far_loop_release(l);
  }
  FAILS(td_far_loop_start(f, step, &o, NULL, &l), TD_RESOURCE_EXHAUSTED,
        "as many as may be");
  td_callable_release(step);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_run_there),
      cmocka_unit_test(graphs_grow_by_what_is_new),
      cmocka_unit_test(an_input_comes_later),
      cmocka_unit_test(a_known_node_waits),
      cmocka_unit_test(nodes_go),
      cmocka_unit_test(names_may_be_taken),
      cmocka_unit_test(a_large_one_is_joined),
      cmocka_unit_test(who_outlives_its_maker),
      cmocka_unit_test(parts_in_a_circle),
      cmocka_unit_test(parts_that_are_wrong),
      cmocka_unit_test(questions_that_are_wrong),
      cmocka_unit_test(there_may_be_so_many),
      cmocka_unit_test(so_many_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
