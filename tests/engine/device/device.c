/* device.c - one conformance table for every device, and what is special about
 * the test device: memory that faults, a queue that is late, copies that are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static td_device *late; /* TEST:0 */
static td_device *devices[2];

#define FOR_DEVICES(d)                                                         \
  for (size_t d##_ = 0; d##_ < TD_COUNT(devices); d##_++)                      \
    for (td_device *d = devices[d##_]; d; d = NULL)

/* ---- what a device says of itself ---------------------------------------- */

static void test_names(void **state) {
  td_device *other;
  (void)state;
  assert_string_equal(cpu->name, PLACE "/device:CPU:0");
  assert_string_equal(late->name, PLACE "/device:TEST:0");
  OK(td_device_cpu_new(PLACE, 3, 0, &other));
  assert_string_equal(other->name, PLACE "/device:CPU:3");
  assert_int_equal(other->index, 3);
  assert_int_equal(other->parsed.index, 3);
  assert_string_equal(other->parsed.job, "localhost");
  assert_true(other->incarnation != cpu->incarnation);
  td_device_release(other);
  FOR_DEVICES(d) assert_string_equal(d->kernels, "CPU");
  assert_true(td_device_on_host(cpu));
  assert_false(td_device_on_host(late));
  FAILS(td_device_cpu_new("/job:?", 0, 0, &other), TD_INVALID_ARGUMENT,
        "/job:?");
  FAILS(td_device_test_new("/job:?", 0, 1, NULL, &other), TD_INVALID_ARGUMENT,
        "/job:?");
}

/* ---- conformance --------------------------------------------------------- */

/* Ops with operands in either memory, views, forwarded and host results. */
typedef struct row {
  const char *op;
  td_dtype types[3];
  int n_in;
  const char *in[3];  /* elements: "1 2 3", a scalar without blanks */
  const char *out[2]; /* NULL: invalid */
  int n_out;
} row;

static const row table[] = {
    {"Identity", {TD_FLOAT32}, 1, {"1 2 3"}, {"1 2 3"}, 1},
    {"Identity", {TD_INT32}, 1, {"7"}, {"7"}, 1},
    {"Identity", {TD_STRING}, 1, {"moon"}, {"moon"}, 1},
    {"StopGradient", {TD_FLOAT32}, 1, {"1 2"}, {"1 2"}, 1},
    {"TestDouble", {TD_FLOAT32}, 1, {"1 2 3"}, {"2 4 6"}, 1},
    {"TestDouble", {TD_FLOAT32}, 1, {""}, {""}, 1},
    {"TestTake", {TD_FLOAT32, TD_INT32}, 2, {"5 6 7", "2"}, {"5 6", "2"}, 2},
    {"TestTake", {TD_FLOAT32, TD_INT32}, 2, {"5 6 7", "0"}, {"", "0"}, 2},
    {"Switch", {TD_FLOAT32, TD_BOOL}, 2, {"4 5", "1"}, {NULL, "4 5"}, 2},
    {"Switch", {TD_FLOAT32, TD_BOOL}, 2, {"4 5", "0"}, {"4 5", NULL}, 2},
    {"LoopCond", {TD_BOOL}, 1, {"1"}, {"1"}, 1},
    {"Exit", {TD_FLOAT32}, 1, {"1 2"}, {"1 2"}, 1},
    {"NextIteration", {TD_FLOAT32}, 1, {"1 2"}, {"1 2"}, 1},
};

static td_tensor tensor_of(td_dtype dtype, const char *s) {
  td_tensor t;
  if (dtype == TD_STRING) return text(s);
  float at[8];
  int64_t n = 0;
  for (char *end; *s; s = end + (*end == ' ')) at[n++] = strtof(s, &end);
  td_shape shape = n == 1 ? td_shape_scalar() : td_shape_vector(n);
  OK(td_tensor_new(NULL, dtype, &shape, &t));
  for (int64_t i = 0; i < n; i++) td_tensor_set_f(&t, i, at[i]);
  return t;
}

static void check_row(const row *r, td_device *d) {
  td_graph *g;
  td_step step = step_new();
  td_tensor in[3], out[2];
  OK(td_graph_new(&g));
  td_node *n = node_of(g, r->op, r->types, r->n_in);
  for (int i = 0; i < r->n_in; i++) in[i] = tensor_of(r->types[i], r->in[i]);
  td_status *s = run_node(n, d, &step, in, out);
  if (s) fail_msg("%s on %s: %s", r->op, d->name, td_status_message(s));
  for (int i = 0; i < r->n_out; i++) {
    assert_int_equal(td_tensor_valid(&out[i]), r->out[i] != NULL);
    if (!r->out[i]) continue;
    td_tensor want = tensor_of(n->out[i].dtype, r->out[i]);
    if (!td_tensor_same(&want, &out[i]))
      fail_msg("%s on %s: output %d", r->op, d->name, i);
    td_tensor_release(&want);
    td_tensor_release(&out[i]);
  }
  for (int i = 0; i < r->n_in; i++) td_tensor_release(&in[i]);
  step_end(&step);
  td_graph_release(g);
}

static void test_conformance(void **state) {
  (void)state;
  FOR_DEVICES(d)
  for (size_t i = 0; i < TD_COUNT(table); i++) check_row(&table[i], d);
}

/* Errors of a kernel arrive, too. */
static void test_kernel_error(void **state) {
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_node *n = NODE(g, "TestTake", TD_FLOAT32, TD_INT32);
  FOR_DEVICES(d) {
    td_step step = step_new();
    td_tensor in[] = {FLOATS(1, 2), INTS(3)}, out[2];
    in[1].shape = td_shape_scalar();
    FAILS(run_node(n, d, &step, in, out), TD_OUT_OF_RANGE, "k is 3");
    td_tensor_release(&in[0]);
    td_tensor_release(&in[1]);
    step_end(&step);
  }
  td_graph_release(g);
}

static void test_constant(void **state) {
  td_graph *g;
  td_build b;
  td_node *n;
  (void)state;
  FOR_DEVICES(d) {
    for (int kind = 0; kind < 2; kind++) {
      td_tensor x = kind ? text("tide") : FLOATS(1, 2, 3), out[2];
      td_step step = step_new();
      OK(td_graph_new(&g));
      td_build_init(&b, g, "Const", NULL);
      td_build_attr(&b, "value", td_attr_tensor(&x));
      td_build_attr(&b, "dtype", td_attr_type(x.dtype));
      OK(td_build_node(&b, &n));
      pending f;
      OK(pending_init(&f, n, d, NULL, &step, NULL));
      td_kernel_start(&f.ctx);
      OK(pending_wait(&f));
      assert_true(f.out[0].buffer->readonly);
      assert_int_equal(td_tensor_on_host(&f.out[0]),
                       td_device_on_host(d) || kind == 1);
      OK(td_device_transfer_wait(d, &f.out[0], d->host, &out[0]));
      assert_true(td_tensor_same(&x, &out[0]));
      td_tensor_release(&out[0]);
      pending_end(&f);
      td_tensor_release(&x);
      step_end(&step);
      td_graph_release(g);
    }
  }
}

static void test_where_operands_live(void **state) {
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_node *take = NODE(g, "TestTake", TD_FLOAT32, TD_INT32);
  td_node *same = NODE(g, "Identity", TD_STRING);
  td_node *read = NODE(g, "TestRead", TD_RESOURCE);
  assert_true(td_kernel_in_host(take, cpu, 0));
  assert_false(td_kernel_in_host(take, late, 0));
  assert_true(td_kernel_in_host(take, late, 1)); /* the row says so */
  assert_false(td_kernel_out_host(take, late, 0));
  assert_true(td_kernel_out_host(take, late, 1));
  assert_true(td_kernel_in_host(same, late, 0)); /* strings */
  assert_true(td_kernel_out_host(same, late, 0));
  assert_true(td_kernel_in_host(read, late, 0)); /* handles */
  assert_false(td_kernel_out_host(read, late, 0));
  td_graph_release(g);
}

/* ---- sending ------------------------------------------------------------- */

static td_node *end_node(td_graph *g, const char *op, td_edge *from,
                         const char *sender, const char *receiver, int edge) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, op, NULL);
  if (from)
    td_build_in(&b, *from);
  else
    td_build_attr(&b, "tensor_type", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "tensor_name", td_attr_string("x"));
  td_build_attr(&b, "send_device", td_attr_string(sender));
  td_build_attr(&b, "send_device_incarnation", td_attr_int(1));
  td_build_attr(&b, "recv_device", td_attr_string(receiver));
  if (edge >= 0) td_build_attr(&b, "_edge", td_attr_int(edge));
  OK(td_build_node(&b, &n));
  return n;
}

/* From every device and memory to every other, the receiver first or last. */
static void send_over(td_device *from, td_device *to, bool send_host,
                      bool recv_host, bool receive_first, bool dead) {
  td_graph *g;
  OK(td_graph_new(&g));
  td_edge x = placeholder(g, TD_FLOAT32);
  td_node *send = end_node(g, send_host ? "_HostSend" : "_Send", &x, from->name,
                           to->name, 2);
  td_node *recv = end_node(g, recv_host ? "_HostRecv" : "_Recv", NULL,
                           from->name, to->name, 2);
  td_tensor value = FLOATS(1, 2, 3), got;
  td_step step = step_new();
  pending s, r;
  OK(pending_init(&s, send, from, NULL, &step, &value));
  OK(pending_init(&r, recv, to, NULL, &step, NULL));
  s.ctx.dead = dead;
  if (dead) td_tensor_release(&s.in[0]);
  if (receive_first) td_kernel_start(&r.ctx);
  td_kernel_start(&s.ctx);
  OK(pending_wait(&s));
  if (!receive_first) td_kernel_start(&r.ctx);
  OK(pending_wait(&r));
  assert_int_equal(r.ctx.out_dead, dead);
  if (!dead) {
    assert_int_equal(td_tensor_on_host(&r.out[0]),
                     recv_host || td_device_on_host(to));
    OK(td_device_transfer_wait(to, &r.out[0], to->host, &got));
    assert_true(td_tensor_same(&value, &got));
    td_tensor_release(&got);
  }
  pending_end(&s);
  pending_end(&r);
  td_tensor_release(&value);
  step_end(&step);
  td_graph_release(g);
}

static void test_sending(void **state) {
  td_device *other;
  (void)state;
  OK(td_device_test_new(PLACE, 1, 2, NULL, &other));
  td_device *all[] = {cpu, late, other};
  for (int from = 0; from < 3; from++)
    for (int to = 0; to < 3; to++)
      for (int how = 0; how < 16; how++)
        send_over(all[from], all[to], how & 1, how & 2, how & 4, how & 8);
  td_device_release(other);
}

static void test_send_needs_an_edge(void **state) {
  td_graph *g;
  td_step step = step_new();
  pending f;
  (void)state;
  OK(td_graph_new(&g));
  td_node *n = end_node(g, "_Recv", NULL, cpu->name, cpu->name, -1);
  FAILS(pending_init(&f, n, cpu, NULL, &step, NULL), TD_INVALID_ARGUMENT,
        "_edge");
  pending_end(&f);
  step_end(&step);
  td_graph_release(g);
}

/* A cancel ends a receive that nobody answers, with the step's cause. */
static void test_cancelled_receive(void **state) {
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_node *n = end_node(g, "_Recv", NULL, cpu->name, cpu->name, 0);
  FOR_DEVICES(d) {
    td_step step = step_new();
    pending f;
    OK(pending_init(&f, n, d, NULL, &step, NULL));
    td_kernel_start(&f.ctx);
    assert_false(pending_over(&f));
    td_cancel_fire(step.cancel, td_error(TD_DEADLINE_EXCEEDED, "too late"));
    td_kernel_cancel(&f.ctx);
    FAILS(pending_wait(&f), TD_DEADLINE_EXCEEDED, "too late");
    pending_end(&f);
    step_end(&step);
  }
  td_graph_release(g);
}

/* ---- arguments and results ----------------------------------------------- */

static td_node *indexed(td_graph *g, const char *op, td_edge *in, int index) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, op, NULL);
  if (in)
    td_build_in(&b, *in);
  else
    td_build_attr(&b, "T", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "index", td_attr_int(index));
  OK(td_build_node(&b, &n));
  return n;
}

