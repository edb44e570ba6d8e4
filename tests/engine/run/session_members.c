/* session_members.c - tests of engine/run/session_members.h: processes that
 * come, leave, are lost and come back, each a runtime of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <unistd.h>

#include "engine/run/callable.h"
#include "engine/run/partial.h"
#include "engine/run/session_members.h"
#include "engine/run/session_impl.h"

/* ---- processes ----------------------------------------------------------- */

typedef struct far {
  char place[64];
  td_runtime *rt;
  td_participant *p; /* a share */
  td_device *cpu[2];
  int n;
} far;

static void far_start(far *f, int task, int cpus) {
  uint64_t id[2] = {1, (uint64_t)task};
  *f = (far){.n = cpus};
  snprintf(f->place, sizeof f->place, "/job:far/replica:0/task:%d", task);
  OK(td_runtime_new(&(td_runtime_options){.place = f->place}, &f->rt));
  for (int i = 0; i < cpus; i++) OK(td_runtime_cpu(f->rt, i, &f->cpu[i]));
  OK(td_participant_local_new(f->rt, id, true, &f->p));
}

static void far_stop(far *f) {
  td_participant_release(f->p);
  td_runtime_release(f->rt);
}

typedef struct world {
  rig r;
  td_session *s;
} world;

/* Nothing is folded: what is computed is computed on a device. With few plans
 * kept, who runs several signatures in turn plans each time. */
static void world_init(world *w, int cache) {
  rig_init(&w->r);
  td_session_options o = {.passes_off = td_plan_pass_bit("fold"),
                          .cache = cache};
  OK(td_session_new(w->r.runtime, w->r.graph, &o, &w->s));
}

static void world_deinit(world *w) {
  td_session_close(w->s);
  td_session_release(w->s);
  rig_deinit(&w->r);
}

static td_status *try_join(world *w, far *f) {
  return td_session_join(w->s, td_participant_retain(f->p), f->cpu, f->n);
}

static void join(world *w, far *f, int task, int cpus) {
  far_start(f, task, cpus);
  OK(try_join(w, f));
}

static td_status *try_rejoin(world *w, far *was, far *f) {
  return td_session_rejoin(w->s, was->p, td_participant_retain(f->p), f->cpu,
                           f->n);
}

static td_status *death(int task) {
  return td_error(TD_ABORTED, "/job:far/task:%d died: no sign of life", task);
}

static void lose(world *w, far *f, int task) {
  td_session_lose(w->s, f->p, death(task));
}

/* Nobody but the test has a share any more; the pool may have one for a while
 * yet. */
static void assert_let_go(const far *f) {
  for (int i = 0; i < 60000; i++) {
    if (__atomic_load_n(&f->p->refs, __ATOMIC_ACQUIRE) == 1) return;
    usleep(1000);
  }
  fail_msg("%s is still held %d times", f->place, f->p->refs - 1);
}

/* ---- graphs -------------------------------------------------------------- */

static td_edge node_on(world *w, const char *device, const char *op,
                       const char *name, const td_edge *in, int n,
                       const char *attr, td_attr a) {
  td_build b;
  td_node *node;
  td_build_init(&b, w->r.graph, op, name);
  b.device = device;
  td_build_flat(&b, in, n);
  if (attr) td_build_attr(&b, attr, a);
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

/* -x there. */
static td_edge neg_on(world *w, const char *device, const char *name,
                      td_edge x) {
  return node_on(w, device, "Neg", name, &x, 1, NULL, (td_attr){0});
}

typedef struct variable {
  td_edge handle, read;
  td_node *init;
} variable;

static variable make_variable(world *w, const char *device, const char *name,
                              td_edge x) {
  td_build b;
  td_node *n;
  variable v;
  td_shape shape = td_shape_scalar();
  td_attr dtype = td_attr_type(TD_FLOAT64);
  td_build_init(&b, w->r.graph, "VarHandleOp", name);
  b.device = device;
  td_build_attr(&b, "dtype", dtype);
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &n));
  v.handle = (td_edge){n, 0};
  td_edge in[] = {v.handle, x};
  v.init = node_on(w, "", "AssignVariableOp", NULL, in, 2, "dtype", dtype).node;
  v.read = node_on(w, "", "ReadVariableOp", NULL, in, 1, "dtype", dtype);
  return v;
}

