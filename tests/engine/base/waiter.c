/* waiter.c - tests of engine/base/waiter.h.
 *
 * Where a wake-up could be lost the wait has neither deadline nor interrupt: a
 * lost one hangs the test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/base/waiter.h"

static const int64_t ms = 1000000;

static int get(const int *n) {
  return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}
static void set(int *n, int to) {
  __atomic_store_n(n, to, __ATOMIC_RELEASE);
}

static bool is_set(void *arg) {
  return get(arg) != 0;
}
static bool never(void *arg) {
  (void)arg;
  return false;
}

static pthread_t start(void *(*run)(void *), void *arg) {
  pthread_t t;
  assert_true(td_thread_start(&t, "test", -1, run, arg));
  return t;
}

static void sleeps_until_asleep(const td_waiter *w) {
  while (__atomic_load_n(&w->waiting, __ATOMIC_ACQUIRE) == 0) sched_yield();
  usleep(2000);
}

/* ---- why it ends --------------------------------------------------------- */

static void says_why_it_ends(void **state) {
  (void)state;
  td_waiter w = {0};
  int yes = 1, no = 0;
  static const td_waited ready = TD_WAITED_READY,
                         interrupted = TD_WAITED_INTERRUPT,
                         late = TD_WAITED_DEADLINE;
  assert_int_equal(td_waiter_wait(&w, 0, &yes, is_set, &yes), ready);
  assert_int_equal(td_waiter_wait(&w, 0, &yes, is_set, &no), interrupted);
  assert_int_equal(td_waiter_wait(&w, 0, &no, is_set, &no), late);
  assert_int_equal(td_waiter_wait(&w, INT64_MAX, NULL, is_set, &yes), ready);
  int64_t at = td_clock_now() + 5 * ms;
  assert_int_equal(td_waiter_wait(&w, at, NULL, is_set, &no), late);
  assert_true(td_clock_now() >= at);
  at = td_clock_now() + 50 * ms; /* longer than between looks at `no` */
  assert_int_equal(td_waiter_wait(&w, at, &no, is_set, &no), late);
  assert_true(td_clock_now() >= at);
  assert_int_equal(w.waiting, 0);
}

static int64_t fake; /* atomic */
static int64_t fake_now(void) {
  return __atomic_load_n(&fake, __ATOMIC_ACQUIRE);
}

static void *wait_by_fake_clock(void *arg) {
  static int no;
  td_waited *why = (td_waited *)((td_waiter *)arg + 1);
  *why = td_waiter_wait(arg, 1000 * ms, NULL, is_set, &no);
  return NULL;
}

/* The clock stands still, goes back, leaps: the deadline is where it is. */
static void deadlines_follow_the_clock(void **state) {
  (void)state;
  struct {
    td_waiter w;
    td_waited why;
  } x = {.why = TD_WAITED_READY};
  __atomic_store_n(&fake, 500 * ms, __ATOMIC_RELEASE);
  td_clock_set(fake_now);
  pthread_t t = start(wait_by_fake_clock, &x);
  sleeps_until_asleep(&x.w);
  __atomic_store_n(&fake, 0, __ATOMIC_RELEASE);
  usleep(10000);
  assert_int_equal(__atomic_load_n(&x.w.waiting, __ATOMIC_ACQUIRE), 1);
  __atomic_store_n(&fake, 7000 * ms, __ATOMIC_RELEASE);
  pthread_join(t, NULL);
  assert_int_equal(x.why, TD_WAITED_DEADLINE);
  td_clock_set(NULL);
}

/* ---- waking -------------------------------------------------------------- */

enum { ROUNDS = 20000, PLAYERS = 4 };

typedef struct table {
  td_waiter w;
  int turn; /* atomic: whose */
} table;

typedef struct player {
  table *at;
  int number;
} player;

static bool my_turn(void *arg) {
  player *p = arg;
  return get(&p->at->turn) % PLAYERS == p->number;
}

static void *play(void *arg) {
  player *p = arg;
  for (int i = 0; i < ROUNDS / PLAYERS; i++) {
    if (td_waiter_wait(&p->at->w, INT64_MAX, NULL, my_turn, p) !=
        TD_WAITED_READY)
      return arg;
    __atomic_fetch_add(&p->at->turn, 1, __ATOMIC_ACQ_REL);
    td_waiter_wake(&p->at->w);
  }
  return NULL;
}

static void no_wake_up_is_lost(void **state) {
  (void)state;
  table t = {0};
  player p[PLAYERS];
  pthread_t thread[PLAYERS];
  for (int i = 0; i < PLAYERS; i++) {
    p[i] = (player){&t, i};
    thread[i] = start(play, &p[i]);
  }
  for (int i = 0; i < PLAYERS; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    assert_null(failed);
  }
  assert_int_equal(t.turn, ROUNDS);
  assert_int_equal(t.w.waiting, 0);
}

static void waking_nobody_changes_nothing(void **state) {
  (void)state;
  td_waiter w = {0};
  for (int i = 0; i < 1000; i++) td_waiter_wake(&w);
  td_waiter_wake_here();
  assert_int_equal(w.turn, 0);
}

/* ---- signals ------------------------------------------------------------- */

static int heard; /* atomic; counted by the handler */
static int asked; /* atomic; signals that were waited for */

static void on_signal(int number) {
  (void)number;
  __atomic_fetch_add(&heard, 1, __ATOMIC_ACQ_REL);
  td_waiter_wake_here();
}

