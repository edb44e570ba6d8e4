/* participant.c - tests of engine/run/participant.h: a session of two
 * processes that are one, with a runtime each, and one whose other half is
 * silent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <unistd.h>

#include "engine/run/async.h"
#include "engine/run/participant.h"
#include "engine/run/session_impl.h"
#include "engine/run/session_members.h"

#define FAR "/job:far/replica:0/task:1"

/* ---- a session with a second participant --------------------------------- */

typedef struct pair {
  rig r;
  td_runtime *far;
  td_device *device; /* of the far one */
  td_session *s;
  td_participant *other; /* the session's */
} pair;

static void init_far(pair *p) {
  rig_init(&p->r);
  OK(td_runtime_new(&(td_runtime_options){.place = FAR}, &p->far));
  OK(td_runtime_cpu(p->far, 0, &p->device));
  OK(td_session_new(p->r.runtime, p->r.graph, NULL, &p->s));
}

static void pair_init(pair *p) {
  uint64_t id[2] = {1, 2};
  init_far(p);
  OK(td_participant_local_new(p->far, id, true, &p->other));
  OK(td_session_join(p->s, p->other, &p->device, 1));
}

static void pair_deinit(pair *p) {
  td_session_close(p->s);
  td_session_release(p->s);
  rig_deinit(&p->r);
  td_runtime_release(p->far);
}

/* A node of the far one. */
static td_edge far_node(pair *p, const char *op, const char *name,
                        const td_edge *in, int n) {
  td_build b;
  td_node *node;
  td_build_init(&b, p->r.graph, op, name);
  td_build_flat(&b, in, n);
  b.device = FAR "/device:CPU:0";
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

static td_status *run(pair *p, td_edge fetch, const td_step_options *o,
                      double *out) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor value;
  TD_TRY(td_session_run(p->s, &sig, NULL, &value, o));
  if (out) *out = td_tensor_get_f(&value, 0);
  td_tensor_release(&value);
  return NULL;
}

/* ---- both halves run ----------------------------------------------------- */

/* (2 + 3) there, times 2 here, plus 3 there again. */
static void test_to_and_fro(void **state) {
  pair p;
  double value = 0;
  (void)state;
  pair_init(&p);
  td_edge two = make_const(&p.r, TD_FLOAT32, 2, NULL),
          three = make_const(&p.r, TD_FLOAT32, 3, NULL);
  td_edge sum = far_node(&p, "Add", "sum", (td_edge[]){two, three}, 2);
  td_edge product = NODE(&p.r, "Mul", "product", sum, two);
  td_edge last = far_node(&p, "Add", "last", (td_edge[]){product, three}, 2);
  /* Nothing is computed ahead of the step. */
  p.s->options.passes_off = ~0u;
  for (int i = 0; i < 3; i++) {
    OK(run(&p, last, NULL, &value));
    assert_true(value == 13);
  }
  assert_int_equal(td_session_read_stats(p.s).steps, 3);
  pair_deinit(&p);
}

/* while i < 100: i = i + 1, added there */
static td_edge make_far_loop(pair *p) {
  rig *r = &p->r;
  td_edge enter =
      make_enter(r, make_const(r, TD_FLOAT32, 1, NULL), "loop", false, 4);
  td_edge merge = make_loop_merge(r, enter);
  td_edge limit = make_const(r, TD_FLOAT32, 100, merge.node);
  td_edge cond = NODE(r, "LoopCond", NULL, NODE(r, "Less", NULL, merge, limit));
  td_edge sw = NODE(r, "Switch", NULL, merge, cond);
  td_edge body = NODE(r, "Identity", NULL, port(sw, 1));
  td_edge one = make_const(r, TD_FLOAT32, 1, body.node);
  td_edge sum = far_node(p, "AddV2", "sum", (td_edge[]){body, one}, 2);
  td_edge back = NODE(r, "NextIteration", NULL, sum);
  OK(td_node_set_back_edge(merge.node, 1, back));
  return NODE(r, "Exit", NULL, port(sw, 0));
}

/* A loop whose condition is here and whose body is there. */
static void test_loop(void **state) {
  pair p;
  double value = 0;
  (void)state;
  pair_init(&p);
  p.s->options.passes_off = ~0u;
  td_edge out = make_far_loop(&p);
  for (int i = 0; i < 3; i++) {
    OK(run(&p, out, NULL, &value));
    assert_true(value == 100);
  }
  pair_deinit(&p);
}