static td_status *fetch(td_session *s, td_edge y, double *out) {
  td_tensor got;
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  TD_TRY(td_session_run(s, &sig, NULL, &got, NULL));
  *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  return NULL;
}

static void assert_gives(world *w, td_edge y, double want) {
  double got = 0;
  OK(fetch(w->s, y, &got));
  assert_true(got == want);
}

static void assert_fails(world *w, td_edge y, td_code code, const char *text) {
  double got;
  FAILS(fetch(w->s, y, &got), code, text);
}

static void run_target(world *w, td_node *n) {
  td_signature sig = {.targets = &n, .n_targets = 1};
  OK(td_session_run(w->s, &sig, NULL, NULL, NULL));
}

static void assert_explains(world *w, const char *line) {
  td_str text;
  td_str_init(&text);
  td_session_explain_placement(w->s, &text);
  if (!strstr(td_str_c(&text), line))
    fail_msg("\"%s\" lacks \"%s\"", td_str_c(&text), line);
  td_str_deinit(&text);
}

static int devices_of(td_session *s) {
  td_device **all;
  int n;
  OK(td_session_list_devices(s, &all, &n));
  td_runtime_drop_devices(all, n);
  return n;
}

#define FAR1 "/job:far/replica:0/task:1"
#define FAR2 "/job:far/replica:0/task:2"
#define NO_TASK "no such task takes part in the session"

/* ---- coming -------------------------------------------------------------- */

/* Until it comes, what asks for it waits; then the next plan uses its devices.
 */
static void test_join(void **state) {
  world w;
  far f, twin;
  (void)state;
  world_init(&w, 0);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = neg_on(&w, FAR1, "y", x), z = neg_on(&w, FAR1, "z", y);
  assert_fails(&w, y, TD_INVALID_ARGUMENT, NO_TASK);
  join(&w, &f, 1, 2);
  assert_int_equal(devices_of(w.s), 3);
  assert_gives(&w, y, -2);
  assert_gives(&w, z, 2);
  assert_explains(&w, "Neg (z) -> " FAR1 "/device:CPU:0: asks for");
  FAILS(try_join(&w, &f), TD_ALREADY_EXISTS,
        FAR1 " takes part in this session already");
  far_start(&twin, 1, 1);
  twin.p->task = FAR2; /* another task, with the devices of the first */
  FAILS(try_join(&w, &twin), TD_ALREADY_EXISTS,
        "there is a device " FAR1 "/device:CPU:0 already");
  assert_int_equal(twin.p->refs, 1);
  assert_int_equal(devices_of(w.s), 3);
  far_stop(&twin);
  far_start(&twin, 2, 1);
  twin.cpu[twin.n++] = twin.cpu[0];
  FAILS(try_join(&w, &twin), TD_ALREADY_EXISTS, FAR2 "/device:CPU:0 already");
  twin.n = 1;
  assert_gives(&w, z, 2);
  td_session_close(w.s);
  FAILS(try_join(&w, &twin), TD_FAILED_PRECONDITION, "session is closed");
  FAILS(td_session_leave(w.s, f.p, true), TD_NOT_FOUND, "takes no part");
  FAILS(try_rejoin(&w, &f, &twin), TD_INVALID_ARGUMENT,
        FAR1 " cannot come back as " FAR2);
  far_stop(&twin);
  far_start(&twin, 1, 1);
  FAILS(try_rejoin(&w, &f, &twin), TD_FAILED_PRECONDITION, "session is closed");
  far_stop(&twin);
  world_deinit(&w);
  assert_let_go(&f);
  far_stop(&f);
}

/* ---- leaving ------------------------------------------------------------- */