static void test_feeds_and_fetches(void **state) {
  td_graph *g;
  (void)state;
  OK(td_graph_new(&g));
  td_edge x = placeholder(g, TD_FLOAT32);
  td_node *arg = indexed(g, "_Arg", NULL, 1);
  td_node *ret = indexed(g, "_Retval", &x, 1);
  FOR_DEVICES(d) {
    td_step step = step_new();
    td_tensor args[] = {INTS(1), FLOATS(4, 5)}, rets[2] = {{.dtype = 0}}, got;
    bool dead[2] = {false, true};
    FAILS(run_node(arg, d, &step, NULL, &got), TD_FAILED_PRECONDITION, "feeds");
    FAILS(run_node(ret, d, &step, &args[1], NULL), TD_FAILED_PRECONDITION,
          "fetches");
    step.args = args;
    step.rets = rets;
    step.rets_dead = dead;
    OK(run_node(arg, d, &step, NULL, &got));
    assert_ptr_equal(got.buffer, args[1].buffer);
    OK(run_node(ret, d, &step, &got, NULL));
    assert_ptr_equal(rets[1].buffer, args[1].buffer);
    assert_false(dead[1]);
    td_tensor_release(&got);
    td_tensor_release(&rets[1]);
    pending f;
    td_tensor none = {0};
    OK(pending_init(&f, ret, d, NULL, &step, &none));
    f.ctx.dead = true;
    td_kernel_start(&f.ctx);
    OK(pending_wait(&f));
    assert_true(dead[1]);
    pending_end(&f);
    args[1].dtype = TD_INT32; /* what the planner would not let through */
    FAILS(run_node(arg, d, &step, NULL, &got), TD_INVALID_ARGUMENT,
          "feed 1 is int32, not float32");
    td_tensor_release(&args[0]);
    td_tensor_release(&args[1]);
    step_end(&step);
  }
  td_graph_release(g);
}