static int32_t wanted_times, wanted_edge; /* atomic */

static void on_wanted(td_portion *n, td_key key) {
  assert_non_null(n->of);
  __atomic_fetch_add(&wanted_times, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&wanted_edge, key.edge, __ATOMIC_RELAXED);
}

/* What comes from the other half is asked of it where it is waited for. */
static void test_wanted(void **state) {
  pair p;
  double value = 0;
  static td_participant_ops wanting; /* the pool may be with it yet */
  (void)state;
  pair_init(&p);
  p.s->options.passes_off = ~0u;
  wanting = *p.other->ops;
  wanting.wanted = on_wanted;
  p.other->ops = &wanting;
  td_edge out = make_far_loop(&p);
  for (int i = 0; i < 3; i++) OK(run(&p, out, NULL, &value));
  assert_true(value == 100);
  td_signature sig = {.fetches = &out, .n_fetches = 1};
  td_plan *plan;
  OK(td_session_plan(p.s, &sig, &plan));
  assert_true(wanted_times > 0);
  assert_string_equal(plan->edges[wanted_edge].to->name, p.r.device->name);
  td_plan_free(plan);
  pair_deinit(&p);
}

/* A mistake of one ends both, with its own words. */
static void test_error(void **state) {
  pair p;
  (void)state;
  pair_init(&p);
  p.s->options.passes_off = ~0u;
  td_edge zero = make_const(&p.r, TD_INT32, 0, NULL),
          one = make_const(&p.r, TD_INT32, 1, NULL);
  td_edge bad = far_node(&p, "FloorDiv", "bad", (td_edge[]){one, zero}, 2);
  bad.node->origin = "train.lua:7";
  td_edge next = NODE(&p.r, "Neg", "next", bad);
  for (int i = 0; i < 2; i++) {
    td_status *s = run(&p, next, NULL, NULL);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    assert_string_equal(td_status_node(s), "bad");
    assert_string_equal(td_status_origin(s), "train.lua:7");
    assert_non_null(strstr(td_status_device(s), FAR));
    td_status_release(s);
  }
  pair_deinit(&p);
}

/* ---- a silent half ------------------------------------------------------- */

/* A portion whose `over` comes when the test says so. */
typedef struct silent {
  td_participant base;
  td_portion *out; /* atomic: started and not over */
  int forgotten, freed;
  int *freed_to;
  uint64_t signature; /* of the last that was enrolled */
  int pumped, last;   /* how often; when it is over */
  int64_t longest;    /* ns that it was to work at a time */
  int *interrupt;     /* set by it the first time; NULL: none */
  td_status *cause;   /* of the cancel, where it is pumped */
} silent;

struct td_enrollment {
  silent *of;
};

static td_status *silent_enroll(td_participant *p, const td_roll *roll,
                                td_enrollment **out) {
  assert_int_equal(roll->n_parts, 1);
  *out = td_calloc(1, sizeof **out);
  (*out)->of = (silent *)p;
  assert_true(roll->signature != ((silent *)p)->signature);
  ((silent *)p)->signature = roll->signature;
  return NULL;
}

static void silent_forget(td_enrollment *e) {
  e->of->forgotten++;
  td_free(e);
}

static int64_t silent_cost(const td_enrollment *e) {
  (void)e;
  return 0;
}

static td_status *silent_begin(td_enrollment *e, int threads,
                               td_portion **out) {
  (void)threads;
  *out = td_calloc(1, sizeof **out);
  (*out)->of = &e->of->base;
  return NULL;
}

static void silent_start(td_portion *n, const td_portion_start *o) {
  (void)o;
  __atomic_store_n(&((silent *)n->of)->out, n, __ATOMIC_RELEASE);
}

static void silent_cancel(td_portion *n, td_status *cause) {
  silent *s = (silent *)n->of;
  if (n->of->ops->pump)
    s->cause = td_status_first(s->cause, cause);
  else
    td_status_release(cause);
}

static td_status *silent_deliver(td_portion *n, td_key key, td_tensor *value,
                                 bool dead) {
  (void)n, (void)key, (void)dead;
  td_tensor_release(value);
  return NULL;
}

