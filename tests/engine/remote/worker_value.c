/* worker_value.c - tests of engine/remote/worker_value.c: values between the
 * processes of a step, counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>

#include "engine/device/kernel_rows.h"
#include "engine/remote/master_impl.h"
#include "engine/remote/transfer_impl.h"
#include "engine/remote/worker_impl.h"
#include "pair.h"

enum { MANY = 400000 }; /* floats: 1.6 MB, offered and, where allowed, shared */

static td_remote_traffic traffic(td_remote *r) {
  td_remote_traffic t;
  td_remote_read_traffic(r, &t);
  return t;
}

static td_edge placeholder(cluster *c) {
  td_build b;
  td_node *node;
  td_build_init(&b, c->r.graph, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

static td_tensor ramp(int64_t n) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int64_t i = 0; i < n; i++) ((float *)t.data)[i] = (float)i + 0.125f;
  return t;
}

static td_status *run_fed(cluster *c, td_edge fetch, td_edge feed,
                          const td_tensor *value, td_tensor *out) {
  td_signature sig = {
      .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
  return td_session_run(c->s, &sig, value, out, NULL);
}

/* What everybody had offered has an end: DROP may still be on its way. */
static bool nothing_is_offered(cluster *c) {
  td_remote *all[1 + MOST_WORKERS] = {c->remote};
  bool none = true;
  for (int i = 0; i < c->n; i++) all[1 + i] = c->worker[i].remote;
  for (int i = 0; i <= c->n; i++) {
    td_remote_enter(all[i]);
    none = none && !all[i]->transfers->offers;
    td_remote_leave(all[i]);
  }
  return none;
}

static void check_clean(cluster *c) {
  int64_t until = real_now() + PATIENCE;
  while (!nothing_is_offered(c) && real_now() < until) usleep(1000);
  assert_true(nothing_is_offered(c));
}

/* A value that three nodes of a device take goes there `times`. */
static void go_to_device(unsigned passes_off, int times) {
  cluster c = {0};
  td_tensor x = ramp(MANY), y;
  cluster_init(&c, 2);
  c.s->options.passes_off = passes_off;
  td_edge in = placeholder(&c);
  td_edge a = far_node(&c, 0, "Neg", "a", &in, 1);
  td_edge p = far_node(&c, 1, "Neg", "p", &a, 1);
  td_edge q = far_node(&c, 1, "Square", "q", &a, 1);
  td_edge s = far_node(&c, 1, "Add", "s", (td_edge[]){p, q}, 2);
  s = far_node(&c, 1, "Add", "all", (td_edge[]){s, a}, 2);
  for (int i = 1; i <= 3; i++) {
    OK(run_fed(&c, s, in, &x, &y));
    assert_true(td_tensor_get_f(&y, 7) == 7.125 + 7.125 * 7.125 - 7.125);
    td_tensor_release(&y);
    assert_int_equal(traffic(c.worker[0].remote).offered, i * times);
    assert_int_equal(traffic(c.worker[0].remote).eager, 0);
    assert_int_equal(traffic(c.worker[1].remote).copied, i * times * 4 * MANY);
    assert_int_equal(traffic(c.remote).copied, i * 4 * MANY);
  }
  check_clean(&c);
  td_tensor_release(&x);
  cluster_deinit(&c);
}

static void test_once_a_device(void **state) {
  (void)state;
  go_to_device(~td_plan_pass_bit("one_recv"), 1);
  go_to_device(~0u, 3);
}

/* As above in all ways that values have: the same bits. */
static void test_ways(void **state) {
  static const char *const off[] = {"",       "shm",        "eager",
                                    "wanted", "shm,wanted", "shm,eager,wanted"};
  (void)state;
  for (size_t way = 0; way < sizeof off / sizeof *off; way++) {
    cluster c = {0};
    setenv("TIDE_REMOTE_OFF", off[way], 1);
    cluster_init(&c, 2);
    unsetenv("TIDE_REMOTE_OFF");
    c.s->options.passes_off = ~0u;
    td_edge in = placeholder(&c);
    td_edge a = far_node(&c, 0, "Neg", NULL, &in, 1);
    td_edge b = far_node(&c, 1, "Neg", NULL, &a, 1);
    td_edge here = NODE(&c.r, "Neg", NULL, b);
    td_edge d = far_node(&c, 0, "Neg", NULL, &here, 1);
    for (int64_t n = 1; n <= MANY; n *= 20) {
      td_tensor x = ramp(n), y;
      for (int i = 0; i < 5; i++) {
        OK(run_fed(&c, d, in, &x, &y));
        assert_true(td_tensor_same(&x, &y));
        td_tensor_release(&y);
      }
      td_tensor_release(&x);
    }
    bool shared = !strstr(off[way], "shm");
    assert_int_equal(traffic(c.worker[1].remote).shared > 0, shared);
    assert_int_equal(traffic(c.worker[1].remote).unshared, 0);
    check_clean(&c);
    cluster_deinit(&c);
  }
}

/* Half the bytes on the edge that asks for it, and no other. */
static void test_narrow(void **state) {
  cluster c = {0};
  td_build b;
  td_node *node;
  td_tensor x = ramp(MANY), y;
  (void)state;
  cluster_init(&c, 2);
  c.s->options.passes_off = ~0u;
  td_edge in = placeholder(&c);
  td_build_init(&b, c.r.graph, "Neg", "asks");
  td_build_flat(&b, &in, 1);
  td_build_attr(&b, "_wire", td_attr_string("bfloat16"));
  b.device = "/job:worker/task:0/device:CPU:0";
  OK(td_build_node(&b, &node));
  td_edge a = {node, 0};
  td_edge s = far_node(&c, 1, "Neg", "s", &a, 1);
  OK(run_fed(&c, s, in, &x, &y));
  assert_int_equal(traffic(c.worker[0].remote).narrowed, 1);
  assert_int_equal(traffic(c.worker[0].remote).copied, 4 * MANY);
  assert_int_equal(traffic(c.worker[1].remote).copied, 2 * MANY);
  for (int64_t i = 0; i < MANY; i += 977) {
    double is = td_tensor_get_f(&y, i), want = td_tensor_get_f(&x, i);
    assert_true(fabs(is - want) <= want / 256);
  }
  assert_false(td_tensor_same(&x, &y));
  td_tensor_release(&y);
  check_clean(&c);
  td_tensor_release(&x);
  cluster_deinit(&c);
}

/* A step that fails while values are on their way: nothing of them stays, and
 * the next one runs. */
static void test_failing(void **state) {
  cluster c = {0};
  td_tensor x = ramp(MANY), y;
  (void)state;
  cluster_init(&c, 2);
  c.s->options.passes_off = ~0u;
  td_edge in = placeholder(&c), two = placeholder(&c);
  td_edge a = far_node(&c, 0, "Neg", "a", &in, 1);
  td_edge bad = far_node(&c, 1, "Add", "bad", (td_edge[]){a, two}, 2);
  td_edge good = far_node(&c, 1, "Neg", "good", &a, 1);
  for (int i = 0; i < 10; i++) {
    td_tensor odd = ramp(3), feed[2] = {x, odd};
    td_edge feeds[2] = {in, two};
    td_signature sig = {
        .feeds = feeds, .n_feeds = 2, .fetches = &bad, .n_fetches = 1};
    FAILS(td_session_run(c.s, &sig, feed, &y, NULL), TD_INVALID_ARGUMENT, "3");
    td_tensor_release(&odd);
    OK(run_fed(&c, good, in, &x, &y));
    assert_true(td_tensor_same(&x, &y));
    td_tensor_release(&y);
  }
  check_clean(&c);
  td_tensor_release(&x);
  cluster_deinit(&c);
}

/* ---- before and without their step --------------------------------------- */

/* Of a remote that was entered. */
static td_hosted *only_session(td_remote *r) {
  assert_int_equal(r->hosted.len, 1);
  return r->hosted.at[0];
}

static td_session_id only_id(td_remote *r) {
  td_remote_enter(r);
  td_session_id id = only_session(r)->id;
  td_remote_leave(r);
  return id;
}

/* `n` values for step `number`, as its master would send them: of iterations of
 * a frame that nobody is in, unless it is 0. `full`: it was told that there is
 * no room. */
static void send_from(td_remote *r, td_session_id id, uint64_t number, int n,
                      int64_t floats, uint64_t frame, bool full) {
  td_tensor x = ramp(floats);
  td_remote_enter(r);
  for (int i = 0; i < n; i++) {
    td_arena arena;
    td_raw frames[2];
    int count = 0;
    td_head head;
    Td__Remote__Tensor body = TD__REMOTE__TENSOR__INIT;
    td_sending to = {
        .to = r->peers.at[0], .session = &id, .step = number, .full = full};
    td_arena_init(&arena);
    td_head_init(&head, &id);
    head.body_case = TD__REMOTE__MESSAGE__BODY_TENSOR;
    head.tensor = &body;
    body.step = number;
    body.edge = frame ? 0 : i;
    body.frame = frame;
    body.iteration = frame ? i : 0;
    OK(td_transfer_out(&to, &x, &arena, frames, &count, &body.value));
    OK(td_peer_send(r->peers.at[0], TD_LANE_DATA, &head, frames, count));
    td_arena_deinit(&arena);
  }
  td_remote_leave(r);
  td_tensor_release(&x);
}

static void send_to_frame(cluster *c, uint64_t number, int n, int64_t floats,
                          uint64_t frame, bool full) {
  send_from(c->remote, only_id(c->worker[0].remote), number, n, floats, frame,
            full);
}

static void send_early(cluster *c, uint64_t number, int n, int64_t floats) {
  send_to_frame(c, number, n, floats, 0, false);
}

static size_t early_bytes(td_remote *r) {
  td_remote_enter(r);
  size_t bytes = only_session(r)->early_bytes;
  td_remote_leave(r);
  return bytes;
}

/* What is only offered takes next to nothing; what rode along is counted, and
 * bounded: by less than comes on a slow machine before the first of it is too
 * old. */
enum { EARLY = 8 << 20 };

static void bound_early(td_remote *r) {
  td_remote_enter(r);
  only_session(r)->early_most = EARLY;
  td_remote_leave(r);
}

static void test_early(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 1);
  td_remote *w = c.worker[0].remote;
  bound_early(w);
  send_early(&c, 1000, 20, MANY);
  int64_t until = real_now() + PATIENCE;
  while (early_bytes(w) == 0 && real_now() < until) usleep(1000);
  usleep(100000);
  assert_true(early_bytes(w) < 20 * 4096);
  assert_int_equal(traffic(w).copied, 0);
  size_t most = 0;
  for (int i = 0; i < 40 || (most < EARLY / 2 && real_now() < until); i++) {
    if (i < 40) send_early(&c, 1001, 30, 16000);
    usleep(10000);
    if (early_bytes(w) > most) most = early_bytes(w);
  }
  assert_in_range(most, EARLY / 2, EARLY);
  /* All at once: the channel is not filled, and no error comes of it. */
  send_early(&c, 1002, rounds(1000, 1000), 16000);
  /* The step that is run instead takes none of it. */
  double value = 0;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL), out;
  out = far_node(&c, 0, "Neg", "n", &two, 1);
  td_signature sig = {.fetches = &out, .n_fetches = 1};
  td_tensor y;
  OK(td_session_run(c.s, &sig, NULL, &y, NULL));
  value = td_tensor_get_f(&y, 0);
  td_tensor_release(&y);
  assert_true(value == -2);
  cluster_deinit(&c);
}