/* ---- transfers ----------------------------------------------------------- */

static void test_transfers(void **state) {
  td_tensor host = FLOATS(1, 2, 3), there, back, again, words = text("x");
  (void)state;
  OK(td_device_transfer_wait(late, &host, late->memory, &there));
  assert_ptr_not_equal(there.buffer, host.buffer);
  assert_false(td_tensor_on_host(&there));
  OK(td_device_transfer_wait(late, &there, late->memory, &again));
  assert_ptr_equal(again.buffer, there.buffer); /* there already: shared */
  td_tensor_release(&again);
  OK(td_device_transfer_wait(late, &there, late->host, &back));
  assert_true(td_tensor_same(&back, &host));
  td_tensor_release(&back);
  OK(td_device_transfer_wait(late, &words, late->memory, &again));
  assert_ptr_equal(again.buffer, words.buffer); /* text stays on the host */
  td_tensor_release(&again);
  FAILS(td_device_transfer_wait(cpu, &there, cpu->memory, &back), TD_INTERNAL,
        "cannot copy a tensor out of the memory of");
  FAILS(td_tensor_copy(&there, &back), TD_FAILED_PRECONDITION, "TEST:0");
  td_tensor_release(&there);
  td_tensor_release(&words);
  td_tensor_release(&host);
}

