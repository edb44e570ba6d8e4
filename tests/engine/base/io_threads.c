/* io_threads.c - tests of engine/base/io_threads.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/base/waiter.h"

static td_waiter changed; /* of all doors: lives on when a door has gone */

typedef struct door {
  int open;    /* atomic */
  int begun;   /* atomic: tasks that stand at the door or passed it */
  int over;    /* atomic */
  bool inside; /* some ran on a thread of the pool, or with signals open */
} door;

typedef struct work {
  td_task task;
  door *at;
} work;

static int get(const int *n) {
  return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void change(int *n, int by) {
  __atomic_fetch_add(n, by, __ATOMIC_ACQ_REL);
  td_waiter_wake(&changed);
}

static bool is_open(void *arg) {
  return get(&((door *)arg)->open) != 0;
}

static void await(bool (*ready)(void *arg), void *arg) {
  int64_t until = td_clock_now() + 60 * (int64_t)1000000000;
  assert_int_equal(td_waiter_wait(&changed, until, NULL, ready, arg),
                   TD_WAITED_READY);
}

/* Blocks, as a read would. */
static void pass(td_task *t) {
  work *w = (work *)t;
  door *g = w->at;
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  if (td_pool_inside() || !sigismember(&blocked, SIGINT))
    __atomic_store_n(&g->inside, true, __ATOMIC_RELAXED);
  change(&g->begun, 1);
  await(is_open, g);
  free(w);
  change(&g->over, 1);
}

static bool submit(door *g) {
  work *w = malloc(sizeof *w);
  *w = (work){{.run = pass}, g};
  if (td_io_submit(&w->task)) return true;
  free(w);
  return false;
}

static bool all_stand(void *arg) {
  return get(&((door *)arg)->begun) == TD_IO_THREADS;
}

typedef struct count {
  door *g;
  int want;
} count;

static bool are_over(void *arg) {
  count *c = arg;
  return get(&c->g->over) == c->want;
}

/* As many block as there are threads, the queue fills up, then says no. */
static void the_queue_is_bounded(void **state) {
  (void)state;
  door g = {0};
  int n = 0;
  for (; n < TD_IO_THREADS; n++) assert_true(submit(&g));
  await(all_stand, &g);
  assert_int_equal(td_io_threads(), TD_IO_THREADS);
  while (submit(&g)) n++;
  assert_int_equal(n, TD_IO_THREADS + TD_IO_QUEUED);
  change(&g.open, 1);
  count all = {&g, n};
  await(are_over, &all);
  assert_false(g.inside);
}

static bool nobody_is_left(void *arg) {
  (void)arg;
  return td_io_threads() == 0;
}

static void idle_threads_end(void **state) {
  (void)state;
  door g = {.open = 1};
  assert_true(submit(&g));
  count one = {&g, 1};
  await(are_over, &one);
  for (int i = 0; i < 6000 && !nobody_is_left(NULL); i++) usleep(10000);
  assert_int_equal(td_io_threads(), 0);
  assert_true(submit(&g)); /* and come back */
  one.want = 2;
  await(are_over, &one);
}

static void without_a_thread_it_says_no(void **state) {
  (void)state;
  for (int i = 0; i < 6000 && !nobody_is_left(NULL); i++) usleep(10000);
  door g = {.open = 1};
  td_mem_fail(1, true);
  bool ok = submit(&g);
  td_mem_fail(0, false);
  assert_false(ok);
  assert_int_equal(get(&g.begun), 0);
}

#ifndef __SANITIZE_THREAD__ /* its runtime lets no child start threads */
static void survives_fork(void **state) {
  (void)state;
  door g = {.open = 1};
  assert_true(submit(&g));
  count n = {&g, 1};
  await(are_over, &n);
  pid_t child = fork();
  if (child == 0) {
    door mine = {.open = 1};
    count one = {&mine, 1};
    if (td_io_threads() != 0 || !submit(&mine)) _exit(1);
    while (!are_over(&one)) usleep(1000);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_queue_is_bounded),
      cmocka_unit_test(idle_threads_end),
      cmocka_unit_test(without_a_thread_it_says_no),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(survives_fork),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