/* ---- not wanted yet -------------------------------------------------------
 */

static int32_t gate_open; /* atomic */

/* Its input, once the gate is open. */
static td_status *gate_run(td_kernel_ctx *c) {
  td_tensor *y;
  while (!__atomic_load_n(&gate_open, __ATOMIC_ACQUIRE)) usleep(1000);
  TD_TRY(td_out_like(c, 0, 0, &y));
  td_tensor_set_f(y, 0, td_tensor_get_f(td_in(c, 0), 0));
  return NULL;
}

/* clang-format off */
static const td_op_def ops[] = {
    {.type = "TestGate", .sig = "x: float -> y: float",
     .shape = td_infer_scalars, .flags = TD_STATEFUL},
    {0}};
static const td_kernel_def kernels[] = {
    {.op = "TestGate", .device = "CPU", .run = gate_run},
    {0}};
/* clang-format on */

static int register_ops(void **state) {
  static const td_module module = {"worker_value", ops, kernels};
  (void)state;
  td_status *s = td_op_register(&module);
  if (!s) s = td_kernel_register(&module);
  return s ? -1 : 0;
}

typedef struct runner {
  cluster *c;
  td_edge fetch;
  td_status *status;
} runner;

static void *run_gate(void *arg) {
  runner *r = arg;
  td_tensor y = {0};
  td_signature sig = {.fetches = &r->fetch, .n_fetches = 1};
  r->status = td_session_run(r->c->s, &sig, NULL, &y, NULL);
  td_tensor_release(&y);
  return NULL;
}