static void silent_why(td_portion *n, td_str *out) {
  td_str_addf(out, "%s says nothing\n", n->of->task);
}

static bool silent_reset(td_portion *n) {
  (void)n;
  return false;
}

static void silent_end(td_portion *n) {
  td_free(n);
}

static td_status *silent_rename(td_participant *p, const char *name,
                                const char *to) {
  (void)p, (void)name, (void)to;
  return NULL;
}

static void silent_nothing(td_participant *p) {
  (void)p;
}

static void silent_free(td_participant *p) {
  int *freed = ((silent *)p)->freed_to;
  td_free(p);
  __atomic_fetch_add(freed, 1, __ATOMIC_RELEASE);
}

static const td_participant_ops silent_ops = {.enroll = silent_enroll,
                                              .forget = silent_forget,
                                              .cost = silent_cost,
                                              .begin = silent_begin,
                                              .start = silent_start,
                                              .cancel = silent_cancel,
                                              .deliver = silent_deliver,
                                              .why = silent_why,
                                              .reset = silent_reset,
                                              .end = silent_end,
                                              .rename = silent_rename,
                                              .clear = silent_nothing,
                                              .close = silent_nothing,
                                              .free = silent_free};

static silent *join_silent(pair *p, int *freed) {
  silent *other = td_calloc(1, sizeof *other);
  other->base = (td_participant){.ops = &silent_ops, .refs = 1, .task = FAR};
  other->freed_to = freed;
  init_far(p);
  p->s->options.passes_off = ~0u;
  OK(td_session_join(p->s, &other->base, &p->device, 1));
  return other;
}

/* The pool may still have the step in hand that gave it up. */
static void wait_until_freed(const int *freed) {
  int64_t until = td_clock_now() + PATIENCE;
  while (!__atomic_load_n(freed, __ATOMIC_ACQUIRE) && td_clock_now() < until)
    usleep(1000);
  assert_int_equal(__atomic_load_n(freed, __ATOMIC_ACQUIRE), 1);
}

static void late_over(silent *other) {
  td_portion *n = __atomic_exchange_n(&other->out, NULL, __ATOMIC_ACQ_REL);
  assert_non_null(n);
  n->over(n->over_arg, td_error(TD_CANCELLED, "at last"));
}

/* It cannot hold a step: the deadline's error comes, two seconds later at the
 * latest, and says who was waited for. What it does afterwards harms nobody. */
static void test_silence(void **state) {
  pair p;
  int freed = 0;
  (void)state;
  silent *other = join_silent(&p, &freed);
  td_edge one = make_const(&p.r, TD_FLOAT32, 1, NULL);
  td_edge far = far_node(&p, "Neg", "far", &one, 1);
  td_edge here = NODE(&p.r, "Neg", "here", far);
  for (int i = 0; i < 2; i++) {
    td_status *s = run(&p, here, &(td_step_options){.timeout = 50000000}, NULL);
    assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
    assert_non_null(strstr(td_status_message(s), FAR " says nothing"));
    td_status_release(s);
    late_over(other);
  }
  pair_deinit(&p);
  wait_until_freed(&freed);
}

/* All of the step is there: what ended it is said, not who was silent. */
static void test_all_is_silence(void **state) {
  pair p;
  int freed = 0;
  (void)state;
  silent *other = join_silent(&p, &freed);
  td_edge one = make_const(&p.r, TD_FLOAT32, 1, NULL); /* goes with `far` */
  td_edge far = far_node(&p, "Neg", "far", &one, 1);
  FAILS(run(&p, far, &(td_step_options){.timeout = 50000000}, NULL),
        TD_DEADLINE_EXCEEDED, "did not end within 0.050 s");
  late_over(other);
  pair_deinit(&p);
  wait_until_freed(&freed);
}

