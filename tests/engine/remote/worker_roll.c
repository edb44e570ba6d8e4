/* worker_roll.c - tests of engine/remote/worker_roll.c, and of what a session
 * may have at a worker: each limit refuses, with its numbers, and the session
 * goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "engine/remote/master_impl.h"
#include "engine/remote/worker_impl.h"
#include "pair.h"

/* ---- a kernel that its program owns ---------------------------------------
 */

static int32_t alive; /* atomic: such kernels that there are */

static td_status *own_make(const td_kernel_info *info, void **state) {
  (void)info;
  __atomic_add_fetch(&alive, 1, __ATOMIC_ACQ_REL);
  *state = &alive;
  return NULL;
}

static void own_drop(void *state) {
  __atomic_sub_fetch((int32_t *)state, 1, __ATOMIC_ACQ_REL);
}

static td_status *own_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_of(0, NULL);
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  td_tensor_set_f(y, 0, 7);
  return NULL;
}

/* clang-format off */
static const td_op_def ops[] = {
    {.type = "TestOwn", .sig = "-> y: float", .shape = td_infer_scalars,
     .flags = TD_STATEFUL},
    {0}};
static const td_kernel_def kernels[] = {
    {.op = "TestOwn", .device = "CPU", .run = own_run, .make = own_make,
     .drop = own_drop, .flags = TD_KERNEL_OWN},
    {0}};
/* clang-format on */

static int register_ops(void **state) {
  static const td_module module = {"worker_roll", ops, kernels};
  (void)state;
  td_status *s = td_op_register(&module);
  if (!s) s = td_kernel_register(&module);
  return s ? -1 : 0;
}

/* ---- a session with one step ----------------------------------------------
 */

static td_status *run_seven(cluster *c, td_session *s, td_edge y) {
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_tensor value;
  (void)c;
  TD_TRY(td_session_run(s, &sig, NULL, &value,
                        &(td_step_options){.timeout = 60000000000}));
  assert_true(td_tensor_get_f(&value, 0) == 7);
  td_tensor_release(&value);
  return NULL;
}

static td_edge begin(cluster *c) {
  cluster_init(c, 1);
  td_edge y = far_node(c, 0, "TestOwn", NULL, NULL, 0);
  OK(run_seven(c, c->s, y));
  return y;
}

/* Inside of the worker's turn. */
static td_hosted *only_session(cluster *c) {
  td_remote *r = c->worker[0].remote;
  assert_int_equal(r->hosted.len, 1);
  return r->hosted.at[0];
}

/* ---- ends -----------------------------------------------------------------
 */

/* With no memory at all programs are ended as ever. */
static void test_ended_without_memory(void **state) {
  cluster c = {0};
  (void)state;
  begin(&c);
  assert_int_equal(__atomic_load_n(&alive, __ATOMIC_ACQUIRE), 1);
  td_remote *w = c.worker[0].remote;
  td_remote_enter(w);
  td_hosted *h = only_session(&c);
  assert_int_equal(h->rolls.len, 1);
  uint64_t handle = h->rolls.at[0]->handle;
  td_mem_fail(1, true);
  td_hosted_unregister(
      h, &(Td__Remote__Handles){.n_handle = 1, .handle = &handle});
  td_mem_fail(0, false);
  td_remote_leave(w);
  for (int i = 0; i < 20000 && __atomic_load_n(&alive, __ATOMIC_ACQUIRE); i++)
    usleep(1000);
  assert_int_equal(__atomic_load_n(&alive, __ATOMIC_ACQUIRE), 0);
  cluster_deinit(&c);
}

/* ---- limits of registrations ----------------------------------------------
 */