static void *signal_often(void *arg) {
  for (int i = 0; i < 3000; i++) {
    while (get(&asked) < i) sched_yield();
    for (volatile int k = i * 7 % 3000; k > 0; k--) {
    }
    pthread_kill(*(pthread_t *)arg, SIGUSR1);
  }
  return NULL;
}

static bool is_heard(void *arg) {
  return get(&heard) > *(int *)arg;
}

/* The thread sanitizer keeps a handler back until the thread's next look. */
#ifdef __SANITIZE_THREAD__
static const int polled, *const no_poll = &polled;
#else
static const int *const no_poll;
#endif

/* The handler runs between any two instructions of the wait. No poll helps. */
static void a_signal_wakes_at_once(void **state) {
  (void)state;
  td_waiter w = {0};
  struct sigaction was, a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &a, &was);
  pthread_t self = pthread_self(), t = start(signal_often, &self);
  for (int i = 0; i < 3000; i++) {
    assert_int_equal(td_waiter_wait(&w, INT64_MAX, no_poll, is_heard, &i),
                     TD_WAITED_READY);
    set(&asked, i + 1);
  }
  pthread_join(t, NULL);
  sigaction(SIGUSR1, &was, NULL);
}

/* Set by whom knows no waiter. */
static void *set_later(void *arg) {
  usleep(5000);
  set(arg, 1);
  return NULL;
}

static void an_interrupt_needs_no_wake(void **state) {
  (void)state;
  td_waiter w = {0};
  int flag = 0;
  pthread_t t = start(set_later, &flag);
  assert_int_equal(td_waiter_wait(&w, INT64_MAX, &flag, never, NULL),
                   TD_WAITED_INTERRUPT);
  pthread_join(t, NULL);
}

/* ---- the mailbox --------------------------------------------------------- */

enum { LETTERS = 2000, WRITERS = 3 };

typedef struct desk {
  td_waiter w;
  pthread_t reader;
  int next[WRITERS]; /* what is to arrive, of each */
  int n;             /* atomic */
} desk;

typedef struct letter {
  td_task task;
  desk *to;
  int from, number;
} letter;

static void open_letter(td_task *t) {
  letter *l = (letter *)t;
  assert_true(pthread_equal(l->to->reader, pthread_self()));
  assert_int_equal(l->to->next[l->from]++, l->number);
  __atomic_fetch_add(&l->to->n, 1, __ATOMIC_ACQ_REL);
  free(l);
}

typedef struct writer {
  desk *to;
  int number;
} writer;

static void *write_letters(void *arg) {
  writer *me = arg;
  for (int i = 0; i < LETTERS; i++) {
    letter *l = malloc(sizeof *l);
    *l = (letter){{.run = open_letter}, me->to, me->number, i};
    td_waiter_post(&me->to->w, &l->task);
  }
  return NULL;
}

static bool all_came(void *arg) {
  return get(&((desk *)arg)->n) == LETTERS * WRITERS;
}

static void the_mailbox_keeps_order(void **state) {
  (void)state;
  desk d = {.reader = pthread_self()};
  writer me[WRITERS];
  pthread_t t[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    me[i] = (writer){&d, i};
    t[i] = start(write_letters, &me[i]);
  }
  assert_int_equal(td_waiter_wait(&d.w, INT64_MAX, NULL, all_came, &d),
                   TD_WAITED_READY);
  for (int i = 0; i < WRITERS; i++) pthread_join(t[i], NULL);
  assert_false(td_waiter_run(&d.w));
}

typedef struct nested {
  td_task task, answer;
  td_waiter *w;
  int answered, done;
} nested;

static void give_answer(td_task *t) {
  nested *n = (nested *)((char *)t - offsetof(nested, answer));
  n->answered = 1;
}

/* Runs within a wait, posts to the same waiter, and waits for that. */
static void ask(td_task *t) {
  nested *n = (nested *)t;
  n->answer.run = give_answer;
  td_waiter_post(n->w, &n->answer);
  td_waited why = td_waiter_wait(n->w, INT64_MAX, NULL, is_set, &n->answered);
  assert_int_equal(why, TD_WAITED_READY);
  n->done = 1;
}

static void a_task_may_wait(void **state) {
  (void)state;
  td_waiter w = {0};
  nested n = {.task.run = ask, .w = &w};
  td_waiter_post(&w, &n.task);
  assert_int_equal(td_waiter_wait(&w, INT64_MAX, NULL, is_set, &n.done),
                   TD_WAITED_READY);
  assert_int_equal(w.waiting, 0);
}

static void nobody_waits_and_mail_is_kept(void **state) {
  (void)state;
  td_waiter w = {0};
  nested n = {.answer.run = give_answer};
  td_waiter_post(&w, &n.answer);
  assert_int_equal(n.answered, 0);
  assert_true(td_waiter_run(&w));
  assert_int_equal(n.answered, 1);
  assert_false(td_waiter_run(&w));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_why_it_ends),
      cmocka_unit_test(deadlines_follow_the_clock),
      cmocka_unit_test(no_wake_up_is_lost),
      cmocka_unit_test(waking_nobody_changes_nothing),
      cmocka_unit_test(a_signal_wakes_at_once),
      cmocka_unit_test(an_interrupt_needs_no_wake),
      cmocka_unit_test(the_mailbox_keeps_order),
      cmocka_unit_test(a_task_may_wait),
      cmocka_unit_test(nobody_waits_and_mail_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