/* An interrupt, a handle that is let go, a session that is closed. */
static void test_interrupted_silence(void **state) {
  pair p;
  int freed = 0, interrupt = 1;
  (void)state;
  silent *other = join_silent(&p, &freed);
  td_edge one = make_const(&p.r, TD_FLOAT32, 1, NULL);
  td_edge far = far_node(&p, "Neg", "far", &one, 1);
  td_edge here = NODE(&p.r, "Neg", "here", far);
  FAILS(run(&p, here, &(td_step_options){.interrupt = &interrupt}, NULL),
        TD_CANCELLED, "interrupted");
  late_over(other);
  td_signature sig = {.fetches = &here, .n_fetches = 1};
  td_callable *c;
  td_async *a;
  OK(td_callable_new(p.s, &sig, &c));
  OK(td_async_start(c, NULL, NULL, &a));
  td_async_release(a);
  td_callable_release(c);
  td_session_close(p.s);
  late_over(other);
  pair_deinit(&p);
  wait_until_freed(&freed);
}

/* ---- the thread that waits does its work ----------------------------------
 */

static void silent_pump(td_portion *n, int64_t until, const int *interrupt,
                        bool (*ready)(void *arg), void *arg) {
  silent *s = (silent *)n->of;
  int64_t ns = until - td_clock_now();
  if (ns > s->longest) s->longest = ns;
  if (++s->pumped == s->last) {
    OK(td_tensor_scalar_f(TD_FLOAT32, 7, &n->rets[0]));
    s->out = NULL;
    n->over(n->over_arg, s->cause);
    return;
  }
  if (s->interrupt && s->pumped == 1) *s->interrupt = 1;
  while (td_clock_now() < until && !(interrupt && *interrupt) && !ready(arg))
    usleep(1000);
}

static void silent_nudge(td_portion *n) {
  (void)n;
}

static const td_participant_ops *pumped_ops(void) {
  static td_participant_ops ops;
  ops = silent_ops;
  ops.pump = silent_pump;
  ops.nudge = silent_nudge;
  return &ops;
}

static silent *join_pumped(pair *p, int *freed) {
  silent *other = join_silent(p, freed);
  other->base.ops = pumped_ops();
  return other;
}

/* When all that is left of the step is there: a little at a time. */
static void test_pumped(void **state) {
  pair p;
  int freed = 0;
  double value = 0;
  (void)state;
  silent *other = join_pumped(&p, &freed);
  td_edge one = make_const(&p.r, TD_FLOAT32, 1, NULL);
  td_edge here = NODE(&p.r, "Neg", "here", one);
  td_edge far = far_node(&p, "Neg", "far", &here, 1);
  other->last = 3;
  OK(run(&p, far, NULL, &value));
  assert_true(value == 7);
  assert_int_equal(other->pumped, 3);
  assert_in_range(other->longest, 1, 20000000);
  pair_deinit(&p);
  wait_until_freed(&freed);
}

/* Also while a portion of this process waits for it. */
static void test_pumped_for_another(void **state) {
  pair p;
  int freed = 0;
  (void)state;
  silent *other = join_pumped(&p, &freed);
  td_edge one = make_const(&p.r, TD_FLOAT32, 1, NULL);
  td_edge far = far_node(&p, "Neg", "far", &one, 1);
  td_edge here = NODE(&p.r, "Neg", "here", far);
  other->last = 3; /* before the cancel, or after it */
  FAILS(run(&p, here, &(td_step_options){.timeout = 50000000}, NULL),
        TD_DEADLINE_EXCEEDED, "did not end within 0.050 s");
  assert_int_equal(other->pumped, 3);
  pair_deinit(&p);
  wait_until_freed(&freed);
}

static void test_pumped_interrupted(void **state) {
  pair p;
  int freed = 0, interrupt = 0;
  (void)state;
  silent *other = join_pumped(&p, &freed);
  td_edge one = make_const(&p.r, TD_FLOAT32, 1, NULL);
  td_edge far = far_node(&p, "Neg", "far", &one, 1);
  other->interrupt = &interrupt;
  other->last = 4;
  FAILS(run(&p, far, &(td_step_options){.interrupt = &interrupt}, NULL),
        TD_CANCELLED, "interrupted");
  assert_int_equal(other->pumped, 4);
  pair_deinit(&p);
  wait_until_freed(&freed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_to_and_fro),
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_wanted),
      cmocka_unit_test(test_error),
      cmocka_unit_test(test_silence),
      cmocka_unit_test(test_all_is_silence),
      cmocka_unit_test(test_interrupted_silence),
      cmocka_unit_test(test_pumped),
      cmocka_unit_test(test_pumped_for_another),
      cmocka_unit_test(test_pumped_interrupted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
