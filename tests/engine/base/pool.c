/* pool.c - tests of engine/base/pool.h.
 *
 * On eight threads, however many processors there are, so that workers are
 * interrupted in the middle of everything.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cpu.h"
#include "engine/base/mem.h"
#include "engine/base/pool.h"

enum { THREADS = 8 };

static int get(const int *n) {
  return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}
static void add(int *n, int by) {
  __atomic_fetch_add(n, by, __ATOMIC_ACQ_REL);
}

static void wait_for(const int *n, int want) {
  for (int i = 0; get(n) != want; i++) {
    if (i > 60000) fail_msg("%d, expected %d after 60 s", get(n), want);
    usleep(1000);
  }
}

/* Work that takes a while even for an optimizing compiler. */
static void burn(int64_t ns) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  do clock_gettime(CLOCK_MONOTONIC, &b);
  while ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < ns);
}

/* ---- tasks --------------------------------------------------------------- */

typedef struct counted {
  td_task task;
  int *n;
  int left; /* how often it submits itself again */
  bool seen_inside;
} counted;

static void run_and_free(td_task *t) {
  counted *c = (counted *)t;
  add(c->n, 1);
  free(c);
}

static counted *new_counted(int *n, void (*run)(td_task *)) {
  counted *c = calloc(1, sizeof *c);
  c->task.run = run;
  c->n = n;
  return c;
}

static void run_again(td_task *t) {
  counted *c = (counted *)t;
  c->seen_inside = td_pool_inside();
  if (c->left-- > 0)
    td_pool_submit(t);
  else
    add(c->n, 1);
}

static void touch(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) add((int *)arg + i, 1);
}

/* No thread can be had: tasks run here, a chain of 10^6 does not eat the stack,
 * a loop is done alone. The first test, so that no worker is there yet; a
 * second later the pool tries again. */
static void runs_here_without_threads(void **state) {
  (void)state;
  int n = 0, x[100] = {0};
  counted c = {.task.run = run_again, .n = &n, .left = 1000000};
  td_mem_fail(1, true);
  td_pool_submit(&c.task);
  td_parallel_for(4, 100, 3, touch, x, NULL);
  td_mem_fail(0, false);
  assert_int_equal(n, 1);
  assert_false(c.seen_inside);
  for (int i = 0; i < 100; i++) assert_int_equal(x[i], 1);
  usleep(1100000);
  c = (counted){.task.run = run_again, .n = &n};
  td_pool_submit(&c.task);
  wait_for(&n, 2);
  assert_true(c.seen_inside);
}

static void every_task_runs_once(void **state) {
  (void)state;
  enum { N = 20000 };
  int n = 0;
  int64_t before = td_pool_read_stats().tasks;
  for (int i = 0; i < N; i++)
    td_pool_submit(&new_counted(&n, run_and_free)->task);
  wait_for(&n, N);
  assert_int_equal(td_pool_read_stats().tasks - before, N);
  assert_int_equal(td_pool_size(), THREADS);
  assert_false(td_pool_inside());
}

static void a_task_may_submit_itself(void **state) {
  (void)state;
  enum { N = 20 };
  int n = 0;
  counted c[N];
  for (int i = 0; i < N; i++) {
    c[i] = (counted){.task.run = run_again, .n = &n, .left = 500};
    td_pool_submit(&c[i].task);
  }
  wait_for(&n, N);
  for (int i = 0; i < N; i++) assert_true(c[i].seen_inside);
}

static void *submit_many(void *arg) {
  for (int i = 0; i < 3000; i++) {
    td_pool_submit(&new_counted(arg, run_and_free)->task);
    if (i % 500 == 0) usleep(200); /* lets workers fall asleep */
  }
  return NULL;
}

static void threads_submit(void **state) {
  (void)state;
  int n = 0;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, submit_many, &n);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  wait_for(&n, 12000);
}

typedef struct meeting {
  td_task task;
  int *here; /* atomic: how many have come */
  int all;
  int *gone;
} meeting;

static void wait_for_all(td_task *t) {
  meeting m = *(meeting *)t;
  add(m.here, 1);
  while (get(m.here) < m.all) usleep(50);
  add(m.gone, 1);
}

/* As many tasks as workers, which end only when all have begun: a worker left
 * asleep would hang the test. */
static void tasks_run_side_by_side(void **state) {
  (void)state;
  for (int round = 0; round < 50; round++) {
    int here = 0, gone = 0;
    meeting m[THREADS];
    if (round % 2) usleep(2000); /* let all fall asleep */
    for (int i = 0; i < THREADS; i++) {
      m[i] = (meeting){{.run = wait_for_all}, &here, THREADS, &gone};
      td_pool_submit(&m[i].task);
    }
    wait_for(&gone, THREADS);
  }
}