static void test_leave(void **state) {
  world w;
  far f;
  double got;
  (void)state;
  world_init(&w, 0);
  join(&w, &f, 1, 2);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = neg_on(&w, FAR1, "y", x);
  variable v = make_variable(&w, FAR1 "/device:CPU:1", "v", x);
  variable u = make_variable(&w, FAR1 "/device:CPU:0", "u", x);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_callable *c;
  td_tensor t;
  run_target(&w, v.init);
  run_target(&w, u.init);
  assert_gives(&w, v.read, 2);
  OK(td_callable_new(w.s, &sig, &c));
  FAILS(td_session_leave(w.s, f.p, false), TD_FAILED_PRECONDITION,
        FAR1 " holds variables, which would be lost: u, v; save them");
  assert_gives(&w, v.read, 2);
  OK(td_session_leave(w.s, f.p, true));
  FAILS(td_session_leave(w.s, f.p, true), TD_NOT_FOUND,
        FAR1 " takes no part in this session");
  FAILS(td_session_leave(w.s, td_members_here(&w.s->members), true),
        TD_INVALID_ARGUMENT, "is this process itself");
  assert_int_equal(devices_of(w.s), 1);
  FAILS(td_callable_run(c, NULL, &t, NULL), TD_INVALID_ARGUMENT, NO_TASK);
  FAILS(fetch(w.s, v.read, &got), TD_INVALID_ARGUMENT, NO_TASK);
  td_callable_release(c);
  assert_let_go(&f);
  far_stop(&f);
  join(&w, &f, 1, 1); /* another of that name */
  assert_gives(&w, neg_on(&w, FAR1, "z", x), -2);
  assert_explains(&w, "Neg (z) -> " FAR1 "/device:CPU:0: asks for");
  FAILS(fetch(w.s, v.read, &got), TD_FAILED_PRECONDITION, "v");
  run_target(&w, v.init); /* planned anew */
  assert_gives(&w, v.read, 2);
  assert_explains(&w, "VarHandleOp (v) -> " FAR1 "/device:CPU:0");
  OK(td_session_leave(w.s, f.p, true));
  far_stop(&f);
  world_deinit(&w);
}

/* ---- lost ---------------------------------------------------------------- */

/* Who needs it fails at once, with the reason; nothing of it goes elsewhere. */
static void test_lost(void **state) {
  world w;
  far f, other;
  td_tensor t;
  (void)state;
  world_init(&w, 0);
  join(&w, &f, 1, 2);
  join(&w, &other, 2, 1);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = neg_on(&w, FAR1, "y", x), here = NODE(&w.r, "Neg", "here", x);
  td_edge z = neg_on(&w, FAR2, "z", x);
  variable v = make_variable(&w, FAR1, "v", x);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_callable *c;
  run_target(&w, v.init);
  assert_gives(&w, z, -2);
  OK(td_callable_new(w.s, &sig, &c));
  lose(&w, &f, 1);
  td_session_lose(w.s, f.p, td_error(TD_INTERNAL, "the second reason"));
  td_session_lose(w.s, td_members_here(&w.s->members), death(0)); /* never */
  assert_int_equal(devices_of(w.s), 2);
  for (int i = 0; i < 2; i++) {
    td_status *s = td_callable_run(c, NULL, &t, NULL);
    assert_int_equal(td_status_code(s), TD_UNAVAILABLE);
    assert_non_null(strstr(td_status_message(s),
                           "it is on " FAR1 "/device:CPU:0, and "
                           "/job:far/task:1 died: no sign of life"));
    assert_string_equal(td_status_node(s), "y");
    td_status_release(s);
  }
  assert_fails(&w, v.read, TD_UNAVAILABLE,
               "is on " FAR1
               "/device:CPU:0 for good, and /job:far/task:1 died");
  td_edge later = neg_on(&w, FAR1 "/device:CPU:1", "later", x);
  assert_fails(&w, later, TD_UNAVAILABLE, "/job:far/task:1 died");
  assert_explains(&w, "Neg (later) -> " FAR1 "/device:CPU:1: lost; it is");
  assert_gives(&w, here, -2);
  assert_gives(&w, z, -2);
  OK(td_session_rename(w.s, "v", "v2"));
  td_str bytes;
  td_str_init(&bytes);
  FAILS(td_session_save_states(w.s, &bytes), TD_UNAVAILABLE,
        "the states of " FAR1 " are lost: /job:far/task:1 died");
  td_str_deinit(&bytes);
  OK(td_session_leave(w.s, f.p, false)); /* nobody waits for it any more */
  assert_fails(&w, v.read, TD_UNAVAILABLE, "that device was removed");
  assert_fails(&w, y, TD_INVALID_ARGUMENT, NO_TASK);
  assert_fails(&w, later, TD_INVALID_ARGUMENT, NO_TASK);
  td_callable_release(c);
  assert_let_go(&f);
  far_stop(&f);
  world_deinit(&w);
  far_stop(&other);
}