/* The number of the step that runs at a worker and takes values; 0: none. */
static uint64_t running(td_remote *r) {
  td_remote_enter(r);
  td_hosted_step *step = r->hosted.len ? r->hosted.at[0]->steps : NULL;
  uint64_t number = step && step->started ? step->number : 0;
  td_remote_leave(r);
  return number;
}

static bool is_full(cluster *c) {
  td_remote_enter(c->remote);
  bool full = c->remote->masters.at[0]->members.at[0]->full;
  td_remote_leave(c->remote);
  return full;
}

static bool until(bool (*is)(cluster *c), cluster *c, bool want) {
  for (int i = 0; i < 20000 && is(c) != want; i++) usleep(1000);
  return is(c) == want;
}

/* Half as much as a session may have comes for a step in which nobody waits for
 * it: who sends is told to offer all, and what is offered takes nothing. When
 * the step is over there is room again. */
static void test_not_wanted(void **state) {
  cluster c = {0};
  pthread_t thread;
  runner r = {.c = &c};
  uint64_t number;
  (void)state;
  gate_open = 0;
  cluster_init(&c, 1);
  td_remote *w = c.worker[0].remote;
  c.s->options.passes_off = ~0u;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge here = NODE(&c.r, "Neg", NULL, two);
  r.fetch = far_node(&c, 0, "TestGate", "gate", &here, 1);
  assert_int_equal(pthread_create(&thread, NULL, run_gate, &r), 0);
  while (!(number = running(w))) usleep(1000);
  for (uint64_t frame = 1; frame < 2000 && !is_full(&c); frame++) {
    send_to_frame(&c, number, 20, 16000, frame, false);
    usleep(1000);
  }
  assert_true(until(is_full, &c, true));
  size_t bytes = early_bytes(w);
  assert_in_range(bytes, 32 << 20, 64 << 20);
  send_to_frame(&c, number, 100, 16000, 5000, true);
  send_to_frame(&c, number, 100, MANY, 5001, false);
  usleep(100000);
  assert_true(early_bytes(w) <= 64 << 20);
  __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  OK(r.status);
  assert_true(until(is_full, &c, false));
  assert_int_equal(early_bytes(w), 0);
  td_remote_enter(c.remote);
  td_session_id id = only_session(w)->id;
  td_transfer_withdraw(c.remote, &id, number);
  td_remote_leave(c.remote);
  cluster_deinit(&c);
}

