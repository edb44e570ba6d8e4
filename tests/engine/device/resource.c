/* resource.c - containers: found, made, removed, raced for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"

static int32_t alive; /* atomic */

typedef struct thing {
  td_resource base; /* first */
  int number;
} thing;

static void thing_free(td_object *o) {
  __atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
  td_resource_deinit((td_resource *)o);
  td_free(o);
}

static td_status *make_thing(void *arg, td_resource **out) {
  thing *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->base.object = (td_object){
      .refs = 1, .type = "thing", .free = thing_free, .named = true};
  t->number = arg ? *(int *)arg : 0;
  __atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
  *out = &t->base;
  return NULL;
}

static td_status *make_nothing(void *arg, td_resource **out) {
  (void)arg, (void)out;
  return td_error(TD_UNIMPLEMENTED, "cannot be made");
}

static td_resources *fresh(void) {
  td_resources *m = NULL;
  OK(td_resources_new(&m));
  return m;
}

static void drop(td_resource *r) {
  td_object_release(&r->object);
}

static td_resource *get(td_resources *m, const char *container,
                        const char *name) {
  td_resource *r = NULL;
  OK(td_resources_get(m, container, "thing", name, make_thing, NULL, &r));
  return r;
}

/* ---- finding ------------------------------------------------------------- */