static void test_steps_under_way(void **state) {
  static const int first = 0;
  td_step_options o = {.timeout = INT64_C(60000000000)};
  (void)state;
  for (int how = 0; how < 3; how++) {
    world w;
    far f, back;
    td_build b;
    td_node *n;
    td_partial *p;
    td_tensor in, got;
    td_shape scalar = td_shape_scalar();
    world_init(&w, 0);
    join(&w, &f, 1, 1);
    td_build_init(&b, w.r.graph, "Placeholder", "x");
    td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
    td_build_attr(&b, "shape", td_attr_shape(&scalar));
    OK(td_build_node(&b, &n));
    td_edge x = {n, 0}, y = neg_on(&w, FAR1, "y", x);
    td_signature sig = {
        .feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1};
    OK(td_tensor_scalar_f(TD_FLOAT64, 2, &in));
    OK(td_partial_new(w.s, &sig, NULL, &p));
    far_start(&back, 1, 1);
    if (how == 0) lose(&w, &f, 1);
    if (how == 1) OK(td_session_leave(w.s, f.p, false));
    if (how == 2) OK(try_rejoin(&w, &f, &back));
    td_status *s = td_partial_run(p, &first, &in, 1, &first, &got, 1, &o);
    assert_string_equal(td_status_device(s), FAR1 "/device:CPU:0");
    FAILS(s, TD_UNAVAILABLE,
          how == 0   ? "/job:far/task:1 died: no sign of life"
          : how == 1 ? "device " FAR1 "/device:CPU:0, which the step was "
                       "planned for, was removed"
                     : FAR1 " restarted");
    td_partial_release(p);
    td_tensor_release(&in);
    world_deinit(&w);
    assert_let_go(&f);
    far_stop(&f);
    far_stop(&back);
  }
}

/* ---- back ---------------------------------------------------------------- */

/* Who was bound there is there again, with nothing of what was kept. */
static void test_rejoin(void **state) {
  world w;
  far f, back, again;
  (void)state;
  world_init(&w, 0);
  join(&w, &f, 1, 2);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = neg_on(&w, FAR1 "/device:CPU:0", "y", x);
  td_edge z = neg_on(&w, FAR1 "/device:CPU:1", "z", x);
  variable v = make_variable(&w, FAR1 "/device:CPU:0", "v", x);
  variable u = make_variable(&w, FAR1 "/device:CPU:1", "u", x);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_callable *c;
  td_tensor t;
  OK(td_callable_new(w.s, &sig, &c));
  run_target(&w, v.init);
  run_target(&w, u.init);
  lose(&w, &f, 1);
  assert_fails(&w, y, TD_UNAVAILABLE, "/job:far/task:1 died");
  far_start(&back, 1, 1); /* with one device of the two */
  OK(try_rejoin(&w, &f, &back));
  assert_int_equal(devices_of(w.s), 2);
  OK(td_callable_run(c, NULL, &t, NULL));
  td_tensor_release(&t);
  assert_fails(&w, v.read, TD_FAILED_PRECONDITION, "v");
  run_target(&w, v.init);
  assert_gives(&w, v.read, 2);
  assert_explains(&w, "VarHandleOp (v) -> " FAR1 "/device:CPU:0: asks");
  assert_fails(&w, z, TD_UNAVAILABLE,
               FAR1 "/device:CPU:1 did not come back with its task");
  assert_fails(&w, u.read, TD_UNAVAILABLE, "for good, and " FAR1);
  far_start(&again, 1, 2); /* with both; nobody noticed that it was away */
  OK(try_rejoin(&w, &back, &again));
  assert_int_equal(devices_of(w.s), 3);
  assert_gives(&w, y, -2);
  assert_gives(&w, z, -2);
  assert_fails(&w, v.read, TD_FAILED_PRECONDITION, "v");
  assert_fails(&w, u.read, TD_FAILED_PRECONDITION, "u");
  run_target(&w, u.init);
  assert_gives(&w, u.read, 2);
  assert_explains(&w, "VarHandleOp (u) -> " FAR1 "/device:CPU:1: asks");
  td_callable_release(c); /* it keeps what it ran before */
  assert_let_go(&f);
  assert_let_go(&back);
  world_deinit(&w);
  assert_let_go(&again);
  far_stop(&f);
  far_stop(&back);
  far_stop(&again);
}