/* A view that begins inside its buffer crosses as well. */
static void test_transfer_of_a_view(void **state) {
  td_tensor host = FLOATS(1, 2, 3, 4), there, view, back;
  (void)state;
  OK(td_device_transfer_wait(late, &host, late->memory, &there));
  OK(td_tensor_rows(&there, 1, 2, &view));
  OK(td_device_transfer_wait(late, &view, late->host, &back));
  assert_true(td_tensor_get_f(&back, 0) == 2);
  assert_true(td_tensor_get_f(&back, 1) == 3);
  td_tensor_release(&back);
  td_tensor_release(&view);
  td_tensor_release(&there);
  td_tensor_release(&host);
}

/* ---- the test device's memory -------------------------------------------- */

/* Does a child die that reads one byte of `p`? An address that cannot be gives
 * SIGBUS where the compiler used the stack's registers, else SIGSEGV. */
static bool faults(const volatile char *p) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* no report of a sanitizer */
    signal(SIGBUS, SIG_DFL);
    _exit(*p == 0 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) return false;
  return WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS;
}

static void test_memory_faults(void **state) {
  td_tensor host = FLOATS(1, 2, 3), there;
  (void)state;
  OK(td_device_transfer_wait(late, &host, late->memory, &there));
  assert_false(faults(host.data));
  assert_true(faults(there.data));
  assert_false(faults(late->map(late, there.data)));
  td_tensor_release(&there);
  td_tensor_release(&host);
}

/* Blocks may outlive their device. */
static void test_memory_outlives_the_device(void **state) {
  td_device *d;
  td_tensor host = FLOATS(1, 2, 3), there;
  (void)state;
  OK(td_device_test_new(PLACE, 7, 1, NULL, &d));
  OK(td_device_transfer_wait(d, &host, d->memory, &there));
  td_device_release(d);
  td_tensor_release(&there);
  td_tensor_release(&host);
}