static void test_found_or_made(void **state) {
  td_resources *m = fresh();
  td_resource *a = get(m, "", "x"), *b = get(m, "", "x"), *other = NULL;
  (void)state;
  assert_ptr_equal(a, b);
  assert_string_equal(a->name, "x");
  assert_string_equal(a->container, "");
  assert_int_equal(alive, 1);
  td_resource *c = get(m, "box", "x"), *d = get(m, "", "y");
  assert_ptr_not_equal(a, c);
  assert_ptr_not_equal(a, d);
  FAILS(td_resources_get(m, "", "queue", "x", make_thing, NULL, &other),
        TD_INVALID_ARGUMENT, "\"x\" in container \"\" is a thing");
  FAILS(td_resources_get(m, "", "thing", "z", NULL, NULL, &other), TD_NOT_FOUND,
        "no thing \"z\"");
  FAILS(td_resources_get(m, "", "thing", "z", make_nothing, NULL, &other),
        TD_UNIMPLEMENTED, "cannot be made");
  drop(a), drop(b), drop(c), drop(d);
  assert_int_equal(alive, 3); /* the table's */
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

/* A name and a container do not run into each other. */
static void test_keys_are_apart(void **state) {
  td_resources *m = fresh();
  td_resource *a = get(m, "a", "bc"), *b = get(m, "ab", "c");
  (void)state;
  assert_ptr_not_equal(a, b);
  drop(a), drop(b);
  td_resources_free(m);
}

/* ---- what belongs to a node ---- */

static td_resource *get_own(td_resources *m, const char *name, uint64_t maker) {
  td_resource *r = NULL;
  OK(td_resources_get_own(m, "", "thing", name, maker, make_thing, NULL, &r));
  drop(r); /* the table has it */
  return r;
}

static void test_each_node_has_its_own(void **state) {
  td_resources *m = fresh();
  (void)state;
  td_resource *a = get_own(m, "x", 1), *b = get_own(m, "x", 2);
  assert_ptr_not_equal(a, b);
  assert_string_equal(b->name, "x");
  assert_ptr_equal(get_own(m, "x", 1), a);
  assert_ptr_equal(get_own(m, "x", 2), b);
  assert_int_equal(alive, 2);
  FAILS(td_resources_get_own(m, "", "queue", "x", 2, make_thing, NULL, &a),
        TD_INVALID_ARGUMENT, "is a thing");
  FAILS(td_resources_get_own(m, "", "thing", "x", 3, make_nothing, NULL, &a),
        TD_UNIMPLEMENTED, "cannot be made");
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

/* A node that is called "a/x.old" for a while. */
static void test_a_node_under_another_name(void **state) {
  td_resources *m = fresh();
  (void)state;
  td_resource *a = get_own(m, "a/x", 1), *b = get_own(m, "a/x", 2);
  assert_ptr_equal(get_own(m, "a/x.old", 1), a);
  assert_ptr_equal(get_own(m, "a.old_1/x", 2), b);
  assert_ptr_equal(get_own(m, "a/x", 1), a);
  assert_ptr_not_equal(get_own(m, "a/y.old", 1), a);
  assert_ptr_not_equal(get_own(m, "a/x.older/x", 1), a);
  assert_ptr_not_equal(get_own(m, "a/x.old", 3), a);
  td_resource *c = get_own(m, "z.old", 1);
  assert_ptr_equal(get_own(m, "z", 1), c);
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

/* What is named by somebody is everybody's. */
static void test_named_ones_are_shared(void **state) {
  td_resources *m = fresh();
  (void)state;
  td_resource *a = get_own(m, "x", 0), *b = get_own(m, "y", 1);
  assert_ptr_equal(get_own(m, "x", 1), a);
  assert_ptr_equal(get_own(m, "y", 0), b);
  assert_ptr_equal(get_own(m, "y", 2), b);
  td_resources_sweep(m, &(td_makers){.last = 2});
  assert_int_equal(alive, 2);
  td_resources_free(m);
}

static void test_swept(void **state) {
  td_resources *m = fresh();
  uint64_t there[] = {2, 5, 9};
  td_makers left = {there, 3, 10};
  (void)state;
  for (uint64_t i = 1; i < 12; i++) get_own(m, "x", i);
  td_resource *one = get(m, "", "y"), *of_1 = get_own(m, "x", 1);
  td_object_retain(&of_1->object);
  uint64_t before = td_resources_generation(m);
  td_resources_sweep(m, &left); /* 11 came since */
  assert_true(td_resources_generation(m) > before);
  assert_int_equal(alive, 6);
  assert_int_equal(of_1->gone, 1);
  assert_int_equal(one->gone, 0);
  drop(of_1);
  before = td_resources_generation(m);
  for (size_t i = 0; i < 3; i++) get_own(m, "x", there[i]);
  get_own(m, "x", 11);
  assert_int_equal(alive, 5);
  td_resources_sweep(m, &left);
  assert_int_equal(td_resources_generation(m), before);
  drop(one);
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

/* ---- removing ------------------------------------------------------------ */

static void test_renamed(void **state) {
  td_resources *m = fresh();
  td_resource *a = get(m, "", "x");
  uint64_t before = td_resources_generation(m);
  (void)state;
  FAILS(td_resources_rename(m, "", "y", "z"), TD_NOT_FOUND, "\"y\"");
  OK(td_resources_rename(m, "", "x", "y"));
  assert_true(td_resources_generation(m) > before);
  assert_int_equal(a->gone, 0);
  td_resource *b = get(m, "", "y"), *c = get(m, "", "x");
  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, c);
  FAILS(td_resources_rename(m, "", "x", "y"), TD_ALREADY_EXISTS, "new name");
  drop(a);
  drop(b);
  drop(c);
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

static void test_removed_is_gone(void **state) {
  td_resources *m = fresh();
  td_resource *a = get(m, "", "x");
  uint64_t before = td_resources_generation(m);
  (void)state;
  FAILS(td_resources_remove(m, "", "y"), TD_NOT_FOUND, "\"y\"");
  assert_int_equal(td_resources_generation(m), before);
  OK(td_resources_remove(m, "", "x"));
  assert_true(td_resources_generation(m) > before);
  assert_int_equal(a->gone, 1);
  assert_int_equal(alive, 1); /* ours */
  td_resource *b = get(m, "", "x");
  assert_ptr_not_equal(a, b);
  assert_int_equal(b->gone, 0);
  drop(a), drop(b);
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

typedef struct seen {
  char names[64];
  int count;
} seen;

static void see(void *arg, const td_resource *r) {
  seen *s = arg;
  s->count++;
  strncat(s->names, r->name, sizeof s->names - strlen(s->names) - 1);
}

static void check_list(td_resources *m, const char *container,
                       const char *want) {
  seen s = {.count = 0};
  td_resources_list(m, container, see, &s);
  assert_string_equal(s.names, want);
}

static void test_reset(void **state) {
  static const char *const boxes[] = {"", "box", "other"};
  td_resources *m = fresh();
  (void)state;
  for (int i = 0; i < 9; i++) {
    char name[2] = {(char)('a' + i), '\0'};
    drop(get(m, boxes[i % 3], name));
  }
  check_list(m, "", "adg"); /* in order of creation */
  check_list(m, "box", "beh");
  check_list(m, "none", "");
  td_resources_reset(m, "box");
  check_list(m, "box", "");
  check_list(m, "", "adg");
  assert_int_equal(alive, 6);
  uint64_t before = td_resources_generation(m);
  td_resources_reset(m, "box");
  assert_int_equal(td_resources_generation(m), before);
  td_resources_reset(m, NULL);
  assert_int_equal(alive, 0);
  drop(get(m, "", "a"));
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

/* ---- races --------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 2000 };

static td_resources *raced;

/* All ask for the same names while one resets. */
static void *ask(void *arg) {
  bool resets = *(bool *)arg;
  for (int i = 0; i < ROUNDS; i++) {
    char name[2] = {(char)('a' + i % 8), '\0'};
    td_resource *r = get(raced, "", name);
    assert_string_equal(r->name, name);
    drop(r);
    if (resets && i % 16 == 0) td_resources_reset(raced, "");
  }
  return NULL;
}

static void test_races(void **state) {
  pthread_t threads[THREADS];
  bool resets[THREADS] = {true};
  (void)state;
  raced = fresh();
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &resets[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  td_resources_free(raced);
  assert_int_equal(alive, 0);
}

/* ---- memory -------------------------------------------------------------- */

static void test_without_memory(void **state) {
  td_resources *m = NULL;
  int failed = 0;
  (void)state;
  td_mem_fail(1, false);
  assert_ptr_equal(td_resources_new(&m), td_oom());
  td_mem_fail(0, false);
  m = fresh();
  for (int nth = 1;; nth++) {
    td_resource *r = NULL;
    td_mem_fail(nth, false);
    td_status *s = td_resources_get(m, "", "thing", "x", make_thing, NULL, &r);
    td_mem_fail(0, false);
    if (td_ok(s)) {
      drop(r);
      break;
    }
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
    assert_int_equal(alive, 0);
    failed++;
  }
  assert_true(failed >= 4);
  td_resources_free(m);
  assert_int_equal(alive, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found_or_made),
      cmocka_unit_test(test_keys_are_apart),
      cmocka_unit_test(test_each_node_has_its_own),
      cmocka_unit_test(test_a_node_under_another_name),
      cmocka_unit_test(test_named_ones_are_shared),
      cmocka_unit_test(test_swept),
      cmocka_unit_test(test_renamed),
      cmocka_unit_test(test_removed_is_gone),
      cmocka_unit_test(test_reset),
      cmocka_unit_test(test_races),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