/* Says `m` as the session's master; what the worker answers to it. */
static td_status *try_register(cluster *c, Td__Remote__Register *m,
                               size_t *nodes, size_t *ends) {
  td_head head;
  td_remote_enter(c->remote);
  td_master *s = c->remote->masters.at[0];
  td_member *w = s->members.at[0];
  td_far_roll e = {.of = w,
                   .handle = td_remote_number(c->remote),
                   .state = TD_ROLL_SENT,
                   .said = INT64_MAX / 2};
  m->handle = e.handle;
  e.next = w->rolls;
  if (e.next) e.next->prev = &e;
  w->rolls = &e;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_REGISTER;
  head.register_ = m;
  OK(td_member_send(w, TD_LANE_CONTROL, &head, NULL, 0));
  for (int i = 0; i < 20000 && e.state == TD_ROLL_SENT; i++) {
    td_remote_leave(c->remote);
    usleep(1000);
    td_remote_enter(c->remote);
  }
  w->rolls = e.next;
  if (e.next) e.next->prev = NULL;
  td_remote_leave(c->remote);
  assert_true(e.state != TD_ROLL_SENT);
  td_remote_enter(c->worker[0].remote);
  *nodes = only_session(c)->nodes;
  *ends = only_session(c)->ends;
  td_remote_leave(c->worker[0].remote);
  return e.error;
}

/* What is refused counts for nothing. */
static void refused(cluster *c, Td__Remote__Register *m, td_code code,
                    const char *why) {
  size_t before[2], after[2];
  td_remote_enter(c->worker[0].remote);
  before[0] = only_session(c)->nodes;
  before[1] = only_session(c)->ends;
  td_remote_leave(c->worker[0].remote);
  FAILS(try_register(c, m, &after[0], &after[1]), code, why);
  assert_int_equal(before[0], after[0]);
  assert_int_equal(before[1], after[1]);
}

static void test_registrations(void **state) {
  cluster c = {0};
  (void)state;
  td_edge y = begin(&c);
  td_remote *w = c.worker[0].remote;
  uint8_t hash[sizeof(td_piece_hash)] = {1};
  uint64_t serial = 5;
  ProtobufCBinaryData piece = {sizeof hash, hash};
  Td__Remote__Part part = TD__REMOTE__PART__INIT, *parts[2000];
  for (int i = 0; i < 2000; i++) parts[i] = &part;
  part.piece = &piece;
  part.n_piece = 1;
  part.serial = &serial;
  Td__Remote__Register m = TD__REMOTE__REGISTER__INIT;
  m.part = parts;
  m.n_part = 1;
  part.nodes = 2;
  refused(&c, &m, TD_INVALID_ARGUMENT, "a part of 2 nodes with 0 serials");
  part.nodes = -1;
  refused(&c, &m, TD_INVALID_ARGUMENT, "a part of -1 nodes");
  part.nodes = 0;
  part.n_piece = 0;
  refused(&c, &m, TD_INVALID_ARGUMENT, "a part without a graph");
  part.n_piece = 1;
  piece.len = 3;
  refused(&c, &m, TD_INVALID_ARGUMENT, "a hash of 3 bytes");
  piece.len = sizeof hash;
  m.n_part = 2000;
  refused(&c, &m, TD_INVALID_ARGUMENT, "a registration of 2000 parts");
  m.n_part = 1;
  m.args = 1 << 19;
  refused(&c, &m, TD_INVALID_ARGUMENT, "524288 feeds");
  m.args = 0;
  m.rets = -1;
  refused(&c, &m, TD_INVALID_ARGUMENT, "-1 fetches");
  m.rets = 0;
  Td__Remote__Edge far = TD__REMOTE__EDGE__INIT, *fars = &far;
  m.far = &fars;
  m.n_far = 1;
  far.edge = 3;
  refused(&c, &m, TD_INVALID_ARGUMENT, "edge 3 of 0 leads to task 0");
  m.n_far = 0;
  /* All together. */
  td_remote_enter(w);
  td_hosted *h = only_session(&c);
  size_t nodes = h->nodes, ends = h->ends;
  h->nodes = TD_ROLL_NODES_MOST;
  td_remote_leave(w);
  part.nodes = 1;
  part.n_serial = 1;
  refused(&c, &m, TD_RESOURCE_EXHAUSTED, "has 67108864 nodes and ");
  td_remote_enter(w);
  h->nodes = nodes;
  h->ends = TD_ROLL_ENDS_MOST - 1;
  td_remote_leave(w);
  m.rets = 2;
  refused(&c, &m, TD_RESOURCE_EXHAUSTED, "1 and 2 more pass the limits of ");
  td_remote_enter(w);
  h->ends = ends;
  td_remote_leave(w);
  OK(run_seven(&c, c.s, y));
  cluster_deinit(&c);
}