/* ---- the test device's queue --------------------------------------------- */

enum { MANY = 100 };

static int32_t landed; /* atomic */

static void count_landed(void *arg, td_status *s) {
  (void)arg;
  OK(s);
  __atomic_fetch_add(&landed, 1, __ATOMIC_ACQ_REL);
}

/* A copy returns before it is done; releasing the device waits for it. */
static void test_copies_are_late(void **state) {
  td_device *d;
  td_tensor host = FLOATS(1, 2, 3), there[MANY];
  int32_t unfinished = 0;
  (void)state;
  landed = 0;
  OK(td_device_test_new(PLACE, 1, 5, NULL, &d));
  for (int i = 0; i < MANY; i++) {
    td_device_transfer(d, &host, d->memory, &there[i], count_landed, NULL);
    unfinished += __atomic_load_n(&landed, __ATOMIC_ACQUIRE) <= i;
  }
  assert_true(unfinished > 0);
  td_device_release(d);
  assert_int_equal(landed, MANY);
  for (int i = 0; i < MANY; i++) td_tensor_release(&there[i]);
  td_tensor_release(&host);
}

static void release_device(void *arg, td_status *s) {
  OK(s);
  td_device_release(arg);
  __atomic_fetch_add(&landed, 1, __ATOMIC_ACQ_REL);
}

/* The last reference may go on the device's own thread. */
static void test_released_by_its_own_thread(void **state) {
  td_device *d;
  td_tensor host = FLOATS(1, 2, 3), there;
  (void)state;
  landed = 0;
  OK(td_device_test_new(PLACE, 1, 5, NULL, &d));
  td_device_transfer(d, &host, d->memory, &there, release_device, d);
  while (!__atomic_load_n(&landed, __ATOMIC_ACQUIRE)) usleep(1000);
  td_tensor_release(&there);
  td_tensor_release(&host);
  usleep(20000); /* it ends by itself: leak checkers see it gone */
}

/* ---- memory -------------------------------------------------------------- */

/* A kernel on the device, from its making to the fetched result. */
static td_status *once_through(const td_node *n, const td_tensor *x) {
  td_device *d = NULL;
  td_cancel *cancel = NULL;
  td_tensor y = {0};
  td_status *s = td_device_test_new(PLACE, 0, 3, NULL, &d);
  if (td_ok(s)) s = td_cancel_new(&cancel);
  if (td_ok(s)) {
    td_step step = {.threads = 1, .stop = td_cancel_flag(cancel)};
    s = run_node(n, d, &step, x, &y);
  }
  td_tensor_release(&y);
  td_cancel_release(cancel);
  td_device_release(d);
  return s;
}

static void test_without_memory(void **state) {
  td_graph *g;
  td_tensor x = FLOATS(1, 2, 3);
  (void)state;
  OK(td_graph_new(&g));
  td_node *n = NODE(g, "TestDouble", TD_FLOAT32);
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    int64_t nth = 1;
    for (;; nth++) {
      td_mem_fail(nth, for_ever);
      td_status *s = once_through(n, &x);
      td_mem_fail(0, false);
      if (td_ok(s)) break;
      FAILS(s, TD_RESOURCE_EXHAUSTED, "");
    }
    print_message("%lld allocations failed\n", (long long)nth - 1);
    assert_true(nth > 10);
  }
  td_tensor_release(&x);
  td_graph_release(g);
}

static int begin(void **state) {
  register_node_ops(state);
  begin_cpu(state);
  OK(td_device_test_new(PLACE, 0, 1, NULL, &late));
  devices[0] = cpu;
  devices[1] = late;
  return 0;
}

static int end(void **state) {
  (void)state;
  FOR_DEVICES(d) td_device_release(d);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_conformance),
      cmocka_unit_test(test_kernel_error),
      cmocka_unit_test(test_constant),
      cmocka_unit_test(test_where_operands_live),
      cmocka_unit_test(test_sending),
      cmocka_unit_test(test_send_needs_an_edge),
      cmocka_unit_test(test_cancelled_receive),
      cmocka_unit_test(test_feeds_and_fetches),
      cmocka_unit_test(test_transfers),
      cmocka_unit_test(test_transfer_of_a_view),
      cmocka_unit_test(test_memory_faults),
      cmocka_unit_test(test_memory_outlives_the_device),
      cmocka_unit_test(test_copies_are_late),
      cmocka_unit_test(test_released_by_its_own_thread),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