static void test_rejoin_refused(void **state) {
  world w;
  far f, other, back;
  (void)state;
  world_init(&w, 0);
  join(&w, &f, 1, 1);
  join(&w, &other, 2, 1);
  td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
  td_edge y = neg_on(&w, FAR1, "y", x);
  far_start(&back, 1, 1);
  FAILS(try_rejoin(&w, &back, &back), TD_NOT_FOUND, "takes no part");
  back.cpu[back.n++] = other.cpu[0];
  FAILS(try_rejoin(&w, &f, &back), TD_ALREADY_EXISTS,
        "there is a device " FAR2 "/device:CPU:0 already");
  assert_int_equal(back.p->refs, 1);
  assert_fails(&w, y, TD_UNAVAILABLE,
               FAR1 " restarted"); /* lost all the same */
  back.n = 1;
  OK(try_rejoin(&w, &f, &back));
  assert_gives(&w, y, -2);
  FAILS(try_rejoin(&w, &f, &back), TD_NOT_FOUND, FAR1 " takes no part");
  world_deinit(&w);
  far_stop(&f);
  far_stop(&other);
  far_stop(&back);
}

/* ---- without memory ------------------------------------------------------ */

/* Each of them, with the n-th allocation refused: nothing has changed, or all
 * of it, and the next try does it. */
static void test_without_memory(void **state) {
  (void)state;
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    bool reached[3] = {true, true, true};
    for (int64_t n = 1; reached[0] || reached[1] || reached[2]; n++) {
      world w;
      far f, back;
      world_init(&w, 0);
      td_edge x = make_const(&w.r, TD_FLOAT64, 2, NULL);
      far_start(&f, 1, 2);
      far_start(&back, 1, 2);
      for (int what = 0; what < 3; what++) {
        int64_t before = td_mem_calls();
        td_mem_fail(n, for_ever);
        td_status *s = what == 0   ? try_join(&w, &f)
                       : what == 1 ? try_rejoin(&w, &f, &back)
                                   : td_session_leave(w.s, back.p, false);
        td_mem_fail(0, false);
        reached[what] = td_mem_calls() - before >= n;
        if (!td_ok(s)) {
          FAILS(s, TD_RESOURCE_EXHAUSTED, "");
          td_edge y = neg_on(&w, FAR1, NULL, x);
          if (what == 2)
            assert_gives(&w, y, -2);
          else
            assert_fails(&w, y, what ? TD_UNAVAILABLE : TD_INVALID_ARGUMENT,
                         "");
          if (what == 0) OK(try_join(&w, &f));
          if (what == 1) OK(try_rejoin(&w, &f, &back));
          if (what == 2) OK(td_session_leave(w.s, back.p, false));
        }
        if (what == 2)
          assert_fails(&w, neg_on(&w, FAR1, NULL, x), TD_INVALID_ARGUMENT,
                       NO_TASK);
        else
          assert_gives(&w, neg_on(&w, FAR1, NULL, x), -2);
        assert_int_equal(devices_of(w.s), what == 2 ? 1 : 3);
      }
      world_deinit(&w);
      assert_let_go(&f);
      assert_let_go(&back);
      far_stop(&f);
      far_stop(&back);
    }
  }
}

/* ---- what kernels keep --------------------------------------------------- */