/* Runs fn on four threads of the test; it returns NULL or what is wrong. */
static void on_threads(void *(*fn)(void *)) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, fn, NULL);
  for (int i = 0; i < 4; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    if (wrong) fail_msg("%s", (const char *)wrong);
  }
}

/* ---- loops --------------------------------------------------------------- */

enum { MAX_PIECES = 2000 };

typedef struct pieces {
  int n; /* atomic */
  int64_t at[MAX_PIECES][2];
  pthread_t by[MAX_PIECES];
} pieces;

static void note_piece(void *arg, int64_t begin, int64_t end) {
  pieces *p = arg;
  int i = __atomic_fetch_add(&p->n, 1, __ATOMIC_ACQ_REL);
  if (i >= MAX_PIECES) return; /* counted: the test sees it */
  p->at[i][0] = begin, p->at[i][1] = end;
  p->by[i] = pthread_self();
}

static int by_begin(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The pieces are those of (n, grain) on any number of threads. */
static void pieces_follow_n_and_grain(void **state) {
  (void)state;
  static const struct {
    int64_t n, grain;
    int pieces;
  } rows[] = {
      {0, 1, 0},
      {-5, 1, 0},
      {1, 1, 1},
      {1, 100, 1},
      {10, 10, 1},
      {10, 9, 2},
      {10, 3, 4},
      {1000, 1, 1000},
      {1000, 7, 143},
      {3, 0, 3},
      {3, -1, 3},
      {1999, 1, 1999},
      {INT64_MAX, INT64_MAX, 1},
      {INT64_MAX, INT64_MAX / 2, 3},
      {INT64_MAX, INT64_MAX - 1, 2},
  };
  static const int threads[] = {-1, 0, 1, 2, 3, 8, 100000};
  static pieces p;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    for (size_t k = 0; k < TD_COUNT(threads); k++) {
      int64_t grain = rows[i].grain < 1 ? 1 : rows[i].grain, at = 0;
      p.n = 0;
      td_parallel_for(threads[k], rows[i].n, rows[i].grain, note_piece, &p,
                      NULL);
      assert_int_equal(p.n, rows[i].pieces);
      qsort(p.at, (size_t)p.n, sizeof p.at[0], by_begin);
      for (int j = 0; j < p.n; j++) {
        assert_int_equal(p.at[j][0], at);
        at += rows[i].n - at < grain ? rows[i].n - at : grain;
        assert_int_equal(p.at[j][1], at);
      }
      if (rows[i].n > 0) assert_int_equal(at, rows[i].n);
    }
}

static void one_thread_is_the_caller_in_order(void **state) {
  (void)state;
  static pieces p;
  td_pool_stats before = td_pool_read_stats();
  td_parallel_for(1, 1000, 1, note_piece, &p, NULL);
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(p.at[i][0], i);
    assert_true(pthread_equal(p.by[i], pthread_self()));
  }
  assert_int_equal(td_pool_read_stats().wakeups, before.wakeups);
}

typedef struct pair {
  int here; /* atomic */
} pair;

static void wait_for_other(void *arg, int64_t begin, int64_t end) {
  pair *p = arg;
  (void)begin, (void)end;
  add(&p->here, 1);
  while (get(&p->here) < THREADS + 1) usleep(20);
}

/* The caller and every worker at once, whether they slept or not. */
static void helpers_come(void **state) {
  (void)state;
  for (int round = 0; round < 50; round++) {
    pair p = {0};
    if (round % 2) usleep(2000);
    td_parallel_for(THREADS + 1, THREADS + 1, 1, wait_for_other, &p, NULL);
    assert_int_equal(p.here, THREADS + 1);
  }
}

typedef struct limit {
  int now, most; /* atomic */
} limit;