/* As many as a session may have: 65,536, of which one is real. */
static void test_many_registrations(void **state) {
  cluster c = {0};
  (void)state;
  td_edge y = begin(&c);
  td_remote *w = c.worker[0].remote;
  Td__Remote__Register m = TD__REMOTE__REGISTER__INIT;
  m.handle = UINT64_MAX;
  td_remote_enter(w);
  td_hosted *h = only_session(&c);
  size_t n = h->rolls.len;
  assert_true(td_vec_reserve(&h->rolls, TD_ROLLS_MOST));
  for (size_t i = n; i < TD_ROLLS_MOST; i++) h->rolls.at[i] = h->rolls.at[0];
  h->rolls.len = TD_ROLLS_MOST;
  td_hosted_register(h, &m);
  assert_int_equal(h->rolls.len, TD_ROLLS_MOST);
  h->rolls.len = n;
  td_hosted_register(h, &m);
  assert_int_equal(h->rolls.len, n + 1); /* there is room again */
  td_remote_leave(w);
  OK(run_seven(&c, c.s, y));
  cluster_deinit(&c);
}

/* ---- limits of steps and sessions -----------------------------------------
 */

static void test_steps(void **state) {
  cluster c = {0};
  (void)state;
  td_edge y = begin(&c);
  td_remote *w = c.worker[0].remote;
  td_remote_enter(w);
  td_hosted *h = only_session(&c);
  h->n_steps += TD_STEPS_MOST;
  td_remote_leave(w);
  FAILS(run_seven(&c, c.s, y), TD_RESOURCE_EXHAUSTED,
        "4096 steps of the session are under way already");
  td_remote_enter(w);
  h->n_steps -= TD_STEPS_MOST;
  h->step_ends += TD_STEP_ENDS_MOST;
  td_remote_leave(w);
  FAILS(run_seven(&c, c.s, y), TD_RESOURCE_EXHAUSTED,
        "more pass the limit of 16777216");
  td_remote_enter(w);
  h->step_ends -= TD_STEP_ENDS_MOST;
  td_remote_leave(w);
  OK(run_seven(&c, c.s, y));
  cluster_deinit(&c);
}

static void test_sessions(void **state) {
  enum { MOST = 128 };
  cluster c = {0};
  td_session *s[MOST];
  td_attach_options o = {0};
  td_member *m;
  (void)state;
  td_edge y = begin(&c);
  o.to.control = c.worker[0].address;
  for (int i = 0; i < MOST; i++) {
    OK(td_session_new(c.r.runtime, c.r.graph, NULL, &s[i]));
    if (i < MOST - 1)
      OK(td_remote_attach(c.remote, s[i], &o, &m));
    else
      FAILS(td_remote_attach(c.remote, s[i], &o, &m), TD_RESOURCE_EXHAUSTED,
            "128 sessions of this process are here already");
  }
  OK(run_seven(&c, s[MOST - 2], y));
  td_session_close(s[0]);
  OK(td_remote_attach(c.remote, s[MOST - 1], &o, &m));
  OK(run_seven(&c, s[MOST - 1], y));
  for (int i = 0; i < MOST; i++) {
    td_session_close(s[i]);
    td_session_release(s[i]);
  }
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ended_without_memory),
      cmocka_unit_test(test_registrations),
      cmocka_unit_test(test_many_registrations),
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_sessions),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