static td_edge random_on(world *w, const char *device, const char *name) {
  td_build b;
  td_node *n;
  td_tensor one;
  td_shape shape = td_shape_vector(1);
  OK(td_tensor_new(td_allocator_host(), TD_INT32, &shape, &one));
  td_tensor_set_i(&one, 0, 1);
  td_build_init(&b, w->r.graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  td_build_attr(&b, "value", td_attr_tensor(&one));
  OK(td_build_node(&b, &n));
  td_tensor_release(&one);
  td_edge in = {n, 0};
  td_build_init(&b, w->r.graph, "RandomUniform", name);
  b.device = device;
  td_build_flat(&b, &in, 1);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "seed", td_attr_int(7));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_bytes bytes_of(const td_str *s) {
  return (td_bytes){td_str_c(s), s->len};
}

/* Each goes on from its own; whose is not here is not dropped silently. */
static void test_states(void **state) {
  world w;
  far f, other;
  double drawn[3], again;
  td_str alone, both, waiting;
  td_status *s;
  (void)state;
  world_init(&w, 0);
  td_str_init(&alone);
  td_str_init(&both);
  td_str_init(&waiting);
  OK(td_session_save_states(w.s, &alone));
  assert_memory_equal(td_str_c(&alone), "TDSTATES", 8);
  join(&w, &other, 2, 1);
  join(&w, &f, 1, 1);
  td_edge r[3] = {random_on(&w, "", "r0"), random_on(&w, FAR1, "r1"),
                  random_on(&w, FAR2, "r2")};
  for (int i = 0; i < 3; i++) OK(fetch(w.s, r[i], &again));
  OK(td_session_save_states(w.s, &both));
  assert_memory_equal(td_str_c(&both), "TDMEMBER", 8);
  for (int i = 0; i < 3; i++) OK(fetch(w.s, r[i], &drawn[i]));
  OK(td_session_load_states(w.s, bytes_of(&both), &waiting));
  for (int i = 0; i < 3; i++) assert_gives(&w, r[i], drawn[i]);
  assert_string_equal(td_str_c(&waiting), "");
  OK(td_session_load_states(w.s, bytes_of(&alone), NULL)); /* of here only */
  for (int64_t n = 1; n > 0; n = td_ok(s) ? 0 : n + 1) {
    td_mem_fail(n, false);
    s = td_session_save_states(w.s, &waiting);
    td_mem_fail(0, false);
    if (!td_ok(s)) FAILS(s, TD_RESOURCE_EXHAUSTED, "");
    td_str_deinit(&waiting);
    td_str_init(&waiting);
  }
  for (size_t n = 0; n < both.len; n++) {
    td_bytes cut = {td_str_c(&both), n};
    FAILS(td_session_load_states(w.s, cut, NULL), TD_DATA_LOSS, "broken");
  }
  td_str_addc(&both, 'x');
  FAILS(td_session_load_states(w.s, bytes_of(&both), NULL), TD_DATA_LOSS,
        "something follows them");
  both.len--;
  for (size_t n = 0; n < both.len; n++) { /* nothing breaks */
    td_str bent;
    td_str_init(&bent);
    td_str_addn(&bent, td_str_c(&both), both.len);
    bent.at[n] = (char)~bent.at[n];
    td_status_release(td_session_load_states(w.s, bytes_of(&bent), NULL));
    td_str_deinit(&bent);
  }
  OK(td_session_leave(w.s, f.p, true));
  FAILS(td_session_load_states(w.s, bytes_of(&both), NULL),
        TD_FAILED_PRECONDITION,
        "there are saved states of " FAR1 ", which takes no part");
  td_str_deinit(&alone);
  td_str_deinit(&both);
  td_str_deinit(&waiting);
  world_deinit(&w);
  far_stop(&f);
  far_stop(&other);
}

/* ---- many at once -------------------------------------------------------- */

enum { RUNNERS = 16 };

typedef struct storm {
  world w;
  far second;   /* task 2 at first */
  td_edge y[4]; /* here, on task 1, on task 2, on both */
  int stop;     /* atomic */
} storm;

typedef struct runner {
  storm *of;
  int number;
  int64_t ran, ended; /* steps that gave a value; that were ended */
  td_status *bad;     /* what a step must not end with */
} runner;

static bool stopped(storm *of) {
  return __atomic_load_n(&of->stop, __ATOMIC_RELAXED);
}

/* A signature that was held while devices came and went. */
static td_status *call(storm *of, td_callable **c, td_edge y, double *out) {
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_tensor got;
  if (!*c) TD_TRY(td_callable_new(of->w.s, &sig, c));
  TD_TRY(td_callable_run(*c, NULL, &got, NULL));
  *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  return NULL;
}

static void let_go_all(td_callable *held[4]) {
  for (int k = 0; k < 4; k++) {
    td_callable_release(held[k]);
    held[k] = NULL;
  }
}

static void look_around(td_session *s) {
  td_str text;
  td_str_init(&text);
  td_session_why(s, &text);
  td_session_explain_placement(s, &text);
  td_status_release(td_session_rename(s, "nobody", "somebody"));
  td_status_release(td_session_save_states(s, &text));
  td_str_deinit(&text);
  devices_of(s);
}

/* Task 1 takes no part at times. */
static bool is_absent(const td_status *s) {
  return td_status_code(s) == TD_INVALID_ARGUMENT &&
         strstr(td_status_message(s), NO_TASK);
}

static void *run_steps(void *arg) {
  runner *a = arg;
  storm *of = a->of;
  td_callable *held[4] = {NULL};
  for (int i = a->number; !a->bad && !stopped(of); i++) {
    int k = i % 4;
    double got = 0;
    if (i % 50 == 0) let_go_all(held); /* each keeps what it ran before */
    td_status *s = a->number % 2 ? call(of, &held[k], of->y[k], &got)
                                 : fetch(of->w.s, of->y[k], &got);
    if (td_ok(s) && got == (k == 3 ? 2 : -2)) {
      a->ran++;
    } else if (k > 0 && (td_status_code(s) == TD_UNAVAILABLE || is_absent(s))) {
      a->ended++;
    } else {
      a->bad = td_ok(s) ? td_error(TD_INTERNAL, "step %d gave %g", k, got)
                        : td_status_retain(s);
    }
    td_status_release(s);
    if (i % 64 == 0) look_around(of->w.s);
  }
  let_go_all(held);
  return NULL;
}

/* Task 2 dies and restarts, noticed or not. */
static void *lose_and_rejoin(void *arg) {
  storm *of = arg;
  far now = of->second, back;
  for (int i = 0; !stopped(of); i++) {
    usleep(i % 5 * 1000);
    if (i % 3) lose(&of->w, &now, 2);
    far_start(&back, 2, 1 + i % 2);
    usleep(i % 7 * 300);
    OK(try_rejoin(&of->w, &now, &back));
    far_stop(&now);
    now = back;
  }
  far_stop(&now);
  return NULL;
}

static void test_come_and_go(void **state) {
  (void)state;
  storm of = {0};
  runner all[RUNNERS];
  pthread_t thread[RUNNERS], losing;
  int64_t ran = 0, ended = 0, times = 0;
  world_init(&of.w, 2);
  join(&of.w, &of.second, 2, 1);
  td_edge x = make_const(&of.w.r, TD_FLOAT64, 2, NULL);
  of.y[0] = NODE(&of.w.r, "Neg", "here", x);
  of.y[1] = neg_on(&of.w, FAR1, "first", x);
  of.y[2] = neg_on(&of.w, FAR2, "second", x);
  of.y[3] = neg_on(&of.w, FAR2, "both", of.y[1]);
  assert_int_equal(pthread_create(&losing, NULL, lose_and_rejoin, &of), 0);
  for (int i = 0; i < RUNNERS; i++) {
    all[i] = (runner){.of = &of, .number = i};
    assert_int_equal(pthread_create(&thread[i], NULL, run_steps, &all[i]), 0);
  }
  int64_t until = td_clock_now() + 1000000000;
  for (; td_clock_now() < until; times++) {
    far f;
    join(&of.w, &f, 1, 1);
    usleep((unsigned)(times % 6) * 1000);
    OK(td_session_leave(of.w.s, f.p, times % 2));
    far_stop(&f);
  }
  __atomic_store_n(&of.stop, 1, __ATOMIC_RELAXED);
  pthread_join(losing, NULL);
  for (int i = 0; i < RUNNERS; i++) {
    pthread_join(thread[i], NULL);
    OK(all[i].bad);
    ran += all[i].ran;
    ended += all[i].ended;
  }
  print_message("%lld steps ran, %lld were ended; %lld times there\n",
                (long long)ran, (long long)ended, (long long)times);
  assert_true(ran > 0 && times > 0);
  assert_gives(&of.w, of.y[0], -2);
  assert_gives(&of.w, of.y[2], -2);
  world_deinit(&of.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_join),
      cmocka_unit_test(test_leave),
      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_steps_under_way),
      cmocka_unit_test(test_rejoin),
      cmocka_unit_test(test_rejoin_refused),
      cmocka_unit_test(test_without_memory),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