static void count_at_once(void *arg, int64_t begin, int64_t end) {
  limit *l = arg;
  (void)begin, (void)end;
  int now = __atomic_add_fetch(&l->now, 1, __ATOMIC_ACQ_REL);
  int most = get(&l->most);
  while (now > most &&
         !__atomic_compare_exchange_n(&l->most, &most, now, false,
                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  usleep(50);
  add(&l->now, -1);
}

static void *loop_within_limits(void *arg) {
  (void)arg;
  for (int threads = 1; threads <= 5; threads++) {
    limit l = {0, 0};
    td_parallel_for(threads, 200, 1, count_at_once, &l, NULL);
    if (l.most < 1 || l.most > threads) return "too many threads";
  }
  return NULL;
}

/* Four loops at a time, so that workers are awake and look for more. */
static void never_more_than_threads(void **state) {
  (void)state;
  on_threads(loop_within_limits);
}

static void inner_loop(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    td_parallel_for(4, 100, 7, touch, (int *)arg + i * 100, NULL);
}

typedef struct nest {
  td_task task;
  int x[100 * 100];
  int *done;
} nest;

static void run_nest(td_task *t) {
  nest *n = (nest *)t;
  td_parallel_for(4, 100, 3, inner_loop, n->x, NULL);
  add(n->done, 1);
}

/* Loops in loops, on more tasks than there are workers. */
static void loops_nest(void **state) {
  (void)state;
  enum { N = 2 * THREADS };
  int done = 0;
  nest *n = calloc(N, sizeof *n);
  for (int i = 0; i < N; i++) {
    n[i].task.run = run_nest;
    n[i].done = &done;
    td_pool_submit(&n[i].task);
  }
  inner_loop(n[0].x, 0, 0);
  wait_for(&done, N);
  for (int i = 0; i < N; i++)
    for (int k = 0; k < 10000; k++) assert_int_equal(n[i].x[k], 1);
  free(n);
}

/* Many short loops on stacks that are reused at once: a helper that touched one
 * after its return would destroy the next. */
static void *loop_often(void *arg) {
  int x[64] = {0};
  (void)arg;
  for (int i = 1; i <= 5000; i++) {
    td_parallel_for(1 + i % 5, 64, 1 + i % 9, touch, x, NULL);
    for (int k = 0; k < 64; k++)
      if (get(&x[k]) != i) return "a piece is missing or came twice";
  }
  return NULL;
}

static void many_callers(void **state) {
  (void)state;
  on_threads(loop_often);
}

typedef struct stopper {
  int stop; /* atomic */
  int begun;
} stopper;

static void stop_at_tenth(void *arg, int64_t begin, int64_t end) {
  stopper *s = arg;
  (void)begin, (void)end;
  int n = __atomic_add_fetch(&s->begun, 1, __ATOMIC_ACQ_REL);
  if (n == 10) __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
  while (n > 10 && !get(&s->stop)) sched_yield();
}

static void stops(void **state) {
  (void)state;
  for (int threads = 1; threads <= 8; threads++) {
    stopper s = {0, 0};
    td_parallel_for(threads, INT64_MAX, 1, stop_at_tenth, &s, &s.stop);
    assert_in_range(s.begun, 10, 10 + threads);
    s.begun = 0;
    td_parallel_for(threads, 1000, 1, stop_at_tenth, &s, &s.stop);
    assert_int_equal(s.begun, 0);
  }
}

static _Thread_local int in_loop;

static void mark_and_burn(void *arg, int64_t begin, int64_t end) {
  (void)arg, (void)begin, (void)end;
  in_loop++;
  burn(1000);
  in_loop--;
}

typedef struct strict {
  td_task task;
  int *wrong, *done;
  bool loops;
} strict;

/* Loops inside a piece wait for their helpers; a task that ran on a thread that
 * waits so would find in_loop set. */
static void nested_wait(void *arg, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  in_loop++;
  td_parallel_for(3, 6, 1, mark_and_burn, arg, NULL);
  in_loop--;
}

static void run_strict(td_task *t) {
  strict *s = (strict *)t;
  if (in_loop) add(s->wrong, 1);
  if (s->loops) td_parallel_for(3, 10, 1, nested_wait, NULL, NULL);
  add(s->done, 1);
}

static void who_waits_runs_no_other_work(void **state) {
  (void)state;
  enum { N = 400 };
  static strict s[N];
  int wrong = 0, done = 0;
  for (int i = 0; i < N; i++) {
    s[i] = (strict){{.run = run_strict}, &wrong, &done, i % 4 == 0};
    td_pool_submit(&s[i].task);
  }
  wait_for(&done, N);
  assert_int_equal(wrong, 0);
}

static void note_mode(void *arg, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  burn(20000);
  if ((td_cpu_flush_get() & 0x8040) == 0x8040) add(arg, 1);
}

static void helpers_take_the_float_mode(void **state) {
  (void)state;
  int flushed = 0;
  unsigned was = td_cpu_flush_on();
  td_parallel_for(8, 200, 1, note_mode, &flushed, NULL);
  assert_int_equal(flushed, 200);
  td_cpu_flush_restore(was);
  td_parallel_for(8, 200, 1, note_mode, &flushed, NULL);
  assert_int_equal(flushed, 200);
}

static void takes_no_memory(void **state) {
  (void)state;
  int x[1000] = {0}, n = 0;
  counted c = {.task.run = run_again, .n = &n, .left = 100};
  int64_t before = td_mem_calls();
  for (int i = 0; i < 100; i++) td_parallel_for(8, 1000, 10, touch, x, NULL);
  td_pool_submit(&c.task);
  wait_for(&n, 1);
  assert_int_equal(td_mem_calls(), before);
}

/* ---- each ---------------------------------------------------------------- */

static _Thread_local int visits;

static void visit(void *arg) {
  visits++;
  if (!td_pool_inside()) add(arg, 1000000);
  add(arg, 1);
}

static void *each_often(void *arg) {
  (void)arg;
  for (int i = 0; i < 50; i++) {
    int n = 0;
    td_pool_each(visit, &n);
    if (n != THREADS) return "not once on every thread";
  }
  return NULL;
}

typedef struct each_task {
  td_task task;
  const char *wrong;
  int *done;
} each_task;

static void run_each(td_task *t) {
  each_task *e = (each_task *)t;
  e->wrong = each_often(NULL);
  add(e->done, 1);
}

/* From outside, and from workers that must serve each other meanwhile. */
static void each_visits_every_worker(void **state) {
  (void)state;
  each_task tasks[3];
  int done = 0;
  visits = 0;
  for (int i = 0; i < 3; i++) {
    tasks[i] = (each_task){{.run = run_each}, NULL, &done};
    td_pool_submit(&tasks[i].task);
  }
  on_threads(each_often);
  wait_for(&done, 3);
  for (int i = 0; i < 3; i++) assert_null(tasks[i].wrong);
  assert_int_equal(visits, 0); /* not here */
}

/* ---- rest and fork ------------------------------------------------------- */

static int64_t cpu_us(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * INT64_C(1000000) +
         r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

/* After a burst of work eight workers rest: were one to spin on, it would use
 * all of the 300 ms. */
static void idle_uses_no_cpu(void **state) {
  (void)state;
  int x[1000] = {0};
  for (int i = 0; i < 100; i++) td_parallel_for(8, 1000, 10, touch, x, NULL);
  usleep(20000);
  int64_t before = cpu_us();
  usleep(300000);
  assert_true(cpu_us() - before < 100000);
}

#ifndef __SANITIZE_THREAD__ /* its runtime lets no child start threads */
static int work_in_child(void) {
  int x[1000] = {0}, n = 0, all = 0;
  if (td_pool_inside() || td_pool_read_stats().tasks) return 1;
  td_parallel_for(8, 1000, 10, touch, x, NULL);
  for (int i = 0; i < 1000; i++)
    if (x[i] != 1) return 2;
  for (int i = 0; i < 100; i++)
    td_pool_submit(&new_counted(&n, run_and_free)->task);
  for (int i = 0; get(&n) < 100; i++) {
    if (i > 60000) return 3;
    usleep(1000);
  }
  td_pool_each(visit, &all);
  return all == THREADS ? 0 : 4;
}

typedef struct forker {
  td_task task;
  int status, done;
} forker;

static void run_fork(td_task *t) {
  forker *f = (forker *)t;
  pid_t child = fork();
  if (child == 0) _exit(work_in_child());
  waitpid(child, &f->status, 0);
  add(&f->done, 1);
}

/* The child's pool is empty and starts anew, while the parent's is at work. */
static void survives_fork(void **state) {
  (void)state;
  int n = 0;
  for (int round = 0; round < 10; round++) {
    counted c = {.task.run = run_again, .n = &n, .left = 3000};
    td_pool_submit(&c.task);
    pid_t child = fork();
    if (child == 0) _exit(work_in_child());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    wait_for(&n, round + 1);
  }
  forker f = {.task.run = run_fork}; /* and from a thread of the pool */
  td_pool_submit(&f.task);
  wait_for(&f.done, 1);
  assert_int_equal(f.status, 0);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_here_without_threads), /* must be the first */
      cmocka_unit_test(every_task_runs_once),
      cmocka_unit_test(a_task_may_submit_itself),
      cmocka_unit_test(threads_submit),
      cmocka_unit_test(tasks_run_side_by_side),
      cmocka_unit_test(pieces_follow_n_and_grain),
      cmocka_unit_test(one_thread_is_the_caller_in_order),
      cmocka_unit_test(helpers_come),
      cmocka_unit_test(never_more_than_threads),
      cmocka_unit_test(loops_nest),
      cmocka_unit_test(many_callers),
      cmocka_unit_test(stops),
      cmocka_unit_test(who_waits_runs_no_other_work),
      cmocka_unit_test(helpers_take_the_float_mode),
      cmocka_unit_test(takes_no_memory),
      cmocka_unit_test(each_visits_every_worker),
      cmocka_unit_test(idle_uses_no_cpu),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(survives_fork),
#endif
  };
  setenv("TIDE_THREADS", "8", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
