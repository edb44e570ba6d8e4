/* nodes.c - tests of simulated processes: what runs, when, and when no more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/base/clock.h"
#include "engine/base/io_threads.h"
#include "engine/base/park.h"
#include "tests/sim/base/node.h"
#include "tests/sim/base/sim.h"

static const int64_t second = 1000000000;

/* Something of a node that counts where and when it ran. */
typedef struct count {
  td_task task;
  int times, node;
  int64_t at;
} count;

static void note(count *c) {
  c->times++;
  c->node = sim_here();
  c->at = td_clock_now();
}

static void run_task(td_task *t) {
  note((count *)t);
}

static void fire(void *arg) {
  note(arg);
}

static void submit(sim_node_t n, count *c) {
  *c = (count){.task.run = run_task, .node = -1};
  sim_enter(n);
  td_pool_submit(&c->task);
  sim_leave();
}

static void pass(int64_t ns) {
  for (int64_t end = sim_clock(SIM_WORLD) + ns; sim_clock(SIM_WORLD) < end;)
    sim_step(end);
}

static void each_has_its_own(void **state) {
  count a, b, timer = {.node = -1};
  (void)state;
  sim_begin(1, false);
  sim_node_t one = sim_node(), two = sim_node();
  submit(one, &a);
  submit(two, &b);
  sim_enter(two);
  assert_true(td_timer_start(td_clock_now() + second, fire, &timer) > 0);
  sim_leave();
  assert_int_equal(sim_here(), SIM_WORLD);
  assert_false(sim_waiting()); /* nothing of the world */
  pass(2 * second);
  assert_int_equal(a.node, one);
  assert_int_equal(b.node, two);
  assert_int_equal(timer.node, two);
  assert_int_equal(a.times + b.times + timer.times, 3);
}

static void paused_ones_rest(void **state) {
  count a, timer = {.node = -1};
  (void)state;
  sim_begin(2, false);
  sim_node_t n = sim_node();
  sim_pause(n);
  (void)sim_post(n, second, fire, &timer);
  pass(2 * second);
  assert_int_equal(timer.times, 0);
  sim_go_on(n);
  submit(n, &a);
  pass(second);
  assert_int_equal(timer.times, 1);
  assert_true(timer.at >= 2 * second);
  assert_int_equal(a.times, 1);
}

static void go_on(void *arg) {
  sim_go_on(*(int *)arg);
}

static void pause_it(void *arg) {
  sim_pause(*(int *)arg);
}

/* A call that waits does not come back while its process is stopped. */
static void a_paused_call_waits(void **state) {
  int32_t word = 0;
  (void)state;
  sim_begin(3, false);
  sim_node_t n = sim_node();
  (void)sim_post(SIM_WORLD, second, pause_it, &n);
  (void)sim_post(SIM_WORLD, 9 * second, go_on, &n);
  sim_enter(n);
  while (td_clock_now() < 2 * second) td_park(&word, 0, 2 * second);
  assert_true(td_clock_now() >= 9 * second);
  sim_leave();
}

static void clocks_are_shifted(void **state) {
  count timer = {.node = -1}, never = {.node = -1};
  (void)state;
  sim_begin(4, false);
  sim_node_t n = sim_node();
  sim_enter(n);
  (void)td_timer_start(100 * second, fire, &timer);
  uint64_t id = td_timer_start(101 * second, fire, &never);
  sim_leave();
  sim_shift(n, 99 * second);
  pass(2 * second);
  assert_int_equal(timer.times, 1);
  assert_true(sim_clock(SIM_WORLD) < 3 * second);
  td_timer_cancel(id);
  sim_enter(n);
  int64_t before = td_clock_now();
  sim_shift(n, -50 * second);
  assert_true(td_clock_now() >= before);
  sim_leave();
  pass(10 * second);
  assert_true(sim_clock(n) < before + second);
  assert_int_equal(never.times, 0);
}

static void a_slow_disk_is_late(void **state) {
  count a = {.task.run = run_task}, b = {.task.run = run_task};
  (void)state;
  sim_begin(7, false);
  sim_node_t n = sim_node();
  sim_enter(n);
  assert_true(td_io_submit(&a.task));
  sim_slow_disk(n, 10 * second);
  assert_true(td_io_submit(&b.task));
  sim_leave();
  pass(10 * second);
  assert_int_equal(a.times + b.times, 2);
  assert_true(a.at < second);
  assert_true(b.at > a.at);
}

static void dead_ones_are_tidied(void **state) {
  count task, timer = {.node = -1}, other = {.node = -1};
  (void)state;
  sim_begin(5, true);
  sim_node_t n = sim_node(), live = sim_node();
  submit(n, &task);
  (void)sim_post(n, second, fire, &timer);
  sim_kill(n);
  pass(10 * second);
  assert_int_equal(task.times + timer.times, 0);
  (void)sim_post(live, 11 * second, fire, &other);
  (void)sim_post(n, 1000 * second, fire, &timer);
  int64_t before = sim_clock(SIM_WORLD);
  sim_tidy(n, NULL, NULL);
  assert_int_equal(task.times, 1);
  assert_int_equal(timer.times, 2);
  assert_true(sim_clock(SIM_WORLD) < before + second);
  assert_int_equal(other.times, 0);
  pass(2 * second);
  assert_int_equal(other.times, 1);
}

/* A call of a process that is killed meanwhile: it ends, with what it waits
 * for, and then nothing runs any more. */
static int32_t word;

static void change(void *arg) {
  (void)arg;
  word = 1;
}

static void kill_it(void *arg) {
  sim_kill(*(int *)arg);
}

static void a_call_of_the_dead_ends(void **state) {
  count late = {.node = -1};
  (void)state;
  sim_begin(6, false);
  sim_node_t n = sim_node();
  word = 0;
  (void)sim_post(n, 2 * second, change, NULL);
  (void)sim_post(n, 3 * second, fire, &late);
  (void)sim_post(SIM_WORLD, second, kill_it, &n);
  sim_enter(n);
  while (!word) td_park(&word, 0, INT64_MAX);
  sim_leave();
  pass(5 * second);
  assert_int_equal(late.times, 0);
  sim_tidy(n, NULL, NULL);
  assert_int_equal(late.times, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_has_its_own),
      cmocka_unit_test(paused_ones_rest),
      cmocka_unit_test(a_paused_call_waits),
      cmocka_unit_test(clocks_are_shifted),
      cmocka_unit_test(a_slow_disk_is_late),
      cmocka_unit_test(dead_ones_are_tidied),
      cmocka_unit_test(a_call_of_the_dead_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