static size_t early_here(cluster *c) {
  td_remote_enter(c->remote);
  size_t bytes = c->remote->masters.at[0]->early_bytes;
  td_remote_leave(c->remote);
  return bytes;
}

/* Was the worker told that there is no room here? */
static bool is_told(cluster *c) {
  td_remote *w = c->worker[0].remote;
  td_remote_enter(w);
  bool full = only_session(w)->tasks.at[0].full;
  td_remote_leave(w);
  return full;
}

static bool has_some(cluster *c) {
  return early_here(c) > 0;
}

/* The same for what a worker sends to this process. */
static void test_not_wanted_here(void **state) {
  cluster c = {0};
  pthread_t thread;
  runner r = {.c = &c};
  uint64_t number;
  (void)state;
  gate_open = 0;
  cluster_init(&c, 1);
  td_remote *w = c.worker[0].remote;
  c.s->options.passes_off = ~0u;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge here = NODE(&c.r, "Neg", NULL, two);
  td_edge gate = far_node(&c, 0, "TestGate", "gate", &here, 1);
  r.fetch = NODE(&c.r, "Neg", "out", gate); /* waits here, too */
  assert_int_equal(pthread_create(&thread, NULL, run_gate, &r), 0);
  while (!(number = running(w))) usleep(1000);
  td_session_id id = only_id(w);
  for (uint64_t frame = 1; frame < 2000 && !is_told(&c); frame++) {
    send_from(w, id, number, 20, 16000, frame, false);
    usleep(1000);
  }
  assert_true(until(is_told, &c, true));
  size_t bytes = early_here(&c);
  assert_in_range(bytes, 32 << 20, 64 << 20);
  uint64_t copied = traffic(c.remote).copied;
  send_from(w, id, number, 100, 16000, 5000, true);
  send_from(w, id, number, 100, MANY, 5001, false);
  usleep(100000);
  assert_true(early_here(&c) <= 64 << 20);
  assert_in_range(traffic(c.remote).copied, copied, copied + (32 << 20));
  __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  OK(r.status);
  assert_true(until(is_told, &c, false));
  assert_true(until(has_some, &c, false));
  check_clean(&c);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_once_a_device),   cmocka_unit_test(test_ways),
      cmocka_unit_test(test_narrow),          cmocka_unit_test(test_failing),
      cmocka_unit_test(test_early),           cmocka_unit_test(test_not_wanted),
      cmocka_unit_test(test_not_wanted_here),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
